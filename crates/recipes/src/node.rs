//! A persistent znode: created again whenever it is deleted.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use zebu_client::{
    Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry, Stat, Version, Watch, Zxid,
};

use crate::cleanup::{self, Mine, Whose};
use crate::current::after_sync;
use crate::error::found_out;
use crate::place::is_passing;
use crate::{Error, Result, faults, path};

/// Pause after a server was too busy.
const PAUSE: Duration = Duration::from_millis(100);

/// The number of attempts of a write while other clients write the znode.
const WRITES_MAX: usize = 32;

/// A znode that this session keeps: if another client deletes it, it is created again with the
/// newest data.
///
/// The znode is deleted when this value is closed or dropped. An ephemeral znode ends with its
/// session; the program must keep it again in a new session. If another session has an ephemeral at
/// this path, for example one of an earlier run of the program, this waits until that one is gone.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, Version};
/// use zebu_recipes::{PersistentNode, Value};
///
/// let (mode, acl) = (CreateMode::Ephemeral, Acls::creator());
/// let node = PersistentNode::keep(&client, "/hosts/a", "up", mode, &acl).await?;
/// client.delete("/hosts/a", Version::ANY).await?;
/// let mut value = Value::of(&client, "/hosts/a");
/// while value.next().await?.is_none() {}
/// node.close().await?;
/// assert!(client.exists("/hosts/a").await?.is_none());
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a node that is dropped is deleted"]
pub struct PersistentNode {
    client: Client,
    shared: Arc<Shared>,
    state: watch::Receiver<State>,
    /// Closed when this is dropped.
    stop: Option<mpsc::Sender<()>>,
    task: JoinHandle<()>,
}

/// The state of the znode.
#[derive(Clone, Debug)]
enum State {
    /// The znode does not exist, or does not exist again yet. The next create uses the newest data.
    Missing,
    /// The znode is being created or taken over: it may exist with older data.
    Unsettled,
    /// It exists at this path.
    Kept(Kept),
    /// The znode is no longer kept.
    Ended(Error),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    path: String,
    created: Zxid,
}

#[derive(Debug)]
struct Shared {
    path: String,
    mode: CreateMode,
    acl: Acls,
    /// The newest data. Write requests are sent, and `State::Unsettled` is entered and left, under
    /// this lock, so the last request has the newest data.
    data: Mutex<Vec<u8>>,
    /// For a TTL znode, which stays afterwards: how often to refresh it.
    touch: Option<Duration>,
}

impl PersistentNode {
    /// Creates the znode and its parents, and keeps it; returns when it exists. The name of a
    /// sequential one has the mark of [`Client::create_protected`], and it is created again under
    /// the same name.
    ///
    /// Dropping the future deletes the znode if it was created.
    ///
    /// # Errors
    /// The errors of creating, if repeated attempts cannot help; the session has ended.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, CreateMode};
    /// # use zebu_recipes::PersistentNode;
    /// let (mode, acl) = (CreateMode::EphemeralSequential, Acls::creator());
    /// let node = PersistentNode::keep(&client, "/hosts/n-", "up", mode, &acl).await?;
    /// assert!(node.path().expect("it is there").ends_with("-n-0000000000"));
    /// # Ok(()) });
    /// ```
    pub async fn keep(
        client: &Client,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
        acl: &Acls,
    ) -> Result<Self> {
        Self::start(client, path, data.as_ref(), mode, acl, None).await
    }

    pub(crate) async fn start(
        client: &Client,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acl: &Acls,
        touch: Option<Duration>,
    ) -> Result<Self> {
        let (path, acl, data) = (path.to_owned(), acl.clone(), Mutex::new(data.to_vec()));
        let shared = Arc::new(Shared { path, mode, acl, data, touch });
        let (sender, mut state) = watch::channel(State::Missing);
        let (stop, stopped) = mpsc::channel(1);
        let driver = Driver { client: client.unowned(), shared: shared.clone(), state: sender };
        let task = client.thread().spawn(driver.run(stopped));
        let node =
            Self { client: client.clone(), shared, state: state.clone(), stop: Some(stop), task };
        let is_settled = |state: &State| matches!(state, State::Kept(_) | State::Ended(_));
        let settled = state.wait_for(is_settled).await;
        match settled.as_deref() {
            Ok(State::Ended(error)) => Err(error.clone()),
            _ => Ok(node),
        }
    }

    /// The path of the znode; `None` while it is missing.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, CreateMode};
    /// # use zebu_recipes::PersistentNode;
    /// let (mode, acl) = (CreateMode::Ephemeral, Acls::creator());
    /// let node = PersistentNode::keep(&client, "/a", "", mode, &acl).await?;
    /// assert_eq!(node.path().as_deref(), Some("/a"));
    /// # Ok(()) });
    /// ```
    pub fn path(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Kept(kept) => Some(kept.path.clone()),
            _ => None,
        }
    }

    /// Writes the data, now and whenever the znode is created again. Returns when the znode has the
    /// data. If the znode is missing, this returns at once, and the next create uses the data.
    ///
    /// A znode that another session has created at this path meanwhile keeps its data. ZooKeeper
    /// can make a write depend on the version of the data only, not on the creator. So one case
    /// remains: while the write is on its way, another client deletes this znode, another session
    /// creates its own, and that znode has the version that this one had.
    ///
    /// # Errors
    /// The errors of writing. After [`ErrorKind::Unknown`] the data may be written; writing them
    /// again is harmless.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, CreateMode};
    /// # use zebu_recipes::PersistentNode;
    /// let (mode, acl) = (CreateMode::Ephemeral, Acls::creator());
    /// let node = PersistentNode::keep(&client, "/a", "1", mode, &acl).await?;
    /// node.set_data("2").await?;
    /// assert_eq!(client.get_data("/a").await?.0, "2");
    /// # Ok(()) });
    /// ```
    pub async fn set_data(&self, data: impl AsRef<[u8]>) -> Result<()> {
        let state = {
            let mut newest = self.shared.data.lock();
            *newest = data.as_ref().to_vec();
            self.state.borrow().clone()
        };
        match state {
            // The znode is created with the newest data.
            State::Missing | State::Ended(_) => Ok(()),
            State::Unsettled if faults::leaves_older_data() => Ok(()),
            State::Unsettled => self.settled(None).await,
            State::Kept(kept) if self.write(&kept).await? => Ok(()),
            State::Kept(kept) => self.settled(Some(kept)).await,
        }
    }

    /// Writes the newest data into the kept znode. Returns false if the znode is gone.
    async fn write(&self, kept: &Kept) -> Result<bool> {
        let mut unknown = None;
        for _ in 0..WRITES_MAX {
            let look = || after_sync(&self.client, &kept.path, || self.client.exists(&kept.path));
            let found = Retry::default().reads(look).await;
            let found = match &unknown {
                Some(unknown) => found_out(found, unknown)?,
                None => found?,
            };
            let version = match found {
                _ if faults::writes_into_any_znode() => Version::ANY,
                Some(stat) if stat.czxid == kept.created => Version(stat.version),
                _ => return Ok(false),
            };
            let write = || {
                let newest = self.shared.data.lock();
                self.client.set_data(&kept.path, &*newest, version)
            };
            match Retry::default().writes(write).await {
                Ok(stat) => return Ok(stat.czxid == kept.created),
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(false),
                // Another client has written the znode, or it is another znode.
                Err(error) if error.code() == ErrorCode::BAD_VERSION => {}
                // Writing the newest data once more is harmless.
                Err(error) if error.kind() == ErrorKind::Unknown => unknown = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Contended(kept.path.clone()))
    }

    /// Waits until the driver has noticed that this znode is gone, and until no create is in
    /// progress. The driver writes the newest data before it reports that.
    async fn settled(&self, gone: Option<Kept>) -> Result<()> {
        let mut state = self.state.clone();
        let is_settled = |state: &State| match state {
            State::Unsettled => false,
            State::Kept(kept) => Some(kept) != gone.as_ref(),
            State::Missing | State::Ended(_) => true,
        };
        // The driver's attempts never end, but this caller's wait does.
        let in_vain = async {
            loop {
                tokio::time::sleep(PAUSE).await;
                let look = || self.client.exists(&self.shared.path);
                if let Err(error) = Retry::default().reads(look).await {
                    return error;
                }
            }
        };
        tokio::select! {
            biased;
            state = state.wait_for(is_settled) => match state.as_deref() {
                Ok(State::Ended(error)) => Err(error.clone()),
                _ => Ok(()),
            },
            error = in_vain => Err(error.into()),
        }
    }

    /// Waits until the znode is no longer kept, and returns why: the session has ended, or the
    /// servers refuse it. The future may be dropped and called again.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, CreateMode};
    /// # use zebu_recipes::PersistentNode;
    /// let (mode, acl) = (CreateMode::Ephemeral, Acls::creator());
    /// let node = PersistentNode::keep(&client, "/a", "", mode, &acl).await?;
    /// client.close().await?;
    /// assert!(node.lost().await.is_session_over());
    /// # Ok(()) });
    /// ```
    pub async fn lost(&self) -> Error {
        let mut state = self.state.clone();
        let ended = state.wait_for(|state| matches!(state, State::Ended(_))).await;
        match ended.as_deref() {
            Ok(State::Ended(error)) => error.clone(),
            _ => unreachable!("the task ends with a reason as long as this lives"),
        }
    }

    /// Deletes the znode, and returns when it is gone.
    ///
    /// # Errors
    /// The errors of deleting, if repeated attempts failed; deletion then continues in the
    /// background. If the znode was no longer kept, the reason for that.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, CreateMode};
    /// # use zebu_recipes::PersistentNode;
    /// let (mode, acl) = (CreateMode::Persistent, Acls::creator());
    /// PersistentNode::keep(&client, "/a", "", mode, &acl).await?.close().await?;
    /// assert!(client.exists("/a").await?.is_none());
    /// # Ok(()) });
    /// ```
    pub async fn close(mut self) -> Result<()> {
        self.stop = None;
        // The session's thread lives as long as the client.
        let _ = (&mut self.task).await;
        let state = self.state.borrow().clone();
        match state {
            State::Missing | State::Unsettled => Ok(()),
            State::Ended(error) => Err(error),
            State::Kept(kept) if self.shared.touch.is_none() && !faults::keeps_what_is_closed() => {
                cleanup::delete(&self.client, &mine(kept)).await.map(drop)
            }
            State::Kept(_) => Ok(()),
        }
    }
}

fn mine(kept: Kept) -> Mine {
    Mine { path: kept.path, whose: Whose::Created(kept.created) }
}

/// The task that keeps the znode. It is never aborted, because it must know what it has created.
struct Driver {
    client: Client,
    shared: Arc<Shared>,
    state: watch::Sender<State>,
}

impl Driver {
    async fn run(self, mut stopped: mpsc::Receiver<()>) {
        let mut name = None;
        loop {
            match self.turn(&mut stopped, &mut name).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(Error::Client(error)) if may_pass(&error) => {
                    tokio::select! {
                        biased;
                        _ = stopped.recv() => {
                            self.resolve(&name).await;
                            break;
                        }
                        connected = self.again() => if let Err(error) = connected {
                            self.state.send_replace(State::Ended(error));
                            return;
                        },
                    }
                }
                Err(error) => {
                    self.state.send_replace(State::Ended(error));
                    return;
                }
            }
        }
        let kept = match &*self.state.borrow() {
            State::Kept(kept) if self.shared.touch.is_none() => kept.clone(),
            _ => return,
        };
        if !faults::keeps_what_is_closed() {
            cleanup::delete_behind(&self.client, mine(kept));
        }
    }

    /// Finds out whether the newest attempt has created or found a znode, however long that takes,
    /// so that the znode can be deleted.
    async fn resolve(&self, name: &Option<String>) {
        let Some(path) = self.name(name) else { return };
        while matches!(*self.state.borrow(), State::Unsettled) {
            match after_sync(&self.client, path, || self.client.exists(path)).await {
                Ok(stat) => {
                    let mine = stat.filter(|stat| self.is_ours(stat));
                    return self.settle(mine.as_ref().map(|stat| (path, stat)));
                }
                Err(error) if !may_pass(&error) => return,
                Err(_) if self.again().await.is_err() => return,
                Err(_) => {}
            }
        }
    }

    async fn again(&self) -> Result<()> {
        tokio::time::sleep(PAUSE).await;
        Ok(self.client.connected().await?)
    }

    /// Creates the znode if it is missing, and waits until it changes. Returns whether to continue.
    async fn turn(
        &self,
        stopped: &mut mpsc::Receiver<()>,
        name: &mut Option<String>,
    ) -> Result<bool> {
        // A sequential znode has no name before it is created.
        if let Some(path) = self.name(name) {
            let (stat, changed) = self.look(path).await?;
            if let Some(stat) = stat {
                let is_ours = self.is_ours(&stat);
                if !is_ours {
                    self.settle(None);
                } else if !self.is_kept(&stat) {
                    // A create whose answer was lost, or another program, may have left older data.
                    self.begin();
                    let written =
                        faults::leaves_older_data().then(|| self.shared.data.lock().clone());
                    if !self.bring_up_to_date(path, &stat, written).await? {
                        return Ok(true);
                    }
                }
                return self.rest(stopped, path, changed, is_ours).await;
            }
        }
        self.settle(None);
        if stopped.is_closed() {
            return Ok(false);
        }
        let data = self.begin();
        let created = self.create(self.name(name), &data).await;
        match &created {
            Err(Error::Client(error)) if error.kind() == ErrorKind::NotExecuted => {
                self.settle(None)
            }
            _ => {}
        }
        if let Some((path, stat)) = created? {
            *name = Some(path.clone());
            self.bring_up_to_date(&path, &stat, Some(data)).await?;
        }
        Ok(true)
    }

    /// Reads whether the znode exists, and watches it. An attempt with an unknown outcome may have
    /// created it, and a member that is behind does not show it yet; so a `sync` precedes that
    /// read.
    async fn look(&self, path: &str) -> zebu_client::Result<(Option<Stat>, Watch)> {
        let is_unsettled = matches!(*self.state.borrow(), State::Unsettled);
        let read = || self.client.watch_exists(path);
        if is_unsettled { after_sync(&self.client, path, read).await } else { read().await }
    }

    /// Marks that a create with the returned data may be on its way.
    fn begin(&self) -> Vec<u8> {
        let newest = self.shared.data.lock();
        self.state.send_replace(State::Unsettled);
        newest.clone()
    }

    /// Writes the newest data into a znode, unless it was written with them, and then marks it as
    /// kept. Returns false if the znode is gone or another client has written it.
    async fn bring_up_to_date(
        &self,
        path: &str,
        stat: &Stat,
        mut written: Option<Vec<u8>>,
    ) -> Result<bool> {
        let mut version = Version(stat.version);
        loop {
            let write = {
                let newest = self.shared.data.lock();
                if written.as_ref() == Some(&*newest) || faults::leaves_older_data() {
                    self.settle(Some((path, stat)));
                    return Ok(true);
                }
                written = Some(newest.clone());
                self.client.set_data(path, &*newest, version)
            };
            match write.await {
                Ok(stat) => version = Version(stat.version),
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(false),
                Err(error) if error.code() == ErrorCode::BAD_VERSION => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_kept(&self, stat: &Stat) -> bool {
        matches!(&*self.state.borrow(), State::Kept(kept) if kept.created == stat.czxid)
    }

    fn name<'a>(&'a self, name: &'a Option<String>) -> Option<&'a str> {
        let is_named = !self.shared.mode.is_sequential();
        name.as_deref().or(is_named.then_some(&self.shared.path))
    }

    fn settle(&self, found: Option<(&str, &Stat)>) {
        let state = match found {
            Some((path, stat)) => State::Kept(Kept { path: path.to_owned(), created: stat.czxid }),
            None => State::Missing,
        };
        self.state.send_replace(state);
    }

    /// Whether the existing znode can serve as one created by this session.
    fn is_ours(&self, stat: &Stat) -> bool {
        !self.shared.mode.is_ephemeral() || stat.ephemeral_owner == self.client.session_id().0
    }

    /// Waits for a change. Returns whether to continue.
    async fn rest(
        &self,
        stopped: &mut mpsc::Receiver<()>,
        path: &str,
        changed: Watch,
        is_ours: bool,
    ) -> Result<bool> {
        let touched = async {
            match self.shared.touch.filter(|_| is_ours) {
                Some(pause) => self.touch(path, pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stopped.recv() => Ok(false),
            changed = changed => Ok(changed.map(|_| true)?),
            error = touched => Err(error),
        }
    }

    /// Refreshes the TTL znode repeatedly. Returns an error if that fails.
    /// Source: `PersistentTtlNode.touch`.
    async fn touch(&self, path: &str, pause: Duration) -> Error {
        let child = path::join(path, "touch");
        loop {
            tokio::time::sleep(pause).await;
            let touched = match self.client.set_data(&child, "", Version::ANY).await {
                Err(error) if error.kind() == ErrorKind::Gone => {
                    let create = self.client.create(&child, "", self.shared.mode, &self.shared.acl);
                    create.await.map(drop)
                }
                touched => touched.map(drop),
            };
            match touched {
                // The znode is gone, and the driver is about to create it again.
                Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Conflict) => {}
                Err(error) => return error.into(),
                Ok(()) => {}
            }
        }
    }

    /// Creates the znode, under the given name or a new one; `None` if another client has created
    /// it, or its parents were missing.
    async fn create(&self, name: Option<&str>, data: &[u8]) -> Result<Option<(String, Stat)>> {
        let Shared { path, mode, acl, .. } = &*self.shared;
        let created = match name {
            Some(name) => self.client.create(name, data, named(*mode), acl).await,
            // The mark identifies it if the answer is lost.
            None => self.client.create_protected(path, data, *mode, acl).await,
        };
        let error = match created {
            Ok(created) => return Ok(Some((created.path, created.stat))),
            Err(error) => error,
        };
        match error.code() {
            ErrorCode::NODE_EXISTS => Ok(None),
            ErrorCode::NO_NODE => {
                let parent = path::parent(path);
                Retry::default().reads(|| self.client.create_all(parent, acl)).await?;
                Ok(None)
            }
            _ => Err(error.into()),
        }
    }
}

/// The mode without sequential numbers.
fn named(mode: CreateMode) -> CreateMode {
    match mode {
        CreateMode::PersistentSequential => CreateMode::Persistent,
        CreateMode::EphemeralSequential => CreateMode::Ephemeral,
        CreateMode::SequentialTtl(ttl) => CreateMode::Ttl(ttl),
        mode => mode,
    }
}

/// Whether another attempt may succeed, possibly much later.
fn may_pass(error: &zebu_client::Error) -> bool {
    is_passing(error) || matches!(error.kind(), ErrorKind::Server | ErrorKind::ReadOnly)
}
