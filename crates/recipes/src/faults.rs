//! Deliberate faults, one function each, to prove that the simulation finds them. Without the
//! feature `mutants`, each function returns a constant.

/// A place in line takes its turn when its predecessor leaves, without looking at the line again.
pub(crate) fn believes_its_predecessor() -> bool {
    zebu_proto::mutant!("lock without a second look")
}

/// An abandoned place stays in the line.
pub(crate) fn leaves_places_behind() -> bool {
    zebu_proto::mutant!("place left behind")
}

/// A guard does not check whether its place still exists.
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

/// A producer takes a lost answer for success.
pub(crate) fn trusts_a_lost_put() -> bool {
    zebu_proto::mutant!("lost put taken for done")
}

/// A number is written without a condition on the version.
pub(crate) fn ignores_versions() -> bool {
    zebu_proto::mutant!("version ignored")
}

/// A write with an unknown outcome is reported as not executed.
pub(crate) fn forgets_the_unknown() -> bool {
    zebu_proto::mutant!("unknown outcome forgotten")
}

/// A kept znode that was created with older data is not updated.
pub(crate) fn leaves_older_data() -> bool {
    zebu_proto::mutant!("older data left in a kept znode")
}

/// The data of a kept znode are written into any znode at its path.
pub(crate) fn writes_into_any_znode() -> bool {
    zebu_proto::mutant!("data of a kept znode in another one")
}

/// A kept znode is not deleted when its program closes it.
pub(crate) fn keeps_what_is_closed() -> bool {
    zebu_proto::mutant!("closed znode left behind")
}

/// A cache ignores that it has missed events.
pub(crate) fn overhears_gaps() -> bool {
    zebu_proto::mutant!("cache with a hole")
}

/// A member of a double barrier takes the barrier for open before enough members have arrived.
pub(crate) fn opens_too_early() -> bool {
    zebu_proto::mutant!("barrier open too early")
}

/// A member of a double barrier leaves without waiting for the others.
pub(crate) fn leaves_alone() -> bool {
    zebu_proto::mutant!("barrier left alone")
}

/// A barrier is judged by the state of any server, however old it is.
pub(crate) fn trusts_old_news() -> bool {
    zebu_proto::mutant!("barrier passed on old news")
}

/// A later participant decides alone.
pub(crate) fn decides_alone() -> bool {
    zebu_proto::mutant!("decision of its own")
}

/// An item of a delay queue is delivered at once.
pub(crate) fn ignores_delays() -> bool {
    zebu_proto::mutant!("delay ignored")
}

/// A holder does not notice that another process asks for its lock.
pub(crate) fn hears_no_request() -> bool {
    zebu_proto::mutant!("request for a lock unheard")
}

/// Of several announced leaders, the one with the smallest term counts.
pub(crate) fn hears_the_oldest() -> bool {
    zebu_proto::mutant!("announcement of a former leader believed")
}

/// Values are compared by the versions of their data only.
pub(crate) fn knows_values_by_version() -> bool {
    zebu_proto::mutant!("value told apart by its version")
}

/// Settings are read one by one, without a check for writes in between.
pub(crate) fn reads_settings_one_by_one() -> bool {
    zebu_proto::mutant!("half a change of settings")
}

/// Settings are read while another tool is changing them.
pub(crate) fn reads_what_is_held() -> bool {
    zebu_proto::mutant!("held settings read")
}

/// A typed znode is reported as created although the create got no answer.
pub(crate) fn trusts_a_lost_create() -> bool {
    zebu_proto::mutant!("lost create taken for done")
}

/// Values that violate their schema are written and read.
pub(crate) fn breaks_rules() -> bool {
    zebu_proto::mutant!("rule of a schema unheeded")
}

/// The locks of a part are shared with others.
pub(crate) fn trusts_its_part() -> bool {
    zebu_proto::mutant!("part owned by two")
}

/// A lease of a semaphore with kazoo's znodes is granted without the lock.
pub(crate) fn grants_without_lock() -> bool {
    zebu_proto::mutant!("lease granted without its lock")
}

/// A lost answer to the removal of an item is taken for a good one.
pub(crate) fn trusts_a_lost_get() -> bool {
    zebu_proto::mutant!("lost get taken for done")
}
