//! A client's connection, from its first byte to its last, without its socket: frames in, answers out.
//!
//! Whatever is answered from the tree as it is, is answered here, a whole run under one read lock; the rest goes to the
//! replica. Memory follows the bytes that really came, never a length that was promised.
//!
//! Whoever has the socket tells a [`Client`] what came ([`Client::received`]), lets it [`Client::process`] that, takes what
//! there is to send ([`Client::collect`]), and asks what to wait for ([`Client::wants`]).

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

/// Bytes that are read ahead from a connection none of whose requests are taken for the moment: among them
/// may be pings.
const AHEAD_BYTES: usize = 64 << 10;

/// Room for bytes to send that is kept while nothing is sent.
const KEPT_BYTES: usize = 64 << 10;

/// Unsent bytes above which nothing more is read from a connection.
pub(crate) const OUTBOX_BYTES_HIGH: usize = 1 << 20;

/// What a connection needs of the thread that serves it: the time, the way into the replica, and somebody who counts.
///
/// Whoever does not implement the other methods knows no four-letter words, hands everything in at once, and counts
/// nothing.
pub trait Worker<S: Side> {
    /// The time, since the server started.
    fn monotonic(&self) -> Duration;

    /// Whether a connection begins with a four-letter word: its first four bytes, and what has come behind them.
    fn word(&self, _first: [u8; 4], _rest: &[u8]) -> Word {
        Word::No
    }

    /// Hands in requests of a connection that were `received` at a time; `inputs` is empty afterwards and keeps its room.
    fn hand_in(
        &mut self,
        common: &Common<S>,
        _conn: &Conn<S>,
        _received: Duration,
        inputs: &mut Vec<Input>,
    ) {
        common.inbox.push_all(inputs);
    }

    /// A client has sent its connect request, which took so many bytes with its length.
    fn connecting(&mut self, _conn: &Conn<S>, _request: &ConnectRequest<'_>, _bytes: usize) {}

    /// What a SASL exchange is told beside a token: the time by the clock on the wall, and random bytes that nobody can
    /// foresee; `None` where the system has none, and then the client is not authenticated.
    fn sasl_given(&mut self) -> Option<zebu_auth::sasl::Given>;

    /// Has the scheme of an auth packet asked, which takes its time: the verdict comes to [`Conn::decide`] with the ticket.
    /// Whoever cannot ask refuses.
    fn ask(&mut self, _common: &Common<S>, conn: &Conn<S>, ticket: Ticket, _question: Asking<'_>) {
        conn.decide(ticket, Err(Refused::Elsewhere));
    }

    /// Whether a client may try to authenticate; else its connection is closed without an answer.
    fn may_try(&mut self, _conn: &Conn<S>) -> bool {
        true
    }

    /// The credentials of a client are wrong.
    fn failed(&mut self, _conn: &Conn<S>) {}

    /// Whether a client may have these ids, which it has proved; else its connection is closed without an answer.
    fn admits(&mut self, _conn: &Conn<S>, _ids: &Credentials) -> bool {
        true
    }

    /// An auth packet is judged.
    fn authenticated(&mut self, _conn: &Conn<S>, _claim: Asking<'_>, _result: Result<(), Refused>) {
    }

    /// A SASL exchange of a client has ended.
    fn sasl(&mut self, _conn: &Conn<S>, _event: &SaslEvent<'_>) {}

    /// A read is answered, of which these are the bytes behind the request's header and the frame of the answer.
    fn read(&mut self, _op: OpCode, _body: &[u8], _answer: &[u8]) {}

    /// A request is answered, and its connection goes on.
    fn answered(&mut self, _op: OpCode) {}

    /// The answer to a read would have been too long: its client got an error.
    fn too_long(&mut self, _op: OpCode, _now: Duration) {}

    /// A run of requests was taken from the input. What of it goes to the replica is handed in next.
    fn ran(&mut self, _conn: &Conn<S>, _run: &Run) {}
}

/// What an auth packet says.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// The scheme; `None` is a null.
    pub scheme: Option<&'a str>,
    /// The data, or a null. Unknown, and a null, where the scheme has taken its time.
    pub data: Option<&'a [u8]>,
}

/// Whether a connection begins with a four-letter word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It does not.
    No,
    /// It does, and what belongs to the word is still on its way.
    Partial,
    /// It does, and all of it is here.
    Whole,
}

/// Requests of one connection that were taken in a row.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// When they were taken.
    pub received: Duration,
    /// How many.
    pub frames: u64,
    /// Their bytes, with the lengths in front of them.
    pub bytes: usize,
    /// What was answered here.
    pub answers: Answers,
    /// The last request of those, and the zxid in its answer.
    pub last: (OpCode, Xid, Zxid),
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A four-letter word, or the length of the connect request.
    Start,
    /// The session is being made or renewed: nothing more is looked at.
    Connecting,
    /// Requests.
    Open,
    /// Nothing: what is left to send goes out, then the connection ends.
    Closing,
}

/// Why a connection ends at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its bytes are not what they claim; nothing more is sent.
    Broken(&'static str),
    /// Nobody is served.
    NotServing,
    /// The scheme of its auth packet wants no answer.
    Refused,
    /// It wants to send a large request while there is no room for it.
    TooLarge,
    /// It asked a four-letter word, which its input begins with.
    Word,
}

/// What whoever has the socket may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// More can be processed at once: others have their turn, then it goes on.
    Turn,
    /// All is sent, and nothing follows.
    End,
    /// Something is to happen first.
    Wait {
        /// Whether bytes of the client are read.
        read: bool,
        /// Whether requests are taken: where not, bytes that come show that somebody is there.
        takes: bool,
    },
}

/// A connection between two turns: all of it but its socket.
#[derive(Debug)]
pub struct Client<S> {
    conn: Arc<Conn<S>>,
    phase: Phase,
    input: BytesMut,
    submitted: Vec<Input>,
    /// What was taken from the outbox, and how much of it is sent.
    unsent: Vec<u8>,
    sent: usize,
    /// A read that takes more than one turn: nothing that came behind it is looked at before.
    long: Option<Waiting>,
    /// How far the client's SASL exchange has come.
    authentication: Authentication,
}

impl<S: Side> Client<S> {
    /// A connection that was just accepted.
    pub fn new(conn: Arc<Conn<S>>) -> Self {
        Self {
            conn,
            phase: Phase::Start,
            input: BytesMut::new(),
            submitted: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
            long: None,
            authentication: Authentication::default(),
        }
    }

    /// The connection as others see it.
    pub fn conn(&self) -> &Arc<Conn<S>> {
        &self.conn
    }

    /// What the next bytes are.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the verdict on an auth packet is waited for, and since when; where it does not come in time, whoever has the
    /// socket [decides](Conn::decide).
    pub fn waits_for_verdict(&self) -> Option<(Ticket, Duration)> {
        self.authentication.asked.as_ref().map(|asked| (asked.ticket, asked.since))
    }

    /// What has come and was not taken.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// The connection is over, for everybody.
    pub fn leave(&self, common: &Common<S>) {
        let conn = &self.conn;
        common.conns.leave(conn);
        common.tree.read().drop_watcher(watcher(conn.id));
        common.conns.free(conn);
        if self.phase != Phase::Start {
            // Said even when there is no session yet: it may be on its way.
            let session = conn.session().unwrap_or(SessionId::NONE);
            // What the client said last was perhaps not reported yet.
            common.inbox.push(Input::Touched { session, at: conn.heard() });
            common.inbox.push(Input::Disconnected { conn: conn.id, session });
        }
    }

    /// Bytes came while requests were taken, or, if not `takes`, while they were not: then the client is heard of all the
    /// same.
    pub fn received(&mut self, bytes: &[u8], takes: bool, now: impl FnOnce() -> Duration) {
        self.input.extend_from_slice(bytes);
        if !takes && !bytes.is_empty() {
            self.conn.hear(now());
        }
    }

    /// Takes everything from the input that may be taken now.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn process(&mut self, common: &Common<S>, worker: &mut impl Worker<S>) -> Result<(), End> {
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

    /// Takes what there is to send from the outbox, once everything before it is sent; says how much waits behind it.
    ///
    /// # Errors
    /// The client does not read what it is sent.
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
            OutboxEnd::Overrun => return Err(End::Broken("it does not read what it is sent")),
        }
        Ok(outbox.waiting())
    }

    /// What is to be sent next.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// So many bytes of that are sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.unsent.len(), "only what there is can be sent");
    }

    /// What to wait for, while so many bytes wait behind what is to be sent next; `ended` says that the client sends
    /// nothing more.
    pub fn wants(&mut self, common: &Common<S>, waiting: usize, ended: bool) -> Wants {
        let unsent = self.unsent.len() - self.sent;
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
            // A run ended before its input did.
            return Wants::Turn;
        }
        if takes && ended {
            return Wants::End;
        }
        Wants::Wait { read: has_room && !ended, takes }
    }

    /// Whether nothing is taken from the input until an answer wakes the task.
    fn is_held(&self, common: &Common<S>) -> bool {
        let in_flight = self.conn.in_flight.load(Ordering::Acquire);
        let queued_reads = self.conn.queued_reads.load(Ordering::Acquire);
        batch::is_held(common, in_flight, queued_reads, &Several::default())
            || in_flight > 0 && batch::begins_long(common, &self.input)
    }

    /// Whether so much waits to be sent that this comes first.
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
        if self.input.len() < frame::LENGTH_BYTES + length {
            return Ok(());
        }
        self.input.advance(frame::LENGTH_BYTES);
        let payload = self.input.split_to(length);
        let conn = &self.conn;
        // Said before the server's role is read: if the server stops serving behind that, it closes this
        // connection too.
        conn.has_connected.store(true, Ordering::SeqCst);
        if common.serving().is_none() {
            return Err(End::NotServing);
        }
        let request = ConnectRequest::from_bytes(&payload)
            .map_err(|_| End::Broken("its first frame is not a connect request"))?;
        conn.says_read_only.store(request.read_only.is_some(), Ordering::Relaxed);
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

    /// Takes requests until the input has no whole frame, or others should have their turn.
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

/// The length of the frame that `input` starts with, once it is here.
///
/// A frame that cannot be taken ends the connection as soon as its length is known.
pub(crate) fn frame_length<S: Side>(
    input: &[u8],
    common: &Common<S>,
) -> Result<Option<usize>, End> {
    let Some(length) = input.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length))
        .ok()
        .filter(|length| *length <= common.rules.packet_bytes || faults::takes_any_length())
        .ok_or(End::Broken("a frame of impossible length"))?;
    if common.load.has_room_for(length) { Ok(Some(length)) } else { Err(End::TooLarge) }
}
