//! Deliberate faults, one function each, to prove that the simulator finds them. Without the
//! feature `mutants` of `zebu-proto`, each function returns a constant. The name of a function is
//! that of the fault; `sim::mutants` lists the rules that the faults break.

pub(crate) fn closing_session_writes() -> bool {
    zebu_proto::mutant!("closing session writes")
}

pub(crate) fn delivered_and_not_applied() -> bool {
    zebu_proto::mutant!("delivered and not applied")
}

pub(crate) fn early_expiry() -> bool {
    zebu_proto::mutant!("early expiry")
}

pub(crate) fn live_session_refused() -> bool {
    zebu_proto::mutant!("live session refused")
}

pub(crate) fn missed_events_dropped() -> bool {
    zebu_proto::mutant!("missed events dropped")
}

pub(crate) fn moved_session_ordered() -> bool {
    zebu_proto::mutant!("moved session ordered")
}

pub(crate) fn moved_session_relayed() -> bool {
    zebu_proto::mutant!("moved session relayed")
}

pub(crate) fn moved_session_served() -> bool {
    zebu_proto::mutant!("moved session served")
}

pub(crate) fn old_connection_served_during_a_renewal() -> bool {
    zebu_proto::mutant!("old connection served during a renewal")
}

pub(crate) fn pause_leaves_no_time_to_hear() -> bool {
    zebu_proto::mutant!("pause leaves no time to hear")
}

pub(crate) fn quota_ignored() -> bool {
    zebu_proto::mutant!("quota ignored")
}

pub(crate) fn read_overtakes() -> bool {
    zebu_proto::mutant!("read overtakes")
}

pub(crate) fn readers_may_write() -> bool {
    zebu_proto::mutant!("readers may write")
}

pub(crate) fn retires_at_once() -> bool {
    zebu_proto::mutant!("retires at once")
}

pub(crate) fn session_goes_back() -> bool {
    zebu_proto::mutant!("session goes back")
}

pub(crate) fn stale_sync() -> bool {
    zebu_proto::mutant!("stale sync")
}

pub(crate) fn sync_answered_before_it_is_applied() -> bool {
    zebu_proto::mutant!("sync answered before it is applied")
}

pub(crate) fn touch_forgotten() -> bool {
    zebu_proto::mutant!("touch forgotten")
}

pub(crate) fn touches_not_relayed() -> bool {
    zebu_proto::mutant!("touches not relayed")
}

pub(crate) fn watch_dropped() -> bool {
    zebu_proto::mutant!("watch dropped")
}

pub(crate) fn request_sent_twice() -> bool {
    zebu_proto::mutant!("request sent twice")
}
