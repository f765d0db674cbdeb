//! What the handles of a client and its driver share: a queue of commands, and the session's state.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use zebu_proto::OpCode;
use zebu_session::{
    Answer, Effect, Ending, Failure, Frame, Options, Registration, RequestId, Series, State,
    WatchKind, WatcherId,
};

use crate::clock::Clock;
use crate::farewell::{Farewell, Stage};
use crate::mailbox::Mailbox;
use crate::metrics::{Metrics, Published, nanos};
use crate::notifications::Notification;
use crate::state::Status;
use crate::watch::{Notice, Signal};
use crate::{SessionState, SessionThread};

/// The most servers whose failures are kept.
const REFUSED_MAX: usize = 8;

/// The reason for a server that has not accepted the connection yet.
pub(crate) const NO_ANSWER: &str = "no answer yet";

/// The reason for a server that has accepted the connection, and has not answered the TLS handshake
/// yet.
pub(crate) const NO_HANDSHAKE: &str = "connected, but the TLS handshake is not finished yet";

/// The result of a request.
pub(crate) type Reply = std::result::Result<Answer, Failure>;

/// The receiver of a watch's events.
#[derive(Debug)]
pub(crate) enum Listener {
    Once(Mailbox<Signal>),
    Always(Mailbox<Notice>),
}

/// Commands for the driver, in the order of the calls.
#[derive(Debug)]
pub(crate) enum Command {
    Submit {
        id: RequestId,
        frame: Frame,
        reply: oneshot::Sender<Reply>,
        effect: Effect,
        series: Option<Series>,
        /// The receiver of the events of the request's watch.
        listener: Option<(WatcherId, Listener)>,
    },
    Authenticate {
        id: RequestId,
        scheme: String,
        auth: Vec<u8>,
        reply: oneshot::Sender<Reply>,
    },
    Withdraw(RequestId),
    Unwatch(WatcherId),
    /// Adds a receiver of state changes.
    Tell(Mailbox<SessionState>),
    /// Adds a receiver of notifications.
    Overhear(Mailbox<Notification>),
    /// Closes the session. A caller may wait for its progress.
    Close(RequestId, oneshot::Sender<Reply>, Option<Arc<Farewell>>),
    /// Ends the driver without closing the session.
    Leave,
}

#[derive(Debug)]
struct Queue {
    commands: Vec<Command>,
    next_request: u64,
    next_watcher: u64,
    next_unique: u64,
    driver: Option<Waker>,
    /// Set when the driver takes no more commands.
    ending: Option<Ending>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) status: watch::Sender<Status>,
    /// The driver's thread.
    pub(crate) thread: SessionThread,
    /// The seed of all random decisions.
    pub(crate) seed: u64,
    /// Servers that could not be found.
    missing: Mutex<Option<Box<str>>>,
    /// Servers that could not be used since the last connection, with the reasons.
    refused: Mutex<VecDeque<(SocketAddr, Box<str>)>>,
    queue: Mutex<Queue>,
    start: Instant,
    clock: Clock,
    /// The oldest release of the servers, major and minor number.
    server_version: (u16, u16),
    /// Nanoseconds from `start` until the client sent the last message that a server has answered;
    /// zero if there is none.
    proven: AtomicU64,
    metrics: Published,
}

/// The watch that a request leaves, with the absolute path.
pub(crate) struct Wanted {
    pub(crate) kind: WatchKind,
    pub(crate) path: Arc<str>,
    pub(crate) listener: Listener,
}

/// A request with its place in the order.
pub(crate) struct Placed {
    pub(crate) id: RequestId,
    pub(crate) reply: oneshot::Receiver<Reply>,
}

impl Shared {
    pub(crate) fn new(status: Status, thread: SessionThread, seed: u64) -> Self {
        let queue = Queue {
            commands: Vec::new(),
            next_request: 1,
            next_watcher: 1,
            next_unique: 0,
            driver: None,
            ending: None,
        };
        let (missing, refused) = (Mutex::default(), Mutex::default());
        let status = watch::Sender::new(status);
        let (proven, metrics) = (AtomicU64::new(0), Published::default());
        let (queue, start, clock) = (Mutex::new(queue), Instant::now(), Clock::default());
        let server_version = Options::default().server_version;
        Self {
            status,
            thread,
            seed,
            missing,
            refused,
            queue,
            start,
            clock,
            server_version,
            proven,
            metrics,
        }
    }

    pub(crate) fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    pub(crate) fn with_server_version(self, server_version: (u16, u16)) -> Self {
        Self { server_version, ..self }
    }

    /// Whether the servers know an operation.
    pub(crate) fn knows(&self, op: OpCode) -> bool {
        op.since() <= self.server_version
    }

    /// The operation for this kind of create: servers of 3.4 answer every create with its path
    /// alone.
    pub(crate) fn create_op(&self, op: OpCode) -> OpCode {
        if op == OpCode::CREATE2 && !self.knows(op) { OpCode::CREATE } else { op }
    }

    /// The time of day.
    pub(crate) fn wall_clock(&self) -> SystemTime {
        self.clock.now()
    }

    /// The time since the client was created.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The moment at which the client was created.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// The time at which the last answered message was sent.
    pub(crate) fn proven(&self) -> Option<Duration> {
        let proven = self.proven.load(Ordering::Relaxed);
        (proven > 0).then(|| Duration::from_nanos(proven))
    }

    /// Records that a server has answered a message that was sent at `proven`. Only the driver
    /// calls this.
    pub(crate) fn prove(&self, proven: Duration) {
        self.proven.store(nanos(proven), Ordering::Relaxed);
    }

    /// The driver's current counts.
    pub(crate) fn metrics(&self) -> Metrics {
        self.metrics.read()
    }

    /// Publishes the driver's counts. Only the driver calls this.
    pub(crate) fn publish(&self, metrics: &Metrics) {
        self.metrics.publish(metrics);
    }

    /// Gives a request its place in the order, which is fixed from now on.
    pub(crate) fn submit(&self, frame: Frame, effect: Effect, series: Option<Series>) -> Placed {
        self.place(|_, id, reply| {
            let listener = None;
            Command::Submit { id, frame, reply, effect, series, listener }
        })
    }

    /// As [`Shared::submit`], for a request that leaves a watch.
    pub(crate) fn submit_watch(
        &self,
        frame: Frame,
        wanted: Wanted,
        series: Option<Series>,
    ) -> (Placed, WatcherId) {
        let mut watcher = WatcherId(0);
        let placed = self.place(|queue, id, reply| {
            watcher = WatcherId(queue.next_watcher);
            queue.next_watcher += 1;
            let Wanted { kind, path, listener } = wanted;
            let effect = Effect::Watch(Registration { watcher, kind, path });
            let listener = Some((watcher, listener));
            Command::Submit { id, frame, reply, effect, series, listener }
        });
        (placed, watcher)
    }

    /// A number that this client has not used yet.
    pub(crate) fn unique_number(&self) -> u64 {
        let mut queue = self.queue.lock();
        queue.next_unique += 1;
        queue.next_unique
    }

    pub(crate) fn authenticate(&self, scheme: String, auth: Vec<u8>) -> Placed {
        self.place(|_, id, reply| Command::Authenticate { id, scheme, auth, reply })
    }

    pub(crate) fn close(&self) -> Placed {
        self.place(|_, id, reply| Command::Close(id, reply, None))
    }

    /// Closes the session after the last handle was dropped. Returns once the server was told, or
    /// after a second at most, because the program may be about to end.
    pub(crate) fn close_behind(&self) {
        let farewell = Arc::new(Farewell::new());
        drop(self.place(|_, id, reply| Command::Close(id, reply, Some(farewell.clone()))));
        if !self.thread.is_current() {
            farewell.wait(tokio::runtime::Handle::try_current().is_ok());
        }
    }

    fn place(
        &self,
        command: impl FnOnce(&mut Queue, RequestId, oneshot::Sender<Reply>) -> Command,
    ) -> Placed {
        let (sender, reply) = oneshot::channel();
        let mut id = RequestId(0);
        self.enqueue(|queue| {
            id = RequestId(queue.next_request);
            queue.next_request += 1;
            command(queue, id, sender)
        });
        Placed { id, reply }
    }

    pub(crate) fn command(&self, command: Command) {
        self.enqueue(|_| command);
    }

    fn enqueue(&self, command: impl FnOnce(&mut Queue) -> Command) {
        let mut queue = self.queue.lock();
        let command = command(&mut queue);
        if let Some(ending) = queue.ending {
            drop(queue);
            refuse(command, ending);
            return;
        }
        queue.commands.push(command);
        let driver = queue.driver.take();
        drop(queue);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Moves all commands into the empty `commands`. The next command wakes the driver.
    pub(crate) fn take(&self, cx: &Context<'_>, commands: &mut Vec<Command>) {
        let mut queue = self.queue.lock();
        std::mem::swap(&mut queue.commands, commands);
        if !queue.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            queue.driver = Some(cx.waker().clone());
        }
    }

    /// Refuses the waiting commands and all later ones.
    pub(crate) fn finish(&self, ending: Ending) {
        let mut queue = self.queue.lock();
        queue.ending = Some(ending);
        let commands = std::mem::take(&mut queue.commands);
        queue.driver = None;
        drop(queue);
        commands.into_iter().for_each(|command| refuse(command, ending));
    }

    /// The known reasons for the lack of a connection: servers that cannot be found, and the last
    /// failures to connect to others.
    pub(crate) fn trouble(&self) -> Option<Box<str>> {
        let missing = self.missing.lock().as_deref().map(ToOwned::to_owned);
        let refused = self.refused.lock();
        let refused = refused.iter().map(|(server, why)| format!("{server}: {why}"));
        let all: Vec<String> = missing.into_iter().chain(refused).collect();
        (!all.is_empty()).then(|| all.join("; ").into())
    }

    /// Records why a server could not be used.
    pub(crate) fn refused(&self, server: SocketAddr, why: &str) {
        let mut refused = self.refused.lock();
        refused.retain(|(other, _)| *other != server);
        if refused.len() == REFUSED_MAX {
            refused.pop_front();
        }
        refused.push_back((server, why.into()));
    }

    /// Records that the client waits for a server: [`NO_ANSWER`] or [`NO_HANDSHAKE`]. This is the
    /// reason that is reported until the server answers or another reason is known.
    pub(crate) fn waited(&self, server: SocketAddr, what: &'static str) {
        let is_known = (self.refused.lock().iter())
            .any(|(other, why)| *other == server && ![NO_ANSWER, NO_HANDSHAKE].contains(&&**why));
        if !is_known {
            self.refused(server, what);
        }
    }

    /// Forgets all failures, because there is a connection.
    pub(crate) fn forget_refused(&self) {
        self.refused.lock().clear();
    }

    /// Records the servers that cannot be found. Returns whether the list has changed.
    pub(crate) fn set_missing(&self, missing: Option<Box<str>>) -> bool {
        let mut before = self.missing.lock();
        let is_new = missing.is_some() && *before != missing;
        *before = missing;
        is_new
    }

    /// Why the session has ended, if it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        let ending = self.status.borrow().state.ending();
        ending.or_else(|| self.queue.lock().ending)
    }
}

fn refuse(command: Command, ending: Ending) {
    let reply = match command {
        Command::Submit { reply, listener, .. } => {
            if let Some((_, listener)) = listener {
                listener.close();
            }
            reply
        }
        Command::Authenticate { reply, .. } => reply,
        Command::Close(_, reply, farewell) => {
            if let Some(farewell) = farewell {
                farewell.reach(Stage::Over);
            }
            reply
        }
        Command::Tell(states) => return states.close(),
        Command::Overhear(heard) => return heard.close(),
        Command::Withdraw(_) | Command::Unwatch(_) | Command::Leave => return,
    };
    let _ = reply.send(Err(Failure::Over(ending)));
}

impl Listener {
    pub(crate) fn close(&self) {
        match self {
            Self::Once(events) => events.close(),
            Self::Always(notices) => notices.close(),
        }
    }

    /// Reports the state of the session.
    pub(crate) fn tell(&self, state: State) {
        match (self, state) {
            // A disconnection replaces all waiting signals, so frequent changes do not fill the
            // queue.
            (Self::Once(signals), State::Disconnected) => {
                signals.put_instead(Signal::Session(state.into()));
            }
            (Self::Once(signals), _) => {
                let signal = || Signal::Session(state.into());
                signals.put(signal(), signal);
            }
            (Self::Always(notices), State::Disconnected) => {
                notices.put(Notice::Disconnected, || Notice::Missed);
            }
            (Self::Always(notices), State::Connected | State::ConnectedReadOnly) => {
                notices.put(Notice::Missed, || Notice::Missed);
            }
            (Self::Always(_), State::Connecting | State::Over(_)) => {}
        }
    }
}
