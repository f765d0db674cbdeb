//! One whole server as one object: `step` takes what happened and says what must be done.
//!
//! No sockets, files, clocks, threads or randomness inside: the server drives it with real ones,
//! the simulator with its own. Reads that may go now do not pass through here, see [`crate::gate`].
//!
//! Requests of a connection are answered in the order they came. A write is answered when it is
//! durable and applied; whatever is queued behind it waits for it. Source of the behaviour:
//! `PrepRequestProcessor`, `SyncRequestProcessor`, `FinalRequestProcessor`, `SessionTrackerImpl`.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::reply::PASSWORD_BYTES;
use zebu_proto::txn::Txn;
use zebu_proto::{
    ErrorCode, OpCode, ServerId, SessionId, Xid, Zxid, compatible_password, same_password,
};
use zebu_tree::Tree;

use crate::ConnId;
use crate::auth::{Credentials, Schemes};
use crate::counts::Counts;
use crate::eager::eager_check;
use crate::intake::{Intake, IntakeOptions, Turn};
use crate::outstanding::Outstanding;
use crate::prep::{Malformed, Prep, Rules};
use crate::reaper::{Reaper, ReaperOptions};
use crate::schedule::{SnapshotOptions, SnapshotSchedule};
use crate::sessions::Sessions;
use crate::throttle::{ConnectionThrottle, ThrottleOptions};

/// The time of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Since some moment before the server started; never goes back.
    pub monotonic: Duration,
    /// Milliseconds since the Unix epoch; may jump.
    pub wall_ms: i64,
}

/// What a replica is configured with.
#[derive(Clone, Debug)]
pub struct Options {
    /// This server; 1 when it stands alone.
    pub server: ServerId,
    /// The first session id to hand out, see [`SessionId::first`].
    pub first_session: SessionId,
    /// Width of the expiry buckets.
    pub tick: Duration,
    /// Shortest session timeout, in milliseconds.
    pub session_timeout_ms_min: i32,
    /// Longest session timeout, in milliseconds.
    pub session_timeout_ms_max: i32,
    /// What writes obey.
    pub rules: Rules,
    /// Whether permissions are checked before a write is ordered.
    pub eager_acl_check: bool,
    /// How long a request may wait at intake before it is refused; zero is for ever.
    pub throttled_op_wait: Duration,
    /// How connections are let in.
    pub connections: ThrottleOptions,
    /// How their requests are taken in.
    pub intake: IntakeOptions,
    /// When containers and TTL znodes are looked for.
    pub reaper: ReaperOptions,
    /// When snapshots are due.
    pub snapshots: SnapshotOptions,
    /// Seed of the random choices: when snapshots are due, which connections are dropped.
    pub seed: u64,
}

/// A request as it left its connection.
#[derive(Clone, Debug)]
pub struct Request {
    /// The connection.
    pub conn: ConnId,
    /// Its session.
    pub session: SessionId,
    /// The request's number.
    pub xid: Xid,
    /// What it asks for.
    pub op: OpCode,
    /// The bytes behind the header.
    pub body: Bytes,
    /// The connection's ids when it came.
    pub ids: Credentials,
    /// When it came.
    pub received: Duration,
    /// Length of its frame.
    pub bytes: usize,
}

impl Request {
    /// Where its answer goes.
    pub fn origin(&self) -> Origin {
        let Self { conn, xid, op, received, bytes, .. } = *self;
        Origin { conn, xid, op, received, bytes }
    }
}

/// A client that wants a session.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The connection.
    pub conn: ConnId,
    /// The newest zxid the client has seen.
    pub last_zxid_seen: Zxid,
    /// The timeout it wishes, in milliseconds.
    pub timeout_ms: i32,
    /// The session to go on with, or [`SessionId::NONE`].
    pub session: SessionId,
    /// That session's password.
    pub password: Vec<u8>,
}

/// Everything that can happen to a replica.
#[derive(Debug)]
pub enum Input {
    /// A client's first frame.
    Connect(Connect),
    /// A client's later frame, unless it could be answered at once.
    Request(Request),
    /// A connection is gone.
    Disconnected {
        /// Which one.
        conn: ConnId,
        /// The session it had.
        session: SessionId,
    },
    /// A session was heard of without any request passing here.
    Touched {
        /// Which one.
        session: SessionId,
        /// When.
        at: Duration,
    },
    /// Somebody with the right to do so ends a session.
    Terminate(SessionId),
    /// Everything appended up to here is durable.
    Flushed(Zxid),
    /// Everything handed out with [`Output::Apply`] up to here is in the tree.
    Applied(Zxid),
    /// A snapshot is finished, well or not.
    SnapshotDone,
    /// Time has passed.
    Tick,
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The connection.
    pub conn: ConnId,
    /// The request's number.
    pub xid: Xid,
    /// What it asked for.
    pub op: OpCode,
    /// When it came.
    pub received: Duration,
    /// Length of its frame.
    pub bytes: usize,
}

/// Everything a replica can ask for, to be done in the order given.
///
/// Every [`Input::Request`] comes out exactly once: as the origin of an [`Output::Apply`], an
/// [`Output::Reply`] or an [`Output::Abandon`], or as an [`Output::Answer`].
#[derive(Debug)]
pub enum Output {
    /// Write this record to the log; report [`Input::Flushed`] when it is durable.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
    },
    /// Apply this record to the tree, then answer whoever asked.
    Apply {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
        /// Who asked, if anybody did and an answer is due.
        origin: Option<Origin>,
    },
    /// Answer this request from the tree as it now is.
    Answer(Request),
    /// Answer without a body.
    Reply {
        /// Who asked.
        origin: Origin,
        /// The answer's zxid; `None` is the tree's.
        zxid: Option<Zxid>,
        /// What went wrong.
        err: ErrorCode,
    },
    /// Give this request no answer, and close its connection after what was already answered is
    /// out.
    Abandon(Origin),
    /// The client has its session.
    Accept {
        /// The connection.
        conn: ConnId,
        /// The session.
        session: SessionId,
        /// Its negotiated timeout, in milliseconds.
        timeout_ms: i32,
        /// Its password.
        password: [u8; PASSWORD_BYTES],
    },
    /// Tell the client that its session is over, then close the connection.
    Refuse(ConnId),
    /// Close the connection, after what was already answered is out.
    Disconnect(ConnId),
    /// Start a new log file and take a snapshot; report [`Input::SnapshotDone`].
    Snapshot,
}

/// What is ordered and waits for its turn.
#[derive(Debug)]
enum Work {
    Txn { zxid: Zxid, record: Bytes, origin: Option<Origin>, then: Then },
    Answer(Request),
    Reply { origin: Origin, zxid: Option<Zxid>, err: ErrorCode },
    Abandon(Origin),
}

/// What follows a transaction once it is applied.
#[derive(Debug)]
enum Then {
    Nothing,
    Accept { conn: ConnId, session: SessionId, timeout_ms: i32 },
    End(SessionId),
}

/// Why a server cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// The zxid's counter is spent.
    #[error("zxid {0} is the last of its epoch: a standalone server cannot go on")]
    ZxidsSpent(Zxid),
}

/// One whole server. See the module's documentation.
///
/// Invariants: `applied <= flushed <= logged`; everything in `work` that is a transaction is above
/// `applied`, in order; `outstanding` holds the changes above `applied`.
pub struct Replica {
    options: Options,
    sessions: Sessions,
    outstanding: Outstanding,
    work: VecDeque<Work>,
    next_session: SessionId,
    logged: Zxid,
    flushed: Zxid,
    applied: Zxid,
    throttle: ConnectionThrottle,
    intake: Intake,
    reaper: Reaper,
    snapshots: SnapshotSchedule,
    counts: Counts,
}

impl Replica {
    /// A server whose tree has just been recovered: its sessions start again with their full
    /// timeout.
    ///
    /// # Panics
    /// When the options contradict themselves, such as a tick of zero.
    pub fn new(options: Options, tree: &Tree, now: Now) -> Self {
        let mut sessions = Sessions::new(options.tick);
        for (session, timeout_ms) in tree.sessions() {
            sessions.add(session, timeout_ms, None, now.monotonic);
        }
        let zxid = tree.last_zxid();
        Self {
            sessions,
            outstanding: Outstanding::new(options.rules.digest),
            work: VecDeque::new(),
            next_session: options.first_session,
            logged: zxid,
            flushed: zxid,
            applied: zxid,
            throttle: ConnectionThrottle::new(options.connections.clone(), options.seed, now),
            intake: Intake::new(options.intake.clone()),
            counts: Counts::default(),
            reaper: Reaper::new(options.reaper.clone(), now.monotonic),
            snapshots: SnapshotSchedule::new(options.snapshots.clone(), options.seed),
            options,
        }
    }

    /// Takes one event and pushes its effects, in the order they must be carried out.
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
        match input {
            Input::Connect(_) | Input::Request(_) | Input::Disconnected { .. } => {
                if self.intake.is_limited() {
                    self.intake.push(input, now.monotonic);
                } else {
                    self.enter(now, tree, schemes, input, out)?;
                }
            }
            Input::Touched { session, at } => self.sessions.touch(session, at),
            Input::Terminate(session) => self.end_session(now, tree, schemes, session, out)?,
            Input::Flushed(zxid) => {
                assert!(zxid <= self.logged, "flushed {zxid} beyond {}", self.logged);
                self.flushed = self.flushed.max(zxid);
                self.advance(out);
            }
            Input::Applied(zxid) => {
                assert!(self.applied <= zxid && zxid <= self.flushed);
                self.applied = zxid;
                self.outstanding.applied(zxid);
            }
            Input::SnapshotDone => self.snapshots.done(),
            Input::Tick => self.tick(now, tree, schemes, out)?,
        }
        if self.intake.len() > 0 {
            self.take_in(now, tree, schemes, out)?;
        }
        self.check();
        Ok(())
    }

    /// Takes in what waits, as far as there is room.
    fn take_in(
        &mut self,
        now: Now,
        tree: &Tree,
        schemes: &Schemes,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        loop {
            let sessions = &self.sessions;
            let timeout_ms = |id| sessions.get(id).map(|session| session.timeout_ms);
            match self.intake.next(now.monotonic, self.work.len(), timeout_ms) {
                Turn::Take(input, stale) => {
                    self.counts.stale += u64::from(stale);
                    self.enter(now, tree, schemes, input, out)?;
                }
                // Not behind what is in progress: nobody waits for that either.
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

    /// Takes in what came from a connection.
    fn enter(
        &mut self,
        now: Now,
        tree: &Tree,
        schemes: &Schemes,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        match input {
            Input::Connect(connect) => self.connect(now, tree, schemes, connect, out),
            Input::Request(request) => self.request(now, tree, schemes, request, out),
            Input::Disconnected { conn, session } => {
                self.sessions.detach(session, conn);
                Ok(())
            }
            other => unreachable!("nothing of a connection's: {other:?}"),
        }
    }

    fn check(&self) {
        assert!(self.applied <= self.flushed);
        assert!(self.flushed <= self.logged);
    }

    /// When the next [`Input::Tick`] is due at the latest.
    pub fn next_tick(&self) -> Duration {
        let others = [self.sessions.next_deadline(), self.intake.next_look()];
        others.into_iter().flatten().fold(self.reaper.next(), Duration::min)
    }

    /// What was counted since it was last cleared.
    pub fn counts(&mut self) -> &mut Counts {
        self.counts.changes_queued += self.outstanding.take_queued();
        self.counts.changes_removed += self.outstanding.take_removed();
        &mut self.counts
    }

    /// The live sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// How many requests are ordered and not answered.
    pub fn in_process(&self) -> usize {
        self.work.len()
    }

    /// How many requests wait to be taken in.
    pub fn waiting(&self) -> usize {
        self.intake.len()
    }

    /// How many changes are ordered and not applied.
    pub fn outstanding_changes(&self) -> usize {
        self.outstanding.len()
    }

    /// The chance that the connection throttle drops a connection, from 0 to 1.
    pub fn drop_probability(&self) -> f64 {
        self.throttle.drop_probability()
    }

    /// Brings a wished session timeout into the server's range.
    fn clamp_timeout(&self, timeout_ms: i32) -> i32 {
        timeout_ms.min(self.options.session_timeout_ms_max).max(self.options.session_timeout_ms_min)
    }

    fn connect(
        &mut self,
        now: Now,
        tree: &Tree,
        schemes: &Schemes,
        connect: Connect,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let Connect { conn, last_zxid_seen, timeout_ms, session, password } = connect;
        if !self.throttle.admit(session == SessionId::NONE, now) {
            self.counts.connects_refused += 1;
            out.push(Output::Disconnect(conn));
            return Ok(());
        }
        self.counts.connected(self.throttle.deficit());
        // A client must never see an older state than it has seen (SES-06).
        if last_zxid_seen > self.applied {
            out.push(Output::Disconnect(conn));
            return Ok(());
        }
        let timeout_ms = self.clamp_timeout(timeout_ms);
        if session == SessionId::NONE {
            let session = self.new_session_id(tree);
            let txn = Txn::CreateSession { timeout_ms };
            let mut prep = self.prep(now, tree, schemes, &[], session, 0)?;
            let record = prep.own(OpCode::CREATE_SESSION, &txn).into();
            self.sessions.add(session, timeout_ms, Some(conn), now.monotonic);
            self.append(record, None, Then::Accept { conn, session, timeout_ms }, out);
            return Ok(());
        }
        self.counts.renewals += 1;
        // The password comes first: whoever does not know it must not cost the owner anything.
        let live = self.sessions.get(session).is_some_and(|live| !live.closing);
        if !live || !same_password(&password, &compatible_password(session)) {
            out.push(Output::Refuse(conn));
            return Ok(());
        }
        if let Some(before) = self.sessions.attach(session, conn, timeout_ms, now.monotonic) {
            out.push(Output::Disconnect(before));
        }
        out.push(accept(conn, session, timeout_ms));
        Ok(())
    }

    fn new_session_id(&mut self, tree: &Tree) -> SessionId {
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
        now: Now,
        tree: &Tree,
        schemes: &Schemes,
        request: Request,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let Request { conn, session, xid, op, .. } = request;
        let origin = request.origin();
        let Some(live) = self.sessions.get(session).copied() else {
            // The session ended before the request was taken in: it has no one to answer to.
            self.later(Work::Abandon(origin), out);
            return Ok(());
        };
        self.sessions.touch(session, request.received);
        let waited = now.monotonic.saturating_sub(request.received);
        self.counts.taken_in(waited.as_millis() as u64);
        let patience = self.options.throttled_op_wait;
        if patience > Duration::ZERO
            && waited > patience
            && !matches!(op, OpCode::PING | OpCode::CLOSE_SESSION)
        {
            self.reply(origin, None, ErrorCode::THROTTLED_OP, out);
            return Ok(());
        }
        if !is_ordered(op) {
            self.later(Work::Answer(request), out);
            return Ok(());
        }
        if live.conn != Some(conn) {
            // The session went on at another connection.
            self.later(Work::Abandon(origin), out);
            return Ok(());
        }
        if live.closing && op != OpCode::CLOSE_SESSION {
            return self.fail(now, tree, schemes, &request, ErrorCode::SESSION_EXPIRED, out);
        }
        if self.options.eager_acl_check
            && let Err(code) = eager_check(tree, schemes, &request)
        {
            self.reply(origin, Some(Zxid::ZERO), code, out);
            return Ok(());
        }
        let mut prep = self.prep(now, tree, schemes, &request.ids, session, xid.0)?;
        match prep.record(op, &request.body) {
            Ok(record) => {
                let then = if op == OpCode::CLOSE_SESSION {
                    self.sessions.close(session);
                    Then::End(session)
                } else {
                    Then::Nothing
                };
                self.append(record.into(), Some(origin), then, out);
            }
            Err(Malformed) => self.reply(origin, None, ErrorCode::MARSHALLING_ERROR, out),
        }
        Ok(())
    }

    /// Orders a request that fails whatever the tree says.
    fn fail(
        &mut self,
        now: Now,
        tree: &Tree,
        schemes: &Schemes,
        request: &Request,
        code: ErrorCode,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        let mut prep = self.prep(now, tree, schemes, &[], request.session, request.xid.0)?;
        let record = prep.failed(code);
        self.append(record.into(), Some(request.origin()), Then::Nothing, out);
        Ok(())
    }

    /// Ends a session as if it had expired.
    fn end_session(
        &mut self,
        now: Now,
        tree: &Tree,
        schemes: &Schemes,
        session: SessionId,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        if self.sessions.close(session) {
            let mut prep = self.prep(now, tree, schemes, &[], session, 0)?;
            let txn = prep.close_session();
            let record = prep.own(OpCode::CLOSE_SESSION, &txn).into();
            self.append(record, None, Then::End(session), out);
        }
        Ok(())
    }

    fn tick(
        &mut self,
        now: Now,
        tree: &Tree,
        schemes: &Schemes,
        out: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        for session in self.sessions.expired(now.monotonic) {
            self.counts.sessions_expired += 1;
            self.end_session(now, tree, schemes, session, out)?;
        }
        for path in self.reaper.due(tree, now) {
            let mut prep = self.prep(now, tree, schemes, &[], SessionId::NONE, 0)?;
            let body = Bytes::from(path);
            if let Ok(record) = prep.record(OpCode::DELETE_CONTAINER, &body) {
                self.append(record.into(), None, Then::Nothing, out);
            }
        }
        Ok(())
    }

    /// What is needed to make the next record.
    fn prep<'p>(
        &'p mut self,
        now: Now,
        tree: &'p Tree,
        schemes: &'p Schemes,
        ids: &'p [zebu_proto::Id],
        session: SessionId,
        cxid: i32,
    ) -> Result<Prep<'p>, Fatal> {
        let zxid = self.logged.next().ok_or(Fatal::ZxidsSpent(self.logged))?;
        Ok(Prep {
            tree,
            outstanding: &mut self.outstanding,
            schemes,
            rules: &self.options.rules,
            counts: &mut self.counts,
            ids,
            session,
            cxid,
            zxid,
            time_ms: now.wall_ms,
        })
    }

    /// Gives a record its place in the order and sends it to the log.
    fn append(&mut self, record: Bytes, origin: Option<Origin>, then: Then, out: &mut Vec<Output>) {
        let zxid = Zxid(self.logged.0 + 1);
        self.logged = zxid;
        out.push(Output::Append { zxid, record: record.clone() });
        if self.snapshots.appended(record.len()) {
            out.push(Output::Snapshot);
        }
        self.work.push_back(Work::Txn { zxid, record, origin, then });
    }

    fn reply(&mut self, origin: Origin, zxid: Option<Zxid>, err: ErrorCode, out: &mut Vec<Output>) {
        self.later(Work::Reply { origin, zxid, err }, out);
    }

    /// Queues what takes no place in the log behind what does.
    fn later(&mut self, work: Work, out: &mut Vec<Output>) {
        self.work.push_back(work);
        self.advance(out);
    }

    /// Hands out everything whose turn has come.
    fn advance(&mut self, out: &mut Vec<Output>) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Txn { zxid, .. } if zxid > self.flushed => {
                    self.work.push_front(work);
                    return;
                }
                Work::Txn { zxid, record, origin, then } => {
                    out.push(Output::Apply { zxid, record, origin });
                    match then {
                        Then::Nothing => {}
                        Then::Accept { conn, session, timeout_ms } => {
                            out.push(accept(conn, session, timeout_ms));
                        }
                        Then::End(session) => {
                            let ended = self.sessions.remove(session);
                            if let Some(conn) = ended.and_then(|session| session.conn) {
                                out.push(Output::Disconnect(conn));
                            }
                        }
                    }
                }
                Work::Answer(request) => out.push(Output::Answer(request)),
                Work::Reply { origin, zxid, err } => {
                    out.push(Output::Reply { origin, zxid, err });
                }
                Work::Abandon(origin) => out.push(Output::Abandon(origin)),
            }
        }
    }
}

fn accept(conn: ConnId, session: SessionId, timeout_ms: i32) -> Output {
    Output::Accept { conn, session, timeout_ms, password: compatible_password(session) }
}

/// Whether a client's request takes a place in the order; others are answered where they stand.
///
/// What only the server itself may ask for is not among them.
pub(crate) fn is_ordered(op: OpCode) -> bool {
    op.is_write()
        && !matches!(op, OpCode::CHECK | OpCode::CREATE_SESSION | OpCode::DELETE_CONTAINER)
}
