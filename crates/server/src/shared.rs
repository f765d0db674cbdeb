//! What all threads of a running server share.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::Notify;
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_replica::auth::Schemes;
use zebu_replica::{ConnId, Now};
use zebu_store::Snapshots;
use zebu_tree::Tree;
use zebu_zab::Learners;
use zebu_zab::config::Membership;

use crate::config::Config;
use crate::conn::Conn;
use crate::conns::{ConnLimits, Conns};
use crate::descriptors;
use crate::four_letter::{Mode, ProposalSizes, TRACE_MASK_DEFAULT, Whitelist};
use crate::inbox::Inbox;
use crate::load::Load;
use crate::metrics::{Metrics, ServerStats};
use crate::refused::Refused;

/// The server's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now; its monotonic time begins well above zero.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// The time now.
    pub fn now(self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { monotonic: self.monotonic(), wall_ms: wall.as_millis() as i64 }
    }

    /// Time since the server started.
    pub fn monotonic(self) -> Duration {
        self.start.elapsed()
    }
}

/// What all threads of a running server share.
pub struct Shared {
    /// The settings it was started with.
    pub config: Config,
    /// The state.
    pub tree: RwLock<Tree>,
    /// The authentication schemes.
    pub schemes: Schemes,
    /// The way into the replica.
    pub inbox: Inbox,
    /// What is on that way or behind it, and not answered.
    pub load: Load,
    /// Counters.
    pub metrics: Metrics,
    /// The clock.
    pub clock: Clock,
    /// Every connection.
    pub conns: Conns,
    /// How many there may be.
    conn_limits: ConnLimits,
    /// What this server is to its clients, while it serves any: one fact, so that nobody sees it serve as what it
    /// is not any more.
    serving: Mutex<Option<Mode>>,
    /// Who came while it did not.
    pub refused: Refused,
    /// Set once, when the server is to stop, with the reason if that is a failure.
    stopping: Mutex<Option<Result<(), Failure>>>,
    stop: Notify,
    stop_sync: Condvar,
    /// What the four-letter words need of the replica's own state.
    pub status: Mutex<Status>,
    /// The sessions the replica tracks, for who asks.
    pub session_list: SessionList,
    /// How many sessions only this server knows.
    pub local_sessions: AtomicUsize,
    /// The bits of the connection throttle's drop probability.
    pub drop_probability: AtomicU64,
    /// Packets and latencies since the last reset.
    pub stats: ServerStats,
    /// The four-letter words that are answered.
    pub whitelist: Whitelist,
    /// What `stmk` set.
    pub trace_mask: AtomicI64,
    /// Txns on their way to the log.
    pub log_queue: AtomicUsize,
    /// Bytes of those records.
    pub log_queue_bytes: AtomicUsize,
    /// At a leader, the proposal whose acknowledgements are timed.
    pub marked: Mutex<Option<MarkedProposal>>,
    /// How often log and tree are to be made anew, and have not been.
    pub remaking: AtomicUsize,
    /// Snapshots on the disk.
    pub snapshots: Snapshots,
    /// The client port that is bound.
    pub client_port: Mutex<Option<u16>>,
    /// The configuration of the ensemble that is in force.
    pub members: Mutex<Option<Arc<Membership>>>,
    /// Clients are to be served elsewhere, perhaps.
    pub members_changed: Notify,
}

/// Why a running server had to stop.
#[derive(Clone)]
pub struct Failure(Arc<anyhow::Error>);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// The fault and what led to it, in one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Failure {}

/// Stops the server when the thread or task that holds it panics: what is left of a server after
/// that must not go on as if nothing had happened.
pub struct StopOnPanic {
    shared: Arc<Shared>,
    what: &'static str,
}

impl StopOnPanic {
    /// To be held by what is called `what` for as long as it runs.
    pub fn new(shared: &Arc<Shared>, what: &'static str) -> Self {
        Self { shared: shared.clone(), what }
    }
}

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.stop(Err(anyhow::anyhow!("{} has panicked", self.what)));
        }
    }
}

/// What a leader knows of its ensemble.
#[derive(Clone, Copy, Debug)]
pub struct Leading {
    /// Since when it leads, on the monotonic clock.
    pub since: Duration,
    /// Its learners.
    pub learners: Learners,
    /// Syncs that wait.
    pub pending_syncs: usize,
    /// Sizes of what it has proposed.
    pub proposals: ProposalSizes,
}

/// A copy of what the replica alone knows, renewed by its thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// What a leader knows.
    pub leading: Option<Leading>,
    /// At a follower that serves observers: how many there are.
    pub observers: Option<usize>,
    /// At an observer: from whom it learns.
    pub master: Option<ServerId>,
}

/// When a session expires.
#[derive(Clone, Copy, Debug)]
pub struct SessionDeadline {
    /// Which one.
    pub id: SessionId,
    /// When, on the monotonic clock, unless it is heard of.
    pub deadline: Duration,
    /// Whether only this server knows it.
    pub local: bool,
}

/// A copy of the replica's sessions, made when somebody wants one: there may be very many.
#[derive(Debug, Default)]
pub struct SessionList {
    wanted: AtomicBool,
    made: Notify,
    last: Mutex<Vec<SessionDeadline>>,
}

impl SessionList {
    /// Has a copy made, and waits for it a while; `wake` makes the replica's thread look.
    pub async fn renew(&self, wake: impl FnOnce()) {
        let made = self.made.notified();
        tokio::pin!(made);
        made.as_mut().enable();
        self.wanted.store(true, Ordering::Release);
        wake();
        // An old one is better than none when the replica is held up.
        let _ = tokio::time::timeout(Duration::from_secs(1), made).await;
    }

    /// Makes a copy if somebody wants one.
    pub fn answer(&self, copy: impl FnOnce() -> Vec<SessionDeadline>) {
        if self.wanted.swap(false, Ordering::AcqRel) {
            *self.last.lock() = copy();
            self.made.notify_waiters();
        }
    }

    /// The last copy.
    pub fn last(&self) -> Vec<SessionDeadline> {
        self.last.lock().clone()
    }
}

/// A leader's proposal whose acknowledgements are timed.
#[derive(Clone, Copy, Debug)]
pub struct MarkedProposal {
    /// Its zxid.
    pub zxid: Zxid,
    /// When it was made, by the wall clock.
    pub made_ms: i64,
}

impl Shared {
    fn is_timed(&self, zxid: Zxid) -> bool {
        let every = self.config.ensemble.as_ref().and_then(|it| it.learners.acks_timed_every);
        every.is_some_and(|every| zxid.0 % i64::from(every) == 0)
    }

    /// This server has proposed a transaction as a leader.
    ///
    /// True if its acknowledgements are timed.
    pub fn mark(&self, proposal: MarkedProposal) -> bool {
        let is_timed = self.is_timed(proposal.zxid);
        if is_timed {
            *self.marked.lock() = Some(proposal);
        }
        is_timed
    }

    /// A transaction is committed: who acknowledges it from now on is not waited for.
    pub fn unmark(&self, zxid: Zxid) {
        if self.is_timed(zxid) {
            self.marked.lock().take_if(|marked| marked.zxid <= zxid);
        }
    }

    /// A server has acknowledged a transaction at this time of the wall clock.
    pub fn acknowledged(&self, zxid: Zxid, server: &str, now_ms: impl FnOnce() -> i64) {
        if !self.is_timed(zxid) {
            return;
        }
        if let Some(marked) = self.marked.lock().filter(|marked| marked.zxid == zxid) {
            let latency = now_ms().saturating_sub(marked.made_ms);
            if latency >= 0 {
                self.metrics.ack_latency.add(server, latency);
            }
        }
    }

    /// The state of a server that is about to start.
    pub fn new(
        config: Config,
        tree: Tree,
        schemes: Schemes,
        metrics: Metrics,
        clock: Clock,
        snapshots: Snapshots,
        client_port: Option<u16>,
    ) -> Self {
        Self {
            stop_sync: Condvar::new(),
            stats: ServerStats::default(),
            whitelist: Whitelist::new(&config.four_letter_words, config.readonly_mode),
            trace_mask: AtomicI64::new(TRACE_MASK_DEFAULT),
            log_queue: AtomicUsize::new(0),
            log_queue_bytes: AtomicUsize::new(0),
            marked: Mutex::default(),
            remaking: AtomicUsize::new(0),
            snapshots,
            client_port: Mutex::new(client_port),
            members: Mutex::new(
                config.ensemble.as_ref().map(|ensemble| Arc::new(ensemble.members.clone())),
            ),
            members_changed: Notify::new(),
            conn_limits: ConnLimits {
                per_address: config.limits.connections_per_address,
                total: config
                    .limits
                    .connections
                    .into_iter()
                    .chain(descriptors::connections_max())
                    .min(),
            },
            load: Load::new(config.limits.clone()),
            config,
            tree: RwLock::new(tree),
            schemes,
            inbox: Inbox::default(),
            metrics,
            clock,
            conns: Conns::default(),
            serving: Mutex::new(None),
            refused: Refused::default(),
            stopping: Mutex::new(None),
            stop: Notify::new(),
            status: Mutex::default(),
            session_list: SessionList::default(),
            local_sessions: AtomicUsize::new(0),
            drop_probability: AtomicU64::new(0),
        }
    }

    /// Another configuration is in force.
    pub fn set_members(&self, members: Arc<Membership>) {
        *self.members.lock() = Some(members);
        self.members_changed.notify_one();
    }

    /// The connection of that number, if it is still there.
    pub fn conn(&self, id: ConnId) -> Option<Arc<Conn>> {
        self.conns.get(id)
    }

    /// Lets a connection in, unless its address or the server has enough of them.
    pub fn enter(&self, address: IpAddr, make: impl FnOnce(ConnId) -> Conn) -> Option<Arc<Conn>> {
        self.conns.enter(address, self.conn_limits, make)
    }

    /// Asks the server to stop; the first failure counts, whether it was asked before or not.
    pub fn stop(&self, why: Result<(), anyhow::Error>) {
        let why = why.map_err(|why| Failure(Arc::new(why)));
        let mut stopping = self.stopping.lock();
        if !matches!(*stopping, Some(Err(_))) {
            *stopping = Some(match stopping.take() {
                Some(before) => before.and(why),
                None => why,
            });
        }
        drop(stopping);
        *self.serving.lock() = None;
        self.stop.notify_waiters();
        self.stop_sync.notify_all();
    }

    /// What this server is to its clients; `None` while it serves nobody.
    pub fn serving(&self) -> Option<Mode> {
        *self.serving.lock()
    }

    /// Serves clients as that, or nobody; who is to stop serves nobody any more.
    pub fn serve(&self, mode: Option<Mode>) {
        let mut serving = self.serving.lock();
        // Whoever stops it says so first, and then takes this lock.
        *serving = mode.filter(|_| !self.is_stopping());
    }

    /// Waits, blocking, until the server is asked to stop.
    ///
    /// # Errors
    /// The failure, when that is why.
    pub fn wait_stopped(&self) -> Result<(), Failure> {
        let mut stopping = self.stopping.lock();
        loop {
            if let Some(why) = stopping.clone() {
                return why;
            }
            self.stop_sync.wait(&mut stopping);
        }
    }

    /// Whether something has failed.
    pub fn has_failed(&self) -> bool {
        matches!(*self.stopping.lock(), Some(Err(_)))
    }

    /// Waits, blocking, until the server is asked to stop or the time is over.
    pub fn wait_stopped_for(&self, most: Duration) {
        let mut stopping = self.stopping.lock();
        if stopping.is_none() {
            self.stop_sync.wait_for(&mut stopping, most);
        }
    }

    /// Waits until the server is asked to stop.
    ///
    /// # Errors
    /// The failure, when that is why.
    pub async fn stopped(&self) -> Result<(), Failure> {
        loop {
            let asked = self.stop.notified();
            tokio::pin!(asked);
            asked.as_mut().enable();
            if let Some(why) = self.stopping.lock().clone() {
                return why;
            }
            asked.await;
        }
    }

    /// Whether the server was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.lock().is_some()
    }
}
