//! One standalone server, driven by the shipped engine, from one seed: its connections byte by
//! byte, the turns of its network worker, records that the turn itself syncs, limits,
//! authentication, and power cuts.
//!
//! Time is the order of events: a scheduler draws which of the server's threads runs next. At the
//! end all threads run until nothing is left to do. A client that still waits then would wait for
//! ever.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use zebu_engine::journal::{Order, Records};
use zebu_engine::{
    ClientRules, Common, Engine, EngineOptions, Failed, Mode, Turn, TurnEvents, WorkerTurns,
};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{ExtendedTypes, ServerId, SessionId, Zxid};
use zebu_replica::auth::{Digest, DigestAlgorithm, Schemes};
use zebu_replica::{
    Input, IntakeOptions, MemberOptions, Now, Options, Passwords, ReaperOptions, Replica, Rules,
    SnapshotOptions, ThrottleOptions,
};
use zebu_state::{Copied, Outline, Rebuild, Step};
use zebu_store::{Snapshots, Store, TxnLog, Vfs};
use zebu_testkit::Random;
use zebu_zab::LinkId;

use crate::alone::party::Party;
use crate::alone::socket::{Side, Socket};
use crate::disk::{Disk, ROOT};
use crate::plan::Left;

mod party;
mod socket;

/// The number of steps of a run before it settles and ends.
const STEPS: u64 = 1_500;

/// The longest frame, in bytes, in runs that limit frames.
const PACKET_BYTES: usize = 700;

/// A server that still has work after this many steps does not settle.
const SETTLE_MAX: usize = 100_000;

/// Znodes may have a time to live.
const TYPES: ExtendedTypes = ExtendedTypes { enabled: true, emulate_353: false };

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The violated properties; empty after a good run.
    pub broken: Vec<String>,
    /// Requests that were answered.
    pub answered: u64,
    /// Power cuts and killed processes.
    pub crashes: u64,
    /// Turns that synced the log on their own thread.
    pub synced_itself: u64,
    /// Turns that the network worker took.
    pub worker_turns: u64,
}

/// Runs one seed.
pub fn run(seed: u64) -> Outcome {
    let mut alone = Alone::new(seed);
    let done = alone.live().and_then(|()| alone.settle());
    alone.outcome.broken.extend(done.err());
    alone.outcome
}

/// Runs one seed. A panic counts as a violated property.
pub fn run_caught(seed: u64) -> Outcome {
    std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
        Outcome { broken: vec![format!("panic: {text}")], ..Outcome::default() }
    })
}

/// The server, its disk and its clients.
struct Alone {
    random: Random,
    disk: Disk,
    now: Duration,
    process: Process,
    parties: Vec<Party>,
    rules: ClientRules,
    schemes: Arc<Schemes>,
    /// The most requests that the replica takes at a time.
    intake: IntakeOptions,
    outcome: Outcome,
}

/// A running server.
struct Process {
    common: Arc<Common<Side>>,
    engine: Option<Engine<Side>>,
    replica: Replica,
    log: TxnLog,
    snapshots: Snapshots,
    orders: VecDeque<Order>,
    /// Whether a snapshot is to be taken.
    is_snapshot_due: bool,
    awake: socket::Awake,
    turns: WorkerTurns,
    /// The number of inputs that arrived without waking the replica's thread.
    quiet: usize,
    /// The last applied transaction.
    applied: Zxid,
    /// The last transaction that the log has synced.
    durable: Zxid,
}

impl Alone {
    fn new(seed: u64) -> Self {
        let mut random = Random::stream(seed, 90);
        let disk = Disk::new();
        disk.initialize();
        let mut rules = ClientRules::default();
        if random.one_in(3) {
            rules.packet_bytes = PACKET_BYTES;
        }
        if random.one_in(4) {
            rules.enforced_schemes = vec!["digest".to_owned()];
        }
        if random.one_in(3) {
            rules.load.requests = random.between(1, 4) as u32;
        }
        if random.one_in(4) {
            rules.load.bytes = random.between(50, 400) as usize;
        }
        let digest = Digest::new(DigestAlgorithm::Sha1, None);
        let schemes = Arc::new(Schemes::new(vec![Box::new(digest)], false));
        let now = Duration::from_secs(10);
        let intake = IntakeOptions {
            requests_max: random.one_in(4).then(|| random.between(1, 3) as u32),
            stall: Duration::from_millis(20),
            ..IntakeOptions::default()
        };
        let process = Process::start(&disk, &rules, &schemes, &intake, seed, now)
            .expect("a server starts on an empty disk");
        let parties = (0..random.between(1, 4)).map(|number| Party::new(number, seed)).collect();
        let outcome = Outcome::default();
        Self { random, disk, now, process, parties, rules, schemes, intake, outcome }
    }

    fn live(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            match self.random.below(100) {
                0..30 => self.party_acts(),
                30..55 => {
                    let party = self.random.below(self.parties.len() as u64) as usize;
                    self.deliver(party)?;
                }
                55..70 => drop(self.thread_turns()?),
                70..82 => drop(self.log_works()?),
                82..90 => drop(self.worker_idles()?),
                90..97 => self.time_passes()?,
                97 => self.party_leaves(),
                98 => self.process.snapshot(),
                _ if self.random.one_in(6) => self.crash()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs everything until nothing is left to do.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..SETTLE_MAX {
            let mut is_busy = false;
            for party in 0..self.parties.len() {
                is_busy |= self.deliver(party)?;
            }
            is_busy |= self.thread_turns()?;
            is_busy |= self.log_works()?;
            is_busy |= self.worker_idles()?;
            if !is_busy && self.process.replica.waiting() > 0 {
                // The server looks again at requests that wait at the intake after `stall`.
                self.now += self.intake.stall;
                self.turn()?;
                is_busy = true;
            }
            if !is_busy {
                let left = self.process.common.load.requests();
                if left > 0 {
                    return Err(format!("liveness: {left} requests are in progress for ever"));
                }
                return self.parties.iter().try_for_each(Party::is_content);
            }
        }
        Err("liveness: the server has something to do for ever".to_owned())
    }

    fn party_acts(&mut self) {
        let number = self.random.below(self.parties.len() as u64) as usize;
        let party = &mut self.parties[number];
        if party.socket.is_none() {
            let (common, awake) = (&self.process.common, &self.process.awake);
            party.connect(Socket::open(common, awake, number));
        } else {
            party.ask(&self.rules);
        }
    }

    /// Moves bytes between a client and its connection, and runs the connection's task. Returns
    /// whether there was, or will be, anything to do.
    fn deliver(&mut self, number: usize) -> Result<bool, String> {
        let party = &mut self.parties[number];
        let Some(socket) = &mut party.socket else { return Ok(false) };
        let Process { common, turns, quiet, awake, .. } = &mut self.process;
        let was_awake = awake.lock().remove(&number);
        let mut desk = socket::Desk { turns, quiet, now: self.now };
        let moved = socket.serve(common, &mut desk, &mut self.random, was_awake);
        let answers = socket.take();
        for answer in &answers {
            self.outcome.answered += 1;
            party.answered(answer)?;
        }
        if party.socket.as_ref().is_some_and(|socket| socket.is_over()) {
            party.closed(&self.process.common)?;
        }
        Ok(moved || !answers.is_empty())
    }

    fn party_leaves(&mut self) {
        let number = self.random.below(self.parties.len() as u64) as usize;
        self.parties[number].leave(&self.process.common);
    }

    /// The replica's thread takes a turn if it was woken.
    fn thread_turns(&mut self) -> Result<bool, String> {
        let (inputs, _) = self.process.common.inbox.load();
        if inputs <= self.process.quiet {
            return Ok(false);
        }
        self.turn()?;
        Ok(true)
    }

    /// An idle network worker runs the work that it has kept for itself.
    fn worker_idles(&mut self) -> Result<bool, String> {
        if self.process.turns.take() == 0 {
            return Ok(false);
        }
        self.outcome.worker_turns += 1;
        self.turn()?;
        Ok(true)
    }

    fn turn(&mut self) -> Result<(), String> {
        self.process.quiet = 0;
        let common = Arc::clone(&self.process.common);
        loop {
            let mut engine = self.process.engine.take().ok_or("two turns at a time")?;
            let Self { process, random, now, disk, .. } = self;
            let mut driver = Driver { process, random, now: *now, disk, synced: 0 };
            let done = engine.turn(&common, &mut driver);
            self.outcome.synced_itself += driver.synced;
            self.process.engine = Some(engine);
            if done.map_err(|failure| failure.to_string())? == Turn::Done {
                break;
            }
            // Another thread runs in between, or the run ends here.
            let party = self.random.below(self.parties.len() as u64) as usize;
            self.deliver(party)?;
            if self.random.one_in(40) {
                return self.crash();
            }
        }
        let Process { applied, durable, .. } = self.process;
        if applied > durable {
            return Err(format!("S-8: {applied} is applied, and only {durable} is durable"));
        }
        Ok(())
    }

    /// The log's thread carries out some of its orders, with one sync.
    fn log_works(&mut self) -> Result<bool, String> {
        let count = self.random.between(1, 4) as usize;
        let mut last = None;
        let process = &mut self.process;
        let text = |error: zebu_store::StoreError| error.to_string();
        self.disk.set_now(self.now);
        let orders: Vec<Order> = process.orders.drain(..count.min(process.orders.len())).collect();
        if orders.is_empty() {
            process.log.settle().map_err(text)?;
            if std::mem::take(&mut process.is_snapshot_due) {
                process.take_snapshot()?;
                process.common.inbox.push(Input::SnapshotDone);
                return Ok(true);
            }
            return Ok(false);
        }
        for order in orders {
            match order {
                Order::Append(records) => {
                    for (zxid, record) in records {
                        process.log.append(zxid, &record);
                        last = Some(zxid);
                    }
                }
                Order::Roll => drop(process.log.roll().map_err(text)?),
                Order::Member(job) => return Err(format!("alone, and asked for {job:?}")),
            }
        }
        if let Some(last) = last {
            process.log.commit().map_err(text)?;
            process.durable = last;
            process.common.inbox.push(Input::Flushed(last));
        }
        Ok(true)
    }

    fn time_passes(&mut self) -> Result<(), String> {
        self.now += self.random.ms(0, 150);
        let process = &self.process;
        let engine = process.engine.as_ref().ok_or("two turns at a time")?;
        if self.now >= engine.next(&process.replica) {
            self.turn()?;
        }
        Ok(())
    }

    /// Kills the process or cuts the power, and starts a server on what the disk has kept.
    fn crash(&mut self) -> Result<(), String> {
        self.outcome.crashes += 1;
        // This checks the clients' watches too. A panic counts as a violated property.
        self.process.common.tree.read().check();
        // An order may be half done.
        if self.random.one_in(3) && !self.process.orders.is_empty() {
            self.disk.stop_after(self.random.below(6));
            let _ = self.log_works();
        }
        // The operating system keeps all writes of a killed process.
        let left = match self.random.below(4) {
            0 => Left::Nothing,
            1 | 2 => Left::All,
            _ => Left::Some(self.random.next()),
        };
        self.disk = self.disk.crash(left.crash());
        self.now += Duration::from_secs(1);
        let seed = self.random.next();
        let Self { disk, rules, schemes, intake, now, .. } = self;
        self.process = Process::start(disk, rules, schemes, intake, seed, *now)?;
        let tree = self.process.common.tree.read();
        tree.check();
        for party in &mut self.parties {
            party.survives(&tree)?;
        }
        Ok(())
    }
}

impl Process {
    fn start(
        disk: &Disk,
        rules: &ClientRules,
        schemes: &Arc<Schemes>,
        intake: &IntakeOptions,
        seed: u64,
        now: Duration,
    ) -> Result<Self, String> {
        let text = |error: zebu_store::StoreError| format!("F2: a server does not start: {error}");
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let options = zebu_store::Options {
            prealloc_bytes: if seed.is_multiple_of(2) { 0 } else { 4096 },
            ..zebu_store::Options::new(ROOT)
        };
        let mut store = Store::open(vfs, options).map_err(text)?;
        let tree_options =
            zebu_tree::Options { hash_seed: seed, types: TYPES, ..zebu_tree::Options::default() };
        let mut rebuild = Rebuild::new(tree_options);
        let recovered = store.recover(&mut rebuild).map_err(text)?;
        let mut tree = rebuild.finish().tree;
        tree.remove_orphan_ephemerals();
        tree.trust_digests(Zxid::ZERO);
        let (log, snapshots) = store.split();
        let time = clock(now);
        let mut replica = Replica::new(replica_options(seed, time.wall_ms, intake), &tree, time);
        replica.replayed(recovered.replayed, recovered.replayed_bytes);
        let last = tree.last_zxid();
        let engine = EngineOptions { syncs_itself: true, ..EngineOptions::default() };
        let common = Common::new(tree, schemes.clone(), rules.clone());
        common.serve(now, || Some(Mode::Standalone));
        let mut turns = WorkerTurns::default();
        turns.allow();
        let mut process = Self {
            common: Arc::new(common),
            engine: Some(Engine::new(engine, now)),
            replica,
            log,
            snapshots,
            orders: VecDeque::new(),
            is_snapshot_due: false,
            awake: socket::Awake::default(),
            turns,
            quiet: 0,
            applied: last,
            durable: last,
        };
        if recovered.snapshot.is_none() {
            process.take_snapshot()?;
        }
        Ok(process)
    }

    /// Requests a snapshot.
    fn snapshot(&mut self) {
        self.is_snapshot_due = true;
    }

    fn take_snapshot(&mut self) -> Result<(), String> {
        let text = |error: zebu_store::StoreError| error.to_string();
        let tree = self.common.tree.read();
        let mut taking = Outline::of(&tree).begin(&self.snapshots).map_err(text)?;
        if taking.step(&tree, usize::MAX, usize::MAX) != Step::Done {
            return Err("a snapshot is not complete".to_owned());
        }
        taking.finish(true, true).map_err(text)?;
        Ok(())
    }
}

fn clock(now: Duration) -> Now {
    Now { monotonic: now, wall_ms: 1_700_000_000_000 + now.as_millis() as i64 }
}

fn replica_options(seed: u64, wall_ms: i64, intake: &IntakeOptions) -> Options {
    Options {
        server: ServerId(1),
        first_session: SessionId::first(ServerId(1), wall_ms),
        tick: Duration::from_secs(2),
        session_timeout_ms_min: 4_000,
        session_timeout_ms_max: 40_000,
        passwords: Passwords::Compatible,
        rules: Rules { types: TYPES, ..Rules::default() },
        eager_acl_check: false,
        throttled_op_wait: Duration::ZERO,
        connections: ThrottleOptions::default(),
        intake: intake.clone(),
        reaper: ReaperOptions::default(),
        snapshots: SnapshotOptions { every_txns: 50, every_bytes: None, log_percent: 0 },
        member: MemberOptions::default(),
        seed,
    }
}

/// One turn of the server, or a part of it.
struct Driver<'p> {
    process: &'p mut Process,
    random: &'p mut Random,
    now: Duration,
    disk: &'p Disk,
    synced: u64,
}

impl zebu_engine::World for Driver<'_> {
    type Side = Side;

    fn now(&self) -> Now {
        clock(self.now)
    }

    fn goes_on(&mut self) -> bool {
        !self.random.one_in(5)
    }

    fn is_enough(&mut self, outputs: usize) -> bool {
        outputs > 3
    }

    fn replica(&self) -> &Replica {
        &self.process.replica
    }

    fn replica_mut(&mut self) -> &mut Replica {
        &mut self.process.replica
    }

    fn order(&mut self, order: Order) -> Result<(), Failed> {
        self.process.orders.push_back(order);
        Ok(())
    }

    fn append_now(&mut self, records: &mut Records) -> Result<Option<Zxid>, Failed> {
        let process = &mut *self.process;
        if !process.orders.is_empty() || self.random.one_in(4) {
            return Ok(None);
        }
        let Some((last, _)) = records.last() else { return Ok(None) };
        let last = *last;
        self.disk.set_now(self.now);
        for (zxid, record) in records.drain(..) {
            process.log.append(zxid, &record);
        }
        process.log.commit().map_err(|error| Failed::Log(error.into()))?;
        process.durable = last;
        self.synced += 1;
        Ok(Some(last))
    }

    fn snapshot(&mut self, _: &Common<Side>) {
        self.process.is_snapshot_due = true;
    }

    fn send(&mut self, link: LinkId, _: QuorumPacket) {
        unreachable!("alone, and {link:?} is to be sent something")
    }

    fn network(&mut self, _: zebu_zab::Output) -> Result<(), Failed> {
        Err(Failed::Alone)
    }

    fn take_copy(&mut self, _: LinkId) -> Option<Box<Copied>> {
        None
    }

    fn serve(&mut self, _: &Common<Side>, _: Option<Mode>) {}
}

impl TurnEvents<Side> for Driver<'_> {
    fn applied(&mut self, _: Now, what: &zebu_engine::AppliedTxn<'_>) {
        self.process.applied = what.zxid;
    }
}

/// Connections, by the numbers of their clients.
type Numbers = BTreeSet<usize>;
