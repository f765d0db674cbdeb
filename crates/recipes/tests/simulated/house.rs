//! Runs programs over the shipped client in the simulator: each program is a process with a clock
//! and a runtime of its own, and its network is the simulated one.
//!
//! Everything runs in one thread. The world advances by some milliseconds, then each process that
//! is not paused advances to the same time. The seed decides the steps and their order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use zebu_client::{Client, Connector, SessionThread};
use zebu_sim::plan::Plan;
use zebu_sim::{Outcome, Random, World};

use crate::wires::{Hosts, Port};

/// The duration of the safety phase, in which faults happen.
const STORMY: Duration = Duration::from_secs(30);

/// The time limit for convergence after the last fault.
const PATIENCE: Duration = Duration::from_secs(90);

const SERVERS: usize = 3;

/// The time of day at the beginning of the run.
pub(crate) const WALL: Duration = Duration::from_secs(1_700_000_000);

/// A program that runs in a process.
pub(crate) type Program = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Programs that use one recipe together, and the properties that must hold.
pub(crate) trait Family: Send + Sync + 'static {
    /// The program of a process.
    fn program(self: Arc<Self>, guest: Guest) -> Program;

    /// The process of a guest is killed.
    fn killed(&self, _guest: usize) {}

    /// The properties that must hold at any time.
    fn check(&self, _world: &World, _now: Duration) -> Result<(), String> {
        Ok(())
    }

    /// The safety phase has ended: there are no more faults.
    fn calms(&self, _now: Duration) {}

    /// The state that must be reached after the last fault. The error is the reason why it is not
    /// reached yet.
    fn settled(&self, world: &World) -> Result<(), String>;

    /// Counters of the events that the run has reached.
    fn reached(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A process's own view of itself.
pub(crate) struct Guest {
    /// The number of the guest.
    pub(crate) number: usize,
    /// The source of its random decisions.
    pub(crate) random: Random,
    port: Port,
    is_busy: Arc<AtomicBool>,
    clock: Clock,
}

/// The world's time, from the view of a process.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    started: Duration,
}

impl Clock {
    pub(crate) fn now(&self) -> Duration {
        self.started + self.start.elapsed()
    }
}

impl Guest {
    /// Connects, with any number of attempts.
    pub(crate) async fn client(&mut self) -> Client {
        let thread = SessionThread::current().expect("a process has one thread");
        loop {
            let timeout = Duration::from_millis(self.random.between(1_000, 6_000));
            let connector = Connector::new()
                .seed(self.random.next())
                .session_timeout(timeout)
                .on_thread(&thread)
                .wall_clock({
                    let clock = self.clock;
                    move || UNIX_EPOCH + WALL + clock.now()
                })
                .transport(self.port.clone());
            match connector.connect_to(Hosts(SERVERS)).await {
                Ok(client) => {
                    self.tells(|| format!("has session {}, {timeout:?}", client.session_id()));
                    return client;
                }
                Err(error) => self.tells(|| error.to_string()),
            }
            self.pauses(0, 500).await;
        }
    }

    /// Whether the program makes new requests: during the safety phase, and for some time after it.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Waits for some milliseconds.
    pub(crate) async fn pauses(&mut self, low: u64, high: u64) {
        let pause = self.random.ms(low, high);
        tokio::time::sleep(pause).await;
    }

    /// Prints the program's action if the run is traced.
    pub(crate) fn tells(&self, what: impl FnOnce() -> String) {
        if crate::is_loud() {
            println!("{:>11.6}  guest {} {}", self.clock.now().as_secs_f64(), self.number, what());
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }
}

struct Process {
    port: Port,
    runtime: Option<Runtime>,
    start: Instant,
    started: Duration,
    /// The time up to which it has run.
    now: Duration,
    /// The time of its next start.
    back: Duration,
    /// The time at which it is killed.
    kills: Vec<Duration>,
    lives: u64,
}

struct House<F> {
    seed: u64,
    world: World,
    random: Random,
    processes: Vec<Process>,
    family: Arc<F>,
    is_busy: Arc<AtomicBool>,
    now: Duration,
}

/// Runs a family with a seed.
pub(crate) fn run<F: Family>(seed: u64, guests: usize, family: F) -> Outcome {
    let mut random = Random::stream(seed, 400);
    let world = World::new(Plan::visited(seed, guests, STORMY));
    let world = if crate::is_loud() { world.narrate() } else { world };
    let is_killing = random.one_in(3);
    let processes = (0..guests)
        .map(|_| {
            let count = if is_killing { random.below(3) } else { 0 };
            let kills = (0..count).map(|_| random.ms(5_000, STORMY.as_millis() as u64)).collect();
            let back = Duration::from_millis(random.between(0, 3_000));
            let zero = Duration::ZERO;
            Process {
                port: Port::default(),
                runtime: None,
                start: Instant::now(),
                started: zero,
                now: zero,
                back,
                kills,
                lives: 0,
            }
        })
        .collect();
    let is_busy = Arc::new(AtomicBool::new(true));
    let family = Arc::new(family);
    let now = Duration::ZERO;
    let mut house = House { seed, world, random, processes, family, is_busy, now };
    let done = house.live();
    let House { world, processes, family, .. } = house;
    drop(processes);
    let mut outcome = world.end();
    outcome.reached.extend(family.reached());
    outcome.broken.extend(done.err());
    outcome
}

impl<F: Family> House<F> {
    fn live(&mut self) -> Result<(), String> {
        while self.now < STORMY {
            self.step()?;
        }
        self.world.get_well();
        self.family.calms(self.now);
        let calm = self.now + PATIENCE / 3;
        let limit = self.now + PATIENCE;
        loop {
            for _ in 0..100 {
                self.step()?;
            }
            if self.now > calm {
                self.is_busy.store(false, Ordering::Relaxed);
            }
            let settled = self.family.settled(&self.world);
            match settled {
                Ok(()) => return Ok(()),
                Err(what) if self.now > limit => {
                    return Err(format!("{:?}: liveness: {what}", self.now));
                }
                Err(_) => {}
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.now += Duration::from_millis(self.random.between(1, 10));
        if !self.world.pass(self.now) {
            return Err("the ensemble broke its promises".to_owned());
        }
        let count = self.processes.len();
        let first = self.random.below(count as u64) as usize;
        for turn in 0..count {
            self.run((first + turn) % count);
        }
        let checked = self.family.check(&self.world, self.now);
        checked.map_err(|what| format!("{:?}: {what}", self.now))
    }

    fn run(&mut self, guest: usize) {
        if self.world.is_silent(guest) {
            return;
        }
        let process = &mut self.processes[guest];
        if process.runtime.is_some() && process.kills.iter().any(|at| *at <= self.now) {
            process.kills.retain(|at| *at > self.now);
            process.runtime = None;
            process.back = self.now + self.random.ms(50, 5_000);
            self.world.say(|| format!("guest {guest} is killed"));
            self.family.killed(guest);
        }
        if process.runtime.is_none() && process.back <= self.now {
            self.start(guest);
        }
        let process = &mut self.processes[guest];
        process.port.arrive(&mut self.world, guest);
        if let Some(runtime) = &process.runtime {
            let behind = self.now - process.now;
            let until = process.start + (self.now - process.started);
            runtime.block_on(async {
                // The time of the pause passes at once for the process.
                if behind > Duration::from_millis(20) {
                    tokio::time::advance(behind - Duration::from_millis(1)).await;
                }
                tokio::time::sleep_until(until).await;
            });
            process.now = self.now;
        }
        process.port.depart(&mut self.world, guest);
    }

    fn start(&mut self, guest: usize) {
        let process = &mut self.processes[guest];
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without threads");
        process.lives += 1;
        (process.started, process.now) = (self.now, self.now);
        process.start = runtime.block_on(async { Instant::now() });
        let stream = 500 + guest as u64 + 100 * process.lives;
        let guest = Guest {
            number: guest,
            random: Random::stream(self.seed, stream),
            port: process.port.clone(),
            is_busy: self.is_busy.clone(),
            clock: Clock { start: process.start, started: process.started },
        };
        runtime.spawn(self.family.clone().program(guest));
        process.runtime = Some(runtime);
    }
}

/// All znodes below a path, as text for readers.
pub(crate) fn picture(world: &World, path: &str) -> String {
    let mut text = String::new();
    for name in world.children(path) {
        if name == "zookeeper" {
            continue;
        }
        let path = if path == "/" { format!("/{name}") } else { format!("{path}/{name}") };
        if let Some((created, data)) = world.znode(&path) {
            text += &format!("{path} {created} {}\n", String::from_utf8_lossy(&data));
        }
        text += &picture(world, &path);
    }
    text
}
