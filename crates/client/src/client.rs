//! The client: every operation of the protocol, one method each.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use zebu_jute::{Encode, Encoder};
use zebu_proto::path::reserved::CONFIG;
use zebu_proto::request::{
    AddWatch, Create, CreateTtl, PathKind, PathOnly, PathVersion, PathWatch, Reconfig, SetAcl,
    SetData,
};
use zebu_proto::{Acl, AclRef, OpCode, Stat, Version, WatcherType};
use zebu_session::{Chroot, Effect, Frame, Series, WatchKind};

use crate::answer;
use crate::mailbox::Mailbox;
use crate::mode::Wire;
use crate::pending::{Call, Decode, Pending, Seat};
use crate::reads::Reads;
use crate::shared::{Listener, Placed, Shared, Wanted};
use crate::transaction::{Transaction, check_deletable, check_path};
use crate::watch::{PersistentWatch, Watch};
use crate::{Acls, Connector, CreateMode, Error, Result};

/// SASL is an exchange, not a scheme of credentials.
pub(crate) const SASL: &str = "sasl";

/// The error for credentials of this scheme.
pub(crate) const SASL_FAULT: &str = "the scheme takes an exchange of tokens and not one credential; open the session with Connector::sasl";

/// A session with an ensemble, shared by all its clones.
///
/// The client sends requests in the order of the calls, whichever task awaits them, and the servers
/// answer them in that order. A program need not await one request before it makes the next, see
/// [`Pending`].
///
/// The drop of the last clone closes the session, even if the program ends right afterwards. The
/// drop waits for the server's answer: at most a tenth of a second on a thread of a runtime, and at
/// most a second elsewhere. Without a connection, the session ends after its timeout.
/// [`Client::close`] returns the result.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::with_server(async |server| {
/// # let address = server.address().to_string();
/// use zebu_client::{Acls, Client, CreateMode, Perms};
///
/// let client = Client::connect(&address).await?;
/// client.create("/hello", "world", CreateMode::Ephemeral, &Acls::anyone(Perms::READ)).await?;
/// let (data, stat) = client.get_data("/hello").await?;
/// assert_eq!(data, "world");
/// assert_eq!(stat.version, 0);
/// client.close().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
    /// The znode that is the root of its paths.
    chroot: Arc<Chroot>,
    /// The series that this handle's requests belong to.
    series: Option<Series>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    /// Whether the session is closed when the last such handle is dropped.
    is_owner: bool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_owner {
            self.shared.close_behind();
        }
    }
}

/// A created znode.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode};
///
/// let lock =
///     client.create("/lock-", "", CreateMode::EphemeralSequential, &Acls::creator()).await?;
/// assert_eq!(lock.path, "/lock-0000000000");
/// // Grows with every change anywhere: a fencing token.
/// println!("created by transaction {}", lock.stat.czxid);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// The path. With a sequential mode it differs from the requested one.
    pub path: String,
    /// Its stat. Without its times from a server of 3.4, see
    /// [`Connector::server_version`](crate::Connector::server_version).
    pub stat: Stat,
}

/// An identity of the connection.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// let known = client.who_am_i().await?;
/// assert!(known.iter().any(|identity| identity.scheme == "ip" && identity.user == "127.0.0.1"));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Identity {
    /// The scheme, such as `digest` or `ip`.
    pub scheme: String,
    /// The name, without secrets.
    pub user: String,
}

/// What a persistent watch covers.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::WatchMode;
///
/// let _tree = client.watch("/", WatchMode::Recursive).await?;
/// let _root = client.watch("/", WatchMode::Persistent).await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchMode {
    /// The znode and the list of its children.
    Persistent,
    /// The znode and all its descendants. Changes of child lists are not reported as such: each
    /// created or deleted child is reported.
    Recursive,
}

/// A change of the ensemble's membership.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{ErrorCode, Reconfiguration};
///
/// let change = Reconfiguration::Change { joining: &[], leaving: &["3"] };
/// let error = client.reconfigure(change, None).await.unwrap_err();
/// assert_eq!(error.code(), ErrorCode::RECONFIG_DISABLED);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconfiguration<'a> {
    /// Servers to add, as `server.4=host:2888:3888;2181`, and ids of servers to remove.
    Change {
        /// Lines as in a configuration file.
        joining: &'a [&'a str],
        /// Ids.
        leaving: &'a [&'a str],
    },
    /// The whole new membership.
    Members(&'a [&'a str]),
}

impl Client {
    /// Opens a session with default settings; see [`Connector`] for others.
    ///
    /// `connect_string` lists servers, and may end in a path that becomes the client's root:
    /// `zk1:2181,zk2:2181/app`.
    ///
    /// # Errors
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted) if the client reaches no server
    /// within the session timeout, [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid
    /// connect string.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// let client = zebu_client::Client::connect(&address).await?;
    /// assert!(client.exists("/zookeeper").await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn connect(connect_string: &str) -> Result<Self> {
        Connector::new().connect(connect_string).await
    }

    pub(crate) fn new(shared: Arc<Shared>, chroot: Chroot) -> Self {
        let handle = Arc::new(Handle { shared, is_owner: true });
        Self { handle, chroot: Arc::new(chroot), series: None }
    }

    /// A client of the same session that does not keep the session open: the session is closed when
    /// all other clients are dropped. For work in the background; after that, its requests fail
    /// with [`ErrorKind::SessionOver`](crate::ErrorKind::SessionOver).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::ErrorKind;
    ///
    /// let unowned = client.unowned();
    /// assert!(unowned.exists("/").await?.is_some());
    /// drop(client);
    /// assert_eq!(unowned.exists("/").await.unwrap_err().kind(), ErrorKind::SessionOver);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn unowned(&self) -> Self {
        let shared = self.shared().clone();
        Self { handle: Arc::new(Handle { shared, is_owner: false }), ..self.clone() }
    }

    /// A client of the same session for a series of requests: if one of them is lost or cannot be
    /// sent, no later request of the series is executed.
    ///
    /// Without a series, a request may be lost with its connection, while a later request is
    /// executed on the next connection. In a series, the later requests fail with
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted), so the executed requests are
    /// always the first ones. The series consists of all requests through the returned client and
    /// its clones, on any task. Answers of servers, including errors, do not break a series, nor do
    /// invalid requests. To continue, read the current state and begin another series.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// let series = client.series();
    /// let acl = Acls::creator();
    /// let entries: Vec<_> = (0..100)
    ///     .map(|n| series.create(&format!("/entry-{n}"), "", CreateMode::Persistent, &acl))
    ///     .collect();
    /// for entry in entries {
    ///     // Whatever happens to the connection: no entry is there without those before it.
    ///     entry.await?;
    /// }
    /// assert!(!series.is_broken());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn series(&self) -> Self {
        Self { series: Some(Series::new()), ..self.clone() }
    }

    /// Whether this is a broken [series](Client::series): the client sends no further request of
    /// it.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert!(!client.series().is_broken());
    /// # Ok(()) });
    /// ```
    pub fn is_broken(&self) -> bool {
        self.series.as_ref().is_some_and(Series::is_broken)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    pub(crate) fn root(&self) -> &Arc<Chroot> {
        &self.chroot
    }

    /// The same client with another root.
    pub(crate) fn rooted(&self, chroot: Chroot) -> Self {
        Self { chroot: Arc::new(chroot), ..self.clone() }
    }

    // Znodes.

    /// Creates a znode.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if the znode exists, or its parent is
    /// ephemeral; [`ErrorKind::Gone`](crate::ErrorKind::Gone) if the parent does not exist;
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) without the permission to create in the
    /// parent. After [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) see
    /// [`Client::create_protected`] and [`Client::after_lost_create`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// let created = client.create("/a", b"data", CreateMode::Persistent, &Acls::creator()).await?;
    /// assert_eq!((created.path.as_str(), created.stat.data_length), ("/a", 4));
    /// # Ok(()) });
    /// ```
    pub fn create(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
        acl: &Acls,
    ) -> Pending<Created> {
        self.create_with(path, Some(data.as_ref()), mode, acl)
    }

    /// Deletes a znode without children, if its data have this version.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone) if the znode does not exist,
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if it has children or another version,
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) without the permission to delete in the
    /// parent.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, Version};
    ///
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// client.delete("/a", Version(0)).await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, path: &str, version: Version) -> Pending<()> {
        if let Err(error) = check_deletable(path) {
            return Pending::failed(error);
        }
        self.path_request(OpCode::DELETE, path, answer::nothing, |sent, out| {
            PathVersion { path: sent, version }.encode(out);
        })
    }

    /// The stat of a znode, or `None` when there is no such znode.
    ///
    /// # Errors
    /// Those every request may have.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert!(client.exists("/zookeeper").await?.is_some());
    /// assert!(client.exists("/none").await?.is_none());
    /// # Ok(()) });
    /// ```
    pub fn exists(&self, path: &str) -> Pending<Option<Stat>> {
        self.path_request(OpCode::EXISTS, path, answer::stat_if_there, |path, out| {
            PathWatch { path, watch: false }.encode(out);
        })
    }

    /// As [`Client::exists`], with a watch for the creation, the deletion and a change of the data
    /// of the znode.
    ///
    /// # Errors
    /// Those every request may have.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, EventKind};
    ///
    /// let (_absent, created) = client.watch_exists("/a").await?;
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// assert_eq!(created.await?.kind, EventKind::Created);
    /// # Ok(()) });
    /// ```
    pub fn watch_exists(&self, path: &str) -> Pending<(Option<Stat>, Watch)> {
        self.watch_request(OpCode::EXISTS, path, WatchKind::Exist, answer::stat_and_watch)
    }

    /// A znode's data and stat.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone), [`ErrorKind::Denied`](crate::ErrorKind::Denied)
    /// without the permission to read.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// // Many at once: all requests are on their way before the first answer is awaited.
    /// let pending: Vec<_> = (0..100).map(|_| client.get_data("/")).collect();
    /// for read in pending {
    ///     let (data, stat) = read.await?;
    ///     assert_eq!(data.len(), stat.data_length as usize);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn get_data(&self, path: &str) -> Pending<(Bytes, Stat)> {
        self.path_request(OpCode::GET_DATA, path, answer::data_and_stat, |path, out| {
            PathWatch { path, watch: false }.encode(out);
        })
    }

    /// As [`Client::get_data`], with a watch for a change of the data and the deletion of the
    /// znode.
    ///
    /// # Errors
    /// As [`Client::get_data`]; after an error, there is no watch.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{EventKind, Version};
    ///
    /// let (_data, _stat, changed) = client.watch_data("/").await?;
    /// client.set_data("/", "new", Version::ANY).await?;
    /// assert_eq!(changed.await?.kind, EventKind::DataChanged);
    /// # Ok(()) });
    /// ```
    pub fn watch_data(&self, path: &str) -> Pending<(Bytes, Stat, Watch)> {
        self.watch_request(OpCode::GET_DATA, path, WatchKind::Data, answer::data_and_watch)
    }

    /// Replaces a znode's data, if they have this version.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone),
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) for another version,
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) without the permission to write.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{ErrorKind, Version};
    ///
    /// // Of two who read the same version, one writes and the other learns that it must read again.
    /// let (_, stat) = client.get_data("/").await?;
    /// client.set_data("/", "mine", Version(stat.version)).await?;
    /// let error = client.set_data("/", "yours", Version(stat.version)).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Conflict);
    /// # Ok(()) });
    /// ```
    pub fn set_data(&self, path: &str, data: impl AsRef<[u8]>, version: Version) -> Pending<Stat> {
        let data = Some(data.as_ref());
        self.path_request(OpCode::SET_DATA, path, answer::stat, |path, out| {
            SetData { path, data, version }.encode(out);
        })
    }

    /// A znode's ACL and stat.
    ///
    /// Without the permission ADMIN, the hashes of the scheme `digest` are shown as `x`.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone), [`ErrorKind::Denied`](crate::ErrorKind::Denied)
    /// without the permission to read or to administer.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Acls;
    ///
    /// let (acl, _stat) = client.get_acl("/").await?;
    /// assert_eq!(Acls::from(acl), Acls::open_to_all());
    /// # Ok(()) });
    /// ```
    pub fn get_acl(&self, path: &str) -> Pending<(Vec<Acl>, Stat)> {
        self.path_request(OpCode::GET_ACL, path, answer::acl, |path, out| {
            PathOnly { path }.encode(out);
        })
    }

    /// Replaces a znode's ACL, if the ACL has this version ([`Stat::aversion`]).
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone),
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) for another version,
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) without the permission to administer,
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an ACL that no server accepts.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, Perms, Version};
    ///
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// let acl = Acls::creator().and(Acls::address("10.11.12.0/24", Perms::READ));
    /// let stat = client.set_acl("/a", &acl, Version(0)).await?;
    /// assert_eq!(stat.aversion, 1);
    /// # Ok(()) });
    /// ```
    pub fn set_acl(&self, path: &str, acl: &Acls, version: Version) -> Pending<Stat> {
        let acl = Some(acl.entries().iter().map(AclRef::from).collect());
        self.path_request(OpCode::SET_ACL, path, answer::stat, |path, out| {
            SetAcl { path, acl, version }.encode(out);
        })
    }

    /// The names of a znode's children, in no order, and its stat.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone), [`ErrorKind::Denied`](crate::ErrorKind::Denied)
    /// without the permission to read.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let (names, stat) = client.get_children("/").await?;
    /// assert_eq!((names, stat.num_children), (vec!["zookeeper".to_owned()], 1));
    /// # Ok(()) });
    /// ```
    pub fn get_children(&self, path: &str) -> Pending<(Vec<String>, Stat)> {
        self.path_request(OpCode::GET_CHILDREN2, path, answer::children, |path, out| {
            PathWatch { path, watch: false }.encode(out);
        })
    }

    /// As [`Client::get_children`], with a watch for created and deleted children and the deletion
    /// of the znode.
    ///
    /// # Errors
    /// As [`Client::get_children`]; after an error, there is no watch.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, EventKind};
    ///
    /// let (_names, _stat, changed) = client.watch_children("/").await?;
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// assert_eq!(changed.await?.kind, EventKind::ChildrenChanged);
    /// # Ok(()) });
    /// ```
    pub fn watch_children(&self, path: &str) -> Pending<(Vec<String>, Stat, Watch)> {
        let decode = answer::children_and_watch;
        self.watch_request(OpCode::GET_CHILDREN2, path, WatchKind::Child, decode)
    }

    /// The number of znodes below a znode, on all levels.
    ///
    /// # Errors
    /// As [`Client::get_children`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// // The service's own.
    /// assert_eq!(client.count_descendants("/").await?, 3);
    /// # Ok(()) });
    /// ```
    pub fn count_descendants(&self, path: &str) -> Pending<usize> {
        self.path_request(OpCode::GET_ALL_CHILDREN_NUMBER, path, answer::count, |path, out| {
            PathOnly { path }.encode(out);
        })
    }

    /// The session's ephemerals whose paths begin with `prefix`; `/` selects all of them.
    ///
    /// # Errors
    /// Those every request may have.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// client.create("/member", "", CreateMode::Ephemeral, &Acls::creator()).await?;
    /// assert_eq!(client.ephemerals("/").await?, ["/member"]);
    /// # Ok(()) });
    /// ```
    pub fn ephemerals(&self, prefix: &str) -> Pending<Vec<String>> {
        // A prefix need not be a complete path: it may end within a name.
        let absolute = self.chroot.absolute_prefix(prefix);
        let frame = Frame::new(OpCode::GET_EPHEMERALS, |out| {
            PathOnly { path: Some(Cow::Borrowed(&*absolute)) }.encode(out);
        });
        self.submit(prefix, frame, answer::paths)
    }

    /// Brings the server up to date: later reads show at least everything that was committed before
    /// the call.
    ///
    /// Without a sync, a read may show an older state than another client has seen, but never an
    /// older one than this client has seen. The path has no effect.
    ///
    /// # Errors
    /// Those every request may have.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let synced = client.sync("/");
    /// let read = client.get_data("/"); // behind it, without waiting for it
    /// synced.await?;
    /// println!("up to date: {:?}", read.await?);
    /// # Ok(()) });
    /// ```
    pub fn sync(&self, path: &str) -> Pending<()> {
        self.path_request(OpCode::SYNC, path, answer::nothing, |path, out| {
            PathOnly { path }.encode(out);
        })
    }

    // Several at once.

    /// Begins a transaction: the ensemble executes all its writes, or none.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Version;
    ///
    /// let mut transaction = client.transaction();
    /// transaction.check("/zookeeper", Version::ANY);
    /// transaction.set_data("/", "checked", Version::ANY);
    /// transaction.commit().await?;
    /// # Ok(()) });
    /// ```
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.clone())
    }

    /// Begins a request with several reads.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let found = client.reads().data("/").children("/zookeeper").send().await?;
    /// assert_eq!(found.as_slice().len(), 2);
    /// # Ok(()) });
    /// ```
    pub fn reads(&self) -> Reads {
        Reads::new(self.clone())
    }

    // Watches.

    /// Watches a znode, or a whole subtree, for all changes until the watch is dropped. The znode
    /// need not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) from servers before 3.6.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, Notice, WatchMode};
    ///
    /// let mut watch = client.watch("/", WatchMode::Recursive).await?;
    /// client.create("/deep", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// client.create("/deep/er", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// for expected in ["/deep", "/deep/er"] {
    ///     let Notice::Event(event) = watch.next().await? else { continue };
    ///     assert_eq!(event.path, expected);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn watch(&self, path: &str, mode: WatchMode) -> Pending<PersistentWatch> {
        if let Err(error) = check_path(path, false) {
            return Pending::failed(error);
        }
        let (kind, wire) = match mode {
            WatchMode::Persistent => (WatchKind::Persistent, 0),
            WatchMode::Recursive => (WatchKind::Recursive, 1),
        };
        let absolute = self.absolute(path);
        let frame = Frame::new(OpCode::ADD_WATCH, |out| {
            AddWatch { path: Some(Cow::Borrowed(&*absolute)), mode: wire }.encode(out);
        });
        let notices = Mailbox::new();
        let listener = Listener::Always(notices.clone());
        let wanted = Wanted { kind, path: (&*absolute).into(), listener };
        let (placed, watcher) = self.shared().submit_watch(frame, wanted, self.series.clone());
        let watch = PersistentWatch::new(watcher, notices, self);
        self.pending(path, placed, Seat::Always(watch), answer::persistent_watch)
    }

    /// Whether the server holds a watch of this kind for this client.
    ///
    /// # Errors
    /// Those every request may have.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::WatcherType;
    ///
    /// let (_, _, watch) = client.watch_children("/").await?;
    /// assert!(client.check_watches("/", WatcherType::Children).await?);
    /// drop(watch);
    /// assert!(!client.check_watches("/", WatcherType::Children).await?);
    /// # Ok(()) });
    /// ```
    pub fn check_watches(&self, path: &str, kind: WatcherType) -> Pending<bool> {
        self.path_request(OpCode::CHECK_WATCHES, path, answer::is_there, |path, out| {
            PathKind { path, kind: kind.to_wire() }.encode(out);
        })
    }

    /// Removes all of this client's watches of a kind from a path. Each watch gets an event
    /// [`EventKind::WatchRemoved`](crate::EventKind::WatchRemoved).
    ///
    /// A single watch is removed by dropping it.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone) if there is no such watch.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{EventKind, WatcherType};
    ///
    /// let (_, _, watch) = client.watch_data("/").await?;
    /// client.remove_watches("/", WatcherType::Any).await?;
    /// assert_eq!(watch.await?.kind, EventKind::WatchRemoved);
    /// # Ok(()) });
    /// ```
    pub fn remove_watches(&self, path: &str, kind: WatcherType) -> Pending<()> {
        if let Err(error) = check_path(path, false) {
            return Pending::failed(error);
        }
        let absolute = self.absolute(path);
        let frame = Frame::new(OpCode::REMOVE_WATCHES, |out| {
            let path = Some(Cow::Borrowed(&*absolute));
            PathKind { path, kind: kind.to_wire() }.encode(out);
        });
        let effect = Effect::Unwatch { path: (&*absolute).into(), kind };
        let placed = self.shared().submit(frame, effect, self.series.clone());
        self.pending(path, placed, Seat::None, answer::nothing)
    }

    // Identity.

    /// Presents credentials, on this connection and on every later one. For the scheme `digest`,
    /// the credentials are `name:password`.
    ///
    /// Later requests have the new identity, in addition to the earlier ones.
    ///
    /// # Errors
    /// [`ErrorKind::SessionOver`](crate::ErrorKind::SessionOver) if a server refuses the
    /// credentials, because that ends the session.
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted) if there is no connection in time,
    /// and [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) if no server answers; in both cases
    /// the client keeps the credentials and presents them on the next connection.
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for the scheme `sasl`, which needs an
    /// exchange of tokens: see `Connector::sasl`.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// client.authenticate("digest", "amy:secret").await?;
    /// let known = client.who_am_i().await?;
    /// assert!(known.iter().any(|identity| identity.user == "amy"));
    /// # Ok(()) });
    /// ```
    pub fn authenticate(&self, scheme: &str, auth: impl AsRef<[u8]>) -> Pending<()> {
        if scheme == SASL {
            return Pending::failed(Error::sasl(SASL_FAULT));
        }
        let placed = self.shared().authenticate(scheme.to_owned(), auth.as_ref().to_vec());
        self.pending("", placed, Seat::None, answer::nothing)
    }

    /// The identities of this connection, according to the server.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) from servers before 3.7.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// for identity in client.who_am_i().await? {
    ///     println!("{}:{}", identity.scheme, identity.user);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn who_am_i(&self) -> Pending<Vec<Identity>> {
        self.submit("", Frame::new(OpCode::WHO_AM_I, |_| {}), answer::identities)
    }

    // The ensemble.

    /// The ensemble's configuration: its text, and the stat of the znode that holds it. A chroot
    /// has no effect.
    ///
    /// # Errors
    /// As [`Client::get_data`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// // A server that stands alone has none.
    /// let (config, _stat) = client.get_config().await?;
    /// assert!(config.is_empty());
    /// # Ok(()) });
    /// ```
    pub fn get_config(&self) -> Pending<(Bytes, Stat)> {
        let frame = Frame::new(OpCode::GET_DATA, |out| {
            PathWatch { path: Some(CONFIG.into()), watch: false }.encode(out);
        });
        self.submit(CONFIG, frame, answer::data_and_stat)
    }

    /// As [`Client::get_config`], with a watch for a change.
    ///
    /// # Errors
    /// As [`Client::get_data`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let (_config, _stat, _changed) = client.watch_config().await?;
    /// # Ok(()) });
    /// ```
    pub fn watch_config(&self) -> Pending<(Bytes, Stat, Watch)> {
        let op = OpCode::GET_DATA;
        self.watch_absolute(op, CONFIG, CONFIG, WatchKind::Data, answer::data_and_watch)
    }

    /// Changes the ensemble's membership, and returns the new configuration. With `version`, the
    /// change requires that the configuration has this version, as its text shows it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) without the permission to reconfigure,
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) for another version,
    /// [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted) while another change is in
    /// progress or no quorum of the new servers is ready,
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for invalid arguments, or if
    /// reconfiguration is not enabled.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{ErrorKind, Reconfiguration};
    ///
    /// let members = Reconfiguration::Members(&["server.1=10.0.0.1:2888:3888;2181"]);
    /// let error = client.reconfigure(members, Some(0x1_0000_0000)).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Invalid); // a server that stands alone
    /// # Ok(()) });
    /// ```
    pub fn reconfigure(
        &self,
        change: Reconfiguration<'_>,
        version: Option<i64>,
    ) -> Pending<(Bytes, Stat)> {
        let list = |items: &[&str]| (!items.is_empty()).then(|| items.join(",").into());
        let config_id = version.unwrap_or(-1);
        let request = match change {
            Reconfiguration::Change { joining, leaving } => Reconfig {
                joining: list(joining),
                leaving: list(leaving),
                members: None,
                config_id,
            },
            Reconfiguration::Members(members) => {
                Reconfig { joining: None, leaving: None, members: list(members), config_id }
            }
        };
        let frame = Frame::new(OpCode::RECONFIG, |out| request.encode(out));
        self.submit(CONFIG, frame, answer::data_and_stat)
    }

    // How requests are made.

    pub(crate) fn absolute<'a>(&self, path: &'a str) -> Cow<'a, str> {
        self.chroot.absolute(path)
    }

    pub(crate) fn create_with(
        &self,
        path: &str,
        data: Option<&[u8]>,
        mode: CreateMode,
        acl: &Acls,
    ) -> Pending<Created> {
        if let Err(error) = check_path(path, mode.is_sequential()) {
            return Pending::failed(error);
        }
        self.create_absolute(path, &self.absolute_of(path, mode), data, mode, acl)
    }

    /// The absolute path of a znode to create.
    pub(crate) fn absolute_of<'a>(&self, path: &'a str, mode: CreateMode) -> Cow<'a, str> {
        if mode.is_sequential() { self.chroot.absolute_prefix(path) } else { self.absolute(path) }
    }

    /// Creates a znode. Takes both the path below the chroot and the absolute path.
    pub(crate) fn create_absolute(
        &self,
        path: &str,
        absolute: &str,
        data: Option<&[u8]>,
        mode: CreateMode,
        acl: &Acls,
    ) -> Pending<Created> {
        let Some(Wire { op, flags, ttl_ms }) = mode.wire() else {
            return Pending::failed(Error::ttl(path));
        };
        let op = self.shared().create_op(op);
        let sent = Some(Cow::Borrowed(absolute));
        let acl = Some(acl.entries().iter().map(AclRef::from).collect());
        let frame = Frame::new(op, |out| {
            if op == OpCode::CREATE_TTL {
                CreateTtl { path: sent, data, acl, flags, ttl_ms }.encode(out);
            } else {
                Create { path: sent, data, acl, flags }.encode(out);
            }
        });
        if op != OpCode::CREATE {
            return self.submit(path, frame, answer::created);
        }
        let placed = self.shared().submit(frame, Effect::None, self.series.clone());
        let data_length = data.map_or(0, <[u8]>::len) as i32;
        let made = Seat::Made { data_length, is_ephemeral: mode.is_ephemeral() };
        self.pending(path, placed, made, answer::created_as_asked)
    }

    fn submit<T>(&self, path: &str, frame: Frame, decode: Decode<T>) -> Pending<T> {
        let placed = self.shared().submit(frame, Effect::None, self.series.clone());
        self.pending(path, placed, Seat::None, decode)
    }

    pub(crate) fn submit_many<T>(
        &self,
        frame: Frame,
        paths: Vec<Box<str>>,
        effect: Effect,
        decode: Decode<T>,
    ) -> Pending<T> {
        let placed = self.shared().submit(frame, effect, self.series.clone());
        let (shared, chroot) = (self.shared().clone(), self.chroot.clone());
        let call = Call { path: "".into(), paths, shared, chroot, seat: Seat::None };
        Pending::new(placed.id, placed.reply, call, decode)
    }

    pub(crate) fn pending<T>(
        &self,
        path: &str,
        placed: Placed,
        seat: Seat,
        decode: Decode<T>,
    ) -> Pending<T> {
        let (shared, chroot) = (self.shared().clone(), self.chroot.clone());
        let call = Call { path: path.into(), paths: Vec::new(), shared, chroot, seat };
        Pending::new(placed.id, placed.reply, call, decode)
    }

    pub(crate) fn path_request<T>(
        &self,
        op: OpCode,
        path: &str,
        decode: Decode<T>,
        write: impl FnOnce(Option<Cow<'_, str>>, &mut Encoder<'_>),
    ) -> Pending<T> {
        if let Err(error) = check_path(path, false) {
            return Pending::failed(error);
        }
        let absolute = self.absolute(path);
        let frame = Frame::new(op, |out| write(Some(Cow::Borrowed(&*absolute)), out));
        self.submit(path, frame, decode)
    }

    pub(crate) fn watch_request<T>(
        &self,
        op: OpCode,
        path: &str,
        kind: WatchKind,
        decode: Decode<T>,
    ) -> Pending<T> {
        if let Err(error) = check_path(path, false) {
            return Pending::failed(error);
        }
        let absolute = self.absolute(path);
        self.watch_absolute(op, path, &absolute, kind, decode)
    }

    fn watch_absolute<T>(
        &self,
        op: OpCode,
        path: &str,
        absolute: &str,
        kind: WatchKind,
        decode: Decode<T>,
    ) -> Pending<T> {
        let frame = Frame::new(op, |out| {
            PathWatch { path: Some(Cow::Borrowed(absolute)), watch: true }.encode(out);
        });
        let events = Mailbox::new();
        let listener = Listener::Once(events.clone());
        let wanted = Wanted { kind, path: absolute.into(), listener };
        let (placed, watcher) = self.shared().submit_watch(frame, wanted, self.series.clone());
        let watch = Watch::new(watcher, events, self);
        self.pending(path, placed, Seat::Once(watch), decode)
    }
}
