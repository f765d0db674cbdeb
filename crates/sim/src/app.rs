//! Clients that are real sessions: the shipped state machine of the client over the simulated
//! network, and a program above it that remembers the promises it got.
//!
//! The check covers what the program sees, through all reconnections. The clients that speak the
//! protocol themselves check the bytes on the wire.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::Encode as _;
use zebu_proto::request::AddWatch;
use zebu_proto::{ErrorCode, OpCode, SessionId, Zxid};
use zebu_session::{
    Answer, Attempt, Effect, Ending, Failure, Frame, Input, Options, Output, Probe, Registration,
    RequestId, Session, State, Submission, WatchKind, WatcherId,
};
use zebu_testkit::Random;

use crate::checks::promises::{Held, Promises, Told};
use crate::checks::reads::Asked;
use crate::checks::watches::Kind;
use crate::guest::{address, server_at};
use crate::net::Message;
use crate::plan::Plan;
use crate::requests::{self, Wish};
use crate::world::{Happening, World};

/// The most requests of one program that are in flight.
const PENDING_MAX: usize = 4;

/// The longest delay of a timer.
const LATE_MAX: Duration = Duration::from_millis(5);

/// Whether a request that failed for this reason was never sent.
fn is_unsent(failure: Failure) -> bool {
    !matches!(failure, Failure::Lost | Failure::TimedOut { is_sent: true })
}

/// A request in flight.
struct Pending {
    id: RequestId,
    asked: Asked,
    watch: Option<Registration>,
    made: Duration,
    /// The data that the request writes, if no other request writes the same data.
    tag: Vec<u8>,
}

/// A program that uses `zebu-session`.
pub(crate) struct App {
    random: Random,
    number: usize,
    options: Options,
    session: Session,
    /// The session's id, if there is a session, and whether other servers know the session.
    id: SessionId,
    is_global: bool,
    /// Whether the session's server is read-only.
    only_reads: bool,
    /// The connection, with the attempt that opened it.
    conn: Option<(Attempt, u64)>,
    /// The attempt to connect that is in progress.
    dialling: Option<Attempt>,
    timer: u64,
    /// Requests without an answer, oldest first.
    pending: VecDeque<Pending>,
    next_request: u64,
    next_watcher: u64,
    promises: Promises,
    /// The request to close the session, while it has no answer.
    closing: Option<RequestId>,
    /// Whether the program has asked for the end of the session.
    ends: bool,
    /// The time of the next request.
    wants_at: Duration,
    pub(crate) silent: bool,
    /// The time of the last pause.
    stood: Duration,
    unread: Vec<(u64, Option<Bytes>)>,
    outputs: VecDeque<Output>,
    /// The frame that the session is handling.
    payload: Bytes,
}

impl App {
    pub(crate) fn new(number: usize, plan: &Plan) -> Self {
        let seed = plan.seed;
        let mut random = Random::stream(seed, 200 + number as u64);
        let timeout = Duration::from_millis(random.between(2_000, 30_000));
        let connection_wait = Duration::from_millis(random.between(200, 20_000));
        let mut options =
            Options { timeout, connection_wait, seed: random.next(), ..Options::default() };
        let mut wishes = Random::stream(seed, 300 + number as u64);
        options.read_only = plan.read_only;
        if plan.impatient {
            options.request_timeout = Some(wishes.ms(20, 6_000));
        }
        Self {
            number,
            session: Session::new(options.clone()),
            options,
            random,
            id: SessionId::NONE,
            is_global: false,
            only_reads: false,
            conn: None,
            dialling: None,
            timer: 0,
            pending: VecDeque::new(),
            next_request: 1,
            next_watcher: 1,
            promises: Promises::default(),
            closing: None,
            ends: false,
            wants_at: Duration::ZERO,
            silent: false,
            stood: Duration::ZERO,
            unread: Vec::new(),
            outputs: VecDeque::new(),
            payload: Bytes::new(),
        }
    }

    pub(crate) fn connection(&self) -> Option<u64> {
        self.conn.map(|(_, conn)| conn)
    }

    /// Whether the program has a session and waits for nothing.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.session.state() == State::Connected
            && self.pending.is_empty()
            && !self.ends
            && self.session.watches() == self.promises.count()
    }

    pub(crate) fn status(&self) -> String {
        format!(
            "{:?} {} seen {}, {} pending, {} watches of {}",
            self.session.state(),
            self.id,
            self.session.last_zxid(),
            self.pending.len(),
            self.session.watches(),
            self.promises.count()
        )
    }
}

impl World {
    fn app_place(&self, app: usize) -> usize {
        self.plan.servers() + self.clients.len() + app
    }

    /// Passes an input to a session, and carries out its outputs.
    fn app_step(&mut self, app: usize, input: Input) {
        let now = self.now;
        let it = &mut self.apps[app];
        let mut outputs = Vec::new();
        it.session.step(now, input, &mut outputs);
        it.outputs.extend(outputs);
        while let Some(output) = self.apps[app].outputs.pop_front() {
            if let Err(what) = self.app_output(app, output) {
                self.checks.found(format!("session of program {app}: {what}"));
                return;
            }
        }
        self.answered_in_time(app);
        self.arm_app(app);
    }

    /// Checks that a request with a timeout does not wait longer.
    fn answered_in_time(&mut self, app: usize) {
        let it = &self.apps[app];
        let Some(limit) = it.options.request_timeout else { return };
        if it.silent || self.now < it.stood + LATE_MAX {
            return;
        }
        let late = |pending: &&Pending| pending.made + limit + LATE_MAX < self.now;
        if let Some(Pending { asked, made, .. }) = it.pending.iter().find(late) {
            let what = format!(
                "ERR-10: {asked:?} of program {app}, made at {made:?}, is not answered in {limit:?}"
            );
            self.checks.found(what);
        }
    }

    /// Sets a timer for the session's deadline.
    fn arm_app(&mut self, app: usize) {
        let it = &mut self.apps[app];
        it.timer += 1;
        let timer = it.timer;
        let due = it.session.deadline().map_or(it.wants_at, |due| due.min(it.wants_at));
        let at = due.max(self.now + Duration::from_millis(1));
        self.at(at, Happening::App { app, timer });
    }

    pub(crate) fn app_timer(&mut self, app: usize, timer: u64) {
        let now = self.now;
        if self.apps[app].timer != timer || self.apps[app].silent {
            return;
        }
        if self.apps[app].wants_at <= now {
            let think = self.plan.think.as_micros() as u64;
            let it = &mut self.apps[app];
            let wait = it.random.between(think / 4, think * 7 / 4).max(1000);
            it.wants_at = now + Duration::from_micros(wait);
            let wants = it.pending.len() < PENDING_MAX && !it.ends;
            if self.busy && wants {
                self.app_wish(app);
            }
        }
        let due = self.apps[app].session.deadline().is_some_and(|due| due <= now);
        if due { self.app_step(app, Input::Tick) } else { self.arm_app(app) }
    }

    // ---- what it asks for

    fn app_wish(&mut self, app: usize) {
        let it = &mut self.apps[app];
        // Paths that this program alone uses: none of the other programs' ephemerals.
        let number = 100 + it.number;
        let wish = if it.random.below(100) < self.plan.syncs {
            Wish::SyncAndRead(requests::some_path(&mut it.random))
        } else {
            // Every write of a program has unique data.
            let data = requests::tag(it.number, it.next_request);
            requests::draw(&mut it.random, number, &data)
        };
        match wish {
            Wish::One(op, path, watch, body) => self.app_ask(app, op, path, watch, body),
            Wish::SyncAndRead(path) => {
                let sync = requests::path_only("/");
                self.app_ask(app, OpCode::SYNC, "/".to_owned(), None, sync);
                let read = requests::read(&path, false);
                self.app_ask(app, OpCode::GET_DATA, path, None, read);
            }
            Wish::Watch(path, recursive) => {
                let kind = if recursive { Kind::Recursive } else { Kind::Persistent };
                let mode = i32::from(recursive);
                let body = AddWatch { path: Some((&*path).into()), mode }.to_bytes();
                self.app_ask(app, OpCode::ADD_WATCH, path, Some(kind), body);
            }
            Wish::Close => {
                let it = &mut self.apps[app];
                let id = RequestId(it.next_request);
                it.next_request += 1;
                it.closing = Some(id);
                it.ends = true;
                self.app_step(app, Input::Close(id));
            }
        }
    }

    fn app_ask(
        &mut self,
        app: usize,
        op: OpCode,
        path: String,
        watch: Option<Kind>,
        body: Vec<u8>,
    ) {
        let completed = self.checks.reads.completed;
        let it = &mut self.apps[app];
        let id = RequestId(it.next_request);
        it.next_request += 1;
        let registration = watch.map(|kind| {
            it.next_watcher += 1;
            let kind = match kind {
                Kind::Data if op == OpCode::EXISTS => WatchKind::Exist,
                Kind::Data | Kind::Exist => WatchKind::Data,
                Kind::Child => WatchKind::Child,
                Kind::Persistent => WatchKind::Persistent,
                Kind::Recursive => WatchKind::Recursive,
            };
            Registration { watcher: WatcherId(it.next_watcher), kind, path: path.as_str().into() }
        });
        let effect = registration.clone().map_or(Effect::None, Effect::Watch);
        // The session assigns the xid.
        let writes = requests::writes(op, &body);
        let asked = Asked { xid: 0, op, path, data: None, writes, completed };
        // All parts of a request write the same data.
        let tag = requests::tag(it.number, id.0);
        let tag = if op.is_write() { tag.to_vec() } else { Vec::new() };
        it.pending.push_back(Pending { id, asked, watch: registration, made: self.now, tag });
        let frame = Frame::new(op, |out| out.raw(&body));
        self.app_step(app, Input::Submit(Submission { id, frame, effect, series: None }));
    }

    // ---- what it wants done

    fn app_output(&mut self, app: usize, output: Output) -> Result<(), String> {
        let place = self.app_place(app);
        match output {
            Output::Resolve => {
                let after = self.delay();
                self.after(after, Happening::AppResolved { app });
            }
            Output::Connect(attempt, to) => {
                self.app_hang_up(app);
                self.apps[app].dialling = Some(attempt);
                let after = self.delay();
                let to = server_at(to).expect("it dials servers");
                self.after(after, Happening::AppDialled { app, attempt: attempt.0, to });
            }
            Output::Disconnect(attempt) => {
                let it = &mut self.apps[app];
                it.dialling = it.dialling.filter(|other| *other != attempt);
                if it.conn.is_some_and(|(other, _)| other == attempt) {
                    self.app_hang_up(app);
                }
            }
            Output::Send(bytes) => {
                if let Some(conn) = self.apps[app].connection() {
                    self.send(conn, place, Message::Frames(bytes.into()));
                }
            }
            Output::Probe(server) => {
                let at = server_at(server).expect("it asks servers");
                let reached = self.net.ways.reaches(place, at) && !self.net.dark.contains(&at);
                let runs = self.servers[at].paused.is_none();
                let serves = reached && runs && self.servers[at].serves();
                let probe = if serves { Probe::ReadWrite } else { Probe::Other };
                self.app_step(app, Input::Probed(server, probe));
            }
            Output::Prove(..) => return Err("SASL, which no application here has".to_owned()),
            Output::State(state) => return self.app_state(app, state),
            Output::Done(id, result) => return self.app_done(app, id, result),
            Output::Event { watcher, kind, path, zxid, last } => {
                self.outcome.notified += 1;
                let it = &mut self.apps[app];
                let conn = it.connection();
                let reference = &self.checks.reference;
                let told = Told { watcher, kind, path: &path, zxid, last };
                return it.promises.told(reference, conn, &told);
            }
        }
        Ok(())
    }

    fn app_hang_up(&mut self, app: usize) {
        let place = self.app_place(app);
        if let Some((_, conn)) = self.apps[app].conn.take() {
            self.close(conn, place);
        }
    }

    fn app_state(&mut self, app: usize, state: State) -> Result<(), String> {
        let now = self.now;
        let it = &mut self.apps[app];
        match state {
            State::Connected => {
                let ticket = it.session.ticket().ok_or("connected without a session")?;
                if it.is_global && it.id != ticket.id {
                    return Err(format!("ANS: {} goes on as {}", it.id, ticket.id));
                }
                it.id = ticket.id;
                it.is_global = true;
                it.only_reads = false;
                self.checks.expiry.is_present(it.id, Some(now));
            }
            State::ConnectedReadOnly if it.options.read_only => {
                let ticket = it.session.ticket().ok_or("connected without a session")?;
                if it.is_global && it.id != ticket.id {
                    return Err(format!("ANS: {} goes on as {} to read", it.id, ticket.id));
                }
                it.id = ticket.id;
                it.only_reads = true;
                if !it.conn.is_none_or(|(_, conn)| self.checks.shows_committed(conn)) {
                    it.promises.doubt();
                    self.reached("read of what may not last");
                }
                self.reached("session on a server that only answers reads");
            }
            State::Connecting | State::Disconnected => {
                self.checks.expiry.is_present(it.id, None);
            }
            State::ConnectedReadOnly => {
                return Err("ANS: nobody wanted a read-only server".to_owned());
            }
            State::Over(ending) => {
                let id = it.id;
                self.checks.expiry.is_present(id, None);
                match ending {
                    Ending::Closed if it.ends => {}
                    Ending::Expired if self.checks.expiry.has_ended(id) => {}
                    // No other server knows a local session, so its end leaves no transaction.
                    Ending::Expired if self.plan.local_sessions => {}
                    _ => return Err(format!("SES-10: {id} is over, {ending:?}, and did not end")),
                }
                // The program begins another session after all outputs of this one.
                self.after(Duration::from_millis(1), Happening::AppAnew { app });
            }
        }
        Ok(())
    }

    fn app_done(
        &mut self,
        app: usize,
        id: RequestId,
        result: Result<Answer, Failure>,
    ) -> Result<(), String> {
        let payload = self.apps[app].payload.clone();
        let it = &mut self.apps[app];
        if it.closing == Some(id) {
            it.closing = None;
            return Ok(());
        }
        let at = it.pending.iter().position(|pending| pending.id == id);
        let at = at.ok_or_else(|| format!("ANS: {id:?} is answered, and nobody waits for it"))?;
        let pending = it.pending.remove(at).expect("it was found there");
        let Pending { mut asked, watch: registration, made, tag, .. } = pending;
        let limit = it.options.request_timeout;
        if let Err(failure) = result
            && is_unsent(failure)
        {
            self.checks.reference.never_sent(tag)?;
        }
        let it = &mut self.apps[app];
        let answer = match result {
            Ok(answer) => answer,
            Err(Failure::TimedOut { .. })
                if limit.is_some_and(|limit| made + limit <= self.now) =>
            {
                self.reached("request of a session given up in time");
                return Ok(());
            }
            Err(Failure::Lost | Failure::NoConnection | Failure::Over(_)) => {
                self.reached("request of a session without an answer");
                return Ok(());
            }
            Err(failure) => return Err(format!("ANS: {asked:?} fails: {failure:?}")),
        };
        if at > 0 {
            let before = &it.pending[0].asked;
            return Err(format!("ORD: {asked:?} is answered before {before:?}"));
        }
        self.outcome.answered += 1;
        let header = payload.first_chunk::<4>().map(|xid| i32::from_be_bytes(*xid));
        asked.xid = header.unwrap_or_default();
        if payload.get(16..) != Some(&answer.body[..]) {
            return Err(format!("ANS: {asked:?} is answered with another body than the server's"));
        }
        let Answer { zxid, err, .. } = answer;
        if it.only_reads || err == ErrorCode::NOT_READ_ONLY {
            let refused = err == ErrorCode::NOT_READ_ONLY;
            if refused != (it.only_reads && (asked.op.is_write() || asked.op == OpCode::SYNC)) {
                let on =
                    if it.only_reads { "a server that only answers reads" } else { "a leader's" };
                return Err(format!("B-22: {asked:?} is answered with {err:?} on {on}"));
            }
            if refused || !self.checks.order.is_committed(zxid) {
                let conn = it.connection();
                it.promises.answered(&self.checks.reference, conn, zxid)?;
                return self.app_watches(app, asked, registration, err, zxid);
            }
        }
        let checks = &mut self.checks;
        let (session, seen) = (it.id, it.promises.seen());
        let (told, reads) = checks.told();
        reads.answered(told, session, seen, &asked, &payload)?;
        let conn = it.connection();
        it.promises.answered(&checks.reference, conn, zxid)?;
        self.app_watches(app, asked, registration, err, zxid)
    }

    /// Registers the watch of a request that was answered.
    fn app_watches(
        &mut self,
        app: usize,
        asked: Asked,
        registration: Option<Registration>,
        err: ErrorCode,
        zxid: Zxid,
    ) -> Result<(), String> {
        let it = &mut self.apps[app];
        let conn = it.connection();
        if let Some(Registration { watcher, kind, .. }) = registration {
            let kind = match (kind, err) {
                (WatchKind::Exist, ErrorCode::NO_NODE) => Some(Kind::Exist),
                (WatchKind::Data | WatchKind::Exist, ErrorCode::OK) => Some(Kind::Data),
                (WatchKind::Child, ErrorCode::OK) => Some(Kind::Child),
                (WatchKind::Persistent, ErrorCode::OK) => Some(Kind::Persistent),
                (WatchKind::Recursive, ErrorCode::OK) => Some(Kind::Recursive),
                _ => None,
            };
            if let Some(kind) = kind {
                it.promises.hold(watcher, Held::new(asked.path, kind, zxid, conn));
            }
        }
        Ok(())
    }

    // ---- what comes back

    pub(crate) fn app_resolved(&mut self, app: usize) {
        if self.apps[app].silent {
            return self.after(Duration::from_millis(50), Happening::AppResolved { app });
        }
        // The resolver fails now and then.
        let servers = if !self.healing && self.random.one_in(20) { 0 } else { self.plan.servers() };
        let found = (0..servers).map(|server| address(server).into()).collect();
        self.app_step(app, Input::Resolved(found));
    }

    pub(crate) fn app_dialled(&mut self, app: usize, attempt: u64, to: usize) {
        let place = self.app_place(app);
        let attempt = Attempt(attempt);
        if self.apps[app].dialling != Some(attempt) {
            return;
        }
        if !self.net.ways.reaches(place, to) || self.net.dark.contains(&to) {
            // There is no answer, so the session's attempt times out.
            return;
        }
        self.apps[app].dialling = None;
        if self.servers[to].process.is_none() || self.servers[to].paused.is_some() {
            return self.app_step(app, Input::Disconnected(attempt));
        }
        let conn = self.accept(to, place);
        self.apps[app].conn = Some((attempt, conn));
        self.app_step(app, Input::Connected(attempt));
    }

    /// Begins another session for a program whose session has ended.
    pub(crate) fn app_anew(&mut self, app: usize) {
        self.app_hang_up(app);
        let it = &mut self.apps[app];
        if let Some(Pending { asked, .. }) = it.pending.front() {
            let what = format!("ANS: program {app}: {asked:?} was never answered");
            return self.checks.found(what);
        }
        it.options.seed = it.random.next();
        it.session = Session::new(it.options.clone());
        it.id = SessionId::NONE;
        it.is_global = false;
        it.only_reads = false;
        it.closing = None;
        it.ends = false;
        it.dialling = None;
        it.promises = Promises::default();
        self.app_step(app, Input::Tick);
    }

    pub(crate) fn app_loses(&mut self, app: usize, id: u64) {
        let it = &mut self.apps[app];
        let Some((attempt, _)) = it.conn.filter(|(_, conn)| *conn == id) else { return };
        if it.silent {
            it.unread.push((id, None));
            return;
        }
        it.conn = None;
        self.app_step(app, Input::Disconnected(attempt));
    }

    pub(crate) fn app_receives(&mut self, app: usize, id: u64, message: Message) {
        let Message::Frames(mut rest) = message else { return };
        if self.apps[app].silent {
            return self.apps[app].unread.push((id, Some(rest)));
        }
        while let Some(length) = rest.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes)) {
            let it = &mut self.apps[app];
            let Some((attempt, _)) = it.conn.filter(|(_, conn)| *conn == id) else { return };
            let payload = rest.split_to(4 + length as usize).slice(4..);
            it.payload = payload.clone();
            self.app_step(app, Input::Frame(attempt, payload));
            if !self.checks.broken.is_empty() {
                return;
            }
        }
    }

    pub(crate) fn app_speaks(&mut self, app: usize) {
        if !std::mem::replace(&mut self.apps[app].silent, false) {
            return;
        }
        self.apps[app].stood = self.now;
        // After a pause, a program handles its timers before its received bytes, or after them.
        if self.random.one_in(2) {
            self.app_step(app, Input::Tick);
        }
        for (id, frames) in std::mem::take(&mut self.apps[app].unread) {
            match frames {
                Some(frames) => self.app_receives(app, id, Message::Frames(frames)),
                None => self.app_loses(app, id),
            }
        }
        self.arm_app(app);
    }
}
