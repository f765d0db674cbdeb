//! The log of the process for a collector of OpenTelemetry: OTLP over HTTP, in protobuf.
//!
//! The thread that logs only adds a record to a [`queue`](crate::queue), which is bounded. The
//! thread `zebu-otlp` encodes records and sends them, so a slow collector costs records, but no
//! time of a client.
//!
//! Source: the specification of OTLP 1.x, sections "OTLP/HTTP" and "Failures".

mod export;
mod message;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;
use tracing::{Event, Level, Subscriber, warn};
use tracing_subscriber::layer::{Context, Layer};
use zebu_https::{HeaderMap, Https, Uri};
use zebu_proto::Causes;

use self::export::Export;
use crate::control::Levels;
use crate::line::Said;
use crate::process::{self, Facts};
use crate::queue::{Entry, Queue, QueueLimits, Watcher};

pub use self::export::PATIENCE;

/// The thread that sends records.
const THREAD: &str = "zebu-otlp";

/// Records that may wait for the collector.
pub const WAITING: QueueLimits = QueueLimits { entries: 1 << 14, bytes: 16 << 20 };

/// The collector, and what each request to it contains.
#[derive(Clone, Debug)]
pub struct Collector {
    /// The address that takes logs, with its path.
    pub address: Uri,
    /// Headers of each request.
    pub headers: HeaderMap,
    /// Attributes of this process, such as `service.name`.
    pub attributes: Vec<(String, String)>,
}

/// A line of the log.
#[derive(Debug)]
struct Record {
    wall_us: u64,
    level: Level,
    target: &'static str,
    thread: String,
    facts: Facts,
    said: Said,
}

impl Entry for Record {
    fn bytes(&self) -> usize {
        let fields = self.said.fields().iter();
        let fields: usize =
            fields.map(|(_, value)| size_of::<(&str, String)>() + value.len()).sum();
        size_of::<Self>() + self.thread.len() + self.said.message().len() + fields
    }
}

/// The numbers of records.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    lost: AtomicU64,
    address: String,
}

impl Watcher for Counts {
    fn lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    fn failed(&self, error: &io::Error) {
        let (address, why) = (&self.address, Causes(error));
        warn!(
            "the collector {address} does not take the log: {why}; zebu_log_otlp_lost_total counts lost records"
        );
    }
}

/// The way to a collector.
pub struct Otlp {
    queue: Queue<Record>,
    counts: Arc<Counts>,
}

impl Otlp {
    /// Starts the thread. It connects when there is something to send. `https`: how it connects.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(collector: Collector, https: Https, limits: QueueLimits) -> io::Result<Self> {
        let address = collector.address.to_string();
        let counts = Arc::new(Counts { address, ..Counts::default() });
        let export = Export::new(collector, https, Arc::clone(&counts))?;
        let queue = Queue::start(THREAD, limits, export, counts.clone())?;
        Ok(Self { queue, counts })
    }

    /// Number of records that the collector has taken.
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::Relaxed)
    }

    /// Number of records that were lost, because the queue was full or the collector refused them.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Sends what waits, if the collector takes it at once, and ends the thread.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Adds a record.
    fn add(&self, event: &Event<'_>) {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("-");
        // Records about the transmission of records would never end.
        if thread == THREAD {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.queue.add(Record {
            wall_us: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
            level: *event.metadata().level(),
            target: event.metadata().target(),
            thread: thread.to_owned(),
            facts: process::facts(),
            said: Said::of(event),
        });
    }
}

/// Gives events to a collector.
pub struct ToCollector {
    otlp: Arc<Otlp>,
    levels: Arc<RwLock<Levels>>,
}

impl ToCollector {
    /// The collector gets events of these levels, which may change.
    pub fn new(otlp: Arc<Otlp>, levels: Arc<RwLock<Levels>>) -> Self {
        Self { otlp, levels }
    }
}

impl<S: Subscriber> Layer<S> for ToCollector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let is_wanted = self.levels.read().want(metadata.target(), *metadata.level());
        if is_wanted {
            self.otlp.add(event);
        }
    }
}
