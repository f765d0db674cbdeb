//! A client's connection without its socket: bytes in, answers out.
//!
//! Reads that the current tree can answer are answered here, many under one read lock. Other
//! requests go to the replica. Memory grows with the bytes received, never with an announced
//! length.
//!
//! The driver owns the socket. It passes received bytes to [`Client::received`], calls
//! [`Client::process`], sends what [`Client::collect`] provides, and asks [`Client::wants`] what to
//! wait for.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use zebu_jute::Decode as _;
use zebu_proto::request::ConnectRequest;
use zebu_proto::{OpCode, SessionId, Xid, Zxid};
use zebu_replica::auth::{Credentials, Refused};
use zebu_replica::{Connect, Input, frame};

use crate::answers::Answers;
use crate::batch::{self, Batch, Waiting};
use crate::common::Common;
use crate::conn::{Conn, Side, Ticket};
use crate::conns::watcher;
use crate::faults;
use crate::load::Several;
use crate::outbox::OutboxEnd;
use crate::sasl::{Authentication, SaslEvent};
use crate::sync::atomic::Ordering;

/// Bytes read ahead while no requests are taken from the connection: they may contain pings.
const AHEAD_BYTES: usize = 64 << 10;

/// Longest connect request. The original's clients send 45 bytes.
const CONNECT_BYTES_MAX: usize = 4 << 10;

/// Bytes that a connection may hold until its connect request is complete.
const START_BYTES_MAX: usize = 8 << 10;

const _: () = assert!(frame::LENGTH_BYTES + CONNECT_BYTES_MAX < START_BYTES_MAX);

/// Longest frame of a client that must authenticate and has not: the longest Kerberos token, and
/// what is around it.
const STRANGERS_FRAME_MAX: usize = zebu_auth::gssapi::TOKEN_BYTES_MAX + (1 << 10);

/// Capacity of the send buffer that an idle connection keeps.
const KEPT_BYTES: usize = 64 << 10;

/// Unsent bytes above which no more requests are read from a connection (back-pressure).
pub(crate) const OUTBOX_BYTES_HIGH: usize = 1 << 20;

/// Bytes that a connection sends in one turn. With a longer answer, other connections get their
/// turn in between.
const TURN_BYTES_MAX: usize = 64 << 10;

/// What a connection needs from its network worker: the time, a way into the replica, and counters.
///
/// The default methods know no four-letter words and one connection, hand requests in at once, and
/// count nothing.
pub trait Worker<S: Side> {
    /// Time since the server started.
    fn monotonic(&self) -> Duration;

    /// Whether a connection starts with a four-letter word. `first`: its first four bytes; `rest`:
    /// the bytes received after them.
    fn word(&self, _first: [u8; 4], _rest: &[u8]) -> Word {
        Word::No
    }

    /// Whether a connection had this worker to itself just now.
    fn is_alone(&self, _conn: &Conn<S>, _now: Duration) -> bool {
        true
    }

    /// Hands requests of a connection to the replica. `received`: when they were read. `inputs` is
    /// left empty and keeps its capacity.
    fn hand_in(
        &mut self,
        common: &Common<S>,
        _conn: &Conn<S>,
        _received: Duration,
        inputs: &mut Vec<Input>,
    ) {
        common.inbox.push_all(inputs);
    }

    /// The client has sent its connect request. `bytes`: its size with the length prefix.
    fn connecting(&mut self, _conn: &Conn<S>, _request: &ConnectRequest<'_>, _bytes: usize) {}

    /// Wall-clock time and unpredictable random bytes for a SASL exchange. `None` when the system
    /// provides no randomness: the client is then not authenticated.
    fn sasl_given(&mut self) -> Option<zebu_auth::sasl::Given>;

    /// A client with a session has sent a request, which is taken next.
    fn asked(&mut self, _conn: &Conn<S>, _session: SessionId, _asked: (Xid, OpCode), _body: &[u8]) {
    }

    /// Starts an asynchronous check of an auth packet. The verdict goes to [`Conn::decide`] with
    /// `ticket`. The default refuses.
    fn ask(&mut self, _common: &Common<S>, conn: &Conn<S>, ticket: Ticket, _question: Asking<'_>) {
        conn.decide(ticket, Err(Refused::Elsewhere));
    }

    /// Whether a client may try to authenticate. If not, its connection is closed without an
    /// answer.
    fn may_try(&mut self, _conn: &Conn<S>) -> bool {
        true
    }

    /// A client sent wrong credentials.
    fn failed(&mut self, _conn: &Conn<S>) {}

    /// Whether a client may use the ids it has proved. If not, its connection is closed without an
    /// answer.
    fn admits(&mut self, _conn: &Conn<S>, _ids: &Credentials) -> bool {
        true
    }

    /// An auth packet was accepted or refused.
    fn authenticated(&mut self, _conn: &Conn<S>, _claim: Asking<'_>, _result: Result<(), Refused>) {
    }

    /// A SASL exchange of a client has ended.
    fn sasl(&mut self, _conn: &Conn<S>, _event: &SaslEvent<'_>) {}

    /// A read was answered. `body`: the request without its header; `answer`: the frame of the
    /// answer.
    fn read(&mut self, _op: OpCode, _body: &[u8], _answer: &[u8]) {}

    /// A request was answered, and its connection stays open.
    fn answered(&mut self, _op: OpCode) {}

    /// The answer to a read was too long, so the client got an error.
    fn too_long(&mut self, _op: OpCode, _now: Duration) {}

    /// A batch was taken from the input. Its requests for the replica are handed in next.
    fn ran(&mut self, _conn: &Conn<S>, _run: &Run) {}
}

/// The content of an auth packet.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// The scheme; `None` if the packet has a null.
    pub scheme: Option<&'a str>,
    /// The data; `None` if the packet has a null. Also `None` for an asynchronous scheme, when the
    /// data is no longer known.
    pub data: Option<&'a [u8]>,
}

/// Whether a connection begins with a four-letter word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It does not.
    No,
    /// It does, but the arguments of the word are incomplete.
    Partial,
    /// It does, and the word is complete.
    Whole,
}

/// Consecutive requests of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// When they were taken.
    pub received: Duration,
    /// Number of requests.
    pub frames: u64,
    /// Their size in bytes, with the length prefixes.
    pub bytes: usize,
    /// Answers made without the replica.
    pub answers: Answers,
    /// The last request answered here, and the zxid in its answer.
    pub last: (OpCode, Xid, Zxid),
}

/// What a connection expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A four-letter word, or the length of the connect request.
    Start,
    /// The session is being created or renewed. No input is taken meanwhile.
    Connecting,
    /// Requests.
    Open,
    /// Nothing: the unsent bytes are sent, then the connection closes.
    Closing,
}

/// Why a connection closes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client sent malformed data. Nothing more is sent.
    Broken(&'static str),
    /// This server does not serve clients now.
    NotServing,
    /// The scheme of the auth packet refuses without an answer.
    Refused,
    /// The client sent a large request, and no memory is left for large requests.
    TooLarge,
    /// The input starts with a four-letter word.
    Word,
}

/// What the driver should do with the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Call [`Client::process`] again after other connections had their turn.
    Turn,
    /// Close: everything is sent, and nothing follows.
    End,
    /// Wait for an event.
    Wait {
        /// Whether to read bytes from the client.
        read: bool,
        /// Whether requests are taken. If not, received bytes only show that the client is alive.
        takes: bool,
    },
}

/// The state of a connection between two turns, without its socket.
#[derive(Debug)]
pub struct Client<S> {
    conn: Arc<Conn<S>>,
    phase: Phase,
    input: BytesMut,
    submitted: Vec<Input>,
    /// Bytes taken from the outbox; the first `sent` of them are sent.
    unsent: Vec<u8>,
    sent: usize,
    /// Bytes that may still be sent in this turn.
    turn_left: usize,
    /// A read that needs more turns. Later requests wait for it.
    long: Option<Waiting>,
    /// State of the client's SASL exchange.
    authentication: Authentication,
}

impl<S: Side> Client<S> {
    /// Creates the state of a newly accepted connection.
    pub fn new(conn: Arc<Conn<S>>) -> Self {
        Self {
            conn,
            phase: Phase::Start,
            input: BytesMut::new(),
            submitted: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            turn_left: TURN_BYTES_MAX,
            long: None,
            authentication: Authentication::default(),
        }
    }

    /// The part of the connection that other threads see.
    pub fn conn(&self) -> &Arc<Conn<S>> {
        &self.conn
    }

    /// What the connection expects next.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The auth packet whose verdict is outstanding, and since when. If the verdict is late, the
    /// driver [decides](Conn::decide).
    pub fn waits_for_verdict(&self) -> Option<(Ticket, Duration)> {
        self.authentication.asked.as_ref().map(|asked| (asked.ticket, asked.since))
    }

    /// Whether the client must authenticate and has not. It has a session, and nothing else is
    /// taken from it; the driver limits the time.
    pub fn owes_authentication(&self, common: &Common<S>) -> bool {
        let enforced = &common.rules.enforced_schemes;
        let has_one = |ids: &Credentials| ids.iter().any(|id| enforced.contains(&id.scheme));
        self.phase == Phase::Open && !enforced.is_empty() && !self.conn.with_ids(has_one)
    }

    /// Bytes received but not taken.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Removes the connection, its watches and its claim on the session.
    pub fn leave(&self, common: &Common<S>) {
        let conn = &self.conn;
        common.conns.leave(conn);
        common.tree.read().drop_watcher(watcher(conn.id));
        common.conns.free(conn);
        if self.phase != Phase::Start {
            // Reported even without a session: one may be on its way.
            let session = conn.session().unwrap_or(SessionId::NONE);
            // The client's last message may not have been reported yet.
            common.inbox.push(Input::Touched { session, at: conn.heard() });
            common.inbox.push(Input::Disconnected { conn: conn.id, session });
        }
    }

    /// How many bytes to read next at most, at least 1 and at most `most`. A client that has not
    /// sent its connect request gets little memory.
    pub fn room(&self, most: usize) -> usize {
        if self.phase != Phase::Start || faults::takes_any_length() {
            return most;
        }
        // A longer input has a complete connect request or none, and is not kept.
        START_BYTES_MAX.saturating_sub(self.input.len()).clamp(1, most)
    }

    /// Adds received bytes. `takes`: whether requests are being taken; if not, the bytes still
    /// count as a sign of life.
    pub fn received(&mut self, bytes: &[u8], takes: bool, now: impl FnOnce() -> Duration) {
        self.input.extend_from_slice(bytes);
        if !takes && !bytes.is_empty() {
            self.conn.hear(now());
        }
    }

    /// Takes all requests from the input that may be taken now.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn process(&mut self, common: &Common<S>, worker: &mut impl Worker<S>) -> Result<(), End> {
        self.turn_left = TURN_BYTES_MAX;
        if self.phase == Phase::Start {
            self.start(common, worker)?;
        }
        if self.phase == Phase::Connecting && self.conn.session().is_some() {
            self.phase = Phase::Open;
        }
        if self.phase == Phase::Open {
            self.requests(common, worker)?;
            if self.input.is_empty() && self.input.capacity() > 0 {
                self.input = BytesMut::new();
            }
        }
        self.check();
        Ok(())
    }

    /// Asserts what holds between any two calls.
    fn check(&self) {
        assert!(self.sent <= self.unsent.len(), "only what there is can be sent");
        assert!(self.submitted.is_empty(), "what is taken is handed in");
        let asks = matches!(self.phase, Phase::Open | Phase::Closing);
        assert!(asks || self.long.is_none(), "{:?}, and reads", self.phase);
    }

    /// Takes the next bytes from the outbox once all earlier ones are sent. Returns how many bytes
    /// still wait in the outbox.
    ///
    /// # Errors
    /// The client does not read its answers.
    pub fn collect(&mut self) -> Result<usize, End> {
        let mut outbox = self.conn.outbox.lock();
        if self.sent == self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
            outbox.swap(&mut self.unsent);
        }
        assert!(self.sent < self.unsent.len() || outbox.waiting() == 0, "what waits is taken");
        match outbox.end() {
            OutboxEnd::Open => {}
            OutboxEnd::Last if faults::goes_on_behind_the_end() => {}
            OutboxEnd::Last => self.phase = Phase::Closing,
            OutboxEnd::Overrun => {
                return Err(End::Broken("it does not read its answers and notifications"));
            }
        }
        Ok(outbox.waiting())
    }

    /// The bytes to send next. Empty when all is sent, and when others should get their turn first.
    pub fn unsent(&self) -> &[u8] {
        let rest = &self.unsent[self.sent..];
        &rest[..rest.len().min(self.turn_left)]
    }

    /// Whether bytes that were taken from the outbox are not sent yet.
    pub fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len()
    }

    /// Whether others should get their turn before more is sent.
    pub fn has_sent_its_share(&self) -> bool {
        self.turn_left == 0
    }

    /// Notes that `count` of the unsent bytes were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.unsent.len(), "only what there is can be sent");
        assert!(count <= self.turn_left, "more is sent than there may be in a turn");
        self.turn_left -= count;
    }

    /// What the driver should wait for. `waiting`: bytes still in the outbox; `ended`: the client
    /// sends nothing more.
    pub fn wants(&mut self, common: &Common<S>, waiting: usize, ended: bool) -> Wants {
        let unsent = self.unsent.len() - self.sent;
        if unsent > 0 && self.turn_left == 0 {
            return Wants::Turn;
        }
        let blocked = unsent > 0;
        if !blocked {
            if waiting > 0 {
                return Wants::Turn;
            }
            if self.unsent.capacity() > KEPT_BYTES {
                self.unsent = Vec::new();
                self.sent = 0;
            }
            if self.phase == Phase::Closing {
                return Wants::End;
            }
        }
        let stuffed = blocked && waiting + unsent > OUTBOX_BYTES_HIGH;
        let takes = self.phase == Phase::Start
            || self.phase == Phase::Open
                && !stuffed
                && self.authentication.asked.is_none()
                && !self.is_held(common);
        let has_room = takes || self.phase == Phase::Open && self.input.len() < AHEAD_BYTES;
        if self.phase == Phase::Open && takes && (self.long.is_some() || self.has_frame(common)) {
            // The batch ended before the input did.
            return Wants::Turn;
        }
        if takes && ended {
            return Wants::End;
        }
        Wants::Wait { read: has_room && !ended, takes }
    }

    /// Whether no requests are taken until an answer wakes the connection.
    fn is_held(&self, common: &Common<S>) -> bool {
        let in_flight = self.conn.in_flight.load(Ordering::Acquire);
        let queued_reads = self.conn.queued_reads.load(Ordering::Acquire);
        batch::is_held(common, in_flight, queued_reads, &Several::default())
            || in_flight > 0 && batch::begins_long(common, &self.input)
    }

    /// Whether so many bytes are unsent that sending comes first.
    fn is_stuffed(&self) -> bool {
        let taken = self.unsent.len() - self.sent;
        taken + self.conn.outbox.lock().waiting() > OUTBOX_BYTES_HIGH
    }

    fn has_frame(&self, common: &Common<S>) -> bool {
        match frame_length(&self.input, common) {
            Ok(None) => false,
            Ok(Some(length)) => self.input.len() >= frame::LENGTH_BYTES + length,
            Err(_) => true,
        }
    }

    fn start(&mut self, common: &Common<S>, worker: &mut impl Worker<S>) -> Result<(), End> {
        let Some(first) = self.input.first_chunk::<4>() else { return Ok(()) };
        match worker.word(*first, &self.input[4..]) {
            Word::Whole => return Err(End::Word),
            Word::Partial => return Ok(()),
            Word::No => {}
        }
        let Some(length) = frame_length(&self.input, common)? else { return Ok(()) };
        if length > CONNECT_BYTES_MAX && !faults::takes_any_length() {
            return Err(End::Broken("its connect request is longer than 4096 bytes"));
        }
        if self.input.len() < frame::LENGTH_BYTES + length {
            return Ok(());
        }
        self.input.advance(frame::LENGTH_BYTES);
        let payload = self.input.split_to(length);
        let conn = &self.conn;
        // Stored before the role is read: if the server stops serving after that, it also closes
        // this connection.
        conn.has_connected.store(true, Ordering::SeqCst);
        if common.serving().is_none() {
            return Err(End::NotServing);
        }
        let request = ConnectRequest::from_bytes(&payload)
            .map_err(|_| End::Broken("its first frame is not a connect request"))?;
        conn.says_read_only.store(request.read_only.is_some(), Ordering::Relaxed);
        conn.asks_ensemble.store(request.asks_ensemble, Ordering::Relaxed);
        conn.renews.store(request.session_id != SessionId::NONE.0, Ordering::Relaxed);
        conn.hear(worker.monotonic());
        worker.connecting(conn, &request, frame::LENGTH_BYTES + length);
        self.phase = Phase::Connecting;
        common.inbox.push(Input::Connect(Connect {
            conn: conn.id,
            last_zxid_seen: request.last_zxid_seen,
            timeout_ms: request.timeout_ms,
            session: SessionId(request.session_id),
            password: request.password.unwrap_or_default().to_vec(),
            read_only: request.read_only == Some(true),
        }));
        Ok(())
    }

    /// Takes requests until the input has no whole frame or other connections should get their
    /// turn.
    fn requests(&mut self, common: &Common<S>, worker: &mut impl Worker<S>) -> Result<(), End> {
        let Some(session) = self.conn.session() else { return Ok(()) };
        if let Some(waiting) = self.long.take() {
            let now = worker.monotonic();
            let authentication = &mut self.authentication;
            let batch = Batch::new(common, &self.conn, session, worker, authentication, now);
            self.long = batch.resume(waiting, &mut self.submitted);
            return Ok(());
        }
        if let Some(asked) = self.authentication.asked.take() {
            let Some(verdict) = self.conn.verdict(asked.ticket) else {
                self.authentication.asked = Some(asked);
                return Ok(());
            };
            let now = worker.monotonic();
            let authentication = &mut self.authentication;
            let batch = Batch::new(common, &self.conn, session, worker, authentication, now);
            batch.decided(asked, verdict, &mut self.submitted)?;
        }
        if let Ok(Some(length)) = frame_length(&self.input, common)
            && length > STRANGERS_FRAME_MAX
            && !faults::takes_any_length()
            && self.owes_authentication(common)
        {
            return Err(End::Broken("a long frame, and it has not authenticated"));
        }
        if !self.has_frame(common) || self.is_held(common) || self.is_stuffed() {
            return Ok(());
        }
        let now = worker.monotonic();
        self.conn.hear(now);
        let authentication = &mut self.authentication;
        let batch = Batch::new(common, &self.conn, session, worker, authentication, now);
        self.long = batch.run(&mut self.input, &mut self.submitted)?;
        Ok(())
    }
}

/// The length of the first frame in `input`, once its prefix has arrived.
///
/// A frame that is too long ends the connection as soon as its length is known.
pub(crate) fn frame_length<S: Side>(
    input: &[u8],
    common: &Common<S>,
) -> Result<Option<usize>, End> {
    let Some(length) = input.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length))
        .ok()
        .filter(|length| *length <= common.rules.packet_bytes || faults::takes_any_length())
        .filter(|length| {
            *length <= common.rules.packet_bytes / 12 || !faults::short_frames_refused()
        })
        .ok_or(End::Broken("a frame of impossible length"))?;
    if common.load.has_room_for(length) { Ok(Some(length)) } else { Err(End::TooLarge) }
}
