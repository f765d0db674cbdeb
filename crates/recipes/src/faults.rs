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

/// A kept znode that was created with older data keeps them.
pub(crate) fn leaves_older_data() -> bool {
    zebu_proto::mutant!("older data left in a kept znode")
}

/// The data of a kept znode are written into whatever znode is at its path.
pub(crate) fn writes_into_any_znode() -> bool {
    zebu_proto::mutant!("data of a kept znode in another one")
}

/// A kept znode that its program closes stays.
pub(crate) fn keeps_what_is_closed() -> bool {
    zebu_proto::mutant!("closed znode left behind")
}

/// A cache does not hear that it has missed events.
pub(crate) fn overhears_gaps() -> bool {
    zebu_proto::mutant!("cache with a hole")
}

/// A member of a double barrier takes the barrier for open before enough have come.
pub(crate) fn opens_too_early() -> bool {
    zebu_proto::mutant!("barrier open too early")
}

/// A member of a double barrier leaves without waiting for the others.
pub(crate) fn leaves_alone() -> bool {
    zebu_proto::mutant!("barrier left alone")
}

/// A barrier is judged by what any server knows, however old that is.
pub(crate) fn trusts_old_news() -> bool {
    zebu_proto::mutant!("barrier passed on old news")
}

/// A participant that comes second decides for itself.
pub(crate) fn decides_alone() -> bool {
    zebu_proto::mutant!("decision of its own")
}

/// An item of a delay queue is given out at once.
pub(crate) fn ignores_delays() -> bool {
    zebu_proto::mutant!("delay ignored")
}

/// A holder does not hear that its lock is wanted back.
pub(crate) fn hears_no_request() -> bool {
    zebu_proto::mutant!("request for a lock unheard")
}

/// Of several announced leaders, the one with the smallest term counts.
pub(crate) fn hears_the_oldest() -> bool {
    zebu_proto::mutant!("announcement of a former leader believed")
}

/// A value is told apart from the one before by the version of its data.
pub(crate) fn knows_values_by_version() -> bool {
    zebu_proto::mutant!("value told apart by its version")
}

/// Settings are read one by one, whatever is written meanwhile.
pub(crate) fn reads_settings_one_by_one() -> bool {
    zebu_proto::mutant!("half a change of settings")
}

/// Settings that another tool is changing are read.
pub(crate) fn reads_what_is_held() -> bool {
    zebu_proto::mutant!("held settings read")
}

/// A typed znode whose creation got no answer is said to be created.
pub(crate) fn trusts_a_lost_create() -> bool {
    zebu_proto::mutant!("lost create taken for done")
}

/// A value that breaks the rules of its schema is written and read.
pub(crate) fn breaks_rules() -> bool {
    zebu_proto::mutant!("rule of a schema unheeded")
}
