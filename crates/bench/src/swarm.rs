//! Many sessions driven by one thread: connects them, keeps each one's pipeline full, counts what
//! comes back.
//!
//! Owns sockets, batching and timing; what is asked is a [`Workload`]'s business. One read and one
//! write system call serve as many requests as there are; per reply no more than the header is looked
//! at.

mod moving;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::clock::{Clock, Nanos, nanos, thread_cpu};
use crate::tally::{Kind, Tally};
use crate::wire::{self, LENGTH_BYTES, SessionKey};

/// Readiness events taken per turn.
const EVENTS_MAX: usize = 1024;
/// Bytes read per system call.
const READ_BYTES: usize = 256 << 10;
/// No further requests are queued on a connection with this much unsent.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Longest wait for an event, so that deadlines are noticed.
const TURN_MAX: Duration = Duration::from_millis(20);
/// How long after the last request replies may still arrive.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);
/// How often idle sessions are looked through for those that need a ping.
const PING_ROUND: Nanos = 50_000_000;
/// The token of the open loop's timer.
const TIMER: Token = Token(usize::MAX - 1);

/// What a connection dies of whose session a server does not know.
const NO_SESSION: &str = "the server granted no session";

/// What to ask.
pub(crate) trait Workload {
    /// Appends the next request of connection `conn` to `out`, or nothing when it has no more.
    fn next(&mut self, conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind>;

    /// A notification arrived at connection `conn`.
    fn notified(&mut self, _conn: usize, _now: Nanos) {}

    /// Whether all that was waited for has happened.
    fn is_done(&self) -> bool {
        false
    }
}

/// Asks nothing.
pub(crate) struct Idle;

impl Workload for Idle {
    fn next(&mut self, _conn: usize, _xid: i32, _out: &mut Vec<u8>) -> Option<Kind> {
        None
    }
}

/// How to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Requests a connection may have in flight.
    pub(crate) depth: u32,
    /// Requests per second over all connections, at fixed intervals whatever the replies do (open
    /// loop); `None` sends the next request when a reply arrives (closed loop).
    pub(crate) rate: Option<f64>,
    /// When to begin; only the open loop's schedule depends on it.
    pub(crate) start: Nanos,
    /// No request is sent after this.
    pub(crate) stop: Nanos,
    /// Whether to stay until `stop` or until the workload is done, though all is answered.
    pub(crate) linger: bool,
    /// Idle sessions are pinged after this long.
    pub(crate) ping_after: Option<Duration>,
}

impl Plan {
    /// Everything the workload has, as fast as replies come, within `limit`.
    pub(crate) fn all(clock: Clock, depth: u32, limit: Duration) -> Self {
        let start = clock.now();
        Self {
            depth,
            rate: None,
            start,
            stop: start + nanos(limit),
            linger: false,
            ping_after: None,
        }
    }

    /// Waits up to `limit` for the workload to be done, keeping sessions alive.
    pub(crate) fn wait(clock: Clock, limit: Duration, ping_after: Duration) -> Self {
        Self { linger: true, ping_after: Some(ping_after), ..Self::all(clock, 1, limit) }
    }
}

/// A run of requests of one kind that began together.
#[derive(Clone, Copy, Debug)]
struct Run {
    began: Nanos,
    kind: Kind,
    left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Greeting,
    Ready,
    Gone,
}

#[derive(Debug)]
struct Conn {
    stream: TcpStream,
    phase: Phase,
    session: SessionKey,
    /// Requests not yet taken by the kernel; those before `written` are.
    out: Vec<u8>,
    written: usize,
    /// The start of a reply whose end has not arrived.
    partial: Vec<u8>,
    /// Requests in flight, oldest first. Invariant: the sum of `left` is `in_flight`.
    runs: VecDeque<Run>,
    in_flight: u32,
    next_xid: i32,
    expected_xid: i32,
    last_sent: Nanos,
}

/// Why a connection ended.
#[derive(Debug)]
struct Broken(String);

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Sessions of one thread.
#[derive(Debug)]
pub(crate) struct Swarm {
    poll: Poll,
    events: Events,
    timer: Option<timer::Timer>,
    conns: Vec<Conn>,
    scratch: Vec<u8>,
    clock: Clock,
    /// Requests in flight over all connections.
    in_flight: u64,
    /// Sessions that are established.
    ready: usize,
    /// What the first connection that broke died of.
    first_break: Option<String>,
    last_ping_round: Nanos,
}

impl Swarm {
    /// No sessions yet.
    pub(crate) fn new(clock: Clock) -> anyhow::Result<Self> {
        Ok(Self {
            poll: Poll::new().context("create an epoll instance")?,
            events: Events::with_capacity(EVENTS_MAX),
            timer: None,
            conns: Vec::new(),
            scratch: vec![0; READ_BYTES],
            clock,
            in_flight: 0,
            ready: 0,
            first_break: None,
            last_ping_round: 0,
        })
    }

    /// Opens `count` sessions more, spread over `servers`, at most `opening_max` at a time.
    pub(crate) fn open(
        &mut self,
        servers: &[SocketAddr],
        count: usize,
        opening_max: usize,
        session_timeout: Duration,
        limit: Duration,
    ) -> anyhow::Result<()> {
        let timeout_ms = i32::try_from(session_timeout.as_millis()).unwrap_or(i32::MAX);
        let hello = wire::connect_request(timeout_ms, &SessionKey::default());
        let deadline = self.clock.now() + nanos(limit);
        let goal = self.conns.len() + count;
        while self.ready < goal {
            while self.conns.len() < goal && self.conns.len() - self.ready < opening_max {
                let id = self.conns.len();
                let server = servers[id % servers.len()];
                self.connect(server).with_context(|| format!("connect to {server}"))?;
            }
            if self.clock.now() > deadline {
                let (ready, wanted) = (self.ready, goal);
                bail!("only {ready} of {wanted} sessions open after {limit:?}");
            }
            self.ping_idle(self.clock.now(), session_timeout / 3);
            self.wait(TURN_MAX)?;
            for event in self.events.iter() {
                let Some(conn) = self.conns.get_mut(event.token().0) else { continue };
                match conn.greet(&hello, &mut self.scratch) {
                    Ok(true) => self.ready += 1,
                    Ok(false) => {}
                    Err(Broken(why)) => bail!(
                        "session {} of {goal} refused: {why}\nhint: the server's maxClientCnxns \
                         and open file limit bound the sessions of one machine",
                        event.token().0 + 1
                    ),
                }
            }
        }
        Ok(())
    }

    fn connect(&mut self, server: SocketAddr) -> io::Result<()> {
        let mut stream = TcpStream::connect(server)?;
        let token = Token(self.conns.len());
        self.poll.registry().register(
            &mut stream,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        self.conns.push(Conn {
            stream,
            phase: Phase::Connecting,
            session: SessionKey::default(),
            out: Vec::new(),
            written: 0,
            partial: Vec::new(),
            runs: VecDeque::new(),
            in_flight: 0,
            next_xid: 1,
            expected_xid: 1,
            last_sent: self.clock.now(),
        });
        Ok(())
    }

    /// What the first connection that broke died of.
    pub(crate) fn first_break(&self) -> Option<&str> {
        self.first_break.as_deref()
    }

    fn wait(&mut self, timeout: Duration) -> anyhow::Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other.context("wait for events"),
        }
    }

    /// Works through `work` as `plan` says and counts into `tally`.
    pub(crate) fn drive<W: Workload>(
        &mut self,
        work: &mut W,
        plan: &Plan,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let mut schedule = plan.rate.map(|rate| Schedule::new(plan.start, plan.stop, rate));
        if schedule.is_some() && self.timer.is_none() {
            self.timer = Some(timer::Timer::new(&self.poll, TIMER).context("create a timer")?);
        }
        let mut cpu = CpuWindow::default();
        let mut is_silent = false;
        if schedule.is_none() {
            for id in 0..self.conns.len() {
                self.advance(id, false, work, plan, tally);
            }
        }
        loop {
            let now = self.clock.now();
            cpu.observe(now, tally);
            let sending = now < plan.stop;
            if let Some(schedule) = &mut schedule {
                self.send_due(schedule, now, work, plan, tally);
            }
            if work.is_done() || (self.ready == 0 && !self.conns.is_empty()) {
                break;
            }
            let waits = plan.linger || schedule.is_some();
            if self.in_flight == 0 && !(waits && sending) {
                break;
            }
            // A machine that stood still for that long has replies that only have to be read.
            if is_silent && now > plan.stop.saturating_add(nanos(DRAIN)) {
                break;
            }
            if let Some(after) = plan.ping_after {
                self.ping_idle(now, after);
            }
            let pause = Duration::from_nanos(plan.stop.saturating_sub(now)).min(TURN_MAX);
            self.wait(if sending { pause } else { TURN_MAX })?;
            is_silent = self.events.is_empty();
            let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
            for event in &events {
                if event.token() == TIMER {
                    continue;
                }
                let reads = event.is_readable() || event.is_read_closed() || event.is_error();
                self.advance(event.token().0, reads, work, plan, tally);
            }
            self.events = events;
        }
        cpu.finish(tally);
        tally.unanswered += self.in_flight + schedule.map_or(0, |left| left.unsent());
        Ok(())
    }

    /// Reads what is there, fills the pipeline again, writes what there is to write.
    fn advance<W: Workload>(
        &mut self,
        id: usize,
        reads: bool,
        work: &mut W,
        plan: &Plan,
        tally: &mut Tally,
    ) {
        let conn = &mut self.conns[id];
        if conn.phase != Phase::Ready {
            return;
        }
        let before = conn.in_flight;
        let mut now = None;
        let mut result = Ok(());
        if reads {
            let clock = self.clock;
            result = conn.read(id, &mut self.scratch, clock, work, tally).map(|at| now = at);
        }
        if result.is_ok() {
            if plan.rate.is_none() && conn.in_flight < plan.depth {
                let now = now.unwrap_or_else(|| self.clock.now());
                if now < plan.stop {
                    conn.fill(id, plan.depth, now, work);
                }
            }
            result = conn.flush();
        }
        self.in_flight = self.in_flight + u64::from(conn.in_flight) - u64::from(before);
        if let Err(broken) = result {
            self.lose(id, broken, tally);
        }
    }

    fn send_due<W: Workload>(
        &mut self,
        schedule: &mut Schedule,
        now: Nanos,
        work: &mut W,
        plan: &Plan,
        tally: &mut Tally,
    ) {
        while let Some(due) = schedule.due(now) {
            // Whose turn it is, passing over those that are full or gone.
            let count = self.conns.len();
            let turn = (0..count).map(|skip| (schedule.turn + skip) % count).find(|&id| {
                self.conns[id].phase == Phase::Ready && self.conns[id].in_flight < plan.depth
            });
            let Some(id) = turn else { break };
            schedule.turn = id + 1;
            schedule.sent();
            if self.conns[id].push(id, due, now, work) {
                self.in_flight += 1;
            }
            if schedule.turn.is_multiple_of(64) || self.conns[id].out.len() > READ_BYTES {
                self.flush(id, tally);
            }
        }
        for id in 0..self.conns.len() {
            if !self.conns[id].out.is_empty() {
                self.flush(id, tally);
            }
        }
        // A request that is due already waits for room in a pipeline, and the reply that makes it
        // is an event of its own.
        if let (Some(timer), Some(due)) = (&self.timer, schedule.next())
            && due > now
        {
            timer.arm(Duration::from_nanos(due.saturating_sub(self.clock.now()).max(1)));
        }
    }

    fn flush(&mut self, id: usize, tally: &mut Tally) {
        let conn = &mut self.conns[id];
        if conn.phase == Phase::Ready
            && let Err(broken) = conn.flush()
        {
            self.lose(id, broken, tally);
        }
    }

    fn ping_idle(&mut self, now: Nanos, after: Duration) {
        if now < self.last_ping_round + PING_ROUND {
            return;
        }
        self.last_ping_round = now;
        for conn in &mut self.conns {
            if conn.phase == Phase::Ready && conn.last_sent + nanos(after) < now {
                conn.last_sent = now;
                wire::ping(&mut conn.out);
                let _ = conn.flush(); // a broken connection shows when it is read
                if conn.out.is_empty() {
                    conn.out = Vec::new();
                }
            }
        }
    }

    fn lose(&mut self, id: usize, Broken(why): Broken, tally: &mut Tally) {
        let conn = &mut self.conns[id];
        conn.phase = Phase::Gone;
        tally.lost += u64::from(conn.in_flight);
        self.in_flight -= u64::from(conn.in_flight);
        conn.in_flight = 0;
        conn.runs.clear();
        conn.out.clear();
        conn.written = 0;
        self.ready -= 1;
        self.first_break.get_or_insert(why);
        let _ = self.poll.registry().deregister(&mut conn.stream); // it is going away either way
    }

    /// Ends all sessions in order and waits, at most `limit`, for the server to say so.
    pub(crate) fn close(mut self, limit: Duration) -> anyhow::Result<Tally> {
        let mut tally = Tally::whole();
        let mut work = Once::new(self.conns.len(), |xid, out| {
            wire::frame(out, xid, wire::op::CLOSE_SESSION, |_| {});
        });
        self.drive(&mut work, &Plan::all(self.clock, 1, limit), &mut tally)?;
        Ok(tally)
    }
}

impl Conn {
    /// Takes a connection further towards a session; `true` when it has one now.
    fn greet(&mut self, hello: &[u8], scratch: &mut [u8]) -> Result<bool, Broken> {
        if self.phase == Phase::Connecting {
            if let Some(error) = self.stream.take_error()? {
                return Err(error.into());
            }
            match self.stream.peer_addr() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            self.stream.set_nodelay(true)?;
            self.out.extend_from_slice(hello);
            self.phase = Phase::Greeting;
        }
        if self.phase != Phase::Greeting {
            return Ok(false);
        }
        self.flush()?;
        match self.stream.read(scratch) {
            Ok(0) => return Err(Broken("the server closed the connection".into())),
            Ok(count) => self.partial.extend_from_slice(&scratch[..count]),
            Err(error) if is_for_later(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let Some(payload) = payload_at(&self.partial)? else { return Ok(false) };
        let Some(session) = wire::granted(payload) else {
            return Err(Broken(NO_SESSION.into()));
        };
        self.session = session;
        self.partial = Vec::new();
        self.out = Vec::new();
        self.phase = Phase::Ready;
        Ok(true)
    }

    /// Reads all that is there; the time of the last read, if any.
    fn read<W: Workload>(
        &mut self,
        id: usize,
        scratch: &mut Vec<u8>,
        clock: Clock,
        work: &mut W,
        tally: &mut Tally,
    ) -> Result<Option<Nanos>, Broken> {
        let mut last = None;
        loop {
            let kept = self.partial.len();
            if scratch.len() < kept + READ_BYTES {
                scratch.resize(kept + READ_BYTES, 0);
            }
            let count = match self.stream.read(&mut scratch[kept..]) {
                Ok(0) => return Err(Broken("the server closed the connection".into())),
                Ok(count) => count,
                Err(error) if is_for_later(&error) => return Ok(last),
                Err(error) => return Err(error.into()),
            };
            scratch[..kept].copy_from_slice(&self.partial);
            let now = clock.now();
            last = Some(now);
            let bytes = &scratch[..kept + count];
            let used = self.replies(id, bytes, now, work, tally)?;
            self.partial.clear();
            self.partial.extend_from_slice(&bytes[used..]);
            if kept + count < scratch.len() {
                return Ok(last); // drained: the next byte raises a new event
            }
        }
    }

    /// Takes the whole replies at the start of `bytes`; how many bytes they had.
    fn replies<W: Workload>(
        &mut self,
        id: usize,
        bytes: &[u8],
        now: Nanos,
        work: &mut W,
        tally: &mut Tally,
    ) -> Result<usize, Broken> {
        let mut at = 0;
        // Successful replies to the oldest run that are not in the tally yet.
        let mut good = 0;
        while let Some(payload) = payload_at(&bytes[at..])? {
            at += LENGTH_BYTES + payload.len();
            let Some((xid, err)) = wire::reply_header(payload) else {
                return Err(Broken("a reply shorter than its header".into()));
            };
            if xid == self.expected_xid
                && let Some(run) = self.runs.front_mut()
            {
                self.expected_xid = following(xid);
                self.in_flight -= 1;
                run.left -= 1;
                if err == 0 {
                    good += 1;
                } else {
                    *tally.errors.entry(err).or_default() += 1;
                }
                if run.left == 0 {
                    tally.answered(run.kind, good, run.began, now);
                    good = 0;
                    self.runs.pop_front();
                }
            } else if xid == wire::XID_NOTIFICATION {
                work.notified(id, now);
            } else if xid != wire::XID_PING {
                let expected = self.expected_xid;
                return Err(Broken(format!("reply out of order: xid {xid}, not {expected}")));
            }
        }
        if good > 0
            && let Some(run) = self.runs.front()
        {
            tally.answered(run.kind, good, run.began, now);
        }
        Ok(at)
    }

    /// Queues requests until `depth` of them are in flight.
    fn fill<W: Workload>(&mut self, id: usize, depth: u32, now: Nanos, work: &mut W) {
        while self.in_flight < depth
            && self.out.len() - self.written < UNSENT_BYTES_MAX
            && self.push(id, now, now, work)
        {}
    }

    /// Queues one request that began at `began`; `false` when there is none.
    fn push<W: Workload>(&mut self, id: usize, began: Nanos, now: Nanos, work: &mut W) -> bool {
        let Some(kind) = work.next(id, self.next_xid, &mut self.out) else { return false };
        self.next_xid = following(self.next_xid);
        self.in_flight += 1;
        self.last_sent = now;
        match self.runs.back_mut() {
            Some(run) if run.began == began && run.kind == kind => run.left += 1,
            _ => self.runs.push_back(Run { began, kind, left: 1 }),
        }
        true
    }

    /// Writes as much as the kernel takes.
    fn flush(&mut self) -> Result<(), Broken> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(Broken("the connection takes no more bytes".into())),
                Ok(count) => self.written += count,
                Err(error) if is_for_later(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }
}

/// The payload of the frame at the start of `bytes`, when all of it is there.
#[inline]
fn payload_at(bytes: &[u8]) -> Result<Option<&[u8]>, Broken> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(length) if length <= wire::REPLY_BYTES_MAX => Ok(rest.get(..length)),
        _ => Err(Broken(format!("unreasonable reply length: {length}"))),
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The xid after this one; positive for ever.
fn following(xid: i32) -> i32 {
    xid.checked_add(1).unwrap_or(1)
}

/// One request per connection.
pub(crate) struct Once<F> {
    asked: Vec<bool>,
    request: F,
}

impl<F: FnMut(i32, &mut Vec<u8>)> Once<F> {
    pub(crate) fn new(connections: usize, request: F) -> Self {
        Self { asked: vec![false; connections], request }
    }
}

impl<F: FnMut(i32, &mut Vec<u8>)> Workload for Once<F> {
    fn next(&mut self, conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind> {
        if std::mem::replace(&mut self.asked[conn], true) {
            return None;
        }
        (self.request)(xid, out);
        Some(Kind::Read)
    }
}

/// When the requests of an open loop are due: at equal intervals, from start to stop.
#[derive(Debug)]
struct Schedule {
    start: Nanos,
    interval_ns: f64,
    count: u64,
    index: u64,
    /// The connection whose turn it is.
    turn: usize,
}

impl Schedule {
    fn new(start: Nanos, stop: Nanos, rate: f64) -> Self {
        let interval_ns = 1e9 / rate;
        let count = (stop.saturating_sub(start) as f64 / interval_ns) as u64;
        Self { start, interval_ns, count, index: 0, turn: 0 }
    }

    /// When the next request is due; `None` when the schedule is done.
    fn next(&self) -> Option<Nanos> {
        let due = self.start + (self.index as f64 * self.interval_ns) as u64;
        (self.index < self.count).then_some(due)
    }

    /// When the next request was due, if it is by now.
    fn due(&self, now: Nanos) -> Option<Nanos> {
        self.next().filter(|&due| due <= now)
    }

    fn sent(&mut self) {
        self.index += 1;
    }

    fn unsent(&self) -> u64 {
        self.count - self.index
    }
}

/// CPU time of this thread between the edges of the window.
#[derive(Default)]
struct CpuWindow {
    at_start: Option<Duration>,
    counted: bool,
}

impl CpuWindow {
    fn observe(&mut self, now: Nanos, tally: &mut Tally) {
        if self.at_start.is_none() && now >= tally.window.start {
            self.at_start = Some(thread_cpu());
        }
        if !self.counted && now >= tally.window.end {
            self.finish(tally);
        }
    }

    fn finish(&mut self, tally: &mut Tally) {
        if let (Some(start), false) = (self.at_start, self.counted) {
            tally.cpu += thread_cpu().saturating_sub(start);
            self.counted = true;
        }
    }
}

/// Wakes an open loop when its next request is due, more finely than the milliseconds of `epoll_wait`.
#[cfg(target_os = "linux")]
mod timer {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::Duration;

    use mio::unix::SourceFd;
    use mio::{Interest, Poll, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    #[derive(Debug)]
    pub(super) struct Timer(OwnedFd);

    impl Timer {
        pub(super) fn new(poll: &Poll, token: Token) -> io::Result<Self> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
            poll.registry().register(
                &mut SourceFd(&timer.as_raw_fd()),
                token,
                Interest::READABLE,
            )?;
            Ok(Self(timer))
        }

        pub(super) fn arm(&self, after: Duration) {
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec {
                tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(after.subsec_nanos()),
            };
            let once = Itimerspec { it_interval: zero, it_value: value };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)
                .expect("the timer is open and the time is in range");
        }
    }
}

/// Without a timer of the kernel's, requests of an open loop go out up to [`TURN_MAX`] late, which
/// their latency then includes.
#[cfg(not(target_os = "linux"))]
mod timer {
    use std::io;
    use std::time::Duration;

    use mio::{Poll, Token};

    #[derive(Debug)]
    pub(super) struct Timer;

    impl Timer {
        pub(super) fn new(_poll: &Poll, _token: Token) -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn arm(&self, _after: Duration) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_spreads_the_rate_over_the_time() {
        let mut schedule = Schedule::new(1_000, 1_000_001_000, 4.0);
        assert_eq!(schedule.due(999), None);
        let mut due = Vec::new();
        while let Some(at) = schedule.next() {
            due.push(at - 1_000);
            schedule.sent();
        }
        assert_eq!(due, [0, 250_000_000, 500_000_000, 750_000_000]);
        assert_eq!(schedule.unsent(), 0);
    }

    #[test]
    fn xids_stay_positive() {
        assert_eq!(following(1), 2);
        assert_eq!(following(i32::MAX), 1);
    }

    #[test]
    fn frames_are_taken_whole_or_not_at_all() {
        let frame = [0, 0, 0, 2, 7, 8, 0];
        assert_eq!(payload_at(&frame).unwrap(), Some(&[7, 8][..]));
        assert_eq!(payload_at(&frame[..5]).unwrap(), None);
        assert_eq!(payload_at(&frame[..3]).unwrap(), None);
        assert!(payload_at(&[0xff; 4]).is_err());
    }
}
