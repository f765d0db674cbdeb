//! Deliberate faults, one function each, to prove that the simulator finds them. Without the
//! feature `mutants` of `zebu-proto`, each function returns a constant. The name of a function is
//! that of the fault; the tests of `recipes` list the rules that the faults break.

pub(crate) fn protected_znode_left_behind() -> bool {
    zebu_proto::mutant!("protected znode left behind")
}

pub(crate) fn unknown_outcome_forgotten() -> bool {
    zebu_proto::mutant!("unknown outcome forgotten")
}
