//! Txn log, snapshots, epoch files, recovery and purge, in the original's own file formats.
//!
//! Owns what is on the disk and the order in which it gets there; a transaction is an opaque body
//! with a zxid in it, and a state is whatever implements [`Recover`]. Formats have pages of their own
//! in `docs/formats`.
//!
//! **Invariant:** `std::fs` is used in one module, `vfs/os.rs`; everything else goes through [`Vfs`],
//! so that every crash and every failure can be tried out.

mod committed;
mod epoch;
mod error;
pub mod history;
mod install;
pub mod log;
pub mod names;
mod purge;
mod recover;
pub mod snapshot;
mod store;
mod truncate;
pub mod vfs;
mod window;

pub use committed::CommittedFile;
pub use epoch::{EpochFile, EpochFiles, Epochs};
pub use error::{Damage, DamageKind, StoreError, Warning};
pub use history::{History, LogFiles, Range, Unusable};
pub use log::{Synced, TxnLog};
pub use purge::{Purged, purge_beside};
pub use recover::{Mode, Recovered, Torn};
pub use snapshot::{Received, SnapshotWriter, Snapshots, Written};
pub use store::{Compression, Nothing, Options, Recover, Store};
pub use truncate::Truncated;
pub use vfs::{OsVfs, Vfs};
