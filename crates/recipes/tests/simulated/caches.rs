//! Caches: whatever happens, a cache has no gap, reports each change once, and equals the tree in
//! the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_client::{Acls, Client, CreateMode, Version, Zxid};
use zebu_recipes::{Cache, Change, Znode};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};

/// The kind of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Node,
    Children,
    Tree,
}

pub(crate) const GUESTS: usize = 4;

const ROOT: &str = "/tree";

/// The creation and the data of each znode.
type Picture = BTreeMap<String, (Zxid, Vec<u8>)>;

/// The content of a guest's cache.
#[derive(Debug, Default)]
struct Shown {
    is_current: bool,
    picture: Picture,
    /// The same, derived from the reported changes.
    told: Picture,
}

#[derive(Default)]
struct Book {
    shown: BTreeMap<usize, Shown>,
    broken: Option<String>,
    is_calm: bool,
    next: u64,
    writes: u64,
    changes: u64,
    resets: u64,
}

pub(crate) struct Caches {
    recipe: Recipe,
    book: Mutex<Book>,
}

fn entry(znode: &Znode) -> (String, (Zxid, Vec<u8>)) {
    (znode.path.clone(), (znode.stat.czxid, znode.data.to_vec()))
}

/// A reader combines the changes.
struct Reader {
    told: Picture,
    written: BTreeMap<String, Zxid>,
}

impl Reader {
    /// Applies a change, which must fit the earlier changes.
    fn take(&mut self, change: Change) -> Result<(), String> {
        let was = match &change {
            Change::Created(now) => {
                let (path, value) = entry(now);
                self.newer(now)?;
                self.told.insert(path, value).is_none()
            }
            Change::Written { before, now } => {
                let (path, value) = entry(now);
                self.newer(now)?;
                self.told.insert(path, value) == Some(entry(before).1)
            }
            Change::Deleted(before) => {
                let (path, value) = entry(before);
                self.told.remove(&path) == Some(value)
            }
            Change::Reset => {
                self.told.clear();
                self.written.clear();
                true
            }
            _ => true,
        };
        if was { Ok(()) } else { Err(format!("this fits to nothing told before: {change:?}")) }
    }

    /// A znode never returns to an older state, and has only data that were written to it.
    fn newer(&mut self, now: &Znode) -> Result<(), String> {
        let before = self.written.insert(now.path.clone(), now.stat.mzxid);
        if before.is_some_and(|before| before > now.stat.mzxid) {
            return Err(format!("{} goes back from {before:?} to {}", now.path, now.stat.mzxid));
        }
        let data = String::from_utf8_lossy(&now.data);
        if !data.is_empty() && data.split(' ').next() != Some(&now.path) {
            return Err(format!("{} has the data {data:?}", now.path));
        }
        Ok(())
    }
}

impl Caches {
    pub(crate) fn new(recipe: Recipe) -> Self {
        Self { recipe, book: Mutex::default() }
    }

    fn cache(&self, client: &Client) -> Cache {
        match self.recipe {
            Recipe::Node => Cache::node(client, ROOT),
            Recipe::Children => Cache::children(client, ROOT),
            Recipe::Tree => Cache::tree(client, ROOT),
        }
        .start()
    }

    /// Writes to a random place in the tree.
    async fn disturb(&self, guest: &mut Guest, client: &Client) {
        let number = {
            let mut book = self.book.lock();
            book.next += 1;
            book.writes += 1;
            book.next
        };
        let mut path = ROOT.to_owned();
        let depth = if self.recipe == Recipe::Node { 0 } else { guest.random.below(4) };
        for _ in 0..depth {
            path += &format!("/{}", guest.random.below(4));
        }
        let acl = &Acls::open_to_all();
        let data = format!("{path} {number}");
        let done = match guest.random.below(5) {
            0 | 1 => client.create(&path, &data, CreateMode::Persistent, acl).await.map(drop),
            2 if guest.random.one_in(3) => client.delete_all(&path).await.map(drop),
            2 => client.delete(&path, Version::ANY).await,
            _ => client.set_data(&path, &data, Version::ANY).await.map(drop),
        };
        guest.tells(|| format!("writes {data}: {done:?}"));
    }

    async fn live(&self, guest: &mut Guest, client: &Client) {
        let cache = self.cache(client);
        let mut changes = cache.changes();
        let mut reader = Reader { told: Picture::new(), written: BTreeMap::new() };
        while !client.state().is_over() {
            let until = tokio::time::Instant::now() + guest.random.ms(5, 300);
            // A slow reader reads nothing for a while.
            while let Ok(change) = tokio::time::timeout_at(until, changes.next()).await {
                let Ok(change) = change else {
                    self.book.lock().shown.remove(&guest.number);
                    return;
                };
                guest.tells(|| format!("is told {change:?}"));
                let mut book = self.book.lock();
                book.changes += 1;
                book.resets += u64::from(change == Change::Reset);
                if let Err(what) = reader.take(change) {
                    book.broken = Some(format!("guest {}: {what}", guest.number));
                }
            }
            if guest.random.one_in(3) && !self.book.lock().is_calm {
                self.disturb(guest, client).await;
            }
            let shown = Shown {
                is_current: cache.is_current(),
                picture: cache.snapshot().iter().map(|znode| entry(znode)).collect(),
                told: reader.told.clone(),
            };
            self.book.lock().shown.insert(guest.number, shown);
        }
    }

    fn wanted(&self, world: &World) -> Picture {
        fn collect(world: &World, path: &str, depth: usize, into: &mut Picture) {
            let Some(value) = world.znode(path) else { return };
            into.insert(path.to_owned(), value);
            if depth > 0 {
                for name in world.children(path) {
                    collect(world, &format!("{path}/{name}"), depth - 1, into);
                }
            }
        }
        let mut picture = Picture::new();
        let depth = match self.recipe {
            Recipe::Node => 0,
            Recipe::Children => 1,
            Recipe::Tree => usize::MAX,
        };
        collect(world, ROOT, depth, &mut picture);
        picture
    }
}

impl Family for Caches {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                self.live(&mut guest, &client).await;
                self.book.lock().shown.remove(&guest.number);
            }
        })
    }

    fn killed(&self, guest: usize) {
        self.book.lock().shown.remove(&guest);
    }

    fn check(&self, _: &World, _: Duration) -> Result<(), String> {
        self.book.lock().broken.clone().map_or(Ok(()), Err)
    }

    fn calms(&self, _: Duration) {
        self.book.lock().is_calm = true;
    }

    fn settled(&self, world: &World) -> Result<(), String> {
        let book = self.book.lock();
        let wanted = self.wanted(world);
        for guest in 0..GUESTS {
            let Some(shown) = book.shown.get(&guest) else {
                return Err(format!("guest {guest} shows nothing"));
            };
            if !shown.is_current || shown.picture != wanted || shown.told != wanted {
                return Err(format!("guest {guest} shows {shown:?}, and the tree is {wanted:?}"));
            }
        }
        Ok(())
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let book = self.book.lock();
        vec![("written", book.writes), ("changes", book.changes), ("resets", book.resets)]
    }
}
