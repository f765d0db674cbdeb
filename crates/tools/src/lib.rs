//! What operators and scripts use beside a server: each tool a module, with its arguments and its output.
//!
//! They work on files and on what servers say; none of them is part of a server.

mod ask;
pub mod configuration;
mod date;
pub mod digest;
pub mod doctor;
mod failure;
pub mod log;
pub mod purge;
pub mod recover;
pub mod snapshot;
pub mod top;
pub mod verify;
pub mod word;
