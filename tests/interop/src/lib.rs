//! Real third-party clients and servers against ours.
//!
//! This crate owns the harness: starting servers of either kind, running other people's programs against
//! them, a small protocol client of its own, and the comparison of what was seen. It shares no code with
//! the crates it tests, so a mistake in our codec cannot hide here. The scenarios are in `tests/`.

pub mod deps;
pub mod diff;
pub mod disk;
pub mod dump;
pub mod ensemble;
pub mod faults;
pub mod http;
pub mod kdc;
pub mod linear;
pub mod load;
pub mod members;
pub mod network;
pub mod normalise;
pub mod random;
pub mod raw;
pub mod replay;
pub mod run;
pub mod scenario;
pub mod server;
pub mod shell;
pub mod suite;
pub mod told;
pub mod wire;
pub mod znode;
