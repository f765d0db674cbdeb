//! What a server writes for people and programs to read later: files that rotate, and the lines in them.
//!
//! This crate knows no request and no server. [`rotating`] owns a file and its predecessors, [`audit`] the lines of the audit
//! log, [`queue`] the way of entries to the thread that writes them, [`escape`] what a client may put into a line.

pub mod audit;
pub mod escape;
pub mod queue;
pub mod rotating;
