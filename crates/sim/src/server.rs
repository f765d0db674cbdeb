//! One server: the shipped replica, tree and store, and a driver with the same order of operations
//! as the real one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::RwLockReadGuard;
use zebu_engine::journal::{MemberFiles, Order};
use zebu_engine::load::LoadLimits;
use zebu_engine::{ClientRules, Common, Engine, EngineOptions, Turn};
use zebu_proto::{EnsembleId, ExtendedTypes, HostPort, Identity, ServerId, SessionId, Zxid};
use zebu_replica::{
    Input, IntakeOptions, MemberOptions, Now, Options, Passwords, ReaperOptions, Replica, Rules,
    SessionKey, SnapshotOptions, ThrottleOptions,
};
use zebu_state::membership::{self, ConfigFiles};
use zebu_state::{Found, LogRepair, Rebuild, Rebuilt, Taking};
use zebu_store::scrub::Incidents;
use zebu_store::{Damage, Recovered, Snapshots, Store, TxnLog, Vfs, room};
use zebu_testkit::Random;
use zebu_tree::Tree;
use zebu_zab::config::Membership;
use zebu_zab::history::Memory;
use zebu_zab::{ConfigChange, Leave, LinkId, Peer, Role, Start};

use crate::conn::{Awake, Connection, Side};
use crate::copy::{Arriving, Leaving};
use crate::disk::{Disk, ROOT};
use crate::driver::Driver;
use crate::links::Port;
use crate::members::{self, FILE, NOT_A_MEMBER, Said, Settings, machine};
use crate::plan::Plan;
use crate::world::{Happening, World};

/// The interval of reports to the replica about sessions that were active without it.
const TOUCH_INTERVAL: Duration = Duration::from_millis(200);

/// How long after a pause a server's records still say that it has not read everything.
const NOTED_AFTER: Duration = Duration::from_millis(200);

/// The most attempts of a server to connect to a leader in one second.
const DIALS_MAX: u32 = 60;

/// A machine: its disk, its clocks, and its process if one runs.
pub(crate) struct Server {
    pub(crate) disk: Disk,
    /// The factor by which the disk is slower than usual.
    pub(crate) disk_factor: u32,
    pub(crate) wall_offset_ms: i64,
    /// The drift of its monotonic clock, in millionths.
    drift_ppm: i64,
    pub(crate) paused: Option<u64>,
    pub(crate) pauses: u64,
    /// Events that happened during a pause.
    pub(crate) missed: Vec<Happening>,
    /// The number of processes so far.
    pub(crate) number: u64,
    pub(crate) process: Option<Box<Process>>,
    pub(crate) backup: Option<Backup>,
    /// Whether the server has stopped because its disk is full, and waits for room.
    pub(crate) waits_for_room: bool,
    /// The log that the last repair wrote, until a start has read it.
    pub(crate) repaired: Option<Zxid>,
    /// The server's own ensemble file, while the server has the data of another ensemble.
    pub(crate) home: Option<Vec<u8>>,
}

/// A copy of a server's data.
pub(crate) struct Backup {
    pub(crate) disk: Disk,
    /// The copied tree is as of the first zxid, and may contain effects of transactions up to the
    /// second.
    pub(crate) fuzzy: (Zxid, Zxid),
    /// Whether the copy was made after a loss of the server's data.
    pub(crate) lost: bool,
    /// The version of the committed configuration.
    pub(crate) version: Zxid,
}

/// What a server's disk remembers when a process starts.
struct Recalled {
    start: Start,
    recovered: Recovered,
    committed: Arc<Membership>,
    identity: Identity,
    tree: Tree,
    /// The number of transactions that say another digest than their tree has.
    mismatches: u64,
    log: TxnLog,
    snapshots: Snapshots,
    files: MemberFiles,
}

/// A running server.
pub(crate) struct Process {
    pub(crate) number: u64,
    started: Duration,
    clock_base: Duration,
    pub(crate) replica: Replica,
    /// The state that the engine and the connections share.
    pub(crate) common: Arc<Common<Side>>,
    /// `None` during a turn.
    pub(crate) engine: Option<Engine<Side>>,
    pub(crate) log: TxnLog,
    pub(crate) snapshots: Snapshots,
    pub(crate) files: MemberFiles,
    /// The servers that its network knows.
    pub(crate) said: Said,
    /// The addresses at which it listens for learners.
    pub(crate) listening: Vec<HostPort>,
    /// Whether observers may learn from it.
    pub(crate) takes_observers: bool,
    pub(crate) role: Role,
    /// Whether it is read-only because it has no leader.
    pub(crate) only_reads: bool,
    /// The delay until its restart, if it was asked to stop.
    pub(crate) comes_back: Option<Duration>,
    /// Whether it has permanently left elections.
    pub(crate) retired: bool,
    waking: bool,
    timer: Option<Duration>,
    /// Whether its turn has paused and will continue.
    going_on: bool,
    /// Since when it has not read what arrives, as its clock shows it.
    unread_since: Option<Duration>,
    /// Until when it has not read everything that arrived while it was paused.
    unread_until: Duration,
    pub(crate) jobs: VecDeque<Order>,
    /// The orders that the log thread is carrying out.
    pub(crate) working: Vec<Order>,
    /// For each snapshot to be installed: its link, and the last transaction of which it may
    /// contain effects.
    pub(crate) restoring: VecDeque<(LinkId, Zxid)>,
    pub(crate) jobs_done: u64,
    pub(crate) taking: Option<Taking>,
    /// The damage that its start has found.
    pub(crate) damaged: Option<Damage>,
    pub(crate) repair: Option<LogRepair>,
    /// The known damage.
    pub(crate) incidents: Incidents,
    pub(crate) attempt: u64,
    /// The link on which it has acknowledged NEWLEADER.
    pub(crate) proven: Option<LinkId>,
    /// Transactions that it has omitted from synchronizations, and must not commit there.
    pub(crate) left_out: BTreeSet<(LinkId, Zxid)>,
    /// The second of its last attempt to connect to a leader, and the number of attempts in that
    /// second.
    dialled_in: (u64, u32),
    pub(crate) arriving: BTreeMap<LinkId, Arriving>,
    pub(crate) leaving: BTreeMap<LinkId, Leaving>,
    /// For each link, the beginning of a packet whose end has not arrived.
    pub(crate) received: BTreeMap<LinkId, BytesMut>,
    /// The connections of its clients, by their numbers on the network.
    pub(crate) clients: BTreeMap<u64, Connection>,
    /// Connections whose tasks are to be woken.
    pub(crate) awake: Awake,
}

impl Process {
    pub(crate) fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.common.tree.read_recursive()
    }
}

impl Server {
    pub(crate) fn new(random: &mut Random) -> Self {
        let disk = Disk::new();
        disk.initialize();
        Self {
            disk,
            backup: None,
            waits_for_room: false,
            repaired: None,
            home: None,
            disk_factor: 1,
            wall_offset_ms: random.below(20_000) as i64 - 10_000,
            drift_ppm: random.below(400) as i64 - 200,
            paused: None,
            pauses: 0,
            missed: Vec::new(),
            number: 0,
            process: None,
        }
    }

    /// Ends the process, with everything that it has in memory.
    pub(crate) fn end_process(&mut self) {
        self.number += 1;
        self.process = None;
        self.paused = None;
        self.waits_for_room = false;
        self.missed.clear();
    }

    pub(crate) fn role(&self) -> Role {
        self.process.as_ref().map_or(Role::Looking, |process| process.role)
    }

    pub(crate) fn serves(&self) -> bool {
        self.role() != Role::Looking
    }

    /// The epoch that this server leads.
    pub(crate) fn leads(&self) -> Option<zebu_proto::Epoch> {
        match self.role() {
            Role::Leading(epoch) => Some(epoch),
            _ => None,
        }
    }

    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.process.as_ref().and_then(|process| process.replica.peer())
    }

    /// Whether the server serves and has nothing left to do.
    pub(crate) fn is_at_rest(&self, last: Zxid) -> bool {
        self.serves()
            && self.process.as_ref().is_some_and(|process| {
                process.tree().last_zxid() == last && process.replica.in_process() == 0
            })
            && self.peer().is_some_and(|peer| peer.history().pending().len() == 0)
    }

    pub(crate) fn status(&self) -> String {
        let Some(process) = &self.process else { return "down".to_owned() };
        let peer = process.replica.peer().expect("a member");
        format!(
            "{:?}, {:?}, tree {} log {} flushed {} {:?}; {} in process; last left because {}{}",
            process.role,
            peer.state(),
            process.tree().last_zxid(),
            peer.history().last(),
            peer.history().flushed(),
            peer.epochs(),
            process.replica.in_process(),
            peer.left(),
            if self.paused.is_some() { "; paused" } else { "" }
        )
    }

    /// The time on this server's clocks.
    pub(crate) fn clock(&self, now: Duration) -> Now {
        let monotonic = self.process.as_ref().map_or(now, |process| {
            let ran = (now - process.started).as_nanos() as i128;
            let ran = ran + ran * i128::from(self.drift_ppm) / 1_000_000;
            process.clock_base + Duration::from_nanos(ran as u64)
        });
        Now { monotonic, wall_ms: 1_700_000_000_000 + now.as_millis() as i64 + self.wall_offset_ms }
    }

    /// The process is paused, and reads nothing.
    pub(crate) fn stops_to_read(&mut self, now: Duration) {
        let since = self.clock(now).monotonic;
        if let Some(process) = &mut self.process {
            (process.unread_since, process.unread_until) = (Some(since), Duration::MAX);
        }
    }

    /// The process continues, and begins to read.
    pub(crate) fn begins_to_read(&mut self, now: Duration) {
        if let Some(process) = &mut self.process {
            process.unread_until = now + NOTED_AFTER;
        }
    }

    /// Up to when it has read everything, as its clock shows it; `None`: up to now.
    pub(crate) fn has_read_until(&self, now: Duration) -> Option<Duration> {
        let process = self.process.as_ref()?;
        process.unread_since.filter(|_| now < process.unread_until)
    }

    /// The simulated time at which this server's clock will show `at`, roughly.
    fn when(&self, now: Duration, at: Duration) -> Duration {
        let left = at.saturating_sub(self.clock(now).monotonic);
        now + left + left / 4000
    }
}

/// Guests do not wait a minute until a znode with a time to live ends.
fn reaper(plan: &Plan) -> ReaperOptions {
    let all = ReaperOptions::default();
    if plan.guests > 0 { ReaperOptions { interval: plan.tick * 4, ..all } } else { all }
}

pub(crate) fn tree_options(plan: &Plan) -> zebu_tree::Options {
    zebu_tree::Options { hash_seed: plan.seed, types: types(plan), ..zebu_tree::Options::default() }
}

/// Only runs with guests have znodes with a time to live.
fn types(plan: &Plan) -> ExtendedTypes {
    ExtendedTypes { enabled: plan.guests > 0, emulate_353: false }
}

fn store_options(plan: &Plan) -> zebu_store::Options {
    zebu_store::Options {
        prealloc_bytes: if plan.seed.is_multiple_of(2) { 0 } else { 4096 },
        autocreate_db: plan.autocreate && !plan.reconfig,
        member: true,
        recent_txns_max: plan.memory_txns,
        ..zebu_store::Options::new(ROOT)
    }
}

/// The id of a server.
pub(crate) fn id_of(server: usize) -> ServerId {
    ServerId(server as i64 + 1)
}

fn replica_options(plan: &Plan, server: usize, process: u64, wall_ms: i64) -> Options {
    let tick_ms = plan.tick.as_millis() as i32;
    let id = id_of(server);
    // Two processes may start in the same millisecond of a clock that jumps.
    let first = SessionId::first(id, wall_ms + process as i64 * 1_000_000);
    Options {
        server: id,
        first_session: first,
        tick: plan.tick,
        session_timeout_ms_min: 2 * tick_ms,
        session_timeout_ms_max: 20 * tick_ms,
        passwords: passwords(plan),
        rules: Rules {
            enforce_quota: plan.quotas,
            reconfig: plan.reconfig,
            members: zebu_zab::config::Rules { standalone: false, multi_address: false },
            types: types(plan),
            ..Rules::default()
        },
        eager_acl_check: plan.seed.is_multiple_of(3),
        throttled_op_wait: Duration::ZERO,
        connections: ThrottleOptions::default(),
        intake: IntakeOptions::default(),
        reaper: reaper(plan),
        snapshots: SnapshotOptions {
            every_txns: plan.snapshot_every,
            every_bytes: None,
            log_percent: 0,
        },
        member: MemberOptions {
            local_sessions: plan.local_sessions,
            upgrade_local_sessions: plan.local_sessions,
            read_only_after: plan.read_only.then_some(plan.tick),
            ..MemberOptions::default()
        },
        seed: plan.seed ^ (server as u64) << 32 ^ process,
    }
}

/// Some ensembles allow few requests in flight, so connections are held back.
fn client_rules(plan: &Plan) -> ClientRules {
    let load = match plan.seed % 7 {
        0 => LoadLimits { requests: 1, ..LoadLimits::default() },
        1 => LoadLimits { bytes: 100, ..LoadLimits::default() },
        _ => LoadLimits::default(),
    };
    ClientRules { load, ..ClientRules::default() }
}

/// Every other ensemble has its own key for the passwords of sessions.
fn passwords(plan: &Plan) -> Passwords {
    let key = SessionKey::new(&plan.seed.to_be_bytes().repeat(4)).expect("it is long enough");
    if (plan.seed >> 1).is_multiple_of(2) { Passwords::Keyed(key) } else { Passwords::Compatible }
}

fn zab_options(plan: &Plan, server: usize, process: u64) -> zebu_zab::Options {
    let mut options = zebu_zab::Options::new(id_of(server));
    options.tick = plan.tick;
    options.memory = Memory { txns: plan.memory_txns, bytes: 0, ..Memory::default() };
    options.log_share = plan.log_share;
    options.always_copy = plan.always_copy;
    options.first_counter = plan.first_counter;
    options.reconfig = plan.reconfig;
    options.observer.masters = plan.masters;
    options.observer.logs = !plan.logless;
    options.resync_pause = plan.tick * 8;
    options.credulous = plan.credulous && plan.seed >> server & 1 == 0;
    let id = u128::from(plan.seed) << 64 | (server as u128) << 32 | u128::from(process);
    options.new_ensemble = (!options.credulous).then_some(EnsembleId(id));
    options.leader_silence = plan.leader_silence.filter(|_| !options.credulous);
    options
}

impl World {
    // ---- start and end

    pub(crate) fn boot(&mut self, server: usize, number: u64) {
        let it = &mut self.servers[server];
        if it.process.is_some() || it.number != number {
            return;
        }
        if it.waits_for_room {
            it.disk.set_now(self.now);
            if !room::is_there(&it.disk, &[ROOT.into()]) {
                let waiting = Happening::Boot { server, process: number };
                return self.after(room::LOOK_AFTER, waiting);
            }
            it.waits_for_room = false;
            if it.disk.is_full() {
                let what = format!("F6: server {server} starts again before there is room");
                return self.checks.found(what);
            }
            self.reached("room again");
        }
        self.net.dark.remove(&server);
        // Some starts are interrupted during their work on the disk.
        let calm = self.healing || self.plan.faults.is_empty();
        let calls = if calm || !self.random.one_in(6) { None } else { Some(self.random.below(14)) };
        let it = &mut self.servers[server];
        it.disk.set_now(self.now);
        if let Some(calls) = calls {
            it.disk.stop_after(calls);
        }
        match self.start(server) {
            Ok(()) if calls.is_none() => {}
            Ok(()) => {
                let it = &mut self.servers[server];
                it.end_process();
                self.interrupted_start(server);
                return;
            }
            Err(reason) if reason == NOT_A_MEMBER && calls.is_none() => {
                self.tell(|| format!("server {server} was removed and does not start"));
                self.readmit(server);
                let after = self.random.ms(500, 20_000);
                let process = self.servers[server].number;
                self.after(after, Happening::Boot { server, process });
                return;
            }
            Err(reason) => {
                let failed_before = self.servers[server].disk.failures() > 0;
                self.servers[server].waits_for_room = self.servers[server].disk.is_full();
                self.tell(|| format!("server {server} does not start: {reason}"));
                if calls.is_some() {
                    self.interrupted_start(server);
                    return;
                }
                if !failed_before {
                    self.checks.found(format!("F2: server {server} does not start: {reason}"));
                }
                let after = self.random.ms(100, 2000);
                let process = self.servers[server].number;
                self.after(after, Happening::Boot { server, process });
                return;
            }
        }
        self.input(server, number, Input::Tick);
        self.after(TOUCH_INTERVAL, Happening::Touches { server, process: number });
        self.scrub_later(server, number);
        self.begin_repair(server);
    }

    fn interrupted_start(&mut self, server: usize) {
        self.reached("start interrupted");
        let left = crate::plan::Left::Some(self.random.next());
        let killed = self.random.one_in(2);
        let it = &mut self.servers[server];
        if killed {
            // The machine continues to run, so all writes are visible, durable or not.
            it.disk.resume();
        } else {
            it.disk = it.disk.crash(left.crash());
        }
        let process = it.number;
        let after = self.random.ms(1, 300);
        self.after(after, Happening::Boot { server, process });
    }

    /// Reads what a server's disk remembers.
    fn recall(&mut self, server: usize) -> Result<Recalled, String> {
        let plan = &self.plan;
        let it = &self.servers[server];
        let me = members::id(server);
        let vfs: Arc<dyn Vfs> = Arc::new(it.disk.clone());
        let settings = members::settings(vfs.as_ref(), me)?;
        let opened = Store::open(vfs.clone(), store_options(plan));
        let mut store = opened.map_err(|error| error.to_string())?;
        let mut rebuild = Rebuild::new(tree_options(plan));
        let recovered = store.recover(&mut rebuild).map_err(|error| error.to_string())?;
        let Rebuilt { mut tree, mismatches } = rebuild.finish();
        let store_epochs = store.epochs();
        let epochs = store_epochs.load(recovered.last_zxid).map_err(|error| error.to_string())?;
        let Settings { committed, proposed } = settings;
        let committed = Arc::new(committed);
        let wall_ms = it.clock(self.now).wall_ms;
        let in_data = membership::in_data(&tree);
        let in_files = membership::in_files(vfs.as_ref(), Path::new(FILE));
        let config =
            ConfigFiles::new(vfs, Some(FILE.into()), me, committed.clone(), proposed.as_ref());
        let ensemble = store.ensemble();
        ensemble.settle().map_err(|error| error.to_string())?;
        let identity = ensemble.read().map_err(|error| error.to_string())?.unwrap_or_default();
        let remembered = store.committed();
        let certain = match &remembered {
            Some(file) => file.read().map_err(|error| error.to_string())?,
            None => None,
        };
        let files = MemberFiles {
            epochs: store_epochs,
            committed: remembered,
            ensemble,
            config,
            reconfig: plan.reconfig,
        };
        files.show(&mut tree, wall_ms);
        let (log, snapshots) = store.split();
        if recovered.fresh && recovered.last_zxid >= Zxid::ZERO {
            self.first_snapshot(&snapshots, &tree)?;
        }
        if self.plan.reconfig {
            files.config.settle().map_err(|error| error.to_string())?;
        }
        let found = Found {
            recovered: &recovered,
            epochs,
            certain,
            identity,
            committed: committed.clone(),
            proposed,
            in_data,
            in_files,
            reconfig: self.plan.reconfig,
        };
        let start = found.start();
        Ok(Recalled {
            start,
            recovered,
            committed,
            identity,
            tree,
            mismatches,
            log,
            snapshots,
            files,
        })
    }

    /// Recovers from the disk, and creates a process.
    fn start(&mut self, server: usize) -> Result<(), String> {
        let me = members::id(server);
        let wall_ms = self.servers[server].clock(self.now).wall_ms;
        let recalled = self.recall(server)?;
        let Recalled { start, recovered, committed, identity, tree, mismatches, .. } = recalled;
        let Recalled { log, snapshots, files, .. } = recalled;
        let last = recovered.last_zxid.max(Zxid::ZERO);
        let (epochs, is_empty) = (start.epochs, !start.has_database);
        let number = self.servers[server].number;
        let peer = Peer::new(zab_options(&self.plan, server, number), start);
        let binding = peer.quorums().proposed().cloned();
        let now = self.now;
        let options = replica_options(&self.plan, server, number, wall_ms);
        let clock_base = Duration::from_secs(10) + self.random.ms(0, 100_000);
        let mut replica =
            Replica::member(options, peer, &tree, Now { monotonic: clock_base, wall_ms });
        replica.replayed(recovered.replayed, recovered.replayed_bytes);
        self.tell(|| format!("server {server} starts at {last} with {epochs:?}"));
        if self.checks.is_unlogged(server) {
            self.reached("start after transactions that no log has");
        }
        self.checks.recovered(server, &recovered, epochs, &committed, &tree, mismatches);
        self.checks.counts_for_nothing(server, is_empty);
        let engine = EngineOptions {
            members: Some(committed.clone()),
            reconfig: self.plan.reconfig,
            leader_serves: true,
            syncs_itself: false,
        };
        let rules = client_rules(&self.plan);
        self.servers[server].process = Some(Box::new(Process {
            number,
            started: now,
            clock_base,
            replica,
            common: Arc::new(Common::new(tree, self.schemes.clone(), rules)),
            engine: Some(Engine::new(engine, clock_base)),
            log,
            snapshots,
            files,
            said: Said::new(me, committed, binding, identity.settled()),
            listening: Vec::new(),
            takes_observers: false,
            role: Role::Looking,
            only_reads: false,
            comes_back: None,
            retired: false,
            waking: false,
            timer: None,
            going_on: false,
            unread_since: None,
            unread_until: Duration::ZERO,
            jobs: VecDeque::new(),
            working: Vec::new(),
            restoring: VecDeque::new(),
            jobs_done: 0,
            taking: None,
            damaged: recovered.damaged,
            repair: None,
            incidents: Incidents::default(),
            attempt: 0,
            proven: None,
            left_out: BTreeSet::new(),
            dialled_in: (0, 0),
            arriving: BTreeMap::new(),
            leaving: BTreeMap::new(),
            received: BTreeMap::new(),
            clients: BTreeMap::new(),
            awake: Awake::default(),
        }));
        Ok(())
    }

    /// The server stops itself, as after a disk error.
    pub(crate) fn stop(&mut self, server: usize, failure: &(dyn Error + 'static)) {
        self.tell(|| format!("server {server} stops: {failure}"));
        self.reached("server stopped by itself");
        self.drop_all(server, true);
        let it = &mut self.servers[server];
        it.end_process();
        it.waits_for_room = room::is_missing(failure);
        let after = if it.waits_for_room { room::LOOK_AFTER } else { self.random.ms(500, 5000) };
        let process = self.servers[server].number;
        self.after(after, Happening::Boot { server, process });
    }

    // ---- the main thread

    pub(crate) fn process(&mut self, server: usize, number: u64) -> Option<&mut Process> {
        self.servers[server].process.as_deref_mut().filter(|process| process.number == number)
    }

    /// Adds an input to a server's inbox.
    pub(crate) fn input(&mut self, server: usize, number: u64, input: Input) {
        let Some(process) = self.process(server, number) else { return };
        process.common.inbox.push(input);
        self.wake_soon(server, number);
    }

    /// Wakes the server's main thread soon, if its inbox is not empty.
    pub(crate) fn wake_soon(&mut self, server: usize, number: u64) {
        let Some(process) = self.process(server, number) else { return };
        if process.waking || process.common.inbox.is_empty() {
            return;
        }
        process.waking = true;
        let delay = match self.random.below(4) {
            0 => self.random.below(300),
            _ => 10,
        };
        self.after(Duration::from_micros(delay), Happening::Wake { server, process: number });
    }

    pub(crate) fn timer(&mut self, server: usize, number: u64, at: Duration) {
        let now = self.servers[server].clock(self.now).monotonic;
        let Some(process) = self.process(server, number) else { return };
        if process.timer == Some(at) {
            process.timer = None;
        }
        if now >= process.replica.next_tick() {
            self.wake(server, number);
        } else {
            self.arm(server);
        }
    }

    /// Sets a timer for the server's next tick.
    fn arm(&mut self, server: usize) {
        let it = &self.servers[server];
        let Some(process) = &it.process else { return };
        let due = process.replica.next_tick();
        if due == Duration::MAX {
            return;
        }
        let at = it.when(self.now, due).max(self.now + Duration::from_millis(1));
        let number = process.number;
        if process.timer.is_none_or(|timer| at < timer) {
            self.servers[server].process.as_mut().expect("it is there").timer = Some(at);
            self.at(at, Happening::Timer { server, process: number, at });
        }
    }

    pub(crate) fn touches(&mut self, server: usize, number: u64) {
        if self.process(server, number).is_some() {
            self.wake(server, number);
            self.after(TOUCH_INTERVAL, Happening::Touches { server, process: number });
        }
    }

    /// Takes a turn: handles the inbox, and carries out the outputs.
    pub(crate) fn wake(&mut self, server: usize, number: u64) {
        let Some(process) = self.process(server, number) else { return };
        process.waking = false;
        if process.going_on {
            // The last turn has paused. When it continues, it handles these inputs as well.
            return;
        }
        self.turn(server, number);
    }

    /// Continues a turn that has paused.
    pub(crate) fn go_on(&mut self, server: usize, number: u64) {
        if let Some(process) = self.process(server, number) {
            process.going_on = false;
            self.turn(server, number);
        }
    }

    fn turn(&mut self, server: usize, number: u64) {
        let Some(process) = self.process(server, number) else { return };
        let common = Arc::clone(&process.common);
        let mut engine = process.engine.take().expect("one turn at a time");
        let done = engine.turn(&common, &mut Driver::new(self, server, number));
        let Some(process) = self.process(server, number) else { return };
        process.engine = Some(engine);
        match done {
            Err(failure) => return self.stop(server, &failure),
            Ok(Turn::Paused) => {
                // Others may look at the tree in between.
                process.going_on = true;
                let delay = Duration::from_micros(self.random.between(10, 2000));
                self.after(delay, Happening::GoOn { server, process: number });
            }
            Ok(Turn::Done) => self.wake_soon(server, number),
        }
        self.wake_conns(server);
        self.arm(server);
    }

    pub(crate) fn change_role(&mut self, server: usize, role: Role) {
        self.tell(|| {
            let left = self.servers[server].peer().map_or(Leave::Started, Peer::left);
            format!("server {server} is {role:?} ({left})")
        });
        self.trace(server as u64, 3 << 40);
        self.checks.role(server, role, self.now);
        let late = self.checks.handover.role(id_of(server), role, self.now);
        late.into_iter().for_each(|what| self.checks.found(what));
        if let Some(process) = &mut self.servers[server].process {
            process.role = role;
            process.only_reads = false;
        }
    }

    // ---- between servers

    pub(crate) fn network(&mut self, server: usize, number: u64, output: zebu_zab::Output) {
        use zebu_zab::Output as Zab;
        let is_master = matches!(output, Zab::ConnectToMaster(_));
        match output {
            Zab::Mesh(output) => self.mesh(server, number, output),
            Zab::Retire => {
                if let Some(process) = self.process(server, number) {
                    process.retired = true;
                }
            }
            Zab::Listen => self.listen(server, Some(Port::Quorum)),
            Zab::ListenForObservers => self.listen(server, Some(Port::Observers)),
            Zab::Unlisten => self.listen(server, None),
            Zab::Connect(to) | Zab::ConnectToMaster(to) => {
                let port = if is_master { Port::Observers } else { Port::Quorum };
                let second = self.now.as_secs();
                let Some(process) = self.process(server, number) else { return };
                process.attempt += 1;
                let attempt = process.attempt;
                let (last, times) = &mut process.dialled_in;
                *times = if *last == second { *times + 1 } else { 1 };
                *last = second;
                if *times > DIALS_MAX {
                    self.checks.found(format!("liveness: server {server} dials and dials"));
                }
                let to = machine(to);
                let after = self.delay_between(server, to);
                let given_up = false;
                let linked =
                    Happening::Linked { server, process: number, attempt, to, port, given_up };
                self.after(after, linked);
            }
            Zab::CancelConnect => {
                if let Some(process) = self.process(server, number) {
                    process.attempt += 1;
                }
            }
            Zab::SendCopy(link) => self.send_copy(server, link),
            Zab::Close(link) => {
                self.forget_link(server, link);
                self.close(link.0, server);
            }
            Zab::ReadLog { link, after, up_to, share } => {
                self.read_log(server, link, after, up_to, share);
            }
            Zab::Config(change) => {
                self.tell(|| match &change {
                    ConfigChange::Proposed(config) => {
                        format!("server {server} sees {} proposed: {config}", config.version())
                    }
                    ConfigChange::Withdrawn => format!("server {server} forgets what was proposed"),
                    ConfigChange::Heard(config) => {
                        let version = config.as_ref().map(|config| config.version());
                        format!("server {server} hears that this is proposed: {version:?}")
                    }
                    ConfigChange::Committed(config) => {
                        format!("server {server} has {} in force: {config}", config.version())
                    }
                });
                if let Some(process) = self.process(server, number) {
                    process.said.change(&change);
                }
            }
            Zab::AbsurdEpoch { .. } => self.reached("absurd epoch refused"),
            Zab::OtherEnsemble { .. } => self.reached("other ensemble refused"),
            Zab::Identity(identity) => {
                self.tell(|| format!("server {server} knows of its ensemble: {identity:?}"));
                if let Some(process) = self.process(server, number) {
                    process.said.ensemble = identity.settled();
                }
            }
            Zab::Send(..)
            | Zab::SaveEpoch(..)
            | Zab::Committed(_)
            | Zab::Truncate(_)
            | Zab::Reload
            | Zab::Restore(_)
            | Zab::Role(_)
            | Zab::Doubted(_)
            | Zab::Trusted
            | Zab::Append { .. }
            | Zab::Deliver { .. }
            | Zab::Up(_) => unreachable!("the engine and the replica keep these for themselves"),
        }
    }
}
