//! The state that all threads of a running server share.

mod clients;
mod counting;
mod disk;
mod ending;
mod other_servers;

use std::error::Error;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;
use zebu_admin::HistoryFacts;
use zebu_engine::conns::Conns;
use zebu_engine::load::LoadLimits;
use zebu_engine::sasl::ClientSasl;
use zebu_engine::{ClientRules, Common, Inbox, Mode, outbox_bytes_max};
use zebu_replica::auth::Schemes;
use zebu_replica::{ConnId, Now};
use zebu_store::Snapshots;
use zebu_transport::HttpPort;
use zebu_tree::Tree;
use zebu_zab::config::Membership;

use crate::audit::Audit;
use crate::clients::conn::{Conn, Side};
use crate::config::Config;
use crate::error::RunError;
use crate::metrics::Metrics;
use crate::restoring::Restoring;
use crate::turns::Turns;

pub use clients::Clients;
pub use counting::{Counting, Leading, MarkedProposal, SessionDeadline, Status};
pub use disk::Disk;
pub use ending::{Ending, Failure, StopOnPanic};
pub use other_servers::Ensemble;

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

/// State that all threads of a running server share, grouped by the task of the threads.
///
/// A field that only one group of threads uses belongs to that group. A function takes the groups
/// that it uses; it takes all of them only if it uses many or starts a thread.
pub struct Shared {
    /// The settings with which the server was started. Every thread reads them, and none changes
    /// them.
    pub config: Config,
    /// The tree, the inbox and the connections, which the engine needs: the driver, the network
    /// workers, and the network between servers.
    pub common: Common<Side>,
    /// Counters, which every thread adds to, and which `mntr` and the Prometheus page print.
    pub metrics: Metrics,
    /// The audit log, where there is one. The driver adds requests, and the threads that
    /// authenticate clients add refusals.
    pub audit: OnceLock<Arc<Audit>>,
    /// The threads that may run turns of the replica beside its own thread: the network between
    /// servers and the log.
    pub turns: Turns,
    /// The clock, which every thread reads.
    pub clock: Clock,
    /// For the network workers and the thread of TLS handshakes. The driver adds what it cannot
    /// serve, and operators read it.
    pub clients: Clients,
    /// For the network between servers. The driver changes the membership, and the log's thread
    /// notifies the network of finished requests.
    pub ensemble: Ensemble,
    /// For the log, the snapshots, the scrub and the repair of damaged logs. Operators read it.
    pub disk: Disk,
    /// Counters and facts beside the metrics: the driver writes them, operators read them.
    pub counting: Counting,
    /// For the admin server alone.
    pub http: HttpPorts,
    /// Whether and why the server must stop. Every waiting thread also waits for this.
    pub ending: Ending,
    /// For the admin server's command `restore`, at a standalone server: the driver that it waits
    /// for.
    pub restoring: Restoring,
}

/// Reads the newest changes of a znode, and with `true` of its whole subtree, from the directories
/// of snapshots and of logs. The user sees the error and its causes.
///
/// The program sets it, so that the server does not depend on the crate that reads backups.
pub type ReadHistory =
    fn(&Path, &Path, &str, bool) -> Result<HistoryFacts, Box<dyn Error + Send + Sync>>;

/// The HTTP interfaces.
#[derive(Default)]
pub struct HttpPorts {
    /// The certificates of the admin server, if it has TLS.
    pub admin: OnceLock<Arc<HttpPort>>,
    /// The certificates of the Prometheus page, if it has TLS.
    pub metrics: OnceLock<Arc<HttpPort>>,
    /// Reads the history of a znode for the console.
    pub history: OnceLock<ReadHistory>,
}

/// The limits of connections.
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
    /// The state of a server before its start.
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
            clients: Clients::new(&config, client_port),
            ensemble: Ensemble::new(config.ensemble.as_ref()),
            disk: Disk::new(snapshots, config.ship_bytes_per_second),
            counting: Counting::new(config.ensemble.as_ref()),
            http: HttpPorts::default(),
            ending: Ending::default(),
            restoring: Restoring::default(),
            common: Common::new(tree, schemes, client_rules(&config, sasl)),
            config,
            metrics,
            audit: OnceLock::new(),
            turns: Turns::default(),
            clock,
        }
    }

    /// Resets the statistics of the server.
    pub fn reset_stats(&self) {
        self.counting.stats.reset();
        self.metrics.reset();
        self.counting.histograms.reset();
    }

    /// Resets the statistics of all connections.
    pub fn reset_connections(&self) {
        self.conns().each(|conn| conn.side.stats.reset());
    }

    /// Another configuration was committed.
    pub fn set_members(&self, members: Arc<Membership>) {
        *self.ensemble.members.lock() = Some(members);
        self.divide_load(self.serving());
        self.clients.members_changed.notify_one();
    }

    /// The state.
    pub fn tree(&self) -> &RwLock<Tree> {
        &self.common.tree
    }

    /// The inbox of the replica.
    pub fn inbox(&self) -> &Inbox {
        &self.common.inbox
    }

    /// Every connection.
    pub fn conns(&self) -> &Conns<Side> {
        &self.common.conns
    }

    /// Accepts a connection, unless its address or the server has reached its limit.
    pub fn enter(&self, address: IpAddr, make: impl FnOnce(ConnId) -> Conn) -> Option<Arc<Conn>> {
        self.common.conns.enter(address, self.clients.conn_limits, make)
    }

    /// Asks the server to stop. The first failure counts, even if the server was asked to stop
    /// before.
    pub fn stop(&self, why: Result<(), RunError>) {
        self.ending.decide(why);
        self.common.serve(Duration::ZERO, || None);
        self.ending.tell();
    }

    /// This server's mode; `None` while it does not serve clients.
    pub fn serving(&self) -> Option<Mode> {
        self.common.serving()
    }

    /// The time since which it has this mode.
    pub fn uptime(&self) -> Duration {
        let since = self.common.serving_since();
        since.map_or(Duration::ZERO, |since| self.clock.monotonic().saturating_sub(since))
    }

    /// Only voters have a share of the ensemble's limit of requests in progress.
    fn divide_load(&self, mode: Option<Mode>) {
        let votes = matches!(mode, Some(Mode::Leader | Mode::Follower));
        let members = self.ensemble.members.lock().clone().filter(|_| votes);
        self.common.load.divide_among(members.map_or(1, |members| members.voters().count()));
    }

    /// Begins to serve clients in this mode, or stops serving. A server that is asked to stop no
    /// longer serves.
    pub fn serve(&self, mode: Option<Mode>) {
        self.divide_load(mode);
        zebu_logs::process::has_role(mode.map_or("not serving", Mode::name));
        // A thread that stops the server sets the flag first, and then takes the lock under which
        // this is read.
        self.common.serve(self.clock.monotonic(), || mode.filter(|_| !self.ending.is_stopping()));
    }
}
