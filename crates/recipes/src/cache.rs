//! Caches of a znode, its children or a subtree in memory.

mod driver;
mod mirror;
mod subscribers;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::{Client, Stat, WatchMode};

use crate::{Error, Result};

use mirror::{Depth, Found, Limits, Mirror, Read, TooLarge};
use subscribers::{Subscribers, Taken, Waiting};

/// A znode in a cache.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// let cache = zebu_recipes::Cache::node(&client, "/").start();
/// cache.current().await?;
/// let root = cache.get("/").expect("there is always a root");
/// assert_eq!((root.path.as_str(), root.data.len()), ("/", 0));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Znode {
    /// Its path.
    pub path: String,
    /// The data of the znode; empty in a cache without data, see [`CacheBuilder::without_data`].
    pub data: Bytes,
    /// Its stat when the data were read. Events of a recursive watch do not report changes of a
    /// child list, so fields about children may be older than the children in the cache.
    pub stat: Stat,
}

/// A change of the cache.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_recipes::{Cache, Change};
///
/// let cache = Cache::node(&client, "/").start();
/// let mut changes = cache.changes();
/// let Change::Created(root) = changes.next().await? else { panic!() };
/// assert_eq!(root.path, "/");
/// assert_eq!(changes.next().await?, Change::Current);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A znode was created.
    Created(Arc<Znode>),
    /// The data of a znode were written, once or several times.
    Written {
        /// The znode before the write.
        before: Arc<Znode>,
        /// The znode after the write.
        now: Arc<Znode>,
    },
    /// A znode was deleted; this is its last state.
    Deleted(Arc<Znode>),
    /// The cache is complete: after the first fill, and after each interruption.
    Current,
    /// The connection is lost: the cache may be stale until [`Change::Current`].
    Suspended,
    /// This reader was too slow and missed changes. Discard everything reported so far: the cache
    /// is reported again from the beginning.
    Reset,
}

/// Builds a [`Cache`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// let cache = zebu_recipes::Cache::tree(&client, "/").nodes_max(10_000).without_data().start();
/// cache.current().await?;
/// assert!(cache.get("/zookeeper/quota").is_some());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use = "a cache that is not started caches nothing"]
pub struct CacheBuilder {
    client: Client,
    root: String,
    depth: Depth,
    limits: Limits,
    keeps_data: bool,
}

/// Default maximum number of znodes.
const NODES_MAX: usize = 1_000_000;

/// Default maximum number of bytes.
const BYTES_MAX: usize = 1 << 30;

impl CacheBuilder {
    fn new(client: &Client, root: &str, depth: Depth) -> Self {
        let limits = Limits { nodes_max: NODES_MAX, bytes_max: BYTES_MAX };
        Self { client: client.clone(), root: root.to_owned(), depth, limits, keeps_data: true }
    }

    /// Maximum number of znodes; 1,000,000 unless set. A cache that exceeds it ends with
    /// [`Error::TooLarge`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_recipes::{Cache, Error};
    ///
    /// let cache = Cache::tree(&client, "/").nodes_max(2).start();
    /// assert_eq!(cache.current().await.unwrap_err(), Error::TooLarge("/".to_owned()));
    /// # Ok(()) });
    /// ```
    pub fn nodes_max(mut self, nodes: usize) -> Self {
        self.limits.nodes_max = nodes;
        self
    }

    /// Maximum bytes of paths, data and stats; 1 GiB unless set. A cache that exceeds it ends with
    /// [`Error::TooLarge`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::tree(&client, "/").bytes_max(1 << 20).start();
    /// cache.current().await?;
    /// # Ok(()) });
    /// ```
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.limits.bytes_max = bytes;
        self
    }

    /// Keeps only paths and stats.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # client.set_data("/", "data", zebu_client::Version::ANY).await?;
    /// let cache = zebu_recipes::Cache::node(&client, "/").without_data().start();
    /// cache.current().await?;
    /// let root = cache.get("/").expect("it is there");
    /// assert_eq!((root.data.len(), root.stat.data_length), (0, 4));
    /// # Ok(()) });
    /// ```
    pub fn without_data(mut self) -> Self {
        self.keeps_data = false;
        self
    }

    /// Starts to fill the cache, on the session's thread. [`Cache::current`] waits until it is
    /// complete.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::children(&client, "/").start();
    /// # drop(cache);
    /// # Ok(()) });
    /// ```
    pub fn start(self) -> Cache {
        let state = State {
            mirror: Mirror::new(&self.root, self.depth, self.limits),
            subscribers: Subscribers::default(),
        };
        let shared = Arc::new(Shared {
            root: self.root,
            mode: driver::watch_mode(self.depth),
            keeps_data: self.keeps_data,
            state: RwLock::new(state),
            phase: watch::Sender::new(Phase::Filling),
        });
        let (unowned, driven) = (self.client.unowned(), shared.clone());
        let task = self.client.thread().spawn(async move {
            let Err(error) = driver::drive(&unowned, &driven).await;
            driven.end(error);
        });
        Cache(Arc::new(Inside { shared, task, _client: self.client }))
    }
}

/// A znode, its children or a subtree in memory. Reads send no request, and the cache reports
/// changes.
///
/// One persistent watch reports which znodes to read again. Every entry is a state that its znode
/// had. It is the newest state as soon as the session has received it. After a lost connection, or
/// if events come faster than they are read, the cache reads everything again and reports the
/// differences.
///
/// Clones share one cache. It ends with its last clone, which removes the watch, or with the
/// session. Znodes that the client may not read are left out.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode};
/// use zebu_recipes::{Cache, Change};
///
/// client.create_all("/app/hosts", &Acls::creator()).await?;
/// let cache = Cache::tree(&client, "/app").start();
/// cache.current().await?;
/// assert_eq!(cache.len(), 2);
/// let mut changes = cache.changes();
/// client.create("/app/hosts/a", "10.0.0.1", CreateMode::Ephemeral, &Acls::creator()).await?;
/// loop {
///     match changes.next().await? {
///         Change::Created(znode) if znode.path == "/app/hosts/a" => break,
///         other => println!("{other:?}"), // the content before, then `Current`
///     }
/// }
/// assert_eq!(cache.get("/app/hosts/a").expect("it is there").data, "10.0.0.1");
/// assert_eq!(cache.children_of("/app/hosts").len(), 1);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Cache(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    /// Keeps the session open.
    _client: Client,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cache {
    /// A cache of one znode, which need not exist.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::node(&client, "/none").start();
    /// cache.current().await?;
    /// assert!(cache.is_empty());
    /// # Ok(()) });
    /// ```
    pub fn node(client: &Client, path: &str) -> CacheBuilder {
        CacheBuilder::new(client, path, Depth::Node)
    }

    /// A cache of a znode and its children.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::children(&client, "/").start();
    /// cache.current().await?;
    /// assert_eq!(cache.children_of("/")[0].path, "/zookeeper");
    /// # Ok(()) });
    /// ```
    pub fn children(client: &Client, path: &str) -> CacheBuilder {
        CacheBuilder::new(client, path, Depth::Children)
    }

    /// A cache of a znode and everything below it.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::tree(&client, "/zookeeper").start();
    /// cache.current().await?;
    /// assert!(cache.get("/zookeeper/quota").is_some());
    /// # Ok(()) });
    /// ```
    pub fn tree(client: &Client, path: &str) -> CacheBuilder {
        CacheBuilder::new(client, path, Depth::Tree)
    }

    /// Waits until the cache is current, see [`Cache::is_current`].
    ///
    /// # Errors
    /// The session has ended; [`Error::TooLarge`] if the cache exceeds its limits.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::tree(&client, "/").start();
    /// cache.current().await?;
    /// assert!(cache.is_current());
    /// # Ok(()) });
    /// ```
    pub async fn current(&self) -> Result<()> {
        self.settled(|phase| !matches!(phase, Phase::Filling | Phase::Stale)).await
    }

    /// Waits until the cache was current once. It may be stale again.
    ///
    /// # Errors
    /// As for [`Cache::current`].
    pub(crate) async fn filled(&self) -> Result<()> {
        self.settled(|phase| *phase != Phase::Filling).await
    }

    async fn settled(&self, is_settled: impl Fn(&Phase) -> bool) -> Result<()> {
        let mut phase = self.0.shared.phase.subscribe();
        match phase.wait_for(|phase| is_settled(phase)).await.as_deref() {
            Ok(Phase::Ended(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Whether the cache is complete, and receives changes. It is not current without a connection,
    /// and until everything is read again.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::tree(&client, "/").start();
    /// println!("{}", cache.is_current());
    /// # Ok(()) });
    /// ```
    pub fn is_current(&self) -> bool {
        *self.0.shared.phase.borrow() == Phase::Current
    }

    /// A znode; `None` if it does not exist.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::tree(&client, "/").start();
    /// cache.current().await?;
    /// assert!(cache.get("/zookeeper").is_some() && cache.get("/none").is_none());
    /// # Ok(()) });
    /// ```
    pub fn get(&self, path: &str) -> Option<Arc<Znode>> {
        self.0.shared.state.read().mirror.get(path).cloned()
    }

    /// The children of a znode, by name.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::tree(&client, "/").start();
    /// cache.current().await?;
    /// assert_eq!(cache.children_of("/zookeeper").len(), 2);
    /// # Ok(()) });
    /// ```
    pub fn children_of(&self, path: &str) -> Vec<Arc<Znode>> {
        self.0.shared.state.read().mirror.children(path)
    }

    /// All znodes, parents first.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::tree(&client, "/").start();
    /// cache.current().await?;
    /// assert_eq!(cache.snapshot()[0].path, "/");
    /// # Ok(()) });
    /// ```
    pub fn snapshot(&self) -> Vec<Arc<Znode>> {
        self.0.shared.state.read().mirror.iter().cloned().collect()
    }

    /// Number of znodes in the cache.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::node(&client, "/").start();
    /// cache.current().await?;
    /// assert_eq!(cache.len(), 1);
    /// # Ok(()) });
    /// ```
    pub fn len(&self) -> usize {
        self.0.shared.state.read().mirror.len()
    }

    /// Whether the cache has no znodes.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let cache = zebu_recipes::Cache::node(&client, "/").start();
    /// cache.current().await?;
    /// assert!(!cache.is_empty());
    /// # Ok(()) });
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The content of the cache, reported as [`Change::Created`], then every change.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut changes = zebu_recipes::Cache::node(&client, "/").start().changes();
    /// while changes.next().await? != zebu_recipes::Change::Current {}
    /// # Ok(()) });
    /// ```
    pub fn changes(&self) -> Changes {
        let mut state = self.0.shared.state.write();
        let told = state.everything();
        let waiting = state.subscribers.add();
        drop(state);
        Changes { told, waiting, cache: self.clone() }
    }
}

/// The changes of a [`Cache`], as a stream that ends with the session.
///
/// It keeps the cache alive. At most some thousands of changes wait for a slow reader. After that
/// it receives [`Change::Reset`], and the cache is reported again.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// let mut changes = zebu_recipes::Cache::node(&client, "/none").start().changes();
/// assert_eq!(changes.next().await?, zebu_recipes::Change::Current);
/// client.close().await?;
/// assert!(changes.next().await.unwrap_err().is_session_over());
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct Changes {
    /// Changes to report before those that wait in the queue.
    told: VecDeque<Change>,
    waiting: Arc<Waiting>,
    cache: Cache,
}

impl Changes {
    /// Waits for the next change. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The session has ended; [`Error::TooLarge`] if the cache exceeds its limits.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut changes = zebu_recipes::Cache::node(&client, "/").start().changes();
    /// println!("{:?}", changes.next().await?);
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Change> {
        poll_fn(|cx| self.poll_change(cx)).await
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Result<Change>> {
        loop {
            if let Some(change) = self.told.pop_front() {
                return Poll::Ready(Ok(change));
            }
            match ready!(self.waiting.poll_take(cx)) {
                Taken::Change(change) => return Poll::Ready(Ok(change)),
                Taken::Overrun => {
                    let mut state = self.cache.0.shared.state.write();
                    self.told = state.everything();
                    self.waiting = state.subscribers.add();
                    self.told.push_front(Change::Reset);
                }
                Taken::Closed => return Poll::Ready(Err(self.cache.0.shared.ending())),
            }
        }
    }
}

impl Stream for Changes {
    type Item = Result<Change>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Change>>> {
        self.poll_change(cx).map(Some)
    }
}

/// How complete a cache is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The cache was never current.
    Filling,
    /// The cache was current before, and is being read again.
    Stale,
    Current,
    Ended(Error),
}

#[derive(Debug)]
struct State {
    mirror: Mirror,
    subscribers: Subscribers,
}

impl State {
    /// The changes that a new reader receives first.
    fn everything(&self) -> VecDeque<Change> {
        let znodes = self.mirror.iter().cloned().map(Change::Created);
        znodes.chain(self.mirror.is_current().then_some(Change::Current)).collect()
    }
}

/// State shared by the task of a cache and its readers.
#[derive(Debug)]
struct Shared {
    root: String,
    mode: WatchMode,
    keeps_data: bool,
    state: RwLock<State>,
    phase: watch::Sender<Phase>,
}

impl Shared {
    fn root(&self) -> &str {
        &self.root
    }

    fn mode(&self) -> WatchMode {
        self.mode
    }

    fn keeps_data(&self) -> bool {
        self.keeps_data
    }

    fn next_read(&self) -> Option<Read> {
        self.state.write().mirror.next_read()
    }

    fn restart(&self) {
        self.stale(|mirror| mirror.restart());
    }

    fn suspend(&self) {
        self.stale(Mirror::suspend);
    }

    fn stale(&self, act: impl FnOnce(&mut Mirror)) {
        let mut state = self.state.write();
        let was_current = state.mirror.is_current();
        act(&mut state.mirror);
        if was_current {
            self.phase.send_replace(Phase::Stale);
            state.subscribers.tell(&[Change::Suspended]);
        }
    }

    fn touch(&self, path: &str) -> Result<()> {
        self.state.write().mirror.touch(path).map_err(|TooLarge| self.too_large())
    }

    fn answer(&self, read: &Read, found: Found) -> Result<()> {
        let mut changes = Vec::new();
        let mut state = self.state.write();
        let answered = state.mirror.answer(read, found, &mut changes);
        state.subscribers.tell(&changes);
        if state.mirror.is_current() {
            self.phase.send_if_modified(|phase| {
                let is_new = *phase != Phase::Current;
                *phase = Phase::Current;
                is_new
            });
        }
        answered.map_err(|TooLarge| self.too_large())
    }

    fn too_large(&self) -> Error {
        Error::TooLarge(self.root.clone())
    }

    fn end(&self, error: Error) {
        let mut state = self.state.write();
        state.mirror.suspend();
        self.phase.send_replace(Phase::Ended(error));
        state.subscribers.close();
    }

    /// The reason why there are no more changes.
    fn ending(&self) -> Error {
        match &*self.phase.borrow() {
            Phase::Ended(error) => error.clone(),
            // The reason is stored before the readers are told of the end.
            _ => unreachable!("the cache has not ended"),
        }
    }
}
