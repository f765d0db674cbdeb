//! Kept znodes, groups and services: a znode that a program keeps exists once, has the newest data,
//! returns after a deletion, and is deleted when it is closed. All programs see the present
//! members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_client::{Acls, Client, CreateMode, SessionId, Version};
use zebu_recipes::{
    Discovery, Error, Group, Member, PersistentNode, Provider, Registration, Result, RoundRobin,
    ServiceInstance, TtlNode,
};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};

/// The kind of kept znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Ephemeral,
    Sequential,
    Persistent,
    Ttl,
    Group,
    Service,
}

pub(crate) const GUESTS: usize = 4;

/// The parent of the znodes.
const PARENT: &str = "/kept";

const TTL: Duration = Duration::from_millis(2_500);

/// The data of a znode: its keeper, the number of that keep, and the number of the data.
type Said = (usize, u64, u64);

fn text((guest, keep, version): Said) -> String {
    format!("<{guest} {keep} {version}>")
}

fn said(data: &[u8]) -> Option<Said> {
    let text = std::str::from_utf8(data).ok()?;
    let mut numbers = text.split_once('<')?.1.split_once('>')?.0.split(' ').map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some((next()? as usize, next()?, next()?))
}

/// The znode that a guest keeps.
#[derive(Debug)]
struct Keep {
    keep: u64,
    path: Option<String>,
    /// The acknowledged data, unless other data may be on their way.
    known: Option<u64>,
    /// The data of the other members, as this guest sees them.
    seen: BTreeMap<String, Said>,
}

#[derive(Default)]
struct Book {
    keeps: BTreeMap<usize, Keep>,
    /// Keeps that have been closed: their znodes are gone for good.
    closed: BTreeSet<(usize, u64)>,
    /// Keeps that ended with the session or the process, or whose close has failed.
    left: BTreeSet<(usize, u64)>,
    /// The session of each keep.
    sessions: BTreeMap<(usize, u64), SessionId>,
    /// The version of the last znode that a session had at a path.
    versions: BTreeMap<(String, SessionId), i32>,
    deaf: Option<usize>,
    next: u64,
    kept: u64,
    written: u64,
}

pub(crate) struct Keeping {
    recipe: Recipe,
    book: Mutex<Book>,
}

enum Held {
    Node(PersistentNode),
    Ttl(TtlNode),
    Member(Member),
    Offer(Box<(Registration, Provider)>),
}

impl Held {
    async fn lost(&self) -> Error {
        match self {
            Self::Node(node) => node.lost().await,
            Self::Ttl(node) => node.lost().await,
            Self::Member(member) => member.lost().await,
            Self::Offer(offer) => offer.0.lost().await,
        }
    }

    async fn write(&mut self, said: Said) -> Result<()> {
        let data = text(said);
        match self {
            Self::Node(node) => node.set_data(data).await,
            Self::Ttl(node) => node.set_data(data).await,
            Self::Member(member) => member.set_data(data).await,
            Self::Offer(offer) => offer.0.update(|instance| instance.address = data).await,
        }
    }

    async fn close(self) -> Result<()> {
        match self {
            Self::Node(node) => node.close().await,
            Self::Ttl(node) => node.close().await,
            Self::Member(member) => member.leave().await,
            Self::Offer(offer) => offer.0.unregister().await,
        }
    }

    /// The other members, if the recipe reports them.
    async fn others(&self) -> Option<BTreeMap<String, Said>> {
        match self {
            Self::Node(_) | Self::Ttl(_) => None,
            Self::Member(member) => {
                let members = member.members().await.ok()?;
                members.into_iter().map(|(name, data)| Some((name, said(&data)?))).collect()
            }
            Self::Offer(offer) => {
                let instances = offer.1.instances().await.ok()?;
                let one =
                    |it: &Arc<ServiceInstance>| Some((it.id.clone(), said(it.address.as_bytes())?));
                instances.iter().map(one).collect()
            }
        }
    }
}

impl Keeping {
    pub(crate) fn new(recipe: Recipe) -> Self {
        Self { recipe, book: Mutex::default() }
    }

    fn places(&self) -> String {
        if self.recipe == Recipe::Service { format!("{PARENT}/web") } else { PARENT.to_owned() }
    }

    async fn keep(&self, client: &Client, name: &str, data: Said) -> Result<(Held, String)> {
        let acl = &Acls::open_to_all();
        let path = format!("{PARENT}/{name}");
        let first = text(data);
        let mode = match self.recipe {
            Recipe::Sequential => CreateMode::EphemeralSequential,
            Recipe::Persistent => CreateMode::Persistent,
            _ => CreateMode::Ephemeral,
        };
        Ok(match self.recipe {
            Recipe::Ttl => (Held::Ttl(TtlNode::keep(client, &path, first, TTL, acl).await?), path),
            Recipe::Group => {
                (Held::Member(Group::new(client, PARENT, acl).join(name, first).await?), path)
            }
            Recipe::Service => {
                let mut instance = ServiceInstance::new("web", &first);
                (instance.id, instance.registered_ms) = (name.to_owned(), 1);
                let discovery = Discovery::new(client, PARENT, acl);
                let offer = discovery.register(instance).await?;
                let provider = discovery.provider("web", RoundRobin::default())?;
                (Held::Offer(Box::new((offer, provider))), format!("{PARENT}/web/{name}"))
            }
            _ => {
                let node = PersistentNode::keep(client, &path, first, mode, acl).await?;
                let path = node.path().unwrap_or(path);
                (Held::Node(node), path)
            }
        })
    }

    /// The name that a guest takes: sometimes another guest's, if two guests may want the same
    /// name.
    fn name(&self, guest: &mut Guest, keep: u64) -> String {
        match self.recipe {
            Recipe::Group if guest.is_busy() => format!("m{}", guest.random.below(GUESTS as u64)),
            Recipe::Group => format!("m{}", guest.number),
            _ => format!("n{}-{keep}-", guest.number),
        }
    }

    async fn use_once(&self, guest: &mut Guest, client: &Client) {
        guest.pauses(0, 300).await;
        let number = guest.number;
        let keep = {
            let mut book = self.book.lock();
            book.next += 1;
            book.next
        };
        let name = self.name(guest, keep);
        let patience = match guest.random.below(4) {
            0 if guest.is_busy() => guest.random.ms(1, 1_500),
            _ if guest.is_busy() => Duration::from_secs(20),
            _ => Duration::from_secs(1 << 20),
        };
        let begun = Keep { keep, path: None, known: None, seen: BTreeMap::new() };
        {
            let mut book = self.book.lock();
            book.keeps.insert(number, begun);
            book.sessions.insert((number, keep), client.session_id());
        }
        let keeping = self.keep(client, &name, (number, keep, 0));
        let (mut held, path) = match tokio::time::timeout(patience, keeping).await {
            Ok(Ok(held)) => held,
            failed => {
                guest.tells(|| format!("keeps nothing: {:?}", failed.map(|it| it.map(|_| ()))));
                self.book.lock().leaves(number, keep);
                return guest.pauses(0, 300).await;
            }
        };
        guest.tells(|| format!("keeps {path} as {keep}"));
        self.book.lock().keeps(number, path);
        let mut version = 0;
        let until = tokio::time::Instant::now() + guest.random.ms(200, 6_000);
        loop {
            let next = guest.random.ms(5, 400);
            let lost = tokio::time::timeout(next, held.lost()).await;
            if let Ok(lost) = lost {
                guest.tells(|| format!("keeps {keep} no longer: {lost}"));
                self.book.lock().leaves(number, keep);
                return;
            }
            if !guest.is_busy() {
                if self.recipe == Recipe::Group && name != format!("m{number}") {
                    break;
                }
            } else if tokio::time::Instant::now() >= until {
                break;
            } else if guest.random.one_in(3) {
                version += 1;
                self.book.lock().knows(number, None);
                let written = held.write((number, keep, version)).await;
                guest.tells(|| format!("writes {version}: {written:?}"));
                let known = written.is_ok().then_some(version);
                self.book.lock().knows(number, known);
            } else if guest.random.one_in(4) {
                self.disturb(guest, client).await;
            }
            let wait = Duration::from_millis(500);
            if let Ok(Some(seen)) = tokio::time::timeout(wait, held.others()).await {
                self.book.lock().sees(number, seen);
            }
        }
        if client.state().is_over()
            && tokio::time::timeout(Duration::from_secs(5), held.lost()).await.is_err()
        {
            self.book.lock().deaf = Some(number);
        }
        self.book.lock().knows(number, None);
        if guest.random.one_in(3) {
            drop(held);
            self.book.lock().leaves(number, keep);
        } else {
            let closed = held.close().await;
            guest.tells(|| format!("closes {keep}: {closed:?}"));
            let mut book = self.book.lock();
            if closed.is_ok() && self.recipe != Recipe::Ttl {
                book.keeps.remove(&number);
                book.closed.insert((number, keep));
            } else {
                book.leaves(number, keep);
            }
        }
    }

    /// Deletes a znode that some guest keeps.
    async fn disturb(&self, guest: &mut Guest, client: &Client) {
        let path = {
            let book = self.book.lock();
            let other = guest.random.below(GUESTS as u64) as usize;
            book.keeps.get(&other).and_then(|keep| keep.path.clone())
        };
        if let Some(path) = path {
            let deleted = client.delete(&path, Version::ANY).await;
            guest.tells(|| format!("deletes {path}: {deleted:?}"));
        }
    }

    /// The existing znodes and their data.
    fn znodes(&self, world: &World) -> Vec<(String, Said)> {
        let places = self.places();
        let names = world.children(&places).into_iter();
        names
            .filter_map(|name| {
                let path = format!("{places}/{name}");
                let (_, data) = world.znode(&path)?;
                Some((path, said(&data)?))
            })
            .collect()
    }
}

impl Book {
    fn keeps(&mut self, guest: usize, path: String) {
        self.kept += 1;
        if let Some(keep) = self.keeps.get_mut(&guest) {
            (keep.path, keep.known) = (Some(path), Some(0));
        }
    }

    fn knows(&mut self, guest: usize, version: Option<u64>) {
        self.written += u64::from(version.is_some());
        if let Some(keep) = self.keeps.get_mut(&guest) {
            keep.known = version;
        }
    }

    fn sees(&mut self, guest: usize, seen: BTreeMap<String, Said>) {
        if let Some(keep) = self.keeps.get_mut(&guest) {
            keep.seen = seen;
        }
    }

    fn leaves(&mut self, guest: usize, keep: u64) {
        self.keeps.remove(&guest);
        self.left.insert((guest, keep));
    }
}

impl Family for Keeping {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                while !client.state().is_over() {
                    self.use_once(&mut guest, &client).await;
                }
            }
        })
    }

    fn killed(&self, guest: usize) {
        let mut book = self.book.lock();
        if let Some(keep) = book.keeps.remove(&guest) {
            book.left.insert((guest, keep.keep));
        }
    }

    fn check(&self, world: &World, _: Duration) -> std::result::Result<(), String> {
        let mut book = self.book.lock();
        if let Some(guest) = book.deaf {
            return Err(format!("guest {guest} is not told that its session is over"));
        }
        let mut there: BTreeMap<(usize, u64), String> = BTreeMap::new();
        for (path, (guest, keep, version)) in self.znodes(world) {
            if book.closed.contains(&(guest, keep)) {
                return Err(format!("{path} was closed by guest {guest}, and is there"));
            }
            if let Some(other) = there.insert((guest, keep), path.clone()) {
                return Err(format!("kept once, and there twice: {other} and {path}"));
            }
            // In the world's tree, the owner of a TTL znode looks like a session.
            let owner = world.owner(&path).filter(|_| self.recipe != Recipe::Ttl);
            if let Some(owner) = owner {
                let Book { sessions, versions, .. } = &mut *book;
                let version = world.version(&path).map_or(0, |version| version.0);
                let writer = sessions.get(&(guest, keep)).copied();
                let last = writer.and_then(|writer| versions.get(&(path.clone(), writer)));
                // A write depends on the version alone, and both znodes may have had the same
                // version. There may have been one more write since the last check.
                let is_alike = last.is_some_and(|last| (*last..=last + 1).contains(&(version - 1)));
                if writer == Some(owner) {
                    versions.insert((path.clone(), owner), version);
                } else if !is_alike {
                    return Err(format!(
                        "{path} of session {owner:?} has the data of guest {guest}, version {version} after {last:?}"
                    ));
                } else {
                    continue;
                }
            }
            let known = book.keeps.get(&guest).filter(|it| it.keep == keep);
            if let Some(known) = known.and_then(|it| it.known)
                && known != version
            {
                return Err(format!("{path} has data {version}, and {known} was acknowledged"));
            }
        }
        Ok(())
    }

    fn settled(&self, world: &World) -> std::result::Result<(), String> {
        let book = self.book.lock();
        let there = self.znodes(world);
        for guest in 0..GUESTS {
            let kept = book.keeps.get(&guest).filter(|keep| keep.path.is_some());
            let Some(kept) = kept else { return Err(format!("guest {guest} keeps nothing")) };
            if !there.iter().any(|(_, said)| (said.0, said.1) == (guest, kept.keep)) {
                return Err(format!("the znode of guest {guest} is not there: {kept:?}"));
            }
        }
        let stays = there.iter().find(|(_, (guest, keep, _))| {
            let is_kept = book.keeps.get(guest).is_some_and(|it| it.keep == *keep);
            // No program deletes the persistent znode of an ended session.
            let is_left = self.recipe == Recipe::Persistent && book.left.contains(&(*guest, *keep));
            !(is_kept || is_left)
        });
        if let Some((path, said)) = stays {
            return Err(format!("{path} stays, and nobody keeps it: {said:?}"));
        }
        if matches!(self.recipe, Recipe::Group | Recipe::Service) {
            let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
            let all: BTreeMap<String, Said> =
                there.iter().map(|(path, said)| (name(path), *said)).collect();
            if let Some((guest, keep)) = book.keeps.iter().find(|(_, keep)| keep.seen != all) {
                return Err(format!("guest {guest} sees {:?}, and these are: {all:?}", keep.seen));
            }
        }
        Ok(())
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let book = self.book.lock();
        vec![("kept", book.kept), ("written", book.written), ("closed", book.closed.len() as u64)]
    }
}
