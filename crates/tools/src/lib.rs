//! What operators and scripts use beside a server: each tool a module, with its arguments and its output.
//!
//! They work on files and on what servers say; none of them is part of a server.

pub mod digest;
pub mod purge;
pub mod word;
