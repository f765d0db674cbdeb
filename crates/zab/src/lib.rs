//! How servers agree: membership, election, discovery, synchronization and broadcast.
//!
//! Pure state machines over opaque transactions: no sockets, files, clock, threads or randomness.
//! This crate knows no znodes; of transactions it only recognises reconfigurations.

mod busy;
mod catchup;
pub mod config;
mod ctx;
mod disk_progress;
mod doubt;
pub mod election;
mod faults;
mod followed_in_vain;
pub mod history;
mod identity;
mod io;
mod leader;
mod learner;
mod leave;
mod links;
mod masters;
pub mod mesh;
mod peer;
pub mod quorums;
pub mod random;
mod reconfig;
mod relay;
mod silence;
mod start;

pub use io::{
    Compared, ConfigChange, Configs, EpochKind, Input, Learners, LinkId, LogEnd, ObserverOptions,
    Options, Output, Role, SyncsMax, TreeDigest, Up,
};
pub use leader::NoHeir;
pub use leave::Leave;
pub use peer::{Lacks, Peer};
pub use start::{Epochs, Start};
