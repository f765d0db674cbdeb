//! The server's metrics, under the names of the original.
//!
//! A struct has one typed field for each metric, so counting is `metrics.stale_requests.add(1)`: no
//! lookup, no lock, no allocation. Values derived from the current state (connections, znodes,
//! latencies since the last reset) are not metrics but facts of `four_letter`.
//!
//! **Invariant:** a field exists only if the server counts it. Remove the field with the counting,
//! and `mntr` stops printing it.
//! Source: `ServerMetrics.java`, `SimpleCounter`, `AvgMinMaxCounter`, `AvgMinMaxPercentileCounter`
//! and their sets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

mod histogram;
mod namespaced;
mod server_stats;
mod summary;

pub use histogram::{Histogram, Histograms, Phases};
pub use namespaced::{
    CounterSet, Gather, NAMESPACES_MAX, PercentileSummarySet, SummarySet, namespace,
};
pub use server_stats::{ResponseSizes, ServerStats};
pub use summary::{Gathered, PercentileSummary, Repeated, Summary};

/// A number that only grows, until it is reset.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// The current value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Receives metrics by name.
pub trait Visitor {
    /// A whole number.
    fn integer(&mut self, name: &str, value: i64);
    /// A number with up to four decimals, never NaN.
    fn decimal(&mut self, name: &str, value: f64);
}

/// Receives metrics by family, for the Prometheus format.
pub trait Exposition {
    /// Starts a family; its members follow.
    fn family(&mut self, name: &str, kind: Kind, help: &str);
    /// A counter of the family; `key` is set for members of a set.
    fn counter(&mut self, name: &str, key: Option<&str>, value: u64);
    /// A summary of the family.
    fn summary(&mut self, name: &str, key: Option<&str>, summary: &Shown);
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Numbers that only grow.
    Counter,
    /// Summaries of values.
    Summary,
}

/// A summary for an [`Exposition`].
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Number of values since the start or the last reset.
    pub count: u64,
    /// Their sum.
    pub sum: i64,
    /// Quantiles, 0 to 1, of a sample of the values; `None` without values.
    pub quantiles: Vec<(f64, Option<i64>)>,
}

/// How a kind of metric shows itself under a name.
trait Metric {
    const KIND: Kind;
    fn visit(&self, name: &str, visitor: &mut dyn Visitor);
    fn expose(&self, name: &str, key: Option<&str>, out: &mut dyn Exposition);
    fn reset(&self);
}

impl Metric for Counter {
    const KIND: Kind = Kind::Counter;

    fn expose(&self, name: &str, key: Option<&str>, out: &mut dyn Exposition) {
        out.counter(name, key, self.value());
    }

    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.integer(name, i64::try_from(self.value()).unwrap_or(i64::MAX));
    }

    fn reset(&self) {
        Self::reset(self);
    }
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])* $name:ident: $kind:ty,)*) => {
        /// Every metric of a server.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[doc = $doc])* pub $name: $kind,)*
        }

        impl Metrics {
            /// The names, as the original has them, in the order they are visited.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            /// Shows every metric to `visitor`, with the prefixes and suffixes of the original.
            pub fn visit(&self, visitor: &mut dyn Visitor) {
                $(self.$name.visit(stringify!($name), visitor);)*
            }

            /// Shows every metric as Prometheus has it, what it counts included.
            pub fn expose(&self, out: &mut dyn Exposition) {
                $(
                    let help = concat!($($doc),*).trim();
                    out.family(stringify!($name), <$kind as Metric>::KIND, help);
                    self.$name.expose(stringify!($name), None, out);
                )*
            }

            /// Starts all of them again (`srst`).
            pub fn reset(&self) {
                $(Metric::reset(&self.$name);)*
            }
        }
    };
}

metrics! {
    // Connections and bytes.

    /// Bytes of client frames, length prefixes included.
    bytes_received_count: Counter,
    /// Bytes of replies, notifications excluded.
    response_bytes: Counter,
    /// Bytes of notifications.
    watch_bytes: Counter,
    /// Connections the client closed.
    connection_drop_count: Counter,
    /// Connections refused by `maxCnxns`, `maxClientCnxns` or the connection throttle.
    connection_rejected: Counter,
    /// Connections closed as there were too many TLS handshakes at a time.
    tls_handshake_exceeded: Counter,
    /// TLS handshakes that failed.
    unsuccessful_handshake: Counter,
    /// Attempts to authenticate that were turned away unheard, because their addresses had failed
    /// too often.
    auth_attempts_limited: Counter,
    /// Attempts to authenticate with wrong credentials.
    auth_failures: Counter,
    /// Clients that named an ensemble that is not this one.
    ensemble_auth_fail: Counter,
    /// Clients that named no ensemble with the scheme `ensemble`, or named one to a server that has
    /// no name.
    ensemble_auth_skip: Counter,
    /// Clients that named this ensemble.
    ensemble_auth_success: Counter,
    /// Auth packets that a program behind a socket has refused.
    external_auth_refused: Counter,
    /// Auth packets that such a program has found good.
    external_auth_success: Counter,
    /// Auth packets on which no such program gave a verdict.
    external_auth_unknown: Counter,
    /// Events that the audit log lacks: its file could not be written, or not as fast as they came.
    audit_events_lost: Counter,
    /// Connections that were closed because their identity had as many as it may have.
    identity_connections_rejected: Counter,
    /// Connect requests that passed the throttle.
    connection_request_count: Counter,
    /// Connect requests that wanted to renew a session.
    connection_revalidate_count: Counter,
    /// Connections closed because no handshake came in time.
    sessionless_connections_expired: Counter,
    /// Sessions that expired.
    stale_sessions_expired: Counter,
    /// Tokens missing from a full connection throttle after each connect request that passed.
    connection_token_deficit: Summary,

    // Intake of requests.

    /// Requests refused because of `largeRequestMaxBytes`.
    large_requests_rejected: Counter,
    /// Times the intake found no room because of `request_throttle_max_requests`.
    request_throttle_wait_count: Counter,
    /// Milliseconds from a request's arrival until it was taken in.
    request_throttle_queue_time_ms: PercentileSummary,
    /// Requests taken in though they were stale: their connection is gone, or they are older than
    /// their session's timeout.
    stale_requests: Counter,
    /// Stale requests that were dropped instead.
    stale_requests_dropped: Counter,
    /// Answers for connections that are gone.
    stale_replies: Counter,
    /// Requests answered with -127.
    throttled_ops: Counter,

    // Validation.

    /// Requests and connects handed to the replica.
    prep_processor_request_queued: Counter,
    /// How many of them it found each time it looked.
    prep_processor_queue_size: Summary,
    /// Milliseconds a request waited until the replica looked.
    prep_processor_queue_time_ms: PercentileSummary,
    /// Milliseconds the replica took to validate all it had found.
    prep_process_time: Summary,
    /// Creates of ephemeral znodes refused because the end of their session would be too long.
    ephemeral_node_limit_violation: Counter,
    /// Changes that were validated and not yet applied.
    outstanding_changes_queued: Counter,
    /// Changes that were applied or given up.
    outstanding_changes_removed: Counter,

    // Log.

    /// Txns handed to the log.
    sync_processor_request_queued: Counter,
    /// Txns waiting for the log each time it takes some.
    sync_processor_queue_size: Summary,
    /// Milliseconds a txn waits for the log.
    sync_processor_queue_time_ms: PercentileSummary,
    /// Milliseconds from a txn's arrival at the log until its batch is on disk.
    sync_processor_queue_and_flush_time_ms: PercentileSummary,
    /// Milliseconds it takes to write a batch and have it on disk.
    sync_processor_queue_flush_time_ms: PercentileSummary,
    /// Milliseconds the log takes to put away the txns it took.
    sync_process_time: Summary,
    /// Txns per flush.
    sync_processor_batch_size: Summary,
    /// Milliseconds of an fsync.
    fsynctime: Summary,
    /// Milliseconds of a snapshot.
    snapshottime: Summary,

    // Ensembles.

    /// Times this server began to look for a leader.
    looking_count: Counter,
    /// Milliseconds from there until there was one.
    election_time: Summary,
    /// Leaderships given up before they began, as a supporter looked for a leader again.
    quit_leading_due_to_disloyal_voter: Counter,
    /// Transactions proposed by this server.
    proposal_count: Counter,
    /// Those it has seen committed while it leads.
    commit_count: Counter,
    /// Learners that were brought up to date by what they lack, or by cutting what they have too
    /// much.
    diff_count: Counter,
    /// Learners that were sent the whole tree.
    snap_count: Counter,
    /// Sessions that learners have asked about.
    revalidate_count: Counter,
    /// Proposals received, those of a synchronization excluded.
    learner_proposal_received_count: Counter,
    /// Commits and informs received likewise.
    learner_commit_received_count: Counter,
    /// Milliseconds a synchronization with the leader took, at a follower.
    follower_sync_time: Summary,
    /// The same at an observer.
    observer_sync_time: Summary,
    /// Milliseconds without a leader, until there was one.
    unavailable_time: Summary,
    /// The same where this server became the leader.
    leader_unavailable_time: Summary,
    /// Learners that are being sent the whole tree, whenever that changes.
    inflight_snap_count: Summary,
    /// Learners that are being sent what they lack likewise.
    inflight_diff_count: Summary,
    /// Milliseconds from the moment a transaction was made until a follower has its proposal.
    proposal_latency: PercentileSummary,
    /// The same until this server acknowledges it.
    proposal_ack_creation_latency: PercentileSummary,
    /// The same until a learner hears that it is committed.
    commit_propagation_latency: PercentileSummary,
    /// The same until a quorum has acknowledged it, at the leader.
    quorum_ack_latency: PercentileSummary,
    /// The same until each server has acknowledged it, for one transaction of many, at the leader,
    /// as long as it is not committed.
    ack_latency: PercentileSummarySet,
    /// Packets that wait for a learner, each time some are sent.
    learner_handler_qp_size: SummarySet,
    /// Milliseconds that one packet of many has waited.
    learner_handler_qp_time_ms: PercentileSummarySet,

    // Waiting for commits, in an ensemble.

    /// Transactions whose turn to be applied has come, each time there are some or a read waits
    /// behind them.
    commit_commit_proc_req_queued: Summary,
    /// Reads that waited for them and are answered then.
    read_commit_proc_issued: Summary,
    /// Transactions that are applied at a time.
    write_commit_proc_issued: Summary,
    /// Milliseconds that takes, answers included.
    write_batch_time_in_commit_processor: Summary,
    /// The same where there may be reads only.
    commit_process_time: Summary,
    /// Milliseconds from the arrival of a write of this server's clients until it is applied.
    write_commitproc_time_ms: PercentileSummary,
    /// Milliseconds from the arrival of a read that waited until it is answered.
    read_commitproc_time_ms: PercentileSummary,
    /// Milliseconds from the moment this server knows that a write of its clients is to be applied
    /// until it does so.
    local_write_committed_time_ms: PercentileSummary,
    /// The same for writes of other servers' clients.
    server_write_committed_time_ms: PercentileSummary,

    // Start.

    /// Milliseconds to load the database.
    dbinittime: Summary,
    /// Milliseconds to load the snapshot.
    startup_snap_load_time: Summary,
    /// Milliseconds to replay the log.
    startup_txns_load_time: Summary,
    /// Txns replayed.
    startup_txns_loaded: Summary,

    // Results.

    /// Milliseconds from arrival to answer of a read.
    readlatency: PercentileSummary,
    /// Milliseconds from arrival to answer of a write.
    updatelatency: PercentileSummary,
    /// Milliseconds from a txn's timestamp until it is applied.
    propagation_latency: PercentileSummary,
    /// Milliseconds from the moment a read is looked at until it is answered.
    read_final_proc_time_ms: PercentileSummary,
    /// Milliseconds from the moment a write may be applied until it is answered.
    write_final_proc_time_ms: PercentileSummary,
    /// Differences between the digest in a txn and that of the tree.
    digest_mismatches_count: Counter,
    /// How often this server's tree was found to differ from its leader's, or a quorum's.
    tree_doubts_count: Counter,
    /// Files that were found damaged while the server ran.
    scrub_damage_count: Counter,
    /// Snapshots that could not be written.
    snapshot_error_count: Counter,
    /// Snapshots refused because the last one that a client asked for was too short a time ago.
    snapshot_rate_limited_count: Counter,

    // Watches: connections notified per event.

    /// Connections notified of a creation.
    node_created_watch_count: Summary,
    /// Connections notified of a deletion.
    node_deleted_watch_count: Summary,
    /// Connections notified of a change of data.
    node_changed_watch_count: Summary,
    /// Connections notified of a change of children.
    node_children_watch_count: Summary,

    // By first component of the path.

    /// Bytes of path and data of each znode written or deleted.
    write_per_namespace: SummarySet,
    /// Bytes of path and result of each read, those of a multi read excluded.
    read_per_namespace: SummarySet,
    /// Writes refused by a hard quota.
    quota_exceeded_error_per_namespace: CounterSet,

    // Requests answered, by kind.

    /// All kinds.
    op_count_total: Counter,
    /// addWatch.
    op_count_add_watch: Counter,
    /// checkWatches.
    op_count_check_watches: Counter,
    /// closeSession.
    op_count_close_session: Counter,
    /// create in all its forms.
    op_count_create: Counter,
    /// createSession.
    op_count_create_session: Counter,
    /// delete in all its forms.
    op_count_delete: Counter,
    /// exists.
    op_count_exists: Counter,
    /// getACL.
    op_count_get_acl: Counter,
    /// getAllChildrenNumber.
    op_count_get_all_children_number: Counter,
    /// getChildren and getChildren2.
    op_count_get_children: Counter,
    /// getData.
    op_count_get_data: Counter,
    /// getEphemerals.
    op_count_get_ephemerals: Counter,
    /// multi.
    op_count_multi: Counter,
    /// multiRead.
    op_count_multi_read: Counter,
    /// ping.
    op_count_ping: Counter,
    /// reconfig.
    op_count_reconfig: Counter,
    /// removeWatches.
    op_count_remove_watches: Counter,
    /// setACL.
    op_count_set_acl: Counter,
    /// setData.
    op_count_set_data: Counter,
    /// setWatches and setWatches2.
    op_count_set_watches: Counter,
    /// sync.
    op_count_sync: Counter,
    /// whoAmI.
    op_count_who_am_i: Counter,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default)]
    struct Seen(BTreeMap<String, String>);

    impl Visitor for Seen {
        fn integer(&mut self, name: &str, value: i64) {
            let old = self.0.insert(name.to_owned(), value.to_string());
            assert_eq!(old, None, "{name} twice");
        }

        fn decimal(&mut self, name: &str, value: f64) {
            assert!(value.is_finite(), "{name}");
            self.integer(name, 0);
            self.0.insert(name.to_owned(), value.to_string());
        }
    }

    fn seen(metrics: &Metrics) -> BTreeMap<String, String> {
        let mut seen = Seen::default();
        metrics.visit(&mut seen);
        seen.0
    }

    #[test]
    fn every_kind_expands_to_the_names_of_the_original() {
        let metrics = Metrics::default();
        metrics.response_bytes.add(7);
        metrics.fsynctime.add(3);
        metrics.fsynctime.add(4);
        metrics.readlatency.add(2);
        metrics.write_per_namespace.add("app", 10);
        metrics.quota_exceeded_error_per_namespace.add("app", 1);
        let seen = seen(&metrics);
        for (name, value) in [
            ("response_bytes", "7"),
            ("avg_fsynctime", "3.5"),
            ("min_fsynctime", "3"),
            ("max_fsynctime", "4"),
            ("cnt_fsynctime", "2"),
            ("sum_fsynctime", "7"),
            ("p50_readlatency", "2"),
            ("p999_readlatency", "2"),
            ("cnt_app_write_per_namespace", "1"),
            ("sum_app_write_per_namespace", "10"),
            ("app_quota_exceeded_error_per_namespace", "1"),
            ("avg_snapshottime", "0"),
        ] {
            assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[derive(Default)]
    struct Exposed(Vec<String>);

    impl Exposition for Exposed {
        fn family(&mut self, name: &str, kind: Kind, help: &str) {
            self.0.push(format!("{name} {kind:?}: {help}"));
        }

        fn counter(&mut self, name: &str, key: Option<&str>, value: u64) {
            self.0.push(format!("{name} {key:?} {value}"));
        }

        fn summary(&mut self, name: &str, key: Option<&str>, shown: &Shown) {
            self.0.push(format!("{name} {key:?} {shown:?}"));
        }
    }

    #[test]
    fn every_metric_is_exposed_as_one_family() {
        let metrics = Metrics::default();
        metrics.response_bytes.add(7);
        [3, 4, 5].into_iter().for_each(|value| metrics.fsynctime.add(value));
        metrics.readlatency.add(2);
        metrics.write_per_namespace.gather().add("/app/x", 10);
        metrics.quota_exceeded_error_per_namespace.add("app", 1);
        let mut exposed = Exposed::default();
        metrics.expose(&mut exposed);
        let of = |name: &str| -> Vec<&str> {
            let lines = exposed.0.iter().filter(|line| line.split(' ').next() == Some(name));
            lines.map(|line| &line[name.len() + 1..]).collect()
        };
        assert_eq!(
            of("response_bytes"),
            ["Counter: Bytes of replies, notifications excluded.", "None 7"]
        );
        assert_eq!(
            of("fsynctime"),
            [
                "Summary: Milliseconds of an fsync.",
                "None Shown { count: 3, sum: 12, quantiles: [(0.5, Some(4))] }"
            ]
        );
        assert_eq!(
            of("readlatency")[1],
            "None Shown { count: 1, sum: 2, quantiles: [(0.5, Some(2)), (0.9, Some(2)), (0.99, Some(2))] }"
        );
        assert_eq!(
            of("snapshottime")[1],
            "None Shown { count: 0, sum: 0, quantiles: [(0.5, None)] }"
        );
        assert_eq!(
            of("write_per_namespace")[1],
            "Some(\"app\") Shown { count: 1, sum: 10, quantiles: [(0.5, Some(10))] }"
        );
        assert_eq!(of("quota_exceeded_error_per_namespace")[1], "Some(\"app\") 1");
        assert_eq!(
            of("read_per_namespace").len(),
            1,
            "a set without members is a family all the same"
        );
    }

    #[test]
    fn reset_starts_everything_again() {
        let metrics = Metrics::default();
        metrics.response_bytes.add(7);
        metrics.readlatency.add(2);
        metrics.write_per_namespace.add("app", 10);
        metrics.reset();
        assert!(seen(&metrics).values().all(|value| value == "0"));
    }
}
