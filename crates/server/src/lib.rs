//! A server: the threads, sockets and files around an engine.
//!
//! It makes no decision about the protocol: `zebu-replica` knows the meaning of a request,
//! `zebu-engine` its execution, and `zebu-store` the files on disk.
//!
//! | module | content |
//! |---|---|
//! | `server`, `run`, `cli` | start and stop of a server, and the program around it |
//! | `driver`, `shared` | the replica's thread, and the state that all threads share |
//! | `clients` | listeners, network workers, connections |
//! | `ensemble` | members, and the network between them |
//! | `disk` | the log thread, snapshots, recovery |
//! | `counting` | metrics, and facts for four-letter words and HTTP |
//! | `admin` | HTTP |
//! | `logging`, `audit` | the log of the process, and the audit log |
//! | `supervised` | messages to systemd |
//!
//! This crate can be used as a library, to test an application against a real server for the time
//! of a test:
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
//! // Any ZooKeeper client can connect to this port; the example only asks for the state.
//! let connect_string = format!("127.0.0.1:{port}");
//! let mut connection = TcpStream::connect(&connect_string)?;
//! connection.write_all(b"srvr")?;
//! let mut answer = String::new();
//! connection.read_to_string(&mut answer)?;
//! assert!(answer.contains("Mode: standalone"));
//!
//! // Dropping the server also stops it; `stop` returns an error if the server has failed.
//! server.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! While a server runs, a second server cannot use its directory. A later server can, and continues
//! with the data of the last one. Log lines go to the `tracing` subscriber of the process, if it
//! has one.
//!
//! **Rule:** no thread uses a file or a socket while it holds the tree's write lock.

mod admin;
mod audit;
pub mod cli;
mod clients;
mod counting;
mod disk;
mod driver;
mod ensemble;
mod error;
mod logging;
mod restoring;
mod retiring;
mod run;
mod sasl_mechanisms;
mod server;
mod shared;
mod supervised;
mod threads;
mod traced;
mod turns;

pub use error::{RunError, SnapshotError, StartError};
pub use run::run;
pub use server::Server;
pub use shared::{Failure, ReadHistory};
pub use zebu_admin::{HistoryFacts, four_letter};
pub use zebu_proto::properties;
pub use {zebu_config as config, zebu_metrics as metrics};
