//! Announced leaders: the newest announcement counts, each announcement names the holder of that
//! term, and a withdrawn announcement is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use zebu_client::{Acls, Client, SessionId};
use zebu_recipes::{Announced, Announcement, Announcements};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};

pub(crate) const GUESTS: usize = 4;

const LEADERS: &str = "/leaders";

/// The resource grants its lock itself, and records all grants.
#[derive(Default)]
struct Book {
    /// The holder of each term; the last one holds the lock.
    granted: Vec<usize>,
    /// The terms and sessions whose announcement was withdrawn.
    withdrawn: BTreeSet<(u64, SessionId)>,
    /// The terms and sessions with an abandoned attempt: its znode may appear and disappear.
    given_up: BTreeSet<(u64, SessionId)>,
    /// The present announcement: its guest, its term and its session.
    standing: BTreeMap<usize, (u64, SessionId)>,
    /// The leader that each guest knows.
    known: BTreeMap<usize, Option<Announcement>>,
    broken: Option<String>,
    announced: u64,
    looks: u64,
}

#[derive(Default)]
pub(crate) struct Announcing(Mutex<Book>);

fn name(guest: usize) -> String {
    format!("host {guest}")
}

fn term(path: &str) -> Option<u64> {
    path.rsplit(['/', '-']).next()?.parse().ok()
}

impl Announcing {
    /// The term in which a guest holds the lock of the resource.
    fn holds(&self, guest: usize) -> Option<u64> {
        let book = self.0.lock();
        (book.granted.last() == Some(&guest)).then_some(book.granted.len() as u64)
    }

    async fn announces(
        &self,
        guest: &mut Guest,
        client: &Client,
        leaders: &Announcements,
        term: u64,
    ) -> Option<Announced> {
        // Sometimes the program abandons the attempt, and begins again.
        let patience =
            if guest.random.one_in(3) { guest.random.ms(1, 400) } else { Duration::from_secs(20) };
        let done = timeout(patience, leaders.announce(&name(guest.number), term)).await;
        guest.tells(|| format!("announces {term}: {:?}", done.as_ref().map(|it| it.is_ok())));
        let mut book = self.0.lock();
        let Ok(Ok(announced)) = done else {
            book.given_up.insert((term, client.session_id()));
            return None;
        };
        book.announced += 1;
        book.standing.insert(guest.number, (term, client.session_id()));
        Some(announced)
    }

    async fn withdraws(&self, guest: &mut Guest, announced: Announced, client: &Client) {
        let standing = self.0.lock().standing.remove(&guest.number);
        if guest.random.one_in(3) {
            drop(announced);
            return;
        }
        let withdrawn = announced.withdraw().await;
        guest.tells(|| format!("withdraws {standing:?}: {withdrawn:?}"));
        if let Some((term, session)) = standing
            && withdrawn.is_ok()
            && session == client.session_id()
        {
            self.0.lock().withdrawn.insert((term, session));
        }
    }

    async fn looks(&self, guest: &Guest, leaders: &Announcements) {
        let own = self.0.lock().standing.get(&guest.number).copied();
        let looked = timeout(Duration::from_secs(5), leaders.leader()).await;
        let Ok(Ok(found)) = looked else { return };
        guest.tells(|| format!("hears of {found:?}"));
        let mut book = self.0.lock();
        book.looks += 1;
        if let Some((term, _)) = own
            && found.as_ref().is_none_or(|leader| leader.term < term)
        {
            let broken = format!("guest {} announced {term}, finds {found:?}", guest.number);
            book.broken.get_or_insert(broken);
        }
        if let Some(leader) = &found {
            let holder = book.granted.get(leader.term as usize - 1);
            if holder.is_none_or(|holder| name(*holder) != leader.name) {
                let broken = format!("{leader:?} is announced, and was {holder:?}");
                book.broken.get_or_insert(broken);
            }
        }
        book.known.insert(guest.number, found);
    }

    async fn live(&self, guest: &mut Guest, client: &Client) {
        let leaders = Announcements::new(client, LEADERS, &Acls::open_to_all());
        let mut announced: Option<(u64, Announced)> = None;
        while !client.state().is_over() {
            guest.pauses(5, 200).await;
            if guest.is_busy() && guest.random.one_in(10) {
                self.0.lock().granted.push(guest.number);
            }
            let holds = self.holds(guest.number);
            if let Some((_, former)) = announced.take_if(|(term, _)| Some(*term) != holds) {
                self.withdraws(guest, former, client).await;
            }
            if let Some(term) = holds
                && announced.is_none()
            {
                let done = self.announces(guest, client, &leaders, term).await;
                announced = done.map(|done| (term, done));
            }
            self.looks(guest, &leaders).await;
        }
        self.0.lock().standing.remove(&guest.number);
        if let Some((term, mut announced)) = announced
            && timeout(Duration::from_secs(5), announced.lost()).await.is_err()
        {
            let broken = format!("guest {} does not learn that {term} is over", guest.number);
            self.0.lock().broken.get_or_insert(broken);
        }
    }
}

impl Family for Announcing {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                self.live(&mut guest, &client).await;
            }
        })
    }

    fn killed(&self, guest: usize) {
        let mut book = self.0.lock();
        book.standing.remove(&guest);
        book.known.remove(&guest);
    }

    fn check(&self, world: &World, _: Duration) -> Result<(), String> {
        let book = self.0.lock();
        if let Some(broken) = &book.broken {
            return Err(broken.clone());
        }
        for child in world.children(LEADERS) {
            let path = format!("{LEADERS}/{child}");
            let Some((term, owner)) = term(&path).zip(world.owner(&path)) else {
                return Err(format!("{path} is no announcement"));
            };
            let key = (term, owner);
            if book.withdrawn.contains(&key) && !book.given_up.contains(&key) {
                return Err(format!("{path} of session {owner:?} was withdrawn, and is there"));
            }
        }
        Ok(())
    }

    fn settled(&self, world: &World) -> Result<(), String> {
        let book = self.0.lock();
        let Some(holder) = book.granted.last().copied() else {
            return Err("nobody was granted the lock".to_owned());
        };
        let leader = Some((name(holder), book.granted.len() as u64));
        for guest in 0..GUESTS {
            let known = book.known.get(&guest).cloned().flatten();
            if known.map(|known| (known.name, known.term)) != leader {
                let known = book.known.get(&guest);
                return Err(format!("guest {guest} knows {known:?}, and it is {leader:?}"));
            }
        }
        match world.children(LEADERS) {
            names if names.len() == 1 => Ok(()),
            names => Err(format!("one announcement should be left: {names:?}")),
        }
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let book = self.0.lock();
        let withdrawn = book.withdrawn.len() as u64;
        vec![("announced", book.announced), ("withdrawn", withdrawn), ("looks", book.looks)]
    }
}
