//! The driver: configuration, listeners, threads, timers and four-letter words around a replica.
//!
//! Decides nothing about the protocol: what a request means is in `zebu-replica`, what is on the
//! disk in `zebu-store`.
//!
//! Usable as a library, to test an application against a real server that lives as long as the test:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//!
//! use zebu_server::Server;
//! use zebu_server::config::Config;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let server = Server::start(Config::embedded(dir.path()), Vec::new())?;
//! let port = server.port().expect("an embedded server has a client port");
//!
//! // Any ZooKeeper client connects to this; here it is only asked how it is.
//! let connect_string = format!("127.0.0.1:{port}");
//! let mut connection = TcpStream::connect(&connect_string)?;
//! connection.write_all(b"srvr")?;
//! let mut answer = String::new();
//! connection.read_to_string(&mut answer)?;
//! assert!(answer.contains("Mode: standalone"));
//!
//! // Dropping the server stops it too; this also tells whether it ended well.
//! server.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! A second server on the same directory is refused for as long as the first one runs. The same
//! directory can be given to the next one, which goes on where the last one stopped. Log lines go to
//! the `tracing` subscriber of the process, if it has one.
//!
//! **Invariant:** no file or socket is touched while the tree is locked for writing.

mod aside;
mod between;
pub mod cli;
mod client;
mod commits;
pub mod config;
mod conn;
mod conns;
mod counting;
mod delivery;
mod descriptors;
mod engine;
mod ensemble;
mod facts;
pub mod four_letter;
mod inbox;
mod journal;
mod load;
mod membership;
pub mod metrics;
mod network;
mod pace;
mod peers;
mod recovery;
mod refused;
mod run;
mod server;
mod shared;
mod snapshotter;
mod spread;
mod usage;
mod words;

pub use run::run;
pub use server::Server;
pub use shared::Failure;
pub use zebu_proto::properties;
