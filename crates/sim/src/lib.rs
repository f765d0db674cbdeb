//! Whole ensembles in one thread, decided by one seed: the servers are what ships, the network, the
//! disks, the clocks and the clients are simulated.
//!
//! A run has a safety phase, in which everything that can go wrong does, and a liveness phase, in
//! which nothing does any more and everything must come to rest. What must hold is checked after
//! every step; see `checks` for the properties. `docs/simulation.md` says how to run it.

#![expect(missing_debug_implementations, reason = "nobody prints a world")]

pub mod aims;
pub mod alone;
mod app;
mod checks;
mod client;
mod conn;
mod copy;
mod disk;
mod driver;
mod faults;
mod flips;
mod jobs;
mod links;
mod members;
#[cfg(feature = "mutants")]
pub mod mutants;
mod net;
mod others;
pub mod plan;
mod random;
mod requests;
pub mod run;
mod server;
pub mod shrink;
mod strangers;
mod trees;
mod world;

pub use random::Random;
pub use world::{Outcome, World};
