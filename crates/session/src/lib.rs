//! The client side of one session as one pure state machine: handshake, xids, pings, reconnection,
//! credentials and watches that outlive a connection, and an answer for every request.
//!
//! [`Session::step`] is the only door: what happened goes in, what must be done comes out. The client
//! drives it with real sockets and clocks, a simulator with its own.
//!
//! **Invariant:** nothing in here opens a socket, resolves a name, reads a clock, starts a thread or draws
//! a random number that the seed does not decide.
//!
//! **Invariant:** every request is answered exactly once, and sent at most once.

mod chroot;
mod event;
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
