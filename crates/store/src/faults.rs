//! Deliberate faults, one function each, to prove that the simulator finds them. Without the
//! feature `mutants` of `zebu-proto`, each function returns a constant. The name of a function is
//! that of the fault; `sim::mutants` lists the rules that the faults break.

pub(crate) fn acknowledged_without_room() -> bool {
    zebu_proto::mutant!("acknowledged without room")
}

pub(crate) fn directory_fsync_removed() -> bool {
    zebu_proto::mutant!("directory fsync removed")
}

pub(crate) fn epoch_not_persisted() -> bool {
    zebu_proto::mutant!("epoch not persisted")
}

pub(crate) fn found_directory_not_made_durable() -> bool {
    zebu_proto::mutant!("found directory not made durable")
}

pub(crate) fn fsync_removed() -> bool {
    zebu_proto::mutant!("fsync removed")
}

pub(crate) fn incident_ignored() -> bool {
    zebu_proto::mutant!("incident ignored")
}

pub(crate) fn initialize_used_up_at_once() -> bool {
    zebu_proto::mutant!("initialize used up at once")
}

pub(crate) fn old_logs_stay_beside_a_copy() -> bool {
    zebu_proto::mutant!("old logs stay beside a copy")
}

pub(crate) fn purge_counts_a_damaged_snapshot() -> bool {
    zebu_proto::mutant!("purge counts a damaged snapshot")
}

pub(crate) fn rename_not_made_durable() -> bool {
    zebu_proto::mutant!("rename not made durable")
}

pub(crate) fn repaired_log_not_compared() -> bool {
    zebu_proto::mutant!("repaired log not compared")
}

pub(crate) fn returns_before_there_is_room() -> bool {
    zebu_proto::mutant!("returns before there is room")
}

pub(crate) fn small_file_fsync_removed() -> bool {
    zebu_proto::mutant!("small file fsync removed")
}

pub(crate) fn snapshot_fsync_removed() -> bool {
    zebu_proto::mutant!("snapshot fsync removed")
}

pub(crate) fn truncation_keeps_one_more() -> bool {
    zebu_proto::mutant!("truncation keeps one more")
}

pub(crate) fn truncation_trusts_every_snapshot() -> bool {
    zebu_proto::mutant!("truncation trusts every snapshot")
}

pub(crate) fn unreadable_end_refused() -> bool {
    zebu_proto::mutant!("unreadable end refused")
}

pub(crate) fn log_record_not_replayed() -> bool {
    zebu_proto::mutant!("log record not replayed")
}
