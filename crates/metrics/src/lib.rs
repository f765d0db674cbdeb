//! The server's metrics, under the names of the original.
//!
//! A struct has one typed field for each metric, so counting is `metrics.stale_requests.add(1)`: no
//! lookup, no lock, no allocation. Values derived from the current state (connections, znodes,
//! latencies since the last reset) are not metrics but facts of `four_letter`.
//!
//! **Invariant:** a field exists only if the server counts it. Remove the field with the counting,
//! and `mntr` stops printing it. Checked by `../server/tests/server/counted.rs`.
//!
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

/// A kind of metric.
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
            /// The original's names, in the order in which `visit` shows them.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            /// Shows every metric to `visitor`, with the prefixes and suffixes of the original.
            pub fn visit(&self, visitor: &mut dyn Visitor) {
                $(self.$name.visit(stringify!($name), visitor);)*
            }

            /// Shows every metric in the Prometheus form, with its help text.
            pub fn expose(&self, out: &mut dyn Exposition) {
                $(
                    let help = concat!($($doc),*).trim();
                    out.family(stringify!($name), <$kind as Metric>::KIND, help);
                    self.$name.expose(stringify!($name), None, out);
                )*
            }

            /// Resets all metrics (`srst`).
            pub fn reset(&self) {
                $(Metric::reset(&self.$name);)*
            }
        }
    };
}

metrics! {
    // Connections and bytes.

    /// Bytes of frames received from clients, length prefixes included.
    bytes_received_count: Counter,
    /// Bytes of replies, notifications excluded.
    response_bytes: Counter,
    /// Bytes of watch notifications sent to clients.
    watch_bytes: Counter,
    /// Connections that the client closed. A rising rate means that clients reconnect often.
    connection_drop_count: Counter,
    /// Connections refused because of `maxCnxns`, `maxClientCnxns` or the connection throttle.
    connection_rejected: Counter,
    /// Connections closed because too many TLS handshakes were in progress.
    tls_handshake_exceeded: Counter,
    /// TLS handshakes that failed.
    unsuccessful_handshake: Counter,
    /// Connections for TLS that were closed before their handshake because the server served nobody
    /// (`netty.server.earlyDropSecureConnectionHandshakes`).
    cnxn_closed_without_zk_server_running: Counter,
    /// Connections without TLS at an admin port that takes both kinds (`admin.portUnification`).
    insecure_admin_count: Counter,
    /// Connections between servers that ended because of TLS, SASL, a certificate of another
    /// server, or because the other server did not say in time who it is.
    peer_connections_refused: Counter,
    /// Authentication attempts refused without a check, because their address had failed too often.
    /// A rising value suggests guessed passwords.
    auth_attempts_limited: Counter,
    /// Authentication attempts with wrong credentials.
    auth_failures: Counter,
    /// Clients that named another ensemble with the scheme `ensemble`, and were disconnected.
    ensemble_auth_fail: Counter,
    /// Clients that sent no name with the scheme `ensemble`, or sent one to a server without a
    /// configured name.
    ensemble_auth_skip: Counter,
    /// Clients that named this ensemble with the scheme `ensemble`.
    ensemble_auth_success: Counter,
    /// Auth packets that an external authentication program refused.
    external_auth_refused: Counter,
    /// Auth packets that an external authentication program accepted.
    external_auth_success: Counter,
    /// Auth packets for which an external authentication program gave no verdict. A rising value
    /// means that the program is down or slow.
    external_auth_unknown: Counter,
    /// Events missing from the audit log, because its file could not be written or the writer fell
    /// behind.
    audit_events_lost: Counter,
    /// Connections closed because their identity had reached its limit of connections.
    identity_connections_rejected: Counter,
    /// Connect requests that the connection throttle admitted.
    connection_request_count: Counter,
    /// Connect requests of clients that resume an existing session.
    connection_revalidate_count: Counter,
    /// Connections closed because the client sent no connect request in time.
    sessionless_connections_expired: Counter,
    /// Connections closed because the client did not authenticate in time where it must.
    unauthenticated_connections_expired: Counter,
    /// Sessions that expired because the server did not hear from their clients within the timeout.
    stale_sessions_expired: Counter,
    /// Tokens used up in the connection throttle's bucket, recorded after each admitted connect
    /// request. A value near the bucket's size means that connects will soon be refused.
    connection_token_deficit: Summary,

    // Request throttle.

    /// Requests refused because of `largeRequestMaxBytes`.
    large_requests_rejected: Counter,
    /// Times that requests had to wait because `request_throttle_max_requests` were in progress. A
    /// rising value means overload.
    request_throttle_wait_count: Counter,
    /// Milliseconds from a request's arrival until the request throttle admitted it.
    request_throttle_queue_time_ms: PercentileSummary,
    /// Stale requests that were processed nevertheless. A request is stale if its connection is
    /// closed, or if it is older than its session's timeout.
    stale_requests: Counter,
    /// Stale requests that were dropped.
    stale_requests_dropped: Counter,
    /// Replies dropped because their connection was closed.
    stale_replies: Counter,
    /// Requests answered with THROTTLEDOP (-127), because they had waited longer than
    /// `throttled_op_wait_time`. A rising value means overload.
    throttled_ops: Counter,

    // Validation.

    /// Requests and connect requests queued for validation.
    prep_processor_request_queued: Counter,
    /// Requests waiting for validation, recorded each time the server takes them. A rising value
    /// means that validation is the bottleneck.
    prep_processor_queue_size: Summary,
    /// Milliseconds that a request waited for validation.
    prep_processor_queue_time_ms: PercentileSummary,
    /// Milliseconds to validate all the requests taken at a time.
    prep_process_time: Summary,
    /// Creates of ephemeral znodes refused because the transaction that closes the session would
    /// become too large.
    ephemeral_node_limit_violation: Counter,
    /// Changes that were validated and are to be applied when they are committed.
    outstanding_changes_queued: Counter,
    /// Validated changes that were applied or discarded.
    outstanding_changes_removed: Counter,

    // Transaction log.

    /// Transactions queued for the transaction log.
    sync_processor_request_queued: Counter,
    /// Transactions waiting for the transaction log, recorded each time it takes some. A rising
    /// value means that the disk is the bottleneck.
    sync_processor_queue_size: Summary,
    /// Milliseconds that a transaction waited before it was written to the transaction log.
    sync_processor_queue_time_ms: PercentileSummary,
    /// Milliseconds from the moment a transaction was queued for the log until its batch was
    /// durable.
    sync_processor_queue_and_flush_time_ms: PercentileSummary,
    /// Milliseconds to flush one batch of transactions to disk.
    sync_processor_queue_flush_time_ms: PercentileSummary,
    /// Milliseconds to append the transactions taken at a time to the log's buffer, without the
    /// flush.
    sync_process_time: Summary,
    /// Transactions per flush of the log.
    sync_processor_batch_size: Summary,
    /// Milliseconds of an fsync.
    fsynctime: Summary,
    /// Milliseconds to write a snapshot.
    snapshottime: Summary,

    // Ensembles.

    /// Times that this server started to look for a leader. A rising value means an unstable
    /// ensemble.
    looking_count: Counter,
    /// Milliseconds of a leader election, from its start until this server knew the result.
    /// Observers do not record it.
    election_time: Summary,
    /// Times that this server, elected as leader, gave up before it led, because one of its
    /// supporters changed its vote.
    quit_leading_due_to_disloyal_voter: Counter,
    /// Transactions that this server proposed as the leader.
    proposal_count: Counter,
    /// Transactions that were committed while this server was the leader.
    commit_count: Counter,
    /// Learners synchronized with DIFF or TRUNC, that is with the missing transactions only.
    diff_count: Counter,
    /// Learners synchronized with SNAP, that is with the whole tree. A rising value means that
    /// learners fall far behind.
    snap_count: Counter,
    /// Sessions whose validity learners asked this server to confirm, because their clients
    /// reconnected.
    revalidate_count: Counter,
    /// Proposals received from the leader after synchronization.
    learner_proposal_received_count: Counter,
    /// Commits and informs received from the leader after synchronization.
    learner_commit_received_count: Counter,
    /// Milliseconds of a synchronization with the leader, at a follower.
    follower_sync_time: Summary,
    /// Milliseconds of a synchronization with the leader, at an observer.
    observer_sync_time: Summary,
    /// Milliseconds from the moment this server started to look for a leader until it served
    /// clients again.
    unavailable_time: Summary,
    /// As unavailable_time, but only if this server became the leader.
    leader_unavailable_time: Summary,
    /// Learners being synchronized with SNAP, recorded when one starts or ends.
    inflight_snap_count: Summary,
    /// Learners being synchronized with DIFF or TRUNC, recorded when one starts or ends.
    inflight_diff_count: Summary,
    /// Milliseconds from the leader's timestamp of a transaction until this learner received its
    /// proposal. The servers' clocks must agree.
    proposal_latency: PercentileSummary,
    /// Milliseconds from the leader's timestamp of a transaction until this server acknowledged it.
    proposal_ack_creation_latency: PercentileSummary,
    /// Milliseconds from the leader's timestamp of a transaction until this learner was told that
    /// it is committed.
    commit_propagation_latency: PercentileSummary,
    /// Milliseconds from the timestamp of a transaction until a quorum had acknowledged it, at the
    /// leader.
    quorum_ack_latency: PercentileSummary,
    /// Milliseconds from the timestamp of a transaction until the server `key` acknowledged it, at
    /// the leader. Only a sample of transactions is recorded, and only while it is uncommitted. A
    /// high value shows a slow server.
    ack_latency: PercentileSummarySet,
    /// Packets waiting to be sent to the learner `key`, recorded each time some are sent. A rising
    /// value means a slow learner or network.
    learner_handler_qp_size: SummarySet,
    /// Milliseconds that a packet waited to be sent to the learner `key`. Only a sample of packets
    /// is recorded.
    learner_handler_qp_time_ms: PercentileSummarySet,

    // Waiting for commits, in an ensemble.

    /// Committed transactions ready to be applied, recorded each time some are applied or reads
    /// behind them are answered.
    commit_commit_proc_req_queued: Summary,
    /// Reads answered at a time after they had waited for earlier transactions of their sessions.
    read_commit_proc_issued: Summary,
    /// Transactions applied at a time.
    write_commit_proc_issued: Summary,
    /// Milliseconds to apply the transactions that are ready, and to answer their requests and the
    /// reads behind them.
    write_batch_time_in_commit_processor: Summary,
    /// As write_batch_time_in_commit_processor, but also recorded when only reads were answered.
    commit_process_time: Summary,
    /// Milliseconds from the arrival of a write from a client of this server until it is applied.
    write_commitproc_time_ms: PercentileSummary,
    /// Milliseconds from the arrival of a read that had to wait for earlier transactions until it
    /// is answered.
    read_commitproc_time_ms: PercentileSummary,
    /// Milliseconds from the commit of a write from a client of this server until it is applied.
    local_write_committed_time_ms: PercentileSummary,
    /// Milliseconds from the commit of a write from a client of another server until it is applied.
    server_write_committed_time_ms: PercentileSummary,

    // Startup.

    /// Milliseconds to load the database at the start: snapshot and transaction log.
    dbinittime: Summary,
    /// Milliseconds to load the snapshot at the start.
    startup_snap_load_time: Summary,
    /// Milliseconds to replay the transaction log at the start.
    startup_txns_load_time: Summary,
    /// Transactions replayed from the log at the start.
    startup_txns_loaded: Summary,

    // Latencies and checks.

    /// Milliseconds from the arrival of a read until its answer.
    readlatency: PercentileSummary,
    /// Milliseconds from the arrival of a write from a client of this server until its answer.
    updatelatency: PercentileSummary,
    /// Milliseconds from the leader's timestamp of a transaction until this server applies it. The
    /// servers' clocks must agree.
    propagation_latency: PercentileSummary,
    /// Milliseconds from the moment a read can be processed until its answer.
    read_final_proc_time_ms: PercentileSummary,
    /// Milliseconds from the moment a committed write can be applied until its answer.
    write_final_proc_time_ms: PercentileSummary,
    /// Transactions whose digest differs from the digest of this server's tree. Any value above 0
    /// means inconsistent data.
    digest_mismatches_count: Counter,
    /// Times that this server's tree was found to differ from the leader's or a quorum's. Any value
    /// above 0 means inconsistent data.
    tree_doubts_count: Counter,
    /// Damaged snapshot and log files found by the check that runs in the background.
    scrub_damage_count: Counter,
    /// Snapshots that could not be written. A rising value means a full or failing disk.
    snapshot_error_count: Counter,
    /// Snapshot requests to the admin server refused because the previous one was too recent.
    snapshot_rate_limited_count: Counter,
    /// Milliseconds from a request to restore a snapshot until the server serves with it.
    restore_time: Summary,
    /// Snapshots handed to the admin server that did not become the state.
    restore_error_count: Counter,
    /// Requests to restore a snapshot refused because the previous one was too recent.
    restore_rate_limited_count: Counter,

    // Watches.

    /// Connections notified of one created znode.
    node_created_watch_count: Summary,
    /// Connections notified of one deleted znode.
    node_deleted_watch_count: Summary,
    /// Connections notified of one change of a znode's data.
    node_changed_watch_count: Summary,
    /// Connections notified of one change of a znode's children.
    node_children_watch_count: Summary,

    // By namespace.

    /// Bytes of path and data of each znode written or deleted, by the first component `key` of its
    /// path.
    write_per_namespace: SummarySet,
    /// Bytes of path and result of each read, by the first component `key` of its path. Reads
    /// within a multiRead are not recorded.
    read_per_namespace: SummarySet,
    /// Writes refused because of a hard quota, by the first component `key` of their path.
    quota_exceeded_error_per_namespace: CounterSet,

    // Requests answered, by operation.

    /// Requests answered, of all kinds.
    op_count_total: Counter,
    /// addWatch requests answered.
    op_count_add_watch: Counter,
    /// checkWatches requests answered.
    op_count_check_watches: Counter,
    /// closeSession requests answered.
    op_count_close_session: Counter,
    /// Create requests answered, in all forms.
    op_count_create: Counter,
    /// createSession requests answered.
    op_count_create_session: Counter,
    /// Delete requests answered, in all forms.
    op_count_delete: Counter,
    /// exists requests answered.
    op_count_exists: Counter,
    /// getACL requests answered.
    op_count_get_acl: Counter,
    /// getAllChildrenNumber requests answered.
    op_count_get_all_children_number: Counter,
    /// getChildren and getChildren2 requests answered.
    op_count_get_children: Counter,
    /// getData requests answered.
    op_count_get_data: Counter,
    /// getEphemerals requests answered.
    op_count_get_ephemerals: Counter,
    /// multi requests answered.
    op_count_multi: Counter,
    /// multiRead requests answered.
    op_count_multi_read: Counter,
    /// ping requests answered.
    op_count_ping: Counter,
    /// reconfig requests answered.
    op_count_reconfig: Counter,
    /// removeWatches requests answered.
    op_count_remove_watches: Counter,
    /// setACL requests answered.
    op_count_set_acl: Counter,
    /// setData requests answered.
    op_count_set_data: Counter,
    /// setWatches and setWatches2 requests answered.
    op_count_set_watches: Counter,
    /// sync requests answered.
    op_count_sync: Counter,
    /// whoAmI requests answered.
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
        metrics.write_per_namespace.gather().add(b"/app/x", 10);
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
