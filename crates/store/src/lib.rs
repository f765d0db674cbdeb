//! Transaction log, snapshots, epoch files, recovery and purge, in the original's file formats.
//!
//! Owns the content of the disk and the order in which it is written. A transaction is an opaque
//! body that contains a zxid; a state is any implementation of [`Recover`]. The formats are
//! described in `docs/formats`.
//!
//! **Invariant:** `std::fs` is used in one module, `vfs/os.rs`; everything else goes through
//! [`Vfs`], so that tests can simulate every crash and every failure. Checked by
//! `no_other_module_uses_the_file_system`.

mod committed;
mod ensemble;
mod epoch;
mod error;
mod faults;
mod health;
pub mod history;
mod install;
pub mod log;
pub mod log_repair;
pub mod names;
mod purge;
mod rate;
mod recover;
pub mod room;
pub mod scrub;
pub mod snapshot;
mod store;
mod truncate;
pub mod vfs;
mod window;

pub use committed::CommittedFile;
pub use ensemble::EnsembleFile;
pub use epoch::{EpochFile, EpochFiles, Epochs};
pub use error::{Damage, DamageKind, Refused, StoreError, Warning};
pub use history::{History, LogFiles, Range, Unusable};
pub use log::{Synced, TxnLog};
pub use purge::{Purged, purge_beside};
pub use rate::{PIECE_BYTES, Rate};
pub use recover::{Mode, Recovered, Torn};
pub use snapshot::{Received, SnapshotWriter, Snapshots, Written};
pub use store::{Compression, Nothing, Options, Recover, Store};
pub use truncate::Truncated;
pub use vfs::{OsVfs, Vfs};
