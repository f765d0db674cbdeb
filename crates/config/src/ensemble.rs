//! The typed configuration of a member of an ensemble.

use std::path::PathBuf;
use std::time::Duration;

use zebu_proto::ServerId;
use zebu_zab::config::{Membership, Role, Rules};

use super::Note;
use super::build::Reader;
use super::dynamic::Members;
use super::settings::{PeerSaslConfig, PeerTlsConfig};
use super::sources::Origin;
use super::value;

/// Minimum number of committed transactions kept in memory.
const COMMITTED_TXNS_MIN: i64 = 500;
/// Attempts to bind the election port if the configured number is invalid.
const BIND_TRIES: u32 = 3;
/// Maximum time that a server without an introduction may stay connected to the election port, as
/// at the other ports.
const GREETING_TIME_MAX: Duration = Duration::from_secs(15);

/// The settings of a member of an ensemble.
#[derive(Debug, Clone, PartialEq)]
pub struct EnsembleConfig {
    /// `myid`: this server.
    pub me: ServerId,
    /// The members; their version is that in the dynamic file's name, or 0.
    pub members: Membership,
    /// This server's role.
    pub role: Role,
    /// `standaloneEnabled` and `multiAddress.enabled`, for later configurations.
    pub rules: Rules,
    /// `dynamicConfigFile`, if the members come from it.
    pub dynamic_file: Option<PathBuf>,
    /// The configuration that was proposed when this server stopped: the members in
    /// `zoo.cfg.dynamic.next`.
    pub proposed: Option<Membership>,
    /// The place in the configuration that makes this an ensemble.
    pub origin: Origin,
    /// `initLimit`: ticks that discovery and synchronization may take, at least 1.
    pub init_ticks: u32,
    /// `syncLimit`: ticks that a learner may be silent or lag, at least 1.
    pub sync_ticks: u32,
    /// `connectToLearnerMasterLimit`: ticks that connecting to a leader may take; `initLimit`
    /// unless set.
    pub connect_ticks: u32,
    /// `leaderConnectDelayDuringRetryMs`: pause between two attempts.
    pub connect_pause: Duration,
    /// `localSessionsEnabled`.
    pub local_sessions: bool,
    /// `localSessionsUpgradingEnabled`.
    pub upgrade_local_sessions: bool,
    /// `leaderServes`: whether a leader accepts clients.
    pub leader_serves: bool,
    /// `oraclePath`: decides which of two servers may continue alone.
    pub oracle: Option<PathBuf>,
    /// `leader.maxTimeToWaitForEpoch`: how long a leader waits for a quorum although voters that
    /// elected it look for a leader again; `None` is the whole `initLimit`.
    pub epoch_wait_max: Option<Duration>,
    /// `zebu.leaderSilence`: how long a leader may be silent while all voters are Zebu servers;
    /// `None` is `syncLimit`.
    pub leader_silence: Option<Duration>,
    /// `testingonly.initialZxid`: the first counter of a new leader, for tests of its overflow.
    pub first_counter: Option<u32>,
    /// Elections.
    pub election: ElectionNetConfig,
    /// Learners.
    pub learners: LearnerSyncConfig,
    /// TLS between servers; `None` if it is disabled.
    pub tls: Option<PeerTlsConfig>,
    /// SASL between servers; `None` if it is disabled: nothing is sent, and nothing is expected.
    pub sasl: Option<PeerSaslConfig>,
}

/// How servers find each other in elections.
#[derive(Debug, Clone, PartialEq)]
pub struct ElectionNetConfig {
    /// `fastleader.minNotificationInterval`: initial time to wait for notifications before they are
    /// sent again.
    pub notify_min: Duration,
    /// `fastleader.maxNotificationInterval`: maximum of that time.
    pub notify_max: Duration,
    /// `cnxTimeout`: time to connect.
    pub connect_timeout: Duration,
    /// `quorumCnxnTimeoutMs`: time limit for the introduction on a new connection; `syncLimit`
    /// unless set. At most 15 s.
    pub handshake_timeout: Duration,
    /// `electionPortBindRetry`: attempts to bind; `None` is forever.
    pub bind_tries: Option<u32>,
    /// `tcpKeepAlive` on election connections.
    pub tcp_keep_alive: bool,
    /// `quorumListenOnAllIPs`: listen on all addresses instead of this server's own.
    pub listen_on_all: bool,
    /// `multiAddress.reachabilityCheckEnabled` and `multiAddress.reachabilityCheckTimeoutMs`:
    /// maximum time until data sent to one of a member's addresses are acknowledged; after that
    /// another address is tried. `None`: no check.
    pub reachability_timeout: Option<Duration>,
}

/// How a leader synchronizes learners, and the behaviour of observers.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerSyncConfig {
    /// `leader.maxConcurrentSnapSyncs`: maximum number of observers that get a snapshot at the same
    /// time.
    pub snap_syncs_max: u32,
    /// `leader.maxConcurrentDiffSyncs`: maximum number of observers that get missing transactions
    /// at the same time.
    pub diff_syncs_max: u32,
    /// `commitLogCount`: committed transactions kept in memory, at least 500.
    pub committed_txns: u32,
    /// `leader.ackLoggingFrequency`: for one in this number of transactions, the time until each
    /// server's acknowledgement is measured; `None` is never.
    pub acks_timed_every: Option<u32>,
    /// `snapshotSizeFactor`: up to this share of the snapshot's size, a learner is synchronized
    /// from the log on disk; `None` is never.
    pub log_share: Option<f64>,
    /// `forceSnapshotSync`: learners always get a snapshot.
    pub always_snapshot: bool,
    /// `leader.nodelay`: TCP_NODELAY towards learners.
    pub leader_no_delay: bool,
    /// `follower.nodelay`: TCP_NODELAY towards the leader.
    pub learner_no_delay: bool,
    /// `observerMasterPort`: the port at which a follower listens for observers, and to which
    /// observers connect.
    pub observer_master_port: Option<u16>,
    /// `observerMaster.sizeLimit`: bytes of committed transactions that a voter keeps in memory if
    /// it may have observers.
    pub observer_master_bytes: u64,
    /// `syncEnabled`: whether observers write log and snapshots.
    pub observers_write: bool,
    /// `observer.reconnectDelayMs`: pause before an observer connects again.
    pub observer_reconnect_pause: Duration,
    /// `observer.election.DelayMs`: maximum pause before an observer looks for a leader again.
    pub observer_election_pause_max: Duration,
}

impl Reader<'_> {
    /// The settings that decide whether there is an ensemble.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            standalone: self.is_on("standaloneEnabled"),
            multi_address: self.is_on("multiAddress.enabled"),
        }
    }

    /// Reads all settings even without an ensemble, so that errors are found early.
    pub(super) fn ensemble(&self, members: &Members) -> Option<EnsembleConfig> {
        let rules = self.rules();
        let ensemble = members.ensemble.as_ref();
        let limit = |key, needed| self.ticks(key, needed && members.is_ensemble);
        let (init_ticks, sync_ticks) = (limit("initLimit", true), limit("syncLimit", true));
        let connect_ticks = match limit("connectToLearnerMasterLimit", false) {
            0 => init_ticks,
            ticks => ticks,
        };
        let election = self.election(sync_ticks);
        let learners = self.learners();
        let (tls, sasl) = (self.peer_tls(), self.peer_sasl());
        let epoch_wait_max = self.number("leader.maxTimeToWaitForEpoch").filter(|ms| *ms >= 0);
        let leader_silence = Some(self.ms("zebu.leaderSilence")).filter(|it| !it.is_zero());
        let local_sessions = self.is_on("localSessionsEnabled");
        let upgrade_local_sessions = self.is_on("localSessionsUpgradingEnabled");
        let leader_serves = self.is_on("leaderServes");
        let oracle = self.text("oraclePath").map(PathBuf::from);
        let first_counter = self.given("testingonly.initialZxid");
        let first_counter = first_counter.map(|_| self.count("testingonly.initialZxid"));
        let connect_pause = self.ms("leaderConnectDelayDuringRetryMs");
        let ensemble = ensemble?;
        let role = ensemble.members.role(ensemble.me).unwrap_or_default();
        if let Some(given) = self.given("peerType")
            && given.value().parse() != Ok(role)
        {
            self.adjusted(given, &format!("the server list says {role}, which takes precedence"));
        }
        Some(EnsembleConfig {
            me: ensemble.me,
            members: ensemble.members.clone(),
            role,
            rules,
            dynamic_file: ensemble.dynamic_file.clone(),
            proposed: ensemble.proposed.clone(),
            origin: ensemble.origin.clone(),
            init_ticks,
            sync_ticks,
            connect_ticks,
            connect_pause,
            local_sessions,
            upgrade_local_sessions,
            leader_serves,
            oracle,
            epoch_wait_max: epoch_wait_max.map(|_| self.ms("leader.maxTimeToWaitForEpoch")),
            leader_silence,
            first_counter,
            election,
            learners,
            tls,
            sasl,
        })
    }

    /// Source: `QuorumPeerConfig.checkValidity`.
    fn ticks(&self, key: &'static str, is_needed: bool) -> u32 {
        match self.number(key).unwrap_or(0) {
            0 if is_needed => {
                self.problem(key, format!("{key} is not set"));
                0
            }
            ticks @ ..0 => {
                self.problem(key, format!("{key}={ticks}: must not be negative"));
                0
            }
            ticks => u32::try_from(ticks).unwrap_or(u32::MAX),
        }
    }

    fn election(&self, sync_ticks: u32) -> ElectionNetConfig {
        let above_zero = |key| self.number(key).filter(|ms| *ms > 0).map(|_| self.ms(key));
        let bind_tries = match self.number("electionPortBindRetry") {
            Some(0) => None,
            Some(tries) => Some(u32::try_from(tries).unwrap_or_else(|_| {
                if let Some(given) = self.given("electionPortBindRetry") {
                    self.adjusted(given, &format!("must not be negative, using {BIND_TRIES}"));
                }
                BIND_TRIES
            })),
            None => Some(BIND_TRIES),
        };
        let timeout = self.ms("multiAddress.reachabilityCheckTimeoutMs");
        let is_checked = self.is_on("multiAddress.reachabilityCheckEnabled");
        ElectionNetConfig {
            notify_min: self.ms("fastleader.minNotificationInterval"),
            notify_max: self.ms("fastleader.maxNotificationInterval"),
            connect_timeout: self.ms("cnxTimeout"),
            handshake_timeout: above_zero("quorumCnxnTimeoutMs")
                .unwrap_or_else(|| self.ms("tickTime") * sync_ticks)
                .min(GREETING_TIME_MAX),
            bind_tries,
            tcp_keep_alive: self.is_on("tcpKeepAlive"),
            listen_on_all: self.is_on("quorumListenOnAllIPs"),
            reachability_timeout: is_checked.then_some(timeout),
        }
    }

    fn learners(&self) -> LearnerSyncConfig {
        let log_share = self.value("snapshotSizeFactor").and_then(value::decimal);
        let port = self.number("observerMasterPort").and_then(|port| u16::try_from(port).ok());
        LearnerSyncConfig {
            snap_syncs_max: self.count("leader.maxConcurrentSnapSyncs"),
            diff_syncs_max: self.count("leader.maxConcurrentDiffSyncs"),
            committed_txns: self.at_least("commitLogCount", COMMITTED_TXNS_MIN),
            acks_timed_every: self
                .number("leader.ackLoggingFrequency")
                .and_then(|every| u32::try_from(every).ok())
                .filter(|every| *every > 0),
            log_share: log_share.filter(|share| *share >= 0.0),
            always_snapshot: self.is_on("forceSnapshotSync"),
            leader_no_delay: self.is_on("leader.nodelay"),
            learner_no_delay: self.is_on("follower.nodelay"),
            observer_master_port: port.filter(|port| *port > 0),
            observer_master_bytes: self
                .number("observerMaster.sizeLimit")
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or(0),
            // Here the property takes precedence over the key.
            observers_write: match self.given("observer.syncEnabled") {
                Some(_) => self.is_on("observer.syncEnabled"),
                None => self.is_on("syncEnabled"),
            },
            observer_reconnect_pause: self.ms("observer.reconnectDelayMs"),
            observer_election_pause_max: self.ms("observer.election.DelayMs"),
        }
    }
}

/// Warnings about the number of servers.
pub(super) fn id_note(origin: &Origin, id: i64) -> Option<Note> {
    (!(1..=255).contains(&id)).then(|| {
        Note::warn(format!(
            "{origin}: server id {id} is outside of 1 to 255: its session ids may equal those of another server"
        ))
    })
}
