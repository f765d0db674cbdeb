//! The log of the process and the audit log.

use super::*;

/// LGG-01, LGG-02.
#[test]
fn the_log_goes_to_stderr_and_elsewhere_where_that_is_asked_for() {
    let logging = Case::file("").config().logging;
    let slow_request = Some(Duration::from_secs(3));
    let to = LogOutput::Stderr;
    let expected = LoggingConfig { levels: None, is_json: false, to, otlp: None, slow_request };
    assert_eq!(logging, expected);
    assert_eq!(Case::file("zebu.slowRequest.millis=0").config().logging.slow_request, None);
    let text = "zebu.log.level=warn, zebu_zab=DEBUG\nzebu.log.format=JSON\nzebu.log.to=file\nzebu.log.rotate=hourly";
    let logging = Case::file(text).define("zookeeper.log.dir=/var/log").config().logging;
    assert_eq!((logging.levels.as_deref(), logging.is_json), (Some("warn, zebu_zab=DEBUG"), true));
    let LogOutput::File(file) = logging.to else { panic!("{:?}", logging.to) };
    assert_eq!(file.path, Path::new("/var/log/zookeeper.log"));
    assert_eq!((file.bytes_max, file.files_max, file.period), (10 << 20, 11, FilePeriod::Hour));
    assert_eq!(Case::file("zebu.log.to=journald").config().logging.to, LogOutput::Journald);
    let levels = "off, error, warn, info, debug, trace";
    for (line, fault) in [
        ("zebu.log.level=loud", format!("\"loud\" is not a level: {levels}")),
        ("zebu.log.level=info,zebu=3", format!("\"3\" is not a level: {levels}")),
        (
            "zebu.log.level=info,a b=warn",
            "\"a b\" is not the name of a module, such as zebu_zab".to_owned(),
        ),
        ("zebu.log.to=otlp", "expected one of stderr, file, journald".to_owned()),
    ] {
        Case::file(line).fails(&format!("zoo.cfg:3: {line}: {fault}"));
    }
}

#[test]
fn a_collector_gets_the_log_where_an_address_is_given() {
    let text = "zebu.log.otlp.endpoint=http://collector:4318\n\
                zebu.log.otlp.headers=Authorization=Basic%20YTpi,X-Scope=a\n\
                zebu.log.otlp.attributes=service.name=zk,a=b%2Cc";
    let case = Case::file(text);
    let otlp = case.config().logging.otlp.unwrap();
    assert_eq!(otlp.endpoint, "http://collector:4318/v1/logs");
    assert_eq!(
        (&otlp.headers["authorization"], &otlp.headers["x-scope"]),
        (&"Basic YTpi".parse().unwrap(), &"a".parse().unwrap())
    );
    let attributes = [("service.name", "zk"), ("a", "b,c")];
    assert_eq!(
        otlp.attributes,
        attributes.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    for (line, fault) in [
        (
            "zebu.log.otlp.endpoint=collector:4317",
            "expected an address such as http://127.0.0.1:4318/v1/logs",
        ),
        ("zebu.log.otlp.headers=secret", "pair 1 has no \"=\""),
        ("zebu.log.otlp.attributes=a", "pair 1 has no \"=\""),
    ] {
        let line_shown = line.replace("secret", "********");
        Case::file(line).fails(&format!("zoo.cfg:3: {line_shown}: {fault}"));
    }
}

/// Defaults: the guide of audit logs, and the appender of the original's `logback.xml`.
#[test]
fn the_audit_log_is_off_and_written_where_the_original_writes_it() {
    assert_eq!(Case::file("").config().audit, None);
    let class = "audit.impl.class=org.apache.zookeeper.audit.Slf4jAuditLogger";
    let audit = Case::file(&format!("audit.enable=true\n{class}")).config().audit.unwrap();
    assert_eq!(audit.path, Path::new("./zookeeper_audit.log"));
    assert_eq!((audit.bytes_max, audit.files_max), (10 << 20, 11));
    assert_eq!(audit.period, FilePeriod::Ever);
    let case = Case::file("audit.enable=TRUE\nzebu.audit.files=3\nzebu.audit.rotate=daily")
        .define("zookeeper.log.dir=/var/log/zk")
        .define("zookeeper.auditlog.file=a.log")
        .set("zebu.audit.fileMegabytes=1");
    let audit = case.config().audit.unwrap();
    assert_eq!(audit.path, Path::new("/var/log/zk/a.log"));
    assert_eq!((audit.bytes_max, audit.files_max, audit.period), (1 << 20, 3, FilePeriod::Day));
    let fault = Case::file("zebu.audit.rotate=weekly").load().unwrap_err().to_string();
    assert!(fault.contains("zoo.cfg:3: zebu.audit.rotate=weekly"), "{fault}");
}
