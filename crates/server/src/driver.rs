//! Drives the replica with threads: the server's side of an [`Engine`].
//!
//! The replica has a thread of its own, which waits for inputs and timers. An idle network worker
//! may run a turn itself, see [`crate::clients::worker_turns`], and so may other idle threads, see
//! [`crate::turns`].
//!
//! **Invariant:** a thread runs a turn while it holds the lock of [`Driver`], so inputs are
//! processed in the order of their arrival.

mod replacing;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tracing::{error, info, warn};
use zebu_engine::journal::{Order, Records};
use zebu_engine::{
    AppliedTxn, Common, Counter, Delivered, Engine, EngineOptions, Failed, Mode, Turn, World,
};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::txn::{Txn, TxnRecord};
use zebu_proto::{Causes, ErrorCode, EventType, OpCode, ServerId, SessionId, Zxid};
use zebu_replica::{Fatal, Input, NotHandedOver, Now, Origin, Output, Replica, Request, Session};
use zebu_state::Copied;
use zebu_tree::Tree;
use zebu_zab::{ConfigChange, Leave, LinkId, Peer, Role, TreeDigest};

use crate::audit;
use crate::clients::conn::{Conn, Side};
use crate::counting::commits::Commits;
use crate::counting::digests::{Comparison, Digests};
use crate::counting::phases::{Batches, Gathered, Times, Told};
use crate::counting::replication::Between;
use crate::counting::requests::{
    Ops, bytes_read, count_answers, count_event, count_replica, gather_written,
};
use crate::disk::journal::{Command, Journal};
use crate::disk::snapshotter::Snapshotter;
use crate::ensemble::evidence::{Incident, Recent};
use crate::ensemble::peers;
use crate::four_letter::ProposalSizes;
use crate::metrics::{Gather, Metrics, Repeated};
use crate::shared::{Leading, SessionDeadline, Shared, Status};
use crate::traced;

/// Outputs carried out under one write lock, so that readers get their turn.
const APPLY_BATCH: usize = 512;

/// Runs the replica's thread until nothing is in the inbox any more, and nothing comes.
pub fn run(driver: &Mutex<Driver>, shared: &Shared) {
    stop_on_failure(shared, drive(driver, shared));
}

fn stop_on_failure(shared: &Shared, done: Result<(), Failed>) {
    if let Err(failure) = done {
        error!("{}", Causes(&failure));
        shared.stop(Err(failure.into()));
    }
}

fn drive(driver: &Mutex<Driver>, shared: &Shared) -> Result<(), Failed> {
    let mut ending = None;
    driver.lock().begin();
    loop {
        let until = driver.lock().sleeps();
        let wait = until.saturating_sub(shared.clock.monotonic()).max(Duration::from_millis(1));
        let open = shared.inbox().wait(wait);
        let mut driver = driver.lock();
        if driver.over {
            return Ok(());
        }
        if !open && shared.inbox().is_empty() {
            // Requests in progress may still be finished, so that logged transactions are applied.
            let most = shared.config.throttle.shutdown_timeout;
            let now = shared.clock.monotonic();
            let since: Duration = *ending.get_or_insert(now);
            let replica = &driver.parts.replica;
            let idle = replica.in_process() == 0 && replica.waiting() == 0;
            if idle || now >= since + most || shared.ending.has_failed() {
                driver.over = true;
                return Ok(());
            }
        }
        driver.turn()?;
    }
}

/// Takes a turn on the thread of the caller, unless somebody else does at the moment: then what is in the inbox is
/// seen to there.
pub fn turn_here(driver: &Mutex<Driver>, shared: &Shared) {
    zebu_engine::turn_here(driver, shared.inbox(), |driver| {
        if driver.over {
            return false;
        }
        let done = driver.turn();
        let goes_on = done.is_ok();
        stop_on_failure(shared, done);
        if goes_on && driver.is_due_earlier() {
            shared.inbox().poke();
        }
        goes_on
    });
}

/// An engine, and what its effects go to.
pub struct Driver {
    engine: Engine<Side>,
    parts: Parts,
    /// Until when the replica's thread sleeps at most.
    sleeps_until: Duration,
    /// Nothing is taken from the inbox any more.
    over: bool,
}

/// What the effects of an engine go to.
struct Parts {
    shared: Arc<Shared>,
    replica: Replica,
    journal: Arc<Mutex<Journal>>,
    log: Sender<Command>,
    snapshotter: Snapshotter,
    /// The network between servers, in an ensemble.
    peers: Option<peers::Handle>,
    /// What is on its way to them.
    post: peers::Post,
    digests: Digests,
    /// The time since which this server leads, and its proposals.
    leading: Option<(Duration, ProposalSizes)>,
    /// What it counts of its dealings with the others, in an ensemble.
    between: Option<Between>,
    silences: Silences,
    /// The evidence for a tree that differs from the leader's, in an ensemble.
    recent: Recent,
    /// Since when it is doubted, so that no client is served.
    doubted: Option<Zxid>,
    /// What is on its way to the audit log, where there is one.
    audit: Option<audit::Pending>,
    /// The times at which the appended records arrived, were prepared, and were synced.
    batches: Batches,
    /// The lines about slow requests.
    told: Told,
}

impl Driver {
    /// A driver for `replica`, whose log is `journal`, with its thread behind `log`, and the other
    /// servers behind `peers`.
    pub fn new(
        shared: Arc<Shared>,
        replica: Replica,
        journal: Arc<Mutex<Journal>>,
        log: Sender<Command>,
        snapshotter: Snapshotter,
        peers: Option<peers::Handle>,
    ) -> Self {
        let between = peers.as_ref().map(|_| Between::new(shared.clone()));
        let config = &shared.config;
        let options = EngineOptions {
            members: shared.ensemble.members.lock().clone(),
            reconfig: config.reconfig_enabled,
            leader_serves: config.ensemble.as_ref().is_none_or(|it| it.leader_serves),
            syncs_itself: config.log.flush_delay == Duration::ZERO,
        };
        let audit = shared.audit.get().cloned().map(audit::Pending::new);
        let engine = Engine::new(options, shared.clock.monotonic());
        let parts = Parts {
            shared,
            replica,
            journal,
            log,
            snapshotter,
            peers,
            post: peers::Post::default(),
            digests: Digests::default(),
            leading: None,
            between,
            silences: Silences::default(),
            recent: Recent::default(),
            doubted: None,
            audit,
            batches: Batches::default(),
            told: Told::default(),
        };
        Self { engine, parts, sleeps_until: Duration::ZERO, over: false }
    }

    /// To be called once, before the first turn.
    fn begin(&mut self) {
        match &mut self.parts.between {
            // The whole log has been applied.
            None => self.parts.shared.tree().write().trust_digests(Zxid::ZERO),
            Some(between) => between.looks(0),
        }
    }

    /// When the replica's thread, which is about to sleep, has to look at it next, whatever happens.
    fn sleeps(&mut self) -> Duration {
        self.sleeps_until = self.engine.next(&self.parts.replica);
        self.sleeps_until
    }

    /// Whether a turn on another thread has made something due before the replica's thread would look.
    fn is_due_earlier(&mut self) -> bool {
        let next = self.engine.next(&self.parts.replica);
        let is_earlier = next < self.sleeps_until;
        self.sleeps_until = self.sleeps_until.min(next);
        is_earlier
    }

    /// Processes all inputs of the inbox, and executes the outputs. After a failure, the driver
    /// must not be used.
    fn turn(&mut self) -> Result<(), Failed> {
        let shared = self.parts.shared.clone();
        let mut effects = Effects::new(&mut self.parts, &shared);
        let done = self.engine.turn(&shared.common, &mut effects);
        self.over |= done.is_err();
        assert!(!matches!(done, Ok(Turn::Paused)), "a server's turns are not interrupted");
        done.map(|_| ())
    }
}

/// One turn: the targets of its effects, and its counters. Equal effects are counted together.
struct Effects<'t> {
    parts: &'t mut Parts,
    shared: &'t Shared,
    counts: Counts<'t>,
    stage: Option<Commits<'t>>,
    /// The time at which the transactions were known to be committed, and the time at which they
    /// are applied.
    known: Duration,
    began: Duration,
    /// Where the time of writes goes.
    phases: Gathered<'t>,
    slow: Vec<Slow>,
    /// What came until then and is answered now takes too long, if there is such a time.
    slow_since: Option<Duration>,
    /// Requests that were taken, and how long the replica took.
    asked: u64,
    took: Duration,
    refused: Vec<SocketAddr>,
    /// The event being delivered, and to how many connections it went so far.
    event: Option<EventType>,
    path: String,
    connections: i64,
}

impl<'t> Effects<'t> {
    fn new(parts: &'t mut Parts, shared: &'t Shared) -> Self {
        Self {
            parts,
            shared,
            counts: Counts::new(&shared.metrics),
            stage: None,
            known: Duration::ZERO,
            began: Duration::ZERO,
            phases: Gathered::new(&shared.counting.histograms.phases),
            slow: Vec::new(),
            slow_since: None,
            asked: 0,
            took: Duration::ZERO,
            refused: Vec::new(),
            event: None,
            path: String::new(),
            connections: 0,
        }
    }

    /// What this server knows as a leader.
    fn leading(&self) -> Option<Leading> {
        let (since, proposals) = self.parts.leading?;
        let learners = self.parts.replica.peer()?.learners()?;
        let pending_syncs = self.parts.replica.pending_syncs();
        Some(Leading { since, learners, pending_syncs, proposals })
    }

    /// Copies what others may want to know of this server's role.
    fn update_status(&self) {
        let peer = self.parts.replica.peer();
        let observers = peer.and_then(|peer| peer.observers());
        let master = peer.and_then(|peer| peer.master());
        let leader = peer.and_then(|peer| peer.leader());
        let lacks = peer.and_then(Peer::lacks);
        let leading = self.leading();
        let doubted = self.parts.doubted;
        *self.shared.counting.status.lock() =
            Status { leading, observers, master, leader, lacks, doubted };
    }

    /// Stores the evidence that this server's tree differs from its leader's, or from a quorum's.
    fn keep_evidence(&mut self, what: String, zxid: Option<Zxid>) {
        let config = &self.shared.config;
        let Some(me) = config.ensemble.as_ref().map(|ensemble| ensemble.me) else { return };
        let leader = self.shared.counting.status.lock().leader;
        let wall_ms = self.shared.clock.now().wall_ms;
        let incident = Incident { me, leader, what, wall_ms, zxid };
        if let Some(evidence) = self.parts.recent.evidence(&incident) {
            self.shared.metrics.tree_doubts_count.add(1);
            *self.shared.disk.differing.lock() = Some(evidence.zxid());
            evidence.keep(config.data.logs());
        }
    }

    fn count_local_sessions(&self) {
        let locals = self.parts.replica.sessions().locals();
        self.shared.counting.local_sessions.store(locals, Ordering::Relaxed);
    }

    /// Copies facts that only the replica knows, if they are requested.
    fn report_sessions(&self) {
        self.count_local_sessions();
        let sessions = self.parts.replica.sessions();
        self.shared.counting.session_list.answer(|| {
            let copy = |(id, session): (SessionId, &Session)| {
                let Session { deadline, local, .. } = *session;
                SessionDeadline { id, deadline, local }
            };
            sessions.iter().map(copy).collect()
        });
    }

    /// Remembers a request that takes too long.
    #[cold]
    fn remember(&mut self, slow: impl FnOnce() -> Slow) {
        if self.slow.len() < SLOW_KEPT_MAX {
            self.slow.push(slow());
        }
    }

    /// Tells of the slow requests that were answered, with where their time went.
    #[cold]
    fn tell_slow(&mut self) {
        let now = self.shared.clock.monotonic();
        for Slow { origin, path, times } in std::mem::take(&mut self.slow) {
            let Some(untold) = self.parts.told.may(now) else { continue };
            let conn = self.shared.conns().get(origin.conn);
            let session = conn.as_ref().and_then(|conn| conn.session()).unwrap_or(SessionId::NONE);
            let peer = conn.map_or_else(
                || "a client that has left".to_owned(),
                |conn| conn.side.peer.to_string(),
            );
            let took = now.saturating_sub(origin.received).as_millis();
            let op = origin.op.name();
            let path = path.unwrap_or_default();
            let before = match &times {
                Some(times) => times.to_string(),
                None => format!(
                    "behind other requests {} ms",
                    self.began.saturating_sub(origin.received).as_millis()
                ),
            };
            let apply = now.saturating_sub(self.began).as_millis();
            let others = match untold {
                0 => String::new(),
                count => format!("; {count} other slow requests were not logged"),
            };
            warn!(
                %session,
                connection = %peer,
                "slow request: {op} {path:?} of session {session} from {peer} took {took} ms: {before}, \
                 apply {apply} ms{others}"
            );
        }
    }

    /// All connections that one event went to are known.
    fn end_event(&mut self) {
        if let Some(event) = self.event.take() {
            count_event(&self.shared.metrics, event, self.connections);
            traced::event(&self.shared.clients.trace_mask, event, &self.path, self.connections);
            self.connections = 0;
        }
    }
}

impl Counter<Side> for Effects<'_> {
    fn delivered(&mut self, row: &Delivered<'_, Side>) {
        let metrics = &self.shared.metrics;
        let latency = row.now.saturating_sub(row.received).as_millis() as u64;
        let latency_ms = i64::try_from(latency).unwrap_or(i64::MAX);
        let took = row.now.saturating_sub(row.began).as_millis() as i64;
        metrics.readlatency.add_many(latency_ms, row.reads);
        metrics.read_final_proc_time_ms.add_many(took, row.reads);
        metrics.updatelatency.add_many(latency_ms, row.writes);
        let apply = row.now.saturating_sub(row.began);
        self.shared.counting.histograms.phases.apply.add_many(apply, row.writes);
        metrics.write_final_proc_time_ms.add_many(took, row.writes);
        count_answers(&row.answers, &self.shared.counting.stats, metrics, latency_ms);
        let count = row.answers.count;
        if count > 0 {
            let (op, xid, zxid) = row.last;
            let stats = &row.conn.side.stats;
            stats.answered(count, op, xid.0, zxid.0, row.now.as_millis() as u64, latency);
            stats.sent.fetch_add(count, Ordering::Relaxed);
            row.conn.side.answers_at(row.now);
        }
    }

    fn notified(&mut self, conn: &Conn, event: EventType, path: &str, bytes: usize) {
        conn.side.stats.sent.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.watch_bytes.add(bytes as u64);
        self.shared.counting.stats.packets_sent.add(1);
        if self.event != Some(event) || self.path != path {
            self.end_event();
            self.event = Some(event);
            self.path.clear();
            self.path.push_str(path);
        }
        self.connections += 1;
    }
}

impl World for Effects<'_> {
    type Side = Side;

    fn now(&self) -> Now {
        self.shared.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    fn listened(&self) -> Option<Duration> {
        self.shared.clients.listening.until()
    }

    fn peers_listened(&self) -> Option<Duration> {
        self.shared.ensemble.listening.until()
    }

    fn is_enough(&mut self, outputs: usize) -> bool {
        outputs >= APPLY_BATCH
    }

    fn replica(&self) -> &Replica {
        &self.parts.replica
    }

    fn step(
        &mut self,
        now: Now,
        common: &Common<Side>,
        tree: &Tree,
        input: Input,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        self.parts.replica.step(now, tree, &common.schemes, input, outputs)
    }

    fn order(&mut self, order: Order) -> Result<(), Failed> {
        let shared = self.shared;
        match &order {
            Order::Append(records) => queue(shared, records),
            Order::Member(job) if job.remakes() => {
                shared.disk.remaking.fetch_add(1, Ordering::Relaxed);
            }
            Order::Roll | Order::Member(_) => {}
        }
        self.parts
            .log
            .send(Command { order, since: Instant::now() })
            .map_err(|_| Failed::Log("the log thread has ended".into()))
    }

    fn append_now(&mut self, records: &mut Records) -> Result<Option<Zxid>, Failed> {
        let shared = self.shared;
        if shared.disk.log_queue.load(Ordering::Relaxed) != 0 {
            return Ok(None);
        }
        let Some(mut journal) = self.parts.journal.try_lock() else { return Ok(None) };
        if !journal.is_quick() {
            return Ok(None);
        }
        queue(shared, records);
        journal
            .append_now(std::mem::take(records), shared)
            .map_err(|failure| Failed::Log(failure.into()))
    }

    fn snapshot(&mut self, _: &Common<Side>) {
        self.parts.snapshotter.start(&self.parts.shared);
    }

    fn send(&mut self, link: LinkId, packet: QuorumPacket) {
        if self.parts.post.add(link, packet) {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let Parts { peers, post, .. } = &mut *self.parts;
        if let Some(peers) = peers.as_ref().filter(|_| !post.is_empty()) {
            peers.send(post);
        }
    }

    fn network(&mut self, output: zebu_zab::Output) -> Result<(), Failed> {
        let peers = self.parts.peers.clone().ok_or(Failed::Alone)?;
        match output {
            zebu_zab::Output::Config(change) => {
                peers.change(&change);
                if let ConfigChange::Committed(config) = change {
                    self.shared.set_members(config);
                }
            }
            zebu_zab::Output::Identity(identity) => {
                if let Some(id) = identity.settled() {
                    info!("this server belongs to ensemble {id} from now on");
                }
                self.shared.common.set_identity(identity);
            }
            zebu_zab::Output::OtherEnsemble { server, theirs } => {
                peers.other_ensemble(server, theirs);
            }
            zebu_zab::Output::SendCopy(link) => peers.send_copy(link),
            zebu_zab::Output::AbsurdEpoch { server, epoch } => warn!(
                "server {} is sent away: it says that it has promised epoch {}, far above all others; \
                 hint: look into the file acceptedEpoch in its data directory",
                server.0, epoch.0
            ),
            output => peers.carry_out(output),
        }
        Ok(())
    }

    fn take_copy(&mut self, link: LinkId) -> Option<Box<Copied>> {
        self.parts.peers.as_ref()?.take_copy(link).map(Box::new)
    }

    fn serve(&mut self, _: &Common<Side>, mode: Option<Mode>) {
        self.shared.serve(mode);
        if mode.is_some() {
            self.shared.clients.refused.end();
        }
    }

    fn retired(&mut self) {
        self.shared.ending.retiring.end();
    }

    fn handed_over(&mut self, result: Result<ServerId, NotHandedOver>) {
        self.shared.ending.handing_over.answer(result);
    }

    fn stood_still(&mut self, time: Duration) {
        warn!("this server stood still for {} ms", time.as_millis());
    }

    fn did_not_listen(&mut self, time: Duration) {
        self.parts.silences.add(time, self.shared.clock.monotonic());
    }

    fn takes(&mut self, now: Now, common: &Common<Side>, inputs: &[Input]) {
        traced::inputs(&self.shared.clients.trace_mask, inputs);
        let metrics = &self.shared.metrics;
        // With a limit, the replica itself detects closed connections when it takes a request.
        let throttle = &self.shared.config.throttle;
        let look_for_stale = throttle.requests_max.is_none() && throttle.stale_by_connection;
        let (mut asked, mut stale) = (0, 0);
        let mut waits = metrics.prep_processor_queue_time_ms.gather();
        let conns = common.conns.view();
        for input in inputs {
            match input {
                Input::Flushed(zxid) | Input::Zab(zebu_zab::Input::Flushed(zxid)) => {
                    self.parts.batches.synced(*zxid, now.monotonic);
                }
                Input::Connect(_) => asked += 1,
                Input::Request(request) => {
                    asked += 1;
                    let waited = now.monotonic.saturating_sub(request.received);
                    waits.add(waited.as_millis() as i64);
                    let cleans_up = request.op == OpCode::CLOSE_SESSION;
                    if look_for_stale && !cleans_up && !conns.has(request.conn) {
                        stale += 1;
                    }
                }
                _ => {}
            }
        }
        drop(conns);
        if let Some(audit) = &mut self.parts.audit {
            for input in inputs {
                if let Input::Request(request) = input {
                    audit.takes(request);
                }
            }
        }
        if asked > 0 {
            metrics.prep_processor_request_queued.add(asked);
            metrics.prep_processor_queue_size.add(asked as i64);
        }
        if stale > 0 {
            metrics.stale_requests.add(stale);
        }
        self.asked = asked;
        self.took = Duration::ZERO;
        if let Some(between) = &mut self.parts.between {
            for input in inputs {
                if let Input::Zab(input) = input {
                    between.hears(now, input);
                }
            }
        }
    }

    fn touched(&mut self) {
        let probability = self.parts.replica.drop_probability();
        self.shared.counting.drop_probability.store(probability.to_bits(), Ordering::Relaxed);
        self.update_status();
    }

    fn stepped(&mut self, took: Duration) {
        self.took += took;
        count_replica(self.shared, self.parts.replica.counts());
        // A client that has its session finds it counted.
        self.count_local_sessions();
    }

    fn carries_out(&mut self, known: Duration, began: Duration) {
        (self.known, self.began) = (known, began);
        let most = self.shared.config.logging.slow_request;
        self.slow_since = most.and_then(|most| began.checked_sub(most));
        self.stage =
            self.parts.between.is_some().then(|| Commits::new(&self.shared.metrics, known, began));
    }

    fn delivers(&mut self) {
        self.phases.record();
        // A client that has its answer finds its request counted.
        self.counts.record();
    }

    fn carried_out(&mut self) {
        if let Some(stage) = self.stage.take() {
            stage.ended(self.shared.clock.monotonic().saturating_sub(self.began));
        }
        if let Some(audit) = &mut self.parts.audit {
            audit.hand_over();
        }
        if !self.slow.is_empty() {
            self.tell_slow();
        }
        for peer in self.refused.drain(..) {
            info!("refusing to renew the session of {peer}");
        }
    }

    fn appends(&mut self, _: Now, zxid: Zxid, record: &Bytes) {
        self.parts.batches.appends(zxid, self.known, self.began);
        if let Some((_, sizes)) = &mut self.parts.leading {
            sizes.add(record.len());
            self.counts.proposals += 1;
        }
        if let Some(between) = &mut self.parts.between {
            between.logged(zxid, record);
        }
    }

    fn applied(&mut self, now: Now, what: &AppliedTxn<'_>) {
        self.end_event();
        let TxnRecord { header, txn, .. } = what.record;
        traced::applied(&self.shared.clients.trace_mask, header.session, what.zxid, txn);
        let leads = self.parts.leading.is_some();
        let counts = &mut self.counts;
        counts.commits += u64::from(leads);
        if let Some(between) = &mut self.parts.between {
            between.applied(now, what.zxid);
            if let Some(stage) = &mut self.stage {
                stage.applied(what.origin, leads);
            }
        }
        if let Some(audit) = &mut self.parts.audit {
            audit.applied(now, what);
        }
        let is_forwarded = self.parts.between.is_some() && !leads;
        let batch = self.parts.batches.applies(what.zxid);
        if let (Some(origin), Some(batch)) = (what.origin, batch) {
            let (received, began) = (origin.received, self.began);
            self.phases.add(batch, received, began, is_forwarded);
            if is_before(received, self.slow_since) {
                let times = Times::new(batch, received, began, is_forwarded);
                self.remember(|| Slow::new(origin, what, times));
            }
        }
        let counts = &mut self.counts;
        let AppliedTxn { record, applied, .. } = what;
        counts.propagation.add(now.wall_ms.saturating_sub(record.header.time_ms).max(0));
        if applied.digest_compared {
            let comparison = Comparison {
                zxid: what.zxid,
                matches: applied.digest_matches,
                tree: what.tree.digest(),
                expected: record.digest.map(|digest| digest.tree),
            };
            let mismatches = &self.shared.metrics.digest_mismatches_count;
            self.parts.digests.compared(now.monotonic, mismatches, comparison);
            if self.parts.between.is_some() {
                self.parts.recent.add(comparison, what.bytes);
            }
        }
        if applied.err == ErrorCode::OK {
            gather_written(&record.txn, &mut counts.written);
        }
        counts.ops.add(what.origin.map_or(record.header.op, |origin| origin.op));
    }

    fn answers(&mut self, request: &Request) {
        if let Some(stage) = &mut self.stage {
            stage.answered(request);
        }
        if is_before(request.received, self.slow_since) {
            self.remember(|| Slow { origin: request.origin(), path: None, times: None });
        }
    }

    fn read(&mut self, op: OpCode, body: &[u8], answer: &[u8]) {
        if let Some((path, bytes)) = bytes_read(op, body, answer) {
            self.counts.read.add(path, bytes);
        }
    }

    fn answered(&mut self, op: OpCode) {
        self.counts.ops.add(op);
    }

    fn too_long(&mut self, op: OpCode, now: Duration) {
        self.shared.clients.too_long.say(op, now);
    }

    fn replied(&mut self, now: Now, origin: &Origin, err: ErrorCode) {
        if let Some(audit) = &mut self.parts.audit {
            audit.replied(now, origin, err);
        }
        match err {
            ErrorCode::THROTTLED_OP => self.shared.metrics.throttled_ops.add(1),
            ErrorCode::OK => self.counts.ops.add(origin.op),
            _ => {}
        }
    }

    fn abandoned(&mut self, origin: &Origin) {
        if let Some(audit) = &mut self.parts.audit {
            audit.abandoned(origin);
        }
    }

    fn nobody_there(&mut self) {
        self.shared.metrics.stale_replies.add(1);
    }

    fn accepted(&mut self, conn: &Conn, _: SessionId, zxid: Zxid) {
        let stats = &conn.side.stats;
        stats.sent.fetch_add(1, Ordering::Relaxed);
        self.shared.counting.stats.packets_sent.add(1);
        if !conn.renews.load(Ordering::Relaxed) {
            let now = self.shared.clock.monotonic();
            let latency = now.saturating_sub(conn.heard()).as_millis() as u64;
            let now_ms = now.as_millis() as u64;
            stats.answered(1, OpCode::CREATE_SESSION, 0, zxid.0, now_ms, latency);
        }
    }

    fn refused(&mut self, conn: &Conn, denied: bool) {
        conn.side.stats.sent.fetch_add(1, Ordering::Relaxed);
        self.shared.counting.stats.packets_sent.add(1);
        if !denied {
            self.refused.push(conn.side.peer);
        }
    }

    fn asked(&mut self, now: Now, output: &zebu_zab::Output) {
        if let Some(between) = &mut self.parts.between {
            between.asked(now, output);
        }
    }

    fn doubts(&mut self, since: Option<TreeDigest>) {
        self.parts.doubted = since.map(|since| since.zxid);
        self.update_status();
        let Some(TreeDigest { zxid, tree }) = since else {
            *self.shared.disk.differing.lock() = None;
            info!("this server's tree is the leader's again: clients are served");
            return;
        };
        let what = format!(
            "this server's tree differs from the leader's since {zxid} (its digest is {tree:#x} there): no client is \
             served until a digest agrees, or the leader has sent its whole tree"
        );
        error!("{what}; hint: keep the files of both");
        self.keep_evidence(what, Some(zxid));
    }

    fn role(&mut self, role: Role) {
        let parts = &mut *self.parts;
        match (&mut parts.between, role) {
            (None, _) => {}
            (Some(between), Role::Looking) => {
                between.looks(parts.replica.peer().map_or(0, Peer::disloyal_supporters));
            }
            (Some(between), role) => between.serves(matches!(role, Role::Leading(_))),
        }
        parts.leading = match role {
            Role::Leading(_) => Some((self.shared.clock.monotonic(), ProposalSizes::default())),
            _ => None,
        };
        if role == Role::Looking {
            parts.doubted = None;
        }
        let why = parts.replica.peer().map_or(Leave::Started, Peer::left);
        if role == Role::Looking {
            match why {
                Leave::TreeDiffers => self.keep_evidence(why.to_string(), None),
                Leave::TreeOutvoted { zxid } => self.keep_evidence(why.to_string(), Some(zxid)),
                _ => {}
            }
        }
        self.update_status();
        match role {
            Role::Looking
                if matches!(
                    why,
                    Leave::WouldForget { .. } | Leave::TreeDiffers | Leave::TreeOutvoted { .. }
                ) =>
            {
                error!("looking for a leader: {why}");
            }
            Role::Looking
                if matches!(why, Leave::MayHaveLost { .. } | Leave::CopyNotProposed { .. }) =>
            {
                warn!("looking for a leader: {why}");
            }
            Role::Looking => info!("looking for a leader: {why}"),
            Role::Leading(epoch) => info!("leading, epoch {:x}", epoch.0),
            Role::Following(leader) => info!("following server {}", leader.0),
            Role::Observing(leader) => info!("observing server {}", leader.0),
        }
    }

    fn serves_readers(&mut self, on: bool) {
        if on {
            info!("serving read-only clients");
        }
    }

    fn turned(&mut self) {
        if self.parts.between.is_some() {
            self.shared.ensemble.caught_up.notify_waiters();
        }
        self.report_sessions();
        if self.asked > 0 {
            self.shared.metrics.prep_process_time.add(self.took.as_millis() as i64);
        }
    }
}

/// Whether a request came early enough to be slow, if anything can be.
fn is_before(received: Duration, slow_since: Option<Duration>) -> bool {
    slow_since.is_some_and(|since| received <= since)
}

/// Slow requests of which one turn remembers more than that there were some.
const SLOW_KEPT_MAX: usize = 1024;

/// A request that has taken too long.
struct Slow {
    origin: Origin,
    path: Option<String>,
    /// Of a write.
    times: Option<Times>,
}

impl Slow {
    #[cold]
    fn new(origin: &Origin, what: &AppliedTxn<'_>, times: Times) -> Self {
        let path = match &what.record.txn {
            Txn::Create(create) => Some(create.path.to_string()),
            Txn::Delete { path } | Txn::SetData { path, .. } | Txn::SetAcl { path, .. } => {
                Some(path.to_string())
            }
            _ => None,
        };
        Self { origin: *origin, path, times: Some(times) }
    }
}

/// Counts records as on their way to the log.
fn queue(shared: &Shared, records: &Records) {
    shared.metrics.sync_processor_request_queued.add(records.len() as u64);
    shared.disk.log_queue.fetch_add(records.len(), Ordering::Relaxed);
    let bytes: usize = records.iter().map(|(_, record)| record.len()).sum();
    shared.disk.log_queue_bytes.fetch_add(bytes, Ordering::Relaxed);
}

/// Minimum interval between two warnings that this server did not read its sockets.
const SILENCE_SAID_EVERY: Duration = Duration::from_secs(5);

/// Times in which this server did not listen to its clients, of which one line in some seconds tells.
#[derive(Debug, Default)]
struct Silences {
    untold: Duration,
    said: Option<Duration>,
}

impl Silences {
    fn add(&mut self, time: Duration, now: Duration) {
        if let Some(time) = self.due(time, now) {
            warn!("this server did not listen to its clients for {} ms", time.as_millis());
        }
    }

    /// The time to report now: the sum since the last warning.
    fn due(&mut self, time: Duration, now: Duration) -> Option<Duration> {
        self.untold += time;
        if self.said.is_some_and(|said| now < said + SILENCE_SAID_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// What is counted of the effects of one turn, together for those that are alike.
struct Counts<'m> {
    metrics: &'m Metrics,
    ops: Ops<'m>,
    written: Gather<'m>,
    read: Gather<'m>,
    propagation: Repeated<'m>,
    proposals: u64,
    commits: u64,
}

impl<'m> Counts<'m> {
    fn new(metrics: &'m Metrics) -> Self {
        Self {
            metrics,
            ops: Ops::new(metrics),
            written: metrics.write_per_namespace.gather(),
            read: metrics.read_per_namespace.gather(),
            propagation: metrics.propagation_latency.gather(),
            proposals: 0,
            commits: 0,
        }
    }

    /// Counts what there was so far.
    fn record(&mut self) {
        self.ops.record();
        self.written.record();
        self.read.record();
        self.propagation.record();
        for (counter, count) in [
            (&self.metrics.proposal_count, &mut self.proposals),
            (&self.metrics.commit_count, &mut self.commits),
        ] {
            let count = std::mem::take(count);
            if count > 0 {
                counter.add(count);
            }
        }
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.record();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_that_lasts_is_told_now_and_then_and_as_a_whole() {
        let ms = Duration::from_millis;
        let mut silences = Silences::default();
        assert_eq!(silences.due(ms(200), ms(10_000)), Some(ms(200)));
        let mut told = |at| silences.due(ms(200), ms(10_000 + at));
        let times: Vec<_> = (1..=25_u64).map(|tick| told(tick * 200)).collect();
        assert!(times[..24].iter().all(Option::is_none), "{times:?}");
        assert_eq!(times[24], Some(ms(5_000)));
    }
}
