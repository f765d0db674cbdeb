//! A server: the threads, sockets and files around an engine.
//!
//! It decides nothing about the protocol: what a request means is in `zebu-replica`, what becomes of it in `zebu-engine`,
//! what is on the disk in `zebu-store`.
//!
//! | room | what is in it |
//! |---|---|
//! | `server`, `run`, `cli` | a server starts and stops; the program around it |
//! | `driver`, `shared` | the replica's thread; what all threads share |
//! | `clients` | listeners, network workers, connections |
//! | `ensemble` | members, and the network between them |
//! | `disk` | the log's thread, snapshots, recovery |
//! | `counting` | metrics, and facts for four-letter words and HTTP |
//! | `admin` | HTTP |
//! | `logging`, `audit` | the log of the process, the audit log |
//! | `supervised` | what systemd is told |
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
mod sasl;
mod server;
mod shared;
mod supervised;
mod traced;
mod turns;

pub use error::{RunError, SnapshotError, StartError};
pub use run::run;
pub use server::Server;
pub use shared::{Failure, ReadHistory};
pub use zebu_admin::{HistoryFacts, four_letter};
pub use zebu_proto::properties;
pub use {zebu_config as config, zebu_metrics as metrics};
