//! The log's thread, snapshots, and what a start finds on the disk.

pub mod journal;
pub mod recovery;
pub mod scrubber;
pub mod snapshotter;
