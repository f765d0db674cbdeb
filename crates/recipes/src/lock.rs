//! Locks, exclusive and shared, in the order in which they are asked for.

use std::fmt;

use tokio::time::Duration;
use zebu_client::{
    Acls, Client, ErrorKind, Retry, SessionEvents, SessionState, Version, Watch, Zxid,
};

use crate::line::{self, Kind, Turn};
use crate::place::{Place, is_passing};
use crate::{Error, Result, path};

/// The data of a holder's znode once somebody has asked for the lock.
const WANTED: &[u8] = b"unlock";

/// Grows with every new holder: shown with each request to whatever lies outside of the ensemble, it lets that
/// side refuse those who held the lock earlier and have not noticed yet that they lost it.
///
/// It is the transaction that created the holder's znode. Whoever checks it has to remember the largest one
/// it saw, and refuse smaller ones.
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

/// A lock, held by one or shared by several, granted in the order of asking.
///
/// Who asks for it creates a sequential znode below the lock's and waits until nobody who is in the way stands
/// before it, watching only the last of those. With the session the znode goes, and with it the place in line.
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
}

/// Somebody in the line of a [`Lock`].
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
    /// What it said when it asked, see [`Lock::named`].
    pub data: Vec<u8>,
    /// Whether it shares the lock.
    pub is_shared: bool,
    /// The token it has once it is its turn.
    pub token: Token,
}

impl Lock {
    /// The lock below this znode, which is created with this ACL when it is missing, as are those of the line.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let lock = zebu_recipes::Lock::new(&client, "/lock", &zebu_client::Acls::creator());
    /// # drop(lock);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { client: client.clone(), path: path.to_owned(), acl: acl.clone(), data: Vec::new() }
    }

    /// Says who asks: the data of the znode in the line.
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

    /// Waits until the lock is held by nobody else.
    ///
    /// Dropping the future gives up the place in line.
    ///
    /// # Errors
    /// Those of [`Client::create_protected`]; [`Error::Deleted`] when somebody removed the place in line. After
    /// [`ErrorKind::Unknown`] the place may still stand in line, until the session ends.
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

    /// Waits until nobody who asked earlier wants the lock alone.
    ///
    /// # Errors
    /// As [`Lock::exclusive`].
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

    /// The lock, if nobody stands in line; does not wait.
    ///
    /// # Errors
    /// As [`Lock::exclusive`].
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

    /// A share of the lock, if nobody in line wants it alone; does not wait.
    ///
    /// # Errors
    /// As [`Lock::exclusive`].
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

    /// Everybody in line, in order. Who leaves while this looks is left out.
    ///
    /// # Errors
    /// Those of reading.
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
        let reads: Vec<_> = line::in_order(&names)
            .into_iter()
            .map(|name| {
                let path = path::join(&self.path, name);
                (line::kind(name), self.client.get_data(&path), path)
            })
            .collect();
        let mut found = Vec::with_capacity(reads.len());
        for (kind, read, path) in reads {
            match read.await {
                Ok((data, stat)) => found.push(Contender {
                    path,
                    data: data.to_vec(),
                    is_shared: kind == Kind::Shared,
                    token: Token(stat.czxid),
                }),
                Err(error) if error.kind() == ErrorKind::Gone => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Asks everybody who holds the lock to give it back: they hear [`News::Wanted`]. Returns how many there
    /// are. What they do about it is theirs to decide.
    ///
    /// # Errors
    /// Those of [`Lock::line`] and of writing.
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
            let ask = || self.client.set_data(&holder.path, WANTED, Version::ANY);
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
            let (turn, events) = self.look(&place).await?;
            let Some(before) = turn else { return Ok(Held::new(&self.client, place, events)) };
            let path = path::join(&self.path, &before);
            let watch = Retry::default().reads(|| self.client.watch_exists(&path)).await?;
            if let (Some(_), change) = watch {
                change.await?;
            }
        }
    }

    async fn attempt(&self, kind: Kind) -> Result<Option<Held>> {
        let place = self.take_place(kind).await?;
        let (turn, events) = self.look(&place).await?;
        if turn.is_some() {
            place.leave().await;
            return Ok(None);
        }
        Ok(Some(Held::new(&self.client, place, events)))
    }

    async fn take_place(&self, kind: Kind) -> Result<Place> {
        Place::in_line(&self.client, &self.path, kind.prefix(), &self.data, &self.acl).await
    }

    /// Whom to wait for, and what happens to the session from this look on.
    async fn look(&self, place: &Place) -> Result<(Option<String>, SessionEvents)> {
        let look = || async {
            let events = self.client.session_events();
            let (names, _) = self.client.get_children(&self.path).await?;
            Ok((names, events))
        };
        let (names, events) = Retry::default().reads(look).await?;
        match line::turn(&names, place.name()) {
            Turn::Now => Ok((None, events)),
            Turn::After(name) => Ok((Some(name.to_owned()), events)),
            Turn::Missing => Err(Error::Deleted(place.path().to_owned())),
        }
    }
}

/// What a holder should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// The connection is lost: others may hold the lock by now. Stop what it protects until there is other
    /// news.
    Suspended,
    /// There is a connection again, and the lock was held all the time.
    Resumed,
    /// Somebody asks for it, see [`Lock::ask_back`].
    Wanted,
    /// It is not held any more: the session is over, or somebody deleted the holder's znode.
    Lost,
}

/// A lock that is held, until this is released or dropped, or the session ends.
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
    client: Client,
    place: Place,
    events: SessionEvents,
    /// On the holder's own znode.
    watch: Option<Watch>,
    is_suspended: bool,
    /// Somebody asks for it; `None` once the holder was told.
    is_wanted: Option<bool>,
}

impl Held {
    fn new(client: &Client, place: Place, events: SessionEvents) -> Self {
        let client = client.clone();
        Self { client, place, events, watch: None, is_suspended: false, is_wanted: Some(false) }
    }

    /// What to show to those outside of the ensemble whom the lock protects.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let held = zebu_recipes::Lock::new(&client, "/lock", &Acls::creator()).exclusive().await?;
    /// println!("write {} only if nobody came with a larger number", held.token());
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

    /// Waits until there is something that a holder should know.
    ///
    /// It may be dropped, and called again. After [`News::Lost`] there is no other news.
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
        loop {
            if let Some(news) = self.look().await {
                return news;
            }
            if !self.is_suspended && self.is_wanted == Some(true) {
                self.is_wanted = None;
                return News::Wanted;
            }
            let change = async {
                match &mut self.watch {
                    Some(watch) => drop(watch.await),
                    // The session's state is about to change, or the server was too busy.
                    None => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            };
            tokio::select! {
                biased;
                state = self.events.next() => match state {
                    Some(SessionState::Disconnected) if !self.is_suspended => {
                        self.is_suspended = true;
                        self.watch = None;
                        return News::Suspended;
                    }
                    Some(state) if !state.is_over() => {}
                    _ => return News::Lost,
                },
                () = change => self.watch = None,
            }
        }
    }

    /// Reads the holder's znode, and watches it, unless that is done already.
    async fn look(&mut self) -> Option<News> {
        if self.watch.is_some() || self.client.state() != SessionState::Connected {
            return None;
        }
        match self.client.watch_data(self.place.path()).await {
            Ok((data, _, watch)) => {
                self.watch = Some(watch);
                self.is_wanted = self.is_wanted.map(|_| data == WANTED);
                std::mem::take(&mut self.is_suspended).then_some(News::Resumed)
            }
            Err(error) if is_passing(&error) => None,
            Err(_) => Some(News::Lost),
        }
    }

    /// Gives the lock back, and returns when that is done.
    ///
    /// # Errors
    /// [`Error::Deleted`] when it was not held any more.
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
    pub async fn release(self) -> Result<()> {
        let path = self.place.path().to_owned();
        if self.place.leave().await { Ok(()) } else { Err(Error::Deleted(path)) }
    }
}
