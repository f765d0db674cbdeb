//! The client side of one session as a pure state machine: handshake, xids, pings, reconnection,
//! credentials, watches that survive reconnection, and an answer for every request.
//!
//! [`Session::step`] takes events and returns effects. The client drives it with real sockets and
//! clocks, the simulator with its own.
//!
//! **Invariant:** this crate opens no socket, resolves no name, reads no clock, starts no thread,
//! and draws no random number that the seed does not decide. Checked by `clippy.toml`.
//!
//! **Invariant:** every request is answered exactly once, and sent at most once.
//! Checked by `tests/session/promises.rs`.

mod chroot;
mod event;
mod faults;
mod frame;
mod link;
mod random;
mod series;
mod servers;
mod session;
mod watches;

pub use chroot::Chroot;
pub use event::{
    Answer, Attempt, Challenge, Effect, Ending, Failure, Input, Options, Output, Probe, Proof,
    RequestId, State, Submission, Ticket,
};
pub use frame::Frame;
pub use series::Series;
pub use servers::Candidate;
pub use session::Session;
pub use watches::{Registration, WatchKind, WatcherId};
