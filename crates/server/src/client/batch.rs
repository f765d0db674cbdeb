//! Requests of one connection, taken from its input in a run: what can be answered from the tree as
//! it is, is answered here, the rest goes to the replica.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use parking_lot::{MutexGuard, RwLockReadGuard};
use zebu_jute::{Decode, Decoder, Encode};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{AuthPacket, RequestHeader};
use zebu_proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};
use zebu_replica::auth::Credentials;
use zebu_replica::gate::{self, Route};
use zebu_replica::{After, Input, Reader, Request, frame};
use zebu_tree::Tree;

use super::{End, OUTBOX_BYTES_HIGH, frame_length};
use crate::aside;
use crate::config::LimitConfig;
use crate::conn::{Conn, OUTBOX_BYTES_MAX, Outbox};
use crate::conns;
use crate::counting::{Answers, Ops, bytes_read};
use crate::load::Several;
use crate::metrics::Gather;
use crate::shared::Shared;

/// Frames taken in a row before others get their turn.
const FRAMES_MAX: usize = 1024;

/// Reads of one connection that may wait behind its writes: how large their answers will be is not
/// known before they are made. All of them fit into an outbox, each as large as a request may be.
const QUEUED_READS_MAX: u32 = 32;

/// Unsent bytes above which a connection that does not read what it is sent is closed.
pub fn outbox_bytes_max(limits: &LimitConfig) -> usize {
    OUTBOX_BYTES_MAX.max(limits.packet_bytes.saturating_mul(2 * QUEUED_READS_MAX as usize))
}

/// What a run goes on with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next frame.
    Frame,
    /// Nothing for now.
    Enough,
}

/// A run of requests.
///
/// The tree and the outbox are locked once for the whole run, the tree first, and only when a
/// request of it is answered here.
pub(super) struct Batch<'s> {
    shared: &'s Shared,
    conn: &'s Conn,
    session: SessionId,
    ids: Credentials,
    received: Duration,
    /// Requests on their way through the replica, those of this run included.
    in_flight: u32,
    queued_reads: u32,
    // Dropped in this order: the outbox is never held without the tree.
    outbox: Option<MutexGuard<'s, Outbox>>,
    tree: Option<RwLockReadGuard<'s, Tree>>,
    frames: u64,
    bytes: usize,
    /// What goes to the replica.
    entering: Several,
    answers: Answers,
    ops: Ops<'s>,
    read: Gather<'s>,
    last: (OpCode, Xid, Zxid),
}

impl<'s> Batch<'s> {
    pub(super) fn new(shared: &'s Shared, conn: &'s Arc<Conn>, session: SessionId) -> Self {
        Self {
            shared,
            conn,
            session,
            ids: conn.ids(),
            received: shared.clock.monotonic(),
            in_flight: conn.in_flight.load(Ordering::Acquire),
            queued_reads: conn.queued_reads.load(Ordering::Acquire),
            outbox: None,
            tree: None,
            frames: 0,
            bytes: 0,
            entering: Several::default(),
            answers: Answers::default(),
            ops: Ops::new(&shared.metrics),
            read: shared.metrics.read_per_namespace.gather(),
            last: (OpCode::PING, Xid(-1), Zxid::ZERO),
        }
    }

    /// Takes frames until there is none, or others should have their turn; what goes to the replica
    /// is added to `submitted`, which is handed in.
    pub(super) fn run(
        mut self,
        input: &mut BytesMut,
        submitted: &mut Vec<Input>,
    ) -> Result<(), End> {
        let mut result = Ok(());
        for _ in 0..FRAMES_MAX {
            match self.frame(input, submitted) {
                Ok(Next::Frame) => {}
                Ok(Next::Enough) => break,
                Err(end) => {
                    result = Err(end);
                    break;
                }
            }
        }
        self.finish(submitted);
        result
    }

    fn frame(&mut self, input: &mut BytesMut, submitted: &mut Vec<Input>) -> Result<Next, End> {
        let length = match frame_length(input, self.shared)? {
            Some(length) if input.len() >= frame::LENGTH_BYTES + length => length,
            _ => return Ok(Next::Enough),
        };
        if is_held(self.shared, self.in_flight, self.queued_reads, &self.entering) {
            return Ok(Next::Enough);
        }
        let bytes = &input[frame::LENGTH_BYTES..frame::LENGTH_BYTES + length];
        let mut decoder = Decoder::new(bytes);
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut decoder) else {
            return Err(End::Broken("a frame shorter than its header"));
        };
        let body_at = frame::LENGTH_BYTES + decoder.position();
        let route = gate::route(op, self.in_flight as usize);
        let is_queued_read = route == Route::Queue && gate::is_read(op);
        self.frames += 1;
        self.bytes += frame::LENGTH_BYTES + length;
        let enforced = &self.shared.config.auth.enforced_schemes;
        if !enforced.is_empty()
            && !matches!(op, OpCode::AUTH | OpCode::SASL)
            && !self.ids.iter().any(|id| enforced.contains(&id.scheme))
        {
            self.say(|out| {
                let code = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
                let bytes = out.put(|out| frame::bare_reply(out, xid, Zxid::ZERO, code));
                out.close();
                bytes
            });
            return Ok(Next::Enough);
        }
        let next = match op {
            OpCode::AUTH => {
                let Ok(packet) = AuthPacket::decode(&mut decoder) else {
                    return Err(End::Broken("an auth packet that is cut short"));
                };
                self.authenticate(xid, packet)
            }
            OpCode::SASL => {
                if !matches!(decoder.buffer(), Ok(Some(_))) {
                    return Err(End::Broken("a sasl packet without a token"));
                }
                // No server login is configured: no error, and no token.
                let header = ReplyHeader { xid, zxid: Zxid::ZERO, err: ErrorCode::OK };
                self.say(|out| {
                    out.put(|out| frame::reply(out, header, |out| None::<&[u8]>.encode(out)))
                });
                Next::Frame
            }
            _ if route == Route::Now => {
                let body = &input[body_at..frame::LENGTH_BYTES + length];
                self.answer(xid, op, body)
            }
            _ => {
                if !self.shared.load.enter(length, &mut self.entering) {
                    return Err(End::TooLarge);
                }
                let mut payload = input.split_to(frame::LENGTH_BYTES + length);
                payload.advance(body_at);
                self.in_flight += 1;
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

    /// Puts something into the outbox that does not depend on the tree.
    fn say(&mut self, say: impl FnOnce(&mut Outbox) -> usize) {
        let bytes = match &mut self.outbox {
            Some(outbox) => say(outbox),
            // Not kept: the tree may have to be locked later in this run, and it comes first.
            None => say(&mut self.conn.outbox.lock()),
        };
        self.answers.add(bytes);
    }

    /// Answered at once, ahead of what is queued; counts for everything that comes after it.
    fn authenticate(&mut self, xid: Xid, packet: AuthPacket<'_>) -> Next {
        let AuthPacket { scheme, auth, .. } = packet;
        let added = scheme.and_then(|scheme| {
            let peer = self.conn.address();
            self.shared.schemes.authenticate(&self.ids, peer, &scheme, auth).ok()
        });
        let code = if added.is_some() { ErrorCode::OK } else { ErrorCode::AUTH_FAILED };
        let reply = |out: &mut Vec<u8>| frame::bare_reply(out, xid, Zxid::ZERO, code);
        match added {
            Some(added) => {
                self.conn.set_ids(added.clone());
                self.ids = added;
                self.say(|out| out.put(reply));
                Next::Frame
            }
            None => {
                self.say(|out| {
                    let bytes = out.put(reply);
                    out.close();
                    bytes
                });
                Next::Enough
            }
        }
    }

    /// Answers from the tree as it is.
    fn answer(&mut self, xid: Xid, op: OpCode, body: &[u8]) -> Next {
        let shared = self.shared;
        let tree = self.tree.get_or_insert_with(|| shared.tree.read());
        let conn = self.conn;
        let outbox = self.outbox.get_or_insert_with(|| conn.outbox.lock());
        let reader = Reader {
            schemes: &shared.schemes,
            watcher: conns::watcher(conn.id),
            session: self.session,
            ids: &self.ids,
        };
        let mut after = After::Keep;
        let read = &mut self.read;
        let bytes = outbox.put(|out| {
            let at = out.len();
            after = reader.answer(tree, xid, op, body, out);
            if let Some((path, bytes)) = bytes_read(op, body, &out[at..]) {
                read.add(path, bytes);
            }
        });
        self.answers.add(bytes);
        self.last = (op, xid, tree.last_zxid());
        if after == After::Close {
            outbox.close();
            return Next::Enough;
        }
        self.ops.add(op);
        if outbox.len() > OUTBOX_BYTES_HIGH { Next::Enough } else { Next::Frame }
    }

    /// Unlocks, counts, and hands in what goes to the replica.
    fn finish(mut self, submitted: &mut Vec<Input>) {
        self.outbox = None;
        self.tree = None;
        self.ops.record();
        let Self { shared, conn, .. } = self;
        let stats = &conn.stats;
        let answered = self.answers.count();
        if answered > 0 {
            aside::serves(conn.id, self.received);
            let (op, xid, zxid) = self.last;
            let now = shared.clock.monotonic();
            let latency = now.saturating_sub(self.received).as_millis() as u64;
            stats.answered(answered, op, xid.0, zxid.0, now.as_millis() as u64, latency);
            stats.sent.fetch_add(answered, Ordering::Relaxed);
            let latency = latency as i64;
            shared.metrics.readlatency.add_many(latency, answered);
            shared.metrics.read_final_proc_time_ms.add_many(latency, answered);
            self.answers.record(&shared.stats, &shared.metrics, latency);
        }
        shared.metrics.bytes_received_count.add(self.bytes as u64);
        shared.stats.packets_received.add(self.frames);
        stats.received.fetch_add(self.frames, Ordering::Relaxed);
        if !submitted.is_empty() {
            let reads = submitted.iter().filter(|input| is_queued_read(input)).count() as u32;
            conn.queued_reads.fetch_add(reads, Ordering::AcqRel);
            conn.in_flight.fetch_add(submitted.len() as u32, Ordering::AcqRel);
            shared.load.entered(self.entering);
            aside::hand_in(shared, conn.id, self.received, submitted);
        }
    }
}

/// Whether a connection has to wait for one of its answers before more is taken from its input.
///
/// Who waits for nothing is never held: nothing would wake it.
pub(super) fn is_held(
    shared: &Shared,
    in_flight: u32,
    queued_reads: u32,
    entering: &Several,
) -> bool {
    shared.load.holds(in_flight, entering) || (in_flight > 0 && queued_reads >= QUEUED_READS_MAX)
}

fn is_queued_read(input: &Input) -> bool {
    matches!(input, Input::Request(request) if gate::is_read(request.op))
}
