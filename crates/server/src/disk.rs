//! The log thread, snapshots, and the recovery at a start.

pub mod data_files;
pub mod journal;
pub mod mender;
pub mod recovery;
pub mod scrubber;
pub mod snapshotter;
