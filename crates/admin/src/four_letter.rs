//! The four-letter words: short commands that people and monitors send to a client port to see the
//! state of a server.
//!
//! This module is pure: a word and [`Facts`] go in, text comes out. It has no socket, no lock and
//! no clock, and changes nothing. If a word does more than answer, the driver executes its
//! [`Effect`].
//!
//! The text comes in pieces ([`Answer::next`]). So a server with millions of watches neither builds
//! the whole answer in memory, nor holds a lock while a slow client reads (CVE-2017-5637).
//!
//! Source: `org.apache.zookeeper.server.command`; FLW-01 to FLW-11.

mod answer;
mod date;
mod environment;
mod facts;

#[cfg(test)]
mod tests;

pub use answer::{Answer, text};
pub use environment::Environment;
pub use zebu_engine::Mode;

pub use facts::{
    Bucket, ConfFacts, ConnectionFacts, ConnectionRef, Cursor, DirSizes, Facts, GaugeSets,
    LeaderFacts, MemberFacts, ProposalSizes, ServerFacts, SessionFacts, WatchSummary, Watcher,
};
pub use zebu_config::four_letter_words::{Effect, Received, Whitelist, Word};
pub use zebu_proto::{BUILT_ON, VERSION};

/// The trace mask of a new server: `gtmk` prints it until `stmk` changes it.
pub const TRACE_MASK_DEFAULT: i64 = 306;

/// Version and date, as `srvr`, `stat`, `envi` and `mntr` print them.
pub fn full_version() -> String {
    format!("{VERSION}, built on {BUILT_ON}")
}
