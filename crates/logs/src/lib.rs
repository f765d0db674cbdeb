//! What a server writes for people and programs to read later: files that rotate, and the lines in them.
//!
//! This crate knows no request and no server. [`rotating`] owns a file and its predecessors, [`audit`] the lines of the audit
//! log, [`queue`] the way of entries to the thread that writes them, [`escape`] what a client may put into a line. The log of
//! the process is set up by [`control`]; [`mod@line`] is what its lines look like, [`process`] what each of them says.

pub mod audit;
pub mod control;
pub mod escape;
pub mod line;
pub mod process;
pub mod queue;
pub mod rotating;
