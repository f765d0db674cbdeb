//! Deliberate faults, one function each, to prove that the simulator finds them. Without the
//! feature `mutants` of `zebu-proto`, each function returns a constant. The name of a function is
//! that of the fault; `sim::mutants` lists the rules that the faults break.

pub(crate) fn configuration_not_kept() -> bool {
    zebu_proto::mutant!("configuration not kept")
}
