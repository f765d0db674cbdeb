//! Counts requests and answers.

use parking_lot::Mutex;
use tracing::warn;
use zebu_engine::answers::Answers;
use zebu_jute::Decoder;
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, EventType, OpCode, STAT_BYTES};
use zebu_replica::{Counts, frame};

use crate::counting::quota_warnings::QuotaWarnings;
use crate::metrics::{Gather, Metrics, ResponseSizes, ServerStats, namespace};
use crate::shared::Clock;

/// Answered requests. Successive requests of one kind are counted together, at the latest when this
/// is dropped.
#[derive(Debug)]
pub struct Ops<'m> {
    metrics: &'m Metrics,
    op: OpCode,
    count: u64,
}

impl<'m> Ops<'m> {
    /// Without any request yet.
    pub fn new(metrics: &'m Metrics) -> Self {
        Self { metrics, op: OpCode::PING, count: 0 }
    }

    /// Adds an answered request.
    pub fn add(&mut self, op: OpCode) {
        if self.op != op {
            self.record();
            self.op = op;
        }
        self.count += 1;
    }

    /// Counts the collected requests.
    pub fn record(&mut self) {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            count_ops(self.metrics, self.op, count);
        }
    }
}

impl Drop for Ops<'_> {
    fn drop(&mut self) {
        self.record();
    }
}

/// Counts answered requests by their kind.
fn count_ops(metrics: &Metrics, op: OpCode, count: u64) {
    metrics.op_count_total.add(count);
    let counter = match op {
        OpCode::ADD_WATCH => &metrics.op_count_add_watch,
        OpCode::CHECK_WATCHES => &metrics.op_count_check_watches,
        OpCode::CLOSE_SESSION => &metrics.op_count_close_session,
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
            &metrics.op_count_create
        }
        OpCode::CREATE_SESSION => &metrics.op_count_create_session,
        OpCode::DELETE | OpCode::DELETE_CONTAINER => &metrics.op_count_delete,
        OpCode::EXISTS => &metrics.op_count_exists,
        OpCode::GET_ACL => &metrics.op_count_get_acl,
        OpCode::GET_ALL_CHILDREN_NUMBER => &metrics.op_count_get_all_children_number,
        OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => &metrics.op_count_get_children,
        OpCode::GET_DATA => &metrics.op_count_get_data,
        OpCode::GET_EPHEMERALS => &metrics.op_count_get_ephemerals,
        OpCode::MULTI => &metrics.op_count_multi,
        OpCode::MULTI_READ => &metrics.op_count_multi_read,
        OpCode::PING => &metrics.op_count_ping,
        OpCode::RECONFIG => &metrics.op_count_reconfig,
        OpCode::REMOVE_WATCHES => &metrics.op_count_remove_watches,
        OpCode::SET_ACL => &metrics.op_count_set_acl,
        OpCode::SET_DATA => &metrics.op_count_set_data,
        OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => &metrics.op_count_set_watches,
        OpCode::SYNC => &metrics.op_count_sync,
        OpCode::WHO_AM_I => &metrics.op_count_who_am_i,
        _ => return,
    };
    counter.add(count);
}

/// Counts successive answers as sent, each after `latency_ms`.
pub fn count_answers(answers: &Answers, stats: &ServerStats, metrics: &Metrics, latency_ms: i64) {
    let Answers { count, bytes, last_bytes, min_bytes, max_bytes } = *answers;
    if count > 0 {
        stats.record_latency(latency_ms, count);
        stats.record_responses(ResponseSizes { last_bytes, min_bytes, max_bytes });
        stats.packets_sent.add(count);
        metrics.response_bytes.add(bytes);
    }
}

/// The path of a successful read, and the number of bytes read: those of the path, and of the data
/// or of the children's names.
///
/// Source: `DataTree.updateReadStat`.
pub fn bytes_read<'b>(op: OpCode, body: &'b [u8], answer: &[u8]) -> Option<(&'b [u8], i64)> {
    if !matches!(
        op,
        OpCode::GET_DATA | OpCode::EXISTS | OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2
    ) {
        return None;
    }
    let mut request = Decoder::new(body);
    let path = request.buffer().ok()??;
    let (code, found) = frame::parts(answer)?;
    if code != ErrorCode::OK {
        return None;
    }
    // Each datum and each name has a length before it.
    let bytes = match op {
        OpCode::EXISTS => 0,
        OpCode::GET_DATA => found.len().checked_sub(4 + STAT_BYTES)?,
        _ => {
            let stat = if op == OpCode::GET_CHILDREN2 { STAT_BYTES } else { 0 };
            let names = usize::try_from(Decoder::new(found).int().ok()?).ok()?;
            found.len().checked_sub(4 + stat + 4 * names)?
        }
    };
    Some((path, i64::try_from(path.len() + bytes).ok()?))
}

/// Records the bytes that a transaction writes, by namespace.
///
/// Source: `DataTree.updateWriteStat`.
pub fn gather_written(txn: &Txn<'_>, row: &mut Gather<'_>) {
    let mut add = |path: &str, bytes: usize| {
        row.add(path.as_bytes(), i64::try_from(path.len() + bytes).unwrap_or(i64::MAX));
    };
    match txn {
        Txn::Create(create) => add(&create.path, create.data.map_or(0, <[u8]>::len)),
        Txn::SetData { path, data, .. } => add(path, data.map_or(0, <[u8]>::len)),
        Txn::Delete { path } => add(path, 0),
        Txn::CloseSession { paths: Some(paths) } => paths.iter().for_each(|path| add(path, 0)),
        Txn::Multi(ops) => ops.iter().for_each(|(_, txn)| gather_written(txn, row)),
        Txn::CreateSession { .. }
        | Txn::CloseSession { paths: None }
        | Txn::SetAcl { .. }
        | Txn::Check { .. }
        | Txn::Error(_) => {}
    }
}

/// Counts the connections that were notified of one event.
pub fn count_event(metrics: &Metrics, event: EventType, connections: i64) {
    match event {
        EventType::NODE_CREATED => metrics.node_created_watch_count.add(connections),
        EventType::NODE_DELETED => metrics.node_deleted_watch_count.add(connections),
        EventType::NODE_DATA_CHANGED => metrics.node_changed_watch_count.add(connections),
        EventType::NODE_CHILDREN_CHANGED => metrics.node_children_watch_count.add(connections),
        _ => {}
    }
}

/// Adds the replica's own counts to the metrics.
pub fn count_replica(
    metrics: &Metrics,
    quota_warnings: &Mutex<QuotaWarnings>,
    clock: Clock,
    counts: &mut Counts,
) {
    for (counter, count) in [
        (&metrics.connection_request_count, counts.connects),
        (&metrics.connection_rejected, counts.connects_refused),
        (&metrics.connection_revalidate_count, counts.renewals),
        (&metrics.stale_sessions_expired, counts.sessions_expired),
        (&metrics.request_throttle_wait_count, counts.intake_waits),
        (&metrics.stale_requests, counts.stale),
        (&metrics.stale_requests_dropped, counts.stale_dropped),
        (&metrics.ephemeral_node_limit_violation, counts.ephemerals_refused),
        (&metrics.outstanding_changes_queued, counts.changes_queued),
        (&metrics.outstanding_changes_removed, counts.changes_removed),
    ] {
        if count > 0 {
            counter.add(count);
        }
    }
    for deficit in &counts.token_deficits {
        metrics.connection_token_deficit.add(i64::from(*deficit));
    }
    let mut waits = metrics.request_throttle_queue_time_ms.gather();
    for ms in &counts.intake_ms {
        waits.add(i64::try_from(*ms).unwrap_or(i64::MAX));
    }
    for path in &counts.quota_refusals {
        if let Some(name) = namespace(path) {
            metrics.quota_exceeded_error_per_namespace.add(name, 1);
        }
    }
    if let Some(ahead_ms) = counts.clock_ahead_ms {
        warn!(
            "the wall clock is {} s ahead of the time that this server has counted itself; TTL znodes and unused \
             containers do not age by this difference; hint: check this machine's clock",
            ahead_ms / 1000
        );
    }
    if let Some(session) = counts.session_full {
        warn!(
            "refused an ephemeral znode of session {session}: the transaction that closes the session would exceed one \
             log record; hint: raise jute.maxbuffer on all servers"
        );
    }
    if !counts.quota_warnings.is_empty() {
        quota_warnings.lock().tell(clock.monotonic(), &counts.quota_warnings);
    }
    counts.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn a_read_counts_its_path_and_what_it_found() {
        let body = hex("00000002 2f61 00");
        let header = "00000000 00000001 0000000000000007 00000000";
        let stat = "00".repeat(68);
        let read = |op, answer: String| bytes_read(op, &body, &hex(&answer));
        let data = format!("{header} 00000003 616263 {stat}");
        assert_eq!(read(OpCode::GET_DATA, data), Some((b"/a".as_slice(), 5)));
        let null = format!("{header} ffffffff {stat}");
        assert_eq!(read(OpCode::GET_DATA, null), Some((b"/a".as_slice(), 2)));
        assert_eq!(read(OpCode::EXISTS, format!("{header} {stat}")), Some((b"/a".as_slice(), 2)));
        let names = format!("{header} 00000002 00000001 62 00000003 636465");
        assert_eq!(read(OpCode::GET_CHILDREN, names.clone()), Some((b"/a".as_slice(), 6)));
        assert_eq!(
            read(OpCode::GET_CHILDREN2, format!("{names} {stat}")),
            Some((b"/a".as_slice(), 6))
        );
        let missing = "00000000 00000001 0000000000000007 ffffff9b".to_owned();
        assert_eq!(read(OpCode::GET_DATA, missing), None);
        assert_eq!(read(OpCode::GET_ACL, header.to_owned()), None);
        assert_eq!(bytes_read(OpCode::GET_DATA, &[0, 0], &[]), None);
    }
}
