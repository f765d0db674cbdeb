//! A barrier that processes enter together and leave together.

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, Version, Zxid};

use crate::place::Place;
use crate::{Error, Result, cleanup, path};

/// Says that enough are there.
const READY: &str = "ready";

/// Nobody gets in before `size` have come; nobody gets out before all want to leave, or are gone.
///
/// ```text
/// PATH/NAME    ephemeral: one who is inside, or waits to get in
/// PATH/ready   enough have come
/// ```
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
}

impl DoubleBarrier {
    /// A barrier below this znode for so many processes.
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
        Self { client: client.clone(), path: path.to_owned(), size, acl: acl.clone() }
    }

    /// Waits until enough have come. Whoever dies or gives up meanwhile does not count.
    ///
    /// # Errors
    /// Those of the requests; [`ErrorKind::Conflict`] when there is one with this name already.
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
        Retry::default().reads(|| self.client.create_all(&self.path, &self.acl)).await?;
        let barrier = self.clone();
        let mine = path::join(&self.path, name);
        let place = Place::made_by(async move { barrier.come(mine).await }).await?;
        let ready = path::join(&self.path, READY);
        loop {
            // Watched before counting: whoever comes last finds it missing, and makes it.
            let look = || async {
                let ready = self.client.watch_exists(&ready);
                let children = self.client.get_children(&self.path);
                Ok((ready.await?, children.await?.0))
            };
            let ((stat, change), names) = Retry::default().reads(look).await?;
            if let Some(stat) = stat {
                let (client, path) = (self.client.clone(), self.path.clone());
                return Ok(Inside { client, path, place, round: stat.czxid });
            }
            if names.len() < self.size {
                change.await?;
                continue;
            }
            // Together with the check that this one is still there. That somebody else makes it is as good.
            let create = || {
                let mut transaction = self.client.transaction();
                transaction.check(place.path(), Version::ANY);
                transaction.create(&ready, "", CreateMode::Persistent, &self.acl);
                transaction.commit()
            };
            match Retry::default().reads(create).await {
                Err(error) if error.kind() == ErrorKind::Gone => {
                    return Err(Error::Deleted(place.path().to_owned()));
                }
                Err(error) if error.kind() != ErrorKind::Conflict => return Err(error.into()),
                _ => {}
            }
        }
    }

    /// Creates the znode of one who comes.
    async fn come(&self, mine: String) -> Result<Place> {
        let create = || self.client.create(&mine, "", CreateMode::Ephemeral, &self.acl);
        let error = match Retry::default().writes(create).await {
            Ok(created) => return Ok(Place::of(&self.client, created.path, created.stat)),
            Err(error) => error,
        };
        if error.kind() != ErrorKind::Unknown {
            return Err(error.into());
        }
        let look = || async {
            self.client.sync(&mine).await?;
            self.client.exists(&mine).await
        };
        match Retry::default().reads(look).await? {
            Some(stat) if stat.ephemeral_owner == self.client.session_id().0 => {
                Ok(Place::of(&self.client, mine, stat))
            }
            _ => Err(error.into()),
        }
    }
}

/// One who is inside of a [`DoubleBarrier`]; dropping it does not wait for the others.
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
    client: Client,
    path: String,
    place: Place,
    /// The transaction that opened the barrier.
    round: Zxid,
}

/// What one who wants to leave has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving<'a> {
    /// Go, and close the barrier behind: nobody else is there.
    Last,
    /// Stay, as the one the others look at, until this one is gone.
    Stay(&'a str),
    /// Go, then wait until this one is gone.
    GoAndWait(&'a str),
    /// Wait until this one is gone.
    Wait(&'a str),
    /// Everybody is gone.
    Done,
}

/// The lowest stays until all others are gone, and they wait for it: everybody watches one znode.
fn leaving<'a>(names: &'a [String], mine: &str) -> Leaving<'a> {
    let others = || names.iter().filter(|name| *name != mine && *name != READY);
    let is_in = names.iter().any(|name| name == mine);
    let Some(lowest) = others().min() else {
        return if is_in { Leaving::Last } else { Leaving::Done };
    };
    match others().max() {
        Some(highest) if is_in && mine < lowest.as_str() => Leaving::Stay(highest),
        _ if is_in => Leaving::GoAndWait(lowest),
        _ => Leaving::Wait(lowest),
    }
}

impl Inside {
    /// Waits until everybody who is inside wants to leave, or is gone.
    ///
    /// # Errors
    /// Those of the requests.
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
        let ready = path::join(&self.path, READY);
        loop {
            let look = || self.client.get_children(&self.path);
            let (names, _) = Retry::default().reads(look).await?;
            match leaving(&names, self.place.name()) {
                Leaving::Last | Leaving::Done => {
                    self.shut(&ready).await?;
                    self.go().await;
                    return Ok(());
                }
                Leaving::Stay(other) | Leaving::Wait(other) => self.gone(other).await?,
                Leaving::GoAndWait(other) => {
                    self.go().await;
                    self.gone(other).await?;
                    // From here on there may be others, who come for the next round.
                    let look = || self.client.exists(&ready);
                    let stat = Retry::default().reads(look).await?;
                    if stat.is_none_or(|stat| stat.czxid != self.round) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Closes the barrier, unless that was done.
    async fn shut(&self, ready: &str) -> Result<()> {
        let stat = Retry::default().reads(|| self.client.exists(ready)).await?;
        if stat.is_some_and(|stat| stat.czxid == self.round) {
            cleanup::delete(&self.client, ready).await;
        }
        Ok(())
    }

    async fn go(&mut self) {
        cleanup::delete(&self.client, self.place.path()).await;
        self.place.is_gone();
    }

    async fn gone(&self, other: &str) -> Result<()> {
        let path = path::join(&self.path, other);
        let look = || self.client.watch_exists(&path);
        let (stat, change) = Retry::default().reads(look).await?;
        if stat.is_some() {
            change.await?;
        }
        Ok(())
    }
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
        check("b ready c a", "b", Leaving::GoAndWait("a"));
        check("b ready c a", "c", Leaving::GoAndWait("a"));
        check("a ready", "b", Leaving::Wait("a"));
    }

    #[test]
    fn the_last_one_closes_the_barrier() {
        check("a ready", "a", Leaving::Last);
        // The lowest has died, and with it what the others waited for.
        check("ready", "b", Leaving::Done);
        check("", "b", Leaving::Done);
    }
}
