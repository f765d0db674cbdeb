//! Deliberate faults, one function each, to prove that the simulator finds them. Without the
//! feature `mutants` of `zebu-proto`, each function returns a constant. The name of a function is
//! that of the fault; `sim::mutants` lists the rules that the faults break.

pub(crate) fn request_timeout_ignored() -> bool {
    zebu_proto::mutant!("request timeout ignored")
}

pub(crate) fn sent_request_said_to_be_unsent() -> bool {
    zebu_proto::mutant!("sent request said to be unsent")
}
