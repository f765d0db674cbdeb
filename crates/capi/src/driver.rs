//! Drives the pure session of one handle over one non-blocking socket.
//!
//! It knows no thread. Its owner calls [`Driver::interest`] to learn what to wait for, and
//! [`Driver::process`] to report what happened. The owner is the program in the single-threaded
//! library, and a thread of this library in the multi-threaded one.

use std::collections::{HashSet, VecDeque};
use std::ffi::{CString, c_int, c_void};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zebu_proto::connect_string::HostPort;
use zebu_proto::{ErrorCode, EventType};
use zebu_session::{
    Answer, Attempt, Challenge, Chroot, Effect, Ending, Failure, Frame, Input, Options, Output,
    Proof, Registration, RequestId, Session, State, Submission, WatchKind, WatcherId,
};

use crate::callback::{Callback, Waiter};
use crate::constants::{event, state};
use crate::errors;
use crate::hosts::Hosts;
use crate::log::{Line, say};
use crate::probe::{LOOK, Question};
use crate::sasl::{Exchange, Outcome};
use crate::tls::Tls;
use crate::watchers::{Watcher, WatcherFn, Watchers, Watching};
use crate::wire::{Progress, Wire};

/// Maximum number of reads before other work gets a turn.
const READS_MAX: usize = 16;

/// The events that the owner must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    /// The socket, if there is one.
    pub(crate) fd: Option<RawFd>,
    /// Whether to wait until the socket is writable, too. The owner always waits until it is
    /// readable.
    pub(crate) is_writing: bool,
    /// Maximum time to wait.
    pub(crate) wait: Duration,
}

/// How a successful request changes the watchers.
#[derive(Debug, Default)]
pub(crate) enum Watch {
    #[default]
    None,
    /// Adds a watcher.
    Leave(Watching),
    /// Removes one watcher from these kinds, at the server's path.
    Forget(Arc<str>, &'static [WatchKind], Watcher),
    /// Removes all watchers of these kinds, at the server's path.
    ForgetAll(Arc<str>, &'static [WatchKind], zebu_proto::WatcherType),
}

/// An unanswered request.
#[derive(Debug)]
struct Pending {
    waiter: Waiter,
    watch: Option<(WatcherId, Watch)>,
}

#[derive(Debug)]
pub(crate) struct Driver {
    session: Session,
    start: Instant,
    outputs: Vec<Output>,
    pub(crate) hosts: Hosts,
    wants_names: bool,
    wire: Option<Wire>,
    tls: Option<Tls>,
    /// The SASL exchange; absent while the owner carries out a step.
    exchange: Option<Exchange>,
    challenge: Option<(Attempt, Challenge)>,
    question: Option<Question>,
    /// Requests by number; the number of the front one is `first`.
    pending: VecDeque<Option<Pending>>,
    first: u64,
    watcher_ids: u64,
    watchers: Watchers,
    /// Watchers already called for the current notification.
    told: HashSet<(usize, usize)>,
    /// The position in `ready` for the next child watcher of a deletion: child watchers come before
    /// data watchers.
    children_at: usize,
    pub(crate) chroot: Chroot,
    /// The watcher of the handle, and its context.
    pub(crate) function: Option<WatcherFn>,
    pub(crate) context: *mut c_void,
    state: c_int,
    ending: Option<Ending>,
    /// Calls of the program's functions, in order.
    ready: Vec<Callback>,
    lines: Vec<Line>,
    /// Deadline for the server's answer to the close.
    closing: Option<Duration>,
    is_closed: bool,
    /// The code of a connection that was lost since [`Driver::take_lost`].
    lost: Option<c_int>,
}

// SAFETY: this library never reads behind the context. The C client's contract lets it use the
// context on another thread.
unsafe impl Send for Driver {}

impl Driver {
    pub(crate) fn new(
        options: Options,
        hosts: Hosts,
        chroot: Chroot,
        function: Option<WatcherFn>,
        context: *mut c_void,
    ) -> Self {
        Self {
            session: Session::new(options),
            start: Instant::now(),
            outputs: Vec::new(),
            hosts,
            wants_names: false,
            wire: None,
            tls: None,
            exchange: None,
            challenge: None,
            question: None,
            pending: VecDeque::new(),
            first: 1,
            watcher_ids: 0,
            watchers: Watchers::default(),
            told: HashSet::new(),
            children_at: 0,
            chroot,
            function,
            context,
            state: state::NOT_CONNECTED,
            ending: None,
            ready: Vec::new(),
            lines: Vec::new(),
            closing: None,
            is_closed: false,
            lost: None,
        }
    }

    /// Connects over TLS.
    pub(crate) fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// Authenticates with SASL, as the options of the session say.
    pub(crate) fn with_sasl(mut self, exchange: Option<Exchange>) -> Self {
        self.exchange = exchange;
        self
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    // Queries.

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The state as `zoo_state` returns it.
    pub(crate) fn state(&self) -> c_int {
        self.state
    }

    /// Whether the session has ended.
    pub(crate) fn is_unrecoverable(&self) -> bool {
        self.state < 0
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    pub(crate) fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// The code of a connection that was lost since the last call.
    pub(crate) fn take_lost(&mut self) -> Option<c_int> {
        self.lost.take()
    }

    /// The watcher of the handle itself, if it has one.
    pub(crate) fn default_watcher(&self) -> Option<Watcher> {
        self.function.map(|call| Watcher { call, context: self.context })
    }

    pub(crate) fn has_watcher(
        &self,
        path: &str,
        kinds: &[WatchKind],
        watcher: Option<Watcher>,
    ) -> bool {
        !self.watchers.at(path, kinds, watcher).is_empty()
    }

    /// Number of unanswered requests.
    pub(crate) fn unanswered(&self) -> usize {
        self.pending.len()
    }

    /// Takes the pending calls of the program's functions, and log lines. The caller must release
    /// all locks before it passes them on.
    pub(crate) fn take_told(&mut self) -> (Vec<Callback>, Vec<Line>) {
        (std::mem::take(&mut self.ready), std::mem::take(&mut self.lines))
    }

    /// Whether calls or log lines are pending.
    pub(crate) fn has_told(&self) -> bool {
        !self.ready.is_empty() || !self.lines.is_empty()
    }

    // Requests of the program.

    pub(crate) fn submit(&mut self, frame: Frame, watch: Watch, waiter: Waiter) {
        let id = RequestId(self.first + self.pending.len() as u64);
        let (op, bytes) = (frame.op(), frame.length());
        say!(self.lines, Debug, "submit", "request {}: {op} of {bytes} bytes", id.0);
        let (effect, watch) = match watch {
            Watch::None => (Effect::None, None),
            Watch::Leave(watching) => {
                self.watcher_ids += 1;
                let watcher = WatcherId(self.watcher_ids);
                let (kind, path) = (watching.kind, watching.path.clone());
                let effect = Effect::Watch(Registration { watcher, kind, path });
                (effect, Some((watcher, Watch::Leave(watching))))
            }
            Watch::ForgetAll(path, kinds, kind) => {
                let effect = Effect::Unwatch { path: path.clone(), kind };
                (effect, Some((WatcherId(0), Watch::ForgetAll(path, kinds, kind))))
            }
            forget @ Watch::Forget(..) => (Effect::None, Some((WatcherId(0), forget))),
        };
        self.pending.push_back(Some(Pending { waiter, watch }));
        self.step(Input::Submit(Submission { id, frame, effect, series: None }));
    }

    pub(crate) fn authenticate(&mut self, scheme: String, auth: Vec<u8>, waiter: Waiter) {
        let id = RequestId(self.first + self.pending.len() as u64);
        self.pending.push_back(Some(Pending { waiter, watch: None }));
        self.step(Input::Authenticate { id, scheme, auth });
    }

    /// Removes watchers without waiting for a server. If no other watcher needs a watch, the server
    /// is told when it is connected.
    pub(crate) fn forget(&mut self, path: &str, kinds: &[WatchKind], watcher: Option<Watcher>) {
        for id in self.watchers.at(path, kinds, watcher) {
            self.watchers.remove(id);
            self.step(Input::Unwatch(id));
        }
        self.flush();
    }

    /// Ends the session: at once if no server knows it, otherwise when the server answers, at the
    /// latest after `patience`.
    pub(crate) fn close(&mut self, patience: Duration) {
        if self.session.server().is_none() {
            self.abandon();
            return;
        }
        self.closing = Some(self.now() + patience);
        let id = RequestId(self.first + self.pending.len() as u64);
        self.pending.push_back(Some(Pending { waiter: Waiter::Nobody, watch: None }));
        self.step(Input::Close(id));
        self.flush();
    }

    /// Ends the session here, without telling the server.
    pub(crate) fn abandon(&mut self) {
        self.wire = None;
        self.question = None;
        self.ending.get_or_insert(Ending::Closed);
        self.is_closed = true;
        self.closing = None;
        for pending in std::mem::take(&mut self.pending).into_iter().flatten() {
            pending.waiter.answer(errors::CLOSING, Bytes::new(), &mut self.ready);
        }
    }

    /// Whether the driver has finished.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Leaves the current server for another one.
    pub(crate) fn leave(&mut self) {
        self.hang_up("the list of servers has changed");
    }

    // Events.

    fn step(&mut self, input: Input) {
        let now = self.now();
        self.session.step(now, input, &mut self.outputs);
        self.carry_out();
    }

    fn tick(&mut self) {
        while self.session.deadline().is_some_and(|deadline| deadline <= self.now()) {
            self.step(Input::Tick);
        }
        if self.closing.is_some_and(|until| until <= self.now()) {
            self.abandon();
        }
        let now = self.now();
        if let Some(question) = &mut self.question
            && let Some(probe) = question.look(now)
        {
            let server = question.server;
            self.question = None;
            self.step(Input::Probed(server, probe));
        }
    }

    /// The events to wait for now.
    pub(crate) fn interest(&mut self) -> Interest {
        self.tick();
        let now = self.now();
        if self.wants_names && !self.hosts.is_stale(now) {
            self.wants_names = false;
            self.step(Input::Resolved(self.hosts.candidates()));
        }
        self.flush();
        let now = self.now();
        let wait = |until: Option<Duration>| until.map(|until| until.saturating_sub(now));
        let looking = self.question.as_ref().map(|_| LOOK);
        let waits = [wait(self.session.deadline()), wait(self.closing), looking];
        let wait = waits.into_iter().flatten().min().unwrap_or(Duration::from_secs(60));
        let wire = self.wire.as_ref();
        Interest {
            fd: wire.map(Wire::fd),
            is_writing: wire.is_some_and(Wire::waits_to_write),
            wait: if self.wants_names || self.challenge.is_some() { Duration::ZERO } else { wait },
        }
    }

    /// The time of the next timer, independent of the socket.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.session.deadline()
    }

    /// Whether the established connection has unsent bytes.
    pub(crate) fn has_output(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.is_connected() && wire.has_output())
    }

    /// Handles a readable or writable socket.
    pub(crate) fn process(&mut self, can_read: bool, can_write: bool) {
        if let Some(wire) = &mut self.wire
            && !wire.is_connected()
            && (can_read || can_write)
        {
            let is_shaking = self.state == state::SSL_CONNECTING;
            let (attempt, server) = (wire.attempt, wire.server);
            match wire.go_on() {
                Ok(Progress::Connected) => {
                    self.state = state::ASSOCIATING;
                    self.step(Input::Connected(attempt));
                }
                Ok(Progress::ShakingHands) => self.state = state::SSL_CONNECTING,
                Ok(Progress::Dialing) => {}
                Err(error) => {
                    self.hang_up(&format!("cannot connect to {server}: {error}"));
                    if self.state == state::NOT_CONNECTED && is_shaking {
                        self.lost = Some(errors::SSL_CONNECTION_ERROR);
                    }
                }
            }
        } else if can_read {
            self.read();
        }
        self.tick();
        self.flush();
    }

    fn read(&mut self) {
        for _ in 0..READS_MAX {
            let Some(wire) = &mut self.wire else { return };
            match wire.read() {
                Ok(true) => self.take_frames(),
                Ok(false) => return,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.hang_up("the server has closed the connection");
                }
                Err(error) => {
                    let fault = wire.fault(&error);
                    self.hang_up(&fault);
                }
            }
        }
    }

    fn take_frames(&mut self) {
        while let Some(wire) = &mut self.wire {
            match wire.frame() {
                Ok(Some(frame)) => {
                    let attempt = wire.attempt;
                    self.step(Input::Frame(attempt, frame));
                }
                Ok(None) => return,
                Err(length) => self.hang_up(&format!("the server sends a frame of {length} bytes")),
            }
        }
    }

    /// Sends as much as the socket accepts.
    pub(crate) fn flush(&mut self) {
        if let Some(wire) = &mut self.wire
            && let Err(error) = wire.flush()
        {
            let fault = wire.fault(&error);
            self.hang_up(&fault);
        }
    }

    /// Handles a lost connection.
    fn hang_up(&mut self, fault: &str) {
        let Some(wire) = self.wire.take() else { return };
        say!(self.lines, Warn, "hang_up", "connection to {}: {fault}", wire.server);
        self.disconnected();
        self.step(Input::Disconnected(wire.attempt));
    }

    fn disconnected(&mut self) {
        self.lost.get_or_insert(errors::CONNECTION_LOSS);
        if self.state >= 0 {
            self.state = state::NOT_CONNECTED;
        }
    }

    /// The host names to resolve, if any. The caller reports their addresses with
    /// [`Driver::named`].
    pub(crate) fn take_names(&mut self) -> Option<Vec<HostPort>> {
        std::mem::take(&mut self.wants_names).then(|| self.hosts.names().to_vec())
    }

    /// Takes the addresses of the names from [`Driver::take_names`].
    pub(crate) fn named(&mut self, found: Vec<SocketAddr>) {
        if found.is_empty() {
            say!(self.lines, Warn, "named", "no name of a server can be resolved");
        }
        let now = self.now();
        self.hosts.resolved(now, found);
        self.step(Input::Resolved(self.hosts.candidates()));
    }

    /// The next step of the SASL exchange, if there is one. The caller carries it out without the
    /// lock, because it calls functions of the program or asks a ticket server, and reports it with
    /// [`Driver::proved`].
    pub(crate) fn take_challenge(&mut self) -> Option<(Attempt, Challenge, Exchange)> {
        let exchange = self.exchange.take_if(|_| self.challenge.is_some())?;
        let (attempt, challenge) = self.challenge.take()?;
        Some((attempt, challenge, exchange))
    }

    /// Takes the result of a step of the SASL exchange.
    pub(crate) fn proved(&mut self, attempt: Attempt, exchange: Exchange, outcome: Outcome) {
        if self.is_closed {
            return;
        }
        let proof = match outcome {
            Ok(proof) => {
                self.exchange = Some(exchange);
                proof
            }
            // The session ends, so the exchange is not needed any more.
            Err(fault) => {
                say!(self.lines, Error, "proved", "SASL authentication failed: {fault}");
                Proof::Failed
            }
        };
        self.step(Input::Proof(attempt, proof));
        self.flush();
    }

    // Effects.

    fn carry_out(&mut self) {
        self.told.clear();
        self.children_at = self.ready.len();
        // An effect may cause further effects.
        while !self.outputs.is_empty() {
            for output in std::mem::take(&mut self.outputs) {
                self.carry_out_one(output);
            }
        }
    }

    fn carry_out_one(&mut self, output: Output) {
        match output {
            Output::Send(bytes) => {
                if let Some(wire) = &mut self.wire {
                    wire.push(bytes);
                }
            }
            Output::Done(id, result) => self.done(id, result),
            Output::Event { watcher, kind, path, last, .. } => {
                self.event(watcher, kind, &path, last)
            }
            Output::State(state) => self.enter(state),
            Output::Resolve => self.wants_names = true,
            Output::Connect(attempt, server) => {
                self.hosts.tried(server);
                self.state = state::CONNECTING;
                say!(self.lines, Info, "connect", "connecting to {server}");
                match Wire::connect(attempt, server, self.tls.as_ref()) {
                    Ok(wire) => self.wire = Some(wire),
                    Err(error) => {
                        say!(self.lines, Warn, "connect", "cannot connect to {server}: {error}");
                        self.wire = None;
                        self.disconnected();
                        let now = self.now();
                        self.session.step(now, Input::Disconnected(attempt), &mut self.outputs);
                    }
                }
            }
            Output::Disconnect(_) => {
                if let Some(wire) = self.wire.take() {
                    say!(self.lines, Info, "disconnect", "connection to {} closed", wire.server);
                    self.disconnected();
                }
            }
            Output::Probe(server) => {
                let question = Question::new(self.now(), server, self.tls.as_ref());
                self.question = Some(question);
            }
            // A later attempt supersedes an earlier one.
            Output::Prove(attempt, challenge) => self.challenge = Some((attempt, challenge)),
        }
    }

    fn enter(&mut self, entered: State) {
        let told = match entered {
            State::Connecting => return,
            State::Connected | State::ConnectedReadOnly => {
                let is_read_only = entered == State::ConnectedReadOnly;
                self.state = if is_read_only { state::READONLY } else { state::CONNECTED };
                let (id, timeout) = (self.session.ticket(), self.session.timeout());
                say!(
                    self.lines,
                    Info,
                    "enter",
                    "session {} established, timeout {timeout:?}",
                    id.map_or_else(String::new, |ticket| ticket.id.to_string())
                );
                self.state
            }
            State::Disconnected => {
                self.disconnected();
                state::CONNECTING
            }
            State::Over(ending) => {
                self.ending = Some(ending);
                if ending == Ending::AuthFailed && self.exchange.is_some() {
                    let fault = "the server refuses the user or the password";
                    say!(self.lines, Error, "enter", "SASL authentication failed: {fault}");
                }
                self.state = match ending {
                    Ending::Expired => state::EXPIRED,
                    Ending::AuthFailed => state::AUTH_FAILED,
                    Ending::Closed | Ending::GivenUp | Ending::OtherEnsemble { .. } => {
                        self.is_closed = true;
                        state::NOT_CONNECTED
                    }
                };
                say!(self.lines, Info, "enter", "session is over: {ending:?}");
                if self.is_closed {
                    return;
                }
                self.state
            }
        };
        self.tell_everybody(told);
        if self.ending.is_some() {
            self.watchers.clear();
        }
    }

    /// A session event reaches the watcher of the handle and all others, each once (WAT-13).
    fn tell_everybody(&mut self, told: c_int) {
        let first = self.default_watcher();
        let others = self.watchers.everybody().into_iter();
        let others = others.filter(|other| first.is_none_or(|first| first.key() != other.key()));
        let event = |watcher| Callback::Event {
            watcher,
            kind: event::SESSION,
            state: told,
            path: CString::default(),
        };
        self.ready.extend(first.into_iter().chain(others).map(event));
    }

    fn event(&mut self, id: WatcherId, kind: EventType, path: &[u8], is_last: bool) {
        let Some(Watching { watcher, kind: watched, .. }) = self.watchers.get(id).cloned() else {
            return;
        };
        if is_last {
            self.watchers.remove(id);
        }
        // Programs only know the event types of servers. C has no event for a watch that the
        // program removed.
        let is_known = (1..=4).contains(&kind.0);
        if !is_known || !self.told.insert(watcher.key()) {
            return;
        }
        let path = String::from_utf8_lossy(path);
        let path = CString::new(self.chroot.relative(&path)).unwrap_or_default();
        let callback = Callback::Event { watcher, kind: kind.0, state: self.state, path };
        if kind == EventType::NODE_DELETED && watched == WatchKind::Child {
            self.ready.insert(self.children_at, callback);
            self.children_at += 1;
        } else {
            self.ready.push(callback);
        }
    }

    fn done(&mut self, id: RequestId, result: Result<Answer, Failure>) {
        let place = id.0.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let pending = place.and_then(|place| self.pending.get_mut(place)).and_then(Option::take);
        while let Some(None) = self.pending.front() {
            self.pending.pop_front();
            self.first += 1;
        }
        let Some(Pending { waiter, watch }) = pending else { return };
        let (code, body) = match result {
            Ok(Answer { err, body, .. }) => {
                self.settle(watch, err);
                (err.0, body)
            }
            Err(failure) => (errors::code(failure, self.ending), Bytes::new()),
        };
        waiter.answer(code, body, &mut self.ready);
    }

    /// Changes the watchers after a request was answered.
    fn settle(&mut self, watch: Option<(WatcherId, Watch)>, err: ErrorCode) {
        match watch {
            Some((id, Watch::Leave(mut watching))) => {
                // The same rules as in the session.
                match (watching.kind, err) {
                    (WatchKind::Exist, ErrorCode::OK) => watching.kind = WatchKind::Data,
                    (WatchKind::Exist, ErrorCode::NO_NODE) | (_, ErrorCode::OK) => {}
                    _ => return,
                }
                if !self.watchers.add(id, watching) {
                    let now = self.now();
                    self.session.step(now, Input::Unwatch(id), &mut self.outputs);
                }
            }
            Some((_, Watch::Forget(path, kinds, watcher))) if err == ErrorCode::OK => {
                for id in self.watchers.at(&path, kinds, Some(watcher)) {
                    self.watchers.remove(id);
                    let now = self.now();
                    self.session.step(now, Input::Unwatch(id), &mut self.outputs);
                }
            }
            Some((_, Watch::ForgetAll(path, kinds, _))) if err == ErrorCode::OK => {
                for id in self.watchers.at(&path, kinds, None) {
                    self.watchers.remove(id);
                }
            }
            _ => {}
        }
    }
}
