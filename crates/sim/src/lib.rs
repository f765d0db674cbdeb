//! Whole ensembles in one thread, decided by one seed. The servers are the shipped code; network,
//! disks, clocks and clients are simulated.
//!
//! A run has a safety phase with all kinds of faults, and then a liveness phase without faults, in
//! which the ensemble must converge. The properties in `checks` are checked after every step.
//! `docs/simulation.md` says how to run it.

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
#[cfg(feature = "mutants")]
pub mod found_by;
pub mod guest;
mod jobs;
mod links;
mod log_repair;
mod members;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod names;
mod net;
mod others;
pub mod plan;
mod requests;
pub mod run;
mod server;
pub mod shrink;
mod strangers;
mod trees;
mod world;

pub use world::{Outcome, World};
pub use zebu_testkit::Random;
