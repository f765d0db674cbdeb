//! The task that owns a session's connection. It carries out what `zebu-session` decides.
//!
//! The driver is one future. Each time it is polled, it encodes all queued commands and sends them
//! with one system call. It reads all received bytes with one system call and decodes the answers
//! in place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};
use tracing::{Instrument as _, Span, info, warn};
#[cfg(feature = "sasl")]
use zebu_session::Proof;
use zebu_session::{
    Attempt, Candidate, Challenge, Ending, Failure, Input, Options, Output, Probe, RequestId,
    Session, State, Submission, WatcherId,
};

use crate::farewell::{Farewell, Stage};
use crate::hosts::HostProvider;
use crate::metrics::Metrics;
use crate::notifications::{Audience, Notification};
use crate::shared::{Command, Listener, NO_ANSWER, NO_HANDSHAKE, Reply, Shared};
use crate::state::{Announcer, Status};
use crate::stream::{Destination, Dialer, Stream};
use crate::watch::{Event, Notice, Signal};

/// The smallest and the largest read. Within these limits, the size follows the amount of data.
const READ_BYTES_MIN: usize = 8 * 1024;
const READ_BYTES_MAX: usize = 256 * 1024;

/// The number of reads in a row, before other tasks get a turn.
const READS_MAX: usize = 16;

/// The beginning of an alert of TLS 1.0 to 1.3. A TLS server sends it as an answer to plain text.
const TLS_ALERT: i32 = 0x1503;

/// The time limit for a server to answer whether it has a quorum.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);

/// Reports of the driver's helper tasks.
enum Report {
    Resolved(Vec<Candidate>),
    Connected(Connection),
    Failed(Attempt),
    Probed(SocketAddr, Probe),
    #[cfg(feature = "sasl")]
    Proved(Attempt, Box<crate::sasl::Kerberos>, Result<Proof, crate::sasl::Fault>),
}

struct Connection {
    attempt: Attempt,
    server: SocketAddr,
    stream: Stream,
}

pub(crate) struct Driver {
    shared: Arc<Shared>,
    session: Session,
    hosts: Arc<dyn HostProvider>,
    dialer: Dialer,
    #[cfg(feature = "sasl")]
    exchange: Option<crate::sasl::Exchange>,
    /// The call to Kerberos that this exchange waits for.
    #[cfg(feature = "sasl")]
    _kerberos: Option<crate::waiters::Claim>,
    answer_bytes_max: usize,
    start: Instant,
    metrics: Metrics,
    proven: Option<Duration>,
    /// The time of the last received bytes.
    heard: Duration,
    timer: Pin<Box<Sleep>>,
    reports: mpsc::UnboundedReceiver<Report>,
    reporter: mpsc::UnboundedSender<Report>,
    /// The attempt to connect that is in progress.
    connecting: Option<JoinHandle<()>>,
    connection: Option<Connection>,
    input: BytesMut,
    read_bytes: usize,
    output: Vec<u8>,
    /// The number of bytes of `output` that are sent.
    sent: usize,
    /// Whether the stream has passed all bytes on to the system.
    is_flushed: bool,
    /// The receivers of answers, by request. The first one belongs to request `first`.
    replies: VecDeque<Option<oneshot::Sender<Reply>>>,
    first: u64,
    listeners: BTreeMap<WatcherId, Listener>,
    /// The watch of each request without an answer. It is not known yet whether the request leaves
    /// the watch.
    seats: BTreeMap<RequestId, WatcherId>,
    audience: Vec<Arc<Announcer>>,
    overhearing: Audience,
    /// A caller that waits until the server knows that the session ends.
    farewell: Option<Arc<Farewell>>,
    commands: Vec<Command>,
    outputs: Vec<Output>,
    /// Whether names are being resolved.
    is_resolving: bool,
    /// Whether sending waits until other tasks had their turn.
    is_deferring: bool,
    is_over: bool,
}

impl Driver {
    pub(crate) fn new(
        options: Options,
        hosts: Arc<dyn HostProvider>,
        dialer: Dialer,
        shared: Arc<Shared>,
        answer_bytes_max: usize,
        audience: Vec<Arc<Announcer>>,
    ) -> Self {
        let (reporter, reports) = mpsc::unbounded_channel();
        let start = shared.start();
        Self {
            shared,
            session: Session::new(options),
            hosts,
            dialer,
            #[cfg(feature = "sasl")]
            exchange: None,
            #[cfg(feature = "sasl")]
            _kerberos: None,
            answer_bytes_max,
            start,
            metrics: Metrics::default(),
            proven: None,
            heard: Duration::ZERO,
            timer: Box::pin(tokio::time::sleep_until(start)),
            reports,
            reporter,
            connecting: None,
            connection: None,
            input: BytesMut::new(),
            read_bytes: READ_BYTES_MIN,
            output: Vec::new(),
            sent: 0,
            is_flushed: true,
            replies: VecDeque::new(),
            first: 1,
            listeners: BTreeMap::new(),
            seats: BTreeMap::new(),
            audience,
            overhearing: Audience::default(),
            farewell: None,
            commands: Vec::new(),
            outputs: Vec::new(),
            is_resolving: false,
            is_deferring: false,
            is_over: false,
        }
    }

    /// Adds the SASL exchange that the session's options announce.
    #[cfg(feature = "sasl")]
    pub(crate) fn with_sasl(mut self, sasl: Option<crate::Sasl>) -> Self {
        self.exchange = sasl.map(crate::sasl::Exchange::new);
        self
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn step(&mut self, input: Input) {
        let now = self.now();
        self.session.step(now, input, &mut self.outputs);
    }

    // What goes in.

    /// Takes commands. Returns whether there were any.
    fn take_commands(&mut self, cx: &Context<'_>) -> bool {
        let mut commands = std::mem::take(&mut self.commands);
        self.shared.take(cx, &mut commands);
        let is_commanded = !commands.is_empty();
        if is_commanded {
            let now = self.now();
            for command in commands.drain(..) {
                self.command(now, command);
            }
            self.carry_out();
        }
        self.commands = commands;
        is_commanded
    }

    fn command(&mut self, now: Duration, command: Command) {
        let input = match command {
            Command::Submit { id, frame, reply, effect, series, listener } => {
                self.expect(id, reply);
                if let Some((watcher, listener)) = listener {
                    self.seats.insert(id, watcher);
                    self.listeners.insert(watcher, listener);
                }
                Input::Submit(Submission { id, frame, effect, series })
            }
            Command::Authenticate { id, scheme, auth, reply } => {
                self.expect(id, reply);
                Input::Authenticate { id, scheme, auth }
            }
            Command::Close(id, reply, farewell) => {
                self.expect(id, reply);
                self.farewell = farewell;
                Input::Close(id)
            }
            Command::Withdraw(id) => Input::Withdraw(id),
            Command::Unwatch(watcher) => {
                self.listeners.remove(&watcher);
                Input::Unwatch(watcher)
            }
            Command::Tell(states) => {
                // Many receivers may come and go while the session's state does not change.
                if self.audience.len() == self.audience.capacity() {
                    self.audience.retain(|states| !states.0.is_abandoned());
                }
                self.audience.push(Arc::new(Announcer(states)));
                return;
            }
            Command::Overhear(heard) => {
                self.overhearing.add(heard);
                return;
            }
            Command::Leave => {
                self.leave();
                return;
            }
        };
        self.session.step(now, input, &mut self.outputs);
    }

    /// Registers the receiver of an answer. Requests come in the order of their numbers, and most
    /// answers too.
    fn expect(&mut self, id: RequestId, reply: oneshot::Sender<Reply>) {
        debug_assert_eq!(id.0, self.first + self.replies.len() as u64);
        self.metrics.requests += 1;
        self.replies.push_back(Some(reply));
    }

    fn take_reports(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
            match report {
                Report::Resolved(found) => {
                    self.is_resolving = false;
                    self.step(Input::Resolved(found));
                }
                Report::Connected(connection) => {
                    self.connecting = None;
                    let attempt = connection.attempt;
                    self.connection = Some(connection);
                    self.step(Input::Connected(attempt));
                }
                Report::Failed(attempt) => {
                    self.connecting = None;
                    self.step(Input::Disconnected(attempt));
                }
                Report::Probed(server, probe) => self.step(Input::Probed(server, probe)),
                #[cfg(feature = "sasl")]
                Report::Proved(attempt, kerberos, proof) => {
                    if let Some(exchange) = &mut self.exchange {
                        exchange.resume(attempt, kerberos);
                    }
                    self.proved(attempt, proof);
                }
            }
            self.carry_out();
        }
    }

    fn read(&mut self, cx: &mut Context<'_>) {
        for _ in 0..READS_MAX {
            let Some(connection) = &mut self.connection else { return };
            self.input.reserve(self.read_bytes);
            let read = pin!(connection.stream.read_buf(&mut self.input)).poll(cx);
            match read {
                Poll::Pending => return,
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.metrics.bytes_received += count as u64;
                    if count >= self.read_bytes {
                        self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
                    } else if count < self.read_bytes / 8 {
                        self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
                    }
                    self.take_frames();
                }
                Poll::Ready(ended) => {
                    let fault = ended.err().and_then(|error| connection.stream.fault(&error));
                    self.hang_up(fault);
                }
            }
        }
        // There may be more bytes, but other tasks need a turn.
        cx.waker().wake_by_ref();
    }

    fn take_frames(&mut self) {
        let now = self.now();
        self.heard = now;
        while let Some(Connection { attempt, .. }) = self.connection {
            match next_frame(&mut self.input, self.answer_bytes_max) {
                Ok(Some(frame)) => {
                    self.session.step(now, Input::Frame(attempt, frame), &mut self.outputs);
                    self.carry_out();
                }
                Ok(None) => return,
                Err(length) => {
                    let fault = if length >> 16 == TLS_ALERT {
                        "the server's port speaks TLS; connect over TLS, or to its port for plain text"
                            .to_owned()
                    } else {
                        format!("the server sends a frame of {length} bytes")
                    };
                    warn!("{fault}: connection closed");
                    self.hang_up(Some(fault));
                }
            }
        }
    }

    /// Handles the end of the connection. `fault`: the reason, if more is known than the end
    /// itself.
    fn hang_up(&mut self, fault: Option<String>) {
        if let Some(Connection { attempt, server, .. }) = self.connection.take() {
            if let Some(fault) = fault {
                info!("connection to {server} ended: {fault}");
                self.shared.refused(server, &fault);
            } else if self.session.server().is_none() {
                self.shared.refused(server, "closed the connection before the session began");
            }
            self.forget_bytes();
            self.step(Input::Disconnected(attempt));
            self.carry_out();
        }
    }

    fn forget_bytes(&mut self) {
        self.input = BytesMut::new();
        self.output.clear();
        self.sent = 0;
        self.is_flushed = true;
    }

    fn take_time(&mut self, cx: &mut Context<'_>) {
        loop {
            let Some(deadline) = self.session.deadline() else { return };
            if deadline <= self.now() {
                self.step(Input::Tick);
                self.carry_out();
                continue;
            }
            // Most deadlines move into the future, so the timer is set only when it has fired or is
            // too late.
            let deadline = self.start + deadline;
            if self.timer.is_elapsed() || self.timer.deadline() > deadline {
                self.timer.as_mut().reset(deadline);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return;
            }
        }
    }

    // What comes out.

    /// Publishes the metrics before the answers, so a caller with an answer finds it counted.
    fn publish(&mut self) {
        let proven = self.session.proven();
        if let Some(sent) = proven.filter(|_| proven != self.proven) {
            self.metrics.round_trip = Some(self.heard.saturating_sub(sent));
            self.shared.prove(sent);
            self.proven = proven;
        }
        self.shared.publish(&self.metrics);
    }

    fn carry_out(&mut self) {
        self.overhearing.begin();
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Send(bytes) => {
                    if self.output.is_empty() {
                        self.output = bytes;
                    } else {
                        self.output.extend_from_slice(&bytes);
                    }
                }
                Output::Done(id, reply) => self.done(id, reply),
                Output::Event { watcher, kind, path: bytes, zxid, last } => {
                    let path = String::from_utf8_lossy(&bytes);
                    let notification =
                        || Notification { kind, path: path.clone().into_owned(), zxid };
                    self.overhearing.tell(kind, &bytes, notification);
                    if let Some(event) = Event::new(kind, &path, zxid) {
                        self.event(watcher, event, last);
                    }
                }
                Output::State(state) => self.enter(state),
                Output::Resolve => self.resolve(),
                Output::Connect(attempt, server) => self.connect(attempt, server),
                Output::Disconnect(_) => {
                    if let Some(connecting) = self.connecting.take() {
                        connecting.abort();
                    }
                    self.connection = None;
                    self.forget_bytes();
                }
                Output::Probe(server) => self.probe(server),
                Output::Prove(attempt, challenge) => self.prove(attempt, challenge),
            }
        }
        // Dropped watches may have added reports meanwhile.
        outputs.append(&mut self.outputs);
        self.outputs = outputs;
        if !self.outputs.is_empty() {
            self.carry_out();
        }
    }

    fn done(&mut self, id: RequestId, reply: Reply) {
        match reply {
            Ok(_) => self.metrics.answers += 1,
            Err(_) => self.metrics.failures += 1,
        }
        let place = id.0.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let waiting = place.and_then(|place| self.replies.get_mut(place)).and_then(Option::take);
        while let Some(None) = self.replies.front() {
            self.replies.pop_front();
            self.first += 1;
        }
        if let Some(watcher) = self.seats.remove(&id)
            && !self.listeners.contains_key(&watcher)
        {
            // The receiver was dropped meanwhile.
            self.step(Input::Unwatch(watcher));
        }
        self.publish();
        if let Some(waiting) = waiting {
            // The receiver may be gone.
            let _ = waiting.send(reply);
        }
    }

    fn event(&mut self, watcher: WatcherId, event: Event, last: bool) {
        self.metrics.notifications += 1;
        match self.listeners.get(&watcher) {
            Some(Listener::Once(signals)) => {
                let missed = Signal::Event(event.clone());
                signals.put(Signal::Event(event), || missed);
            }
            Some(Listener::Always(notices)) => {
                notices.put(Notice::Event(event), || Notice::Missed);
            }
            None => {}
        }
        if last && let Some(listener) = self.listeners.remove(&watcher) {
            listener.close();
        }
    }

    fn enter(&mut self, state: State) {
        match state {
            State::Connecting => {}
            State::Connected | State::ConnectedReadOnly => {
                self.metrics.connections += 1;
                self.shared.forget_refused();
                let session = self.session.ticket().map(|ticket| ticket.id).unwrap_or_default();
                let server = self.session.server();
                let timeout = self.session.timeout();
                Span::current().record("session", tracing::field::display(session));
                let server = server.map_or_else(String::new, |server| server.to_string());
                let kind = if state == State::Connected { "" } else { ", read-only" };
                let ms = timeout.as_millis();
                info!(
                    "session {session} established on {server}, negotiated timeout {ms} ms{kind}"
                );
            }
            State::Disconnected => {
                self.metrics.connections_lost += 1;
                info!("connection lost");
            }
            State::Over(ending) => info!("session over: {ending:?}"),
        }
        let status = Status {
            state: state.into(),
            ticket: self.session.ticket(),
            timeout: self.session.timeout(),
            ensemble: self.session.ensemble(),
            server: self.session.server(),
        };
        self.publish();
        self.shared.status.send_replace(status);
        for states in &self.audience {
            states.0.put(status.state, || status.state);
        }
        // A watch whose request has no answer yet misses no event.
        let seated: BTreeSet<&WatcherId> = self.seats.values().collect();
        for (watcher, listener) in &self.listeners {
            if !seated.contains(watcher) {
                listener.tell(state);
            }
        }
        if !matches!(state, State::Over(_)) {
            return;
        }
        self.is_over = true;
        for listener in std::mem::take(&mut self.listeners).into_values() {
            listener.close();
        }
    }

    fn resolve(&mut self) {
        // A slow resolver is not asked again before it has answered.
        if std::mem::replace(&mut self.is_resolving, true) {
            return;
        }
        let (hosts, reporter) = (self.hosts.clone(), self.reporter.clone());
        let shared = self.shared.clone();
        let resolved = async move {
            let (found, missing) = match hosts.servers().await {
                Ok(found) => (found, hosts.missing()),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            let missing = missing.map(String::into_boxed_str);
            // Logged once, because the lookup is repeated again and again.
            if shared.set_missing(missing.clone())
                && let Some(missing) = missing
            {
                warn!("not all servers are found: {missing}");
            }
            let ranked = |address| Candidate { address, rank: hosts.rank(address) };
            let _ = reporter.send(Report::Resolved(found.into_iter().map(ranked).collect()));
        };
        tokio::spawn(resolved.in_current_span());
    }

    fn connect(&mut self, attempt: Attempt, server: SocketAddr) {
        info!("opening a connection to {server}");
        self.shared.waited(server, NO_ANSWER);
        let (reporter, shared) = (self.reporter.clone(), self.shared.clone());
        let (dialer, to) = (self.dialer.clone(), self.destination(server));
        let connected = async move {
            let dialed = dialer.dial(to, || shared.waited(server, NO_HANDSHAKE));
            let report = match dialed.await {
                Ok(stream) => {
                    if let Ok(local) = stream.local_addr() {
                        let how = stream.carrier();
                        info!("connected to {server} from {local} {how}, asking for a session");
                    }
                    Report::Connected(Connection { attempt, server, stream })
                }
                Err(error) => {
                    info!("no connection to {server}: {error}");
                    shared.refused(server, &error.to_string());
                    Report::Failed(attempt)
                }
            };
            let _ = reporter.send(report);
        };
        self.connecting = Some(tokio::spawn(connected.in_current_span()));
    }

    #[cfg(feature = "sasl")]
    fn prove(&mut self, attempt: Attempt, challenge: Challenge) {
        use crate::sasl::Answer;
        let server = self.connection.as_ref().map(|connection| connection.server);
        let host = server
            .map(|server| self.destination(server).name.unwrap_or_else(|| server.ip().to_string()));
        let exchange = self.exchange.as_mut().expect("the session's options promise it");
        match exchange.answer(attempt, &challenge, &host.unwrap_or_default()) {
            Answer::Now(proof) => self.proved(attempt, proof),
            Answer::Later(mut kerberos) => {
                // On a thread that no caller waits for, because the issuer of tickets may be silent
                // for a long time. The result of an earlier attempt is dropped.
                let reporter = self.reporter.clone();
                let called = crate::waiters::KERBEROS.call(move || {
                    let proof = kerberos.answer(&challenge);
                    let _ = reporter.send(Report::Proved(attempt, kerberos, proof));
                });
                match called {
                    Ok(claim) => self._kerberos = Some(claim),
                    Err(error) => {
                        self.proved(attempt, Err(crate::sasl::Fault::NoThread(error)));
                    }
                }
            }
        }
    }

    /// Handles the result of a SASL step.
    #[cfg(feature = "sasl")]
    fn proved(&mut self, attempt: Attempt, proof: Result<Proof, crate::sasl::Fault>) {
        let proof = proof.unwrap_or_else(|fault| {
            let connection = self.connection.as_ref();
            // Results of an earlier connection are ignored.
            if let Some(connection) = connection.filter(|it| it.attempt == attempt) {
                warn!("SASL failed: {fault}");
                self.shared.refused(connection.server, &format!("SASL failed: {fault}"));
            }
            Proof::Failed
        });
        self.step(Input::Proof(attempt, proof));
    }

    #[cfg(not(feature = "sasl"))]
    fn prove(&mut self, _: Attempt, _: Challenge) {
        unreachable!("no session wants SASL without the feature sasl");
    }

    fn destination(&self, server: SocketAddr) -> Destination {
        Destination { server, name: self.hosts.name(server) }
    }

    fn probe(&self, server: SocketAddr) {
        let reporter = self.reporter.clone();
        let (dialer, to) = (self.dialer.clone(), self.destination(server));
        tokio::spawn(async move {
            let asked = tokio::time::timeout(PROBE_TIME_MAX, dialer.ask_mode(to)).await;
            let probe = match asked {
                Ok(Ok(true)) => Probe::ReadWrite,
                _ => Probe::Other,
            };
            let _ = reporter.send(Report::Probed(server, probe));
        });
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        while self.sent < self.output.len() {
            let Some(connection) = &mut self.connection else { break };
            let stream = Pin::new(&mut connection.stream);
            match stream.poll_write(cx, &self.output[self.sent..]) {
                Poll::Pending => return,
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.metrics.bytes_sent += count as u64;
                    self.sent += count;
                    self.is_flushed = false;
                }
                Poll::Ready(_) => self.fail_to_write(cx),
            }
        }
        self.output.clear();
        self.sent = 0;
        // Encrypted bytes may still wait for the system.
        if let (false, Some(connection)) = (self.is_flushed, &mut self.connection) {
            match Pin::new(&mut connection.stream).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => self.is_flushed = true,
                Poll::Ready(Err(_)) => self.fail_to_write(cx),
            }
        }
    }

    /// Handles a failed write. The server may have sent the reason before.
    fn fail_to_write(&mut self, cx: &mut Context<'_>) {
        let Some(connection) = &mut self.connection else { return };
        self.input.reserve(READ_BYTES_MIN);
        let fault = match pin!(connection.stream.read_buf(&mut self.input)).poll(cx) {
            Poll::Ready(Err(error)) => connection.stream.fault(&error),
            _ => None,
        };
        self.hang_up(fault);
    }

    /// Reports the progress of the session's end to the caller that waits for it.
    fn tell_farewell(&self) {
        let Some(farewell) = &self.farewell else { return };
        let is_connected =
            matches!(self.session.state(), State::Connected | State::ConnectedReadOnly);
        farewell.reach(match self.connection {
            _ if self.is_over => Stage::Over,
            None => Stage::Alone,
            // A handshake is in progress, or the system has not taken all bytes.
            Some(_) if !is_connected || self.sent < self.output.len() || !self.is_flushed => {
                Stage::Asked
            }
            Some(_) => Stage::Told,
        });
    }

    /// Ends the connection and all pending work, but not the session.
    fn leave(&mut self) {
        if let Some(connecting) = self.connecting.take() {
            connecting.abort();
        }
        self.connection = None;
        self.outputs.clear();
        self.enter(State::Over(Ending::Closed));
        let lost: Vec<_> = self.replies.drain(..).flatten().collect();
        self.metrics.failures += lost.len() as u64;
        self.publish();
        for reply in lost {
            let _ = reply.send(Err(Failure::Lost));
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        let is_commanded = driver.take_commands(cx);
        driver.take_reports(cx);
        driver.read(cx);
        driver.take_time(cx);
        // If one task has sent a request, other tasks that were woken with it usually send one too.
        // They get a turn first, so that one system call sends all requests.
        driver.is_deferring = is_commanded && !driver.is_deferring && !driver.is_over;
        if driver.is_deferring {
            cx.waker().wake_by_ref();
        } else {
            driver.write(cx);
            driver.tell_farewell();
        }
        driver.publish();
        if driver.is_over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Driver {
    /// This also runs when the runtime is shut down.
    fn drop(&mut self) {
        let ending = self.shared.status.borrow().state.ending().unwrap_or(Ending::Closed);
        if let Some(connecting) = self.connecting.take() {
            connecting.abort();
        }
        if !self.is_over {
            self.enter(State::Over(ending));
        }
        self.shared.finish(ending);
        self.overhearing.close();
        if let Some(farewell) = &self.farewell {
            farewell.reach(Stage::Over);
        }
    }
}

/// The next complete frame without its length. The error is a length beyond the limit.
fn next_frame(input: &mut BytesMut, bytes_max: usize) -> Result<Option<Bytes>, i32> {
    let Some(length) = input.first_chunk() else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= bytes_max).ok_or(length)?;
    if input.len() < 4 + bytes {
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(bytes).freeze()))
}
