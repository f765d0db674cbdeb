//! A reentrant lock for readers and writers with Curator's znodes.

use std::sync::{Arc, Weak};

use tokio::sync::Mutex as Turn;
use zebu_client::{Acls, Client, CreateMode};

use crate::layout::Layout;
use crate::line::Kind;
use crate::mutex::reenter;
use crate::place::Place;
use crate::{Contender, Error, Guard, Held, Lock, Result};

/// A reentrant lock for many readers or one writer, compatible with Curator's
/// `InterProcessReadWriteLock` in the same znode.
///
/// This value and its clones are one owner, as for [`Mutex`](crate::Mutex). An owner that holds the
/// write lock may also read, and continues to read when it has released the write lock. An owner
/// that only reads cannot acquire the write lock: two such owners would wait for each other
/// forever, so this is an error.
///
/// A contender's znode is `PATH/_c_ID-__READ__NUMBER` or `PATH/_c_ID-__WRIT__NUMBER`, ephemeral.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::ReadWriteLock;
///
/// let (acl, path) = (Acls::creator(), "/accounts");
/// let [one, two] = [(), ()].map(|()| ReadWriteLock::new(&client, path, &acl));
/// let writing = one.write().await?;
/// assert!(two.try_read().await?.is_none());
/// let reading = one.read().await?;
/// writing.release().await?;
/// assert!(two.try_read().await?.is_some() && two.try_write().await?.is_none());
/// reading.release().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    client: Client,
    path: String,
    acl: Acls,
    data: Vec<u8>,
    owned: Arc<Turn<Owned>>,
}

/// The guards that an owner holds.
#[derive(Debug, Default)]
struct Owned {
    reading: Weak<Place>,
    writing: Weak<Place>,
}

impl ReadWriteLock {
    /// The lock below this znode. The znode is created with this ACL if it is missing. The znodes
    /// of the line have the same ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let lock = zebu_recipes::ReadWriteLock::new(&client, "/lock", &zebu_client::Acls::creator());
    /// # drop(lock);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), acl, data: Vec::new(), owned: Arc::default() }
    }

    /// Makes a new owner whose znodes in the line have these data, which name it to other
    /// participants.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::ReadWriteLock::new(&client, "/lock", &Acls::creator()).named("me");
    /// let _reading = lock.read().await?;
    /// assert_eq!(lock.participants().await?[0].data, b"me");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn named(self, data: impl AsRef<[u8]>) -> Self {
        Self { data: data.as_ref().to_vec(), owned: Arc::default(), ..self }
    }

    /// Waits until no other owner that came earlier holds the write lock or waits for it.
    ///
    /// Dropping the future gives up the place in line.
    ///
    /// # Errors
    /// As for [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::ReadWriteLock::new(&client, "/lock", &Acls::creator());
    /// lock.read().await?.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn read(&self) -> Result<Guard> {
        let mut owned = self.owned.lock().await;
        let guard = match self.read_again(&owned).await? {
            Some(guard) => guard,
            None => Guard::of(self.line().shared().await?),
        };
        owned.reading = Arc::downgrade(guard.place());
        Ok(guard)
    }

    /// As [`ReadWriteLock::read`], but returns `None` instead of waiting.
    ///
    /// # Errors
    /// As for [`ReadWriteLock::read`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::ReadWriteLock::new(&client, "/lock", &Acls::creator());
    /// assert!(lock.try_read().await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn try_read(&self) -> Result<Option<Guard>> {
        let Ok(mut owned) = self.owned.try_lock() else { return Ok(None) };
        let guard = match self.read_again(&owned).await? {
            Some(guard) => Some(guard),
            None => self.line().try_shared().await?.map(Guard::of),
        };
        if let Some(guard) = &guard {
            owned.reading = Arc::downgrade(guard.place());
        }
        Ok(guard)
    }

    /// Waits until no other owner that came earlier holds either lock or waits for one.
    ///
    /// Dropping the future gives up the place in line.
    ///
    /// # Errors
    /// As for [`Mutex::acquire`](crate::Mutex::acquire). [`Error::Upgrade`] while this owner holds
    /// a read lock but no write lock.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// use zebu_recipes::{Error, ReadWriteLock};
    ///
    /// let lock = ReadWriteLock::new(&client, "/lock", &Acls::creator());
    /// let reading = lock.read().await?;
    /// assert_eq!(lock.write().await.unwrap_err(), Error::Upgrade("/lock".to_owned()));
    /// reading.release().await?;
    /// let _writing = lock.write().await?;
    /// # Ok(()) });
    /// ```
    pub async fn write(&self) -> Result<Guard> {
        let mut owned = self.owned.lock().await;
        let guard = match self.write_again(&owned).await? {
            Some(guard) => guard,
            None => Guard::of(self.line().exclusive().await?),
        };
        owned.writing = Arc::downgrade(guard.place());
        Ok(guard)
    }

    /// As [`ReadWriteLock::write`], but returns `None` instead of waiting.
    ///
    /// # Errors
    /// As for [`ReadWriteLock::write`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::ReadWriteLock::new(&client, "/lock", &Acls::creator());
    /// assert!(lock.try_write().await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn try_write(&self) -> Result<Option<Guard>> {
        let Ok(mut owned) = self.owned.try_lock() else { return Ok(None) };
        let guard = match self.write_again(&owned).await? {
            Some(guard) => Some(guard),
            None => self.line().try_exclusive().await?.map(Guard::of),
        };
        if let Some(guard) = &guard {
            owned.writing = Arc::downgrade(guard.place());
        }
        Ok(guard)
    }

    /// All contenders in line, in order.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::ReadWriteLock::new(&client, "/lock", &Acls::creator());
    /// let _reading = lock.read().await?;
    /// assert!(lock.participants().await?[0].is_shared);
    /// # Ok(()) });
    /// ```
    pub async fn participants(&self) -> Result<Vec<Contender>> {
        self.line().line().await
    }

    /// Asks the holders of the lock to release it, as [`Mutex::revoke`](crate::Mutex::revoke).
    ///
    /// # Errors
    /// The errors of reading and writing.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::ReadWriteLock::new(&client, "/lock", &Acls::creator());
    /// let mut reading = lock.read().await?;
    /// assert_eq!(lock.revoke().await?, 1);
    /// assert_eq!(reading.news().await, zebu_recipes::News::Wanted);
    /// # Ok(()) });
    /// ```
    pub async fn revoke(&self) -> Result<usize> {
        self.line().ask_back().await
    }

    fn line(&self) -> Lock {
        Lock::in_layout(&self.client, &self.path, &self.acl, Layout::ReadWrite).named(&self.data)
    }

    /// A read guard for an owner that already holds a lock, without waiting.
    async fn read_again(&self, owned: &Owned) -> Result<Option<Guard>> {
        if let Some(guard) = reenter(&self.client, &owned.reading).await? {
            return Ok(Some(guard));
        }
        let Some(writing) = reenter(&self.client, &owned.writing).await? else { return Ok(None) };
        // The reader gets the writer's sequence number, so it is before all contenders that came
        // later. Source: `InterProcessReadWriteLock.ReadLock`, `getSortingSequence`.
        let (_, number) = writing
            .path()
            .rsplit_once(Layout::ReadWrite.prefix(Kind::Exclusive))
            .ok_or_else(|| Error::Foreign(writing.path().to_owned()))?;
        let prefix = format!("{}{number}", Layout::ReadWrite.prefix(Kind::Shared));
        let events = self.client.session_events();
        let (mode, data) = (CreateMode::Ephemeral, &self.data);
        let place =
            Place::protected(&self.client, &self.path, &prefix, mode, data, &self.acl).await?;
        // The owner may have lost the write lock while this place was created, so check once more.
        if reenter(&self.client, &owned.writing).await?.is_none() {
            return Err(Error::Deleted(writing.path().to_owned()));
        }
        Ok(Some(Guard::of(Held::new(&self.client, place, events))))
    }

    /// A write guard for an owner that already holds the write lock.
    async fn write_again(&self, owned: &Owned) -> Result<Option<Guard>> {
        let guard = reenter(&self.client, &owned.writing).await?;
        if guard.is_none() && owned.reading.strong_count() > 0 {
            return Err(Error::Upgrade(self.path.clone()));
        }
        Ok(guard)
    }
}
