//! Counts and numbers: no change is lost or counted twice, and no number is given to two programs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_client::{Acls, Client, ErrorKind};
use zebu_recipes::{AtomicLong, Error, Ids, Result, SharedCount};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};

/// The kind of counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Atomic,
    Promoted,
    Shared,
    Ids,
}

pub(crate) const GUESTS: usize = 3;

#[derive(Default)]
struct Book {
    /// The changes that were begun and have not certainly failed.
    possible: i64,
    /// The acknowledged changes.
    done: i64,
    /// The number that each acknowledged change has produced.
    results: BTreeSet<i64>,
    twice: Option<i64>,
    calm: Duration,
    /// The time of each guest's last acknowledged change.
    last: BTreeMap<usize, Duration>,
}

pub(crate) struct Counters {
    recipe: Recipe,
    book: Mutex<Book>,
}

impl Counters {
    pub(crate) fn new(recipe: Recipe) -> Self {
        Self { recipe, book: Mutex::default() }
    }

    fn path(&self) -> &'static str {
        match self.recipe {
            Recipe::Atomic | Recipe::Promoted => "/counters/atomic",
            Recipe::Shared => "/shared",
            Recipe::Ids => "/ids",
        }
    }

    /// Adds one. Returns the new number.
    async fn add(&self, client: &Client) -> Result<Option<i64>> {
        let (path, acl) = (self.path(), &Acls::open_to_all());
        Ok(match self.recipe {
            Recipe::Atomic => Some(AtomicLong::new(client, path, acl).increment().await?.after),
            Recipe::Promoted => {
                let number = AtomicLong::new(client, path, acl).promoted_to_lock("/counters/lock");
                Some(number.increment().await?.after)
            }
            Recipe::Shared => {
                let count = SharedCount::new(client, path, 0, acl);
                let seen = count.get().await?;
                let next = seen.value + 1;
                count.try_set(seen.version, next).await?.map(|_| i64::from(next))
            }
            Recipe::Ids => {
                let range = Ids::new(client, path, acl).take(1).await?;
                Some(i64::try_from(range.start).unwrap_or(i64::MAX))
            }
        })
    }
}

impl Family for Counters {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                while !client.state().is_over() {
                    guest.pauses(0, 150).await;
                    self.book.lock().possible += 1;
                    let result = self.add(&client).await;
                    let mut book = self.book.lock();
                    match result {
                        Ok(Some(number)) => {
                            book.done += 1;
                            if !book.results.insert(number) {
                                book.twice = Some(number);
                            }
                            book.last.insert(guest.number, guest.clock().now());
                        }
                        Ok(None) | Err(Error::Contended(_)) => book.possible -= 1,
                        Err(Error::Client(error)) if error.kind() == ErrorKind::NotExecuted => {
                            book.possible -= 1;
                        }
                        Err(_) => {}
                    }
                }
            }
        })
    }

    fn check(&self, world: &World, _: Duration) -> std::result::Result<(), String> {
        let book = self.book.lock();
        if let Some(number) = book.twice {
            return Err(format!("two changes have led to {number}"));
        }
        if self.recipe == Recipe::Ids {
            return Ok(());
        }
        let number = match world.znode(self.path()).map(|(_, data)| data) {
            None => 0,
            Some(data) => match (<[u8; 8]>::try_from(&*data), <[u8; 4]>::try_from(&*data)) {
                (Ok(long), _) => i64::from_be_bytes(long),
                (_, Ok(int)) => i64::from(i32::from_be_bytes(int)),
                _ => return Err(format!("no number: {data:?}")),
            },
        };
        let Book { done, possible, .. } = *book;
        if !(done..=possible).contains(&number) {
            return Err(format!(
                "{done} of {possible} changes are acknowledged, and it is {number}"
            ));
        }
        Ok(())
    }

    fn calms(&self, now: Duration) {
        self.book.lock().calm = now;
    }

    fn settled(&self, _: &World) -> std::result::Result<(), String> {
        let book = self.book.lock();
        let is_late = |guest: &usize| book.last.get(guest).is_none_or(|at| *at < book.calm);
        match (0..GUESTS).find(is_late) {
            Some(guest) => Err(format!("guest {guest} cannot change anything")),
            None => Ok(()),
        }
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let book = self.book.lock();
        vec![("changes", book.done as u64), ("perhaps", (book.possible - book.done) as u64)]
    }
}
