//! A server sends its log to a collector of OpenTelemetry. The test plays the collector.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;
use rustix::process::{Pid, Signal, kill_process};

/// Far longer than any step should take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Ends the process with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes every request, and passes on its bytes.
fn collector() -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (arriving, arrived) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(text) = line.strip_prefix("content-length: ") {
                    length = text.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let _ = arriving.send(body);
            let mut stream = reader.into_inner();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (port, arrived)
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        other => format!("{other:?}"),
    }
}

/// Runs a server with these settings until the collector has taken a batch. Returns the records,
/// the attributes of the server, and the log of the standard error stream.
fn run(settings: &str) -> (Vec<String>, Vec<String>, String) {
    let (collector, arrived) = collector();
    let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [client, page] = held.map(|held| held.local_addr().unwrap().port());
    let folder = tempfile::tempdir().unwrap();
    let lines = format!(
        "dataDir={}\nclientPort={client}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
         zebu.log.otlp.endpoint=http://127.0.0.1:{collector}\n\
         zebu.log.otlp.attributes=service.name=zk-test\n\
         metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort={page}\n{settings}\n",
        folder.path().join("data").display(),
    );
    let configuration = folder.path().join("zoo.cfg");
    fs::write(&configuration, lines).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.arg("server").arg(&configuration).env_clear();
    let log = folder.path().join("stderr");
    command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let child = command.spawn().unwrap();
    let mut server = Ends(child);
    let mut greeting = String::new();
    let stdout = server.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut greeting).unwrap();
    assert!(greeting.starts_with("listening on "), "{greeting}");
    let mut records = Vec::new();
    let mut names = Vec::new();
    let read = |body: Vec<u8>, records: &mut Vec<String>, names: &mut Vec<String>| {
        let request = ExportLogsServiceRequest::decode(&*body).unwrap();
        for logs in request.resource_logs {
            let attributes = logs.resource.unwrap().attributes;
            names.extend(attributes.into_iter().map(|it| format!("{}={}", it.key, text(it.value))));
            let scopes = logs.scope_logs.into_iter();
            records.extend(scopes.flat_map(|it| it.log_records).map(|record| text(record.body)));
        }
    };
    // A record of the first batch: the metrics say then that the collector has taken it.
    read(arrived.recv_timeout(DEADLINE).unwrap(), &mut records, &mut names);
    loop {
        let mut stream = TcpStream::connect(("127.0.0.1", page)).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.contains("\nzebu_log_otlp_lost_total 0.0\n"), "{text}");
        if !text.contains("\nzebu_log_otlp_sent_total 0.0\n") {
            break;
        }
        std::thread::yield_now();
    }
    let pid = Pid::from_raw(server.0.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(server.0.wait().unwrap().success());
    while let Ok(body) = arrived.try_recv() {
        read(body, &mut records, &mut names);
    }
    (records, names, fs::read_to_string(log).unwrap())
}

#[test]
fn a_collector_gets_the_log_from_the_first_record_to_the_last() {
    let (records, names, log) = run("");
    assert!(names.contains(&"service.name=zk-test".to_owned()), "{names:?}");
    for name in ["service.version=", "service.instance.id=", "host.name=", "process.pid="] {
        assert!(names.iter().any(|it| it.starts_with(name)), "{names:?}");
    }
    assert!(records.iter().any(|it| it == "stopped"), "{records:?}");
    assert_eq!(log.lines().count(), records.len(), "{log}");
}

/// LGG-04.
#[test]
fn a_collector_has_levels_of_its_own() {
    let (records, _, log) = run("zebu.log.level=off,zebu_server::run=info\n\
         zebu.log.otlp.level=info,zebu_server::run=off");
    assert!(!records.is_empty());
    assert!(!records.iter().any(|it| it == "stopped"), "{records:?}");
    assert!(log.ends_with(": stopped\n"), "{log}");
    assert!(log.lines().all(|line| line.contains(" zebu_server::run: ")), "{log}");
}
