//! Where requests and answers turn into numbers.

use zebu_proto::{EventType, OpCode};

use crate::metrics::{LatencyBatch, Metrics, ServerStats};

/// Counts one answered request by its kind.
pub fn count_op(metrics: &Metrics, op: OpCode) {
    metrics.op_count_total.add(1);
    let counter = match op {
        OpCode::ADD_WATCH => &metrics.op_count_add_watch,
        OpCode::CHECK => &metrics.op_count_check,
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
    counter.add(1);
}

/// Counts answers of `bytes` bytes in all, each after `latency_ms`.
pub fn count_answers(
    stats: &ServerStats,
    metrics: &Metrics,
    answers: u64,
    bytes: usize,
    latency_ms: i64,
) {
    if answers == 0 {
        return;
    }
    let mut batch = LatencyBatch::default();
    for _ in 0..answers {
        batch.add(latency_ms);
    }
    stats.record(batch);
    stats.packets_sent.add(answers);
    stats.record_response(i64::try_from(bytes / answers as usize).unwrap_or(i64::MAX));
    metrics.response_bytes.add(bytes as u64);
}

/// Counts how many connections one event went to.
pub fn count_event(metrics: &Metrics, event: EventType, connections: i64) {
    match event {
        EventType::NODE_CREATED => metrics.node_created_watch_count.add(connections),
        EventType::NODE_DELETED => metrics.node_deleted_watch_count.add(connections),
        EventType::NODE_DATA_CHANGED => metrics.node_changed_watch_count.add(connections),
        EventType::NODE_CHILDREN_CHANGED => metrics.node_children_watch_count.add(connections),
        _ => {}
    }
}
