//! Deliberate faults, one function each, to prove that the simulation finds them. Without the feature `mutants`, each
//! function returns a constant.

/// A place in line takes its turn when its predecessor leaves, without looking at the line again.
pub(crate) fn believes_its_predecessor() -> bool {
    zebu_proto::mutant!("lock without a second look")
}

/// A place that nobody wants any more stays in line.
pub(crate) fn leaves_places_behind() -> bool {
    zebu_proto::mutant!("place left behind")
}

/// A guard does not look whether its place is still there.
pub(crate) fn is_deaf_to_its_loss() -> bool {
    zebu_proto::mutant!("guard deaf to its loss")
}

/// Readers do not wait for a writer.
pub(crate) fn reads_beside_writers() -> bool {
    zebu_proto::mutant!("reader beside a writer")
}

/// A semaphore grants one lease too many.
pub(crate) fn grants_one_more() -> bool {
    zebu_proto::mutant!("one lease too many")
}

/// A producer takes a lost answer for a good one.
pub(crate) fn trusts_a_lost_put() -> bool {
    zebu_proto::mutant!("lost put taken for done")
}

/// A number is written whatever was written meanwhile.
pub(crate) fn ignores_versions() -> bool {
    zebu_proto::mutant!("version ignored")
}

/// A write of which nobody knows whether it was executed is said not to be.
pub(crate) fn forgets_the_unknown() -> bool {
    zebu_proto::mutant!("unknown outcome forgotten")
}
