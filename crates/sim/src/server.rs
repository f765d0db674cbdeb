//! One server: the shipped replica, tree and store, and a driver that does what the real one does,
//! in the same order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::{HostPort, ServerId, SessionId, Zxid};
use zebu_replica::{
    ConnId, Input, IntakeOptions, MemberOptions, Now, Options, Output, ReaperOptions, Replica,
    Rules, SnapshotOptions, ThrottleOptions,
};
use zebu_state::membership::{self, ConfigFiles};
use zebu_state::{Found, Rebuild, Rebuilt, Taking};
use zebu_store::{Snapshots, Store, TxnLog, Vfs};
use zebu_tree::{Tree, WatcherId};
use zebu_zab::config::Membership;
use zebu_zab::history::Memory;
use zebu_zab::{ConfigChange, LinkId, Peer, Role};

use crate::conn::Conn;
use crate::copy::{Arriving, Leaving};
use crate::disk::{Disk, ROOT};
use crate::jobs::Job;
use crate::links::Port;
use crate::members::{self, FILE, NOT_A_MEMBER, Said, Settings, machine};
use crate::plan::Plan;
use crate::random::Random;
use crate::world::{Happening, World};

/// How often sessions that were heard of without the replica are reported to it.
const TOUCH_INTERVAL: Duration = Duration::from_millis(200);

/// How much too late the main thread may look at its inputs before that counts as standing still.
const STALL_MIN: Duration = Duration::from_secs(1);

/// How often a server may dial a leader within a second.
const DIALS_MAX: u32 = 60;

/// A machine: its disk and clocks, and the process on it if there is one.
pub(crate) struct Server {
    pub(crate) disk: Disk,
    /// How many times longer than usual the disk takes.
    pub(crate) disk_factor: u32,
    pub(crate) wall_offset_ms: i64,
    /// How fast its monotonic clock goes wrong, in millionths.
    drift_ppm: i64,
    pub(crate) paused: Option<u64>,
    pub(crate) pauses: u64,
    /// What happened while it was paused.
    pub(crate) missed: Vec<Happening>,
    /// Counts its processes.
    pub(crate) number: u64,
    pub(crate) process: Option<Box<Process>>,
    pub(crate) backup: Option<Backup>,
}

/// A copy of a server's data.
pub(crate) struct Backup {
    pub(crate) disk: Disk,
    /// From where to where what is in it may have traces of what is to come.
    pub(crate) fuzzy: (Zxid, Zxid),
    /// Whether it was made when the server had lost its data.
    pub(crate) lost: bool,
    /// The members that were in force.
    pub(crate) version: Zxid,
}

/// A running server.
pub(crate) struct Process {
    pub(crate) number: u64,
    started: Duration,
    clock_base: Duration,
    pub(crate) replica: Replica,
    pub(crate) tree: Tree,
    pub(crate) log: TxnLog,
    pub(crate) snapshots: Snapshots,
    pub(crate) store_epochs: zebu_store::EpochFiles,
    pub(crate) config_files: ConfigFiles,
    /// Whom its network knows.
    pub(crate) said: Said,
    /// Where it listens for learners, while it does.
    pub(crate) listening: Vec<HostPort>,
    /// Whether observers may learn from it.
    pub(crate) takes_observers: bool,
    pub(crate) role: Role,
    /// Whether it serves clients that only read, for want of a leader.
    pub(crate) only_reads: bool,
    pub(crate) inbox: Vec<Input>,
    waking: bool,
    timer: Option<Duration>,
    touched: Duration,
    /// When it looked into its inbox last, and when it was to look again.
    looked: Duration,
    look_at: Duration,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) records: Vec<(Zxid, Bytes)>,
    applied: Option<Zxid>,
    going_on: bool,
    pub(crate) jobs: VecDeque<Job>,
    /// What the log thread is working on.
    pub(crate) working: Vec<Job>,
    pub(crate) jobs_done: u64,
    pub(crate) taking: Option<Taking>,
    pub(crate) attempt: u64,
    /// To whom it has acknowledged a leader's history.
    pub(crate) proven: Option<LinkId>,
    /// What it has left out of synchronizations, and must not commit there.
    pub(crate) left_out: BTreeSet<(LinkId, Zxid)>,
    /// The second in which it dialled a leader last, and how often.
    dialled_in: (u64, u32),
    pub(crate) arriving: BTreeMap<LinkId, Arriving>,
    pub(crate) leaving: BTreeMap<LinkId, Leaving>,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    /// Connections to be looked at after a batch.
    pub(crate) dirty: Vec<ConnId>,
    stepping: bool,
}

impl Server {
    pub(crate) fn new(random: &mut Random) -> Self {
        let disk = Disk::new();
        disk.initialize();
        Self {
            disk,
            backup: None,
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

    /// The process is gone, with everything that was on its way inside.
    pub(crate) fn end_process(&mut self) {
        self.number += 1;
        self.process = None;
        self.paused = None;
        self.missed.clear();
    }

    pub(crate) fn role(&self) -> Role {
        self.process.as_ref().map_or(Role::Looking, |process| process.role)
    }

    pub(crate) fn serves(&self) -> bool {
        self.role() != Role::Looking
    }

    /// The epoch it leads in.
    pub(crate) fn leads(&self) -> Option<zebu_proto::Epoch> {
        match self.role() {
            Role::Leading(epoch) => Some(epoch),
            _ => None,
        }
    }

    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.process.as_ref().and_then(|process| process.replica.peer())
    }

    /// Whether it serves, and has nothing to do any more.
    pub(crate) fn is_at_rest(&self, last: Zxid) -> bool {
        self.serves()
            && self.process.as_ref().is_some_and(|process| {
                process.tree.last_zxid() == last && process.replica.in_process() == 0
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
            process.tree.last_zxid(),
            peer.history().last(),
            peer.history().flushed(),
            peer.epochs(),
            process.replica.in_process(),
            peer.left(),
            if self.paused.is_some() { "; paused" } else { "" }
        )
    }

    /// The time as this server sees it.
    pub(crate) fn clock(&self, now: Duration) -> Now {
        let monotonic = self.process.as_ref().map_or(now, |process| {
            let ran = (now - process.started).as_nanos() as i128;
            let ran = ran + ran * i128::from(self.drift_ppm) / 1_000_000;
            process.clock_base + Duration::from_nanos(ran as u64)
        });
        Now { monotonic, wall_ms: 1_700_000_000_000 + now.as_millis() as i64 + self.wall_offset_ms }
    }

    /// When this server's clock will show `at`, roughly.
    fn when(&self, now: Duration, at: Duration) -> Duration {
        let left = at.saturating_sub(self.clock(now).monotonic);
        now + left + left / 4000
    }
}

pub(crate) fn watcher(conn: ConnId) -> WatcherId {
    WatcherId(conn.0 as u32)
}

pub(crate) fn tree_options(plan: &Plan) -> zebu_tree::Options {
    zebu_tree::Options { hash_seed: plan.seed, ..zebu_tree::Options::default() }
}

/// Makes the configuration in force visible to clients.
pub(crate) fn show(plan: &Plan, tree: &mut Tree, config: &Membership, wall_ms: i64) {
    if plan.reconfig {
        membership::show(tree, config, wall_ms);
    } else {
        membership::overwrite(tree, config, wall_ms);
    }
}

fn store_options(plan: &Plan) -> zebu_store::Options {
    zebu_store::Options {
        prealloc_bytes: if plan.seed.is_multiple_of(2) { 0 } else { 4096 },
        autocreate_db: false,
        member: true,
        recent_txns_max: plan.memory_txns,
        ..zebu_store::Options::new(ROOT)
    }
}

fn replica_options(plan: &Plan, server: usize, process: u64, wall_ms: i64) -> Options {
    let tick_ms = plan.tick.as_millis() as i32;
    let id = ServerId(server as i64 + 1);
    // Two processes may start in the same millisecond of a clock that jumps.
    let first = SessionId::first(id, wall_ms + process as i64 * 1_000_000);
    Options {
        server: id,
        first_session: first,
        tick: plan.tick,
        session_timeout_ms_min: 2 * tick_ms,
        session_timeout_ms_max: 20 * tick_ms,
        rules: Rules {
            reconfig: plan.reconfig,
            members: zebu_zab::config::Rules { standalone: false, multi_address: false },
            ..Rules::default()
        },
        eager_acl_check: plan.seed.is_multiple_of(3),
        throttled_op_wait: Duration::ZERO,
        connections: ThrottleOptions::default(),
        intake: IntakeOptions::default(),
        reaper: ReaperOptions::default(),
        snapshots: SnapshotOptions { every_txns: plan.snapshot_every, every_bytes: None },
        member: MemberOptions {
            local_sessions: plan.local_sessions,
            upgrade_local_sessions: plan.local_sessions,
            read_only_after: plan.read_only.then_some(plan.tick),
            ..MemberOptions::default()
        },
        seed: plan.seed ^ (server as u64) << 32 ^ process,
    }
}

fn zab_options(plan: &Plan, server: usize) -> zebu_zab::Options {
    let mut options = zebu_zab::Options::new(ServerId(server as i64 + 1));
    options.tick = plan.tick;
    options.memory = Memory { txns: plan.memory_txns, bytes: 0, ..Memory::default() };
    options.log_share = plan.log_share;
    options.always_copy = plan.always_copy;
    options.first_counter = plan.first_counter;
    options.reconfig = plan.reconfig;
    options.observer.masters = plan.masters;
    options
}

impl World {
    // ---- start and end

    pub(crate) fn boot(&mut self, server: usize, number: u64) {
        let it = &mut self.servers[server];
        if it.process.is_some() || it.number != number {
            return;
        }
        self.net.dark.remove(&server);
        // What a start does on the disk may be interrupted as well.
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
    }

    fn interrupted_start(&mut self, server: usize) {
        self.reached("start interrupted");
        let left = crate::plan::Left::Some(self.random.next());
        let killed = self.random.one_in(2);
        let it = &mut self.servers[server];
        if killed {
            // The machine goes on: what is not durable is there all the same.
            it.disk.resume();
        } else {
            it.disk = it.disk.crash(left.crash());
        }
        let process = it.number;
        let after = self.random.ms(1, 300);
        self.after(after, Happening::Boot { server, process });
    }

    /// Recovers what is on the disk and makes a process of it.
    fn start(&mut self, server: usize) -> Result<(), String> {
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
        show(plan, &mut tree, &committed, wall_ms);
        let (log, snapshots) = store.split();
        let has_database = recovered.last_zxid >= Zxid::ZERO;
        let last = recovered.last_zxid.max(Zxid::ZERO);
        if recovered.fresh && has_database {
            self.first_snapshot(&snapshots, &tree)?;
        }
        let config_files =
            ConfigFiles::new(vfs, Some(FILE.into()), me, committed.clone(), proposed.as_ref());
        if self.plan.reconfig {
            config_files.settle().map_err(|error| error.to_string())?;
        }
        let found = Found {
            recovered: &recovered,
            epochs,
            committed: committed.clone(),
            proposed: proposed.clone(),
            in_data,
            in_files,
            reconfig: self.plan.reconfig,
        };
        let start = found.start();
        let epochs = start.epochs;
        let peer = Peer::new(zab_options(&self.plan, server), start);
        let number = self.servers[server].number;
        let now = self.now;
        let options = replica_options(&self.plan, server, number, wall_ms);
        let clock_base = Duration::from_secs(10) + self.random.ms(0, 100_000);
        let replica = Replica::member(options, peer, &tree, Now { monotonic: clock_base, wall_ms });
        self.tell(|| format!("server {server} starts at {last} with {epochs:?}"));
        self.checks.recovered(server, &recovered, epochs, &committed, &tree, mismatches);
        self.servers[server].process = Some(Box::new(Process {
            number,
            started: now,
            clock_base,
            replica,
            tree,
            log,
            snapshots,
            store_epochs,
            config_files,
            said: Said::new(me, committed, proposed),
            listening: Vec::new(),
            takes_observers: false,
            role: Role::Looking,
            only_reads: false,
            inbox: Vec::new(),
            waking: false,
            timer: None,
            touched: Duration::ZERO,
            looked: clock_base,
            look_at: clock_base,
            outputs: VecDeque::new(),
            records: Vec::new(),
            applied: None,
            going_on: false,
            jobs: VecDeque::new(),
            working: Vec::new(),
            jobs_done: 0,
            taking: None,
            attempt: 0,
            proven: None,
            left_out: BTreeSet::new(),
            dialled_in: (0, 0),
            arriving: BTreeMap::new(),
            leaving: BTreeMap::new(),
            conns: BTreeMap::new(),
            dirty: Vec::new(),
            stepping: false,
        }));
        Ok(())
    }

    /// The server ends by itself, as after a failed disk.
    pub(crate) fn stop(&mut self, server: usize, why: &str) {
        self.tell(|| format!("server {server} stops: {why}"));
        self.reached("server stopped by itself");
        self.drop_all(server, true);
        let it = &mut self.servers[server];
        it.end_process();
        let process = it.number;
        let after = self.random.ms(500, 5000);
        self.after(after, Happening::Boot { server, process });
    }

    // ---- the main thread

    pub(crate) fn process(&mut self, server: usize, number: u64) -> Option<&mut Process> {
        self.servers[server].process.as_deref_mut().filter(|process| process.number == number)
    }

    /// Puts something into a server's inbox.
    pub(crate) fn input(&mut self, server: usize, number: u64, input: Input) {
        let delay = match self.random.below(4) {
            0 => self.random.below(300),
            _ => 10,
        };
        let Some(process) = self.process(server, number) else { return };
        process.inbox.push(input);
        if !process.waking {
            process.waking = true;
            self.after(Duration::from_micros(delay), Happening::Wake { server, process: number });
        }
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

    /// Sees to it that the server wakes up when its next tick is due.
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

    /// Steps through everything in the inbox.
    pub(crate) fn wake(&mut self, server: usize, number: u64) {
        let now = self.servers[server].clock(self.now);
        let Some(process) = self.process(server, number) else { return };
        if process.going_on || process.stepping {
            // Not before everything asked for so far is done.
            process.waking = true;
            return;
        }
        process.waking = false;
        process.stepping = true;
        let mut inputs = std::mem::take(&mut process.inbox);
        // Its clients' pings are still in their sockets: a process that stood still.
        let stood = now.monotonic.saturating_sub(process.look_at.max(process.looked));
        if stood > STALL_MIN {
            inputs.insert(0, Input::Stalled(stood));
        }
        process.looked = now.monotonic;
        if now.monotonic >= process.touched + TOUCH_INTERVAL
            || now.monotonic >= process.replica.next_tick()
        {
            let since = process.touched;
            process.touched = now.monotonic;
            for conn in process.conns.values() {
                if conn.heard + Duration::from_millis(1) >= since
                    && let Some(session) = conn.session
                {
                    inputs.push(Input::Touched { session, at: conn.heard });
                }
            }
        }
        if now.monotonic >= process.replica.next_tick() {
            inputs.push(Input::Tick);
        }
        let schemes = Arc::clone(&self.schemes);
        for input in inputs {
            self.checks.input(server, &self.servers[server], &input);
            let Some(process) = self.process(server, number) else { return };
            let mut outputs = Vec::new();
            let greeting = matches!(input, Input::Connect(_));
            let stepped = process.replica.step(now, &process.tree, &schemes, input, &mut outputs);
            for output in &outputs {
                if let Output::Accept { session, timeout_ms, .. } = output {
                    self.checks.attached(server, *session, *timeout_ms, greeting);
                }
            }
            self.checks.decided(server, &self.servers[server], &outputs);
            let Some(process) = self.process(server, number) else { return };
            process.outputs.extend(outputs);
            if let Err(fatal) = stepped {
                return self.stop(server, &fatal.to_string());
            }
            self.checks.stepped(server, &self.servers[server]);
        }
        if let Some(process) = self.process(server, number) {
            process.stepping = false;
        }
        if self.random.one_in(4) {
            self.later(server, number);
        } else {
            self.go_on(server, number);
        }
    }

    /// Goes on with the outputs a little later: others may look at the tree in between.
    fn later(&mut self, server: usize, number: u64) {
        let delay = Duration::from_micros(self.random.between(10, 2000));
        if let Some(process) = self.process(server, number) {
            process.going_on = true;
            self.after(delay, Happening::GoOn { server, process: number });
        }
    }

    /// Carries out what the replica has asked for.
    pub(crate) fn go_on(&mut self, server: usize, number: u64) {
        let Some(process) = self.process(server, number) else { return };
        process.going_on = false;
        let schemes = Arc::clone(&self.schemes);
        loop {
            let most = if self.random.one_in(8) { self.random.between(1, 3) } else { u64::MAX };
            let mut done = 0;
            while let Some(output) =
                self.process(server, number).and_then(|process| process.outputs.pop_front())
            {
                self.carry_out(server, number, output);
                done += 1;
                if done == most {
                    break;
                }
            }
            let Some(process) = self.process(server, number) else { return };
            let left = !process.outputs.is_empty();
            if left {
                // As between two batches under the tree's lock.
                self.wake_conns(server);
                return self.later(server, number);
            }
            self.append_records(server);
            self.wake_conns(server);
            let now = self.servers[server].clock(self.now);
            let Some(process) = self.process(server, number) else { return };
            let Some(zxid) = process.applied.take() else { break };
            let mut outputs = Vec::new();
            let input = Input::Applied(zxid);
            let stepped = process.replica.step(now, &process.tree, &schemes, input, &mut outputs);
            self.checks.decided(server, &self.servers[server], &outputs);
            let Some(process) = self.process(server, number) else { return };
            process.outputs.extend(outputs);
            if let Err(fatal) = stepped {
                return self.stop(server, &fatal.to_string());
            }
            self.checks.stepped(server, &self.servers[server]);
        }
        let Some(process) = self.process(server, number) else { return };
        process.look_at = process.replica.next_tick().min(process.touched + TOUCH_INTERVAL);
        if process.waking || !process.inbox.is_empty() {
            process.waking = true;
            self.after(Duration::from_micros(10), Happening::Wake { server, process: number });
        }
        self.arm(server);
    }

    fn carry_out(&mut self, server: usize, number: u64, output: Output) {
        match output {
            Output::Append { zxid, record } => {
                self.trace(server as u64 ^ 1 << 40, zxid.0 as u64);
                self.checks.append(server, &self.servers[server], zxid, &record);
                let Some(process) = self.process(server, number) else { return };
                process.records.push((zxid, record));
            }
            Output::Snapshot => {
                self.append_records(server);
                self.job(server, Job::Roll);
                self.begin_snapshot(server);
            }
            Output::Apply { zxid, record, origin } => {
                self.trace(server as u64 ^ 2 << 40, zxid.0 as u64);
                self.apply(server, zxid, &record, origin);
                if let Some(process) = self.process(server, number) {
                    process.applied = Some(zxid);
                }
            }
            Output::Zab(output) => self.zab(server, number, output),
            output => self.for_client(server, output),
        }
    }

    // ---- between servers

    fn zab(&mut self, server: usize, number: u64, output: zebu_zab::Output) {
        use zebu_zab::Output as Zab;
        let is_master = matches!(output, Zab::ConnectToMaster(_));
        match output {
            Zab::Mesh(output) => self.mesh(server, number, output),
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
            Zab::Send(link, packet) => self.send_packet(server, link, packet),
            Zab::SendCopy(link) => self.send_copy(server, link),
            Zab::Close(link) => {
                self.forget_link(server, link);
                self.close(link.0, server);
            }
            Zab::ReadLog { link, after, up_to, share } => {
                self.read_log(server, link, after, up_to, share);
            }
            Zab::SaveEpoch(kind, epoch) => {
                self.append_records(server);
                self.job(server, Job::Epoch(kind, epoch));
            }
            Zab::Truncate(zxid) => {
                self.append_records(server);
                self.checks.truncate(server, zxid);
                self.job(server, Job::Truncate(zxid));
            }
            Zab::Reload => {
                self.append_records(server);
                self.job(server, Job::Reload);
            }
            Zab::Restore(link) => {
                self.append_records(server);
                self.job(server, Job::Restore(link));
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
                self.append_records(server);
                if let Some(process) = self.process(server, number) {
                    process.said.change(&change);
                }
                self.job(server, Job::Config(change));
            }
            Zab::Role(role) => self.change_role(server, role),
            Zab::Append { .. } | Zab::Deliver { .. } | Zab::Up(_) => {
                unreachable!("the replica keeps these for itself")
            }
        }
    }

    fn change_role(&mut self, server: usize, role: Role) {
        self.tell(|| {
            let left = self.servers[server].peer().map_or("", |peer| peer.left());
            format!("server {server} is {role:?} ({left})")
        });
        self.trace(server as u64, 3 << 40);
        self.checks.role(server, role, self.now);
        let wall_ms = self.servers[server].clock(self.now).wall_ms;
        let plan = &self.plan;
        let Some(process) = &mut self.servers[server].process else { return };
        process.role = role;
        process.only_reads = false;
        if role != Role::Looking {
            // What a copy was ahead of is committed, though perhaps not applied: that waits for the disk.
            let committed = process.replica.peer().map_or(Zxid::ZERO, zebu_zab::Peer::committed);
            process.tree.trust_digests(committed);
            if plan.reconfig {
                // What the first epoch has agreed on is in no transaction.
                membership::show(&mut process.tree, process.said.committed(), wall_ms);
            }
        }
        if role == Role::Looking {
            self.end_all_conns(server);
        }
    }

    fn end_all_conns(&mut self, server: usize) {
        let Some(process) = &mut self.servers[server].process else { return };
        // What is in their outboxes is still sent.
        for (id, conn) in &mut process.conns {
            conn.closing = true;
            process.dirty.push(*id);
        }
    }

    pub(crate) fn only_reads(&self, server: usize) -> bool {
        self.servers[server].process.as_ref().is_some_and(|process| process.only_reads)
    }

    pub(crate) fn serve_readers(&mut self, server: usize, on: bool) {
        if let Some(process) = &mut self.servers[server].process {
            process.only_reads = on;
        }
        if !on {
            self.end_all_conns(server);
        }
    }
}
