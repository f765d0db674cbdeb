//! The log thread, snapshots, and the recovery at a start.

use rustix::process::setpriority_process;

pub mod data_files;
pub mod journal;
pub mod mender;
pub mod recovery;
pub mod scrubber;
pub mod snapshotter;

/// The lowest priority of a thread, as for `nice`.
const LOWEST: i32 = 19;

/// Gives the calling thread the lowest priority, for a thread for whose work nobody waits.
///
/// The threads that serve clients then get the processor first; the priority of disk requests follows that of the processor.
/// Not for a thread that holds a lock for which others wait.
pub fn step_back() {
    // A system that does not permit that lets the thread compete.
    let _ = setpriority_process(None, LOWEST);
}
