//! The command-line tools for operators and scripts, one module for each tool, with its arguments
//! and its output.
//!
//! The tools read the files of data directories and ask running servers. No server uses this crate.

mod ask;
pub mod configuration;
mod date;
pub mod digest;
pub mod doctor;
mod failure;
pub mod hand_over;
pub mod log;
pub mod purge;
pub mod recover;
pub mod snapshot;
pub mod top;
pub mod verify;
pub mod word;
