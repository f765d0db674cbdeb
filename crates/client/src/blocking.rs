//! The client for programs without an asynchronous runtime, with every operation of the
//! asynchronous client.
//!
//! A method that has to wait blocks its caller. Watches and streams are those of the asynchronous
//! client; [`Client::wait`] blocks until one of them has a value.
//!
//! ```
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
//! # let server = embedded::Server::start(&[]);
//! # let address = server.address().to_string();
//! use zebu_client::blocking::Client;
//! use zebu_client::{Acls, Connector, CreateMode};
//!
//! let connector = Connector::new().authenticate("digest", "amy:secret");
//! let client = Client::open(connector, &address)?;
//! client.create("/a", "data", CreateMode::Persistent, &Acls::creator())?;
//! let (data, _stat) = client.get_data("/a")?;
//! assert_eq!(data, "data");
//! client.close()?;
//! # Ok::<(), zebu_client::Error>(())
//! ```

mod ensemble;
mod lifetime;
mod opening;
mod outcome;
mod tree;

use std::time::Duration;

use bytes::Bytes;
use zebu_proto::{Acl, Stat, Version};

use crate::{
    Acls, Connector, CreateMode, Created, PersistentWatch, Result, Results, Transaction, Watch,
    WatchMode,
};

/// A session whose methods wait for their results, shared by all its clones and threads.
///
/// The session's own thread keeps it alive. The client sends requests of different threads
/// together. A single thread with many requests is faster with [`Client::asynchronous`] and
/// [`Client::wait`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # let server = embedded::Server::start(&[]);
/// # let address = server.address().to_string();
/// use zebu_client::blocking::Client;
///
/// let client = Client::connect(&address)?;
/// // A hundred requests, one wait.
/// let pending: Vec<_> = (0..100).map(|_| client.asynchronous().get_data("/")).collect();
/// for read in pending {
///     client.wait(read)?;
/// }
/// # Ok::<(), zebu_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
}

impl Client {
    /// Opens a session with default settings, and waits until it is established.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let client = Client::connect(&address)?;
    /// assert_eq!(client.state(), SessionState::Connected);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn connect(connect_string: &str) -> Result<Self> {
        Self::open(Connector::new(), connect_string)
    }

    /// Opens a session with these settings, and waits until it is established.
    ///
    /// # Panics
    /// Inside of a tokio runtime.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let client = Client::open(Connector::new().chroot("/zookeeper"), &address)?;
    /// assert!(client.exists("/quota")?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open(connector: Connector, connect_string: &str) -> Result<Self> {
        Self::opened(connector, async |connector| connector.connect(connect_string).await)
    }

    /// The asynchronous client of the same session, for many requests at once.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let found = client.wait(client.asynchronous().count_descendants("/"))?;
    /// assert_eq!(found, 3);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn asynchronous(&self) -> &crate::Client {
        &self.client
    }

    /// The same client, for a series of requests: see [`Client::series`](crate::Client::series).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let series = client.series();
    /// series.create("/first", "", CreateMode::Persistent, &Acls::creator())?;
    /// series.create("/second", "", CreateMode::Persistent, &Acls::creator())?;
    /// assert!(!series.is_broken());
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn series(&self) -> Self {
        Self { client: self.client.series() }
    }

    /// Waits for any future, such as a request or a watch.
    ///
    /// # Panics
    /// Inside of a tokio runtime.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let synced = client.asynchronous().sync("/");
    /// client.wait(synced)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.client.thread().wait(future)
    }

    /// Waits for a future, at most for this time. Returns `None` if the time is over first.
    ///
    /// # Panics
    /// Inside of a tokio runtime.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// use std::time::Duration;
    ///
    /// let (_, _, mut watch) = client.watch_data("/")?;
    /// assert!(client.wait_timeout(Duration::from_millis(10), &mut watch).is_none());
    /// client.set_data("/", "new", Version::ANY)?;
    /// assert!(client.wait_timeout(Duration::from_secs(10), watch).is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn wait_timeout<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        self.wait(async { tokio::time::timeout(time, future).await.ok() })
    }

    /// As [`Client::create`](crate::Client::create).
    ///
    /// # Errors
    /// As [`Client::create`](crate::Client::create).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create("/a", "", CreateMode::Ephemeral, &Acls::creator())?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn create(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
        acl: &Acls,
    ) -> Result<Created> {
        self.wait(self.client.create(path, data, mode, acl))
    }

    /// As [`Client::create_protected`](crate::Client::create_protected).
    ///
    /// # Errors
    /// As [`Client::create_protected`](crate::Client::create_protected).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let mode = CreateMode::EphemeralSequential;
    /// let created = client.create_protected("/lock-", "", mode, &Acls::creator())?;
    /// assert!(created.path.ends_with("-lock-0000000000"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn create_protected(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
        acl: &Acls,
    ) -> Result<Created> {
        self.wait(self.client.create_protected(path, data, mode, acl))
    }

    /// As [`Client::delete`](crate::Client::delete).
    ///
    /// # Errors
    /// As [`Client::delete`](crate::Client::delete).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator())?;
    /// client.delete("/a", Version(0))?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn delete(&self, path: &str, version: Version) -> Result<()> {
        self.wait(self.client.delete(path, version))
    }

    /// As [`Client::exists`](crate::Client::exists).
    ///
    /// # Errors
    /// As [`Client::exists`](crate::Client::exists).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert!(client.exists("/none")?.is_none());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn exists(&self, path: &str) -> Result<Option<Stat>> {
        self.wait(self.client.exists(path))
    }

    /// As [`Client::watch_exists`](crate::Client::watch_exists).
    ///
    /// # Errors
    /// As [`Client::exists`](crate::Client::exists).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (_absent, watch) = client.watch_exists("/a")?;
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator())?;
    /// assert_eq!(client.wait(watch)?.kind, EventKind::Created);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn watch_exists(&self, path: &str) -> Result<(Option<Stat>, Watch)> {
        self.wait(self.client.watch_exists(path))
    }

    /// As [`Client::get_data`](crate::Client::get_data).
    ///
    /// # Errors
    /// As [`Client::get_data`](crate::Client::get_data).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (data, stat) = client.get_data("/")?;
    /// assert_eq!(data.len(), stat.data_length as usize);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_data(&self, path: &str) -> Result<(Bytes, Stat)> {
        self.wait(self.client.get_data(path))
    }

    /// As [`Client::watch_data`](crate::Client::watch_data).
    ///
    /// # Errors
    /// As [`Client::get_data`](crate::Client::get_data).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (_data, _stat, watch) = client.watch_data("/")?;
    /// client.set_data("/", "new", Version::ANY)?;
    /// client.wait(watch)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn watch_data(&self, path: &str) -> Result<(Bytes, Stat, Watch)> {
        self.wait(self.client.watch_data(path))
    }

    /// As [`Client::set_data`](crate::Client::set_data).
    ///
    /// # Errors
    /// As [`Client::set_data`](crate::Client::set_data).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_eq!(client.set_data("/", "new", Version(0))?.version, 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_data(&self, path: &str, data: impl AsRef<[u8]>, version: Version) -> Result<Stat> {
        self.wait(self.client.set_data(path, data, version))
    }

    /// As [`Client::get_children`](crate::Client::get_children).
    ///
    /// # Errors
    /// As [`Client::get_children`](crate::Client::get_children).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_eq!(client.get_children("/")?.0, ["zookeeper"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_children(&self, path: &str) -> Result<(Vec<String>, Stat)> {
        self.wait(self.client.get_children(path))
    }

    /// As [`Client::watch_children`](crate::Client::watch_children).
    ///
    /// # Errors
    /// As [`Client::get_children`](crate::Client::get_children).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (_names, _stat, watch) = client.watch_children("/")?;
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator())?;
    /// client.wait(watch)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn watch_children(&self, path: &str) -> Result<(Vec<String>, Stat, Watch)> {
        self.wait(self.client.watch_children(path))
    }

    /// As [`Client::get_acl`](crate::Client::get_acl).
    ///
    /// # Errors
    /// As [`Client::get_acl`](crate::Client::get_acl).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (acl, _stat) = client.get_acl("/")?;
    /// assert_eq!(acl.len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_acl(&self, path: &str) -> Result<(Vec<Acl>, Stat)> {
        self.wait(self.client.get_acl(path))
    }

    /// As [`Client::set_acl`](crate::Client::set_acl).
    ///
    /// # Errors
    /// As [`Client::set_acl`](crate::Client::set_acl).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.set_acl("/", &Acls::anyone(Perms::READ), Version::ANY)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_acl(&self, path: &str, acl: &Acls, version: Version) -> Result<Stat> {
        self.wait(self.client.set_acl(path, acl, version))
    }

    /// As [`Client::sync`](crate::Client::sync).
    ///
    /// # Errors
    /// As [`Client::sync`](crate::Client::sync).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.sync("/")?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn sync(&self, path: &str) -> Result<()> {
        self.wait(self.client.sync(path))
    }

    /// As [`Client::transaction`](crate::Client::transaction); [`Client::commit`] sends it.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let mut transaction = client.transaction();
    /// transaction.set_data("/", "new", Version(0));
    /// client.commit(transaction)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn transaction(&self) -> Transaction {
        self.client.transaction()
    }

    /// As [`Transaction::commit`].
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let results = client.commit(client.transaction())?;
    /// assert_eq!(results.iter().count(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn commit(&self, transaction: Transaction) -> Result<Results> {
        self.wait(transaction.commit())
    }

    /// As [`Client::watch`](crate::Client::watch).
    ///
    /// # Errors
    /// As [`Client::watch`](crate::Client::watch).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let mut watch = client.watch("/", WatchMode::Recursive)?;
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator())?;
    /// let notice = client.wait(watch.next())?;
    /// assert!(matches!(notice, Notice::Event(event) if event.path == "/a"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn watch(&self, path: &str, mode: WatchMode) -> Result<PersistentWatch> {
        self.wait(self.client.watch(path, mode))
    }

    /// As [`Client::authenticate`](crate::Client::authenticate).
    ///
    /// # Errors
    /// As [`Client::authenticate`](crate::Client::authenticate).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.authenticate("digest", "dom:secret")?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn authenticate(&self, scheme: &str, auth: impl AsRef<[u8]>) -> Result<()> {
        self.wait(self.client.authenticate(scheme, auth))
    }
}
