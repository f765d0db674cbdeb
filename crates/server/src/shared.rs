//! What all threads of a running server share.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::Notify;
use zebu_engine::conns::{ConnLimits, Conns};
use zebu_engine::load::LoadLimits;
use zebu_engine::sasl::ClientSasl;
use zebu_engine::{ClientRules, Common, Inbox, Mode, outbox_bytes_max};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_replica::auth::{Schemes, X509};
use zebu_replica::{ConnId, Now};
use zebu_store::Snapshots;
use zebu_transport::{HttpPort, PeerPort, Port};
use zebu_tree::Tree;
use zebu_zab::config::Membership;
use zebu_zab::{Lacks, Learners};

use crate::audit::Audit;
use crate::clients::access::Access;
use crate::clients::conn::{Conn, Side};
use crate::clients::descriptors;
use crate::clients::listening::Listening;
use crate::clients::refused::Refused;
use crate::clients::too_long::TooLong;
use crate::config::Config;
use crate::counting::quota_warnings::QuotaWarnings;
use crate::ensemble::peers::Learner;
use crate::error::{RunError, chain};
use crate::four_letter::{ProposalSizes, TRACE_MASK_DEFAULT, Whitelist};
use crate::metrics::{Histograms, Metrics, ServerStats};
use crate::retiring::{HandingOver, Retiring};
use crate::turns::Turns;

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
    /// What the engine and the connections share.
    pub common: Common<Side>,
    /// Counters.
    pub metrics: Metrics,
    /// Times in buckets.
    pub histograms: Histograms,
    /// The audit log, where there is one.
    pub audit: OnceLock<Arc<Audit>>,
    /// What the certificates of clients make them, where there is that scheme.
    pub x509: Option<X509>,
    /// The certificates of the client ports for TLS, where there are any.
    pub tls_port: OnceLock<Arc<Port>>,
    /// The certificates of this server as a member, where there are any.
    pub peer_tls_port: OnceLock<Arc<PeerPort>>,
    /// The certificates of the admin server, where it has TLS.
    pub admin_tls_port: OnceLock<Arc<HttpPort>>,
    /// TLS of the Prometheus page, where it has any.
    pub metrics_tls_port: OnceLock<Arc<HttpPort>>,
    /// TLS handshakes in progress.
    pub tls_handshakes: AtomicUsize,
    /// Who takes turns of the replica's beside its own thread.
    pub turns: Turns,
    /// The clock.
    pub clock: Clock,
    /// Until when the network workers have listened to clients.
    pub listening: Listening,
    /// Until when the network between servers has listened to the others.
    pub peers_listening: Listening,
    /// How many connections there may be.
    conn_limits: ConnLimits,
    /// What strangers may try, and how many connections an identity may have.
    pub access: Access,
    /// Who came while it did not.
    pub refused: Refused,
    /// Reads whose answers were too long.
    pub too_long: TooLong,
    /// Set once, when the server is to stop, with the reason if that is a failure.
    stopping: Mutex<Option<Result<(), Failure>>>,
    /// What comes before that, unless it is a failure.
    pub retiring: Retiring,
    /// Those who wait until another server leads.
    pub handing_over: HandingOver,
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
    /// When writes beyond a quota were told of.
    pub quota_warnings: Mutex<QuotaWarnings>,
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
    /// A member's replica has had a turn, or its disk has done something: whoever waits for them looks again.
    pub caught_up: Notify,
    /// Clients are to be served elsewhere, perhaps.
    pub members_changed: Notify,
    /// Held by who takes a snapshot: two at a time would write the same file.
    pub taking_snapshot: Mutex<()>,
    /// Learners that are connected to this server.
    pub learners: Mutex<Vec<Arc<Learner>>>,
    /// The first transaction behind which this member's tree is known to differ from its leader's.
    pub differing: Mutex<Option<Zxid>>,
    /// Files that were found damaged while the server runs, each as a sentence.
    pub damaged_files: Mutex<Vec<String>>,
}

/// Why a running server had to stop.
#[derive(Clone)]
pub struct Failure(Arc<RunError>);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(&*self.0))
    }
}

/// The fault and what led to it, in one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(&*self.0))
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// What has happened.
    pub fn cause(&self) -> &(dyn std::error::Error + 'static) {
        &*self.0
    }
}

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
            self.shared.stop(Err(RunError::Panicked(self.what)));
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
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// What a leader knows.
    pub leading: Option<Leading>,
    /// At a follower that serves observers: how many there are.
    pub observers: Option<usize>,
    /// At an observer: from whom it learns.
    pub master: Option<ServerId>,
    /// At a learner: who leads.
    pub leader: Option<ServerId>,
    /// Without a leader: what is lacking.
    pub lacks: Option<Lacks>,
    /// At a learner that serves no client since its tree differs from its leader's: since which transaction.
    pub doubted: Option<Zxid>,
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
    /// How often the replica's thread could have made one.
    turns: AtomicU64,
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
        self.turns.fetch_add(1, Ordering::Relaxed);
        if self.wanted.swap(false, Ordering::AcqRel) {
            *self.last.lock() = copy();
            self.made.notify_waiters();
        }
    }

    /// How often the replica's thread has come here: it does after every turn, some times each second.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
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

/// What connections must obey.
fn client_rules(config: &Config, sasl: Option<ClientSasl>) -> ClientRules {
    let limits = &config.limits;
    ClientRules {
        packet_bytes: limits.packet_bytes,
        answer_bytes_max: limits.answer_bytes_max(),
        outbox_bytes_max: outbox_bytes_max(limits.packet_bytes),
        enforced_schemes: config.auth.enforced_schemes.clone(),
        sasl,
        load: LoadLimits {
            requests: limits.outstanding_requests,
            bytes: limits.outstanding_bytes,
            large_request: limits.large_request_bytes,
            large_bytes: limits.large_requests_bytes_max,
        },
    }
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
        (schemes, sasl): (Arc<Schemes>, Option<ClientSasl>),
        metrics: Metrics,
        clock: Clock,
        snapshots: Snapshots,
        client_port: Option<u16>,
    ) -> Self {
        Self {
            stop_sync: Condvar::new(),
            stats: ServerStats::default(),
            whitelist: Whitelist::new(&config.four_letter_words, config.readonly_mode),
            quota_warnings: Mutex::default(),
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
            caught_up: Notify::new(),
            members_changed: Notify::new(),
            taking_snapshot: Mutex::default(),
            learners: Mutex::default(),
            differing: Mutex::default(),
            damaged_files: Mutex::default(),
            listening: Listening::default(),
            peers_listening: Listening::default(),
            conn_limits: ConnLimits {
                per_address: config.limits.connections_per_address,
                total: config
                    .limits
                    .connections
                    .into_iter()
                    .chain(descriptors::connections_max())
                    .min(),
            },
            common: Common::new(tree, schemes, client_rules(&config, sasl)),
            x509: config.auth.x509.then(|| X509::new(config.auth.x509_super_user.clone())),
            access: Access::new(&config),
            config,
            metrics,
            histograms: Histograms::default(),
            turns: Turns::default(),
            clock,
            refused: Refused::default(),
            too_long: TooLong::default(),
            stopping: Mutex::new(None),
            retiring: Retiring::default(),
            handing_over: HandingOver::default(),
            stop: Notify::new(),
            status: Mutex::default(),
            session_list: SessionList::default(),
            local_sessions: AtomicUsize::new(0),
            audit: OnceLock::new(),
            tls_port: OnceLock::new(),
            peer_tls_port: OnceLock::new(),
            admin_tls_port: OnceLock::new(),
            metrics_tls_port: OnceLock::new(),
            tls_handshakes: AtomicUsize::new(0),
            drop_probability: AtomicU64::new(0),
        }
    }

    /// Starts the statistics of the server again.
    pub fn reset_stats(&self) {
        self.stats.reset();
        self.metrics.reset();
        self.histograms.reset();
    }

    /// Starts the statistics of all connections again.
    pub fn reset_connections(&self) {
        self.conns().each(|conn| conn.side.stats.reset());
    }

    /// Another configuration is in force.
    pub fn set_members(&self, members: Arc<Membership>) {
        *self.members.lock() = Some(members);
        self.divide_load(self.serving());
        self.members_changed.notify_one();
    }

    /// The state.
    pub fn tree(&self) -> &RwLock<Tree> {
        &self.common.tree
    }

    /// The way into the replica.
    pub fn inbox(&self) -> &Inbox {
        &self.common.inbox
    }

    /// Every connection.
    pub fn conns(&self) -> &Conns<Side> {
        &self.common.conns
    }

    /// Lets a connection in, unless its address or the server has enough of them.
    pub fn enter(&self, address: IpAddr, make: impl FnOnce(ConnId) -> Conn) -> Option<Arc<Conn>> {
        self.common.conns.enter(address, self.conn_limits, make)
    }

    /// Asks the server to stop; the first failure counts, whether it was asked before or not.
    pub fn stop(&self, why: Result<(), RunError>) {
        let why = why.map_err(|why| Failure(Arc::new(why)));
        let mut stopping = self.stopping.lock();
        if !matches!(*stopping, Some(Err(_))) {
            *stopping = Some(match stopping.take() {
                Some(before) => before.and(why),
                None => why,
            });
        }
        drop(stopping);
        self.common.serve(Duration::ZERO, || None);
        self.retiring.end();
        self.stop.notify_waiters();
        self.stop_sync.notify_all();
    }

    /// What this server is to its clients; `None` while it serves nobody.
    pub fn serving(&self) -> Option<Mode> {
        self.common.serving()
    }

    /// How long it has been that.
    pub fn uptime(&self) -> Duration {
        let since = self.common.serving_since();
        since.map_or(Duration::ZERO, |since| self.clock.monotonic().saturating_sub(since))
    }

    /// Only those who vote have a part of what an ensemble may have in progress.
    fn divide_load(&self, mode: Option<Mode>) {
        let votes = matches!(mode, Some(Mode::Leader | Mode::Follower));
        let members = self.members.lock().clone().filter(|_| votes);
        self.common.load.divide_among(members.map_or(1, |members| members.voters().count()));
    }

    /// Serves clients as that, or nobody; who is to stop serves nobody any more.
    pub fn serve(&self, mode: Option<Mode>) {
        self.divide_load(mode);
        zebu_logs::process::has_role(mode.map_or("not serving", Mode::name));
        // Whoever stops it says so first, and then takes the lock under which this is asked.
        self.common.serve(self.clock.monotonic(), || mode.filter(|_| !self.is_stopping()));
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
