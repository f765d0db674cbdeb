//! A batch: consecutive requests of one connection, taken from its input.
//!
//! Requests that the current tree can answer are answered here. The others go to the replica.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use zebu_jute::{Decode, Decoder, Encode};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{AuthPacket, RequestHeader};
use zebu_proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};
use zebu_replica::auth::{Claim, Credentials, Refused, Verdict};
use zebu_replica::gate::{self, Route};
use zebu_replica::{After, Input, LongRead, Request, frame, may_take_long, waits_for_turn};
use zebu_tree::Tree;

use crate::answers::Answers;
use crate::client::{Asking, End, OUTBOX_BYTES_HIGH, Run, Worker, frame_length};
use crate::common::Common;
use crate::conn::{Conn, Side};
use crate::faults;
use crate::load::Several;
use crate::outbox::{OUTBOX_BYTES_MAX, Outbox};
use crate::sasl::{self, Asked, Authentication, Good, SaslEvent, Who};
use crate::sync::atomic::Ordering;
use crate::sync::{MutexGuard, RwLockReadGuard};

/// Frames taken in a row before other connections get their turn.
const FRAMES_MAX: usize = 1024;

/// The same while other connections need the worker: they wait for all of these frames.
const FRAMES_BESIDE_OTHERS_MAX: usize = 128;

/// Reads of one connection that may wait behind its writes. The size of an answer is unknown until
/// it is made; an outbox has room for this many answers, each of the longest size.
const QUEUED_READS_MAX: u32 = 32;

/// Unsent bytes above which a client that does not read its answers is disconnected.
pub fn outbox_bytes_max(packet_bytes: usize) -> usize {
    OUTBOX_BYTES_MAX.max(packet_bytes.saturating_mul(2 * QUEUED_READS_MAX as usize))
}

/// How a batch continues after a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Take the next frame.
    Frame,
    /// Stop for now.
    Enough,
    /// Stop: a long read is under way.
    Long,
}

/// Time after which a batch releases the tree, so that writes can be applied.
const TIME_MAX: Duration = Duration::from_millis(5);

/// The clock is read each time [`Batch::cost`] reaches this value.
const COST_MAX: usize = 32;

/// Bytes that count as one unit of cost, as a request does.
const BYTES_PER_COST: usize = 1024;

/// Znodes that a long read visits in one turn.
const STEP_ZNODES: usize = 512;

const _: () = assert!(FRAMES_BESIDE_OTHERS_MAX > 0 && FRAMES_BESIDE_OTHERS_MAX <= FRAMES_MAX);
const _: () = assert!(FRAMES_MAX > 0 && COST_MAX > 0 && STEP_ZNODES > 0, "each run gets further");

/// A read that takes more than one turn.
#[derive(Debug)]
pub(crate) struct Waiting {
    read: LongRead,
    received: Duration,
}

/// Consecutive requests of one connection.
///
/// The tree and the outbox are locked once for the whole batch, the tree first, and only when a
/// request of the batch is answered here.
pub(crate) struct Batch<'s, S, W> {
    common: &'s Common<S>,
    conn: &'s Conn<S>,
    worker: &'s mut W,
    authentication: &'s mut Authentication,
    session: SessionId,
    ids: Credentials,
    received: Duration,
    /// Requests in flight through the replica, including those of this batch.
    in_flight: u32,
    queued_reads: u32,
    /// The same before this batch.
    queued_before: u32,
    // Dropped in this order: the outbox is never held without the tree.
    outbox: Option<MutexGuard<'s, Outbox>>,
    tree: Option<RwLockReadGuard<'s, Tree>>,
    frames: u64,
    bytes: usize,
    /// Requests about to be handed to the replica.
    entering: Several,
    answers: Answers,
    last: (OpCode, Xid, Zxid),
    /// Work done since the clock was last read.
    cost: usize,
    /// The long read that ended this batch, if it is unfinished.
    long: Option<LongRead>,
}

impl<'s, S: Side, W: Worker<S>> Batch<'s, S, W> {
    pub(crate) fn new(
        common: &'s Common<S>,
        conn: &'s Conn<S>,
        session: SessionId,
        worker: &'s mut W,
        authentication: &'s mut Authentication,
        now: Duration,
    ) -> Self {
        let queued_before = conn.queued_reads.load(Ordering::Acquire);
        Self {
            common,
            conn,
            received: now,
            worker,
            authentication,
            session,
            ids: conn.ids(),
            in_flight: conn.in_flight.load(Ordering::Acquire),
            queued_reads: queued_before,
            queued_before,
            outbox: None,
            tree: None,
            frames: 0,
            bytes: 0,
            entering: Several::default(),
            answers: Answers::default(),
            last: (OpCode::PING, Xid(-1), Zxid::ZERO),
            cost: 0,
            long: None,
        }
    }

    /// Takes frames until the input has no whole frame or other connections should get their turn.
    /// Requests for the replica are collected in `submitted` and handed in. Returns a long read
    /// that needs more turns.
    pub(crate) fn run(
        mut self,
        input: &mut BytesMut,
        submitted: &mut Vec<Input>,
    ) -> Result<Option<Waiting>, End> {
        let mut result = Ok(());
        for count in 1..=FRAMES_MAX {
            match self.frame(input, submitted) {
                Ok(Next::Frame) if count == FRAMES_BESIDE_OTHERS_MAX && !self.is_alone() => break,
                Ok(Next::Frame) if self.is_over_time() => break,
                Ok(Next::Frame) => {}
                Ok(Next::Enough | Next::Long) => break,
                Err(end) => {
                    result = Err(end);
                    break;
                }
            }
        }
        let received = self.received;
        let long = self.long.take().map(|read| Waiting { read, received });
        self.finish(submitted);
        result.map(|()| long)
    }

    /// Continues a long read; `None` when it is answered.
    pub(crate) fn resume(
        mut self,
        waiting: Waiting,
        submitted: &mut Vec<Input>,
    ) -> Option<Waiting> {
        self.received = waiting.received;
        self.go_on(waiting.read);
        let received = self.received;
        let long = self.long.take().map(|read| Waiting { read, received });
        self.finish(submitted);
        long
    }

    /// Whether the connection has its worker to itself.
    #[cold]
    fn is_alone(&self) -> bool {
        self.worker.is_alone(self.conn, self.received)
    }

    /// Whether the batch has held the read lock of the tree long enough to give way to writers.
    fn is_over_time(&mut self) -> bool {
        if self.cost < COST_MAX {
            return false;
        }
        self.cost = 0;
        let taken = self.worker.monotonic().saturating_sub(self.received);
        taken > TIME_MAX && !faults::forgets_the_time()
    }

    fn frame(&mut self, input: &mut BytesMut, submitted: &mut Vec<Input>) -> Result<Next, End> {
        let length = match frame_length(input, self.common)? {
            Some(length) if input.len() >= frame::LENGTH_BYTES + length => length,
            _ => return Ok(Next::Enough),
        };
        if is_held(self.common, self.in_flight, self.queued_reads, &self.entering) {
            return Ok(Next::Enough);
        }
        let bytes = &input[frame::LENGTH_BYTES..frame::LENGTH_BYTES + length];
        let mut decoder = Decoder::new(bytes);
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut decoder) else {
            return Err(End::Broken("a frame shorter than its header"));
        };
        let header_bytes = decoder.position();
        let body = &bytes[header_bytes..];
        if self.in_flight > 0 {
            let tree = || self.common.tree.read();
            let waits = match &self.tree {
                Some(tree) => waits_for_turn(op, body, || &**tree),
                None => waits_for_turn(op, body, tree),
            };
            if waits {
                // A long read is not queued behind requests in flight: the tree would stay locked
                // for all of it.
                return Ok(Next::Enough);
            }
        }
        let route = gate::route(op, self.in_flight as usize);
        let is_queued_read = route == Route::Queue && gate::is_read(op);
        self.frames += 1;
        self.bytes += frame::LENGTH_BYTES + length;
        if self.must_authenticate(op) {
            self.say(|out| {
                let code = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
                let bytes = out.put(|out| frame::bare_reply(out, xid, Zxid::ZERO, code));
                out.close();
                bytes
            });
            return Ok(Next::Enough);
        }
        self.worker.asked(self.conn, self.session, (xid, op), body);
        let next = match op {
            OpCode::AUTH => {
                let Ok(packet) = AuthPacket::decode(&mut decoder) else {
                    return Err(End::Broken("an auth packet that is cut short"));
                };
                self.authenticate(xid, packet)?
            }
            OpCode::SASL => {
                let Ok(Some(token)) = decoder.buffer() else {
                    return Err(End::Broken("a sasl packet without a token"));
                };
                self.sasl(xid, token)?
            }
            _ if route == Route::Now => self.answer(xid, op, body),
            _ => {
                if !self.common.load.enter(length, &mut self.entering) {
                    return Err(End::TooLarge);
                }
                let mut payload = input.split_to(frame::LENGTH_BYTES + length);
                payload.advance(frame::LENGTH_BYTES + header_bytes);
                self.in_flight += u32::from(!faults::forgets_what_it_hands_in());
                self.queued_reads += u32::from(is_queued_read);
                submitted.push(Input::Request(Request {
                    conn: self.conn.id,
                    session: self.session,
                    xid,
                    op,
                    body: payload.freeze(),
                    ids: self.ids.clone(),
                    received: self.received,
                    bytes: length,
                }));
                return Ok(Next::Frame);
            }
        };
        input.advance(frame::LENGTH_BYTES + length);
        Ok(next)
    }

    /// Whether the client must still authenticate with an enforced scheme before this request.
    fn must_authenticate(&self, op: OpCode) -> bool {
        let enforced = &self.common.rules.enforced_schemes;
        if enforced.is_empty() || matches!(op, OpCode::AUTH | OpCode::SASL) {
            return false;
        }
        let is_exempt = faults::lets_all_read() && gate::is_read(op);
        !is_exempt && !self.ids.iter().any(|id| enforced.contains(&id.scheme))
    }

    /// Puts a message that does not depend on the tree into the outbox.
    fn say(&mut self, say: impl FnOnce(&mut Outbox) -> usize) {
        let bytes = match &mut self.outbox {
            Some(outbox) => say(outbox),
            // The lock is not kept: this batch may lock the tree later, and the tree comes first.
            None => say(&mut self.conn.outbox.lock()),
        };
        self.answers.add(bytes);
    }

    /// Handles an auth packet at once, ahead of queued requests, unless the scheme answers
    /// asynchronously. The result counts for all later requests.
    #[cold]
    fn authenticate(&mut self, xid: Xid, packet: AuthPacket<'_>) -> Result<Next, End> {
        if !self.worker.may_try(self.conn) {
            return Err(End::Refused);
        }
        let AuthPacket { scheme, auth: data, .. } = packet;
        let (common, conn) = (self.common, self.conn);
        let tree = self.tree.as_deref();
        let data_of = |tree: &Tree, path: &str| tree.node(path)?.data().map(<[u8]>::to_vec);
        let znode = |path: &str| match tree {
            Some(tree) => data_of(tree, path),
            None => data_of(&common.tree.read(), path),
        };
        let claim = Claim { peer: conn.address, data, znode: &znode };
        let asking = Asking { scheme: scheme.as_deref(), data };
        let judged = match asking.scheme {
            Some(scheme) => common.schemes.authenticate(&self.ids, scheme, &claim),
            None => Err(Refused::Credentials),
        };
        let added = match judged {
            Ok(Some(added)) => Ok(added),
            Err(refused) => Err(refused),
            Ok(None) => {
                let (ticket, since) = (conn.asks(), self.received);
                let scheme = asking.scheme.unwrap_or_default().to_owned();
                self.authentication.asked = Some(Asked { xid, scheme, ticket, since });
                self.worker.ask(common, conn, ticket, asking);
                return Ok(Next::Enough);
            }
        };
        self.authenticated(xid, asking, added)
    }

    /// Continues after the verdict of an asynchronous scheme has arrived.
    #[cold]
    pub(crate) fn decided(
        mut self,
        asked: Asked,
        verdict: Verdict,
        submitted: &mut Vec<Input>,
    ) -> Result<(), End> {
        let added = verdict.and_then(|added| self.common.schemes.with(&self.ids, added));
        let asking = Asking { scheme: Some(&asked.scheme), data: None };
        let result = self.authenticated(asked.xid, asking, added);
        self.finish(submitted);
        result.map(|_| ())
    }

    #[cold]
    fn authenticated(
        &mut self,
        xid: Xid,
        asking: Asking<'_>,
        added: Result<Credentials, Refused>,
    ) -> Result<Next, End> {
        let result = added.as_ref().map(|_| ()).map_err(|refused| *refused);
        self.worker.authenticated(self.conn, asking, result);
        let code = if added.is_ok() { ErrorCode::OK } else { ErrorCode::AUTH_FAILED };
        let reply = |out: &mut Vec<u8>| frame::bare_reply(out, xid, Zxid::ZERO, code);
        match added {
            Ok(added) => {
                if !self.worker.admits(self.conn, &added) {
                    return Err(End::Refused);
                }
                self.conn.set_ids(added.clone());
                if !faults::authenticates_late() {
                    self.ids = added;
                }
                self.say(|out| out.put(reply));
                Ok(Next::Frame)
            }
            Err(Refused::Credentials) => {
                self.worker.failed(self.conn);
                self.say(|out| {
                    let bytes = out.put(reply);
                    out.close();
                    bytes
                });
                Ok(Next::Enough)
            }
            Err(Refused::Elsewhere) => Err(End::Refused),
        }
    }

    /// Takes a token of a client's SASL exchange. When SASL is not configured, the answer has no
    /// error and no token.
    #[cold]
    fn sasl(&mut self, xid: Xid, token: &[u8]) -> Result<Next, End> {
        let common = self.common;
        let reply = |code, token: Option<&[u8]>, out: &mut Outbox| {
            let header = ReplyHeader { xid, zxid: Zxid::ZERO, err: code };
            out.put(|out| frame::reply(out, header, |out| token.encode(out)))
        };
        let Some(rules) = &common.rules.sasl else {
            self.say(|out| reply(ErrorCode::OK, None, out));
            return Ok(Next::Frame);
        };
        if !self.worker.may_try(self.conn) {
            return Err(End::Refused);
        }
        let given = self.worker.sasl_given();
        match self.authentication.step(rules, &common.schemes, &self.ids, token, given) {
            Ok(Good { token, who }) => {
                if let Some(Who { user, id, is_super, ids }) = who {
                    if !self.worker.admits(self.conn, &ids) {
                        return Err(End::Refused);
                    }
                    self.conn.set_ids(ids.clone());
                    self.ids = ids;
                    let event = SaslEvent::Authenticated { user: &user, id: &id, is_super };
                    self.worker.sasl(self.conn, &event);
                }
                self.say(|out| reply(ErrorCode::OK, token.as_deref(), out));
                Ok(Next::Frame)
            }
            Err(failure) => {
                let is_required = common.rules.enforced_schemes.iter().any(|it| it == sasl::SCHEME);
                let stays = rules.allows_failed && !is_required;
                if self.authentication.fails() {
                    let event = SaslEvent::Failed { failure: &failure, stays };
                    self.worker.sasl(self.conn, &event);
                }
                self.worker.failed(self.conn);
                if stays {
                    self.say(|out| reply(ErrorCode::OK, None, out));
                    return Ok(Next::Frame);
                }
                let code = match is_required {
                    true => ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH,
                    false => ErrorCode::AUTH_FAILED,
                };
                self.say(|out| {
                    let bytes = reply(code, None, out);
                    out.close();
                    bytes
                });
                Ok(Next::Enough)
            }
        }
    }

    /// Answers a read from the current tree.
    fn answer(&mut self, xid: Xid, op: OpCode, body: &[u8]) -> Next {
        let (common, conn) = (self.common, self.conn);
        let tree = self.tree.get_or_insert_with(|| common.tree.read());
        let reader = common.reader(conn.id, self.session, &self.ids);
        if may_take_long(op)
            && let Some(read) = reader.begin(tree, xid, op, body)
        {
            return self.go_on(read);
        }
        let outbox = self.outbox.get_or_insert_with(|| conn.outbox.lock());
        let mut after = After::Keep;
        let worker = &mut *self.worker;
        let bytes = outbox.put(|out| {
            let at = out.len();
            after = reader.answer_or_defer(tree, xid, op, body, out);
            if after == After::Keep {
                worker.read(op, body, &out[at..]);
            }
        });
        if after == After::Long
            && let Some(read) = reader.begin(tree, xid, op, body)
        {
            return self.go_on(read);
        }
        self.cost += (bytes + body.len()) / BYTES_PER_COST;
        self.answered(xid, op, bytes, after)
    }

    /// Continues a long read, and answers it when it is complete.
    fn go_on(&mut self, mut read: LongRead) -> Next {
        let (common, conn) = (self.common, self.conn);
        let tree = self.tree.get_or_insert_with(|| common.tree.read());
        let reader = common.reader(conn.id, self.session, &self.ids);
        self.cost = COST_MAX;
        if !reader.go_on(tree, &mut read, STEP_ZNODES) {
            self.long = Some(read);
            return Next::Long;
        }
        let (xid, op) = (read.xid(), read.op());
        let outbox = self.outbox.get_or_insert_with(|| conn.outbox.lock());
        let (pieces, after) = reader.finish(tree, read);
        let bytes = outbox.put_pieces(pieces);
        self.answered(xid, op, bytes, after)
    }

    /// Counts an answer that was put into the outbox.
    fn answered(&mut self, xid: Xid, op: OpCode, bytes: usize, after: After) -> Next {
        let (Some(tree), Some(outbox)) = (&self.tree, &mut self.outbox) else {
            unreachable!("both are locked by whoever answers")
        };
        self.cost += 1;
        self.answers.add(bytes);
        self.last = (op, xid, tree.last_zxid());
        match after {
            After::Keep => {}
            After::Long => unreachable!("a read that was put off can be begun"),
            After::TooLong => self.worker.too_long(op, self.received),
            After::Close => {
                outbox.close();
                return Next::Enough;
            }
        }
        self.worker.answered(op);
        if outbox.waiting() > OUTBOX_BYTES_HIGH { Next::Enough } else { Next::Frame }
    }

    /// Unlocks tree and outbox, counts, and hands the requests for the replica in.
    fn finish(mut self, submitted: &mut Vec<Input>) {
        assert!(
            self.outbox.is_none() || self.tree.is_some(),
            "the outbox is held without the tree"
        );
        assert!(self.long.is_none(), "a read under way is forgotten");
        assert!(self.frames <= FRAMES_MAX as u64, "{} frames in one run", self.frames);
        assert_eq!(self.entering.requests, submitted.len(), "what is handed in is counted");
        self.outbox = None;
        self.tree = None;
        let reads = self.queued_reads - self.queued_before;
        let Self { common, conn, worker, received, frames, bytes, answers, last, .. } = self;
        worker.ran(conn, &Run { received, frames, bytes, answers, last });
        if !submitted.is_empty() {
            debug_assert_eq!(reads as usize, submitted.iter().filter(is_queued_read).count());
            if reads > 0 {
                conn.queued_reads.fetch_add(reads, Ordering::AcqRel);
            }
            conn.in_flight.fetch_add(submitted.len() as u32, Ordering::AcqRel);
            common.load.entered(self.entering);
            worker.hand_in(common, conn, received, submitted);
            assert!(submitted.is_empty(), "what is handed in is with the replica");
        }
    }
}

/// Whether a connection must wait for an answer before it takes more requests.
///
/// A connection without requests in flight is never held: no answer would wake it.
pub(crate) fn is_held<S: Side>(
    common: &Common<S>,
    in_flight: u32,
    queued_reads: u32,
    entering: &Several,
) -> bool {
    common.load.holds(in_flight, entering) || (in_flight > 0 && queued_reads >= QUEUED_READS_MAX)
}

/// Whether the first frame of `input` is a long read, which waits until nothing is in flight.
pub(crate) fn begins_long<S: Side>(common: &Common<S>, input: &[u8]) -> bool {
    let Ok(Some(length)) = frame_length(input, common) else { return false };
    let frame = frame::LENGTH_BYTES..frame::LENGTH_BYTES + length;
    let Some(bytes) = input.get(frame) else { return false };
    let mut decoder = Decoder::new(bytes);
    RequestHeader::decode(&mut decoder).is_ok_and(|header| {
        let body = &bytes[decoder.position()..];
        waits_for_turn(header.op, body, || common.tree.read())
    })
}

fn is_queued_read(input: &&Input) -> bool {
    matches!(input, Input::Request(request) if gate::is_read(request.op))
}
