//! Deliberate faults, one function each, to prove that the simulator finds them. Without the
//! feature `mutants` of `zebu-proto`, each function returns a constant. The name of a function is
//! that of the fault; `sim::mutants` lists the rules that the faults break.

pub(crate) fn digests_trusted_at_once() -> bool {
    zebu_proto::mutant!("digests trusted at once")
}

pub(crate) fn ephemerals_outlive_their_session() -> bool {
    zebu_proto::mutant!("ephemerals outlive their session")
}

pub(crate) fn outer_quota_counts() -> bool {
    zebu_proto::mutant!("outer quota counts")
}

pub(crate) fn quota_never_given_back() -> bool {
    zebu_proto::mutant!("quota never given back")
}
