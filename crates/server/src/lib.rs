//! The driver: configuration, listeners, threads, timers and four-letter words around a replica.
//!
//! Decides nothing about the protocol: what a request means is in `zebu-replica`, what is on the
//! disk in `zebu-store`. Usable as a library: [`Server::start`] runs a server inside a process.
//!
//! **Invariant:** no file or socket is touched while the tree is locked for writing.

pub mod cli;
mod client;
pub mod config;
mod conn;
mod conns;
mod counting;
mod engine;
mod facts;
pub mod four_letter;
mod inbox;
mod journal;
mod load;
pub mod metrics;
mod network;
mod recovery;
mod run;
mod server;
mod shared;
mod snapshotter;
mod words;

pub use run::run;
pub use server::Server;
pub use shared::Failure;
pub use zebu_proto::properties;
