//! The log at a collector of OpenTelemetry. The test plays the collector, and decodes what it
//! receives with the published definitions of the protocol.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message as _;
use tracing_subscriber::layer::SubscriberExt as _;
use zebu_https::{Https, given, trust_of_the_system};
use zebu_logs::otlp::{Collector, Otlp, PATIENCE, ToCollector, WAITING};
use zebu_logs::queue::QueueLimits;

/// Far longer than any step should take.
const DEADLINE: Duration = Duration::from_secs(60);

/// A request as it arrived: the lines of its head, and its message.
struct Arrived {
    head: Vec<String>,
    request: ExportLogsServiceRequest,
}

impl Arrived {
    fn records(&self) -> impl Iterator<Item = (&str, &LogRecord)> {
        let scopes = self.request.resource_logs.iter().flat_map(|logs| &logs.scope_logs);
        scopes.flat_map(|scope| {
            let name = scope.scope.as_ref().map_or("", |scope| scope.name.as_str());
            scope.log_records.iter().map(move |record| (name, record))
        })
    }

    fn messages(&self) -> Vec<String> {
        self.records().map(|(_, record)| text(record.body.as_ref())).collect()
    }
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("neither a text nor a number: {other:?}"),
    }
}

fn value(of: &[KeyValue], key: &str) -> Option<String> {
    of.iter().find(|pair| pair.key == key).map(|pair| text(pair.value.as_ref()))
}

/// A collector. It answers a request when the test says how: a status with further headers, and a
/// body.
struct Stage {
    otlp: Arc<Otlp>,
    arrived: Receiver<Arrived>,
    answers: Sender<(&'static str, Vec<u8>)>,
}

const TAKEN: &str = "200 OK";

impl Stage {
    fn new(limits: QueueLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (arriving, arrived) = channel();
        let (answers, answering) = channel::<(&str, Vec<u8>)>();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut head = Vec::new();
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    match line.trim_end() {
                        "" => break,
                        line => head.push(line.to_owned()),
                    }
                }
                let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.unwrap().parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                let request = ExportLogsServiceRequest::decode(&*body).unwrap();
                // The test may have ended.
                let _ = arriving.send(Arrived { head, request });
                let Ok((status, body)) = answering.recv() else { return };
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
                let mut stream = reader.into_inner();
                let _ = stream.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        let collector = Collector {
            address: given::address(&format!("http://127.0.0.1:{port}"), "/v1/logs").unwrap(),
            headers: given::headers("Authorization=Bearer%20abc").unwrap(),
            attributes: vec![("service.name".to_owned(), "zebu".to_owned())],
        };
        let https = Https::new(trust_of_the_system().unwrap(), PATIENCE);
        let otlp = Arc::new(Otlp::start(collector, https, limits).unwrap());
        Self { otlp, arrived, answers }
    }

    fn logs(&self, work: impl FnOnce()) {
        let subscriber = tracing_subscriber::registry()
            .with(ToCollector::new(Arc::clone(&self.otlp), Arc::default()));
        tracing::subscriber::with_default(subscriber, work);
    }

    fn next(&self) -> Arrived {
        self.arrived.recv_timeout(DEADLINE).expect("a request arrives in time")
    }

    fn answer(&self, status: &'static str, body: Vec<u8>) {
        self.answers.send((status, body)).unwrap();
    }

    fn counts(&self) -> (u64, u64) {
        (self.otlp.sent(), self.otlp.lost())
    }
}

#[test]
fn a_record_has_its_time_level_module_message_and_fields() {
    let stage = Stage::new(WAITING);
    let before = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    zebu_logs::process::is_server(3);
    stage.logs(|| {
        tracing::warn!(target: "zebu_zab", session = "0x1", count = 2, "closing\n\"é\"");
    });
    let arrived = stage.next();
    assert_eq!(arrived.head[0], "POST /v1/logs HTTP/1.1");
    for line in ["content-type: application/x-protobuf", "authorization: Bearer abc"] {
        assert!(arrived.head.iter().any(|it| it == line), "{:?}", arrived.head);
    }
    let [logs] = &arrived.request.resource_logs[..] else { panic!("one process") };
    let resource = logs.resource.as_ref().unwrap();
    assert_eq!(value(&resource.attributes, "service.name").as_deref(), Some("zebu"));
    let records: Vec<_> = arrived.records().collect();
    let [("zebu_zab", record)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.severity_number, record.severity_text.as_str()), (13, "WARN"));
    assert_eq!(text(record.body.as_ref()), "closing\n\"é\"");
    assert!(u128::from(record.time_unix_nano) + 1000 >= before);
    for (key, expected) in [("session", "0x1"), ("count", "2"), ("myid", "3")] {
        assert_eq!(value(&record.attributes, key).as_deref(), Some(expected), "{key}");
    }
    assert!(value(&record.attributes, "thread.name").is_some());
    stage.answer(TAKEN, Vec::new());
    stage.otlp.close();
    assert_eq!(stage.counts(), (1, 0));
}

#[test]
fn records_come_again_until_the_collector_takes_them() {
    let stage = Stage::new(WAITING);
    stage.logs(|| tracing::info!("first"));
    assert_eq!(stage.next().messages(), ["first"]);
    stage.logs(|| tracing::info!("second"));
    stage.answer("503 Service Unavailable\r\nretry-after: 1", Vec::new());
    assert_eq!(stage.next().messages(), ["first", "second"]);
    stage.answer(TAKEN, Vec::new());
    stage.otlp.close();
    assert_eq!(stage.counts(), (2, 0));
}

#[test]
fn a_slow_collector_costs_records_and_the_next_request_says_how_many() {
    let stage = Stage::new(QueueLimits { entries: 4, bytes: 1 << 20 });
    stage.logs(|| tracing::info!("first"));
    assert_eq!(stage.next().messages(), ["first"]);
    // The collector has not answered: four records have room.
    stage.logs(|| (0..10).for_each(|number| tracing::info!("{number}")));
    assert_eq!(stage.counts(), (0, 6));
    stage.answer(TAKEN, Vec::new());
    let messages = stage.next().messages();
    assert!(
        messages.contains(&"records are missing before this one: 6".to_owned()),
        "{messages:?}"
    );
    assert_eq!(messages.len(), 5);
    stage.answer(TAKEN, Vec::new());
    stage.otlp.close();
    assert_eq!(stage.counts(), (5, 6));
}

#[test]
fn refused_records_are_counted_as_lost() {
    let stage = Stage::new(WAITING);
    stage.logs(|| (0..3).for_each(|number| tracing::info!("{number}")));
    let mut count = stage.next().messages().len() as u64;
    let partial = ExportLogsPartialSuccess { rejected_log_records: 1, ..Default::default() };
    let answer = ExportLogsServiceResponse { partial_success: Some(partial) };
    stage.answer(TAKEN, answer.encode_to_vec());
    while count < 3 {
        count += stage.next().messages().len() as u64;
        stage.answer(TAKEN, Vec::new());
    }
    stage.logs(|| tracing::info!("last"));
    assert_eq!(stage.next().messages(), ["last"]);
    stage.answer("401 Unauthorized", Vec::new());
    assert_eq!(stage.next().messages(), ["records are missing before this one: 1"]);
    stage.answer(TAKEN, Vec::new());
    stage.otlp.close();
    assert_eq!(stage.counts(), (2, 2));
}

/// No program listens at the address.
#[test]
fn the_end_waits_for_no_collector_that_is_not_there() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let collector = Collector {
        address: given::address(&format!("http://127.0.0.1:{port}"), "/v1/logs").unwrap(),
        headers: given::headers("").unwrap(),
        attributes: Vec::new(),
    };
    let https = Https::new(trust_of_the_system().unwrap(), PATIENCE);
    let otlp = Arc::new(Otlp::start(collector, https, WAITING).unwrap());
    let subscriber =
        tracing_subscriber::registry().with(ToCollector::new(Arc::clone(&otlp), Arc::default()));
    tracing::subscriber::with_default(subscriber, || {
        (0..2000).for_each(|number| tracing::info!("{number}"));
    });
    otlp.close();
    assert_eq!((otlp.sent(), otlp.lost()), (0, 2000));
}
