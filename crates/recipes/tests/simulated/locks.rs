//! Locks, elections and semaphores: a holder is alone, as far as the recipe promises. A guard
//! learns of its loss. No program waits for ever.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex as Locked;
use zebu_client::{Acls, Client};
use zebu_recipes::{
    AllHeld, Election, Guard, Held, Lease, Lock, MultiLock, Mutex, News, Part, Participant,
    Partitions, ReadWriteLock, Result, Semaphore, Token,
};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};
use crate::ledger::{Ledger, Share};

/// The kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Lock,
    Mutex,
    ReadWrite,
    Semaphore,
    Election,
    Selector,
    Latch,
    Multi,
    /// A lock that its holder keeps until another program wants it.
    WantedBack,
    /// A semaphore with kazoo's znodes.
    KazooSemaphore,
    /// The items of a set, divided among the programs.
    Partitions,
}

pub(crate) const GUESTS: usize = 4;

const LEASES: usize = 2;

/// The items that the programs divide, and the znodes of their locks.
const ITEMS: [(&str, &str); 6] = [
    ("a", "/set/locks/a"),
    ("b", "/set/locks/b"),
    ("c", "/set/locks/c"),
    ("d", "/set/locks/d"),
    ("e", "/set/locks/e"),
    ("f", "/set/locks/f"),
];

pub(crate) struct Locks {
    recipe: Recipe,
    ledger: Locked<Ledger>,
}

impl Locks {
    pub(crate) fn new(recipe: Recipe) -> Self {
        Self { recipe, ledger: Locked::default() }
    }
}

/// The grant.
enum Hold {
    Held(Held),
    Guard(Guard),
    Lease(Lease),
    All(AllHeld),
    Part(Box<(Participant, Part)>),
}

impl Hold {
    fn tokens(&self) -> Vec<Token> {
        match self {
            Self::Held(held) => vec![held.token()],
            Self::Guard(guard) => vec![guard.token()],
            Self::Lease(lease) => vec![lease.token()],
            Self::All(all) => all.tokens(),
            Self::Part(part) => part.1.tokens(),
        }
    }

    async fn news(&mut self) -> News {
        match self {
            Self::Held(held) => held.news().await,
            Self::Guard(guard) => guard.news().await,
            Self::Lease(lease) => lease.news().await,
            Self::All(all) => {
                all.lost().await;
                News::Lost
            }
            Self::Part(part) => part.1.news().await,
        }
    }

    async fn release(self) -> Result<()> {
        match self {
            Self::Held(held) => held.release().await,
            Self::Guard(guard) => guard.release().await,
            Self::Lease(lease) => lease.release().await,
            Self::All(all) => all.release().await,
            Self::Part(part) => {
                let (member, part) = *part;
                part.release().await.and(member.leave().await)
            }
        }
    }
}

/// One request of a program: the parents of the places, the kind of ownership, and the grant.
async fn ask(
    recipe: Recipe,
    client: &Client,
    reads: bool,
) -> Result<(Vec<&'static str>, Share, Hold)> {
    let acl = &Acls::open_to_all();
    let alone = if reads { Share::Read } else { Share::Alone };
    Ok(match recipe {
        Recipe::Lock => {
            let lock = Lock::new(client, "/lock", acl);
            let held = if reads { lock.shared().await? } else { lock.exclusive().await? };
            (vec!["/lock"], alone, Hold::Held(held))
        }
        Recipe::WantedBack => {
            let lock = Lock::new(client, "/wanted", acl);
            let held = {
                let mut waiting = std::pin::pin!(lock.exclusive());
                loop {
                    let wait = tokio::time::sleep(Duration::from_millis(400));
                    tokio::select! {
                        biased;
                        held = &mut waiting => break held?,
                        () = wait => drop(lock.ask_back().await),
                    }
                }
            };
            (vec!["/wanted"], Share::Alone, Hold::Held(held))
        }
        Recipe::Mutex => {
            let guard = Mutex::new(client, "/mutex", acl).acquire().await?;
            (vec!["/mutex"], Share::Alone, Hold::Guard(guard))
        }
        Recipe::ReadWrite => {
            let lock = ReadWriteLock::new(client, "/rw", acl);
            let guard = if reads { lock.read().await? } else { lock.write().await? };
            (vec!["/rw"], alone, Hold::Guard(guard))
        }
        Recipe::Semaphore => {
            let lease = Semaphore::new(client, "/s", LEASES, acl).acquire().await?;
            (vec!["/s/leases"], Share::Lease(LEASES), Hold::Lease(lease))
        }
        Recipe::KazooSemaphore => {
            let lease = Semaphore::of_kazoo(client, "/ks", LEASES, acl).acquire().await?;
            (vec!["/ks"], Share::Lease(LEASES), Hold::Lease(lease))
        }
        Recipe::Partitions => {
            let items = ITEMS.map(|(item, _)| item);
            let quiet = Duration::from_millis(100);
            let partitions = Partitions::new(client, "/set", items, acl).quiet(quiet);
            let member = partitions.join("guest").await?;
            let part = member.acquire().await?;
            let is_in = |item: &str| part.items().iter().any(|own| own == item);
            let locks = ITEMS.iter().filter(|(item, _)| is_in(item)).map(|(_, lock)| *lock);
            (locks.collect(), Share::Alone, Hold::Part(Box::new((member, part))))
        }
        Recipe::Election | Recipe::Selector | Recipe::Latch => {
            let (path, election) = match recipe {
                Recipe::Selector => ("/selector", Election::of_selector(client, "/selector", acl)),
                Recipe::Latch => ("/latch", Election::of_latch(client, "/latch", acl)),
                _ => ("/election", Election::new(client, "/election", acl)),
            };
            (vec![path], Share::Alone, Hold::Held(election.lead("guest").await?))
        }
        Recipe::Multi => {
            let locks = ["/one", "/two"].map(|path| Mutex::new(client, path, acl)).into();
            (vec!["/one", "/two"], Share::Alone, Hold::All(MultiLock::new(locks).acquire().await?))
        }
    })
}

impl Family for Locks {
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
        self.ledger.lock().killed(guest);
    }

    fn check(&self, world: &World, now: Duration) -> std::result::Result<(), String> {
        self.ledger.lock().check(world, now)
    }

    fn calms(&self, now: Duration) {
        self.ledger.lock().calms(now);
    }

    fn settled(&self, world: &World) -> std::result::Result<(), String> {
        let granted = self.ledger.lock().all_granted(GUESTS);
        granted.map_err(|what| format!("{what}\n{}", crate::house::picture(world, "/")))
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let ledger = self.ledger.lock();
        vec![
            ("granted", ledger.grants),
            ("refused by the register", ledger.refusals),
            ("wanted back", ledger.wanted),
        ]
    }
}

impl Locks {
    /// Writes to the resource that the lock protects, with the tokens.
    fn write(&self, ids: &[u64], share: Share) {
        if share == Share::Alone {
            let mut ledger = self.ledger.lock();
            ids.iter().for_each(|id| ledger.writes(*id));
        }
    }

    async fn use_once(&self, guest: &mut Guest, client: &Client) {
        guest.pauses(0, 200).await;
        // Some programs give up, and leave nothing behind.
        let patience = match guest.random.below(4) {
            0 => guest.random.ms(1, 1_500),
            _ => Duration::from_secs(1 << 20),
        };
        let reads = guest.random.one_in(2);
        let asked = tokio::time::timeout(patience, ask(self.recipe, client, reads)).await;
        let (resources, share, mut hold) = match asked {
            Ok(Ok(granted)) => granted,
            Ok(Err(error)) => {
                guest.tells(|| format!("gets nothing: {error}; {:?}", client.state()));
                return guest.pauses(0, 300).await;
            }
            Err(_) => {
                guest.tells(|| format!("is impatient; {:?}", client.state()));
                return guest.pauses(0, 300).await;
            }
        };
        guest.tells(|| format!("holds {:?}, {share:?}", hold.tokens()));
        let now = guest.clock().now();
        let ids: Vec<u64> = {
            let mut ledger = self.ledger.lock();
            let granted = resources.iter().zip(hold.tokens());
            granted
                .map(|(resource, token)| ledger.granted(guest.number, resource, token, share, now))
                .collect()
        };
        // Some programs hold for so long that they must learn of the end of their session.
        let waits = self.recipe == Recipe::WantedBack;
        let gives_back = waits || self.recipe == Recipe::Partitions;
        let longest = if guest.random.one_in(10) && guest.is_busy() { 25_000 } else { 1_500 };
        let until = tokio::time::Instant::now() + guest.random.ms(0, longest);
        if guest.random.one_in(3) {
            // The program receives no news for a while, and continues as if it held the lock.
            guest.pauses(0, 1_000).await;
            self.write(&ids, share);
        }
        loop {
            let next = guest.random.ms(5, 200);
            tokio::select! {
                biased;
                news = hold.news() => {
                    guest.tells(|| format!("hears {news:?}"));
                    let mut ledger = self.ledger.lock();
                    match news {
                        News::Suspended => ids.iter().for_each(|id| ledger.trusts(*id, false)),
                        News::Resumed => ids.iter().for_each(|id| ledger.trusts(*id, true)),
                        News::Lost => {
                            ids.iter().for_each(|id| ledger.ends(*id));
                            return;
                        }
                        News::Wanted => {
                            ledger.wanted += 1;
                            if gives_back {
                                break;
                            }
                        }
                    }
                }
                () = tokio::time::sleep(next) => {
                    self.write(&ids, share);
                }
            }
            if tokio::time::Instant::now() >= until && !waits {
                break;
            }
        }
        if client.state().is_over() {
            let lost = async { while hold.news().await != News::Lost {} };
            if tokio::time::timeout(Duration::from_secs(5), lost).await.is_err() {
                self.ledger.lock().deaf(guest.number);
            }
        }
        ids.iter().for_each(|id| self.ledger.lock().ends(*id));
        if guest.random.one_in(4) {
            drop(hold);
        } else {
            let released = hold.release().await;
            guest.tells(|| format!("releases: {released:?}"));
        }
    }
}
