//! How servers agree: membership, election, discovery, synchronization and broadcast.
//!
//! Pure state machines over opaque transactions: no sockets, files, clock, threads or randomness.
//! Knows no znode, and of transactions only which ones are reconfigurations.

mod catchup;
pub mod config;
pub mod election;
pub mod history;
mod io;
mod leader;
mod learner;
mod links;
mod masters;
pub mod mesh;
mod peer;
pub mod quorums;
pub mod random;
mod reconfig;
mod relay;
mod vain;

pub use io::{
    ConfigChange, Configs, EpochKind, Input, Learners, LinkId, LogEnd, ObserverOptions, Options,
    Output, Role, SyncsMax, Up,
};
pub use peer::{Epochs, Peer, Start};
