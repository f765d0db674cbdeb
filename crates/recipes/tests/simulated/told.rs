//! Values and settings: every result that a reader gets was written, is complete and is in order.
//! In the end, every reader has the newest result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use zebu_client::{Acls, Client, CreateMode, Version, Zxid};
use zebu_recipes::{Lock, Settings, Value};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};

/// The kind of recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Value,
    /// Settings that change in transactions.
    Settings,
    /// Settings that change one by one while readers wait.
    Held,
}

pub(crate) const GUESTS: usize = 4;

/// The number of consecutive checks, half a second apart, in which all readers must agree: writers
/// pause for less than that. In a single check, readers may agree by chance, just before a change
/// that a reader misses for ever.
const AGREED: u32 = 10;

const VALUE: &str = "/value";
const SETTINGS: &str = "/settings";

/// The present state: one entry for a value, one for each of the settings.
type Picture = BTreeMap<String, Vec<u8>>;

#[derive(Default)]
struct Book {
    /// Everything that may have been written.
    written: BTreeSet<Vec<u8>>,
    /// The last result of each reader.
    told: BTreeMap<usize, Picture>,
    /// The settings of each version.
    versions: BTreeMap<i32, Picture>,
    broken: Option<String>,
    next: u64,
    changes: u64,
    /// The number of consecutive checks at the end in which all readers agreed.
    agreed: u32,
}

pub(crate) struct Told {
    recipe: Recipe,
    book: Mutex<Book>,
}

/// All settings of one change: each setting names the change, and one of them exists for odd
/// numbers only.
fn settings(number: u64) -> [(&'static str, Option<String>); 3] {
    let text = number.to_string();
    let odd = (!number.is_multiple_of(2)).then(|| text.clone());
    [("host", Some(text.clone())), ("odd", odd), ("port", Some(text))]
}

fn picture(number: u64) -> Picture {
    let entries = settings(number).into_iter();
    entries.filter_map(|(name, text)| Some((name.to_owned(), text?.into_bytes()))).collect()
}

impl Told {
    pub(crate) fn new(recipe: Recipe) -> Self {
        Self { recipe, book: Mutex::default() }
    }

    fn number(&self) -> u64 {
        let mut book = self.book.lock();
        book.next += 1;
        let text = book.next.to_string().into_bytes();
        book.written.insert(text);
        book.next
    }

    fn broken(&self, guest: &Guest, what: String) {
        let broken = format!("guest {}: {what}", guest.number);
        self.book.lock().broken.get_or_insert(broken);
    }

    fn told(&self, guest: &Guest, now: Picture) {
        let mut book = self.book.lock();
        book.changes += 1;
        book.told.insert(guest.number, now);
    }

    async fn write_value(&self, guest: &mut Guest, client: &Client) {
        let data = self.number().to_string();
        let (mode, acl) = (CreateMode::Persistent, &Acls::open_to_all());
        let done = match guest.random.below(6) {
            0 | 1 => client.create(VALUE, &data, mode, acl).await.map(drop),
            2 => client.delete(VALUE, Version::ANY).await,
            // Another znode at the same path, at once.
            3 | 4 => {
                let mut both = client.transaction();
                both.delete(VALUE, Version::ANY);
                both.create(VALUE, &data, mode, acl);
                both.commit().await.map(drop)
            }
            _ => client.set_data(VALUE, &data, Version::ANY).await.map(drop),
        };
        guest.tells(|| format!("writes {data}: {done:?}"));
    }

    async fn read_value(&self, guest: &mut Guest, client: &Client) {
        let mut value = Value::of(client, VALUE);
        let mut newest = Zxid(0);
        let mut last = None;
        while !client.state().is_over() {
            // The future is dropped and created again in most rounds.
            let patience = guest.random.ms(1, 300);
            match timeout(patience, value.next()).await {
                Ok(Ok(now)) => {
                    guest.tells(|| format!("is told {now:?}"));
                    let changed = now.as_ref().map(|(_, stat)| stat.mzxid);
                    if last == Some(changed) {
                        self.broken(guest, format!("told twice: {now:?}"));
                    }
                    if changed.is_some_and(|changed| changed < newest) {
                        self.broken(guest, format!("told {now:?} after {newest}"));
                    }
                    newest = newest.max(changed.unwrap_or_default());
                    last = Some(changed);
                    let data = now.map(|(data, _)| (VALUE.to_owned(), data));
                    self.told(guest, data.into_iter().collect());
                }
                Ok(Err(error)) => guest.tells(|| format!("reads nothing: {error}")),
                Err(_) => {}
            }
            if guest.is_busy() && guest.random.one_in(3) {
                self.write_value(guest, client).await;
            }
        }
    }

    async fn write_settings(&self, guest: &mut Guest, client: &Client) {
        let shared = Settings::new(client, SETTINGS, &Acls::open_to_all());
        let number = self.number();
        let all = settings(number);
        let all = all.each_ref().map(|(name, text)| (*name, text.as_deref()));
        let done = if self.recipe == Recipe::Settings {
            shared.set(&all).await.map(drop)
        } else {
            self.write_one_by_one(client, &shared, &all).await
        };
        guest.tells(|| format!("writes {number}: {done:?}"));
    }

    /// If this fails, readers wait until another program writes.
    async fn write_one_by_one(
        &self,
        client: &Client,
        shared: &Settings,
        all: &[(&str, Option<&str>)],
    ) -> zebu_recipes::Result<()> {
        // One program at a time, because the znodes of the settings do not show which program is
        // writing.
        let lock = Lock::new(client, "/lock", &Acls::open_to_all());
        let Some(held) = lock.try_exclusive().await? else { return Ok(()) };
        shared.hold().await?;
        for one in all {
            shared.set(&[*one]).await?;
        }
        shared.release().await?;
        held.release().await
    }

    async fn read_settings(&self, guest: &mut Guest, client: &Client) {
        let mut shared = Settings::new(client, SETTINGS, &Acls::open_to_all());
        let mut newest = None;
        while !client.state().is_over() {
            let patience = guest.random.ms(1, 400);
            match timeout(patience, shared.next()).await {
                Ok(Ok(now)) => {
                    guest.tells(|| format!("is told {now:?}"));
                    let number = now.values.get("host").and_then(|text| {
                        std::str::from_utf8(text).ok().and_then(|text| text.parse().ok())
                    });
                    if now.values != number.map(picture).unwrap_or_default() {
                        self.broken(guest, format!("told of half a change: {now:?}"));
                    }
                    if newest > Some(now.version) {
                        self.broken(guest, format!("told {now:?} after {newest:?}"));
                    }
                    newest = Some(now.version);
                    let known = {
                        let mut book = self.book.lock();
                        let known = book.versions.entry(now.version);
                        known.or_insert_with(|| now.values.clone()).clone()
                    };
                    if known != now.values {
                        self.broken(guest, format!("told {now:?}, and another reader {known:?}"));
                    }
                    self.told(guest, now.values);
                }
                Ok(Err(error)) => guest.tells(|| format!("reads nothing: {error}")),
                Err(_) => {}
            }
            if guest.is_busy() && guest.random.one_in(3) {
                self.write_settings(guest, client).await;
            }
        }
    }

    fn wanted(&self, world: &World) -> Option<Picture> {
        let data = |path: &str| world.znode(path).map(|(_, data)| data);
        if self.recipe == Recipe::Value {
            let entry = data(VALUE).map(|data| (VALUE.to_owned(), data));
            return Some(entry.into_iter().collect());
        }
        let names = world.children(SETTINGS);
        if names.iter().any(|name| name == "invalid") {
            return None;
        }
        let entry = |name: String| {
            let data = data(&format!("{SETTINGS}/{name}"))?;
            Some((name, data))
        };
        Some(names.into_iter().filter_map(entry).collect())
    }
}

impl Family for Told {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                match self.recipe {
                    Recipe::Value => self.read_value(&mut guest, &client).await,
                    Recipe::Settings | Recipe::Held => {
                        self.read_settings(&mut guest, &client).await;
                    }
                }
                self.book.lock().told.remove(&guest.number);
            }
        })
    }

    fn killed(&self, guest: usize) {
        self.book.lock().told.remove(&guest);
    }

    fn check(&self, _: &World, _: Duration) -> Result<(), String> {
        let book = self.book.lock();
        if let Some(broken) = &book.broken {
            return Err(broken.clone());
        }
        let mut data = book.told.values().flat_map(BTreeMap::values);
        match data.find(|data| !book.written.contains(*data)) {
            Some(data) => Err(format!("nobody has written {data:?}")),
            None => Ok(()),
        }
    }

    fn settled(&self, world: &World) -> Result<(), String> {
        let mut book = self.book.lock();
        let agreed = std::mem::take(&mut book.agreed);
        let Some(wanted) = self.wanted(world) else {
            return Err("somebody holds the settings".to_owned());
        };
        if let Some(guest) = (0..GUESTS).find(|guest| book.told.get(guest) != Some(&wanted)) {
            let told = book.told.get(&guest);
            return Err(format!("guest {guest} was told {told:?}, and there is {wanted:?}"));
        }
        book.agreed = agreed + 1;
        if book.agreed < AGREED {
            return Err("all agree, but not for long".to_owned());
        }
        Ok(())
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let book = self.book.lock();
        vec![("written", book.next), ("told", book.changes)]
    }
}
