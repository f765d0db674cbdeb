//! Facts of the moment that `mntr`, the command `monitor` and the Prometheus page show beside the
//! metrics.

use zebu_metrics::Visitor;

use crate::four_letter::{Facts, LeaderFacts, MemberFacts, Mode, full_version};

/// Receives the current facts by name.
pub trait Figures: Visitor {
    /// A text.
    fn text(&mut self, name: &str, value: &str);
    /// A set begins: its numbers follow, if it has any.
    fn set(&mut self, _name: &str) {}
    /// A number of a set. `key`: the member of the set.
    fn keyed(&mut self, name: &str, key: &str, value: i64);
}

/// The state of a member that looks for a leader.
///
/// Source: `QuorumStats.Provider`.
const LOOKING: &str = "leaderelection";

/// Reports all facts. `mode`: the server's mode; `None` while it does not serve clients.
pub fn gauges(facts: &dyn Facts, mode: Option<Mode>, out: &mut dyn Figures) {
    out.text("version", &full_version());
    out.text("server_state", mode.map_or(LOOKING, Mode::name));
    // A server without a leader does not take part in the ensemble.
    let member = facts.member().filter(|_| mode.is_some_and(|mode| mode != Mode::ReadOnly));
    if member.is_some() {
        let doing = match mode {
            Some(Mode::Leader) => "leading",
            Some(Mode::Observer) => "observing",
            _ => "following",
        };
        // A serving member is in the broadcast phase.
        out.text("peer_state", &format!("{doing} - broadcast"));
    }
    let server = facts.server();
    out.decimal("avg_latency", server.latency_avg_ms);
    for (name, value) in [
        ("min_latency", server.latency_min_ms),
        ("max_latency", server.latency_max_ms),
        ("packets_received", clamp(server.packets_received)),
        ("packets_sent", clamp(server.packets_sent)),
        ("num_alive_connections", server.connections as i64),
        ("outstanding_tls_handshake", server.tls_handshakes as i64),
        ("auth_failed_count", clamp(server.auth_failures)),
        ("non_mtls_local_conn_count", clamp(server.plain_local)),
        ("non_mtls_remote_conn_count", clamp(server.plain_remote)),
        ("outstanding_requests", server.outstanding as i64),
        ("uptime", clamp(server.uptime_ms)),
        ("znode_count", server.znodes as i64),
        ("watch_count", server.watches as i64),
        ("ephemerals_count", server.ephemerals as i64),
        ("approximate_data_size", clamp(server.data_bytes)),
        ("global_sessions", server.sessions as i64),
        ("local_sessions", server.local_sessions as i64),
        ("fsync_threshold_exceed_count", clamp(server.slow_syncs)),
        ("last_client_response_size", server.response_sizes.last_bytes),
        ("max_client_response_size", server.response_sizes.max_bytes),
        ("min_client_response_size", server.response_sizes.min_bytes),
    ] {
        out.integer(name, value);
    }
    for (name, value) in [
        ("open_file_descriptor_count", server.fds_open),
        ("max_file_descriptor_count", server.fds_max),
    ] {
        if let Some(value) = value {
            out.integer(name, clamp(value));
        }
    }
    if let Some(seconds) = server.certificate_seconds_left {
        out.integer("tls_certificate_seconds_left", seconds);
    }
    out.decimal("connection_drop_probability", server.connection_drop_probability);
    if let Some(member) = &member {
        member_gauges(member, out);
    }
    let quotas = &server.quotas;
    for (name, gauges) in [
        ("quota_count_limit_per_namespace", &quotas.count_limit),
        ("quota_bytes_limit_per_namespace", &quotas.bytes_limit),
        ("quota_count_usage_per_namespace", &quotas.count_usage),
        ("quota_bytes_usage_per_namespace", &quotas.bytes_usage),
    ] {
        out.set(name);
        for (namespace, value) in gauges {
            out.keyed(name, namespace, *value);
        }
    }
}

fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn member_gauges(member: &MemberFacts, out: &mut dyn Figures) {
    out.integer("quorum_size", member.voters as i64);
    if let Some(observers) = member.observers {
        out.integer("synced_observers", observers as i64);
    }
    if let Some(master) = member.master {
        out.integer("observer_master_id", master.0);
    }
    let Some(leader) = &member.leader else { return };
    let LeaderFacts { learners, pending_syncs, uptime_ms, proposals } = leader;
    for (name, value) in [
        ("learners", learners.connected as i64),
        ("synced_followers", learners.followers as i64),
        ("synced_non_voting_followers", learners.without_vote as i64),
        ("synced_observers", learners.observers as i64),
        ("pending_syncs", *pending_syncs as i64),
        ("leader_uptime", i64::try_from(*uptime_ms).unwrap_or(i64::MAX)),
        ("last_proposal_size", proposals.last),
        ("max_proposal_size", proposals.max),
        ("min_proposal_size", proposals.min),
    ] {
        out.integer(name, value);
    }
}
