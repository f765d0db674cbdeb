//! The messages of OTLP that carry logs, with the fields that this server fills.
//!
//! Source: `opentelemetry/proto/{collector/logs,logs,resource,common}/v1/*.proto`, version 1.x.

use std::collections::BTreeMap;

use prost::{Message, Oneof};
use tracing::Level;

use super::Record;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportLogsServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportLogsServiceResponse {
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportLogsPartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportLogsPartialSuccess {
    #[prost(int64, tag = "1")]
    pub rejected_log_records: i64,
    #[prost(string, tag = "2")]
    pub error_message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub log_records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub severity_number: i32,
    #[prost(string, tag = "3")]
    pub severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "11")]
    pub observed_time_unix_nano: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(int64, tag = "3")]
    Int(i64),
}

impl From<&str> for AnyValue {
    fn from(text: &str) -> Self {
        Self { value: Some(Value::String(text.to_owned())) }
    }
}

impl From<i64> for AnyValue {
    fn from(number: i64) -> Self {
        Self { value: Some(Value::Int(number)) }
    }
}

fn pair(key: &str, value: impl Into<AnyValue>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value.into()) }
}

/// The description of this process.
pub(super) fn resource(attributes: &[(String, String)]) -> Resource {
    let attributes = attributes.iter().map(|(key, value)| pair(key, value.as_str()));
    Resource { attributes: attributes.collect() }
}

/// A request with these records, grouped by module. A record says how many are missing, if any are.
pub(super) fn request<'r>(
    resource: &Resource,
    records: impl IntoIterator<Item = &'r Record>,
    missing: u64,
    now_us: u64,
) -> ExportLogsServiceRequest {
    let mut scopes = BTreeMap::<&str, Vec<LogRecord>>::new();
    for record in records {
        scopes.entry(record.target).or_default().push(log_record(record));
    }
    if missing > 0 {
        let text = format!("records are missing before this one: {missing}");
        scopes.entry(module_path!()).or_default().push(LogRecord {
            time_unix_nano: nanos(now_us),
            body: Some(text.as_str().into()),
            ..of_level(Level::WARN)
        });
    }
    let scope_logs = scopes.into_iter().map(|(name, log_records)| ScopeLogs {
        scope: Some(InstrumentationScope { name: name.to_owned() }),
        log_records,
    });
    let resource = Some(resource.clone());
    let logs = ResourceLogs { resource, scope_logs: scope_logs.collect() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}

fn nanos(us: u64) -> u64 {
    us.saturating_mul(1000)
}

fn of_level(level: Level) -> LogRecord {
    let severity_number = match level {
        Level::ERROR => 17,
        Level::WARN => 13,
        Level::INFO => 9,
        Level::DEBUG => 5,
        _ => 1,
    };
    LogRecord { severity_number, severity_text: level.to_string(), ..LogRecord::default() }
}

fn log_record(record: &Record) -> LogRecord {
    let Record { wall_us, level, thread, facts, said, .. } = record;
    let myid = facts.server.map(|id| pair("myid", id));
    let role = facts.role.map(|role| pair("role", role));
    let fields = said.fields().iter().map(|(name, value)| pair(name, value.as_str()));
    let attributes = [pair("thread.name", thread.as_str())].into_iter();
    LogRecord {
        time_unix_nano: nanos(*wall_us),
        observed_time_unix_nano: nanos(*wall_us),
        body: Some(said.message().into()),
        attributes: attributes.chain(myid).chain(role).chain(fields).collect(),
        ..of_level(*level)
    }
}
