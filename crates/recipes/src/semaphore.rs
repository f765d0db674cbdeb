//! A semaphore with Curator's or kazoo's znodes: a limited number of leases.

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, SessionEvents, Watch};

use crate::counts::{CountChanges, SharedCount, create_with_parents};
use crate::layout::Layout;
use crate::place::Place;
use crate::{Error, Held, Lock, News, Result, Token, faults, path};

/// The beginning of a lease's name, after the prefix of a protected create.
const LEASE: &str = "lease-";

/// A number of leases, granted in the order of the requests. It is compatible with Curator's
/// `InterProcessSemaphoreV2` of the same znode: each counts the leases of the other.
///
/// All processes must use the same number of leases, or the same [`SharedCount`].
///
/// ```text
/// PATH/locks    a mutex, Curator's InterProcessMutex: its holder asks for a lease
/// PATH/leases   _c_ID-lease-NUMBER, ephemeral, for each lease
/// ```
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Semaphore;
///
/// let semaphore = Semaphore::new(&client, "/licences", 2, &Acls::creator());
/// let (one, _two) = (semaphore.acquire().await?, semaphore.acquire().await?);
/// assert!(semaphore.try_acquire().await?.is_none());
/// one.release().await?;
/// assert!(semaphore.try_acquire().await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    client: Client,
    leases: String,
    lock: Lock,
    max: Max,
    acl: Acls,
    data: Vec<u8>,
}

/// The source of the number of leases.
#[derive(Clone, Debug)]
enum Max {
    Fixed(usize),
    Counted(SharedCount),
    /// The semaphore has kazoo's znodes.
    Agreed(usize),
}

impl Semaphore {
    /// The semaphore below this znode, with this number of leases. Missing znodes are created with
    /// this ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/licences", 2, &Acls::creator());
    /// # drop(semaphore);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, leases: usize, acl: &Acls) -> Self {
        Self::of(client, path, Max::Fixed(leases), acl)
    }

    /// As [`Semaphore::new`], but the number of leases is the value of `leases`. If it shrinks, the
    /// holders keep their leases, and no further lease is granted until enough are released.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Acls;
    /// use zebu_recipes::{Semaphore, SharedCount};
    ///
    /// let acl = Acls::creator();
    /// let count = SharedCount::new(&client, "/bought", 1, &acl);
    /// let semaphore = Semaphore::counted(&client, "/licences", &count, &acl);
    /// let _one = semaphore.acquire().await?;
    /// assert!(semaphore.try_acquire().await?.is_none());
    /// count.set(2).await?;
    /// let _two = semaphore.acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn counted(client: &Client, path: &str, leases: &SharedCount, acl: &Acls) -> Self {
        Self::of(client, path, Max::Counted(leases.clone()), acl)
    }

    /// The semaphore below this znode, together with programs that use `Semaphore` of the Python
    /// package kazoo with the same path and number of leases.
    ///
    /// ```text
    /// PATH              data: the number of leases, as text
    /// PATH/ID           ephemeral: a lease; its data name the holder
    /// PATH-__lock__/    Lock::of_kazoo: its holder asks for a lease
    /// ```
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::of_kazoo(&client, "/licences", 2, &Acls::creator());
    /// let _lease = semaphore.acquire().await?;
    /// assert_eq!(client.get_data("/licences").await?.0, "2");
    /// # Ok(()) });
    /// ```
    pub fn of_kazoo(client: &Client, path: &str, leases: usize, acl: &Acls) -> Self {
        let lock = Lock::of_kazoo(client, &format!("{path}-__lock__"), acl);
        let leases_at = path.to_owned();
        Self { leases: leases_at, lock, ..Self::of(client, path, Max::Agreed(leases), acl) }
    }

    fn of(client: &Client, path: &str, max: Max, acl: &Acls) -> Self {
        Self {
            client: client.clone(),
            leases: path::join(path, "leases"),
            lock: Lock::in_layout(client, &path::join(path, "locks"), acl, Layout::Mutex),
            max,
            acl: acl.clone(),
            data: Vec::new(),
        }
    }

    /// Names the holder to other participants: these are the data of the leases' znodes.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator()).named("amy");
    /// let lease = semaphore.acquire().await?;
    /// assert_eq!(client.get_data(lease.path()).await?.0, "amy");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn named(mut self, data: impl AsRef<[u8]>) -> Self {
        self.data = data.as_ref().to_vec();
        self
    }

    /// Waits for a lease.
    ///
    /// Dropping the future gives up the place in line, and the lease if it was granted already.
    ///
    /// # Errors
    /// The errors of [`Client::create_protected`] and of reading. [`Error::Deleted`] if another
    /// process deleted the place in line. [`Error::Leases`] with kazoo's znodes, if they name
    /// another number of leases.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator());
    /// semaphore.acquire().await?.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn acquire(&self) -> Result<Lease> {
        if let Max::Agreed(max) = self.max {
            return self.acquire_beside_kazoo(max).await;
        }
        let first = self.lock.exclusive().await?;
        let place = self.ask().await?;
        let mut limit = self.limit().await?;
        loop {
            let (leases, events, given_back) = self.look().await?;
            if is_granted(&place, &leases, limit.now)? {
                // The next contender continues when this place is deleted. This caller does not
                // wait for the deletion.
                drop(first);
                return Ok(Lease(Held::new(&self.client, place, events)));
            }
            tokio::select! {
                biased;
                change = given_back => drop(change?),
                changed = limit.change() => changed?,
            }
        }
    }

    /// Waits for several leases. It takes one after the other, as other callers do: two callers
    /// that each want more than half of the leases can deadlock.
    ///
    /// # Errors
    /// As for [`Semaphore::acquire`]. Leases that were already acquired are released.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator());
    /// assert_eq!(semaphore.acquire_many(2).await?.len(), 2);
    /// # Ok(()) });
    /// ```
    pub async fn acquire_many(&self, count: usize) -> Result<Vec<Lease>> {
        let mut leases = Vec::new();
        for _ in 0..count {
            leases.push(self.acquire().await?);
        }
        Ok(leases)
    }

    /// A lease if one is free and no other process waits for it; `None` otherwise. Does not wait.
    ///
    /// # Errors
    /// As for [`Semaphore::acquire`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 0, &Acls::creator());
    /// assert!(semaphore.try_acquire().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        if let Max::Agreed(max) = self.max {
            return self.try_acquire_beside_kazoo(max).await;
        }
        let Some(first) = self.lock.try_exclusive().await? else { return Ok(None) };
        let mut place = self.ask().await?;
        let limit = self.limit().await?;
        let (leases, events, _) = self.look().await?;
        let granted = if is_granted(&place, &leases, limit.now)? {
            Some(Lease(Held::new(&self.client, place, events)))
        } else {
            place.leave().await?;
            None
        };
        // Another caller that does not wait must not find this place in line, so wait for its
        // deletion.
        match first.release().await {
            Err(error) if error.is_session_over() => Err(error),
            _ => Ok(granted),
        }
    }

    /// The names of the holders and of the contender that gets the next lease, see
    /// [`Semaphore::named`].
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator()).named("amy");
    /// let _lease = semaphore.acquire().await?;
    /// assert_eq!(semaphore.participants().await?, [b"amy"]);
    /// # Ok(()) });
    /// ```
    pub async fn participants(&self) -> Result<Vec<Vec<u8>>> {
        let read = || async {
            let names = match self.client.get_children(&self.leases).await {
                Ok((names, _)) => names,
                Err(error) if error.kind() == ErrorKind::Gone => Vec::new(),
                Err(error) => return Err(error),
            };
            let paths = names.iter().map(|name| path::join(&self.leases, name));
            let reads: Vec<_> = paths.map(|path| self.client.get_data(&path)).collect();
            let mut found = Vec::new();
            for read in reads {
                match read.await {
                    Ok((data, _)) => found.push(data.to_vec()),
                    Err(error) if error.kind() == ErrorKind::Gone => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(found)
        };
        Ok(Retry::default().reads(read).await?)
    }

    /// kazoo creates a lease's znode only when a lease is free. Only the holder of the lock may do
    /// so.
    async fn acquire_beside_kazoo(&self, max: usize) -> Result<Lease> {
        self.agree(max).await?;
        let first = if faults::grants_without_lock() {
            self.lock.shared().await?
        } else {
            self.lock.exclusive().await?
        };
        loop {
            let (leases, events, given_back) = self.look().await?;
            if leases.len() < max {
                let place = self.take(&first).await?;
                drop(first);
                return Ok(Lease(Held::new(&self.client, place, events)));
            }
            given_back.await?;
        }
    }

    async fn try_acquire_beside_kazoo(&self, max: usize) -> Result<Option<Lease>> {
        self.agree(max).await?;
        let Some(first) = self.lock.try_exclusive().await? else { return Ok(None) };
        let (leases, events, _) = self.look().await?;
        let granted = if leases.len() < max {
            Some(Lease(Held::new(&self.client, self.take(&first).await?, events)))
        } else {
            None
        };
        match first.release().await {
            Err(error) if error.is_session_over() => Err(error),
            _ => Ok(granted),
        }
    }

    async fn take(&self, first: &Held) -> Result<Place> {
        Place::guarded(&self.client, &self.leases, &self.data, &self.acl, first.path()).await
    }

    /// Writes the number of leases into the znode of the semaphore, or compares it with the number
    /// there. Data that are no number belong to the program.
    ///
    /// Source: kazoo's `Semaphore._ensure_path`.
    async fn agree(&self, max: usize) -> Result<()> {
        let (path, data, mode) = (&self.leases, max.to_string(), CreateMode::Persistent);
        let create = || self.client.create(path, &data, mode, &self.acl);
        if create_with_parents(&self.client, path, &self.acl, create).await? {
            return Ok(());
        }
        let (stored, _) = Retry::default().reads(|| self.client.get_data(path)).await?;
        let stored = std::str::from_utf8(&stored).ok().and_then(|text| text.trim().parse().ok());
        match stored {
            Some(stored) if stored != max => {
                Err(Error::Leases { path: path.clone(), stored, asked: max })
            }
            _ => Ok(()),
        }
    }

    async fn ask(&self) -> Result<Place> {
        Place::in_line(&self.client, &self.leases, LEASE, &self.data, &self.acl).await
    }

    /// The leases, the session's events since this read, and a watch on the list of leases.
    async fn look(&self) -> Result<(Vec<String>, SessionEvents, Watch)> {
        let look = || async {
            let events = self.client.session_events();
            let (names, _, watch) = self.client.watch_children(&self.leases).await?;
            Ok((names, events, watch))
        };
        Ok(Retry::default().reads(look).await?)
    }

    async fn limit(&self) -> Result<Limit> {
        match &self.max {
            Max::Fixed(max) | Max::Agreed(max) => Ok(Limit { now: *max, changes: None }),
            Max::Counted(count) => {
                let mut limit = Limit { now: 0, changes: Some(count.changes()) };
                limit.change().await?;
                Ok(limit)
            }
        }
    }
}

/// The number of leases, and its changes.
struct Limit {
    now: usize,
    /// `None` if the number is fixed.
    changes: Option<CountChanges>,
}

impl Limit {
    /// Waits until the number changes. The future may be dropped and called again.
    async fn change(&mut self) -> Result<()> {
        match &mut self.changes {
            // A negative number counts as zero.
            Some(changes) => self.now = usize::try_from(changes.next().await?.value).unwrap_or(0),
            None => std::future::pending().await,
        }
        Ok(())
    }
}

/// Whether the lease in this place is among the first `max` leases.
///
/// Source: `InterProcessSemaphoreV2.internalAcquire1Lease`.
fn is_granted(place: &Place, leases: &[String], max: usize) -> Result<bool> {
    if leases.iter().any(|name| name == place.name()) {
        Ok(leases.len() <= max + usize::from(faults::grants_one_more()))
    } else {
        Err(Error::Deleted(place.path().to_owned()))
    }
}

/// A granted lease. It lasts until it is released, this value is dropped, or the session ends.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator());
/// let mut lease = semaphore.acquire().await?;
/// tokio::select! {
///     () = lease.lost() => panic!("stop"),
///     () = async { /* work */ } => {}
/// }
/// lease.release().await?;
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a lease that is dropped is given back"]
pub struct Lease(Held);

impl Lease {
    /// The token to present to resources outside the ensemble: the zxid of the transaction that
    /// created the lease's znode. Several leases are held at the same time. So a resource must
    /// remember the largest token of each lease's znode, not one token for all leases.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator());
    /// let (one, two) = (semaphore.acquire().await?, semaphore.acquire().await?);
    /// assert!(one.token() < two.token());
    /// # Ok(()) });
    /// ```
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// The path of the lease's znode.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator());
    /// assert!(semaphore.acquire().await?.path().ends_with("-lease-0000000000"));
    /// # Ok(()) });
    /// ```
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Waits until there is news for the holder, as [`Held::news`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, Version};
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator());
    /// let mut lease = semaphore.acquire().await?;
    /// client.delete(lease.path(), Version::ANY).await?;
    /// assert_eq!(lease.news().await, zebu_recipes::News::Lost);
    /// # Ok(()) });
    /// ```
    pub async fn news(&mut self) -> News {
        self.0.news().await
    }

    /// Waits until the lease is lost, as [`Held::lost`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator());
    /// let mut lease = semaphore.acquire().await?;
    /// client.close().await?;
    /// lease.lost().await;
    /// # Ok(()) });
    /// ```
    pub async fn lost(&mut self) {
        self.0.lost().await;
    }

    /// Releases the lease, and returns when it is released.
    ///
    /// # Errors
    /// As for [`Held::release`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let semaphore = zebu_recipes::Semaphore::new(&client, "/s", 2, &Acls::creator());
    /// semaphore.acquire().await?.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn release(self) -> Result<()> {
        self.0.release().await
    }
}
