//! A queue whose items survive their workers, and whose workers do not cause a herd effect.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::warn;
use zebu_client::{
    Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry, Transaction, Version, Watch,
};

use crate::cleanup::{self, Mine, Whose};
use crate::curator_queues::elements;
use crate::current::{after_sync, with_data};
use crate::error::found_out;
use crate::line::Kind;
use crate::lock::Waited;
use crate::once::once;
use crate::order::{self, Order};
use crate::place::Place;
use crate::{Error, Held, Lock, News, Result, faults, path};

/// A queue: items are put in, and each is finished once, by the worker that has taken it.
///
/// ```text
/// PATH/items/NNN-SEQUENCE   an item: the name is its priority and its sequence number
/// PATH/taken/ITEM           ephemeral: a worker has taken the item
/// PATH/line/                the workers that wait for an item, in order
/// PATH/puts/                ephemeral, for a moment: an item is being put in
/// ```
///
/// An item leaves the queue when it is finished, not when it is taken. If the worker's session
/// ends, its mark is deleted, and other workers can take the item. Only the first worker in line
/// watches the items, so an event wakes only one. If the first one does not react while there are
/// items to take, it loses its place after some seconds, and the next one becomes the first.
///
/// Items are taken by priority, lowest number first, and within a priority in the order in which
/// they were put in.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Queue;
///
/// let queue = Queue::new(&client, "/queue", &Acls::creator());
/// queue.put("later", 9).await?;
/// queue.put("sooner", 1).await?;
/// let item = queue.take().await?;
/// assert_eq!(item.data(), b"sooner");
/// item.finish().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    acl: Acls,
    items: String,
    taken: String,
    line: String,
    puts: String,
    order: Order,
}

/// The interval at which waiting workers check the first in line. The first in line loses its place
/// if it has left an item untouched from one check to the next.
const STILL: Duration = Duration::from_secs(3);

impl Queue {
    /// The queue below this znode. Missing znodes are created with this ACL when they are needed.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// # drop(queue);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        let below = |name| path::join(path, name);
        Self {
            client: client.clone(),
            acl: acl.clone(),
            items: below("items"),
            taken: below("taken"),
            line: below("line"),
            puts: below("puts"),
            order: Order::Own,
        }
    }

    /// A queue with items directly below a znode, with other names and another order. The marks of
    /// taken items are below a second znode.
    pub(crate) fn ordered(
        client: &Client,
        items: &str,
        marks: &str,
        acl: &Acls,
        order: Order,
    ) -> Self {
        let below = |name| path::join(marks, name);
        Self {
            client: client.clone(),
            acl: acl.clone(),
            items: items.to_owned(),
            taken: marks.to_owned(),
            line: below("line"),
            puts: below("puts"),
            order,
        }
    }

    /// Creates the znodes of the queue. Call this before [`Queue::put_in`].
    ///
    /// # Errors
    /// The errors of [`Client::create_all`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// zebu_recipes::Queue::new(&client, "/queue", &Acls::creator()).prepare().await?;
    /// assert!(client.exists("/queue/items").await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn prepare(&self) -> Result<()> {
        for path in [&self.items, &self.taken, &self.line, &self.puts] {
            Retry::default().reads(|| self.client.create_all(path, &self.acl)).await?;
        }
        Ok(())
    }

    /// Puts an item into the queue once, even if the connection is lost meanwhile. Items with a
    /// lower priority number are taken first.
    ///
    /// # Errors
    /// The errors of [`Client::create`]. [`ErrorKind::Unknown`] if the connection was lost
    /// repeatedly: the item may be in the queue, and a caller that puts it in again may put it in
    /// twice.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.put("work", 5).await?;
    /// assert_eq!(queue.len().await?, 1);
    /// # Ok(()) });
    /// ```
    pub async fn put(&self, data: impl AsRef<[u8]>, priority: u8) -> Result<()> {
        self.put_as(&own_name(priority), data.as_ref()).await
    }

    /// Puts an item into the queue whose name begins with `name`.
    pub(crate) async fn put_as(&self, name: &str, data: &[u8]) -> Result<()> {
        self.put_all_as(name, &[data]).await
    }

    /// Puts several items into the queue, all or none.
    pub(crate) async fn put_all_as(&self, name: &str, items: &[&[u8]]) -> Result<()> {
        let path = path::join(&self.items, name);
        let add = |transaction: &mut Transaction| {
            for data in items {
                transaction.create(&path, data, CreateMode::PersistentSequential, &self.acl);
            }
        };
        let put = || once(&self.client, &self.puts, &self.acl, add, faults::trusts_a_lost_put());
        match put().await {
            Err(Error::Client(error)) if error.kind() == ErrorKind::Gone => {
                self.prepare().await?;
                put().await
            }
            done => done,
        }
    }

    /// Adds the creation of an item to a transaction. Any process must have called
    /// [`Queue::prepare`] before.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, CreateMode};
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.prepare().await?;
    /// // The first process puts the item in. For all others the whole transaction fails.
    /// let mut transaction = client.transaction();
    /// transaction.create("/known", "", CreateMode::Persistent, &Acls::creator());
    /// queue.put_in(&mut transaction, "work", 5);
    /// transaction.commit().await?;
    /// # Ok(()) });
    /// ```
    pub fn put_in(&self, transaction: &mut Transaction, data: impl AsRef<[u8]>, priority: u8) {
        let path = path::join(&self.items, &own_name(priority));
        transaction.create(&path, data, CreateMode::PersistentSequential, &self.acl);
    }

    /// Number of items, including those that workers have taken.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// assert_eq!(queue.len().await?, 0);
    /// # Ok(()) });
    /// ```
    pub async fn len(&self) -> Result<usize> {
        let look = || self.client.exists(&self.items);
        let stat = Retry::default().reads(look).await?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    /// Whether the queue has no items, neither free nor taken ones.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.put("work", 5).await?;
    /// assert!(!queue.is_empty().await?);
    /// # Ok(()) });
    /// ```
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Waits for an item that no worker has taken, and takes it. The item belongs to this session
    /// until it is finished, this value is dropped, or the session ends.
    ///
    /// Dropping the future takes nothing.
    ///
    /// # Errors
    /// The errors of waiting in line, see [`Lock::exclusive`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.put("work", 5).await?;
    /// drop(queue.take().await?); // not finished: the item is free again
    /// queue.take().await?.finish().await?;
    /// # Ok(()) });
    /// ```
    pub async fn take(&self) -> Result<Item> {
        self.prepare().await?;
        loop {
            let first = match self.wait_in_line().await {
                Ok(first) => first,
                // Other workers removed this place because it seemed to be stuck.
                Err(Error::Deleted(_)) => continue,
                Err(error) => return Err(error),
            };
            if let Some(item) = self.take_as_first(first).await? {
                return Ok(item);
            }
        }
    }

    /// Waits until this worker is the first in line.
    async fn wait_in_line(&self) -> Result<Held> {
        let line = Lock::new(&self.client, &self.line, &self.acl);
        let place = line.take_place(Kind::Exclusive).await?;
        let mut let_lie = None;
        loop {
            match line.wait_at(&place, STILL).await? {
                Waited::Held(events) => return Ok(Held::new(&self.client, place, events)),
                Waited::Still(first) => self.pass_if_still(&first, &mut let_lie).await?,
            }
        }
    }

    /// Deletes the place of the first in line if that worker has left an item untouched since the
    /// last check: its process is stopped, or its program does not poll the future. A worker that
    /// continues takes another place.
    async fn pass_if_still(&self, first: &str, let_lie: &mut Option<LetLie>) -> Result<()> {
        let look = || async {
            let items = self.client.get_children(&self.items);
            let taken = self.client.get_children(&self.taken);
            Ok((items.await?.0, taken.await?.0))
        };
        let (items, taken) = Retry::default().reads(look).await?;
        let item = match self.next(&items, &taken.into_iter().collect()) {
            Next::Now(name) => Some(name.to_owned()),
            Next::At(_) | Next::Never => None,
        };
        let seen = item.map(|item| LetLie { first: first.to_owned(), item });
        if seen.is_some() && *let_lie == seen {
            warn!(
                "{first} is first in line but takes no item of {}: the next in line takes over",
                self.items
            );
            let place = Mine { path: path::join(&self.line, first), whose: Whose::Unique };
            match cleanup::delete(&self.client, &place).await {
                // The creator's ACL may forbid others to delete the place.
                Err(error) if error.is_session_over() => return Err(error),
                _ => {}
            }
        }
        *let_lie = seen;
        Ok(())
    }

    /// Takes an item; `None` if this session is no longer the first in line.
    async fn take_as_first(&self, mut first: Held) -> Result<Option<Item>> {
        loop {
            let (items, taken, changes) = self.look().await?;
            let next = self.next(&items, &taken);
            if let Next::Now(name) = next {
                // Another worker took or finished it meanwhile: look again.
                let Some(item) = self.claim(name).await? else { continue };
                return match first.release().await {
                    // Another worker may be first by now, but the item is ours.
                    Ok(()) | Err(Error::Deleted(_)) => Ok(Some(item)),
                    Err(error) => Err(error),
                };
            }
            let until_ready = async {
                match next {
                    Next::At(ready_ms) => {
                        tokio::time::sleep(order::left(ready_ms, self.now_ms())).await
                    }
                    _ => std::future::pending().await,
                }
            };
            let (mut put, mut given_back) = changes;
            tokio::select! {
                biased;
                () = until_ready => {}
                change = &mut put => drop(change?),
                change = &mut given_back => drop(change?),
                news = first.news() => match news {
                    News::Lost if self.client.state().is_over() => {
                        // Fails as the requests of an ended session do.
                        self.client.connected().await?;
                    }
                    News::Lost => return Ok(None),
                    News::Suspended | News::Resumed | News::Wanted => {}
                },
            }
        }
    }

    /// The names of all items, in no particular order.
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        match Retry::default().reads(|| self.client.get_children(&self.items)).await {
            Ok((names, _)) => Ok(names),
            Err(error) if error.kind() == ErrorKind::Gone => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an item that no worker has taken. Returns whether the item existed and was free.
    pub(crate) async fn remove_free(&self, name: &str) -> Result<bool> {
        let (item, mark) = (path::join(&self.items, name), path::join(&self.taken, name));
        self.prepare().await?;
        let commit = || {
            // Creating the mark succeeds only if no worker has taken the item.
            let mut transaction = self.client.transaction();
            transaction.create(&mark, "", CreateMode::Ephemeral, &self.acl);
            transaction.delete(&item, Version::ANY);
            transaction.delete(&mark, Version::ANY);
            transaction.commit()
        };
        match Retry::default().reads(commit).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Conflict) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn next<'a>(&self, items: &'a [String], taken: &BTreeSet<String>) -> Next<'a> {
        let now_ms = if faults::ignores_delays() { u64::MAX } else { self.now_ms() };
        next(self.order, items, taken, now_ms)
    }

    fn now_ms(&self) -> u64 {
        order::since_epoch_ms(self.client.wall_clock())
    }

    /// The items, the names of the taken ones, and watches on both.
    async fn look(&self) -> Result<(Vec<String>, BTreeSet<String>, (Watch, Watch))> {
        let look = || async {
            // In this order, an item that is finished between the two reads is seen as taken or not
            // at all.
            let items = self.client.watch_children(&self.items);
            let taken = self.client.watch_children(&self.taken);
            Ok((items.await?, taken.await?))
        };
        let ((items, _, put), (taken, _, given_back)) = Retry::default().reads(look).await?;
        Ok((items, taken.into_iter().collect(), (put, given_back)))
    }

    /// Takes this item; `None` if another worker has taken or finished it.
    async fn claim(&self, name: &str) -> Result<Option<Item>> {
        let (item, mark) = (path::join(&self.items, name), path::join(&self.taken, name));
        let queue = Self { client: self.client.unowned(), ..self.clone() };
        let making = async move { queue.mark(&item, mark).await };
        let place = Place::made_by(&self.client, making).await?;
        let Some(mark) = place else { return Ok(None) };
        let path = path::join(&self.items, name);
        let (data, _) = Retry::default().reads(|| self.client.get_data(&path)).await?;
        Ok(Some(Item { client: self.client.clone(), path, data: data.to_vec(), mark }))
    }

    /// Marks an existing item as taken, unless it is marked already.
    async fn mark(&self, item: &str, mark: String) -> Result<Option<Place>> {
        // The name distinguishes this mark from all others, also from those of this session.
        let name = self.client.unique_name();
        let commit = || {
            let mut transaction = self.client.transaction();
            transaction.check(item, Version::ANY);
            transaction.create(&mark, &name, CreateMode::Ephemeral, &self.acl);
            transaction.commit()
        };
        let unknown = match Retry::default().writes(commit).await {
            Ok(_) => None,
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Conflict) => {
                return Ok(None);
            }
            Err(error) if error.kind() != ErrorKind::Unknown => return Err(error.into()),
            Err(error) => Some(error),
        };
        let look = || with_data(&self.client, &mark, name.as_bytes());
        match Retry::default().reads(look).await {
            Ok(mine) => Ok(mine.map(|stat| Place::of(&self.client, mark, stat))),
            Err(error) => {
                // A mark that stays would block the item for ever.
                let whose = Whose::WithData(name.into_bytes());
                cleanup::delete_behind(&self.client, Mine { path: mark, whose });
                let unknown = unknown.unwrap_or_else(|| error.clone());
                Ok(found_out(Err(error), &unknown)?)
            }
        }
    }
}

/// An item that the first in line could have taken.
#[derive(Debug, PartialEq, Eq)]
struct LetLie {
    first: String,
    item: String,
}

/// The item that can be taken next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next<'a> {
    Now(&'a str),
    /// No item can be taken before this time, in milliseconds since the Unix epoch.
    At(u64),
    /// No item can be taken until the items change.
    Never,
}

/// The first item that no worker has taken.
fn next<'a>(order: Order, items: &'a [String], taken: &BTreeSet<String>, now_ms: u64) -> Next<'a> {
    let mut free = order.sort(items).into_iter().filter(|name| !taken.contains(*name));
    match free.next() {
        None => Next::Never,
        Some(name) => match order.ready_ms(name) {
            ready_ms if ready_ms <= now_ms => Next::Now(name),
            ready_ms => Next::At(ready_ms),
        },
    }
}

fn own_name(priority: u8) -> String {
    format!("{priority:03}-")
}

/// A taken item. Dropping this value returns it to the queue.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
/// queue.put("work", 5).await?;
/// let item = queue.take().await?;
/// assert_eq!(item.name(), "005-0000000000");
/// item.finish().await?;
/// assert!(queue.is_empty().await?);
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "an item that is dropped goes back into the queue"]
pub struct Item {
    client: Client,
    path: String,
    data: Vec<u8>,
    mark: Place,
}

impl Item {
    /// The data of the item.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.put("work", 5).await?;
    /// assert_eq!(queue.take().await?.data(), b"work");
    /// # Ok(()) });
    /// ```
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The elements of the item, in queues with Curator's znodes.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the data are not in Curator's format. Curator drops such items.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::PlainQueue::new(&client, "/jobs", "/locks", &Acls::creator());
    /// queue.put(&[b"job"]).await?;
    /// assert_eq!(queue.take().await?.elements()?, [b"job"]);
    /// # Ok(()) });
    /// ```
    pub fn elements(&self) -> Result<Vec<&[u8]>> {
        elements(&self.data).ok_or_else(|| Error::Foreign(self.path.clone()))
    }

    /// The item's name within the queue.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.put("work", 5).await?;
    /// assert!(queue.take().await?.name().starts_with("005-"));
    /// # Ok(()) });
    /// ```
    pub fn name(&self) -> &str {
        path::name(&self.path)
    }

    /// Removes the item from the queue: the work is done.
    ///
    /// # Errors
    /// [`Error::Deleted`] if the item no longer belonged to this session: its next worker does the
    /// work again. Otherwise the errors of the request.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.put("work", 5).await?;
    /// queue.take().await?.finish().await?;
    /// # Ok(()) });
    /// ```
    pub async fn finish(self) -> Result<()> {
        self.finish_with(|_| {}).await
    }

    /// Removes the item from the queue and executes further operations in the same transaction:
    /// either all of it happens, or none. The operations that `more` adds come first.
    ///
    /// # Errors
    /// As for [`Item::finish`]. If one of the added operations fails, this returns its error, and
    /// the item goes back to the queue. [`zebu_client::Error::failed_operation`] tells which
    /// operation it was.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, CreateMode};
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.put("2 + 3", 5).await?;
    /// let item = queue.take().await?;
    /// item.finish_with(|transaction| {
    ///     transaction.create("/result", "5", CreateMode::Persistent, &Acls::creator());
    /// })
    /// .await?;
    /// # Ok(()) });
    /// ```
    pub async fn finish_with(mut self, more: impl Fn(&mut Transaction)) -> Result<()> {
        self.try_finish(more).await
    }

    /// As [`Item::finish_with`]. After a failure the item is still taken, so that the caller can
    /// try other operations.
    ///
    /// # Errors
    /// As for [`Item::finish_with`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::{Acls, Version};
    /// let queue = zebu_recipes::Queue::new(&client, "/queue", &Acls::creator());
    /// queue.put("work", 5).await?;
    /// let mut item = queue.take().await?;
    /// let more = |transaction: &mut zebu_client::Transaction| {
    ///     transaction.check("/none", Version::ANY);
    /// };
    /// item.try_finish(more).await.unwrap_err();
    /// item.finish().await?;
    /// # Ok(()) });
    /// ```
    pub async fn try_finish(&mut self, more: impl Fn(&mut Transaction)) -> Result<()> {
        let commit = || {
            let mut transaction = self.client.transaction();
            more(&mut transaction);
            transaction.delete(self.mark.path(), Version::ANY);
            transaction.delete(&self.path, Version::ANY);
            transaction.commit()
        };
        let mut unknown = None;
        let mut attempts = Retry::default().attempts;
        loop {
            let error = match Retry::default().writes(commit).await {
                Ok(_) => break,
                Err(error) => error,
            };
            let is_mine =
                error.path() == Some(self.mark.path()) && error.code() == ErrorCode::NO_NODE;
            if error.kind() == ErrorKind::Unknown && attempts > 1 {
                attempts -= 1;
                // If the lost attempt succeeded, another one would fail. So first find out whether
                // the mark still exists.
                let mark = self.mark.path();
                let look = || after_sync(&self.client, mark, || self.client.exists(mark));
                if found_out(Retry::default().reads(look).await, &error)?.is_none() {
                    break;
                }
                unknown = Some(error);
            } else if is_mine && unknown.is_some() {
                break;
            } else if is_mine {
                self.mark.is_gone();
                return Err(Error::Deleted(self.path.clone()));
            } else {
                return Err(error.into());
            }
        }
        self.mark.is_gone();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(order: Order, items: &str, taken: &str, now_ms: u64, expected: Next<'_>) {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (items, taken) = (list(items), list(taken).into_iter().collect());
        assert_eq!(next(order, &items, &taken, now_ms), expected);
    }

    #[test]
    fn what_is_taken_and_what_is_no_item_is_left() {
        let items = "005-0000000002 005-0000000001 note x-0000000003";
        check(Order::Own, items, "", 0, Next::Now("005-0000000001"));
        check(Order::Own, items, "005-0000000001", 0, Next::Now("005-0000000002"));
        check(Order::Own, items, "005-0000000001 005-0000000002", 0, Next::Never);
    }

    #[test]
    fn what_is_not_ready_is_waited_for() {
        let items = "queue-|00000020|0000000001 queue-|00000010|0000000002";
        let first = "queue-|00000010|0000000002";
        check(Order::Delay, items, "", 15, Next::At(16));
        check(Order::Delay, items, "", 16, Next::Now(first));
        check(Order::Delay, items, first, 16, Next::At(32));
    }
}
