//! Many sessions driven by one thread: it connects them, keeps the pipeline of each session full,
//! and counts the answers.
//!
//! Owns sockets, batching and timing; a [`Workload`] chooses the requests. One read and one write
//! system call serve as many requests as possible. Of each reply, only the header is read.

mod conn;
mod link;
mod moving;
mod schedule;
mod timer;
mod workload;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};

use conn::{Broken, Conn, Phase};
use link::Link;
use schedule::{CpuWindow, Schedule};
use timer::Timer;
pub(crate) use workload::{Idle, Once, Plan, Workload};

use crate::client::Client;
use crate::clock::{Clock, Nanos, nanos};
use crate::entry::Entry;
use crate::tally::Tally;
use crate::wire::{self, SessionKey};

/// Readiness events taken per turn.
const EVENTS_MAX: usize = 1024;
/// Bytes read per system call.
const READ_BYTES: usize = 256 << 10;
/// The longest wait for an event, so that deadlines are noticed.
const TURN_MAX: Duration = Duration::from_millis(20);
/// How long the run waits for replies after the last request.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);
/// The interval of checks for sessions that need a ping.
const PING_ROUND: Nanos = 50_000_000;
/// The token of the open loop's timer.
const TIMER: Token = Token(usize::MAX - 1);

/// Sessions of one thread.
#[derive(Debug)]
pub(crate) struct Swarm {
    poll: Poll,
    events: Events,
    timer: Option<Timer>,
    conns: Vec<Conn>,
    /// TLS and SASL, if configured.
    entry: Entry,
    scratch: Vec<u8>,
    clock: Clock,
    /// Requests in flight on all connections.
    in_flight: u64,
    /// Established sessions.
    ready: usize,
    /// Why the first connection broke.
    first_break: Option<String>,
    last_ping_round: Nanos,
    /// The address that connections come from, unless the system chooses it.
    source: Option<Ipv4Addr>,
}

impl Swarm {
    /// A swarm without sessions.
    pub(crate) fn new(clock: Clock) -> anyhow::Result<Self> {
        Ok(Self {
            poll: Poll::new().context("create an epoll instance")?,
            events: Events::with_capacity(EVENTS_MAX),
            timer: None,
            conns: Vec::new(),
            entry: Entry::default(),
            scratch: vec![0; READ_BYTES],
            clock,
            in_flight: 0,
            ready: 0,
            first_break: None,
            last_ping_round: 0,
            source: None,
        })
    }

    /// Opens sessions with these settings.
    pub(crate) fn by(self, entry: &Entry) -> Self {
        Self { entry: entry.clone(), ..self }
    }

    /// Later connections to a server on this machine come from this address of the loopback
    /// network. One address has about 28,000 ports for all connections to one port of a server,
    /// those included that ended in the last minute, and the search for a free port becomes slow
    /// when few are left.
    pub(crate) fn come_from(&mut self, source: Ipv4Addr) {
        assert!(source.is_loopback(), "no other address is sure to be this machine's");
        self.source = Some(source);
    }

    /// Opens `count` more sessions, spread over `servers`. At most `opening_max` are in the
    /// handshake at a time.
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
        while !self.entry.is_plain() && self.conns.len() < goal {
            if self.clock.now() > deadline {
                bail!("only {} of {goal} sessions open after {limit:?}", self.ready);
            }
            self.ping_idle(self.clock.now(), session_timeout / 3);
            let server = servers[self.conns.len() % servers.len()];
            self.enter(server, timeout_ms, limit)?;
        }
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
        let Some(source) = self.source.filter(|_| server.ip().is_loopback() && server.is_ipv4())
        else {
            return self.add(TcpStream::connect(server)?.into());
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        match socket.connect(&server.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
                return Err(error);
            }
            _ => {}
        }
        self.add(TcpStream::from_std(socket.into()).into())
    }

    /// Opens one session, after its TLS handshake and SASL exchange.
    fn enter(
        &mut self,
        server: SocketAddr,
        timeout_ms: i32,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let number = self.conns.len() + 1;
        let (client, session) = Client::enter(&self.entry, server, patience, timeout_ms)
            .with_context(|| format!("session {number}"))?;
        let (socket, tls) = client.into_wire().into_parts();
        socket.set_nonblocking(true)?;
        self.add(Link::new(TcpStream::from_std(socket), tls))?;
        if let Some(conn) = self.conns.last_mut() {
            (conn.session, conn.phase) = (session, Phase::Ready);
        }
        self.ready += 1;
        Ok(())
    }

    fn add(&mut self, mut link: Link) -> io::Result<()> {
        let token = Token(self.conns.len());
        self.poll.registry().register(
            link.socket(),
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        self.conns.push(Conn::new(link, self.clock.now()));
        Ok(())
    }

    /// Why the first connection broke.
    pub(crate) fn first_break(&self) -> Option<&str> {
        self.first_break.as_deref()
    }

    fn wait(&mut self, timeout: Duration) -> anyhow::Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other.context("wait for events"),
        }
    }

    /// Runs `work` according to `plan`, and counts into `tally`.
    pub(crate) fn drive<W: Workload>(
        &mut self,
        work: &mut W,
        plan: &Plan,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let mut schedule = plan.rate.map(|rate| Schedule::new(plan.start, plan.stop, rate));
        if schedule.is_some() && self.timer.is_none() {
            self.timer = Some(Timer::new(&self.poll, TIMER).context("create a timer")?);
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
            // After a pause of the whole machine, replies may only wait to be read.
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

    /// Reads replies, fills the pipeline, and writes requests.
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
            // The next connection that is open and has room.
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
        // A request that is due already waits for room in a pipeline. The reply that makes room is
        // an event of its own.
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
        let in_flight = u64::from(conn.give_up());
        tally.lost += in_flight;
        self.in_flight -= in_flight;
        self.ready -= 1;
        self.first_break.get_or_insert(why);
        let _ = self.poll.registry().deregister(conn.stream.socket()); // it is going away either way
    }

    /// Closes all sessions, and waits up to `limit` for the answers.
    pub(crate) fn close(mut self, limit: Duration) -> anyhow::Result<Tally> {
        let mut tally = Tally::whole();
        let mut work = Once::new(self.conns.len(), |xid, out| {
            wire::frame(out, xid, wire::op::CLOSE_SESSION, |_| {});
        });
        self.drive(&mut work, &Plan::all(self.clock, 1, limit), &mut tally)?;
        Ok(tally)
    }
}
