//! A reentrant lock with Curator's znodes.

use std::sync::{Arc, Weak};

use tokio::sync::Mutex as Turn;
use zebu_client::{Acls, Client, Retry};

use crate::layout::Layout;
use crate::place::Place;
use crate::vigil::Vigil;
use crate::{Contender, Error, Held, Lock, News, Result, Token};

/// An exclusive, reentrant lock, compatible with Curator's `InterProcessMutex` in the same znode.
///
/// In Curator a thread owns a lock. Here this value and its clones are one owner. While a guard of
/// that owner lives, [`Mutex::acquire`] returns another one at once; the lock is released with the
/// last of them. Two values of [`Mutex::new`] are two owners, even within one program.
///
/// A contender's znode is `PATH/_c_ID-lock-NUMBER`, ephemeral; `ID` is a random UUID. The lowest
/// number holds the lock.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Mutex;
///
/// let mutex = Mutex::new(&client, "/printer", &Acls::creator());
/// let outer = mutex.acquire().await?;
/// let inner = mutex.clone().acquire().await?;
/// assert_eq!(inner.token(), outer.token());
/// let other = Mutex::new(&client, "/printer", &Acls::creator());
/// assert!(other.try_acquire().await?.is_none());
/// inner.release().await?;
/// outer.release().await?;
/// assert!(other.try_acquire().await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    client: Client,
    lock: Lock,
    owned: Arc<Turn<Weak<Place>>>,
}

impl Mutex {
    /// The lock below this znode. If the znode is missing, it is created with this ACL. The znodes
    /// of the line have the same ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &zebu_client::Acls::creator());
    /// # drop(mutex);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        let lock = Lock::in_layout(client, path, acl, Layout::Mutex);
        Self { client: client.clone(), lock, owned: Arc::default() }
    }

    /// Sets the data of the znode in the line, to identify the requester. The result is a new
    /// owner.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator()).named("host 7");
    /// let _guard = mutex.acquire().await?;
    /// assert_eq!(mutex.participants().await?[0].data, b"host 7");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn named(self, data: impl AsRef<[u8]>) -> Self {
        Self { lock: self.lock.named(data), owned: Arc::default(), ..self }
    }

    /// Waits until this owner holds the lock.
    ///
    /// Dropping the future gives up the place in line, so the caller can apply a time limit.
    ///
    /// # Errors
    /// As for [`Lock::exclusive`]. [`Error::Deleted`] also if this owner has guards, and another
    /// client has deleted the holder's znode: those guards have lost the lock.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// use std::time::Duration;
    ///
    /// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator());
    /// let guard = tokio::time::timeout(Duration::from_secs(5), mutex.acquire()).await??;
    /// guard.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn acquire(&self) -> Result<Guard> {
        let mut owned = self.owned.lock().await;
        if let Some(guard) = reenter(&self.client, &owned).await? {
            return Ok(guard);
        }
        let guard = Guard::of(self.lock.exclusive().await?);
        *owned = Arc::downgrade(&guard.place);
        Ok(guard)
    }

    /// The lock, if no other owner is in line; does not wait.
    ///
    /// # Errors
    /// As for [`Mutex::acquire`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator());
    /// assert!(mutex.try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        let Ok(mut owned) = self.owned.try_lock() else { return Ok(None) };
        if let Some(guard) = reenter(&self.client, &owned).await? {
            return Ok(Some(guard));
        }
        let Some(held) = self.lock.try_exclusive().await? else { return Ok(None) };
        let guard = Guard::of(held);
        *owned = Arc::downgrade(&guard.place);
        Ok(Some(guard))
    }

    /// All places in line, the holder first.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator());
    /// let guard = mutex.acquire().await?;
    /// assert_eq!(mutex.participants().await?[0].token, guard.token());
    /// # Ok(()) });
    /// ```
    pub async fn participants(&self) -> Result<Vec<Contender>> {
        self.lock.line().await
    }

    /// Asks the holder to release the lock. A holder that uses Curator understands this as a
    /// revocation. The holder receives [`News::Wanted`], and decides. Returns the number of holders
    /// asked.
    ///
    /// # Errors
    /// The errors of reading and writing.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// use zebu_recipes::{Mutex, News};
    ///
    /// let mutex = Mutex::new(&client, "/lock", &Acls::creator());
    /// let mut guard = mutex.acquire().await?;
    /// assert_eq!(mutex.revoke().await?, 1);
    /// assert_eq!(guard.news().await, News::Wanted);
    /// # Ok(()) });
    /// ```
    pub async fn revoke(&self) -> Result<usize> {
        self.lock.ask_back().await
    }
}

/// Another guard for an owner that holds the lock; `None` if the owner does not hold it.
///
/// # Errors
/// [`Error::Deleted`] if the znode of the owner is gone, and the errors of reading.
pub(crate) async fn reenter(client: &Client, owned: &Weak<Place>) -> Result<Option<Guard>> {
    let Some(place) = owned.upgrade() else { return Ok(None) };
    let look = || async {
        let events = client.session_events();
        Ok((client.exists(place.path()).await?, events))
    };
    let (stat, events) = Retry::default().reads(look).await?;
    if stat.is_none_or(|stat| stat.czxid != place.created()) {
        return Err(Error::Deleted(place.path().to_owned()));
    }
    let vigil = Vigil::new(client, place.path(), events);
    Ok(Some(Guard { place, vigil }))
}

/// A guard of a lock's owner. The lock is released when all of its guards are released or dropped.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator());
/// let mut guard = mutex.acquire().await?;
/// tokio::select! {
///     () = guard.lost() => panic!("stop"),
///     () = async { /* work */ } => {}
/// }
/// guard.release().await?;
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a lock whose guards are dropped is released"]
pub struct Guard {
    place: Arc<Place>,
    vigil: Vigil,
}

impl Guard {
    pub(crate) fn of(held: Held) -> Self {
        let (place, vigil) = held.into_parts();
        Self { place: Arc::new(place), vigil }
    }

    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// The token for resources that the lock protects. All guards of an owner that are held
    /// together have the same token.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let guard = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator()).acquire().await?;
    /// println!("write {} only if no larger token was seen", guard.token());
    /// # Ok(()) });
    /// ```
    pub fn token(&self) -> Token {
        Token(self.place.created())
    }

    /// The holder's znode.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let guard = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator()).acquire().await?;
    /// assert!(guard.path().ends_with("-lock-0000000000"));
    /// # Ok(()) });
    /// ```
    pub fn path(&self) -> &str {
        self.place.path()
    }

    /// Waits until there is news for the holder, as [`Held::news`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, Version};
    /// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator());
    /// let mut guard = mutex.acquire().await?;
    /// client.delete(guard.path(), Version::ANY).await?;
    /// assert_eq!(guard.news().await, zebu_recipes::News::Lost);
    /// # Ok(()) });
    /// ```
    pub async fn news(&mut self) -> News {
        self.vigil.news().await
    }

    /// Waits until the lock is lost, as for [`Held::lost`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator());
    /// let mut guard = mutex.acquire().await?;
    /// client.close().await?;
    /// guard.lost().await;
    /// # Ok(()) });
    /// ```
    pub async fn lost(&mut self) {
        self.vigil.lost().await;
    }

    /// Releases this guard, and with the last guard the lock. Returns when that is done.
    ///
    /// # Errors
    /// As for [`Held::release`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let mutex = zebu_recipes::Mutex::new(&client, "/lock", &Acls::creator());
    /// mutex.acquire().await?.release().await?;
    /// assert_eq!(mutex.participants().await?, []);
    /// # Ok(()) });
    /// ```
    pub async fn release(self) -> Result<()> {
        let Some(mut place) = Arc::into_inner(self.place) else { return Ok(()) };
        if place.leave().await? { Ok(()) } else { Err(Error::Deleted(place.path().to_owned())) }
    }
}
