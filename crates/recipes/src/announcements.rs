//! Announces a leader that is elected elsewhere, by a lock of the resource itself.

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, Version, Watch};

use crate::place::Place;
use crate::{Error, Held, Result, faults, path};

/// Announcements of leaders that the resource itself has elected, with a lock of a database, a disk
/// or a znode.
///
/// An [`Election`](crate::Election) decides in the ensemble, so the resource must refuse former
/// leaders by their [`Token`](crate::Token). A resource with a lock of its own decides alone: the
/// holder of the lock leads, whatever happens to its session, and the announcement is only
/// information. So first take the resource's lock, then announce. A leader that loses its session
/// continues to lead, and announces itself again in its next session.
///
/// Each announcement has a term, a number that grows whenever the lock is granted. The largest term
/// counts, so a late leader cannot hide its successor.
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
/// // Here the resource is a znode, and its version is its lock: the last writer owns it.
/// let made = client.create("/resource", "nobody", CreateMode::Persistent, &acl).await?;
/// let owned = client.set_data("/resource", "host 1", Version(made.stat.version)).await?;
/// let announced = leaders.announce("host 1", owned.version as u64).await?;
/// assert_eq!(leaders.leader().await?.expect("there is one").name, "host 1");
///
/// // Another host takes it over. A late write of the first host is refused, even if that host has
/// // not noticed yet.
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

/// An announced leader.
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
    /// The name of the leader.
    pub name: String,
    /// The term: the number with which the resource granted its lock.
    pub term: u64,
}

/// An announcement. It stands until this value is dropped, or the session ends.
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
    held: Held,
}

impl Announcements {
    /// The announcements below this znode. If it is missing, it is created with this ACL, and so
    /// are the announcements.
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

    /// Announces the holder of the resource's lock, which was granted with this term.
    ///
    /// This replaces an announcement of an earlier session of the same leader, and one that the
    /// same program still has for this term.
    ///
    /// # Errors
    /// The errors of [`Client::create`](zebu_client::Client::create).
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
        let (mode, digits) = (CreateMode::Ephemeral, format!("{term:020}"));
        let (data, acl) = (name.as_bytes(), &self.acl);
        let events = self.client.session_events();
        let place = Place::protected(&self.client, &self.path, &digits, mode, data, acl).await?;
        self.replace(term, &place).await?;
        Ok(Announced { held: Held::new(&self.client, place, events) })
    }

    /// Deletes other announcements of this term. No two leaders have the same term, so they are of
    /// earlier sessions of this leader.
    async fn replace(&self, term: u64, own: &Place) -> Result<()> {
        let look = || self.client.get_children(&self.path);
        let (names, _stat) = Retry::default().reads(look).await?;
        for name in names.iter().filter(|name| term_of(name) == Some(term)) {
            let path = path::join(&self.path, name);
            let delete = || self.client.delete(&path, Version::ANY);
            if path != own.path()
                && let Err(error) = Retry::default().reads(delete).await
                && error.kind() != ErrorKind::Gone
            {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// The announced leader, if any.
    ///
    /// # Errors
    /// The errors of reading; [`Error::Foreign`] for a znode that is not an announcement.
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

    /// Like [`Announcements::leader`], with a watch that fires when a leader announces itself or
    /// its announcement is deleted.
    ///
    /// # Errors
    /// As for [`Announcements::leader`], and the errors of creating the znode, which must exist.
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

    /// The announcement with the largest term. The outer `None`: it was deleted meanwhile; the
    /// inner `None`: there is none.
    async fn newest(&self, names: Vec<String>) -> Result<Option<Option<Announcement>>> {
        let mut newest = None;
        for name in names {
            let Some(term) = term_of(&name) else {
                return Err(Error::Foreign(path::join(&self.path, &name)));
            };
            let is_newer = |best: &(u64, String)| (best.0 < term) != faults::hears_the_oldest();
            if newest.as_ref().is_none_or(is_newer) {
                newest = Some((term, name));
            }
        }
        let Some((term, name)) = newest else { return Ok(Some(None)) };
        let path = path::join(&self.path, &name);
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

/// The term of an announcement. It follows a mark by which the leader finds its znode again.
fn term_of(name: &str) -> Option<u64> {
    name.rsplit('-').next()?.parse().ok()
}

impl Announced {
    /// Waits until the announcement is gone: the session has ended, or another client has deleted
    /// or replaced it. A leader that still has the resource's lock should then announce itself
    /// again, in a new session if the old one has ended.
    ///
    /// The future may be dropped and called again.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
    /// let mut first = leaders.announce("host 1", 7).await?;
    /// let mut second = leaders.announce("host 1", 7).await?;
    /// first.lost().await; // replaced by the second one
    /// client.close().await?;
    /// second.lost().await;
    /// # Ok(()) });
    /// ```
    pub async fn lost(&mut self) {
        self.held.lost().await;
    }

    /// Withdraws the announcement, and returns when it is deleted. A later announcement in its
    /// place stays.
    ///
    /// # Errors
    /// The errors of deleting, if repeated attempts failed; deletion then continues in the
    /// background.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let leaders = zebu_recipes::Announcements::new(&client, "/leaders", &Acls::creator());
    /// leaders.announce("host 1", 7).await?.withdraw().await?;
    /// # Ok(()) });
    /// ```
    pub async fn withdraw(self) -> Result<()> {
        match self.held.release().await {
            // It was deleted before, or with its session.
            Err(Error::Deleted(_)) => Ok(()),
            Err(error) if error.is_session_over() => Ok(()),
            released => released,
        }
    }
}
