//! Exclusive and shared locks, granted in the order of the requests.

use std::fmt;

use tokio::time::Duration;
use zebu_client::{Acls, Client, ErrorKind, Retry, SessionEvents, Version, Zxid};

use crate::layout::Layout;
use crate::line::{self, Kind, Turn};
use crate::place::Place;
use crate::vigil::{News, Vigil};
use crate::{Error, Result, faults, path};

/// The patience of a contender that can do nothing about a line that does not move.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// A fencing token: grows with every new holder. Present it with each request to a resource outside
/// the ensemble. The resource can then refuse earlier holders that have not noticed yet that they
/// lost the lock.
///
/// It is the transaction that created the holder's znode. The resource must remember the largest
/// token it has seen, and refuse smaller ones.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Lock;
///
/// let lock = Lock::new(&client, "/lock", &Acls::creator());
/// let held = lock.exclusive().await?;
/// let first = held.token();
/// held.release().await?;
/// let second = lock.exclusive().await?.token();
/// assert!(first < second);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub Zxid);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A lock, exclusive or shared, granted in the order of the requests.
///
/// A request creates a sequential znode below the lock's znode. It waits until no blocking request
/// is before it, and watches only the last of these. When the session ends, the znode is deleted,
/// and with it the place in line.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Lock;
///
/// let lock = Lock::new(&client, "/accounts", &Acls::creator());
/// let (one, two) = (lock.shared().await?, lock.shared().await?);
/// assert!(lock.try_exclusive().await?.is_none());
/// one.release().await?;
/// two.release().await?;
/// assert!(lock.try_exclusive().await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    client: Client,
    path: String,
    acl: Acls,
    data: Vec<u8>,
    layout: Layout,
}

/// A place in the line of a [`Lock`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Lock;
///
/// let lock = Lock::new(&client, "/lock", &Acls::creator()).named("amy");
/// let held = lock.exclusive().await?;
/// let line = lock.line().await?;
/// assert_eq!((line[0].data.as_slice(), line[0].token), (&b"amy"[..], held.token()));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// Its znode.
    pub path: String,
    /// The data given with the request, see [`Lock::named`].
    pub data: Vec<u8>,
    /// Whether it is shared.
    pub is_shared: bool,
    /// The token of the holder, once the lock is granted.
    pub token: Token,
}

impl Lock {
    /// The lock below this znode. If the znode is missing, it is created with this ACL. The znodes
    /// of the line have the same ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &zebu_client::Acls::creator());
    /// # drop(lock);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self::in_layout(client, path, acl, Layout::Own)
    }

    /// The lock below this znode, together with programs that use `Lock`, `ReadLock` and
    /// `WriteLock` of the Python package kazoo with the same path. An exclusive lock is kazoo's
    /// `WriteLock`: it also waits for readers, which kazoo's `Lock` does not.
    ///
    /// The znode of a requester is `PATH/_c_ID-__lock__NUMBER`, or `PATH/_c_ID-__rlock__NUMBER` for
    /// the shared lock.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let lock = zebu_recipes::Lock::of_kazoo(&client, "/lock", &zebu_client::Acls::creator());
    /// let held = lock.exclusive().await?;
    /// assert!(held.path().ends_with("__lock__0000000000"));
    /// # Ok(()) });
    /// ```
    pub fn of_kazoo(client: &Client, path: &str, acl: &Acls) -> Self {
        Self::in_layout(client, path, acl, Layout::Kazoo)
    }

    pub(crate) fn in_layout(client: &Client, path: &str, acl: &Acls, layout: Layout) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), acl, data: Vec::new(), layout }
    }

    /// Sets the data of the znode in the line, to identify the requester.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator()).named("host 7");
    /// # drop(lock);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn named(mut self, data: impl AsRef<[u8]>) -> Self {
        self.data = data.as_ref().to_vec();
        self
    }

    /// Waits for the exclusive lock.
    ///
    /// Dropping the future gives up the place in line.
    ///
    /// # Errors
    /// The errors of [`Client::create_protected`]; [`Error::Deleted`] if another client removed the
    /// place in line; [`Error::Foreign`] if a lock of another library, such as kazoo's or
    /// Curator's, uses the same znode: those do not wait for this one. After [`ErrorKind::Unknown`]
    /// the place may stay in line until the session ends.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator());
    /// let held = lock.exclusive().await?;
    /// held.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn exclusive(&self) -> Result<Held> {
        self.wait(Kind::Exclusive).await
    }

    /// Waits until no earlier request for the exclusive lock remains.
    ///
    /// # Errors
    /// As for [`Lock::exclusive`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator());
    /// let (_one, _two) = (lock.shared().await?, lock.shared().await?);
    /// # Ok(()) });
    /// ```
    pub async fn shared(&self) -> Result<Held> {
        self.wait(Kind::Shared).await
    }

    /// The exclusive lock if the line is empty; does not wait.
    ///
    /// # Errors
    /// As for [`Lock::exclusive`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator());
    /// let _held = lock.try_exclusive().await?.expect("it is free");
    /// assert!(lock.try_exclusive().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub async fn try_exclusive(&self) -> Result<Option<Held>> {
        self.attempt(Kind::Exclusive).await
    }

    /// The shared lock if the line has no exclusive request; does not wait.
    ///
    /// # Errors
    /// As for [`Lock::exclusive`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator());
    /// let _held = lock.exclusive().await?;
    /// assert!(lock.try_shared().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub async fn try_shared(&self) -> Result<Option<Held>> {
        self.attempt(Kind::Shared).await
    }

    /// All places in line, in order. Those that leave during the call are left out.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator());
    /// let _held = lock.shared().await?;
    /// assert!(lock.line().await?[0].is_shared);
    /// # Ok(()) });
    /// ```
    pub async fn line(&self) -> Result<Vec<Contender>> {
        Ok(Retry::default().reads(|| self.read_line()).await?)
    }

    async fn read_line(&self) -> zebu_client::Result<Vec<Contender>> {
        let names = match self.client.get_children(&self.path).await {
            Ok((names, _)) => names,
            Err(error) if error.kind() == ErrorKind::Gone => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let reads: Vec<_> = line::in_order(self.layout, &names)
            .into_iter()
            .map(|name| {
                let path = path::join(&self.path, name);
                (self.layout.seat(name), self.client.get_data(&path), path)
            })
            .collect();
        let mut found = Vec::with_capacity(reads.len());
        for (seat, read, path) in reads {
            match read.await {
                Ok((data, stat)) => found.push(Contender {
                    path,
                    data: data.to_vec(),
                    is_shared: seat.is_some_and(|seat| seat.kind == Kind::Shared),
                    token: Token(stat.czxid),
                }),
                Err(error) if error.kind() == ErrorKind::Gone => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Asks all holders to release the lock: they receive [`News::Wanted`], and decide themselves.
    /// Returns the number of holders.
    ///
    /// # Errors
    /// The errors of [`Lock::line`] and of writing.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// use zebu_recipes::{Lock, News};
    ///
    /// let lock = Lock::new(&client, "/lock", &Acls::creator());
    /// let mut held = lock.exclusive().await?;
    /// assert_eq!(lock.ask_back().await?, 1);
    /// assert_eq!(held.news().await, News::Wanted);
    /// # Ok(()) });
    /// ```
    pub async fn ask_back(&self) -> Result<usize> {
        let line = self.line().await?;
        let shared = line.iter().take_while(|contender| contender.is_shared).count();
        let holders = &line[..shared.max(usize::from(!line.is_empty()))];
        let mut asked = 0;
        for holder in holders {
            // Unless the layout defines a message, the znode keeps its data, which identify the
            // holder.
            let data = self.layout.request().unwrap_or(&holder.data);
            let ask = || self.client.set_data(&holder.path, data, Version::ANY);
            match Retry::default().reads(ask).await {
                Ok(_) => asked += 1,
                Err(error) if error.kind() == ErrorKind::Gone => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(asked)
    }

    async fn wait(&self, kind: Kind) -> Result<Held> {
        let place = self.take_place(kind).await?;
        loop {
            if let Waited::Held(events) = self.wait_at(&place, FOR_EVER).await? {
                return Ok(Held::new(&self.client, place, events));
            }
        }
    }

    /// Waits until it is a place's turn, or the line has not moved for `patience`.
    pub(crate) async fn wait_at(&self, place: &Place, patience: Duration) -> Result<Waited> {
        loop {
            let Look { before, first, events } = self.look(place).await?;
            let Some(before) = before else { return Ok(Waited::Held(events)) };
            let path = path::join(&self.path, &before);
            let watch = Retry::default().reads(|| self.client.watch_exists(&path)).await?;
            if let (Some(_), mut change) = watch {
                match tokio::time::timeout(patience, &mut change).await {
                    Ok(_) if faults::believes_its_predecessor() => {
                        return Ok(Waited::Held(events));
                    }
                    Ok(change) => drop(change?),
                    Err(_) => return Ok(Waited::Still(first)),
                }
            }
        }
    }

    async fn attempt(&self, kind: Kind) -> Result<Option<Held>> {
        let mut place = self.take_place(kind).await?;
        let Look { before, events, .. } = self.look(&place).await?;
        if before.is_some() {
            place.leave().await?;
            return Ok(None);
        }
        Ok(Some(Held::new(&self.client, place, events)))
    }

    pub(crate) async fn take_place(&self, kind: Kind) -> Result<Place> {
        Place::in_line(&self.client, &self.path, self.layout.prefix(kind), &self.data, &self.acl)
            .await
    }

    /// Reads the line.
    ///
    /// # Errors
    /// Also [`Error::Foreign`] if another library has a lock in this znode, because its contenders
    /// would not wait for this one.
    async fn look(&self, place: &Place) -> Result<Look> {
        let look = || async {
            let events = self.client.session_events();
            let (names, _) = self.client.get_children(&self.path).await?;
            Ok((names, events))
        };
        let (names, events) = Retry::default().reads(look).await?;
        if let Some(name) = self.layout.foreign(&names) {
            return Err(Error::Foreign(path::join(&self.path, name)));
        }
        let before = match line::turn(self.layout, &names, place.name()) {
            Turn::Now => None,
            Turn::After(name) => Some(name.to_owned()),
            Turn::Missing => return Err(Error::Deleted(place.path().to_owned())),
        };
        let first =
            line::in_order(self.layout, &names).first().copied().unwrap_or_default().to_owned();
        Ok(Look { before, first, events })
    }
}

/// The result of waiting.
pub(crate) enum Waited {
    /// It is the place's turn. With the session's events since then.
    Held(SessionEvents),
    /// The line has not moved. With its first place.
    Still(String),
}

/// The line as seen from a place in it.
struct Look {
    /// The predecessor to wait for.
    before: Option<String>,
    /// The first place in line.
    first: String,
    /// The session's events from this look on.
    events: SessionEvents,
}

/// A held lock, until it is released or dropped, or the session ends.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, Version};
/// use zebu_recipes::{Lock, News};
///
/// let mut held = Lock::new(&client, "/lock", &Acls::creator()).exclusive().await?;
/// tokio::select! {
///     news = held.news() => assert_ne!(news, News::Lost), // stop working
///     () = async { /* work */ } => {}
/// }
/// held.release().await?;
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a lock that is dropped is released"]
pub struct Held {
    place: Place,
    vigil: Vigil,
}

impl Held {
    /// `events`: the session's events since before the lock was granted.
    pub(crate) fn new(client: &Client, place: Place, events: SessionEvents) -> Self {
        let vigil = Vigil::new(client, place.path(), events);
        Self { place, vigil }
    }

    pub(crate) fn into_parts(self) -> (Place, Vigil) {
        (self.place, self.vigil)
    }

    /// The token for resources that the lock protects.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let held = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator()).exclusive().await?;
    /// println!("write {} only if no larger token was seen", held.token());
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
    /// let held = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator()).exclusive().await?;
    /// assert!(held.path().starts_with("/lock/_c_"));
    /// # Ok(()) });
    /// ```
    pub fn path(&self) -> &str {
        self.place.path()
    }

    /// Waits until there is news for the holder.
    ///
    /// The future may be dropped and called again. After [`News::Lost`] there is no other news.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, Version};
    /// use zebu_recipes::{Lock, News};
    ///
    /// let mut held = Lock::new(&client, "/lock", &Acls::creator()).exclusive().await?;
    /// client.delete(held.path(), Version::ANY).await?;
    /// assert_eq!(held.news().await, News::Lost);
    /// # Ok(()) });
    /// ```
    pub async fn news(&mut self) -> News {
        self.vigil.news().await
    }

    /// Waits until the lock is lost: the session has ended, or another client deleted the holder's
    /// znode.
    ///
    /// Without a connection this cannot be known. To stop as soon as the connection is lost, use
    /// [`Held::news`]. The [`Token`] protects resources outside the ensemble. The future may be
    /// dropped and called again.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator());
    /// let mut held = lock.exclusive().await?;
    /// let token = held.token();
    /// tokio::select! {
    ///     () = held.lost() => panic!("stop"),
    ///     () = async { println!("write with {token}") } => {}
    /// }
    /// held.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn lost(&mut self) {
        self.vigil.lost().await;
    }

    /// Releases the lock, and returns when it is released.
    ///
    /// # Errors
    /// [`Error::Deleted`] if another client has deleted the holder's znode. The errors of the
    /// request, if repeated attempts failed: the lock is then released in the background as soon as
    /// a server can be reached, or when the session ends. [`Error::is_session_over`] tells whether
    /// the session has ended.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator());
    /// lock.exclusive().await?.release().await?;
    /// assert_eq!(lock.line().await?, []);
    /// # Ok(()) });
    /// ```
    pub async fn release(mut self) -> Result<()> {
        if self.place.leave().await? {
            Ok(())
        } else {
            Err(Error::Deleted(self.place.path().to_owned()))
        }
    }
}
