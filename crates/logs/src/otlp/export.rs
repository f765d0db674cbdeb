//! Sends batches of records, again if the collector may take them later.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::http::response::Parts;
use prost::Message as _;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use zebu_https::{HeaderMap, Https, Patience, StatusCode, Uri};

use super::message::{ExportLogsServiceResponse, Resource, request, resource};
use super::{Collector, Counts, Record};
use crate::queue::{Batch, Sink, Watcher, now_ms};

/// How long the collector has for the connection and for its answer.
pub const PATIENCE: Patience =
    Patience { connect: Duration::from_secs(2), answer: Duration::from_secs(2) };
/// How long the whole attempt may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// No attempt begins later after the queue was closed.
const ENDING_MAX: Duration = Duration::from_secs(3);
/// The pause after a batch that the collector has taken.
const PAUSE: Duration = Duration::from_millis(500);
/// The pause after the first failure. It doubles with each further one.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest pause, whatever the collector asks for.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends records to a collector.
pub(super) struct Export {
    address: Uri,
    headers: HeaderMap,
    resource: Resource,
    https: Https,
    runtime: Runtime,
    counts: Arc<Counts>,
    /// The pause after the next failure.
    backoff: Duration,
    /// Whether the last attempt failed.
    fails: bool,
    /// When the last attempt may begin, once the queue is closed.
    ends: Option<Instant>,
}

/// The result of a batch.
enum Outcome {
    /// The collector has taken it, except for this number of records.
    Taken { rejected: u64 },
    /// The collector may take it later, after this time.
    Later { after: Option<Duration>, why: io::Error },
    /// The collector will never take it.
    Never(io::Error),
}

impl Export {
    pub(super) fn new(collector: Collector, https: Https, counts: Arc<Counts>) -> io::Result<Self> {
        let Collector { address, mut headers, attributes } = collector;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let agent = concat!("OTel-OTLP-Exporter-zebu/", env!("CARGO_PKG_VERSION"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
        Ok(Self {
            address,
            headers,
            resource: resource(&attributes),
            https,
            runtime: Builder::new_current_thread().enable_all().build()?,
            counts,
            backoff: BACKOFF_MIN,
            fails: false,
            ends: None,
        })
    }

    fn attempt(&self, body: Vec<u8>) -> Outcome {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = self.address.clone();
        request.headers_mut().clone_from(&self.headers);
        let exchange = async {
            let answer = self.https.send(request).await.map_err(io::Error::other)?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            Ok((head, body.map(http_body_util::Collected::to_bytes).unwrap_or_default()))
        };
        let answer = self.runtime.block_on(async { timeout(ATTEMPT_MAX, exchange).await });
        match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok((head, body)) => judge(&head, &body),
            Err(why) => Outcome::Later { after: None, why },
        }
    }

    /// The pause after a failure, which is reported if it is the first of a series.
    fn failed(
        &mut self,
        after: Option<Duration>,
        why: &io::Error,
        watcher: &dyn Watcher,
    ) -> Duration {
        if !self.fails {
            watcher.failed(why);
        }
        self.fails = true;
        let pause = after.unwrap_or_default().max(self.backoff).min(BACKOFF_MAX);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        pause
    }
}

/// Source: the table of retryable status codes in the specification.
fn judge(head: &Parts, body: &[u8]) -> Outcome {
    if head.status.is_success() {
        let answer = ExportLogsServiceResponse::decode(body).unwrap_or_default();
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_log_records);
        return Outcome::Taken { rejected: u64::try_from(rejected).unwrap_or_default() };
    }
    let why = io::Error::other(format!("it answers {}", head.status));
    match head.status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            let after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let seconds = after.and_then(|text| text.trim().parse().ok());
            Outcome::Later { after: seconds.map(Duration::from_secs), why }
        }
        _ => Outcome::Never(why),
    }
}

impl Sink<Record> for Export {
    const TOGETHER: usize = 512;

    fn write(&mut self, batch: &mut Batch<Record>, watcher: &dyn Watcher) -> Duration {
        let count = batch.entries.len() as u64;
        if count == 0 && batch.missing == 0 {
            return PAUSE;
        }
        if batch.is_last {
            let now = Instant::now();
            // The records that remain in the batch are counted as lost.
            if now > *self.ends.get_or_insert(now + ENDING_MAX) {
                return PAUSE;
            }
        }
        let now_us = u64::try_from(now_ms()).unwrap_or_default().saturating_mul(1000);
        let request = request(&self.resource, &batch.entries, batch.missing, now_us);
        match self.attempt(request.encode_to_vec()) {
            Outcome::Taken { rejected } => {
                let rejected = rejected.min(count);
                batch.entries.clear();
                batch.missing = 0;
                self.counts.sent.fetch_add(count - rejected, Ordering::Relaxed);
                if rejected > 0 {
                    watcher.lost(rejected);
                }
                self.backoff = BACKOFF_MIN;
                self.fails = false;
                PAUSE
            }
            Outcome::Later { after, why } => self.failed(after, &why, watcher),
            Outcome::Never(why) => {
                batch.entries.clear();
                batch.missing += count;
                watcher.lost(count);
                self.failed(None, &why, watcher)
            }
        }
    }
}
