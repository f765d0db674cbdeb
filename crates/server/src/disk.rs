//! The log thread, snapshots, and the recovery at a start.

pub mod journal;
pub mod recovery;
pub mod scrubber;
pub mod snapshotter;
