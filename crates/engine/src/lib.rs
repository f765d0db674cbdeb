//! What drives a replica, without threads, sockets, files or clocks of its own: the order of a turn, what becomes of the
//! replica's outputs, and the connections of clients.
//!
//! A server and the simulator drive the same engine. Each of them says in a [`World`] how a log, a network and a
//! clock are reached.
//!
//! **Invariant:** nothing in here reads a clock, opens a file or a socket, or starts a thread.

pub mod answers;
mod batch;
pub mod client;
mod common;
mod conn;
pub mod conns;
mod delivery;
mod engine;
mod faults;
mod given;
mod inbox;
pub mod journal;
pub mod load;
mod outbox;
pub mod sasl;
pub mod sync;
mod sync_policy;
mod worker_turns;
mod world;

pub use batch::outbox_bytes_max;
pub use common::{ClientRules, Common, Mode};
pub use conn::{Conn, Side, Ticket};
pub use delivery::{Counter, Delivered, Delivery, Kind, Notifier};
pub use engine::{Engine, EngineOptions, Turn};
pub use given::{Given, LATE_MIN};
pub use inbox::Inbox;
pub use outbox::{OUTBOX_BYTES_MAX, Outbox, OutboxEnd};
pub use sync_policy::SyncPolicy;
pub use worker_turns::{WorkerTurns, turn_here};
pub use world::{AppliedTxn, Failed, World};
