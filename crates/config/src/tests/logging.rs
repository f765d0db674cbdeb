//! The log of the process and the audit log.

use super::*;

/// LGG-01, LGG-02.
#[test]
fn the_log_goes_to_stderr_and_elsewhere_where_that_is_asked_for() {
    let logging = Case::file("").config().logging;
    let slow_request = Some(Duration::from_secs(3));
    let outputs = vec![LogOutput { to: LogTarget::Stderr { is_json: false }, threshold: None }];
    let expected = LoggingConfig { levels: None, outputs, otlp: None, trace: None, slow_request };
    assert_eq!(logging, expected);
    assert_eq!(Case::file("zebu.slowRequest.millis=0").config().logging.slow_request, None);
    let text = "zebu.log.level=warn, zebu_zab=DEBUG\nzebu.log.format=JSON\nzebu.log.to=file\nzebu.log.rotate=hourly";
    let logging = Case::file(text).define("zookeeper.log.dir=/var/log").config().logging;
    assert_eq!(logging.levels.as_deref(), Some("warn, zebu_zab=DEBUG"));
    let [LogOutput { to: LogTarget::File { file, is_json: true }, .. }] = &logging.outputs[..]
    else {
        panic!("{:?}", logging.outputs)
    };
    assert_eq!(file.path, Path::new("/var/log/zookeeper.log"));
    assert_eq!((file.bytes_max, file.files_max, file.period), (10 << 20, 11, FilePeriod::Hour));
    let outputs = Case::file("zebu.log.to=journald").config().logging.outputs;
    assert_eq!(outputs, [LogOutput { to: LogTarget::Journald, threshold: None }]);
    let levels = "off, error, warn, info, debug, trace";
    for (line, fault) in [
        ("zebu.log.level=loud", format!("\"loud\" is not a level: {levels}")),
        ("zebu.log.level=info,zebu=3", format!("\"3\" is not a level: {levels}")),
        (
            "zebu.log.level=info,a b=warn",
            "\"a b\" is not the name of a module, such as zebu_zab".to_owned(),
        ),
        ("zebu.log.to=otlp", "\"otlp\" is not an output: stderr, file, journald".to_owned()),
        ("zebu.log.to=stderr,", "\"\" is not an output: stderr, file, journald".to_owned()),
        ("zebu.log.to=file,File", "file is there twice".to_owned()),
        (
            "zebu.log.threshold=stderr=loud",
            "\"loud\" is not a level: error, warn, info, debug, trace".to_owned(),
        ),
        ("zebu.log.threshold=file=warn", "zebu.log.to does not name file".to_owned()),
        ("zebu.log.threshold=warn,info", "there are two levels for all outputs".to_owned()),
        ("zebu.log.format=xml", "\"xml\" is not a format: text, json".to_owned()),
        ("zebu.log.format=stderr=", "\"\" is not a format: text, json".to_owned()),
        ("zebu.log.format=text,json", "there are two formats for all outputs".to_owned()),
        ("zebu.log.format=stderr=text,stderr=json", "stderr has two formats".to_owned()),
        ("zebu.log.format=file=json", "zebu.log.to does not name file".to_owned()),
        ("zebu.log.format=journald=json", "zebu.log.to does not name journald".to_owned()),
        (
            "zebu.log.format=tape=json",
            "\"tape\" is not an output: stderr, file, journald".to_owned(),
        ),
    ] {
        Case::file(line).fails(&format!("zoo.cfg:3: {line}: {fault}"));
    }
    let line = "zebu.log.format=journald=json";
    let fault = format!("zoo.cfg:4: {line}: entries of journald have no format");
    Case::file(&format!("zebu.log.to=journald\n{line}")).fails(&fault);
}

/// LGG-04.
#[test]
fn several_outputs_have_one_format_or_each_its_own() {
    let outputs = |format: &str| {
        let to = "zebu.log.to=stderr, FILE,journald\n";
        let outputs = Case::file(&format!("{to}{format}")).config().logging.outputs;
        match &outputs[..] {
            [
                LogOutput { to: LogTarget::Stderr { is_json: stderr }, .. },
                LogOutput { to: LogTarget::File { is_json: file, .. }, .. },
                LogOutput { to: LogTarget::Journald, .. },
            ] => (*stderr, *file),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(outputs(""), (false, false));
    assert_eq!(outputs("zebu.log.format=json"), (true, true));
    assert_eq!(outputs("zebu.log.format=text,file=json"), (false, true));
    assert_eq!(outputs("zebu.log.format=file=text, json"), (true, false));
    assert_eq!(outputs("zebu.log.format=STDERR=Json"), (true, false));
}

/// LGG-04.
#[test]
fn each_output_may_have_a_threshold() {
    let thresholds = |line: &str| {
        let text = format!("zebu.log.to=stderr,file,journald\n{line}");
        let outputs = Case::file(&text).config().logging.outputs;
        outputs.iter().map(|output| output.threshold.unwrap_or("-")).collect::<Vec<_>>()
    };
    assert_eq!(thresholds(""), ["-", "-", "-"]);
    assert_eq!(thresholds("zebu.log.threshold=stderr=WARN"), ["warn", "-", "-"]);
    assert_eq!(thresholds("zebu.log.threshold=info, journald=error"), ["info", "info", "error"]);
}

#[test]
fn a_collector_gets_the_log_where_an_address_is_given() {
    let text = "zebu.log.otlp.endpoint=http://collector:4318\n\
                zebu.log.otlp.headers=Authorization=Basic%20YTpi,X-Scope=a\n\
                zebu.log.otlp.level=warn,zebu_zab=info\n\
                zebu.log.otlp.attributes=service.name=zk,a=b%2Cc";
    let case = Case::file(text);
    let otlp = case.config().logging.otlp.unwrap();
    assert_eq!(otlp.endpoint, "http://collector:4318/v1/logs");
    assert_eq!(
        (&otlp.headers["authorization"], &otlp.headers["x-scope"]),
        (&"Basic YTpi".parse().unwrap(), &"a".parse().unwrap())
    );
    assert_eq!(otlp.levels.as_deref(), Some("warn,zebu_zab=info"));
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
        (
            "zebu.log.otlp.level=loud",
            "\"loud\" is not a level: off, error, warn, info, debug, trace",
        ),
    ] {
        let line_shown = line.replace("secret", "********");
        Case::file(line).fails(&format!("zoo.cfg:3: {line_shown}: {fault}"));
    }
}

/// CFG-14.
#[test]
fn the_request_trace_has_files_where_the_original_documents_them() {
    let trace = Case::file("traceFile=/t/a\nzebu.log.files=3").config().logging.trace.unwrap();
    assert_eq!((trace.path.as_path(), trace.files_max), (Path::new("/t/a"), 3));
    let case = Case::file("").define("requestTraceFile=b");
    let trace = case.config().logging.trace.unwrap();
    assert_eq!((trace.path.as_path(), trace.files_max), (Path::new("b"), 11));
    let same = Case::file("traceFile=b").define("requestTraceFile=b");
    assert_eq!(same.config().logging.trace, Some(trace));
    let text = "zoo.cfg:3: traceFile=a: requestTraceFile=b names another file";
    Case::file("traceFile=a").define("requestTraceFile=b").fails(text);
    Case::file("traceFile=/").fails("zoo.cfg:3: /: the name of a file is expected");
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
