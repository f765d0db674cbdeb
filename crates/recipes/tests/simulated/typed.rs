//! Typed znodes: no change is lost, one program creates each znode, no value breaks a rule, and
//! caches show all values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use zebu_client::{Acls, Client, ErrorKind, Version};
use zebu_recipes::{Cache, Error, ModelFault, Models};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};

pub(crate) const GUESTS: usize = 4;

const PARENT: &str = "/accounts";

/// After this number of operations, the programs continue with the next account.
const OPERATIONS: u64 = 20;

/// The value that programs write. The rule: both sides are equal.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Account {
    opened_by: String,
    debit: u64,
    credit: u64,
}

/// The known facts about an account.
#[derive(Debug, Default)]
struct Known {
    /// The program that was told that it created the account.
    opened_by: Option<String>,
    /// The acknowledged changes, and those that may have happened.
    done: u64,
    possible: u64,
}

#[derive(Default)]
struct Book {
    accounts: BTreeMap<String, Known>,
    cached: BTreeMap<usize, BTreeMap<String, Account>>,
    last: BTreeMap<usize, Duration>,
    calm: Duration,
    broken: Option<String>,
    next: u64,
    refused: u64,
}

#[derive(Default)]
pub(crate) struct Accounts(Mutex<Book>);

fn check(account: &Account) -> Result<(), ModelFault> {
    let is_even = account.debit == account.credit;
    if is_even { Ok(()) } else { Err("both sides must be equal".into()) }
}

fn accounts(world: &World) -> BTreeMap<String, Vec<u8>> {
    let names = world.children(PARENT).into_iter();
    names
        .filter_map(|id| Some((world.znode(&format!("{PARENT}/{id}"))?.1, id)))
        .map(|(data, id)| (id, data))
        .collect()
}

impl Accounts {
    /// One operation on an account. Returns whether anything was done.
    async fn act(&self, guest: &mut Guest, models: &Models<Account>) -> Result<bool, Error> {
        let (number, id) = {
            let mut book = self.0.lock();
            book.next += 1;
            (book.next, format!("a{}", book.next / OPERATIONS))
        };
        let account = models.at(&[&id])?;
        let opened_by = format!("{} {number}", guest.number);
        match guest.random.below(8) {
            0 | 1 => {
                let new = Account { opened_by: opened_by.clone(), debit: 0, credit: 0 };
                let is_new = account.create(&new).await?;
                guest.tells(|| format!("opens {id} as {opened_by}: {is_new}"));
                if is_new {
                    let mut book = self.0.lock();
                    let known = book.accounts.entry(id.clone()).or_default();
                    if let Some(other) = known.opened_by.replace(opened_by.clone()) {
                        let broken = format!("{id} was opened by {other} and by {opened_by}");
                        book.broken.get_or_insert(broken);
                    }
                }
                Ok(is_new)
            }
            2 => {
                let wrong = Account { opened_by, debit: number, credit: 0 };
                let refused = match guest.random.one_in(2) {
                    true => account.create(&wrong).await.map(drop),
                    false => account.set(&wrong, Version::ANY).await.map(drop),
                };
                let mut book = self.0.lock();
                match refused {
                    Err(Error::Model { .. }) => book.refused += 1,
                    other => {
                        let broken = format!("this breaks the rules: {other:?}");
                        book.broken.get_or_insert(broken);
                    }
                }
                Ok(false)
            }
            _ => {
                self.0.lock().accounts.entry(id.clone()).or_default().possible += 1;
                let changed = account
                    .update(|account| {
                        account.debit += 1;
                        account.credit += 1;
                    })
                    .await;
                guest.tells(|| format!("changes {id}: {changed:?}"));
                let mut book = self.0.lock();
                let known = book.accounts.entry(id).or_default();
                match &changed {
                    Ok(Some(_)) => known.done += 1,
                    Ok(None) | Err(Error::Contended(_)) => known.possible -= 1,
                    Err(Error::Client(error)) if error.kind() == ErrorKind::NotExecuted => {
                        known.possible -= 1;
                    }
                    Err(_) => {}
                }
                changed.map(|changed| changed.is_some())
            }
        }
    }

    fn look(&self, guest: &Guest, models: &Models<Account>, cache: &Cache) {
        let mut seen = BTreeMap::new();
        for znode in cache.snapshot().iter().filter(|znode| znode.path != PARENT) {
            let id = znode.path.rsplit('/').next().unwrap_or_default().to_owned();
            match models.record(znode) {
                Ok(record) => drop(seen.insert(id, record.value)),
                Err(error) => drop(self.0.lock().broken.get_or_insert(error.to_string())),
            }
        }
        self.0.lock().cached.insert(guest.number, seen);
    }

    async fn live(&self, guest: &mut Guest, client: &Client) -> Result<(), Error> {
        let acl = Acls::open_to_all();
        let models = Models::json(client, &format!("{PARENT}/{{id}}"), &acl)?.check(check);
        let cache = models.cached(&[])?;
        while !client.state().is_over() {
            guest.pauses(0, 150).await;
            if guest.is_busy() {
                let patience = Duration::from_secs(20);
                let done = timeout(patience, self.act(guest, &models)).await;
                if let Ok(Ok(true)) = done {
                    self.0.lock().last.insert(guest.number, guest.clock().now());
                }
            }
            self.look(guest, &models, &cache);
        }
        Ok(())
    }
}

impl Family for Accounts {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                let lived = self.live(&mut guest, &client).await;
                let mut book = self.0.lock();
                book.cached.remove(&guest.number);
                if let Err(error) = lived {
                    book.broken.get_or_insert(error.to_string());
                }
            }
        })
    }

    fn killed(&self, guest: usize) {
        self.0.lock().cached.remove(&guest);
    }

    fn check(&self, world: &World, _: Duration) -> Result<(), String> {
        let book = self.0.lock();
        if let Some(broken) = &book.broken {
            return Err(broken.clone());
        }
        for (id, data) in accounts(world) {
            let account: Account = serde_json::from_slice(&data)
                .map_err(|error| format!("{id} is {data:?}: {error}"))?;
            check(&account).map_err(|error| format!("{id} is {account:?}: {error}"))?;
            let Some(known) = book.accounts.get(&id) else { continue };
            if !(known.done..=known.possible).contains(&account.debit) {
                return Err(format!("{id} is {account:?}, and {known:?}"));
            }
            if known.opened_by.as_ref().is_some_and(|by| *by != account.opened_by) {
                return Err(format!("{id} is {account:?}, and was opened otherwise: {known:?}"));
            }
        }
        Ok(())
    }

    fn calms(&self, now: Duration) {
        self.0.lock().calm = now;
    }

    fn settled(&self, world: &World) -> Result<(), String> {
        let book = self.0.lock();
        let there: BTreeMap<String, Account> = accounts(world)
            .into_iter()
            .filter_map(|(id, data)| Some((id, serde_json::from_slice(&data).ok()?)))
            .collect();
        for guest in 0..GUESTS {
            if book.last.get(&guest).is_none_or(|at| *at < book.calm) {
                return Err(format!("guest {guest} cannot change anything"));
            }
            if book.cached.get(&guest) != Some(&there) {
                let cached = book.cached.get(&guest);
                return Err(format!("guest {guest} sees {cached:?}, and these are: {there:?}"));
            }
        }
        Ok(())
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let book = self.0.lock();
        let done = book.accounts.values().map(|known| known.done).sum();
        let opened = book.accounts.values().filter(|known| known.opened_by.is_some()).count();
        vec![("changed", done), ("opened", opened as u64), ("refused", book.refused)]
    }
}
