//! Combines a tree and its store: recovery, snapshots, truncation, synchronization of learners by
//! snapshot or log, and the files of the ensemble's configuration.
//!
//! Owns the order of these operations, but no threads, locks or clocks. A driver decides how much
//! is done at a time, and which locks it holds. All disk access goes through the store.

mod copy;
mod differing;
mod faults;
mod handed_in;
mod log_range;
mod log_repair;
pub mod membership;
mod rebuild;
mod snapshot;
mod start;

pub use copy::{Copied, CopyError, Cutting, Entering, Filing, Receiving, Sending};
pub use differing::{Difference, Differing};
pub use handed_in::{DigestFound, HandedIn, HandedInError, Limits, read_handed_in, write_unused};
pub use log_range::{LogRange, read_log};
pub use log_repair::{Answered, LogRepair, Next, Waiting};
pub use rebuild::{Rebuild, Rebuilt, reload, truncate};
pub use snapshot::{Outline, Step, Taking};
pub use start::Found;
