//! Exclusive and shared locks, granted in the order of the requests.

use std::fmt;

use tokio::time::Duration;
use zebu_client::{Acls, Client, ErrorKind, Retry, SessionEvents, Version, Zxid};

use crate::layout::Layout;
use crate::line::{self, Kind, Turn};
use crate::place::Place;
use crate::vigil::{News, Vigil};
use crate::{Error, Result, path};

/// There is nothing that could be done while the line does not move.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// Grows with every new holder: shown with each request to whatever lies outside of the ensemble,
/// it lets that side refuse those who held the lock earlier and have not noticed yet that they lost
/// it.
///
/// It is the transaction that created the holder's znode. Whoever checks it has to remember the
/// largest one it saw, and refuse smaller ones.
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
/// Who asks for it creates a sequential znode below the lock's and waits until nobody who is in the
/// way stands before it, watching only the last of those. With the session the znode goes, and with
/// it the place in line.
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
    /// The lock below this znode, which is created with this ACL when it is missing, as are those
    /// of the line.
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

    pub(crate) fn in_layout(client: &Client, path: &str, acl: &Acls, layout: Layout) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), acl, data: Vec::new(), layout }
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
    /// Those of [`Client::create_protected`]; [`Error::Deleted`] when somebody removed the place in
    /// line; [`Error::Foreign`] when a lock of another library, such as kazoo's or Curator's,
    /// stands in the same znode: those do not wait for this one. After [`ErrorKind::Unknown`] the
    /// place may still stand in line, until the session ends.
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

    /// Asks everybody who holds the lock to give it back: they hear [`News::Wanted`]. Returns how
    /// many there are. What they do about it is theirs to decide.
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
            // Unless the layout has a word for it, the znode goes on to say who holds the lock.
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

    /// Waits until it is a place's turn, or the line has not moved for so long.
    pub(crate) async fn wait_at(&self, place: &Place, patience: Duration) -> Result<Waited> {
        loop {
            let Look { before, first, events } = self.look(place).await?;
            let Some(before) = before else { return Ok(Waited::Held(events)) };
            let path = path::join(&self.path, &before);
            let watch = Retry::default().reads(|| self.client.watch_exists(&path)).await?;
            if let (Some(_), mut change) = watch {
                match tokio::time::timeout(patience, &mut change).await {
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

    /// Looks at the line.
    ///
    /// # Errors
    /// Also [`Error::Foreign`] when another library has a lock in this znode: it would not wait for
    /// this one.
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

/// What came of waiting.
pub(crate) enum Waited {
    /// It is the place's turn; what happens to the session since then.
    Held(SessionEvents),
    /// The line has not moved; the first in it.
    Still(String),
}

/// How the line looks to one who stands in it.
struct Look {
    /// Who has to leave before it is its turn.
    before: Option<String>,
    /// The first in line.
    first: String,
    /// What happens to the session from this look on.
    events: SessionEvents,
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
    place: Place,
    vigil: Vigil,
}

impl Held {
    /// `events` are those of the session since before it was seen that the place holds.
    pub(crate) fn new(client: &Client, place: Place, events: SessionEvents) -> Self {
        let vigil = Vigil::new(client, place.path(), events);
        Self { place, vigil }
    }

    pub(crate) fn into_parts(self) -> (Place, Vigil) {
        (self.place, self.vigil)
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
        self.vigil.news().await
    }

    /// Waits until the lock is not held any more: the session is over, or somebody deleted the
    /// holder's znode.
    ///
    /// Without a connection this cannot be known. Who has to stop already then uses [`Held::news`];
    /// whatever lies outside of the ensemble is protected by the [`Token`]. It may be dropped, and
    /// called again.
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

    /// Gives the lock back, and returns when that is done.
    ///
    /// # Errors
    /// [`Error::Deleted`] when somebody has deleted the holder's znode. Those of the request when
    /// repeating it did not help: the lock is given back in the background as soon as a server can
    /// be told, and it ends with the session anyway. [`Error::is_session_over`] says that it did.
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
