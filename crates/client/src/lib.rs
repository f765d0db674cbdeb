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
//! A [`Client`] is one session with an ensemble. A [`Connector`] opens it, or [`Client::connect`]
//! with default settings. It survives lost connections and failed servers. It ends when the program
//! closes it, when the servers receive nothing from it for its timeout, or when they refuse its
//! credentials. Its ephemeral znodes and its watches end with it. The client never replaces an
//! ended session by itself, because the program must read everything again that it has acted on.
//!
//! A session runs on a separate thread, the [`SessionThread`], so computations of the application
//! do not delay its heartbeats. It needs no runtime of the application. A dropped client closes its
//! session, even if the program ends right afterwards, see [`Client`].
//!
//! A client looks for servers until it finds one, or until [`Connector::give_up_after`].
//! [`Connector::prefer`] selects servers to try first.
//!
//! [`Client::state`] and [`Connector::session_events`] report the state of the session. A leader
//! must stop at [`SessionState::Disconnected`], because the servers may have ended the session.
//! [`Client::leave`] and [`Connector::resume`] pass a session to another process.
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
//! # embedded::with_server(async |server| {
//! # let address = server.address().to_string();
//! use std::time::Duration;
//! use zebu_client::{Connector, SessionState};
//!
//! let mut connector = Connector::new().session_timeout(Duration::from_secs(15));
//! let mut events = connector.session_events();
//! let client = connector.connect(&address).await?;
//! let leading = tokio::spawn(async move {
//!     while let Some(state) = events.next().await {
//!         match state {
//!             SessionState::Connected => println!("go on"),
//!             SessionState::Disconnected => println!("rest: somebody else may lead already"),
//!             over if over.is_over() => return over,
//!             _ => {}
//!         }
//!     }
//!     SessionState::Closed
//! });
//! client.close().await?;
//! assert_eq!(leading.await?, SessionState::Closed);
//! # Ok(()) });
//! ```
//!
//! # Requests
//! Each operation is a method that queues the request when it is *called*, and returns a
//! [`Pending`], which the program awaits for the result. The servers execute and answer the
//! requests of one client in the order of the calls, across all tasks. A program need not await one
//! result before the next call, so many requests can be in flight. [`Pending`] describes
//! cancellation. [`Client::transaction`] combines several writes; [`Client::reads`] puts several
//! reads into one request.
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
//! # embedded::run(async |client| {
//! use zebu_client::{Acls, CreateMode, Version};
//!
//! let acl = Acls::creator();
//! client.create("/n", "", CreateMode::Persistent, &acl).await?;
//! // All on their way before the first is answered.
//! let created: Vec<_> = (0..100)
//!     .map(|n| client.create(&format!("/n/{n}"), "", CreateMode::Persistent, &acl))
//!     .collect();
//! let children = client.get_children("/n");
//! for created in created {
//!     created.await?;
//! }
//! assert_eq!(children.await?.0.len(), 100);
//!
//! // All of it, or none.
//! let mut transaction = client.transaction();
//! transaction.check("/n/0", Version(0));
//! transaction.delete("/n/1", Version::ANY);
//! let moved = transaction.create("/n/last", "", CreateMode::Persistent, &acl);
//! let results = transaction.commit().await?;
//! assert_eq!(results.get(moved).path, "/n/last");
//! # Ok(()) });
//! ```
//!
//! # Errors
//! [`Error::kind`] sorts errors by what a program can do, and [`Error::code`] is the exact error.
//! The important one is [`ErrorKind::Unknown`]: the connection was lost after the request was sent,
//! so the request may have been executed. The client never repeats such a request. A program can
//! repeat a read ([`Retry::reads`]). For a write, [`Client::after_lost_create`] and its siblings
//! determine the outcome. [`Client::create_protected`] does both. If later requests must not be
//! executed without earlier ones, use a [`Client::series`]. A request waits as long as its
//! connection lives, or at most for [`Connector::request_timeout`].
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
//! # embedded::run(async |client| {
//! use zebu_client::{Acls, Client, CreateMode, ErrorKind, Outcome, Result};
//!
//! /// Becomes the master, if nobody else is.
//! async fn try_to_lead(client: &Client, name: &str) -> Result<bool> {
//!     match client.create("/master", name, CreateMode::Ephemeral, &Acls::creator()).await {
//!         Ok(_) => Ok(true),
//!         Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
//!         // The answer was lost: is it ours?
//!         Err(error) if error.kind() == ErrorKind::Unknown => {
//!             match client.after_lost_create("/master", name, CreateMode::Ephemeral).await? {
//!                 Outcome::Happened(_) => Ok(true),
//!                 _ => Ok(false),
//!             }
//!         }
//!         Err(error) => Err(error),
//!     }
//! }
//!
//! assert!(try_to_lead(&client, "host 1").await?);
//! assert!(!try_to_lead(&client, "host 2").await?);
//! # Ok(()) });
//! ```
//!
//! # Watches
//! A read can set a watch: a value that the program awaits for one [`Event`], and drops when it no
//! longer needs it. [`Watch::next`] also reports when the watch cannot receive changes.
//! [`Client::watch`] sets a watch that reports every change. A notification reaches this client
//! before any answer that shows the change.
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
//! # embedded::run(async |client| {
//! use zebu_client::{Acls, Client, CreateMode, Result, Version};
//! # client.create("/config", "1", CreateMode::Persistent, &Acls::creator()).await?;
//!
//! /// Waits for a value, and misses none that stays: reading and watching are one step.
//! async fn wait_for(client: &Client, wanted: &str) -> Result<()> {
//!     loop {
//!         let (data, _stat, changed) = client.watch_data("/config").await?;
//!         if data == wanted {
//!             return Ok(());
//!         }
//!         changed.await?;
//!     }
//! }
//!
//! let waiting = client.clone();
//! let waiting = tokio::spawn(async move { wait_for(&waiting, "2").await });
//! client.set_data("/config", "2", Version::ANY).await?;
//! waiting.await??;
//! # Ok(()) });
//! ```
//!
//! # Access
//! Every create names an ACL, see [`Acls`]; there is no default.
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
//! # embedded::with_server(async |server| {
//! # let address = server.address().to_string();
//! use zebu_client::{Acls, Client, Connector, CreateMode, ErrorKind, Perms};
//!
//! let amy = Connector::new().authenticate("digest", "amy:secret").connect(&address).await?;
//! let acl = Acls::creator().and(Acls::user("dom", "password", Perms::READ));
//! amy.create("/shared", "for dom", CreateMode::Persistent, &acl).await?;
//!
//! let dom = Client::connect(&address).await?;
//! assert_eq!(dom.get_data("/shared").await.unwrap_err().kind(), ErrorKind::Denied);
//! dom.authenticate("digest", "dom:password").await?;
//! assert_eq!(dom.get_data("/shared").await?.0, "for dom");
//! # Ok(()) });
//! ```
//!
//! # Servers
//! A connect string lists servers of one ensemble: `zk1:2181,zk2:2181/app`. The client resolves
//! their names again for each round of attempts to connect. Errors ([`Error::reason`]) and the log
//! contain names that cannot be resolved. With the feature `dns-srv` of this crate, the string may
//! name a service of the DNS instead, `dns-srv://_zookeeper._tcp.example.com/app`, whose SRV
//! records are the servers. Servers with a smaller priority are tried first. For other ways to find
//! servers, see [`HostProvider`].
//!
//! # TLS
//! With the feature `tls` of this crate, `Connector::tls` makes all connections over TLS 1.2 or
//! 1.3. `Tls` names the stores of keys and certificates: PEM, PKCS12 or JKS. The certificate of a
//! server must contain the name or the address from the connect string. The client reads changed
//! files again for the next connection.
//!
//! # SASL
//! With the feature `sasl` of this crate, `Connector::sasl` authenticates the client with SASL
//! DIGEST-MD5 at the beginning of each connection. The session is usable when the server has proved
//! its identity, too. If one of both proofs fails, the session is over.
//!
//! # Features
//! All are off by default, so that a client without them stays small.
//!
//! - `dns-srv`: connect strings that name a service of the DNS.
//! - `sasl`: authentication with SASL.
//! - `tls`: connections over TLS.
//!
//! # Log
//! The client logs to [`tracing`](https://docs.rs/tracing) with the target `zebu_client`. At the
//! level `INFO` it logs its environment, the servers that it tries, and each connection and session
//! that it gets or loses. At `WARN` it logs faults of servers and of their names. It never logs
//! secrets.
//!
//! # Without async
//! [`blocking`] has the same client for programs without a runtime.

mod acl;
mod answer;
pub mod blocking;
mod client;
mod clock;
mod connector;
mod driver;
mod error;
mod farewell;
mod faults;
mod hosts;
mod lease;
mod lifetime;
mod mailbox;
mod members;
mod metrics;
mod mode;
mod notifications;
mod null;
mod outcome;
mod pending;
mod reads;
mod retry;
#[cfg(feature = "sasl")]
mod sasl;
#[cfg(feature = "dns-srv")]
mod service;
mod shared;
mod state;
mod stream;
mod thread;
#[cfg(feature = "tls")]
mod tls;
mod transaction;
mod transport;
mod tree;
#[cfg(feature = "sasl")]
mod waiters;
mod watch;

pub use acl::{Acls, digest};
pub use client::{Client, Created, Identity, Reconfiguration, WatchMode};
pub use connector::Connector;
pub use error::{Error, ErrorKind};
pub use hosts::{HostProvider, Servers};
pub use metrics::Metrics;
pub use mode::CreateMode;
pub use notifications::{Notification, Notifications};
pub use outcome::Outcome;
pub use pending::Pending;
pub use reads::{ReadResult, ReadResults, Reads};
pub use retry::Retry;
#[cfg(feature = "sasl")]
pub use sasl::{Sasl, SaslExchange};
pub use state::{SessionEvents, SessionState};
pub use thread::SessionThread;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use transaction::{CreatedNode, OpResult, Results, Ticket, Transaction};
pub use transport::{Connection, Dialed, Transport};
pub use watch::{Event, EventKind, Notice, PersistentWatch, Signal, Watch};

/// One entry of a znode's ACL; [`Acls`] builds lists of them.
///
/// ```
/// use zebu_client::{Acl, Id, Perms};
///
/// let entry = Acl { perms: Perms::READ, id: Id::new("ip", "10.11.12.0/24") };
/// assert_eq!(zebu_client::Acls::address("10.11.12.0/24", Perms::READ).entries(), [entry]);
/// ```
pub use zebu_proto::Acl;

/// The id of an ensemble, see [`Client::ensemble`].
///
/// ```
/// use zebu_client::EnsembleId;
///
/// let id: EnsembleId = "0123456789abcdef0123456789abcdef".parse().unwrap();
/// assert_eq!(id.to_string(), "0123456789abcdef0123456789abcdef");
/// ```
pub use zebu_proto::EnsembleId;

/// The codes of the protocol, see [`Error::code`] and [`Error::check`].
///
/// ```
/// use zebu_client::ErrorCode;
///
/// assert_eq!(ErrorCode(-101), ErrorCode::NO_NODE);
/// assert_eq!(ErrorCode::NO_NODE.name(), Some("NO_NODE"));
/// ```
pub use zebu_proto::ErrorCode;

/// The kind of change that a [`Notification`] reports.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::EventType;
///
/// let mut notifications = client.notifications();
/// let (_, _, _watch) = client.watch_data("/").await?;
/// client.set_data("/", "new", zebu_client::Version::ANY).await?;
/// let notification = notifications.next().await.expect("the session lasts");
/// assert_eq!(notification.kind, EventType::NODE_DATA_CHANGED);
/// # Ok(()) });
/// ```
pub use zebu_proto::EventType;

/// The identity in an entry of an ACL.
///
/// ```
/// use zebu_client::{Acls, Id, Perms};
///
/// assert_eq!(Acls::anyone(Perms::READ).entries()[0].id, Id::new("world", "anyone"));
/// ```
pub use zebu_proto::Id;

/// The permissions in an entry of an ACL.
///
/// ```
/// use zebu_client::{Acls, Perms};
///
/// let acl = Acls::user("amy", "secret", Perms::READ.or(Perms::WRITE));
/// assert_ne!(acl.entries()[0].perms, Perms::ALL);
/// ```
pub use zebu_proto::Perms;

/// The id of a session. Its ephemeral znodes have it as their owner.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, SessionId};
///
/// let mine = client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator()).await?;
/// assert_eq!(SessionId(mine.stat.ephemeral_owner), client.session_id());
/// # Ok(()) });
/// ```
pub use zebu_proto::SessionId;

/// The metadata that a server keeps for a znode.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Stat, Version};
///
/// let before: Stat = client.exists("/").await?.expect("the root is always there");
/// let after = client.set_data("/", "new", Version(before.version)).await?;
/// assert_eq!((after.version, after.data_length), (before.version + 1, 3));
/// # Ok(()) });
/// ```
pub use zebu_proto::Stat;

/// The version of a znode's data or ACL: each change increases it, and a write can require it.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{ErrorKind, Version};
///
/// let (_data, stat) = client.get_data("/").await?;
/// client.set_data("/", "mine", Version(stat.version)).await?;
/// let error = client.set_data("/", "late", Version(stat.version)).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Conflict);
/// client.set_data("/", "whatever was there", Version::ANY).await?;
/// # Ok(()) });
/// ```
pub use zebu_proto::Version;

/// The kind of watches that an operation selects, see [`Client::remove_watches`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::WatcherType;
///
/// let (_data, _stat, _watch) = client.watch_data("/").await?;
/// assert!(client.check_watches("/", WatcherType::Data).await?);
/// assert!(!client.check_watches("/", WatcherType::Children).await?);
/// # Ok(()) });
/// ```
pub use zebu_proto::WatcherType;

/// The number of a transaction. A later transaction of the ensemble has a larger number.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode};
///
/// let acl = Acls::creator();
/// let first = client.create("/a", "", CreateMode::Persistent, &acl).await?;
/// let second = client.create("/b", "", CreateMode::Persistent, &acl).await?;
/// assert!(first.stat.czxid < second.stat.czxid);
/// # Ok(()) });
/// ```
pub use zebu_proto::Zxid;

/// Why a session is over, see [`Error::ending`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Ending;
///
/// client.close().await?;
/// let error = client.exists("/").await.unwrap_err();
/// assert_eq!(error.ending(), Some(Ending::Closed));
/// # Ok(()) });
/// ```
pub use zebu_session::Ending;

/// The ticket with which another client can resume a session. Keep it secret. See
/// [`Connector::resume`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::SessionTicket;
///
/// let ticket: SessionTicket = client.ticket().expect("it is connected");
/// assert_eq!(ticket.id, client.session_id());
/// // The password is not shown.
/// assert!(!format!("{ticket:?}").contains("password"));
/// # Ok(()) });
/// ```
pub use zebu_session::Ticket as SessionTicket;

/// The result of an operation of this crate.
///
/// ```
/// use zebu_client::{Client, Result};
///
/// async fn children(client: &Client, path: &str) -> Result<usize> {
///     Ok(client.get_children(path).await?.0.len())
/// }
/// ```
pub type Result<T> = std::result::Result<T, Error>;
