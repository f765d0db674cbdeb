//! What drives the replica: feeds it what happened and carries out what it asks for.
//!
//! Decides nothing about the protocol. Inputs are taken in batches: all of a batch are validated
//! under one read lock of the tree, and everything it commits is applied under one write lock.
//!
//! The replica has a thread of its own, which waits for inputs and for the time. A network worker with nothing else to
//! do takes a turn itself, see [`crate::aside`]. **Invariant:** inputs leave the inbox only under the engine's lock, so
//! that they are taken in the order in which they came.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::{Mutex, RwLockWriteGuard};
use tracing::{error, info, warn};
use zebu_jute::Encode as _;
use zebu_proto::reply::ConnectResponse;
use zebu_proto::txn::TxnRecord;
use zebu_proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};
use zebu_replica::{
    After, Input, Now, Origin, Output, Reader, Replica, Request, Session, frame, write_reply,
};
use zebu_state::membership;
use zebu_tree::Tree;
use zebu_zab::{ConfigChange, Role};

use crate::between::Between;
use crate::commits::Commits;
use crate::conn::{Conn, Outbox};
use crate::conns;
use crate::counting::{Ops, bytes_read, count_replica, gather_written};
use crate::delivery::{Delivery, Kind, Notifier};
use crate::four_letter::{Mode, ProposalSizes};
use crate::journal::{Command, Job, Journal};
use crate::metrics::{Gather, Metrics, Repeated};
use crate::pace::Pace;
use crate::peers;
use crate::shared::{Leading, SessionDeadline, Shared, Status};
use crate::snapshotter::Snapshotter;

/// How often sessions that were heard of without the replica are reported to it.
const TOUCH_INTERVAL: Duration = Duration::from_millis(200);

/// How much too late this thread may look at its inputs before that counts as standing still.
const STALL_MIN: Duration = Duration::from_secs(1);

/// Transactions applied under one write lock, so that readers get their turn.
const APPLY_BATCH: usize = 512;

/// Inputs validated under one read lock. What comes of them is carried out before the next are looked at, so that the
/// disk writes the first of many requests, and clients have their answers, while the replica sees to the others.
const STEP_BATCH: usize = 256;

/// Runs the replica's thread until nothing is in the inbox any more, and nothing comes.
pub fn run(engine: &Mutex<Engine>, shared: &Shared) {
    stop_on_failure(shared, drive(engine, shared));
}

fn stop_on_failure(shared: &Shared, done: anyhow::Result<()>) {
    if let Err(failure) = done {
        error!("{failure:#}");
        shared.stop(Err(failure));
    }
}

fn drive(engine: &Mutex<Engine>, shared: &Shared) -> anyhow::Result<()> {
    let mut ending = None;
    engine.lock().begin();
    loop {
        let until = engine.lock().next();
        let wait = until.saturating_sub(shared.clock.monotonic()).max(Duration::from_millis(1));
        let open = shared.inbox.wait(wait);
        let mut engine = engine.lock();
        if engine.over {
            return Ok(());
        }
        if !open && shared.inbox.is_empty() {
            // What is in progress may still be finished, so that what was logged is applied.
            let most = shared.config.throttle.shutdown_timeout;
            let now = shared.clock.monotonic();
            let since: Duration = *ending.get_or_insert(now);
            let idle = engine.replica.in_process() == 0 && engine.replica.waiting() == 0;
            if idle || now >= since + most || shared.has_failed() {
                engine.over = true;
                return Ok(());
            }
        }
        engine.turn()?;
    }
}

/// Takes a turn on the thread of the caller, unless somebody else does at the moment: then what is in the inbox is
/// seen to there.
pub fn turn_here(engine: &Mutex<Engine>, shared: &Shared) {
    // Whoever could not get it while this thread had it relies on this thread.
    while !shared.inbox.is_empty()
        && let Some(mut engine) = engine.try_lock()
        && !engine.over
    {
        let done = engine.turn();
        drop(engine);
        stop_on_failure(shared, done);
    }
}

/// A replica and what its effects go to.
pub struct Engine {
    shared: Arc<Shared>,
    replica: Replica,
    journal: Arc<Mutex<Journal>>,
    log: Sender<Command>,
    snapshotter: Snapshotter,
    /// The network between servers, in an ensemble.
    peers: Option<peers::Handle>,
    /// What is on its way to them.
    post: peers::Post,
    delivery: Delivery,
    touched: Duration,
    /// Since when this server leads, and what it has proposed.
    leading: Option<(Duration, ProposalSizes)>,
    /// What it counts of its dealings with the others, in an ensemble.
    between: Option<Between>,
    /// What was made durable in this turn, and is not reported yet.
    flushed: Option<Zxid>,
    pace: Pace,
    /// When it looked at its inputs last.
    looked: Duration,
    /// Nothing is taken from the inbox any more.
    over: bool,
    /// Their room, used again.
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

impl Engine {
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
        let (delivery, touched) = (Delivery::default(), Duration::ZERO);
        let between = peers.as_ref().map(|_| Between::new(shared.clone()));
        Self {
            shared,
            replica,
            journal,
            log,
            snapshotter,
            peers,
            post: peers::Post::default(),
            delivery,
            touched,
            leading: None,
            between,
            flushed: None,
            pace: Pace::default(),
            looked: Duration::ZERO,
            over: false,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// To be called once, before the first turn.
    fn begin(&mut self) {
        match &mut self.between {
            // The whole log has been applied.
            None => self.shared.tree.write().trust_digests(Zxid::ZERO),
            Some(between) => between.looks(0),
        }
        self.looked = self.shared.clock.monotonic();
    }

    /// When it has to be looked at next, whatever happens.
    fn next(&self) -> Duration {
        self.replica.next_tick().min(self.touched + TOUCH_INTERVAL)
    }

    /// Takes what is in the inbox and carries it out, and what comes of that. After a failure it is over.
    fn turn(&mut self) -> anyhow::Result<()> {
        let done = self.batches();
        self.over |= done.is_err();
        done
    }

    fn batches(&mut self) -> anyhow::Result<()> {
        let mut inputs = std::mem::take(&mut self.inputs);
        loop {
            self.shared.inbox.take(&mut inputs);
            inputs.extend(self.flushed.take().map(Input::Flushed));
            self.batch(&mut inputs)?;
            if self.flushed.is_none() {
                break;
            }
        }
        self.inputs = inputs;
        Ok(())
    }

    fn batch(&mut self, inputs: &mut Vec<Input>) -> anyhow::Result<()> {
        let shared = self.shared.clone();
        let now = shared.clock.now();
        // Its clients' pings are still in their sockets: a stopped process, a machine that slept.
        let stood = now.monotonic.saturating_sub(self.next().max(self.looked));
        if stood > STALL_MIN {
            warn!("this server stood still for {} ms", stood.as_millis());
            inputs.insert(0, Input::Stalled(stood));
        }
        self.looked = now.monotonic;
        let asked = self.count_inputs(now, inputs);
        if let Some(between) = &mut self.between {
            for input in inputs.iter() {
                if let Input::Zab(input) = input {
                    between.hears(now, input);
                }
            }
        }
        if now.monotonic >= self.touched + TOUCH_INTERVAL {
            self.report_touched(now, inputs);
        }
        if now.monotonic >= self.replica.next_tick() {
            // Nobody expires who was heard of just now.
            self.report_touched(now, inputs);
            inputs.push(Input::Tick);
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut inputs = inputs.drain(..);
        let mut took = Duration::ZERO;
        while inputs.len() > 0 {
            let began = shared.clock.monotonic();
            {
                let tree = shared.tree.read();
                for input in inputs.by_ref().take(STEP_BATCH) {
                    self.replica.step(now, &tree, &shared.schemes, input, &mut outputs)?;
                }
            }
            took += shared.clock.monotonic().saturating_sub(began);
            count_replica(&shared.metrics, self.replica.counts());
            let is_last = inputs.len() == 0;
            // What was applied may have been what a new role waited for.
            while !outputs.is_empty() {
                self.carry_out(now, is_last, &mut outputs)?;
            }
        }
        self.report_sessions();
        if asked > 0 {
            shared.metrics.prep_process_time.add(took.as_millis() as i64);
        }
        self.outputs = outputs;
        Ok(())
    }

    /// Counts what connections handed in; says how much that is.
    fn count_inputs(&mut self, now: Now, inputs: &[Input]) -> u64 {
        let metrics = &self.shared.metrics;
        // With a limit the replica itself sees who is gone when a request's turn comes.
        let throttle = &self.shared.config.throttle;
        let look_for_stale = throttle.requests_max.is_none() && throttle.stale_by_connection;
        let (mut asked, mut stale) = (0, 0);
        let mut waits = metrics.prep_processor_queue_time_ms.gather();
        let conns = self.shared.conns.view();
        for input in inputs {
            match input {
                Input::Connect(_) => asked += 1,
                Input::Request(request) => {
                    asked += 1;
                    self.pace.asked_by(request.conn);
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
        if asked > 0 {
            metrics.prep_processor_request_queued.add(asked);
            metrics.prep_processor_queue_size.add(asked as i64);
        }
        if stale > 0 {
            metrics.stale_requests.add(stale);
        }
        asked
    }

    /// Tells the replica of every session whose connection was heard of since last time.
    fn report_touched(&mut self, now: Now, inputs: &mut Vec<Input>) {
        let since = self.touched;
        self.touched = now.monotonic;
        self.shared.conns.each(|conn| {
            let at = conn.heard();
            // The millisecond of the last report is looked at again.
            if at + Duration::from_millis(1) >= since
                && let Some(session) = conn.session()
            {
                inputs.push(Input::Touched { session, at });
            }
        });
        let probability = self.replica.drop_probability();
        self.shared.drop_probability.store(probability.to_bits(), Ordering::Relaxed);
        self.update_status();
    }

    /// Copies what others may want to know of this server's role.
    fn update_status(&self) {
        let peer = self.replica.peer();
        let observers = peer.and_then(|peer| peer.observers());
        let master = peer.and_then(|peer| peer.master());
        *self.shared.status.lock() = Status { leading: self.leading(), observers, master };
    }

    /// Copies what the replica alone knows, when somebody has asked for it.
    fn report_sessions(&self) {
        let sessions = self.replica.sessions();
        self.shared.local_sessions.store(sessions.locals(), Ordering::Relaxed);
        self.shared.session_list.answer(|| {
            let copy = |(id, session): (SessionId, &Session)| {
                let Session { deadline, local, .. } = *session;
                SessionDeadline { id, deadline, local }
            };
            sessions.iter().map(copy).collect()
        });
    }

    /// What this server knows as a leader.
    fn leading(&self) -> Option<Leading> {
        let (since, proposals) = self.leading?;
        let learners = self.replica.peer()?.learners()?;
        Some(Leading { since, learners, pending_syncs: self.replica.pending_syncs(), proposals })
    }

    /// Carries out what the replica asks for; `is_last` says that no more inputs of the turn are to be seen to.
    fn carry_out(
        &mut self,
        now: Now,
        is_last: bool,
        outputs: &mut Vec<Output>,
    ) -> anyhow::Result<()> {
        let shared = self.shared.clone();
        let mut records = Vec::new();
        let mut tree: Option<RwLockWriteGuard<'_, Tree>> = None;
        let mut applied = None;
        let mut refused = Vec::new();
        let mut batch = 0;
        let began = shared.clock.monotonic();
        let mut stage = Commits::new(&shared.metrics, now.monotonic, began);
        let mut counts = Counts::new(&shared.metrics);
        for output in outputs.drain(..) {
            match output {
                Output::Append { zxid, record } => {
                    if let Some((_, sizes)) = &mut self.leading {
                        sizes.add(record.len());
                        counts.proposals += 1;
                    }
                    if let Some(between) = &mut self.between {
                        between.logged(zxid, &record);
                    }
                    records.push((zxid, record));
                }
                Output::Snapshot => {
                    self.append(&mut records)?;
                    self.send(Command::Roll)?;
                    self.snapshotter.start(&shared);
                }
                Output::Apply { zxid, record, origin } => {
                    let tree = tree.get_or_insert_with(|| shared.tree.write());
                    counts.commits += u64::from(self.leading.is_some());
                    if let Some(between) = &mut self.between {
                        between.applied(now, zxid);
                        let leads = self.leading.is_some();
                        stage.applied(origin.as_ref(), leads);
                    }
                    self.apply(now, tree, zxid, &record, origin, &mut counts);
                    applied = Some(zxid);
                }
                Output::Answer(request) => {
                    if self.between.is_some() {
                        stage.answered(&request);
                    }
                    let tree = tree.get_or_insert_with(|| shared.tree.write());
                    self.answer(tree, &request, &mut counts);
                }
                Output::Reply { origin, zxid, err } => {
                    let zxid = zxid.unwrap_or_else(|| match &tree {
                        Some(tree) => tree.last_zxid(),
                        None => shared.tree.read().last_zxid(),
                    });
                    match err {
                        ErrorCode::THROTTLED_OP => shared.metrics.throttled_ops.add(1),
                        ErrorCode::OK => counts.ops.add(origin.op),
                        _ => {}
                    }
                    let reply = |out: &mut Vec<u8>| frame::bare_reply(out, origin.xid, zxid, err);
                    self.delivery
                        .answer(&shared, &origin, Kind::Neither, zxid, |outbox| outbox.put(reply));
                }
                Output::Abandon(origin) => self.delivery.abandon(&shared, &origin),
                Output::Accept { conn, session, timeout_ms, password } => {
                    if let Some(conn) = shared.conn(conn) {
                        let read_only = self.read_only_byte(&conn);
                        let response = ConnectResponse {
                            timeout_ms,
                            session_id: session,
                            password,
                            read_only,
                        };
                        let zxid = match &tree {
                            Some(tree) => tree.last_zxid(),
                            None => shared.tree.read().last_zxid(),
                        };
                        self.welcome(&conn, &response, Some(zxid));
                        conn.set_session(session, timeout_ms);
                        self.delivery.touch(conn);
                    }
                }
                Output::Refuse(conn) => {
                    if let Some(conn) = shared.conn(conn) {
                        refused.push(conn.peer);
                        let read_only = self.read_only_byte(&conn);
                        let response = ConnectResponse::refused(read_only);
                        self.welcome(&conn, &response, None);
                        conn.outbox.lock().close();
                        self.delivery.touch(conn);
                    }
                }
                Output::Deny(conn) => {
                    if let Some(conn) = shared.conn(conn) {
                        let zxid = match &tree {
                            Some(tree) => tree.last_zxid(),
                            None => shared.tree.read().last_zxid(),
                        };
                        let mut outbox = conn.outbox.lock();
                        let denied = ErrorCode::NOT_READ_ONLY;
                        outbox.put(|out| frame::bare_reply(out, Xid(0), zxid, denied));
                        outbox.close();
                        drop(outbox);
                        conn.stats.sent.fetch_add(1, Ordering::Relaxed);
                        shared.stats.packets_sent.add(1);
                        self.delivery.touch(conn);
                    }
                }
                Output::ReadOnly(on) => self.serve_readers(on),
                Output::Zab(output) => {
                    tree = None;
                    if let Some(between) = &mut self.between {
                        between.asked(now, &output);
                    }
                    match output {
                        zebu_zab::Output::Send(link, packet) => {
                            if self.post.add(link, packet) {
                                self.hand_over();
                            }
                        }
                        output => {
                            // A link's packets come before its end.
                            self.hand_over();
                            self.between_servers(output, &mut records)?;
                        }
                    }
                }
                Output::Disconnect(conn) => {
                    if let Some(conn) = shared.conn(conn) {
                        conn.outbox.lock().close();
                        self.delivery.touch(conn);
                    }
                }
            }
            batch += 1;
            if batch % APPLY_BATCH == 0 {
                tree = None;
                counts.record();
                self.delivery.end(&shared, began);
            }
        }
        drop(tree);
        drop(counts);
        self.hand_over();
        self.delivery.end(&shared, began);
        if self.between.is_some() {
            let took = shared.clock.monotonic().saturating_sub(began);
            stage.ended(took);
        }
        self.append_or_commit(is_last, &mut records)?;
        for peer in refused {
            info!("refusing to renew the session of {peer}");
        }
        if let Some(zxid) = applied {
            let tree = shared.tree.read();
            let input = Input::Applied(zxid);
            self.replica.step(now, &tree, &shared.schemes, input, outputs)?;
            drop(tree);
            count_replica(&shared.metrics, self.replica.counts());
        }
        Ok(())
    }

    /// Hands packets for other servers to the network.
    fn hand_over(&mut self) {
        if let Some(peers) = self.peers.as_ref().filter(|_| !self.post.is_empty()) {
            peers.send(&mut self.post);
        }
    }

    /// Carries out what concerns other servers, or the disk of a member of an ensemble.
    fn between_servers(
        &mut self,
        output: zebu_zab::Output,
        records: &mut Vec<(Zxid, bytes::Bytes)>,
    ) -> anyhow::Result<()> {
        let peers = self.peers.clone().context("this server runs alone")?;
        let job = match output {
            zebu_zab::Output::SaveEpoch(kind, epoch) => Job::SaveEpoch(kind, epoch),
            zebu_zab::Output::Config(change) => {
                peers.change(&change);
                if let ConfigChange::Committed(config) = &change {
                    self.shared.set_members(config.clone());
                }
                Job::Config(change)
            }
            zebu_zab::Output::Truncate(zxid) => Job::Truncate(zxid),
            zebu_zab::Output::Reload => Job::Reload,
            zebu_zab::Output::Restore(link) => match peers.take_copy(link) {
                Some(copied) => Job::Restore(Box::new(copied)),
                None => anyhow::bail!("the leader's tree is gone"),
            },
            zebu_zab::Output::SendCopy(link) => {
                peers.send_copy(link);
                return Ok(());
            }
            zebu_zab::Output::Role(role) => {
                self.change_role(role);
                return Ok(());
            }
            output => {
                peers.carry_out(output);
                return Ok(());
            }
        };
        if job.remakes() {
            self.shared.remaking.fetch_add(1, Ordering::Relaxed);
        }
        self.append(records)?;
        self.send(Command::Member(job))
    }

    /// Serves clients, or nobody.
    fn change_role(&mut self, role: Role) {
        match (&mut self.between, role) {
            (None, _) => {}
            (Some(between), Role::Looking) => {
                between.looks(self.replica.peer().map_or(0, |peer| peer.disloyal_supporters()));
            }
            (Some(between), role) => between.serves(matches!(role, Role::Leading(_))),
        }
        let shared = &self.shared;
        let mode = match role {
            Role::Looking => None,
            Role::Leading(_) => Some(Mode::Leader),
            Role::Following(_) => Some(Mode::Follower),
            Role::Observing(_) => Some(Mode::Observer),
        };
        self.leading = match role {
            Role::Leading(_) => Some((shared.clock.monotonic(), ProposalSizes::default())),
            _ => None,
        };
        self.update_status();
        let why = self.replica.peer().map_or("", |peer| peer.left());
        match role {
            Role::Looking => info!("looking for a leader: {why}"),
            Role::Leading(epoch) => info!("leading, epoch {:x}", epoch.0),
            Role::Following(leader) => info!("following server {}", leader.0),
            Role::Observing(leader) => info!("observing server {}", leader.0),
        }
        if mode.is_some() {
            // What a copy was ahead of is committed, though perhaps not applied: that waits for our own disk.
            let committed = self.replica.peer().map_or(Zxid::ZERO, |peer| peer.committed());
            let mut tree = shared.tree.write();
            tree.trust_digests(committed);
            let members = shared.members.lock().clone();
            if let Some(members) = members.filter(|_| shared.config.reconfig_enabled) {
                // What the first epoch has agreed on is in no transaction.
                membership::show(&mut tree, &members, shared.clock.now().wall_ms);
            }
        }
        let leader_serves = shared.config.ensemble.as_ref().is_none_or(|it| it.leader_serves);
        self.serve(mode.filter(|mode| *mode != Mode::Leader || leader_serves));
    }

    /// Serves clients that only read, or nobody.
    fn serve_readers(&mut self, on: bool) {
        if on {
            info!("serving read-only clients");
        }
        self.serve(on.then_some(Mode::ReadOnly));
    }

    /// Lets clients in, or sends all away.
    fn serve(&self, mode: Option<Mode>) {
        let shared = &self.shared;
        shared.serve(mode);
        if mode.is_some() {
            shared.refused.end();
        } else {
            for conn in shared.conns.all() {
                conn.outbox.lock().close();
                conn.wake();
            }
        }
    }

    /// What the last byte of the answer to a connect request says; clients that do not send theirs
    /// get none.
    fn read_only_byte(&self, conn: &Conn) -> Option<bool> {
        let read_only = self.shared.serving() == Some(Mode::ReadOnly);
        conn.says_read_only.load(Ordering::Relaxed).then_some(read_only)
    }

    /// Answers a connect request; `zxid` is that of the new session, if it is one.
    fn welcome(&self, conn: &Conn, response: &ConnectResponse, zxid: Option<Zxid>) {
        conn.outbox.lock().put(|out| frame::frame(out, |out| response.encode(out)));
        conn.stats.sent.fetch_add(1, Ordering::Relaxed);
        self.shared.stats.packets_sent.add(1);
        if let Some(zxid) = zxid
            && !conn.renews.load(Ordering::Relaxed)
        {
            let now = self.shared.clock.monotonic();
            let latency = now.saturating_sub(conn.heard()).as_millis() as u64;
            let now_ms = now.as_millis() as u64;
            conn.stats.answered(1, OpCode::CREATE_SESSION, 0, zxid.0, now_ms, latency);
        }
    }

    /// Makes the records of a turn durable at once where that is the fastest, and nothing else is left to do, else
    /// orders it.
    fn append_or_commit(
        &mut self,
        is_last: bool,
        records: &mut Vec<(Zxid, bytes::Bytes)>,
    ) -> anyhow::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let shared = &self.shared;
        let is_leisurely = self.pace.is_leisurely(records.len());
        if self.peers.is_none()
            && is_last
            && is_leisurely
            && shared.log_queue.load(Ordering::Relaxed) == 0
            && shared.config.log.flush_delay == Duration::ZERO
            && let Some(mut journal) = self.journal.try_lock()
            && journal.is_quick()
        {
            shared.metrics.sync_processor_request_queued.add(records.len() as u64);
            shared.log_queue.fetch_add(records.len(), Ordering::Relaxed);
            shared.log_queue_bytes.fetch_add(bytes_of(records), Ordering::Relaxed);
            self.flushed = journal.append_now(std::mem::take(records), shared)?.or(self.flushed);
        }
        self.append(records)
    }

    /// Hands records to the log.
    fn append(&mut self, records: &mut Vec<(Zxid, bytes::Bytes)>) -> anyhow::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let shared = &self.shared;
        shared.metrics.sync_processor_request_queued.add(records.len() as u64);
        shared.log_queue.fetch_add(records.len(), Ordering::Relaxed);
        shared.log_queue_bytes.fetch_add(bytes_of(records), Ordering::Relaxed);
        let records = std::mem::take(records);
        self.send(Command::Append { records, since: Instant::now() })
    }

    fn send(&self, command: Command) -> anyhow::Result<()> {
        self.log.send(command).map_err(|_| anyhow::anyhow!("the log thread has ended"))
    }

    fn apply(
        &mut self,
        now: Now,
        tree: &mut Tree,
        zxid: Zxid,
        record: &[u8],
        origin: Option<Origin>,
        counts: &mut Counts<'_>,
    ) {
        let shared = &*self.shared;
        let record = TxnRecord::decode(record).expect("the replica made this record");
        let applied = tree.apply(&record, &mut Notifier::new(shared, &mut self.delivery));
        let metrics = &shared.metrics;
        counts.propagation.add(now.wall_ms.saturating_sub(record.header.time_ms).max(0));
        if !applied.digest_matches {
            if metrics.digest_mismatches_count.value() == 0 {
                error!("the tree's digest after {zxid} is not the one in the transaction");
            }
            metrics.digest_mismatches_count.add(1);
        }
        if applied.err == ErrorCode::OK {
            gather_written(&record.txn, &mut counts.written);
        }
        counts.ops.add(origin.map_or(record.header.op, |origin| origin.op));
        let Some(origin) = origin else { return };
        let reply = |out: &mut Vec<u8>| write_reply(out, origin.op, origin.xid, zxid, &applied);
        self.delivery.answer(shared, &origin, Kind::Write, zxid, |outbox| outbox.put(reply));
    }

    fn answer(&mut self, tree: &Tree, request: &Request, counts: &mut Counts<'_>) {
        let shared = &*self.shared;
        let Request { conn, session, xid, op, body, ids, .. } = request;
        let reader = Reader {
            schemes: &shared.schemes,
            watcher: conns::watcher(*conn),
            session: *session,
            ids,
        };
        let mut after = After::Keep;
        let put = |outbox: &mut Outbox| {
            let bytes = outbox.put(|out| {
                let at = out.len();
                after = reader.answer(tree, *xid, *op, body, out);
                if let Some((path, bytes)) = bytes_read(*op, body, &out[at..]) {
                    counts.read.add(path, bytes);
                }
            });
            if after == After::Close {
                outbox.close();
            }
            bytes
        };
        let zxid = tree.last_zxid();
        let is_there = self.delivery.answer(shared, &request.origin(), Kind::Read, zxid, put);
        if is_there && after == After::Keep {
            counts.ops.add(*op);
        }
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

fn bytes_of(records: &[(Zxid, bytes::Bytes)]) -> usize {
    records.iter().map(|(_, record)| record.len()).sum()
}
