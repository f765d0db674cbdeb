//! One server as one pure object: validation, ordering, sessions and their expiry, reapers,
//! throttling, and answers to reads.
//!
//! **Invariant:** this crate opens no file or socket, reads no clock, starts no thread, and draws
//! no random number that a seed does not decide. The server and the simulator drive it through
//! inputs and outputs. Checked by `clippy.toml`.

mod age;
pub mod auth;
mod counts;
mod eager;
mod faults;
mod forwarded;
pub mod frame;
pub mod gate;
mod intake;
mod io;
mod lag;
mod local;
mod long_reads;
mod member;
mod outstanding;
mod owned;
mod pack;
mod passwords;
mod prep;
mod read;
mod read_only;
mod reaper;
mod renewal;
mod replica;
mod reply;
mod retire;
mod schedule;
mod sessions;
mod throttle;
mod touched;

pub use counts::Counts;
pub use intake::IntakeOptions;
pub use io::{Connect, Input, MemberOptions, Now, Options, Origin, Output, Request};
pub use long_reads::{LongRead, may_take_long, waits_for_turn};
pub use passwords::{Passwords, SessionKey};
pub use prep::{RECORD_BYTES_MAX, Rules};
pub use read::{ANSWER_BYTES_MAX, After, Reader};
pub use reaper::ReaperOptions;
pub use replica::{Fatal, Replica};
pub use reply::write_reply;
pub use retire::NotHandedOver;
pub use schedule::SnapshotOptions;
pub use sessions::{Expiry, Owner, Session, Sessions};
pub use throttle::ThrottleOptions;

/// Identifies a client connection. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);
