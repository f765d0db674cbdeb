//! Queues: no item is lost, none is finished twice, and none is put in twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use zebu_client::{Acls, Client, ErrorKind};
use zebu_recipes::{
    DelayQueue, Error, IdQueue, Item, KazooLockingQueue, KazooQueue, PlainQueue, PriorityQueue,
    Queue, Result, ShardedQueue,
};
use zebu_sim::World;

use crate::house::{Family, Guest, Program, WALL};

/// The kind of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Own,
    Sharded,
    Plain,
    Priority,
    Delay,
    Id,
    /// kazoo's queue whose workers keep an item until it is finished.
    Locking,
    /// kazoo's queue whose workers remove an item before they have it.
    Removing,
}

pub(crate) const GUESTS: usize = 4;

const SHARDS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    Begun,
    Done,
    /// The recipe reported that the item was not put in.
    Refused,
    Unknown,
}

/// The known facts about an item.
#[derive(Debug)]
struct Known {
    put: Put,
    /// Its znode existed.
    was_there: Option<String>,
    /// A worker has begun to finish it.
    is_ending: bool,
    finished: u32,
    /// The time from which it may be taken, if the queue has delays.
    ready: Duration,
}

#[derive(Default)]
struct Book {
    items: BTreeMap<String, Known>,
    /// The items that are finished and gone.
    closed: BTreeSet<String>,
    twice: Option<String>,
    early: Option<String>,
    puts: u64,
    finished: u64,
    given_back: u64,
    /// The removals whose worker does not know yet, or will never know, which item it got.
    removals: usize,
}

pub(crate) struct Queues {
    recipe: Recipe,
    book: Mutex<Book>,
}

impl Queues {
    pub(crate) fn new(recipe: Recipe) -> Self {
        Self { recipe, book: Mutex::default() }
    }

    /// The parents of the items.
    fn places(&self) -> Vec<String> {
        match self.recipe {
            Recipe::Own => vec!["/queue/items".to_owned()],
            Recipe::Sharded => {
                (0..SHARDS).map(|shard| format!("/shards/shard-{shard:03}/items")).collect()
            }
            Recipe::Plain | Recipe::Priority | Recipe::Delay | Recipe::Id => {
                vec!["/items".to_owned()]
            }
            Recipe::Locking => vec!["/locking/entries".to_owned()],
            Recipe::Removing => vec!["/removing".to_owned()],
        }
    }

    async fn put(&self, client: &Client, data: &str, priority: u8, ready: Duration) -> Result<()> {
        let acl = &Acls::open_to_all();
        match self.recipe {
            Recipe::Own => Queue::new(client, "/queue", acl).put(data, priority).await,
            Recipe::Sharded => {
                ShardedQueue::new(client, "/shards", SHARDS, acl).put(data, priority).await
            }
            Recipe::Plain => {
                PlainQueue::new(client, "/items", "/marks", acl).put(&[data.as_bytes()]).await
            }
            Recipe::Priority => {
                let queue = PriorityQueue::new(client, "/items", "/marks", acl);
                queue.put(&[data.as_bytes()], i32::from(priority)).await
            }
            Recipe::Delay => {
                let queue = DelayQueue::new(client, "/items", "/marks", acl);
                queue.put(&[data.as_bytes()], UNIX_EPOCH + WALL + ready).await
            }
            Recipe::Id => {
                let queue = IdQueue::new(client, "/items", "/marks", acl);
                queue.put(&[data.as_bytes()], &priority.to_string()).await
            }
            Recipe::Locking => {
                let queue = KazooLockingQueue::new(client, "/locking", acl);
                queue.put(data, u16::from(priority)).await
            }
            Recipe::Removing => {
                KazooQueue::new(client, "/removing", acl).put(data, u16::from(priority)).await
            }
        }
    }

    async fn take(&self, client: &Client) -> Result<Item> {
        let acl = &Acls::open_to_all();
        match self.recipe {
            Recipe::Own => Queue::new(client, "/queue", acl).take().await,
            Recipe::Sharded => ShardedQueue::new(client, "/shards", SHARDS, acl).take().await,
            Recipe::Plain => PlainQueue::new(client, "/items", "/marks", acl).take().await,
            Recipe::Priority => PriorityQueue::new(client, "/items", "/marks", acl).take().await,
            Recipe::Delay => DelayQueue::new(client, "/items", "/marks", acl).take().await,
            Recipe::Id => IdQueue::new(client, "/items", "/marks", acl).take().await,
            Recipe::Locking => KazooLockingQueue::new(client, "/locking", acl).take().await,
            Recipe::Removing => unreachable!("its items are removed, not taken"),
        }
    }

    /// Removes an item at once.
    async fn remove(&self, guest: &mut Guest, client: &Client) {
        let patience = guest.random.ms(100, 6_000);
        self.book.lock().removals += 1;
        let queue = KazooQueue::new(client, "/removing", &Acls::open_to_all());
        let removed = tokio::time::timeout(patience, queue.get()).await;
        let mut book = self.book.lock();
        let data = match removed {
            Ok(Ok(data)) => data,
            Ok(Err(Error::Client(error))) if error.kind() == ErrorKind::NotExecuted => None,
            _ => return,
        };
        book.removals -= 1;
        let Some(data) = data else { return };
        let data = String::from_utf8_lossy(&data).into_owned();
        book.finished += 1;
        match book.items.get_mut(&data) {
            Some(known) => known.finished += 1,
            None => book.twice = Some(data),
        }
    }

    async fn produce(&self, guest: &mut Guest, client: &Client, number: &mut u64) {
        *number += 1;
        let data = format!("item {} of {}.", number, guest.number);
        let ready = guest.clock().now() + guest.random.ms(0, 3_000);
        let begun =
            Known { put: Put::Begun, was_there: None, is_ending: false, finished: 0, ready };
        self.book.lock().items.insert(data.clone(), begun);
        let result = self.put(client, &data, guest.random.below(4) as u8, ready).await;
        let mut book = self.book.lock();
        book.puts += u64::from(result.is_ok());
        if let Some(known) = book.items.get_mut(&data) {
            known.put = match result {
                Ok(()) => Put::Done,
                Err(Error::Client(error)) if error.kind() == ErrorKind::NotExecuted => Put::Refused,
                Err(_) => Put::Unknown,
            };
        }
    }

    async fn consume(&self, guest: &mut Guest, client: &Client) {
        let patience = guest.random.ms(100, 6_000);
        let taken = tokio::time::timeout(patience, self.take(client)).await;
        let Ok(Ok(item)) = taken else { return };
        let data = match self.recipe {
            Recipe::Own | Recipe::Sharded | Recipe::Locking | Recipe::Removing => item.data(),
            Recipe::Plain | Recipe::Priority | Recipe::Delay | Recipe::Id => {
                match item.elements() {
                    Ok(elements) => elements[0],
                    Err(_) => &[],
                }
            }
        };
        let data = String::from_utf8_lossy(data).into_owned();
        if self.recipe == Recipe::Delay {
            let now = guest.clock().now();
            let mut book = self.book.lock();
            let ready = book.items.get(&data).map_or(Duration::ZERO, |known| known.ready);
            if now + Duration::from_millis(1) < ready {
                book.early =
                    Some(format!("{data} is given out at {now:?}, and not before {ready:?}"));
            }
        }
        guest.pauses(0, 300).await;
        if guest.random.one_in(5) {
            self.book.lock().given_back += 1;
            drop(item);
            return;
        }
        if let Some(known) = self.book.lock().items.get_mut(&data) {
            known.is_ending = true;
        }
        let result = item.finish().await;
        let mut book = self.book.lock();
        if result.is_err() {
            return;
        }
        book.finished += 1;
        match book.items.get_mut(&data) {
            Some(known) => known.finished += 1,
            None => book.twice = Some(data),
        }
    }
}

impl Family for Queues {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            // The items of an earlier life have other numbers.
            let mut number = guest.clock().now().as_millis() as u64 * 1000;
            loop {
                let client = guest.client().await;
                while !client.state().is_over() {
                    if guest.is_busy() && guest.random.one_in(2) {
                        self.produce(&mut guest, &client, &mut number).await;
                    } else if self.recipe == Recipe::Removing {
                        self.remove(&mut guest, &client).await;
                    } else {
                        self.consume(&mut guest, &client).await;
                    }
                    guest.pauses(100, 800).await;
                }
            }
        })
    }

    fn check(&self, world: &World, _: Duration) -> std::result::Result<(), String> {
        let mut book = self.book.lock();
        if let Some(data) = &book.twice {
            return Err(format!("finished twice: {data}"));
        }
        if let Some(early) = &book.early {
            return Err(early.clone());
        }
        let mut there = BTreeMap::new();
        for place in self.places() {
            for name in world.children(&place) {
                let path = format!("{place}/{name}");
                let Some((_, data)) = world.znode(&path) else { continue };
                let text = String::from_utf8_lossy(&data);
                // Curator's queues encode their elements.
                let Some(data) = text.find("item ").map(|at| &text[at..]) else { continue };
                let is_it = |known: &&String| data.starts_with(known.as_str());
                if let Some(again) = book.closed.iter().find(is_it) {
                    return Err(format!("{again} was finished, and comes again as {path}"));
                }
                let Some(data) = book.items.keys().find(is_it) else {
                    return Err(format!("{path} holds {text:?}, which nobody put in"));
                };
                let data = data.clone();
                if let Some(other) = there.insert(data, path.clone()) {
                    return Err(format!("put in once, and there twice: {other} and {path}"));
                }
            }
        }
        let mut missing = 0;
        let Book { items, removals, .. } = &mut *book;
        for (data, known) in items {
            let path = there.get(data);
            if let (Some(before), Some(path)) = (&known.was_there, path)
                && before != path
            {
                return Err(format!("{data} was {before}, and comes again as {path}"));
            }
            if path.is_some() {
                known.was_there = path.cloned();
            }
            match path {
                _ if known.finished > 1 => {
                    return Err(format!("finished twice: {data}, {known:?}"));
                }
                Some(path) if known.finished > 0 => {
                    return Err(format!("finished, and still there: {data} at {path}"));
                }
                Some(path) if known.put == Put::Refused => {
                    return Err(format!("not put in, it was said, and there: {data} at {path}"));
                }
                // Its worker is about to get it, or has crashed.
                None if known.put == Put::Done
                    && known.finished == 0
                    && self.recipe == Recipe::Removing
                    && missing < *removals =>
                {
                    missing += 1;
                }
                None if known.put == Put::Done && known.finished == 0 && !known.is_ending => {
                    return Err(format!("lost: {data}, {known:?}"));
                }
                _ => {}
            }
        }
        let (closed, open) = std::mem::take(&mut book.items)
            .into_iter()
            .partition(|(data, known)| known.finished == 1 && !there.contains_key(data));
        book.items = open;
        let closed: BTreeMap<String, Known> = closed;
        book.closed.extend(closed.into_keys());
        Ok(())
    }

    fn settled(&self, world: &World) -> std::result::Result<(), String> {
        let book = self.book.lock();
        let left: Vec<_> = self.places().iter().flat_map(|place| world.children(place)).collect();
        let is_open = |known: &&Known| known.put == Put::Begun;
        // A producer that was killed never reports the outcome of its item.
        let open = book.items.values().filter(is_open).count();
        if !left.is_empty() || open > 2 * GUESTS * 3 {
            return Err(format!("these items stay: {left:?}, {open} puts go on"));
        }
        Ok(())
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let book = self.book.lock();
        vec![("put", book.puts), ("finished", book.finished), ("given back", book.given_back)]
    }
}
