//! Settings under the names that the original's beans give them.
//!
//! Source: `ZooKeeperServerBean`, `QuorumBean`, `LeaderBean`, `FollowerBean`.

use std::time::Duration;

use zebu_config::Config;

use crate::json::Json;

/// Milliseconds.
fn ms(time: Duration) -> Json {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).into()
}

/// A limit, or the original's value for no limit.
fn limit(most: Option<u32>, none: i64) -> Json {
    most.map_or(none, i64::from).into()
}

/// All settings.
pub(super) fn of(config: &Config) -> Json {
    let Config { limits, throttle, connection_throttle: connections, log, .. } = config;
    let mut all = vec![
        ("max_cnxns", limit(limits.connections, 0)),
        ("jute_max_buffer_size", limits.packet_bytes.into()),
        ("large_request_threshold", limit(limits.large_request_bytes, -1)),
        ("large_request_max_bytes", i64::from(limits.large_requests_bytes_max).into()),
        ("flush_delay", ms(log.flush_delay)),
        ("max_write_queue_poll_time", ms(log.queue_poll_max)),
        ("max_batch_size", limit(log.batch_txns_max, 0)),
        ("request_throttle_limit", limit(throttle.requests_max, 0)),
        ("request_throttle_stall_time", ms(throttle.stall)),
        ("request_throttle_drop_stale", throttle.drop_stale.into()),
        ("request_stale_latency_check", throttle.stale_by_latency.into()),
        ("request_stale_connection_check", throttle.stale_by_connection.into()),
        ("throttled_op_wait_time", throttle.op_wait_max.map_or(0_i64.into(), ms)),
        ("connection_max_tokens", limit(connections.tokens, 0)),
        ("connection_token_fill_time", ms(connections.fill_time)),
        ("connection_token_fill_count", i64::from(connections.fill_count).into()),
        ("connection_freeze_time", connections.freeze_time.map_or((-1_i64).into(), ms)),
        ("connection_drop_increase", connections.drop_increase.into()),
        ("connection_drop_decrease", connections.drop_decrease.into()),
        ("connection_decrease_ratio", connections.decrease_ratio.into()),
        ("digest_enabled", config.snapshot.digest.into()),
    ];
    if let Some(ensemble) = &config.ensemble {
        let learners = &ensemble.learners;
        let tls = ensemble.tls.as_ref();
        all.extend([
            ("max_concurrent_snap_syncs", i64::from(learners.snap_syncs_max).into()),
            ("max_concurrent_diff_syncs", i64::from(learners.diff_syncs_max).into()),
            ("observer_master_packet_size_limit", learners.observer_master_bytes.into()),
            ("observer_election_delay_ms", ms(learners.observer_election_pause_max)),
            ("ssl_quorum", tls.is_some_and(|tls| tls.dials).into()),
            ("port_unification", tls.is_some_and(|tls| tls.accepts_plain).into()),
        ]);
    }
    Json::Object(all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
