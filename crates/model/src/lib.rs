//! Zab as an abstract state machine, in the style of a TLA+ specification: a state, named actions
//! with guards and effects, and invariants. `docs/model.md` explains it.
//!
//! The machine knows no packets, connections, clocks or files. [`explore`] visits every state of a
//! small ensemble. The simulator replays the steps of its servers as actions of this machine. A
//! refused action is a fault in the code or in the machine.

pub mod action;
pub mod explore;
pub mod invariants;
pub mod rules;
pub mod state;

pub use action::{Action, Refused};
pub use rules::{Fault, Majority, Quorums, Rules};
pub use state::{Role, Server, Servers, State, Term, TermId, Txn};
