//! The session: `step` takes an event and returns effects.
//!
//! A request is sent at once if there is a connection; otherwise it waits for one, for a limited
//! time. Requests in flight on a lost connection are reported as [`Failure::Lost`] and never sent
//! again. Source of the behaviour: `ClientCnxn`, and the requirements of sessions, watches and
//! order.

mod credentials;
mod proving;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use zebu_jute::{Decode, Encode};
use zebu_proto::reply::{ConnectResponse, PASSWORD_BYTES, ReplyHeader, WatcherEvent};
use zebu_proto::request::ConnectRequest;
use zebu_proto::{EnsembleId, ErrorCode, EventType, OpCode, SessionId, WatcherType, Xid, Zxid};

use crate::event::{
    Answer, Attempt, Effect, Ending, Failure, Input, Options, Output, Probe, RequestId, State,
    Submission, Ticket,
};
use crate::faults;
use crate::link::{Awaited, Link};
use crate::random::Random;
use crate::servers::Servers;
use crate::watches::Watches;
use crate::{Candidate, Frame, Registration, Series, WatchKind, WatcherId};
use credentials::{Credential, auth_frame};

const REPLY_HEADER_BYTES: usize = 16;

/// Minimum time for a server to accept a connection and the session.
const CONNECT_TIME_MIN: Duration = Duration::from_millis(250);

/// Maximum random delay before reconnecting, so that the clients of a failed server do not all
/// reach the next one at the same moment.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

/// Pause after the first unsuccessful round; doubles up to [`ROUND_PAUSE_MAX`].
const ROUND_PAUSE_MIN: Duration = Duration::from_millis(50);
const ROUND_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pause between probes for a read-write server; doubles up to [`PROBE_PAUSE_MAX`].
const PROBE_PAUSE_MIN: Duration = Duration::from_millis(100);
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
enum Phase {
    /// A new round starts at this time.
    Waiting(Duration),
    /// Waits for name resolution until this time.
    Resolving(Duration),
    /// Waits for a connection and its session until this time.
    Connecting {
        attempt: Attempt,
        server: SocketAddr,
        until: Duration,
        stage: Stage,
    },
    Connected(Box<Link>),
    Over(Ending),
}

/// The stage of an attempt to connect.
#[derive(Debug)]
enum Stage {
    /// Waits for the connection.
    Dialing,
    /// Waits for the answer to the connect request, which was sent at this time.
    Greeting(Duration),
    /// The session is established and SASL is in progress: nothing else is sent before its end. The
    /// next token is due from the caller if `is_asked`, otherwise from the server.
    Proving { link: Box<Link>, is_asked: bool },
}

#[derive(Debug)]
struct Waiting {
    submission: Submission,
    made: Duration,
    until: Duration,
}

#[derive(Debug)]
struct Probing {
    next: SocketAddr,
    at: Duration,
    pause: Duration,
    is_asked: bool,
}

/// The client side of one session.
///
/// Created idle: the first [`Input::Tick`] starts it.
#[derive(Debug)]
pub struct Session {
    options: Options,
    phase: Phase,
    state: State,
    random: Random,
    servers: Servers,
    /// The result of a name resolution that came too late for its round. The next round uses it
    /// unless a newer one arrives.
    late: Vec<Candidate>,
    attempts: u64,
    round_pause: Duration,
    /// Since when there is no connection; `None` before the start, and while there is one.
    alone_since: Option<Duration>,
    /// Zero id: there is none yet.
    ticket: Ticket,
    /// The ensemble that the servers belong to, if one has told it.
    ensemble: Option<EnsembleId>,
    /// Whether the next server is asked for its ensemble, although none has told one yet. A server
    /// that accepts no longer connect request than the original's closes the connection; then the
    /// others of this round are not asked, and the next round begins without asking. This changes
    /// at most once in a round, so within two rounds each server gets both requests, whatever the
    /// others do.
    asks_ensemble: bool,
    /// Whether a server has closed a connection in this round, before it answered the connect
    /// request.
    is_closed_on: bool,
    /// The negotiated timeout, or the requested one before that.
    timeout: Duration,
    /// Whether servers with a quorum know the session; they do not know one created by a read-only
    /// server.
    is_global: bool,
    /// The last xid on earlier connections. Numbering continues because servers identify a request
    /// by session and xid, and an earlier request may still be in flight through the old server.
    xid: Xid,
    /// The newest zxid of any answer or event. The client does not connect to servers behind it.
    seen: Zxid,
    /// The newest zxid of an answer: events of older changes have all arrived. Invariant: `settled
    /// <= seen`.
    settled: Zxid,
    /// When the last request answered on an earlier connection was sent.
    proven: Option<Duration>,
    watches: Watches,
    credentials: Vec<Credential>,
    /// Requests that wait for a connection, oldest first. Empty while there is one, unless the
    /// session is about to move.
    waiting: VecDeque<Waiting>,
    probing: Option<Probing>,
    /// The request that waits for the end of the session, and until when.
    closing: Option<(RequestId, Duration)>,
    told: Vec<(WatcherId, bool)>,
}

impl Session {
    /// A session that has not started.
    pub fn new(options: Options) -> Self {
        let nobody = Ticket { id: SessionId::NONE, password: [0; PASSWORD_BYTES] };
        Self {
            phase: Phase::Waiting(Duration::ZERO),
            state: State::Connecting,
            random: Random::new(options.seed),
            servers: Servers::default(),
            late: Vec::new(),
            attempts: 0,
            round_pause: ROUND_PAUSE_MIN,
            alone_since: None,
            ticket: options.resume.unwrap_or(nobody),
            timeout: options.timeout,
            ensemble: options.ensemble,
            asks_ensemble: options.asks_ensemble,
            is_closed_on: false,
            is_global: options.resume.is_some(),
            xid: Xid(0),
            seen: Zxid::ZERO,
            settled: Zxid::ZERO,
            proven: None,
            watches: Watches::default(),
            credentials: Vec::new(),
            waiting: VecDeque::new(),
            probing: None,
            closing: None,
            told: Vec::new(),
            options,
        }
    }

    /// Takes one event and appends its effects to `out`, in the order they must be carried out.
    ///
    /// `now`: time since some moment before the session started; never goes back. When
    /// [`Session::deadline`] has passed, an [`Input::Tick`] is due.
    pub fn step(&mut self, now: Duration, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Tick => self.tick(now, out),
            Input::Resolved(found) => self.resolved(now, found, out),
            Input::Connected(attempt) => self.connected(now, attempt, out),
            Input::Disconnected(attempt) => self.disconnected(now, attempt, out),
            Input::Frame(attempt, frame) => self.frame(now, attempt, frame, out),
            Input::Proof(attempt, proof) => self.proof(now, attempt, proof, out),
            Input::Submit(submission) => self.submit(now, submission, out),
            Input::Withdraw(id) => self.withdraw(id, out),
            Input::Authenticate { id, scheme, auth } => {
                self.authenticate(now, id, scheme, auth, out);
            }
            Input::Unwatch(watcher) => self.unwatch(now, watcher, out),
            Input::Probed(server, probe) => self.probed(now, server, probe, out),
            Input::Close(id) => self.close(now, id, out),
        }
        self.check();
    }

    /// When the next [`Input::Tick`] is due; `None` when the session is over.
    pub fn deadline(&self) -> Option<Duration> {
        let phase = match &self.phase {
            Phase::Over(_) => return None,
            Phase::Waiting(at) | Phase::Resolving(at) => *at,
            Phase::Connecting { until, .. } => *until,
            Phase::Connected(link) => {
                let quiet =
                    (link.heard + self.read_timeout()).min(link.spoke + self.ping_interval());
                let quiet = self.overdue_at(link).map_or(quiet, |at| quiet.min(at));
                match &self.probing {
                    Some(probing) if !probing.is_asked => quiet.min(probing.at),
                    _ => quiet,
                }
            }
        };
        let waiting = self.waiting.front().map(|waiting| waiting.until);
        let closing = self.closing.map(|(_, until)| until);
        let times = [waiting, closing, self.given_up_at(), self.asking_until()];
        Some(times.into_iter().flatten().fold(phase, Duration::min))
    }

    /// When the session is given up if no server is found.
    fn given_up_at(&self) -> Option<Duration> {
        Some(self.alone_since? + self.options.give_up?)
    }

    /// When the oldest unanswered request times out.
    fn overdue_at(&self, link: &Link) -> Option<Duration> {
        let timeout = self.options.request_timeout;
        let timeout = timeout.filter(|_| !faults::request_timeout_ignored())?;
        let asked = self.asked().map(|asked| asked.made);
        Some(link.oldest().into_iter().chain(asked).min()? + timeout)
    }

    /// The state of the session.
    pub fn state(&self) -> State {
        self.state
    }

    /// The ticket with which another client can continue this session; `None` before it is
    /// established.
    pub fn ticket(&self) -> Option<Ticket> {
        (self.ticket.id != SessionId::NONE).then_some(self.ticket)
    }

    /// The ensemble that the session belongs to, once a server has told it, or as it was asked for.
    pub fn ensemble(&self) -> Option<EnsembleId> {
        self.ensemble
    }

    /// The session timeout: the negotiated one, or the requested one before that.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The newest transaction that this client has seen.
    pub fn last_zxid(&self) -> Zxid {
        self.seen
    }

    /// The server of the current connection.
    pub fn server(&self) -> Option<SocketAddr> {
        match &self.phase {
            Phase::Connected(link) => Some(link.server),
            _ => None,
        }
    }

    /// When the newest answered request was sent. As far as the client can tell, servers keep the
    /// session for its timeout from then on. `None` before it is established.
    pub fn proven(&self) -> Option<Duration> {
        let link = match &self.phase {
            Phase::Connected(link) => Some(link.proven()),
            _ => None,
        };
        self.proven.max(link)
    }

    /// The number of watches.
    pub fn watches(&self) -> usize {
        self.watches.len()
    }

    /// Silence after which another server is sought: a third of the timeout is left to find one.
    fn read_timeout(&self) -> Duration {
        self.timeout * 2 / 3
    }

    fn ping_interval(&self) -> Duration {
        self.timeout / 3
    }

    // Finding a server.

    fn tick(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.is_global && self.ticket.id == SessionId::NONE {
            // A resumed session without an id. A server would take it for a request for a new
            // session.
            self.end(Ending::Expired, out);
        }
        self.give_up_waiting(now, out);
        if !matches!(self.phase, Phase::Connected(_) | Phase::Over(_)) {
            self.alone_since.get_or_insert(now);
            if self.given_up_at().is_some_and(|at| at <= now) {
                self.end_untold(Ending::GivenUp, out);
                return;
            }
        }
        match &mut self.phase {
            Phase::Waiting(at) if *at <= now => {
                // Half the time in which a server must be found, so that a slow resolver is asked
                // twice.
                self.phase = Phase::Resolving(now + self.timeout / 6);
                out.push(Output::Resolve);
            }
            // Use the servers known so far.
            Phase::Resolving(until) if *until <= now => self.resolved(now, Vec::new(), out),
            Phase::Connecting { until, attempt, .. } if *until <= now => {
                out.push(Output::Disconnect(*attempt));
                self.next_server(now, out);
            }
            Phase::Connected(_) => self.tick_connected(now, out),
            _ => {}
        }
    }

    fn tick_connected(&mut self, now: Duration, out: &mut Vec<Output>) {
        let (read_timeout, ping_interval) = (self.read_timeout(), self.ping_interval());
        let Phase::Connected(link) = &self.phase else { return };
        // Answers come in order: after an overdue one, none comes in time.
        let is_overdue = self.overdue_at(link).is_some_and(|at| at <= now);
        if is_overdue || now >= link.heard + read_timeout {
            self.lose(now, true, out);
            return;
        }
        let Phase::Connected(link) = &mut self.phase else { return };
        if now >= link.spoke + ping_interval {
            link.ping(now, buffer(out));
        }
        if let Some(probing) = &mut self.probing
            && !probing.is_asked
            && probing.at <= now
        {
            probing.is_asked = true;
            out.push(Output::Probe(probing.next));
        }
    }

    /// Fails requests, and a close, that waited too long for a connection.
    fn give_up_waiting(&mut self, now: Duration, out: &mut Vec<Output>) {
        let mut is_broken = false;
        while self.waiting.front().is_some_and(|waiting| waiting.until <= now) {
            if let Some(Waiting { submission, made, .. }) = self.waiting.pop_front() {
                is_broken |= submission.series.is_some();
                let failure = match self.options.request_timeout {
                    Some(timeout) if made + timeout <= now => Failure::TimedOut { is_sent: false },
                    _ => Failure::NoConnection,
                };
                not_sent(&submission, failure, out);
            }
        }
        if is_broken {
            self.refuse_broken(out);
        }
        self.give_up_asking(now, out);
        if let Some((_, until)) = self.closing
            && until <= now
        {
            self.end_untold(Ending::Closed, out);
        }
    }

    /// Ends the session without telling a server.
    fn end_untold(&mut self, ending: Ending, out: &mut Vec<Output>) {
        let closing = self.closing.take();
        self.end(ending, out);
        if let Some((id, _)) = closing {
            out.push(Output::Done(id, Err(Failure::Lost)));
        }
    }

    /// Fails waiting requests whose series is broken.
    fn refuse_broken(&mut self, out: &mut Vec<Output>) {
        self.waiting.retain(|Waiting { submission, .. }| {
            let is_broken = submission.series.as_ref().is_some_and(Series::is_broken);
            if is_broken {
                out.push(Output::Done(submission.id, Err(Failure::Broken)));
            }
            !is_broken
        });
    }

    fn resolved(&mut self, now: Duration, found: Vec<Candidate>, out: &mut Vec<Output>) {
        if !matches!(self.phase, Phase::Resolving(_)) {
            if !found.is_empty() {
                self.late = found;
            }
            return;
        }
        let late = std::mem::take(&mut self.late);
        let found = if found.is_empty() { late } else { found };
        self.servers.begin_round(found, &mut self.random);
        self.is_closed_on = false;
        self.next_server(now, out);
    }

    /// Tries the next server, or pauses after the last one.
    fn next_server(&mut self, now: Duration, out: &mut Vec<Output>) {
        match self.servers.next() {
            Some(server) => self.connect(now, server, out),
            None => {
                let pause = self.round_pause;
                self.round_pause = (pause * 2).min(ROUND_PAUSE_MAX);
                self.phase = Phase::Waiting(now + pause / 2 + self.random.up_to(pause / 2));
            }
        }
    }

    fn connect(&mut self, now: Duration, server: SocketAddr, out: &mut Vec<Output>) {
        self.attempts += 1;
        let attempt = Attempt(self.attempts);
        // A third of the timeout is left to find a server after one has fallen silent. A server
        // that accepts connections but never answers must not use all of it.
        let servers = u32::try_from(self.servers.len()).unwrap_or(u32::MAX).max(3);
        let until = now + (self.timeout / servers).max(CONNECT_TIME_MIN);
        self.phase = Phase::Connecting { attempt, server, until, stage: Stage::Dialing };
        out.push(Output::Connect(attempt, server));
    }

    fn connected(&mut self, now: Duration, connected: Attempt, out: &mut Vec<Output>) {
        let Phase::Connecting { attempt, stage, .. } = &mut self.phase else { return };
        if *attempt != connected || !matches!(stage, Stage::Dialing) {
            return;
        }
        *stage = Stage::Greeting(now);
        // The session of a read-only server is unknown elsewhere.
        let (id, password) = if self.is_global {
            (self.ticket.id, self.ticket.password)
        } else {
            (SessionId::NONE, [0; PASSWORD_BYTES])
        };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.seen,
            timeout_ms: i32::try_from(self.options.timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: id.0,
            password: Some(&password),
            read_only: Some(self.options.read_only),
            asks_ensemble: self.asks_ensemble || self.ensemble.is_some(),
        };
        let body = request.to_bytes();
        let bytes = buffer(out);
        bytes.extend_from_slice(&(body.len() as i32).to_be_bytes());
        bytes.extend_from_slice(&body);
    }

    fn disconnected(&mut self, now: Duration, gone: Attempt, out: &mut Vec<Output>) {
        match &self.phase {
            Phase::Connecting { attempt, stage, .. } if *attempt == gone => {
                let is_closed_on = matches!(stage, Stage::Greeting(_));
                if is_closed_on && !self.is_closed_on && self.options.asks_ensemble {
                    self.asks_ensemble = !self.asks_ensemble;
                }
                self.is_closed_on |= is_closed_on;
                self.next_server(now, out);
            }
            Phase::Connected(link) if link.attempt == gone => self.lose(now, false, out),
            _ => {}
        }
    }

    /// Reports requests in flight as lost, and soon looks for another server.
    fn lose(&mut self, now: Duration, close: bool, out: &mut Vec<Output>) {
        let delay = self.random.up_to(RECONNECT_DELAY_MAX.min(self.timeout / 30));
        let phase = std::mem::replace(&mut self.phase, Phase::Waiting(now + delay));
        let Phase::Connected(link) = phase else { return };
        self.proven = self.proven.max(Some(link.proven()));
        if close {
            out.push(Output::Disconnect(link.attempt));
        }
        self.probing = None;
        self.round_pause = ROUND_PAUSE_MIN;
        self.alone_since = Some(now);
        self.enter(State::Disconnected, out);
        self.xid = link.xid();
        let timeout = self.options.request_timeout;
        out.extend(link.into_lost().map(|(id, made)| {
            let is_overdue = timeout.is_some_and(|timeout| made + timeout <= now);
            let is_sent = !faults::sent_request_said_to_be_unsent();
            let overdue = Failure::TimedOut { is_sent };
            Output::Done(id, Err(if is_overdue { overdue } else { Failure::Lost }))
        }));
        self.refuse_broken(out);
        self.give_up_asking(now, out);
        self.drop_watches(out);
    }

    /// Ends all watches, unless they are restored on the next connection.
    fn drop_watches(&mut self, out: &mut Vec<Output>) {
        if !self.options.restore_watches {
            let dropped = self.watches.clear();
            out.extend(dropped.map(|(watcher, kind, path)| {
                removal(watcher, kind, Bytes::copy_from_slice(path.as_bytes()))
            }));
        }
    }

    fn enter(&mut self, state: State, out: &mut Vec<Output>) {
        if self.state != state {
            self.state = state;
            out.push(Output::State(state));
        }
    }

    /// Ends the session and answers all open requests.
    fn end(&mut self, ending: Ending, out: &mut Vec<Output>) {
        self.enter(State::Over(ending), out);
        match std::mem::replace(&mut self.phase, Phase::Over(ending)) {
            Phase::Connecting { attempt, .. } => out.push(Output::Disconnect(attempt)),
            Phase::Connected(link) => {
                out.push(Output::Disconnect(link.attempt));
                out.extend(link.into_lost().map(|(id, _)| Output::Done(id, Err(Failure::Lost))));
            }
            Phase::Waiting(_) | Phase::Resolving(_) | Phase::Over(_) => {}
        }
        self.probing = None;
        let _nobody_is_told = self.watches.clear();
        let credentials = std::mem::take(&mut self.credentials);
        let asked = credentials.into_iter().filter_map(|credential| Some(credential.asked?.id));
        let waiting = self.waiting.drain(..).map(|waiting| waiting.submission.id);
        let over = |id| Output::Done(id, Err(Failure::Over(ending)));
        out.extend(asked.chain(waiting).map(over));
        if let Some((id, _)) = self.closing.take() {
            // A close succeeds whatever ended the session.
            let body = Bytes::new();
            out.push(Output::Done(id, Ok(Answer { zxid: self.seen, err: ErrorCode::OK, body })));
        }
    }

    // What servers send.

    fn frame(&mut self, now: Duration, from: Attempt, frame: Bytes, out: &mut Vec<Output>) {
        let understood = match &mut self.phase {
            Phase::Connecting { attempt, stage: Stage::Greeting(asked), .. }
                if *attempt == from =>
            {
                let asked = *asked;
                self.greeted(now, asked, &frame, out);
                return;
            }
            Phase::Connecting { attempt, stage: Stage::Proving { .. }, .. } if *attempt == from => {
                if self.challenged(frame, out).is_none() {
                    out.push(Output::Disconnect(from));
                    self.next_server(now, out);
                }
                return;
            }
            Phase::Connected(link) if link.attempt == from => {
                link.heard = now;
                self.answered(now, frame, out)
            }
            _ => return,
        };
        if understood.is_none() {
            // An unexpected frame: the connection is unusable.
            self.lose(now, true, out);
        }
    }

    /// Handles the answer to the connect request.
    fn greeted(&mut self, now: Duration, asked: Duration, frame: &Bytes, out: &mut Vec<Output>) {
        let Phase::Connecting { attempt, server, .. } = self.phase else { return };
        // A read-only server that may not create sessions answers with a reply header instead.
        let refused_here = frame.len() == REPLY_HEADER_BYTES;
        let response = ConnectResponse::from_bytes(frame).ok().filter(|response| {
            let read_only = response.read_only == Some(true);
            let ours = !self.is_global
                || response.session_id == self.ticket.id
                || response.session_id == SessionId::NONE;
            !refused_here && ours && (!read_only || self.options.read_only)
        });
        let Some(response) = response else {
            out.push(Output::Disconnect(attempt));
            self.next_server(now, out);
            return;
        };
        if let Some(other) = response.ensemble {
            let own = *self.ensemble.get_or_insert(other);
            if own != other {
                // What this server says of the session is about another one, or about none.
                self.end(Ending::OtherEnsemble { own, other }, out);
                return;
            }
        }
        if response.timeout_ms <= 0 || response.session_id == SessionId::NONE {
            // If the caller wanted to close the session, that is done.
            let closing = self.closing.is_some();
            self.end(if closing { Ending::Closed } else { Ending::Expired }, out);
            return;
        }
        let read_only = response.read_only == Some(true);
        self.ticket = Ticket { id: response.session_id, password: response.password };
        self.timeout = Duration::from_millis(u64::from(response.timeout_ms.unsigned_abs()));
        self.is_global |= !read_only;
        let link = Box::new(Link::new(attempt, server, read_only, self.xid, (asked, now)));
        if !self.options.sasl {
            self.establish(now, link, out);
            return;
        }
        self.prove(now, link, out);
    }

    /// The session is usable on this connection.
    fn establish(&mut self, now: Duration, mut link: Box<Link>, out: &mut Vec<Output>) {
        let (server, read_only) = (link.server, link.read_only);
        link.heard = now;
        self.alone_since = None;
        self.round_pause = ROUND_PAUSE_MIN;
        self.phase = Phase::Connected(link);
        self.enter(if read_only { State::ConnectedReadOnly } else { State::Connected }, out);
        let other = read_only.then(|| self.servers.after(server, server)).flatten();
        self.probing = other.map(|next| Probing {
            next,
            at: now + PROBE_PAUSE_MIN,
            pause: PROBE_PAUSE_MIN,
            is_asked: false,
        });
        self.introduce(now, out);
    }

    /// Sends the first requests of a new connection: credentials, watches, then waiting requests.
    fn introduce(&mut self, now: Duration, out: &mut Vec<Output>) {
        let Phase::Connected(link) = &mut self.phase else { return };
        for (place, credential) in self.credentials.iter_mut().enumerate() {
            if let Some(asked) = &mut credential.asked {
                asked.is_sent = true;
            }
            link.credentials.push_back(place);
            link.send_as(now, &auth_frame(credential), Xid::AUTH, buffer(out));
        }
        for frame in self.watches.restore(self.settled) {
            link.send_as(now, &frame, Xid::SET_WATCHES, buffer(out));
        }
        for Waiting { submission, made, .. } in self.waiting.drain(..) {
            let Submission { id, frame, effect, series } = submission;
            link.send(now, made, &frame, Awaited::request(id, effect, series), buffer(out));
        }
        if self.closing.is_some() {
            link.send(now, now, &close_frame(), Awaited::Close, buffer(out));
        }
    }

    /// Handles any later frame. `None` if it is invalid.
    fn answered(&mut self, now: Duration, mut frame: Bytes, out: &mut Vec<Output>) -> Option<()> {
        let header = ReplyHeader::from_bytes(&frame).ok()?;
        frame.advance(REPLY_HEADER_BYTES);
        match header.xid {
            Xid::NOTIFICATION => self.notified(header.zxid, &frame, out)?,
            Xid::PING => self.pinged(),
            Xid::AUTH => self.authenticated(&header, out)?,
            Xid::SET_WATCHES => (header.err == ErrorCode::OK).then_some(())?,
            _ => self.replied(&header, frame, out)?,
        }
        if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
            self.end(Ending::AuthFailed, out);
        }
        self.move_on(now, out);
        Some(())
    }

    fn pinged(&mut self) {
        if let Phase::Connected(link) = &mut self.phase {
            link.pinged();
        }
    }

    fn notified(&mut self, zxid: Zxid, body: &Bytes, out: &mut Vec<Output>) -> Option<()> {
        let event = WatcherEvent::from_bytes(body).ok()?;
        // Servers before 3.9, and catch-up events, do not report the zxid.
        let zxid = (zxid > Zxid::ZERO).then_some(zxid);
        self.seen = self.seen.max(zxid.unwrap_or_default());
        let mut told = std::mem::take(&mut self.told);
        self.watches.fire(event.kind, &event.path, &mut told);
        if !told.is_empty() {
            let path = Bytes::copy_from_slice(event.path.as_bytes());
            out.extend(told.drain(..).map(|(watcher, last)| Output::Event {
                watcher,
                kind: event.kind,
                path: path.clone(),
                zxid,
                last,
            }));
        }
        self.told = told;
        Some(())
    }

    fn replied(&mut self, header: &ReplyHeader, body: Bytes, out: &mut Vec<Output>) -> Option<()> {
        let Phase::Connected(link) = &mut self.phase else { return None };
        let awaited = link.answered(header.xid)?;
        if header.zxid > Zxid::ZERO {
            self.settled = self.settled.max(header.zxid);
            self.seen = self.seen.max(header.zxid);
        }
        match awaited {
            Awaited::Request(id, more) => {
                match more.map_or(Effect::None, |more| more.effect) {
                    Effect::None => {}
                    Effect::Watch(watch) => self.watch(watch, header.err),
                    Effect::Unwatch { path, kind } => {
                        if header.err == ErrorCode::OK {
                            self.removed(&path, kind, out);
                        }
                    }
                }
                let answer = Answer { zxid: header.zxid, err: header.err, body };
                out.push(Output::Done(id, Ok(answer)));
            }
            Awaited::Unwatch => {}
            // Not sent on an established connection.
            Awaited::Proof => return None,
            Awaited::Close => self.end(Ending::Closed, out),
        }
        Some(())
    }

    /// Registers the watch that a request has set, depending on its result.
    fn watch(&mut self, mut watch: Registration, err: ErrorCode) {
        match (watch.kind, err) {
            (WatchKind::Exist, ErrorCode::OK) => watch.kind = WatchKind::Data,
            (WatchKind::Exist, ErrorCode::NO_NODE) | (_, ErrorCode::OK) => {}
            _ => return,
        }
        self.watches.register(watch);
    }

    /// Informs the watchers whose watches were removed on request.
    fn removed(&mut self, path: &str, kind: WatcherType, out: &mut Vec<Output>) {
        let at = Bytes::copy_from_slice(path.as_bytes());
        let told = self.watches.remove_all(path, kind);
        out.extend(told.into_iter().map(|(watcher, kind)| removal(watcher, kind, at.clone())));
    }

    /// Moves to a read-write server if one was found and nothing is in flight.
    fn move_on(&mut self, now: Duration, out: &mut Vec<Output>) {
        let Phase::Connected(link) = &self.phase else { return };
        let Some(server) = link.moving_to.filter(|_| link.sent() == 0) else { return };
        self.xid = link.xid();
        self.proven = self.proven.max(Some(link.proven()));
        self.alone_since = Some(now);
        out.push(Output::Disconnect(link.attempt));
        self.enter(State::Disconnected, out);
        self.drop_watches(out);
        self.connect(now, server, out);
    }

    // What the caller wants.

    fn submit(&mut self, now: Duration, submission: Submission, out: &mut Vec<Output>) {
        let refused = match &self.phase {
            Phase::Over(ending) => Some(Failure::Over(*ending)),
            _ if self.closing.is_some() => Some(Failure::Over(Ending::Closed)),
            _ if submission.frame.length() > self.options.request_bytes_max => {
                Some(Failure::TooLarge)
            }
            _ if self.pending() >= self.options.pending_max => Some(Failure::TooMany),
            _ if submission.series.as_ref().is_some_and(Series::is_broken) => Some(Failure::Broken),
            _ => None,
        };
        if let Some(failure) = refused {
            not_sent(&submission, failure, out);
            return;
        }
        if submission.frame.op().since() > self.options.server_version {
            let (zxid, body) = (self.seen, Bytes::new());
            let answer = Answer { zxid, err: ErrorCode::UNIMPLEMENTED, body };
            out.push(Output::Done(submission.id, Ok(answer)));
            return;
        }
        match &mut self.phase {
            Phase::Connected(link) if link.moving_to.is_none() => {
                let Submission { id, frame, effect, series } = submission;
                let awaited = Awaited::request(id, effect, series);
                link.send(now, now, &frame, awaited, buffer(out));
            }
            _ => {
                let until = self.waits_until(now);
                let last = self.waiting.back().map(|last| last.submission.id);
                debug_assert!(last.is_none_or(|last| last < submission.id), "ids go up");
                self.waiting.push_back(Waiting { submission, made: now, until });
            }
        }
    }

    /// Until when a request submitted now waits for a connection.
    fn waits_until(&self, now: Duration) -> Duration {
        let Options { connection_wait, request_timeout, .. } = self.options;
        now + request_timeout.map_or(connection_wait, |timeout| timeout.min(connection_wait))
    }

    fn pending(&self) -> usize {
        let sent = if let Phase::Connected(link) = &self.phase { link.sent() } else { 0 };
        sent + self.waiting.len()
    }

    fn withdraw(&mut self, id: RequestId, out: &mut Vec<Output>) {
        let place = self.waiting.binary_search_by_key(&id, |waiting| waiting.submission.id);
        if let Ok(place) = place
            && let Some(waiting) = self.waiting.remove(place)
        {
            not_sent(&waiting.submission, Failure::Withdrawn, out);
            self.refuse_broken(out);
        }
    }

    fn unwatch(&mut self, now: Duration, watcher: WatcherId, out: &mut Vec<Output>) {
        let Some(removal) = self.watches.remove(watcher) else { return };
        if let Phase::Connected(link) = &mut self.phase
            && OpCode::REMOVE_WATCHES.since() <= self.options.server_version
            && link.moving_to.is_none()
            && self.closing.is_none()
            // A request in flight needs the same watch.
            && !link.is_registering(&removal.path)
        {
            link.send(now, now, &removal.frame(), Awaited::Unwatch, buffer(out));
        }
    }

    fn probed(&mut self, now: Duration, server: SocketAddr, probe: Probe, out: &mut Vec<Output>) {
        let Some(probing) = &mut self.probing else { return };
        if !probing.is_asked || probing.next != server {
            return;
        }
        let Phase::Connected(link) = &mut self.phase else { return };
        match probe {
            Probe::ReadWrite => {
                link.moving_to = Some(server);
                self.probing = None;
                self.move_on(now, out);
            }
            Probe::Other => {
                probing.next = self.servers.after(server, link.server).unwrap_or(server);
                probing.pause = (probing.pause * 2).min(PROBE_PAUSE_MAX);
                probing.at = now + probing.pause;
                probing.is_asked = false;
            }
        }
    }

    fn close(&mut self, now: Duration, id: RequestId, out: &mut Vec<Output>) {
        if let Phase::Over(ending) = self.phase {
            out.push(Output::Done(id, Err(Failure::Over(ending))));
            return;
        }
        if self.closing.is_some() {
            out.push(Output::Done(id, Err(Failure::Over(Ending::Closed))));
            return;
        }
        self.closing = Some((id, now + self.options.connection_wait));
        match &mut self.phase {
            Phase::Connected(link) if link.moving_to.is_none() => {
                link.send(now, now, &close_frame(), Awaited::Close, buffer(out));
            }
            // No server knows the session.
            _ if self.ticket.id == SessionId::NONE && self.waiting.is_empty() => {
                self.end(Ending::Closed, out);
            }
            _ => {}
        }
    }

    fn check(&self) {
        assert!(self.settled <= self.seen);
        assert!(self.told.is_empty(), "an event is told to nobody");
        assert!(self.waiting.len() <= self.options.pending_max, "{} wait", self.waiting.len());
        if let (Some(first), Some(last)) = (self.waiting.front(), self.waiting.back()) {
            assert!(first.until <= last.until, "who came first waits longer");
        }
        match &self.phase {
            Phase::Connected(link) => {
                let state =
                    if link.read_only { State::ConnectedReadOnly } else { State::Connected };
                assert_eq!(self.state, state, "callers know of another connection");
                assert_eq!(link.attempt, Attempt(self.attempts), "an attempt follows the last one");
                assert!(self.ticket.id != SessionId::NONE, "connected without a session");
                let place = link.credentials.back();
                assert!(place.is_none_or(|place| *place < self.credentials.len()));
                link.check();
                assert!(self.alone_since.is_none());
                assert!(self.waiting.is_empty() || link.moving_to.is_some());
                assert!(self.probing.is_none() || link.read_only);
                assert!(link.credentials.len() <= self.credentials.len());
            }
            Phase::Over(ending) => {
                assert_eq!(self.state, State::Over(*ending), "callers know of another end");
                assert!(self.credentials.is_empty());
                assert!(self.waiting.is_empty());
                assert!(self.closing.is_none());
                assert!(self.watches.len() == 0);
            }
            Phase::Waiting(_) | Phase::Resolving(_) | Phase::Connecting { .. } => {
                if let Phase::Connecting {
                    attempt, stage: Stage::Proving { link, is_asked }, ..
                } = &self.phase
                {
                    assert!(self.options.sasl, "a proof that nobody wants");
                    assert_eq!(link.attempt, *attempt, "the link of another attempt");
                    assert_eq!(link.sent(), usize::from(!is_asked), "one token is awaited");
                    assert_eq!(link.xid(), self.xid, "the next link would repeat an xid");
                    assert!(self.ticket.id != SessionId::NONE, "proving without a session");
                    link.check();
                }
                let state = self.state;
                assert!(matches!(state, State::Connecting | State::Disconnected), "{state:?}");
                assert!(self.probing.is_none());
            }
        }
    }
}

/// Fails a request unsent, and breaks its series.
fn not_sent(submission: &Submission, failure: Failure, out: &mut Vec<Output>) {
    if let Some(series) = &submission.series {
        series.break_off();
    }
    out.push(Output::Done(submission.id, Err(failure)));
}

/// The buffer of the last output; consecutive sends are merged.
fn buffer(out: &mut Vec<Output>) -> &mut Vec<u8> {
    if !matches!(out.last(), Some(Output::Send(_))) {
        out.push(Output::Send(Vec::with_capacity(256)));
    }
    match out.last_mut() {
        Some(Output::Send(bytes)) => bytes,
        _ => unreachable!("it was pushed above"),
    }
}

/// Informs a watcher that its watch ended without firing.
fn removal(watcher: WatcherId, kind: WatchKind, path: Bytes) -> Output {
    let kind = match kind {
        WatchKind::Data | WatchKind::Exist => EventType::DATA_WATCH_REMOVED,
        WatchKind::Child => EventType::CHILD_WATCH_REMOVED,
        WatchKind::Persistent | WatchKind::Recursive => EventType::PERSISTENT_WATCH_REMOVED,
    };
    Output::Event { watcher, kind, path, zxid: None, last: true }
}

fn close_frame() -> Frame {
    Frame::new(OpCode::CLOSE_SESSION, |_| {})
}
