//! Barriers: no program passes a barrier that is closed all the time. No program is inside a double
//! barrier before enough have come, and none has left it while another is inside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_client::{Acls, Client, Zxid};
use zebu_recipes::{Barrier, DoubleBarrier};
use zebu_sim::World;

use crate::house::{Family, Guest, Program};

pub(crate) const GUESTS: usize = 4;

const PATH: &str = "/barrier";

/// Guest 0 closes and opens the barrier, and the others wait at it.
#[derive(Default)]
struct Gate {
    /// The present closing, from its acknowledgement until guest 0 begins to open the barrier.
    closed: Option<u64>,
    /// The znode of this closing, once it was seen.
    created: Option<Zxid>,
    closings: u64,
    /// The guests that have passed, and the closing in which they came.
    passed: Vec<(usize, u64)>,
    last: BTreeMap<usize, Duration>,
    calm: Duration,
    passes: u64,
}

#[derive(Default)]
pub(crate) struct Single(Mutex<Gate>);

impl Single {
    async fn keep(&self, guest: &mut Guest, barrier: &Barrier) {
        if guest.is_busy() && barrier.set().await.is_ok() {
            {
                let mut gate = self.0.lock();
                gate.closings += 1;
                (gate.closed, gate.created) = (Some(gate.closings), None);
            }
            guest.tells(|| "closes the barrier".to_owned());
            guest.pauses(100, 3_000).await;
        }
        self.0.lock().closed = None;
        let opened = barrier.remove().await;
        guest.tells(|| format!("opens the barrier: {opened:?}"));
        guest.pauses(50, 1_500).await;
    }

    async fn pass(&self, guest: &mut Guest, barrier: &Barrier) {
        guest.pauses(0, 300).await;
        let came = self.0.lock().closed;
        let patience = match guest.random.below(3) {
            0 => guest.random.ms(1, 1_000),
            _ => Duration::from_secs(1 << 20),
        };
        match tokio::time::timeout(patience, barrier.wait()).await {
            Ok(Ok(())) => {
                let now = guest.clock().now();
                let mut gate = self.0.lock();
                gate.passes += 1;
                gate.passed.extend(came.map(|closing| (guest.number, closing)));
                gate.last.insert(guest.number, now);
                drop(gate);
                guest.tells(|| format!("passes, and came in closing {came:?}"));
            }
            failed => guest.tells(|| format!("does not pass: {failed:?}")),
        }
    }
}

impl Family for Single {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                let barrier = Barrier::new(&client, PATH, &Acls::open_to_all());
                while !client.state().is_over() {
                    match guest.number {
                        0 => self.keep(&mut guest, &barrier).await,
                        _ => self.pass(&mut guest, &barrier).await,
                    }
                }
            }
        })
    }

    fn killed(&self, guest: usize) {
        if guest == 0 {
            self.0.lock().closed = None;
        }
    }

    fn check(&self, world: &World, _: Duration) -> Result<(), String> {
        let mut gate = self.0.lock();
        let there = world.znode(PATH).map(|(created, _)| created);
        // A delete of guest 0 whose answer was lost may be executed later.
        if there.is_none() || gate.created.is_some_and(|created| Some(created) != there) {
            gate.closed = None;
        } else if gate.closed.is_some() {
            gate.created = there;
        }
        let closed = gate.closed;
        let through = gate.passed.drain(..).find(|(_, closing)| Some(*closing) == closed);
        match through {
            Some((guest, _)) => {
                Err(format!("guest {guest} has passed the barrier, which was closed all the time"))
            }
            None => Ok(()),
        }
    }

    fn calms(&self, now: Duration) {
        self.0.lock().calm = now;
    }

    fn settled(&self, _: &World) -> Result<(), String> {
        let gate = self.0.lock();
        let is_late = |guest: &usize| gate.last.get(guest).is_none_or(|at| *at < gate.calm);
        match (1..GUESTS).find(is_late) {
            Some(guest) => Err(format!("guest {guest} does not pass the barrier")),
            None => Ok(()),
        }
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        let gate = self.0.lock();
        vec![("closed", gate.closings), ("passed", gate.passes)]
    }
}

/// The number of guests that enter together.
const SIZE: usize = 3;

/// A guest at the double barrier.
#[derive(Clone, Debug, Default)]
struct Visit {
    path: String,
    phase: Phase,
    /// The largest number of guests that were there at the same time since it came.
    most: usize,
    /// Whether another guest was inside since it came.
    joins: bool,
    /// The guests that were inside with it when it began to leave.
    beside: Vec<String>,
    /// Whether its znode existed all the time that it was inside.
    stands: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Coming,
    /// The guest has entered, and the check has not run yet.
    Entered,
    Inside,
    Leaving,
    /// The guest has left, and the check has not run yet.
    Left,
}

#[derive(Default)]
struct Room {
    visits: BTreeMap<usize, Visit>,
    /// The guests that have entered, or could have, and whose znodes exist.
    entered: BTreeSet<String>,
    next: u64,
    last: BTreeMap<usize, Duration>,
    calm: Duration,
    rounds: u64,
}

#[derive(Default)]
pub(crate) struct Double(Mutex<Room>);

impl Double {
    fn is(&self, guest: usize, phase: Phase) {
        if let Some(visit) = self.0.lock().visits.get_mut(&guest) {
            visit.phase = phase;
        }
    }

    async fn visit(&self, guest: &mut Guest, client: &Client) {
        guest.pauses(0, 400).await;
        let name = {
            let mut room = self.0.lock();
            room.next += 1;
            let name = format!("g{}-{}", room.next, guest.number);
            let path = format!("{PATH}/{name}");
            room.visits.insert(guest.number, Visit { path, ..Visit::default() });
            name
        };
        let barrier = DoubleBarrier::new(client, PATH, SIZE, &Acls::open_to_all());
        let patience = match guest.random.below(5) {
            0 => guest.random.ms(1, 1_500),
            _ => Duration::from_secs(1 << 20),
        };
        let inside = match tokio::time::timeout(patience, barrier.enter(&name)).await {
            Ok(Ok(inside)) => inside,
            failed => {
                guest.tells(|| format!("does not enter: {:?}", failed.map(|it| it.map(|_| ()))));
                self.0.lock().visits.remove(&guest.number);
                return guest.pauses(0, 300).await;
            }
        };
        self.is(guest.number, Phase::Entered);
        guest.tells(|| format!("enters as {name}"));
        guest.pauses(15, 1_500).await;
        if guest.random.one_in(8) {
            self.0.lock().visits.remove(&guest.number);
            return;
        }
        {
            let mut room = self.0.lock();
            let is_beside = |visit: &&Visit| visit.phase == Phase::Inside && visit.stands;
            let beside = room.visits.values().filter(is_beside).map(|it| it.path.clone()).collect();
            if let Some(visit) = room.visits.get_mut(&guest.number) {
                visit.phase = Phase::Leaving;
                visit.beside = if visit.stands { beside } else { Vec::new() };
                visit.beside.retain(|path| *path != visit.path);
            }
        }
        let left = inside.leave().await;
        guest.tells(|| format!("leaves: {left:?}"));
        if left.is_ok() {
            self.is(guest.number, Phase::Left);
            let mut room = self.0.lock();
            room.rounds += 1;
            room.last.insert(guest.number, guest.clock().now());
        } else {
            self.0.lock().visits.remove(&guest.number);
        }
    }
}

impl Family for Double {
    fn program(self: Arc<Self>, mut guest: Guest) -> Program {
        Box::pin(async move {
            loop {
                let client = guest.client().await;
                while !client.state().is_over() {
                    self.visit(&mut guest, &client).await;
                }
                self.0.lock().visits.remove(&guest.number);
            }
        })
    }

    fn killed(&self, guest: usize) {
        self.0.lock().visits.remove(&guest);
    }

    fn check(&self, world: &World, _: Duration) -> Result<(), String> {
        let mut room = self.0.lock();
        let names = world.children(PATH);
        let count = names.iter().filter(|name| *name != "ready").count();
        let is_open = names.iter().any(|name| name == "ready");
        let there = |path: &str| world.znode(path).is_some();
        let inside: Vec<String> = room
            .visits
            .values()
            .filter(|visit| matches!(visit.phase, Phase::Inside | Phase::Entered))
            .filter(|visit| there(&visit.path))
            .map(|visit| visit.path.clone())
            .collect();
        let room = &mut *room;
        room.entered.extend(inside.iter().cloned());
        // Enough guests were there, or this guest has joined the others: as far as the others know,
        // it is inside, even if it has given up or was killed before it knew.
        for name in names.iter().filter(|name| *name != "ready") {
            let path = format!("{PATH}/{name}");
            let has_joined = world.version(&path).is_some_and(|version| version.0 > 0);
            if count >= SIZE || has_joined {
                room.entered.insert(path);
            }
        }
        room.entered.retain(|path| there(path));
        let entered = &room.entered;
        for (guest, visit) in &mut room.visits {
            visit.most = visit.most.max(count);
            visit.joins |= entered.iter().any(|path| *path != visit.path);
            match visit.phase {
                Phase::Entered => {
                    if visit.most < SIZE && !visit.joins {
                        return Err(format!(
                            "guest {guest} has entered with {} there: {visit:?}\n{}",
                            visit.most,
                            crate::house::picture(world, PATH)
                        ));
                    }
                    (visit.phase, visit.stands) = (Phase::Inside, there(&visit.path));
                }
                Phase::Inside => visit.stands &= there(&visit.path),
                Phase::Coming | Phase::Leaving | Phase::Left => {}
            }
            if visit.phase == Phase::Inside && visit.stands && !is_open {
                return Err(format!("the barrier is closed around guest {guest}: {visit:?}"));
            }
            let held = visit.beside.iter().find(|path| inside.contains(path));
            if let (Phase::Left, Some(other)) = (visit.phase, held) {
                return Err(format!("guest {guest} has left, and {other} is inside"));
            }
        }
        room.visits.retain(|_, visit| visit.phase != Phase::Left);
        Ok(())
    }

    fn calms(&self, now: Duration) {
        self.0.lock().calm = now;
    }

    fn settled(&self, world: &World) -> Result<(), String> {
        let room = self.0.lock();
        let is_late = |guest: &usize| room.last.get(guest).is_none_or(|at| *at < room.calm);
        match (0..GUESTS).find(is_late) {
            Some(guest) => Err(format!(
                "guest {guest} has not come and gone; {:?}\n{}",
                room.visits,
                crate::house::picture(world, PATH)
            )),
            None => Ok(()),
        }
    }

    fn reached(&self) -> Vec<(&'static str, u64)> {
        vec![("came and went", self.0.lock().rounds)]
    }
}
