//! Partitions of a set: each item belongs to one member, and the members share the items.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use zebu_client::{Acls, Client};

use crate::party::name_of;
use crate::{Children, Held, Lock, News, Party, PartyMember, Result, Token, faults, path};

/// The time without a change of the members after which they divide the items.
///
/// Source: kazoo's `SetPartitioner.time_boundary`.
const QUIET: Duration = Duration::from_secs(30);

/// Divides a set of items among the members of a party. It is compatible with `SetPartitioner` of
/// the Python package kazoo with the same path, items and `partition_func`.
///
/// ```text
/// PATH/party/ID-NAME   ephemeral: a member
/// PATH/locks/ITEM/     the lock of an item: Lock::of_kazoo
/// ```
///
/// Each member computes its own part, from the names of all members. A member owns an item while it
/// holds the lock of the item, so no item ever has two owners, even if two members see different
/// members for a while. The [`Token`] of each lock protects resources outside the ensemble.
///
/// All members must use the same items.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use std::time::Duration;
///
/// use zebu_client::Acls;
/// use zebu_recipes::{News, Partitions};
///
/// let partitions = Partitions::new(&client, "/work", ["a", "b", "c"], &Acls::creator())
///     .quiet(Duration::from_millis(100));
/// let member = partitions.join("amy").await?;
/// let mut part = member.acquire().await?;
/// assert_eq!(part.items(), ["a", "b", "c"]);
///
/// // Another member comes: this one divides the items with it.
/// let other = partitions.join("dom").await?;
/// assert_eq!(part.news().await, News::Wanted);
/// part.release().await?;
/// let (one, two) = tokio::try_join!(member.acquire(), other.acquire())?;
/// assert_eq!((one.items(), two.items()), (&["a".to_owned(), "c".to_owned()][..], &["b".to_owned()][..]));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Partitions {
    client: Client,
    path: String,
    acl: Acls,
    /// Sorted.
    items: Vec<String>,
    quiet: Duration,
}

impl Partitions {
    /// The partitions below this znode. Missing znodes are created with this ACL. An item is the
    /// name of a znode.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let items = (0..16).map(|shard| format!("shard-{shard}"));
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", items, &Acls::creator());
    /// # drop(partitions);
    /// # Ok(()) });
    /// ```
    pub fn new(
        client: &Client,
        path: &str,
        items: impl IntoIterator<Item = impl Into<String>>,
        acl: &Acls,
    ) -> Self {
        let mut items: Vec<String> = items.into_iter().map(Into::into).collect();
        items.sort_unstable();
        items.dedup();
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), acl, items, quiet: QUIET }
    }

    /// Sets the time without a change of the members after which they divide the items: 30 seconds,
    /// unless set. With a short time, members that start together divide the items several times.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// # use zebu_client::Acls;
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a"], &Acls::creator())
    ///     .quiet(Duration::from_secs(5));
    /// # drop(partitions);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn quiet(mut self, quiet: Duration) -> Self {
        self.quiet = quiet;
        self
    }

    /// Joins the members; returns when the others can see this member. It owns no item yet.
    ///
    /// # Errors
    /// As for [`Party::join`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a"], &Acls::creator());
    /// partitions.join("amy").await?.leave().await?;
    /// # Ok(()) });
    /// ```
    pub async fn join(&self, name: &str) -> Result<Participant> {
        let party = Party::shallow(&self.client, &path::join(&self.path, "party"), &self.acl);
        Ok(Participant { partitions: self.clone(), member: party.join(name).await? })
    }

    fn lock(&self, item: &str) -> Lock {
        let locks = path::join(&self.path, "locks");
        Lock::of_kazoo(&self.client, &path::join(&locks, item), &self.acl)
    }
}

/// A member of [`Partitions`]. It leaves when this value leaves or is dropped, or the session ends.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a"], &Acls::creator());
/// let member = partitions.join("amy").await?;
/// member.leave().await?;
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a member that is dropped has left"]
pub struct Participant {
    partitions: Partitions,
    member: PartyMember,
}

impl Participant {
    /// Waits until the members have not changed for a while, then for the locks of this member's
    /// items. If the members change meanwhile, this begins again.
    ///
    /// The items go to the members in turn, both in alphabetical order. A member owns no item if
    /// there are more members than items.
    ///
    /// Dropping the future releases the locks that it has already acquired.
    ///
    /// # Errors
    /// The errors of reading and of [`Lock::exclusive`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// # use zebu_client::Acls;
    /// # let quiet = Duration::from_millis(20);
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a"], &Acls::creator()).quiet(quiet);
    /// let (amy, dom) = (partitions.join("amy").await?, partitions.join("dom").await?);
    /// let (one, two) = tokio::try_join!(amy.acquire(), dom.acquire())?;
    /// assert_eq!((one.items(), two.items()), (&["a".to_owned()][..], &[][..]));
    /// # Ok(()) });
    /// ```
    pub async fn acquire(&self) -> Result<Part> {
        self.acquire_by(|place, members, items| {
            items.iter().skip(place).step_by(members.len()).cloned().collect()
        })
        .await
    }

    /// As [`Participant::acquire`], with another division: `part` gets the place of this member
    /// among the members, the names of the members, and the items, and returns the items of this
    /// member. All members must use the same function.
    ///
    /// # Errors
    /// As for [`Participant::acquire`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// # use zebu_client::Acls;
    /// # let quiet = Duration::from_millis(20);
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a", "b"], &Acls::creator()).quiet(quiet);
    /// let amy = partitions.join("amy").await?;
    /// // The first member gets everything.
    /// let all = amy.acquire_by(|place, _, items| if place == 0 { items.to_vec() } else { Vec::new() });
    /// assert_eq!(all.await?.items(), ["a", "b"]);
    /// # Ok(()) });
    /// ```
    pub async fn acquire_by(
        &self,
        part: impl Fn(usize, &[String], &[String]) -> Vec<String>,
    ) -> Result<Part> {
        let Self { partitions, member } = self;
        let mut members = Children::of(&partitions.client, &path::join(&partitions.path, "party"));
        loop {
            let znodes = members.settled(partitions.quiet).await?.unwrap_or_default();
            let mut standing: Vec<(&str, &str)> =
                znodes.iter().map(|znode| (name_of(znode), znode.as_str())).collect();
            standing.sort_unstable();
            let place = standing.iter().position(|(_, znode)| *znode == member.znode());
            let Some(place) = place else {
                // Another client deleted this member's znode. It will be there again.
                members.next().await?;
                continue;
            };
            let names: Vec<String> = standing.iter().map(|(name, _)| (*name).to_owned()).collect();
            let mut items = part(place, &names, &partitions.items);
            // One order for all members, so that none waits for a lock of another that waits for
            // it.
            items.sort_unstable();
            items.dedup();
            let mut held = Vec::with_capacity(items.len());
            let changed = tokio::select! {
                biased;
                changed = members.next() => Some(changed.map(drop)),
                locked = partitions.hold(&items, &mut held) => match locked {
                    Ok(()) => None,
                    Err(error) => Some(Err(error)),
                },
            };
            match changed {
                None => return Ok(Part::new(items, held, members)),
                Some(why) => {
                    let released = release(held).await;
                    why.and(released)?;
                }
            }
        }
    }

    /// Leaves, and returns when this member's znode is deleted.
    ///
    /// # Errors
    /// As for [`PartyMember::leave`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a"], &Acls::creator());
    /// partitions.join("amy").await?.leave().await?;
    /// # Ok(()) });
    /// ```
    pub async fn leave(self) -> Result<()> {
        self.member.leave().await
    }
}

impl Partitions {
    async fn hold(&self, items: &[String], held: &mut Vec<Held>) -> Result<()> {
        for item in items {
            let lock = self.lock(item);
            held.push(if faults::trusts_its_part() {
                lock.shared().await?
            } else {
                lock.exclusive().await?
            });
        }
        Ok(())
    }
}

async fn release(held: Vec<Held>) -> Result<()> {
    let mut result = Ok(());
    for held in held {
        result = result.and(held.release().await);
    }
    result
}

/// The items that a [`Participant`] owns. Dropping this value releases them.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use std::time::Duration;
/// # use zebu_client::Acls;
/// # let quiet = Duration::from_millis(20);
/// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a"], &Acls::creator()).quiet(quiet);
/// let member = partitions.join("amy").await?;
/// let part = member.acquire().await?;
/// for (item, token) in part.items().iter().zip(part.tokens()) {
///     println!("work on {item}, with the fencing token {token}");
/// }
/// part.release().await?;
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a part that is dropped is given back"]
pub struct Part {
    items: Vec<String>,
    /// The locks of the items.
    held: Vec<Held>,
    /// Whether each of the locks is in doubt.
    suspended: Vec<bool>,
    /// The members at the time of the division.
    members: Children,
}

impl Part {
    fn new(items: Vec<String>, held: Vec<Held>, members: Children) -> Self {
        let suspended = vec![false; held.len()];
        Self { items, held, suspended, members }
    }

    /// The items, sorted.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// # use zebu_client::Acls;
    /// # let quiet = Duration::from_millis(20);
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["b", "a"], &Acls::creator()).quiet(quiet);
    /// assert_eq!(partitions.join("amy").await?.acquire().await?.items(), ["a", "b"]);
    /// # Ok(()) });
    /// ```
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// The fencing tokens of the items, in the order of [`Part::items`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// # use zebu_client::Acls;
    /// # let quiet = Duration::from_millis(20);
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a", "b"], &Acls::creator()).quiet(quiet);
    /// assert_eq!(partitions.join("amy").await?.acquire().await?.tokens().len(), 2);
    /// # Ok(()) });
    /// ```
    pub fn tokens(&self) -> Vec<Token> {
        self.held.iter().map(Held::token).collect()
    }

    /// Waits for news: [`News::Wanted`] when the members have changed and this part should be
    /// released soon, the others as for [`Held::news`].
    ///
    /// The future may be dropped and called again. After [`News::Lost`] there is no other news.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// # use zebu_client::Acls;
    /// # let quiet = Duration::from_millis(20);
    /// use zebu_recipes::{News, Partitions};
    ///
    /// let partitions = Partitions::new(&client, "/work", ["a"], &Acls::creator()).quiet(quiet);
    /// let member = partitions.join("amy").await?;
    /// let mut part = member.acquire().await?;
    /// let _dom = partitions.join("dom").await?;
    /// assert_eq!(part.news().await, News::Wanted);
    /// # Ok(()) });
    /// ```
    pub async fn news(&mut self) -> News {
        loop {
            let (lock, news) = tokio::select! {
                biased;
                news = first_news(&mut self.held) => news,
                changed = self.members.next() => match changed {
                    Ok(_) => return News::Wanted,
                    Err(error) if error.is_session_over() => return News::Lost,
                    // The members cannot be read for now. The locks are still held.
                    Err(_) => continue,
                },
            };
            let was_certain = !self.suspended.contains(&true);
            match news {
                News::Suspended | News::Resumed => self.suspended[lock] = news == News::Suspended,
                News::Wanted | News::Lost => return news,
            }
            // All locks belong to one session, so the holder hears of them together.
            if was_certain == self.suspended.contains(&true) {
                return news;
            }
        }
    }

    /// Waits until one of the items is lost, as [`Held::lost`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// # use zebu_client::Acls;
    /// # let quiet = Duration::from_millis(20);
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a"], &Acls::creator()).quiet(quiet);
    /// let member = partitions.join("amy").await?;
    /// let mut part = member.acquire().await?;
    /// client.close().await?;
    /// part.lost().await;
    /// # Ok(()) });
    /// ```
    pub async fn lost(&mut self) {
        while self.news().await != News::Lost {}
    }

    /// Releases the items, and returns when they are released.
    ///
    /// # Errors
    /// As for [`Held::release`], for any of the items. The others are released nevertheless.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use std::time::Duration;
    /// # use zebu_client::Acls;
    /// # let quiet = Duration::from_millis(20);
    /// let partitions = zebu_recipes::Partitions::new(&client, "/work", ["a"], &Acls::creator()).quiet(quiet);
    /// partitions.join("amy").await?.acquire().await?.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn release(self) -> Result<()> {
        release(self.held).await
    }
}

/// The first news of one of these locks, and which lock it is.
async fn first_news(held: &mut [Held]) -> (usize, News) {
    let mut waiting: Vec<_> = held.iter_mut().map(|held| Box::pin(held.news())).collect();
    poll_fn(|cx| {
        for (lock, news) in waiting.iter_mut().enumerate() {
            if let Poll::Ready(news) = news.as_mut().poll(cx) {
                return Poll::Ready((lock, news));
            }
        }
        Poll::Pending
    })
    .await
}
