//! Drives a replica: the order of a turn, the effects of the replica's outputs, and client
//! connections. It has no threads, sockets, files or clock of its own.
//!
//! The server and the simulator run the same engine. Each implements [`World`], which gives the
//! engine its log, network and clock, and listens to its [events](TurnEvents).
//!
//! **Invariant:** this crate reads no clock, opens no file or socket, and starts no thread.
//! Checked by `clippy.toml`.

pub mod answers;
mod batch;
pub mod client;
mod common;
mod conn;
pub mod conns;
mod delivery;
mod engine;
mod events;
mod extra_time;
mod faults;
mod few_sessions;
mod greeting;
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
pub use delivery::{Delivery, Kind, Notifier};
pub use engine::{Engine, EngineOptions, Turn};
pub use events::{AppliedTxn, Delivered, TurnEvents};
pub use extra_time::{ExtraTime, LATE_MIN};
pub use inbox::Inbox;
pub use outbox::{OUTBOX_BYTES_MAX, Outbox, OutboxEnd};
pub use sync_policy::SyncPolicy;
pub use worker_turns::{Kept, WorkerTurns, turn_here};
pub use world::{Failed, World};
