//! The log thread, snapshots, and the recovery at a start.

use rustix::process::setpriority_process;

pub mod data_files;
pub mod journal;
pub mod recovery;
pub mod repairer;
pub mod scrubber;
pub mod snapshotter;

/// The lowest priority of a thread, as for `nice`.
const LOWEST: i32 = 19;

/// Gives the calling thread the lowest priority. This is for threads whose work no client waits
/// for.
///
/// Threads that serve clients then get the processor first, and with some schedulers also the disk.
/// Do not use it for a thread that holds a lock for which others wait.
pub fn step_back() {
    // If the system does not permit it, the thread competes with the others.
    let _ = setpriority_process(None, LOWEST);
}
