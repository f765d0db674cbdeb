//! A client's connection and its socket: one task on a network worker.
//!
//! [`zebu_engine::client`] decides what happens with the bytes.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::Interest;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use zebu_engine::client::{Asking, End, Phase, Run, Wants, Word, Worker};
use zebu_engine::sasl::SaslEvent;
use zebu_engine::{Common, Ticket};
use zebu_proto::request::ConnectRequest;
use zebu_proto::{OpCode, SessionId, Xid};
use zebu_replica::Input;
use zebu_replica::auth::{Credentials, Refused};
use zebu_transport::{READ_BYTES, Stream};

use crate::clients::access;
use crate::clients::authentication;
use crate::clients::conn::{Conn, Side};
use crate::clients::four_letter_words::{self, Parsed, Question};
use crate::clients::long_turns::LongTurns;
use crate::clients::worker_turns;
use crate::config::LoggingConfig;
use crate::counting::requests::{Ops, bytes_read, count_answers};
use crate::metrics::Gather;
use crate::shared::{Shared, StopOnPanic};
use crate::traced;

/// The time for an answer in flight to be sent when the connection is closed.
const LINGER: Duration = Duration::from_secs(5);

/// The reason why a network worker no longer serves a connection.
enum Turn {
    /// It has ended.
    Over,
    /// Another worker takes it over.
    Elsewhere,
}

/// How long a connection may wait for an event, and what ends with that time.
struct Deadline {
    until: Option<Instant>,
    phase: Phase,
    /// The question to an authentication service that has no answer yet.
    verdict: Option<Ticket>,
    /// Whether the client must authenticate and has not.
    is_stranger: bool,
}

/// Forgets the task of a connection: its waker keeps the runtime alive, and the runtime the server.
struct Forget(Arc<Conn>);

impl Drop for Forget {
    fn drop(&mut self) {
        self.0.side.task.take();
    }
}

/// A connection between two turns: everything except its socket.
pub struct Client {
    shared: Arc<Shared>,
    client: zebu_engine::client::Client<Side>,
    /// The deadlines of its connect request, and of its authentication if one is required.
    due: Instant,
    /// The time since which it waits for this server. This time does not count.
    waits: Option<Instant>,
}

/// Serves a connection until it ends, or until a network worker other than `worker` takes it over.
/// Returns whether it goes on there.
pub async fn serve(client: &mut Client, stream: &mut Stream, worker: usize) -> bool {
    let shared = client.shared.clone();
    let _guard = StopOnPanic::new(&shared, "a connection");
    let end = match client.drive(stream, worker).await {
        Ok(Turn::Over) => Ok(()),
        Ok(Turn::Elsewhere) => return true,
        Err(End::Word) => {
            if let Some(question) = client.question() {
                four_letter_words::answer(&shared, stream, question).await;
            }
            Ok(())
        }
        Err(end) => Err(end),
    };
    stream.finish();
    // Either the socket has room for the answers, or a client that does not read loses its
    // connection.
    let _ = stream.flush();
    client.leave();
    let peer = client.conn().side.peer;
    match end {
        Ok(()) | Err(End::Word | End::Refused) => {}
        Err(End::NotServing) => shared.clients.refused.say(peer),
        Err(End::Broken(why)) => {
            info!(connection = %peer, "closing the connection from {peer}: {why}")
        }
        Err(End::TooLarge) => {
            shared.metrics.large_requests_rejected.add(1);
            warn!(
                connection = %peer,
                "closing the connection from {peer}: large requests in progress reach largeRequestMaxBytes"
            );
        }
    }
    false
}

impl Client {
    /// A connection that was accepted at `accepted`, before its TLS handshake if it has TLS.
    pub fn new(shared: Arc<Shared>, conn: Arc<Conn>, accepted: Instant) -> Self {
        let due = accepted + shared.config.net.handshake_timeout;
        Self { shared, client: zebu_engine::client::Client::new(conn), due, waits: None }
    }

    /// The connection as other threads see it.
    pub fn conn(&self) -> &Conn {
        self.client.conn()
    }

    /// The connection has ended for all threads.
    pub fn leave(&self) {
        self.client.leave(&self.shared.common);
        drop(std::mem::take(&mut *self.conn().side.entered.lock()));
    }

    /// The four-letter word at the beginning of the connection.
    fn question(&self) -> Option<Question> {
        let (first, rest) = self.client.input().split_first_chunk::<4>()?;
        match Question::parse(*first, rest, &self.shared.clients.whitelist)? {
            Parsed::Whole(question) => Some(question),
            Parsed::Partial => None,
        }
    }

    async fn drive(&mut self, stream: &mut Stream, worker: usize) -> Result<Turn, End> {
        let shared = self.shared.clone();
        let _forget = Forget(self.client.conn().clone());
        let common = &shared.common;
        let mut turns = LongTurns::default();
        let mut linger = None;
        let mut was_blocked = false;
        // The client sends no more requests. Those it has sent are still processed.
        let mut ended = false;
        let clock = shared.clock;
        let early = stream.early(|bytes| self.client.received(bytes, true, || clock.monotonic()));
        if early.is_err() {
            return Ok(Turn::Over);
        }
        loop {
            let conn = self.client.conn();
            conn.looking();
            worker_turns::passes(shared.inbox());
            if self.client.phase() == Phase::Open
                && conn.side.worker.load(Ordering::Relaxed) != worker
            {
                return Ok(Turn::Elsewhere);
            }
            self.client.process(common, &mut Desk::new(&shared))?;
            let Some(waiting) = self.send(stream, was_blocked)? else { return Ok(Turn::Over) };
            let blocked = !self.client.unsent().is_empty() || stream.has_unsent();
            was_blocked = blocked;
            if !blocked
                && !self.client.has_unsent()
                && let Some(since) = self.client.conn().side.all_sent()
            {
                let waited = shared.clock.monotonic().saturating_sub(since);
                shared.counting.histograms.phases.send.add(waited);
                tell_slow_client(&shared.config.logging, self.client.conn(), waited);
            }
            let (read, takes) = match self.client.wants(common, waiting, ended) {
                Wants::Turn => {
                    turns.another().await;
                    continue;
                }
                Wants::End if blocked => (false, false),
                Wants::End => return Ok(Turn::Over),
                Wants::Wait { read, takes } => (read, takes),
            };
            turns.none();
            // The socket of a connection that is not read from is still watched, so that its end is
            // noticed.
            let interest = match (read, blocked) {
                (true, true) => Interest::READABLE | Interest::WRITABLE,
                (true, false) => Interest::READABLE,
                (false, true) => Interest::WRITABLE,
                (false, false) => Interest::ERROR,
            };
            let deadline = self.deadline(&mut linger)?;
            let ready = tokio::select! {
                biased;
                ready = stream.socket().ready(interest) => ready,
                () = woken(self.client.conn()) => continue,
                () = sleep_until(deadline.until) => match self.expires(&deadline)? {
                    true => return Ok(Turn::Over),
                    false => continue,
                },
            };
            let Ok(ready) = ready else { return Ok(Turn::Over) };
            if read && (ready.is_readable() || ready.is_read_closed()) {
                if !self.read(stream, takes) {
                    if takes {
                        return Ok(Turn::Over);
                    }
                    ended = true;
                }
            } else if ready.is_error() {
                return Ok(Turn::Over);
            }
        }
    }

    /// Sends as much as fits now, at most a turn's share. `was_blocked`: whether the socket had no
    /// room before. Returns how many bytes still wait in the outbox; `None` if the socket is
    /// broken.
    #[inline]
    fn send(&mut self, stream: &mut Stream, mut was_blocked: bool) -> Result<Option<usize>, End> {
        let waiting = loop {
            let waiting = self.client.collect()?;
            while !self.client.unsent().is_empty() {
                match stream.try_write(self.client.unsent()) {
                    Ok(count) => {
                        self.client.sent(count);
                        if was_blocked && count > 0 {
                            // The client reads its answers, so it is alive, even if it sends
                            // nothing.
                            was_blocked = false;
                            self.client.conn().hear(self.shared.clock.monotonic());
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return Ok(None),
                }
            }
            let stops = self.client.has_unsent() || self.client.has_sent_its_share();
            if waiting == 0 || stops {
                break waiting;
            }
        };
        Ok(stream.flush().is_ok().then_some(waiting))
    }

    /// Until when the connection may wait now. `linger`: the end of a closing connection, once it
    /// is known.
    fn deadline(&mut self, linger: &mut Option<Instant>) -> Result<Deadline, End> {
        let phase = self.client.phase();
        let asked = self.client.waits_for_verdict();
        let verdict_due = asked.map(|(_, since)| {
            let taken = self.shared.clock.monotonic().saturating_sub(since);
            Instant::now() + authentication::VERDICT_TIME_MAX.saturating_sub(taken)
        });
        self.gives_back_time(phase == Phase::Connecting || asked.is_some());
        let is_stranger = asked.is_none() && self.client.owes_authentication(&self.shared.common);
        let until = match phase {
            Phase::Start => Some(self.due),
            Phase::Closing => Some(*linger.get_or_insert_with(|| Instant::now() + LINGER)),
            Phase::Open if is_stranger => Some(self.due),
            Phase::Connecting | Phase::Open => verdict_due,
        };
        if is_stranger && Instant::now() >= self.due {
            self.shared.metrics.unauthenticated_connections_expired.add(1);
            return Err(End::Broken(
                "no authentication in time, although enforce.auth.schemes requires it",
            ));
        }
        Ok(Deadline { until, phase, verdict: asked.map(|(ticket, _)| ticket), is_stranger })
    }

    /// The deadline has passed. Returns whether the connection is over.
    fn expires(&self, deadline: &Deadline) -> Result<bool, End> {
        if let Some(ticket) = deadline.verdict {
            self.client.conn().decide(ticket, Err(Refused::Elsewhere));
            return Ok(false);
        }
        if deadline.phase == Phase::Start {
            self.shared.metrics.sessionless_connections_expired.add(1);
            return Err(End::Broken("no handshake in time"));
        }
        Ok(!deadline.is_stranger)
    }

    /// Moves the deadline by the time for which the client has waited for this server. `waits`:
    /// whether it waits now.
    fn gives_back_time(&mut self, waits: bool) {
        match (waits, self.waits) {
            (true, None) => self.waits = Some(Instant::now()),
            (false, Some(since)) => {
                self.due += since.elapsed();
                self.waits = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Reads the received bytes. Returns false if the client has disconnected.
    fn read(&mut self, stream: &mut Stream, takes: bool) -> bool {
        let clock = self.shared.clock;
        let most = self.client.room(READ_BYTES);
        let read =
            stream.read(most, |bytes| self.client.received(bytes, takes, || clock.monotonic()));
        match read {
            Ok(true) => true,
            Ok(false) => {
                self.shared.metrics.connection_drop_count.add(1);
                false
            }
            Err(error) => {
                if error.kind() == ErrorKind::InvalidData {
                    let peer = self.conn().side.peer;
                    info!(connection = %peer, "the connection from {peer} breaks TLS: {error}");
                }
                false
            }
        }
    }
}

/// Reports a client that does not read its answers.
fn tell_slow_client(config: &LoggingConfig, conn: &Conn, waited: Duration) {
    if config.slow_request.is_none_or(|most| waited < most) {
        return;
    }
    let (peer, session) = (conn.side.peer, conn.session().unwrap_or(SessionId::NONE));
    let waited = waited.as_millis();
    info!(
        %session,
        connection = %peer,
        "slow client: answers to session {session} from {peer} waited {waited} ms for its connection"
    );
}

/// The resources of its worker that a connection needs, and the counters of one run.
pub(super) struct Desk<'s> {
    shared: &'s Arc<Shared>,
    ops: Ops<'s>,
    read: Gather<'s>,
}

impl<'s> Desk<'s> {
    pub(super) fn new(shared: &'s Arc<Shared>) -> Self {
        let metrics = &shared.metrics;
        Self { shared, ops: Ops::new(metrics), read: metrics.read_per_namespace.gather() }
    }
}

impl Worker<Side> for Desk<'_> {
    fn monotonic(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    fn sasl_given(&mut self) -> Option<zebu_auth::sasl::Given> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(zebu_auth::sasl::Given { wall, random: zebu_auth::random::bytes()? })
    }

    fn asked(&mut self, conn: &Conn, session: SessionId, asked: (Xid, OpCode), body: &[u8]) {
        traced::request(&self.shared.clients.trace_mask, conn, session, asked, body);
    }

    fn may_try(&mut self, conn: &Conn) -> bool {
        access::may_try(self.shared, conn.address)
    }

    fn failed(&mut self, conn: &Conn) {
        access::failed(self.shared, conn.address);
    }

    fn admits(&mut self, conn: &Conn, ids: &Credentials) -> bool {
        access::enter(self.shared, conn.address, &mut conn.side.entered.lock(), ids)
    }

    fn authenticated(&mut self, conn: &Conn, asking: Asking<'_>, result: Result<(), Refused>) {
        authentication::judged(self.shared, conn, asking, result);
    }

    fn ask(&mut self, _: &Common<Side>, conn: &Conn, ticket: Ticket, asking: Asking<'_>) {
        authentication::ask(self.shared, conn, ticket, asking);
    }

    fn sasl(&mut self, conn: &Conn, event: &SaslEvent<'_>) {
        let (peer, session) = (conn.side.peer, conn.session().unwrap_or(SessionId::NONE));
        match event {
            SaslEvent::Authenticated { user, id, is_super } => {
                let rights = if *is_super { ", a super user" } else { "" };
                info!(%session, connection = %peer, "session {session} of {peer}: SASL user {user:?} has the id {id:?}{rights}");
            }
            SaslEvent::Failed { failure, stays } => {
                let end =
                    if *stays { "the connection stays open" } else { "the connection is closed" };
                warn!(
                    %session,
                    connection = %peer,
                    "session {session} of {peer} fails to authenticate with SASL: {failure}; {end}"
                );
                if let Some(audit) = self.shared.audit.get() {
                    let (session, ids) = (conn.session(), Some(conn.ids()));
                    let reason = failure.to_string();
                    audit.not_authenticated(conn.address, session, ids, "sasl", reason);
                }
            }
        }
    }

    fn word(&self, first: [u8; 4], rest: &[u8]) -> Word {
        match Question::parse(first, rest, &self.shared.clients.whitelist) {
            None => Word::No,
            Some(Parsed::Partial) => Word::Partial,
            Some(Parsed::Whole(_)) => Word::Whole,
        }
    }

    fn is_alone(&self, conn: &Conn, now: Duration) -> bool {
        worker_turns::is_alone(conn.id, now)
    }

    fn hand_in(
        &mut self,
        _: &Common<Side>,
        conn: &Conn,
        received: Duration,
        inputs: &mut Vec<Input>,
    ) {
        worker_turns::hand_in(self.shared.inbox(), conn.id, received, inputs);
    }

    fn connecting(&mut self, conn: &Conn, request: &ConnectRequest<'_>, bytes: usize) {
        self.shared.metrics.bytes_received_count.add(bytes as u64);
        self.shared.counting.stats.packets_received.add(1);
        conn.side.stats.received.fetch_add(1, Ordering::Relaxed);
        debug!(
            "connect request from {} for session {}",
            conn.side.peer,
            SessionId(request.session_id)
        );
    }

    fn read(&mut self, op: OpCode, body: &[u8], answer: &[u8]) {
        if let Some((path, bytes)) = bytes_read(op, body, answer) {
            self.read.add(path, bytes);
        }
    }

    fn answered(&mut self, op: OpCode) {
        self.ops.add(op);
    }

    fn too_long(&mut self, op: OpCode, now: Duration) {
        self.shared.clients.too_long.say(op, now);
    }

    fn ran(&mut self, conn: &Conn, run: &Run) {
        let Self { shared, ops, .. } = self;
        ops.record();
        let stats = &conn.side.stats;
        let answered = run.answers.count;
        if answered > 0 {
            worker_turns::serves(conn.id, run.received);
            let (op, xid, zxid) = run.last;
            let now = shared.clock.monotonic();
            let latency = ms(now.saturating_sub(run.received));
            stats.answered(answered, op, xid.0, zxid.0, ms(now), latency);
            stats.sent.fetch_add(answered, Ordering::Relaxed);
            let latency = latency as i64;
            shared.metrics.readlatency.add_many(latency, answered);
            shared.metrics.read_final_proc_time_ms.add_many(latency, answered);
            count_answers(&run.answers, &shared.counting.stats, &shared.metrics, latency);
        }
        shared.metrics.bytes_received_count.add(run.bytes as u64);
        shared.counting.stats.packets_received.add(run.frames);
        stats.received.fetch_add(run.frames, Ordering::Relaxed);
    }
}

/// A duration in milliseconds, without a number of 128 bits.
fn ms(time: Duration) -> u64 {
    time.as_secs() * 1000 + u64::from(time.subsec_millis())
}

/// Waits for a notification.
fn woken(conn: &Conn) -> impl Future<Output = ()> {
    poll_fn(|context| {
        // In this order, a later notification finds the task.
        conn.side.task.register(context.waker());
        if conn.is_woken() { Poll::Ready(()) } else { Poll::Pending }
    })
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
