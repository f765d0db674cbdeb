//! Who leads, as information, where a resource outside of the ensemble has a lock of its own that decides it.

use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry, Stat, Version, Watch};

use crate::place::{Place, is_passing};
use crate::{Error, Result, path};

/// Attempts to create an announcement, each of which finds out what became of the one before.
const ATTEMPTS_MAX: usize = 16;

/// Where leaders announce themselves that were elected by the resource they lead: by a lock that a database, a disk or
/// a znode has itself.
///
/// An [`Election`](crate::Election) decides in the ensemble who leads, and a resource outside must refuse leaders of
/// yesterday by their [`Token`](crate::Token). Where the resource has a lock it can do both alone: who holds the lock
/// leads, whatever becomes of sessions, and what stands here only says who that is. So the order is: take the resource's
/// lock, then announce; who loses its session goes on leading, and announces itself again with the next one.
///
/// Each announcement has a term, a number that grows whenever the lock is granted. The largest one counts, so that
/// nobody who is late hides its successor.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, ErrorKind, Version};
/// use zebu_recipes::Announcements;
///
/// let acl = Acls::creator();
/// let leaders = Announcements::new(&client, "/leaders", &acl);
///
/// // Here the resource is a znode, and its version is its lock: who has written last owns it.
/// let made = client.create("/resource", "nobody", CreateMode::Persistent, &acl).await?;
/// let owned = client.set_data("/resource", "host 1", Version(made.stat.version)).await?;
/// let announced = leaders.announce("host 1", owned.version as u64).await?;
/// assert_eq!(leaders.leader().await?.expect("there is one").name, "host 1");
///
/// // Another one takes it over: what the first one writes is refused, whether it has noticed or not.
/// let taken = client.set_data("/resource", "host 2", Version(owned.version)).await?;
/// let _announced_too = leaders.announce("host 2", taken.version as u64).await?;
/// let late = client.set_data("/resource", "late", Version(owned.version)).await.unwrap_err();
/// assert_eq!(late.kind(), ErrorKind::Conflict);
/// assert_eq!(leaders.leader().await?.expect("there is one").name, "host 2");
/// announced.withdraw().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Announcements {
    client: Client,
    path: String,
    acl: Acls,
}

/// Who has announced itself.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
/// let _announced = leaders.announce("host 1", 7).await?;
/// let leader = leaders.leader().await?.expect("there is one");
/// assert_eq!((leader.name.as_str(), leader.term), ("host 1", 7));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Announcement {
    /// What it calls itself.
    pub name: String,
    /// The number the resource's lock was granted with.
    pub term: u64,
}

/// An announcement that stands until this is dropped, or its session is over.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
/// leaders.announce("host 1", 7).await?.withdraw().await?;
/// assert_eq!(leaders.leader().await?, None);
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "an announcement that is dropped is withdrawn"]
pub struct Announced {
    place: Place,
    /// Keeps the session open.
    _client: Client,
}

impl Announcements {
    /// Announcements below this znode, which is created with this ACL when it is missing, as they are.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
    /// assert_eq!(leaders.leader().await?, None);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { client: client.clone(), path: path.to_owned(), acl: acl.clone() }
    }

    /// Says who leads, for whoever holds the resource's lock, which was granted with this number.
    ///
    /// What an earlier session of the same leader has announced gives way.
    ///
    /// # Errors
    /// Those of [`Client::create`](zebu_client::Client::create).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
    /// let announced = leaders.announce("host 1", 7).await?;
    /// announced.withdraw().await?;
    /// # Ok(()) });
    /// ```
    pub async fn announce(&self, name: &str, term: u64) -> Result<Announced> {
        let (this, name) =
            (Self { client: self.client.unowned(), ..self.clone() }, name.to_owned());
        let making = async move { this.make(&name, term).await };
        let place = Place::made_by(&self.client, making).await?;
        Ok(Announced { place, _client: self.client.clone() })
    }

    async fn make(&self, name: &str, term: u64) -> Result<Place> {
        // As long as the largest number, so that names sort as terms do.
        let path = path::join(&self.path, &format!("{term:020}"));
        let mut tried = 1;
        loop {
            let create = self.client.create(&path, name, CreateMode::Ephemeral, &self.acl).await;
            let error = match create {
                Ok(created) => return Ok(Place::of(&self.client, path, created.stat)),
                Err(error) if tried == ATTEMPTS_MAX => return Err(error.into()),
                Err(error) => error,
            };
            tried += 1;
            match error.code() {
                ErrorCode::NO_NODE => {
                    let create = || self.client.create_all(&self.path, &self.acl);
                    Retry::default().reads(create).await?;
                }
                // No two leaders have one term: this is our own, of an answer that was lost or of an earlier session.
                ErrorCode::NODE_EXISTS => {
                    let stat = Retry::default().reads(|| self.client.exists(&path)).await?;
                    if let Some(stat) = stat.filter(|stat| self.is_ours(stat)) {
                        return Ok(Place::of(&self.client, path, stat));
                    }
                    let delete = || self.client.delete(&path, Version::ANY);
                    match Retry::default().reads(delete).await {
                        Err(error) if error.kind() != ErrorKind::Gone => return Err(error.into()),
                        _ => {}
                    }
                }
                _ if is_passing(&error) => {}
                _ => return Err(error.into()),
            }
        }
    }

    fn is_ours(&self, stat: &Stat) -> bool {
        stat.ephemeral_owner == self.client.session_id().0
    }

    /// Who leads, as far as is announced.
    ///
    /// # Errors
    /// Those of reading; [`Error::Foreign`] for what is no announcement.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
    /// let _late = leaders.announce("host 1", 7).await?;
    /// let _newest = leaders.announce("host 2", 8).await?;
    /// assert_eq!(leaders.leader().await?.expect("there is one").name, "host 2");
    /// # Ok(()) });
    /// ```
    pub async fn leader(&self) -> Result<Option<Announcement>> {
        loop {
            let names = match Retry::default().reads(|| self.client.get_children(&self.path)).await
            {
                Ok((names, _stat)) => names,
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            if let Some(leader) = self.newest(names).await? {
                return Ok(leader);
            }
        }
    }

    /// As [`Announcements::leader`], and a watch that fires when somebody announces itself, or is gone.
    ///
    /// # Errors
    /// As [`Announcements::leader`], and those of creating the znode, which has to be there.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
    /// let (nobody, changed) = leaders.watch().await?;
    /// assert_eq!(nobody, None);
    /// let _announced = leaders.announce("host 1", 7).await?;
    /// changed.await?;
    /// assert!(leaders.leader().await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn watch(&self) -> Result<(Option<Announcement>, Watch)> {
        Retry::default().reads(|| self.client.create_all(&self.path, &self.acl)).await?;
        loop {
            let watch = || self.client.watch_children(&self.path);
            let (names, _stat, changed) = Retry::default().reads(watch).await?;
            if let Some(leader) = self.newest(names).await? {
                return Ok((leader, changed));
            }
        }
    }

    /// The announcement of the largest term, if there is one; `None` when it went while this looked.
    async fn newest(&self, names: Vec<String>) -> Result<Option<Option<Announcement>>> {
        let Some(name) = names.into_iter().max() else { return Ok(Some(None)) };
        let path = path::join(&self.path, &name);
        let Ok(term) = name.parse() else { return Err(Error::Foreign(path)) };
        match Retry::default().reads(|| self.client.get_data(&path)).await {
            Ok((data, _stat)) => {
                let name = String::from_utf8_lossy(&data).into_owned();
                Ok(Some(Some(Announcement { name, term })))
            }
            Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Announced {
    /// Takes it back, and returns when it is gone. An announcement that has taken its place since stays.
    ///
    /// # Errors
    /// Those of deleting, when repeating it did not help; it is gone on with behind.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
    /// leaders.announce("host 1", 7).await?.withdraw().await?;
    /// # Ok(()) });
    /// ```
    pub async fn withdraw(mut self) -> Result<()> {
        match self.place.leave().await {
            // With its session it is gone.
            Err(error) if error.is_session_over() => Ok(()),
            left => left.map(|_was_there| ()),
        }
    }
}
