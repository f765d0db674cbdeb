//! Metrics of the original's Prometheus page that this server does not have, because the event does
//! not exist here or is not counted. Each value is 0, so dashboards and alert rules find the name.

/// Names of the original's metrics that this server never counts, and the reason.
#[derive(Debug, Clone, Copy)]
pub struct Uncounted {
    /// The reason.
    pub why: &'static str,
    /// Gauges.
    pub gauges: &'static [&'static str],
    /// Counters.
    pub counters: &'static [&'static str],
    /// Summaries with a median.
    pub summaries: &'static [&'static str],
    /// Summaries with more quantiles.
    pub percentiles: &'static [&'static str],
}

const NONE: &[&str] = &[];

/// All such names.
pub const UNCOUNTED: [Uncounted; 5] = [
    Uncounted {
        why: "requests pass no processors with queues of their own",
        gauges: NONE,
        counters: &[
            "request_commit_queued",
            "requests_not_forwarded_to_commit_processor",
            "skip_learner_request_to_next_processor_count",
        ],
        summaries: &[
            "concurrent_request_processing_in_commit_processor",
            "learner_request_processor_queue_size",
            "pending_session_queue_size",
            "read_commit_proc_req_queued",
            "reads_after_write_in_session_queue",
            "reads_issued_from_session_queue",
            "requests_in_session_queue",
            "session_queues_drained",
            "time_waiting_empty_pool_in_commit_processor_read_ms",
            "write_commit_proc_req_queued",
        ],
        percentiles: NONE,
    },
    Uncounted {
        why: "a proposal, or the end of a session, is one step among others, too short to be timed",
        gauges: NONE,
        counters: NONE,
        summaries: &["proposal_process_time"],
        percentiles: &[
            "close_session_prep_time",
            "om_commit_process_time_ms",
            "om_proposal_process_time_ms",
        ],
    },
    Uncounted {
        why: "the watches of a closed connection are removed without a queue or a cleaner",
        gauges: NONE,
        counters: &["add_dead_watcher_stall_time", "dead_watchers_cleared", "dead_watchers_queued"],
        summaries: NONE,
        percentiles: &["dead_watchers_cleaner_latency"],
    },
    Uncounted {
        why: "answers are not cached",
        gauges: NONE,
        counters: &[
            "response_packet_cache_hits",
            "response_packet_cache_misses",
            "response_packet_get_children_cache_hits",
            "response_packet_get_children_cache_misses",
        ],
        summaries: NONE,
        percentiles: NONE,
    },
    Uncounted {
        why: "there is no JVM and no Netty, and a fault that cannot be handled ends the process",
        gauges: NONE,
        counters: &["unrecoverable_error_count"],
        summaries: &["netty_queued_buffer_capacity", "socket_closing_time"],
        percentiles: &["jvm_pause_time_ms"],
    },
];
