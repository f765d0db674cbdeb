//! A tree and its store together: recovery, snapshots, truncation, and what goes from a leader to a
//! learner, as a whole tree or as a stretch of the log; and the ensemble's configuration beside them.
//!
//! Owns the order of what is done, but neither threads nor locks nor clocks: a driver says how much is
//! done at a time, and what it holds meanwhile. Whatever goes to the disk goes through the store.

mod copy;
pub mod membership;
mod rebuild;
mod snapshot;
mod start;
mod stretch;

pub use copy::{Copied, CopyError, Cutting, Entering, Filing, Receiving, Sending};
pub use rebuild::{Rebuild, Rebuilt, reload, truncate};
pub use snapshot::{Outline, Step, Taking};
pub use start::Found;
pub use stretch::{Stretch, read_log};
