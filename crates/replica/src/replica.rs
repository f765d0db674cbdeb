//! One server as one object: `step` takes an event and returns the effects to carry out.
//!
//! Reads that may be answered at once do not pass through here; see [`crate::gate`].
//!
//! A connection's requests are answered in the order they came. A write is answered when it is
//! durable and applied, and later requests wait for it. Source of the behaviour:
//! `PrepRequestProcessor`, `SyncRequestProcessor`, `FinalRequestProcessor`, `SessionTrackerImpl`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode as _, Decoder};
use zebu_proto::txn::{Txn, TxnHeader};
use zebu_proto::{ErrorCode, OpCode, SessionId, Zxid};
use zebu_tree::Tree;
use zebu_zab::{Leave, Role};

use crate::ConnId;
use crate::auth::Schemes;
use crate::counts::Counts;
use crate::eager::eager_check;
use crate::faults;
use crate::intake::{Intake, Turn};
use crate::io::{Connect, Input, Now, Options, Origin, Output, Request};
use crate::local::makes_ephemeral;
use crate::member::Ensemble;
use crate::outstanding::Outstanding;
use crate::pack::Pack;
use crate::prep::{Malformed, Prep};
use crate::reaper::Reaper;
use crate::retire::Retirement;
use crate::schedule::SnapshotSchedule;
use crate::sessions::{Expiry, Owner, Session, Sessions};
use crate::throttle::ConnectionThrottle;

/// A queued request or transaction.
#[derive(Debug)]
pub(crate) enum Work {
    /// A transaction ordered by this server: waits for its commit.
    Txn {
        zxid: Zxid,
        record: Bytes,
        origin: Option<Origin>,
        then: Then,
    },
    /// A request forwarded to the leader: waits for its transaction.
    Forwarded {
        session: SessionId,
        cxid: i32,
        origin: Option<Origin>,
        /// The error for the client if the leader refuses, where this server knows a more precise
        /// one.
        refusal: Option<ErrorCode>,
        then: Then,
        /// The newest transaction known here when it was sent. Its own transaction is later.
        above: Zxid,
    },
    /// A sync: waits until everything up to `until` is applied. `None`: the leader has not answered
    /// yet.
    Sync {
        request: Request,
        until: Option<Zxid>,
    },
    Answer(Request),
    Reply {
        origin: Origin,
        zxid: Option<Zxid>,
        err: ErrorCode,
    },
    Abandon(Origin),
    /// The end of a local session.
    End {
        origin: Option<Origin>,
        session: SessionId,
    },
}

/// What to do once a transaction is applied.
#[derive(Debug)]
pub(crate) enum Then {
    Nothing,
    Accept { conn: ConnId, session: SessionId, timeout_ms: i32 },
    End(SessionId),
}

/// The time and state that a step reads.
#[derive(Clone, Copy)]
pub(crate) struct World<'w> {
    pub(crate) now: Now,
    pub(crate) tree: &'w Tree,
    pub(crate) schemes: &'w Schemes,
}

/// How transactions are ordered.
pub(crate) enum Order {
    /// Standalone: a durable transaction is committed.
    Alone { logged: Zxid, flushed: Zxid },
    /// By the leader of an ensemble.
    Ensemble(Box<Ensemble>),
}

/// Why a server must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// The counter of the zxid is exhausted.
    #[error("zxid {0} is the last of its epoch: a standalone server cannot begin a new epoch")]
    ZxidsSpent(Zxid),
    /// The ensemble has committed a record that cannot be decoded.
    #[error("{0} is committed, and cannot be read")]
    Unreadable(Zxid),
}

/// One whole server. See the module's documentation.
///
/// Invariants: `applied <= committed`; everything in `work` that is a transaction is above
/// `applied`, in order; the first in `work` is one that has to wait; `outstanding` holds the
/// changes above `applied`. Everything that the peer has delivered is handed out with
/// [`Output::Apply`].
pub struct Replica {
    pub(crate) options: Options,
    pub(crate) order: Order,
    /// At a leader and a standalone server: all sessions, since they expire here. At a learner: the
    /// sessions of its own clients. Local sessions are tracked where their clients are.
    pub(crate) sessions: Sessions,
    pub(crate) outstanding: Outstanding,
    pack: Pack,
    pub(crate) work: VecDeque<Work>,
    next_session: SessionId,
    pub(crate) committed: Zxid,
    pub(crate) applied: Zxid,
    /// The newest transaction handed out with [`Output::Apply`].
    pub(crate) handed_out: Zxid,
    throttle: ConnectionThrottle,
    intake: Intake,
    pub(crate) retirement: Retirement,
    pub(crate) reaper: Reaper,
    pub(crate) snapshots: SnapshotSchedule,
    pub(crate) counts: Counts,
}

impl Replica {
    /// Creates a standalone server whose tree has just been recovered. Its sessions start with
    /// their full timeout.
    ///
    /// # Panics
    /// If the options contradict themselves, such as a tick of zero.
    pub fn new(options: Options, tree: &Tree, now: Now) -> Self {
        let zxid = tree.last_zxid();
        let order = Order::Alone { logged: zxid, flushed: zxid };
        let mut replica = Self::with_order(options, order, tree, now);
        replica.track_all_sessions(tree, now);
        replica
    }

    pub(crate) fn with_order(options: Options, order: Order, tree: &Tree, now: Now) -> Self {
        Self {
            sessions: Sessions::new(options.tick, Expiry::Local),
            outstanding: Outstanding::new(options.rules.digest),
            pack: Pack::default(),
            work: VecDeque::new(),
            next_session: options.first_session,
            committed: tree.last_zxid(),
            applied: tree.last_zxid(),
            handed_out: tree.last_zxid(),
            throttle: ConnectionThrottle::new(options.connections.clone(), options.seed, now),
            intake: Intake::new(options.intake.clone()),
            retirement: Retirement::default(),
            counts: Counts::default(),
            reaper: Reaper::new(options.reaper.clone(), tree, now),
            snapshots: SnapshotSchedule::new(options.snapshots.clone(), options.seed),
            order,
            options,
        }
    }

    /// Tracks all sessions in the tree, each with its full timeout.
    pub(crate) fn track_all_sessions(&mut self, tree: &Tree, now: Now) {
        self.sessions = Sessions::new(self.options.tick, Expiry::All);
        for (session, timeout_ms) in tree.sessions() {
            self.sessions.add(session, timeout_ms, None, now.monotonic);
        }
    }

    /// Continues a standalone server with another tree, which is later than everything so far.
    /// Sessions that are not in the tree are over; the others start with their full timeout.
    ///
    /// # Panics
    /// If something is in progress, the server is a member of an ensemble, or the tree is not
    /// later.
    pub fn restored(&mut self, tree: &Tree, now: Now) {
        assert!(self.work.is_empty() && self.outstanding.len() == 0, "something is in progress");
        let Order::Alone { logged, .. } = self.order else {
            unreachable!("an ensemble takes the tree of its leader")
        };
        let zxid = tree.last_zxid();
        assert!(logged < zxid, "a state goes back from {logged} to {zxid}");
        self.order = Order::Alone { logged: zxid, flushed: zxid };
        self.committed = zxid;
        self.applied = zxid;
        self.handed_out = zxid;
        self.outstanding = Outstanding::new(self.options.rules.digest);
        self.pack = Pack::default();
        self.reaper = Reaper::new(self.options.reaper.clone(), tree, now);
        // The tree may have sessions that another server has begun since this one was started.
        let server = self.options.server;
        self.next_session = self.next_session.max(SessionId::first(server, now.wall_ms));
        self.track_all_sessions(tree, now);
        self.check();
    }

    /// Counts transactions replayed at the start towards the next snapshot. Otherwise a server that
    /// restarts often would never take one.
    pub fn replayed(&mut self, txns: u64, bytes: u64) {
        self.snapshots.count(txns, bytes);
    }

    /// Requests a snapshot as soon as this member serves, because its state is not fully covered by
    /// transactions.
    pub fn wants_snapshot(&mut self) {
        self.snapshots.want();
    }

    /// Notes that a snapshot was started without a request; [`Input::SnapshotDone`] ends it.
    pub fn snapshot_begun(&mut self) {
        self.snapshots.begun();
    }

    /// Takes one event and appends its effects to `out`, in the order they must be carried out.
    ///
    /// # Errors
    /// [`Fatal`]: nothing more can be ordered; stop the server.
    pub fn step(
        &mut self,
        now: Now,
        tree: &Tree,
        schemes: &Schemes,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let world = World { now, tree, schemes };
        let done = self.happen(world, input, out);
        if self.intake.len() > 0 && done.is_ok() {
            self.take_in(world, out)?;
        }
        self.retire_when_done(world, out);
        self.serve_reads(now.monotonic, out);
        self.note_lag(now.monotonic);
        self.check();
        match done {
            // A new epoch has new zxids.
            Err(Fatal::ZxidsSpent(_)) if self.resign(world, Leave::ZxidsSpent, out) => Ok(()),
            done => done,
        }
    }

    fn happen(
        &mut self,
        world: World<'_>,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        match input {
            Input::Connect(_) | Input::Request(_) | Input::Disconnected { .. } => {
                if self.intake.is_limited() {
                    self.intake.push(input, world.now.monotonic);
                } else {
                    self.enter(world, input, out)?;
                }
            }
            Input::Touched { session, at } => {
                self.touch(session, at);
            }
            Input::Stalled(time) => {
                self.sessions.postpone(time, world.now.monotonic);
                if let Order::Ensemble(ensemble) = &mut self.order {
                    ensemble.lag.postpone(time);
                    self.zab(world, zebu_zab::Input::Stalled(time), out)?;
                }
            }
            Input::Unheard(time) => self.sessions.postpone(time, world.now.monotonic),
            Input::Terminate(_) if self.retirement.is_asked() => {}
            Input::Terminate(session) => self.end_session(world, session, out)?,
            Input::Retire { by } => self.begin_stop(world.now.monotonic, by, out),
            Input::HandOver { to, by } => self.begin_hand_over(world.now.monotonic, to, by, out),
            Input::Flushed(zxid) => {
                let Order::Alone { logged, flushed } = &mut self.order else {
                    unreachable!("an ensemble hears of this from its log")
                };
                assert!(zxid <= *logged, "flushed {zxid} beyond {logged}");
                *flushed = zxid.max(*flushed);
                self.committed = *flushed;
                self.advance(out);
            }
            Input::Applied(zxid) => {
                assert!(self.applied <= zxid, "{zxid} is applied after {}", self.applied);
                assert!(zxid <= self.handed_out, "{zxid} is applied, and was not handed out");
                self.applied = zxid;
                self.outstanding.applied(zxid);
                self.begin(world, out)?;
            }
            Input::SnapshotDone => self.snapshots.done(),
            Input::SnapshotFailed => self.snapshots.failed(world.now.monotonic),
            Input::SnapshotWanted => {
                self.snapshots.want();
                if self.serves() && self.snapshots.serves() {
                    out.push(Output::Snapshot);
                }
            }
            Input::Tick => self.tick(world, out)?,
            Input::Zab(input) => self.zab(world, input, out)?,
        }
        Ok(())
    }

    /// Takes in waiting inputs as far as the limit allows.
    fn take_in(&mut self, world: World<'_>, out: &mut Vec<Output>) -> Result<(), Fatal> {
        loop {
            let sessions = &self.sessions;
            let timeout_ms = |id| sessions.get(id).map(|session| session.timeout_ms);
            match self.intake.next(world.now.monotonic, self.work.len(), timeout_ms) {
                Turn::Take(input, stale) => {
                    self.counts.stale += u64::from(stale);
                    self.enter(world, input, out)?;
                }
                // Answered at once, not in order: no client waits for earlier answers either.
                Turn::Drop(origin) => {
                    self.counts.stale_dropped += 1;
                    out.push(Output::Abandon(origin));
                }
                Turn::DropToo(origin) => out.push(Output::Abandon(origin)),
                Turn::Forget => {}
                Turn::Wait(looked) => {
                    self.counts.intake_waits += u64::from(looked);
                    return Ok(());
                }
                Turn::Idle => return Ok(()),
            }
        }
    }

    /// Takes in an input from a connection.
    fn enter(
        &mut self,
        world: World<'_>,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        match input {
            Input::Connect(connect) => self.connect(world, connect, out),
            Input::Request(request) => self.request(world, request, out),
            Input::Disconnected { conn, session } => {
                self.sessions.detach(session, conn);
                Ok(())
            }
            other => unreachable!("nothing of a connection's: {other:?}"),
        }
    }

    fn check(&self) {
        assert!(self.applied <= self.handed_out);
        assert!(self.handed_out <= self.committed);
        match &self.order {
            Order::Alone { logged, flushed } => {
                assert!(flushed <= logged);
                assert_eq!(self.committed, *flushed, "what is durable is committed");
                let idle = self.work.is_empty();
                assert!(!idle || flushed == logged, "what is logged waits for its sync");
            }
            Order::Ensemble(ensemble) => {
                // Otherwise the tree would miss a transaction of the history.
                assert_eq!(self.handed_out, ensemble.peer.history().delivered());
                assert_eq!(self.handed_out, self.committed, "what is delivered is handed out");
                ensemble.check();
            }
        }
        self.outstanding.check(self.applied);
        self.sessions.check();
        self.intake.check();
        self.check_work();
    }

    /// Asserts that the first element of the queue must wait, and for an event that can occur.
    fn check_work(&self) {
        let role = self.role();
        if role == Some(Role::Looking) {
            assert!(self.work.is_empty(), "work of a role that is over");
            assert_eq!(self.outstanding.len(), 0, "changes of a role that is over");
        }
        if self.forwards() {
            assert_eq!(self.outstanding.len(), 0, "a learner validates nothing");
        }
        match self.work.front() {
            None => {}
            Some(Work::Txn { zxid, .. }) => {
                assert!(*zxid > self.committed, "{zxid} is committed, and waits");
                assert!(!self.forwards(), "a learner orders nothing");
            }
            Some(Work::Forwarded { .. }) => assert!(self.forwards(), "only a learner forwards"),
            Some(Work::Sync { until, .. }) => {
                assert!(
                    until.is_none_or(|until| until > self.committed),
                    "a sync waits for nothing"
                );
                assert!(role.is_some(), "a server alone has nobody to ask");
            }
            Some(work) => unreachable!("it need not wait: {work:?}"),
        }
        if cfg!(debug_assertions) {
            let ordered = self.work.iter().filter_map(|work| match work {
                Work::Txn { zxid, .. } => Some(*zxid),
                _ => None,
            });
            assert!(ordered.clone().is_sorted_by(|a, b| a < b), "transactions are out of order");
            assert!(ordered.clone().all(|zxid| zxid > self.handed_out), "handed out, and waits");
        }
    }

    /// Hands out a committed transaction to be applied.
    pub(crate) fn hand_out(
        &mut self,
        zxid: Zxid,
        record: Bytes,
        origin: Option<Origin>,
        out: &mut Vec<Output>,
    ) {
        assert!(self.handed_out < zxid, "{zxid} after {}", self.handed_out);
        assert!(zxid <= self.committed, "{zxid} is handed out before it is committed");
        self.handed_out = zxid;
        out.push(Output::Apply { zxid, record, origin });
    }

    /// When the next [`Input::Tick`] is due at the latest.
    pub fn next_tick(&self) -> Duration {
        let look = self.intake.next_look().unwrap_or(Duration::MAX);
        if self.retirement.is_asked() {
            let peer = self.peer().map_or(Duration::MAX, zebu_zab::Peer::deadline);
            return look.min(peer).min(self.retirement.due());
        }
        let peer = match &self.order {
            Order::Alone { .. } => Duration::MAX,
            Order::Ensemble(ensemble) => ensemble.peer.deadline(),
        };
        let reaper = if self.tracks_sessions() { self.reaper.next() } else { Duration::MAX };
        let sessions = self.sessions.next_deadline().unwrap_or(Duration::MAX);
        let reads = self.reads_from().unwrap_or(Duration::MAX);
        look.min(peer).min(sessions).min(reaper).min(reads).min(self.next_doubt())
    }

    /// The statistics since they were last cleared.
    pub fn counts(&mut self) -> &mut Counts {
        self.counts.changes_queued += self.outstanding.take_queued();
        self.counts.changes_removed += self.outstanding.take_removed();
        &mut self.counts
    }

    /// The live sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The number of requests in progress.
    pub fn in_process(&self) -> usize {
        self.work.len()
    }

    /// The number of requests waiting at intake.
    pub fn waiting(&self) -> usize {
        self.intake.len()
    }

    /// The number of changes in flight.
    pub fn outstanding_changes(&self) -> usize {
        self.outstanding.len()
    }

    /// The chance that the connection throttle drops a connection, from 0 to 1.
    pub fn drop_probability(&self) -> f64 {
        self.throttle.drop_probability()
    }

    /// Limits a requested session timeout to the configured range.
    fn clamp_timeout(&self, timeout_ms: i32) -> i32 {
        timeout_ms.min(self.options.session_timeout_ms_max).max(self.options.session_timeout_ms_min)
    }

    fn connect(
        &mut self,
        world: World<'_>,
        connect: Connect,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let now = world.now;
        let Connect { conn, last_zxid_seen, timeout_ms, session, password, read_only } = connect;
        if self.retirement.is_asked() {
            out.push(Output::Disconnect(conn));
            return Ok(());
        }
        if !self.throttle.admit(session == SessionId::NONE, now) {
            self.counts.connects_refused += 1;
            out.push(Output::Disconnect(conn));
            return Ok(());
        }
        self.counts.connected(self.throttle.deficit());
        // A client must never see an older state than it has seen (SES-06).
        let behind = last_zxid_seen > self.applied && !faults::session_goes_back();
        if behind || !self.admits(read_only) {
            out.push(Output::Disconnect(conn));
            return Ok(());
        }
        let timeout_ms = self.clamp_timeout(timeout_ms);
        if session == SessionId::NONE {
            if self.options.member.local_sessions {
                self.open_local(world, conn, timeout_ms, out);
                return Ok(());
            }
            if self.only_reads() {
                out.push(Output::Deny(conn));
                return Ok(());
            }
            let session = self.new_session_id(world.tree);
            if self.forwards() {
                self.sessions.add(session, timeout_ms, Some(Owner::Conn(conn)), now.monotonic);
                let then = Then::Accept { conn, session, timeout_ms };
                self.forward_session(session, timeout_ms, then, out);
                return Ok(());
            }
            let txn = Txn::CreateSession { timeout_ms };
            let mut prep = self.prep(world, &[], session, 0)?;
            let record = prep.own(OpCode::CREATE_SESSION, &txn);
            self.sessions.add(session, timeout_ms, Some(Owner::Conn(conn)), now.monotonic);
            let then = Then::Accept { conn, session, timeout_ms };
            return self.append(world, record, None, then, out);
        }
        self.counts.renewals += 1;
        // The password is checked first: a client without it must not affect the session.
        if !self.options.passwords.accept(session, &password) {
            out.push(Output::Refuse(conn));
            return Ok(());
        }
        let local = self.sessions.get(session).is_some_and(|live| live.local);
        if self.forwards() && !local {
            self.revalidate(conn, session, timeout_ms, out);
            return Ok(());
        }
        if self.sessions.get(session).is_none_or(|live| live.closing) {
            let may_be_alive = self.only_reads() && self.may_live_elsewhere(world.tree, session);
            if may_be_alive {
                out.push(Output::Disconnect(conn));
            } else {
                self.refuse(world, conn, out);
            }
            return Ok(());
        }
        let owner = Owner::Conn(conn);
        if let Some(before) = self.sessions.attach(session, owner, timeout_ms, now.monotonic) {
            out.push(Output::Disconnect(before));
        }
        out.push(self.accept(conn, session, timeout_ms));
        Ok(())
    }

    pub(crate) fn new_session_id(&mut self, tree: &Tree) -> SessionId {
        loop {
            let id = self.next_session;
            self.next_session = id.next();
            let taken = self.sessions.get(id).is_some() || tree.session_timeout(id).is_some();
            if !taken && id != SessionId::NONE {
                return id;
            }
        }
    }

    fn request(
        &mut self,
        world: World<'_>,
        request: Request,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let Request { session, op, .. } = request;
        let origin = request.origin();
        let Some(live) = self.touch(session, request.received) else {
            // The session ended before its request was taken in, so there is no client to answer.
            self.later(Work::Abandon(origin), out);
            return Ok(());
        };
        let is_late = !self.retirement.takes(request.received);
        if is_late && (is_ordered(op) || op == OpCode::SYNC) {
            // The client turns to another server, as it soon must anyway.
            self.later(Work::Abandon(origin), out);
            return Ok(());
        }
        let waited = world.now.monotonic.saturating_sub(request.received);
        self.counts.taken_in(waited.as_millis() as u64);
        let patience = self.options.throttled_op_wait;
        if patience > Duration::ZERO
            && waited > patience
            && !matches!(op, OpCode::PING | OpCode::CLOSE_SESSION)
        {
            self.reply(origin, None, ErrorCode::THROTTLED_OP, out);
            return Ok(());
        }
        let ends = op == OpCode::CLOSE_SESSION;
        if self.only_reads() && (op == OpCode::SYNC || is_ordered(op) && !ends) {
            let refusal = ErrorCode::NOT_READ_ONLY;
            let said = if faults::readers_may_write() { ErrorCode::OK } else { refusal };
            self.reply(origin, None, said, out);
            return Ok(());
        }
        if op == OpCode::SYNC && self.synchronizes() {
            self.sync(world, request, out);
            return Ok(());
        }
        if is_ordered(op) {
            return self.ordered(world, request, live, out);
        }
        self.later(Work::Answer(request), out);
        Ok(())
    }

    /// Gives a request of a session its place in the order of transactions, or refuses it.
    #[inline]
    fn ordered(
        &mut self,
        world: World<'_>,
        request: Request,
        live: Session,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let Request { conn, session, xid, op, .. } = request;
        let origin = request.origin();
        if live.conn() != Some(conn) && !faults::moved_session_served() {
            // The session has moved to another connection.
            self.later(Work::Abandon(origin), out);
            return Ok(());
        }
        if live.local && op == OpCode::CLOSE_SESSION {
            self.end_local(session, Some(origin), out);
            return Ok(());
        }
        if live.local && live.closing {
            self.reply(origin, None, ErrorCode::SESSION_EXPIRED, out);
            return Ok(());
        }
        if self.options.eager_acl_check
            && !live.closing
            && let Err(code) = eager_check(world.tree, world.schemes, &self.options.rules, &request)
        {
            self.reply(origin, Some(Zxid::ZERO), code, out);
            return Ok(());
        }
        let mut refusal = None;
        if live.local && makes_ephemeral(op, &request.body) {
            if !self.options.member.upgrade_local_sessions {
                refusal = Some(ErrorCode::EPHEMERAL_ON_LOCAL_SESSION);
            } else if let Err(spent) = self.upgrade(world, session, out) {
                self.later(Work::Abandon(origin), out);
                return Err(spent);
            }
        }
        if self.forwards() {
            self.forward(request, refusal, out);
            return Ok(());
        }
        let may_write = faults::closing_session_writes();
        if live.closing && op != OpCode::CLOSE_SESSION && !may_write {
            let code = ErrorCode::SESSION_EXPIRED;
            return self.fail(world, session, xid.0, Some(origin), code, out);
        }
        let lightened = match op {
            OpCode::CLOSE_SESSION => self.lighten(world, session, out),
            _ => Ok(()),
        };
        let prep = lightened.and_then(|()| self.prep(world, &request.ids, session, xid.0));
        let mut prep = match prep {
            Ok(prep) => prep,
            Err(spent) => {
                self.later(Work::Abandon(origin), out);
                return Err(spent);
            }
        };
        match prep.record(op, &request.body) {
            Ok(record) => {
                let then = self.ends(op, session);
                self.append(world, record, Some(origin), then, out)?;
            }
            Err(Malformed) => self.reply(origin, None, ErrorCode::MARSHALLING_ERROR, out),
        }
        Ok(())
    }

    /// What follows a request. A session to be closed is marked as closing.
    pub(crate) fn ends(&mut self, op: OpCode, session: SessionId) -> Then {
        if op != OpCode::CLOSE_SESSION {
            return Then::Nothing;
        }
        self.sessions.close(session);
        Then::End(session)
    }

    /// Notes a sign of life of a session, and returns the session.
    pub(crate) fn touch(&mut self, session: SessionId, at: Duration) -> Option<Session> {
        let live = self.sessions.touch(session, at)?;
        if let Order::Ensemble(ensemble) = &mut self.order
            && !live.local
        {
            ensemble.touched(session, live.timeout_ms);
        }
        Some(live)
    }

    /// Orders a request as a failure, whatever the state of the tree.
    pub(crate) fn fail(
        &mut self,
        world: World<'_>,
        session: SessionId,
        cxid: i32,
        origin: Option<Origin>,
        code: ErrorCode,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let mut prep = match self.prep(world, &[], session, cxid) {
            Ok(prep) => prep,
            Err(spent) => {
                if let Some(origin) = origin {
                    self.later(Work::Abandon(origin), out);
                }
                return Err(spent);
            }
        };
        let record = prep.failed(code);
        self.append(world, record, origin, Then::Nothing, out)
    }

    /// Ends a session like an expired one.
    fn end_session(
        &mut self,
        world: World<'_>,
        session: SessionId,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        if self.sessions.get(session).is_some_and(|live| live.local && !live.closing) {
            self.end_local(session, None, out);
        } else if self.tracks_sessions() && self.sessions.close(session) {
            self.lighten(world, session, out)?;
            let mut prep = self.prep(world, &[], session, 0)?;
            let txn = prep.close_session();
            let record = prep.own(OpCode::CLOSE_SESSION, &txn);
            self.append(world, record, None, Then::End(session), out)?;
        }
        Ok(())
    }

    /// Deletes as many of a session's znodes as necessary for its closeSession record to fit.
    pub(crate) fn lighten(
        &mut self,
        world: World<'_>,
        session: SessionId,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let surplus = self.prep(world, &[], session, 0)?.surplus();
        for paths in surplus {
            // No session: a server waiting for a transaction of this session must not match this
            // one.
            let mut prep = self.prep(world, &[], SessionId::NONE, 0)?;
            let record = prep.delete_all(paths);
            self.append(world, record, None, Then::Nothing, out)?;
        }
        Ok(())
    }

    fn tick(&mut self, world: World<'_>, out: &mut Vec<Output>) -> Result<(), Fatal> {
        self.zab_tick(world, out)?;
        if self.retirement.is_asked() {
            // The next leader expires sessions.
            return Ok(());
        }
        self.doubt(world, out);
        if self.serves() && self.snapshots.retries(world.now.monotonic) {
            out.push(Output::Snapshot);
        }
        let order = &self.order;
        let told_until = |link| match (order, link) {
            (Order::Ensemble(ensemble), Some(link)) => ensemble.peer.told_until(link),
            (Order::Ensemble(ensemble), None) => ensemble.peer.all_told_until(),
            (Order::Alone { .. }, _) => None,
        };
        let expired = self.sessions.expired(world.now.monotonic, told_until);
        for session in &expired {
            self.counts.sessions_expired += 1;
            self.end_session(world, *session, out)?;
        }
        if !expired.is_empty() {
            self.sessions.check_buckets();
        }
        if !self.tracks_sessions() {
            return Ok(());
        }
        if let Some(ahead_ms) = self.reaper.ages.ahead_ms(world.now) {
            self.counts.clock_ahead_ms = Some(ahead_ms);
        }
        for path in self.reaper.due(world.tree, world.now) {
            let mut prep = self.prep(world, &[], SessionId::NONE, 0)?;
            if let Ok(record) = prep.record(OpCode::DELETE_CONTAINER, path.as_bytes()) {
                self.append(world, record, None, Then::Nothing, out)?;
            }
        }
        Ok(())
    }

    /// The context for making the next record.
    pub(crate) fn prep<'p>(
        &'p mut self,
        world: World<'p>,
        ids: &'p [zebu_proto::Id],
        session: SessionId,
        cxid: i32,
    ) -> Result<Prep<'p>, Fatal> {
        let World { now, tree, schemes } = world;
        let mut peer = None;
        let zxid = match &self.order {
            // No other server's epochs matter: the counter carries into the epoch, as in the
            // original.
            Order::Alone { logged, .. } => {
                logged.0.checked_add(1).map(Zxid).ok_or(Fatal::ZxidsSpent(*logged))?
            }
            Order::Ensemble(ensemble) => {
                peer = Some(&ensemble.peer);
                let last = ensemble.peer.history().last();
                ensemble.peer.next_zxid().ok_or(Fatal::ZxidsSpent(last))?
            }
        };
        let ephemerals_refused = self.refuses_ephemerals(session);
        Ok(Prep {
            tree,
            outstanding: &mut self.outstanding,
            pack: &mut self.pack,
            schemes,
            peer,
            now,
            ages: &self.reaper.ages,
            rules: &self.options.rules,
            counts: &mut self.counts,
            ids,
            session,
            cxid,
            zxid,
            time_ms: now.wall_ms,
            ephemerals_refused,
            expanded_bytes_max: 0,
            permitted: RefCell::default(),
        })
    }

    /// Gives a record its place in the order, and sends it to the log and to the followers.
    pub(crate) fn append(
        &mut self,
        world: World<'_>,
        record: Bytes,
        origin: Option<Origin>,
        then: Then,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        match &mut self.order {
            Order::Alone { logged, .. } => {
                let zxid = Zxid(logged.0 + 1);
                debug_assert_eq!(zxid_of(&record), Some(zxid), "made for another place");
                *logged = zxid;
                out.push(Output::Append { zxid, record: record.clone() });
                if self.snapshots.appended(record.len(), world.tree) {
                    out.push(Output::Snapshot);
                }
                self.work.push_back(Work::Txn { zxid, record, origin, then });
                Ok(())
            }
            Order::Ensemble(_) => self.propose(world, record, origin, then, out),
        }
    }

    pub(crate) fn reply(
        &mut self,
        origin: Origin,
        zxid: Option<Zxid>,
        err: ErrorCode,
        out: &mut Vec<Output>,
    ) {
        self.later(Work::Reply { origin, zxid, err }, out);
    }

    /// Queues an item that takes no zxid after the items before it.
    pub(crate) fn later(&mut self, work: Work, out: &mut Vec<Output>) {
        self.work.push_back(work);
        self.advance(out);
    }

    /// Handles the items at the front of the queue that need not wait.
    pub(crate) fn advance(&mut self, out: &mut Vec<Output>) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Txn { zxid, .. } if zxid > self.committed => {
                    return self.work.push_front(work);
                }
                Work::Sync { until, .. } if until.is_none_or(|until| until > self.committed) => {
                    return self.work.push_front(work);
                }
                Work::Forwarded { .. } => return self.work.push_front(work),
                Work::Txn { zxid, record, origin, then } => {
                    self.hand_out(zxid, record, origin, out);
                    self.follow(then, out);
                }
                Work::Answer(request) | Work::Sync { request, .. } => {
                    out.push(Output::Answer(request));
                }
                Work::Reply { origin, zxid, err } => {
                    out.push(Output::Reply { origin, zxid, err });
                }
                Work::Abandon(origin) => out.push(Output::Abandon(origin)),
                Work::End { origin, session } => {
                    let err = ErrorCode::OK;
                    out.extend(origin.map(|origin| Output::Reply { origin, zxid: None, err }));
                    self.follow(Then::End(session), out);
                }
            }
        }
    }

    /// Carries out what follows a transaction.
    pub(crate) fn follow(&mut self, then: Then, out: &mut Vec<Output>) {
        match then {
            Then::Nothing => {}
            Then::Accept { conn, session, timeout_ms } => {
                out.push(self.accept(conn, session, timeout_ms));
            }
            Then::End(session) => {
                let ended = self.sessions.remove(session);
                if let Some(conn) = ended.and_then(|session| session.conn()) {
                    out.push(Output::Disconnect(conn));
                }
            }
        }
    }

    /// Tells a client its session and password.
    pub(crate) fn accept(&self, conn: ConnId, session: SessionId, timeout_ms: i32) -> Output {
        let password = self.options.passwords.give(session);
        Output::Accept { conn, session, timeout_ms, password }
    }
}

/// The zxid in a record that this server has made.
pub(crate) fn zxid_of(record: &[u8]) -> Option<Zxid> {
    TxnHeader::decode(&mut Decoder::new(record)).ok().map(|header| header.zxid)
}

/// Whether a client's request takes a zxid; others are answered in place.
///
/// False for operations that only the server itself may start.
pub(crate) fn is_ordered(op: OpCode) -> bool {
    op.is_write()
        && !matches!(op, OpCode::CHECK | OpCode::CREATE_SESSION | OpCode::DELETE_CONTAINER)
}
