//! A barrier that processes enter together and leave together.

use zebu_client::{
    Acls, Client, CreateMode, ErrorKind, Retry, SessionState, Signal, Stat, Version, Watch, Zxid,
};

use crate::cleanup::{self, Mine, Whose};
use crate::current::with_data;
use crate::error::found_out;
use crate::kazoo_barrier::KazooBarrier;
use crate::place::Place;
use crate::{Error, Result, faults, path};

/// The znode that marks the barrier as open.
const READY: &str = "ready";

/// A barrier that processes enter together and leave together. No process enters before `size`
/// processes have come. No process leaves before all processes inside want to leave or are gone.
///
/// ```text
/// PATH/NAME    ephemeral: a process that is inside, or waits to enter
/// PATH/ready   `size` processes have come
/// ```
///
/// The processes that had come when `ready` was written are inside. A process that comes later and
/// joins them rewrites its own znode and that of a process inside, in one transaction. The last
/// process inside deletes its znode together with `ready`, if nobody has joined it meanwhile.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::DoubleBarrier;
///
/// let barrier = DoubleBarrier::new(&client, "/barrier", 2, &Acls::creator());
/// let (one, two) = tokio::try_join!(barrier.enter("one"), barrier.enter("two"))?;
/// // Both compute something.
/// tokio::try_join!(one.leave(), two.leave())?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    client: Client,
    path: String,
    size: usize,
    acl: Acls,
    is_kazoos: bool,
}

impl DoubleBarrier {
    /// A barrier for `size` processes below this znode.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let barrier = zebu_recipes::DoubleBarrier::new(&client, "/barrier", 1, &Acls::creator());
    /// # drop(barrier);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, size: usize, acl: &Acls) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), size, acl, is_kazoos: false }
    }

    /// A barrier for `size` processes, together with programs that use `DoubleBarrier` of the
    /// Python package kazoo with the same path and size.
    ///
    /// ```text
    /// PATH/ID      ephemeral: a process that is inside, or waits to enter; its data are the name
    /// PATH/ready   enough processes have come
    /// ```
    ///
    /// kazoo's znodes do not tell one round from the next: a process that enters again should first
    /// wait until its former round is over. A process that comes while others are inside waits for
    /// the next round.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let barrier = zebu_recipes::DoubleBarrier::of_kazoo(&client, "/barrier", 2, &Acls::creator());
    /// let (one, two) = tokio::try_join!(barrier.enter("one"), barrier.enter("two"))?;
    /// assert!(client.exists("/barrier/ready").await?.is_some());
    /// tokio::try_join!(one.leave(), two.leave())?;
    /// # Ok(()) });
    /// ```
    pub fn of_kazoo(client: &Client, path: &str, size: usize, acl: &Acls) -> Self {
        Self { is_kazoos: true, ..Self::new(client, path, size, acl) }
    }

    fn kazoo(&self) -> KazooBarrier {
        let Self { client, path, size, acl, .. } = self.clone();
        KazooBarrier { client, path, size, acl }
    }

    /// Waits until enough processes have come. Processes that die or give up meanwhile do not
    /// count. A process that comes while members of a round are still inside joins them. Znodes
    /// left by a round whose members are all dead do not count.
    ///
    /// # Errors
    /// The errors of the requests; [`ErrorKind::Conflict`] if the name is taken; [`Error::Name`]
    /// for a name that no child can have, and for `ready`.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let barrier = zebu_recipes::DoubleBarrier::new(&client, "/barrier", 1, &Acls::creator());
    /// let inside = barrier.enter("me").await?;
    /// inside.leave().await?;
    /// # Ok(()) });
    /// ```
    pub async fn enter(&self, name: &str) -> Result<Inside> {
        if self.is_kazoos {
            let place = self.kazoo().enter(name).await?;
            return Ok(Inside { barrier: self.clone(), place, round: Zxid::ZERO });
        }
        path::check_name(name, &[READY])?;
        Retry::default().reads(|| self.client.create_all(&self.path, &self.acl)).await?;
        let barrier = Self { client: self.client.unowned(), ..self.clone() };
        let mine = path::join(&self.path, name);
        let making = async move { barrier.come(mine).await };
        let place = Place::made_by(&self.client, making).await?;
        let ready = path::join(&self.path, READY);
        loop {
            // The watch is set before counting: the last process to come finds `ready` missing, and
            // creates it.
            let look = || async {
                let ready = self.client.watch_exists(&ready);
                let children = self.client.get_children(&self.path);
                Ok((ready.await?, children.await?.0))
            };
            let ((stat, change), names) = Retry::default().reads(look).await?;
            if let Some(stat) = stat {
                let (is_in, is_late) = match self.standing(&stat, &place).await? {
                    Standing::In => (true, false),
                    Standing::MayJoin(name) => (self.join(&place, &stat, &name).await?, true),
                    Standing::Out => (false, false),
                };
                if is_in {
                    return Ok(Inside { barrier: self.clone(), place, round: stat.mzxid });
                }
                if is_late {
                    continue;
                }
            }
            let size = self.size - usize::from(faults::opens_too_early());
            if names.iter().filter(|name| *name != READY).count() < size {
                change.await?;
                continue;
            }
            // The transaction also checks that this process' znode still exists. If another process
            // opens the barrier first, that is as good. A `ready` left by a dead round is written
            // again, under its version, so only one process succeeds.
            let open = || {
                let mut transaction = self.client.transaction();
                transaction.check(place.path(), Version::ANY);
                match stat {
                    None => drop(transaction.create(&ready, "", CreateMode::Persistent, &self.acl)),
                    Some(left) => drop(transaction.set_data(&ready, "", Version(left.version))),
                }
                transaction.commit()
            };
            match Retry::default().reads(open).await {
                Err(error) if error.path() == Some(place.path()) => {
                    return Err(Error::Deleted(place.path().to_owned()));
                }
                // `ready` was deleted meanwhile.
                Err(error) if error.kind() == ErrorKind::Gone && stat.is_some() => {}
                Err(error) if error.kind() != ErrorKind::Conflict => return Err(error.into()),
                _ => {}
            }
        }
    }

    /// Whether the process with this place is inside.
    async fn standing(&self, ready: &Stat, place: &Place) -> Result<Standing> {
        if place.created() < ready.mzxid {
            return Ok(Standing::In);
        }
        let look = || inside(&self.client, &self.path, ready.mzxid);
        let mut inside = Retry::default().reads(look).await?;
        if inside.iter().any(|name| name == place.name()) {
            // The process has joined, and the answer was lost.
            return Ok(Standing::In);
        }
        let inside = inside.pop();
        Ok(inside.map_or(Standing::Out, Standing::MayJoin))
    }

    /// Joins the processes inside. False if they have left meanwhile.
    async fn join(&self, place: &Place, ready: &Stat, inside: &str) -> Result<bool> {
        let (ready_path, inside) = (path::join(&self.path, READY), path::join(&self.path, inside));
        // The data say who has created a znode, and stay.
        let look = || async {
            let (inside, mine) =
                (self.client.get_data(&inside), self.client.get_data(place.path()));
            Ok((inside.await?.0, mine.await?.0))
        };
        let join = || async {
            let (theirs, own) = look().await?;
            let mut transaction = self.client.transaction();
            // The last process inside sees that it is not the last one any more.
            let _ = transaction.set_data(&inside, &theirs, Version::ANY);
            transaction.check(&ready_path, Version(ready.version));
            let _ = transaction.set_data(place.path(), &own, Version::ANY);
            transaction.commit().await
        };
        match Retry::default().reads(join).await {
            Ok(_) => Ok(true),
            Err(error) if error.path() == Some(place.path()) => {
                Err(Error::Deleted(place.path().to_owned()))
            }
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Conflict) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the znode of a process that comes.
    async fn come(&self, mine: String) -> Result<Place> {
        // Tells this znode from all others of this name.
        let unique = self.client.unique_name();
        let create = || self.client.create(&mine, &unique, CreateMode::Ephemeral, &self.acl);
        let unknown = match Retry::default().writes(create).await {
            Ok(created) => return Ok(Place::of(&self.client, created.path, created.stat)),
            Err(error) if error.kind() != ErrorKind::Unknown => return Err(error.into()),
            Err(error) => error,
        };
        let look = || with_data(&self.client, &mine, unique.as_bytes());
        match found_out(Retry::default().reads(look).await, &unknown) {
            Ok(Some(stat)) => Ok(Place::of(&self.client, mine, stat)),
            Ok(None) => Err(unknown.into()),
            Err(error) => {
                // The others would wait for it.
                let whose = Whose::WithData(unique.into_bytes());
                cleanup::delete_behind(&self.client, Mine { path: mine, whose });
                Err(error.into())
            }
        }
    }
}

/// The relation of a process that has come to those inside.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    /// It had come when the barrier was opened.
    In,
    /// This process is inside.
    MayJoin(String),
    /// Nobody is inside: `ready` was left by a round whose members are all dead.
    Out,
}

/// Whether the process with this znode is inside in the round that this transaction opened: it had
/// come before the transaction, or has joined since.
fn is_inside(stat: &Stat, round: Zxid) -> bool {
    stat.czxid < round || stat.version > 0
}

/// The names of the processes inside, in order, as of one moment. While this reads the processes
/// one by one, a process may join another one that then leaves. This does not overlook the joining
/// process.
async fn inside(client: &Client, path: &str, round: Zxid) -> zebu_client::Result<Vec<String>> {
    loop {
        let (mut names, before) = client.get_children(path).await?;
        names.retain(|name| name != READY);
        names.sort_unstable();
        let stats: Vec<_> =
            names.iter().map(|name| client.exists(&path::join(path, name))).collect();
        let after = client.exists(path);
        let mut inside = Vec::new();
        for (name, stat) in names.into_iter().zip(stats) {
            if stat.await?.is_some_and(|stat| is_inside(&stat, round)) {
                inside.push(name);
            }
        }
        if after.await?.is_some_and(|after| after.pzxid == before.pzxid) {
            return Ok(inside);
        }
    }
}

/// A process inside a [`DoubleBarrier`]. Dropping it leaves without waiting for the others.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let barrier = zebu_recipes::DoubleBarrier::new(&client, "/barrier", 1, &Acls::creator());
/// barrier.enter("me").await?.leave().await?;
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "who is dropped is outside"]
pub struct Inside {
    barrier: DoubleBarrier,
    place: Place,
    /// The transaction that opened the barrier: the last one that wrote `ready`. Not with kazoo's
    /// znodes.
    round: Zxid,
}

/// What a process that wants to leave must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving<'a> {
    /// Leave and close the barrier: no other process is inside.
    Last,
    /// Stay until this process has left; the others wait for the lowest one.
    Stay(&'a str),
    /// Leave, then wait until the others have left.
    Go,
}

/// The lowest stays until all others have left, and they wait for it: each process watches one
/// znode.
fn leaving<'a>(names: &'a [String], mine: &str) -> Leaving<'a> {
    let others = || names.iter().filter(|name| *name != mine && *name != READY);
    match (others().min(), others().max()) {
        (Some(lowest), Some(highest)) if mine < lowest.as_str() => Leaving::Stay(highest),
        (Some(_), _) => Leaving::Go,
        (None, _) => Leaving::Last,
    }
}

impl Inside {
    /// Waits until every process inside wants to leave, or is gone.
    ///
    /// # Errors
    /// The errors of the requests, if repeated attempts failed, including while it waits without a
    /// server. This process is outside then, as soon as a server can be reached.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let barrier = zebu_recipes::DoubleBarrier::new(&client, "/barrier", 1, &Acls::creator());
    /// barrier.enter("me").await?.leave().await?;
    /// # Ok(()) });
    /// ```
    pub async fn leave(mut self) -> Result<()> {
        if self.barrier.is_kazoos {
            return self.barrier.kazoo().leave(self.place).await;
        }
        let ready = path::join(&self.barrier.path, READY);
        loop {
            // In this order, a process that joins this one after the list was made changes the
            // version.
            let look = || async {
                let (mine, ready) = (
                    self.barrier.client.exists(self.place.path()),
                    self.barrier.client.exists(&ready),
                );
                let names = self.barrier.client.get_children(&self.barrier.path);
                Ok((mine.await?, ready.await?, names.await?.0))
            };
            let (mine, open, names) = Retry::default().reads(look).await?;
            if !names.iter().any(|name| name == self.place.name()) {
                break;
            }
            match leaving(&names, self.place.name()) {
                Leaving::Last => {
                    let open = open.filter(|stat| stat.mzxid == self.round);
                    if let (Some(mine), Some(open)) = (mine, open)
                        && !self.leave_as_last(&mine, &ready, &open).await?
                    {
                        continue;
                    }
                    self.place.leave().await?;
                    return Ok(());
                }
                Leaving::Stay(other) => self.change(other).await?,
                Leaving::Go => break,
            }
        }
        self.place.leave().await?;
        let mut watched: Option<(String, Watch)> = None;
        while let Some(inside) = self.lowest_inside(&ready).await? {
            if faults::leaves_alone() {
                break;
            }
            match watched.take() {
                Some((name, change)) if name == inside => heard(change).await?,
                // The znode may belong to the next round by now, so it is checked once more under
                // the watch.
                _ => {
                    let path = path::join(&self.barrier.path, &inside);
                    let watch = || self.barrier.client.watch_exists(&path);
                    let (_, change) = Retry::default().reads(watch).await?;
                    watched = Some((inside, change));
                }
            }
        }
        // The last process inside removes `ready`. The next round takes over a `ready` that is
        // left.
        Ok(())
    }

    /// Leaves and closes the barrier. False if another process may have joined meanwhile.
    async fn leave_as_last(&self, mine: &Stat, ready: &str, open: &Stat) -> Result<bool> {
        let leave = || {
            let mut transaction = self.barrier.client.transaction();
            transaction.delete(self.place.path(), Version(mine.version));
            transaction.delete(ready, Version(open.version));
            transaction.commit()
        };
        match Retry::default().reads(leave).await {
            Ok(_) => Ok(true),
            // The znode is gone: an attempt whose answer was lost has succeeded, or the session's
            // znodes were deleted.
            Err(error) if error.kind() == ErrorKind::Gone => {
                Ok(error.path() == Some(self.place.path()))
            }
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The first process still inside; `None` once this round is over.
    async fn lowest_inside(&self, ready: &str) -> Result<Option<String>> {
        let look = || async {
            let inside = inside(&self.barrier.client, &self.barrier.path, self.round)
                .await?
                .into_iter()
                .next();
            // Asked last: if the round is still the same, the processes found inside are in this
            // round.
            let ready = self.barrier.client.exists(ready);
            let goes_on = ready.await?.is_some_and(|stat| stat.mzxid == self.round);
            Ok(inside.filter(|_| goes_on))
        };
        Ok(Retry::default().reads(look).await?)
    }

    /// Waits until the znode of a process changes, is deleted, or can no longer be observed.
    async fn change(&self, other: &str) -> Result<()> {
        let path = path::join(&self.barrier.path, other);
        let (stat, change) =
            Retry::default().reads(|| self.barrier.client.watch_exists(&path)).await?;
        if stat.is_some() { heard(change).await } else { Ok(()) }
    }
}

/// Waits until the watch fires, or can no longer be observed.
async fn heard(mut change: Watch) -> Result<()> {
    // Without a connection no event arrives; a new read finds out whether a server is reachable.
    while let Signal::Session(state) = change.next().await? {
        if state == SessionState::Disconnected {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &str, mine: &str, expected: Leaving<'_>) {
        let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        assert_eq!(leaving(&names, mine), expected);
    }

    #[test]
    fn the_lowest_stays_and_the_others_wait_for_it() {
        check("b ready c a", "a", Leaving::Stay("c"));
        check("b ready c a", "b", Leaving::Go);
        check("b ready c a", "c", Leaving::Go);
    }

    #[test]
    fn the_last_one_closes_the_barrier() {
        check("a ready", "a", Leaving::Last);
    }
}
