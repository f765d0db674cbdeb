//! The logs of a server: rotating files, and the format of their lines.
//!
//! This crate knows no request and no server. [`rotating`] has a file and its predecessors,
//! [`daily`] a file for each day, [`journal`] the journal of systemd,
//! [`audit`] the lines of the audit log, [`queue`] the path of entries to the writing thread, and
//! [`escape`] the escaping of text from clients. [`control`] sets up the log of the process,
//! [`outputs`] has its outputs, [`mod@line`] the format of its lines, and [`process`] the server's
//! id and role in each line.
//! [`otlp`] sends the log to a collector of OpenTelemetry.

pub mod audit;
pub mod control;
pub mod daily;
pub mod escape;
pub mod journal;
pub mod line;
pub mod otlp;
pub mod outputs;
pub mod process;
pub mod queue;
pub mod rotating;
