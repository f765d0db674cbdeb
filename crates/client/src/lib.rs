//! An asynchronous client for ZooKeeper and everything that speaks its protocol.
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
//! # embedded::with_server(async |server| {
//! # let address = server.address().to_string();
//! use zebu_client::{Acls, Connector, CreateMode, Version};
//!
//! let connector = Connector::new().authenticate("digest", "amy:secret");
//! let client = connector.connect(&address).await?;
//!
//! client.create("/config", "v1", CreateMode::Persistent, &Acls::creator()).await?;
//! let (data, stat, changed) = client.watch_data("/config").await?;
//! assert_eq!(data, "v1");
//!
//! client.set_data("/config", "v2", Version(stat.version)).await?;
//! println!("{:?}", changed.await?);
//!
//! client.close().await?;
//! # Ok(()) });
//! ```
//!
//! # Sessions
//! A [`Client`] is one session with an ensemble. It is opened by a [`Connector`], or shortly by
//! [`Client::connect`]; it survives the loss of connections and of servers, and ends when it is closed, when
//! the servers did not hear from it for its timeout, or when they refuse its credentials. With it go its
//! ephemeral znodes and its watches. A session that is over is never replaced behind the caller's back: who
//! acted on what it knew must read it again.
//!
//! A client looks for servers until one is found, or [`Connector::give_up_after`]; near ones first, where
//! [`Connector::prefer`] says which are.
//!
//! [`Client::state`] and [`Client::session_events`] tell how it stands. Whoever acts as a leader stops at
//! [`SessionState::Disconnected`]: others may have seen the session end already. Between processes a session
//! is handed on with [`Client::leave`] and [`Connector::resume`].
//!
//! # Requests
//! Each operation is a method that puts the request into its place when it is *called* and returns a
//! [`Pending`], which is awaited for the result. Requests of one client are executed, and answered, in the
//! order of the calls, across all tasks; nothing needs to be awaited before the next call, so many requests
//! travel together. [`Pending`] says what cancelling means. [`Client::transaction`] makes several writes one;
//! [`Client::reads`] puts several reads into one request.
//!
//! # Errors
//! [`Error::kind`] sorts errors by what can be done about them, [`Error::code`] says exactly what it was. The
//! one that deserves thought is [`ErrorKind::Unknown`]: the connection was lost after the request was sent,
//! so it may have been executed. Such a request is never repeated by the client. A read can be repeated
//! ([`Retry::reads`]); of a write [`Client::after_lost_create`] and its siblings find out what became of it,
//! and [`Client::create_protected`] does both. Where later requests must not be executed without earlier ones, they
//! are made through a [`Client::series`].
//!
//! # Watches
//! A read can leave a watch: a value that is awaited for one [`Event`], and dropped when it is not needed any
//! more. [`Client::watch`] leaves one that reports every change. A notification reaches this client before
//! any answer that shows the change.
//!
//! # Access
//! Every create names an ACL, see [`Acls`]; there is no default.
//!
//! # Servers
//! A connect string lists servers of one ensemble, never of two, `zk1:2181,zk2:2181/app`, whose names are resolved again for each round of attempts to
//! connect. With the feature `dns-srv` of this crate it may name a service of the DNS instead,
//! `dns-srv://_zookeeper._tcp.example.com/app`, whose SRV records are servers; those of a smaller priority are tried
//! first. Where servers are found in another way, see [`HostProvider`].
//!
//! # Without async
//! [`blocking`] has the same client for programs without a runtime.

mod acl;
mod answer;
pub mod blocking;
mod client;
mod connector;
mod driver;
mod error;
mod hosts;
mod lifetime;
mod mailbox;
mod mode;
mod notifications;
mod null;
mod outcome;
mod pending;
mod reads;
mod retry;
#[cfg(feature = "dns-srv")]
mod service;
mod shared;
mod state;
mod transaction;
mod tree;
mod watch;

pub use acl::{Acls, digest};
pub use client::{Client, Created, Identity, Reconfiguration, WatchMode};
pub use connector::Connector;
pub use error::{Error, ErrorKind};
pub use hosts::{HostProvider, Servers};
pub use mode::CreateMode;
pub use notifications::{Notification, Notifications};
pub use outcome::Outcome;
pub use pending::Pending;
pub use reads::{ReadResult, ReadResults, Reads};
pub use retry::Retry;
pub use state::{SessionEvents, SessionState};
pub use transaction::{CreatedNode, OpResult, Results, Ticket, Transaction};
pub use watch::{Event, EventKind, Notice, PersistentWatch, Signal, Watch};
pub use zebu_proto::{
    Acl, ErrorCode, EventType, Id, Perms, SessionId, Stat, Version, WatcherType, Zxid,
};
pub use zebu_session::{Ending, Ticket as SessionTicket};

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;
