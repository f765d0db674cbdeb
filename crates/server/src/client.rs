//! A client's connection, from its first byte to its last: frames in, answers out.
//!
//! One task per connection, on the network worker that accepted it. Whatever is answered from the
//! tree as it is, is answered here, a whole batch under one read lock; the rest goes to the replica.
//! Memory follows the bytes that really came, never a length that was promised.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tracing::{debug, info};
use zebu_jute::{Decode, Decoder, Encode};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{AuthPacket, ConnectRequest, RequestHeader};
use zebu_proto::{ErrorCode, OpCode, SessionId, Zxid};
use zebu_replica::gate::{Route, route};
use zebu_replica::{After, Connect, Input, Reader, Request, frame};
use zebu_tree::WatcherId;

use crate::conn::Conn;
use crate::counting::{count_answers, count_op};
use crate::shared::Shared;
use crate::words;

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;

/// Unsent bytes above which nothing more is read from a connection.
const OUTBOX_BYTES_HIGH: usize = 1 << 20;

/// Unsent bytes above which a connection that does not read its notifications is closed.
const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// Frames answered in a row before others get their turn.
const BATCH_FRAMES: usize = 1024;

/// How long an answer in flight may still take to leave when the connection is closed.
const LINGER: Duration = Duration::from_secs(5);

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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
enum End {
    /// Its bytes are not what they claim; nothing more is sent.
    Broken(&'static str),
    /// It asked a four-letter word.
    Word(words::Question),
}

struct Client<'s> {
    shared: &'s Shared,
    conn: &'s Arc<Conn>,
    phase: Phase,
    input: BytesMut,
    submitted: Vec<Input>,
}

/// Serves a connection until it ends.
pub async fn serve(shared: Arc<Shared>, conn: Arc<Conn>, stream: TcpStream) {
    let mut client = Client {
        shared: &shared,
        conn: &conn,
        phase: Phase::Start,
        input: BytesMut::new(),
        submitted: Vec::new(),
    };
    let end = client.drive(&stream).await;
    if let Err(End::Word(question)) = end {
        words::answer(&shared, &stream, question).await;
    }
    shared.leave(&conn);
    shared.tree.read().drop_watcher(WatcherId(conn.id.0));
    if let Some(session) = conn.session() {
        shared.inbox.push(Input::Disconnected { conn: conn.id, session });
    }
    if let Err(End::Broken(why)) = end {
        info!("closing the connection from {}: {why}", conn.peer);
    }
}

impl Client<'_> {
    async fn drive(&mut self, stream: &TcpStream) -> Result<(), End> {
        let deadline = Instant::now() + self.shared.config.net.handshake_timeout;
        let mut linger = None;
        let mut unsent: Vec<u8> = Vec::new();
        let mut sent = 0;
        loop {
            self.conn.looking();
            self.process()?;
            // Collect what there is to send, and send as much as fits now.
            let waiting = {
                let mut outbox = self.conn.outbox.lock();
                if sent == unsent.len() {
                    unsent.clear();
                    sent = 0;
                    std::mem::swap(&mut unsent, &mut outbox.bytes);
                }
                if outbox.close {
                    self.phase = Phase::Closing;
                }
                outbox.bytes.len()
            };
            if waiting > OUTBOX_BYTES_MAX {
                return Err(End::Broken("it does not read what it is sent"));
            }
            while sent < unsent.len() {
                match stream.try_write(&unsent[sent..]) {
                    Ok(count) => sent += count,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(_) => return Ok(()),
                }
            }
            let blocked = sent < unsent.len();
            if !blocked {
                if waiting > 0 {
                    continue;
                }
                if unsent.capacity() > READ_BYTES {
                    unsent = Vec::new();
                    sent = 0;
                }
                if self.phase == Phase::Closing {
                    return Ok(());
                }
            }
            let stuffed = blocked && waiting + unsent.len() > OUTBOX_BYTES_HIGH;
            let read = match self.phase {
                Phase::Start => true,
                Phase::Open => !stuffed && !self.is_throttled(),
                Phase::Connecting | Phase::Closing => false,
            };
            if self.phase == Phase::Open && read && self.has_frame() {
                // A batch ended before its input did: let others have their turn, then go on.
                tokio::task::yield_now().await;
                continue;
            }
            // A connection that is not read from is still watched, so that its end is noticed.
            let interest = match (read, blocked) {
                (true, true) => Interest::READABLE | Interest::WRITABLE,
                (true, false) => Interest::READABLE,
                (false, true) => Interest::WRITABLE,
                (false, false) => Interest::ERROR,
            };
            let until = match self.phase {
                Phase::Start => Some(deadline),
                Phase::Closing => Some(*linger.get_or_insert_with(|| Instant::now() + LINGER)),
                Phase::Connecting | Phase::Open => None,
            };
            let ready = tokio::select! {
                biased;
                ready = stream.ready(interest) => ready,
                () = self.conn.wake.notified() => continue,
                () = sleep_until(until) => {
                    if self.phase == Phase::Start {
                        self.shared.metrics.sessionless_connections_expired.add(1);
                        return Err(End::Broken("no handshake in time"));
                    }
                    return Ok(());
                }
            };
            let Ok(ready) = ready else { return Ok(()) };
            if read && (ready.is_readable() || ready.is_read_closed()) {
                if !self.read(stream) {
                    return Ok(());
                }
            } else if ready.is_error() {
                return Ok(());
            }
        }
    }

    /// Reads what has come; false when the client is gone.
    fn read(&mut self, stream: &TcpStream) -> bool {
        loop {
            self.input.reserve(READ_BYTES.min(4096 + self.input.len()));
            match stream.try_read_buf(&mut self.input) {
                Ok(0) => {
                    self.shared.metrics.connection_drop_count.add(1);
                    return false;
                }
                Ok(_) if self.input.len() < self.input.capacity() => return true,
                Ok(_) if self.input.len() >= READ_BYTES => return true,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Whether the server has so much to do that this connection must wait for its own answers.
    fn is_throttled(&self) -> bool {
        if self.conn.in_flight.load(Ordering::Acquire) == 0 {
            return false;
        }
        let limits = &self.shared.config.limits;
        let inbox = &self.shared.inbox;
        inbox.requests.load(Ordering::Relaxed) > limits.outstanding_requests as usize
            || inbox.request_bytes.load(Ordering::Relaxed)
                > limits.large_requests_bytes_max as usize
    }

    /// The length of the next frame, once it is here.
    fn frame_length(&self) -> Result<Option<usize>, End> {
        let Some(length) = self.input.first_chunk::<4>() else { return Ok(None) };
        let length = i32::from_be_bytes(*length);
        usize::try_from(length)
            .ok()
            .filter(|length| *length <= self.shared.config.limits.packet_bytes)
            .map(Some)
            .ok_or(End::Broken("a frame of impossible length"))
    }

    fn has_frame(&self) -> bool {
        match self.frame_length() {
            Ok(None) => false,
            Ok(Some(length)) => self.input.len() >= frame::LENGTH_BYTES + length,
            Err(_) => true,
        }
    }

    /// Takes everything from the input that may be taken now.
    fn process(&mut self) -> Result<(), End> {
        if self.phase == Phase::Start {
            self.start()?;
        }
        if self.phase == Phase::Connecting && self.conn.session().is_some() {
            self.phase = Phase::Open;
        }
        if self.phase == Phase::Open {
            self.requests()?;
            if self.input.is_empty() && self.input.capacity() > 0 && !self.has_frame() {
                self.input = BytesMut::new();
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), End> {
        let Some(word) = self.input.first_chunk::<4>() else { return Ok(()) };
        if let Some(question) = words::Question::parse(*word, &self.input[4..]) {
            return match question {
                words::Parsed::Whole(question) => Err(End::Word(question)),
                words::Parsed::Partial => Ok(()),
            };
        }
        let Some(length) = self.frame_length()? else { return Ok(()) };
        if self.input.len() < frame::LENGTH_BYTES + length {
            return Ok(());
        }
        self.input.advance(frame::LENGTH_BYTES);
        let payload = self.input.split_to(length);
        if !self.shared.serving.load(Ordering::Acquire) {
            return Err(End::Broken("not serving"));
        }
        let request = ConnectRequest::from_bytes(&payload)
            .map_err(|_| End::Broken("its first frame is not a connect request"))?;
        let metrics = &self.shared.metrics;
        metrics.bytes_received_count.add((frame::LENGTH_BYTES + length) as u64);
        self.shared.stats.packets_received.add(1);
        self.conn.stats.received.fetch_add(1, Ordering::Relaxed);
        self.conn.says_read_only.store(request.read_only.is_some(), Ordering::Relaxed);
        self.heard();
        debug!(
            "connect request from {} for session {}",
            self.conn.peer,
            SessionId(request.session_id)
        );
        self.phase = Phase::Connecting;
        self.shared.inbox.push(Input::Connect(Connect {
            conn: self.conn.id,
            last_zxid_seen: request.last_zxid_seen,
            timeout_ms: request.timeout_ms,
            session: SessionId(request.session_id),
            password: request.password.unwrap_or_default().to_vec(),
        }));
        Ok(())
    }

    fn heard(&self) {
        let now = self.shared.clock.monotonic().as_millis() as u64;
        self.conn.heard_ms.store(now, Ordering::Relaxed);
    }

    /// Takes requests until the input has no whole frame, or others should have their turn.
    fn requests(&mut self) -> Result<(), End> {
        if !self.has_frame() || self.is_throttled() {
            return Ok(());
        }
        self.heard();
        let received = self.shared.clock.monotonic();
        let now_ms = received.as_millis() as u64;
        let Some(session) = self.conn.session() else { return Ok(()) };
        let (shared, conn) = (self.shared, self.conn);
        let mut ids = conn.ids();
        let mut in_flight = conn.in_flight.load(Ordering::Acquire) as usize;
        let mut queued = 0;
        let mut queued_bytes = 0;
        let (mut frames, mut bytes) = (0, 0);
        let mut broken = None;
        {
            // One lock of the tree and one of the outbox for the whole batch, and only when a
            // request of it is answered here.
            let mut tree = None;
            let mut outbox = None;
            let mut answered = 0;
            let mut answered_bytes = 0;
            let mut last = (OpCode::PING, -1, 0);
            while frames < BATCH_FRAMES {
                let length = match self.frame_length() {
                    Ok(Some(length)) if self.input.len() >= frame::LENGTH_BYTES + length => length,
                    Ok(_) => break,
                    Err(end) => {
                        broken = Some(end);
                        break;
                    }
                };
                self.input.advance(frame::LENGTH_BYTES);
                frames += 1;
                bytes += frame::LENGTH_BYTES + length;
                let mut decoder = Decoder::new(&self.input[..length]);
                let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut decoder) else {
                    broken = Some(End::Broken("a frame shorter than its header"));
                    break;
                };
                let header_bytes = decoder.position();
                let enforced = &shared.config.auth.enforced_schemes;
                if !enforced.is_empty()
                    && !matches!(op, OpCode::AUTH | OpCode::SASL)
                    && !ids.iter().any(|id| enforced.contains(&id.scheme))
                {
                    let outbox = outbox.get_or_insert_with(|| conn.outbox.lock());
                    let code = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
                    frame::bare_reply(&mut outbox.bytes, xid, Zxid::ZERO, code);
                    outbox.close = true;
                    break;
                }
                match op {
                    OpCode::AUTH => {
                        let packet = AuthPacket::decode(&mut decoder);
                        let added = packet.ok().and_then(|packet| {
                            let scheme = packet.scheme?;
                            let auth = packet.auth.unwrap_or_default();
                            let peer = conn.address();
                            shared.schemes.authenticate(&ids, peer, &scheme, auth).ok()
                        });
                        let outbox = outbox.get_or_insert_with(|| conn.outbox.lock());
                        match added {
                            Some(added) => {
                                conn.set_ids(added.clone());
                                ids = added;
                                frame::bare_reply(
                                    &mut outbox.bytes,
                                    xid,
                                    Zxid::ZERO,
                                    ErrorCode::OK,
                                );
                            }
                            None => {
                                let code = ErrorCode::AUTH_FAILED;
                                frame::bare_reply(&mut outbox.bytes, xid, Zxid::ZERO, code);
                                outbox.close = true;
                                break;
                            }
                        }
                        self.input.advance(length);
                        answered += 1;
                        continue;
                    }
                    OpCode::SASL => {
                        // No server login is configured: no error, and no token.
                        let outbox = outbox.get_or_insert_with(|| conn.outbox.lock());
                        let header = ReplyHeader { xid, zxid: Zxid::ZERO, err: ErrorCode::OK };
                        frame::reply(&mut outbox.bytes, header, |out| None::<&[u8]>.encode(out));
                        self.input.advance(length);
                        answered += 1;
                        continue;
                    }
                    _ => {}
                }
                if route(op, in_flight) == Route::Now {
                    let tree = &**tree.get_or_insert_with(|| shared.tree.read());
                    let outbox = outbox.get_or_insert_with(|| conn.outbox.lock());
                    let reader =
                        Reader { schemes: &shared.schemes, conn: conn.id, session, ids: &ids };
                    let body = &self.input[header_bytes..length];
                    let before = outbox.bytes.len();
                    let after = reader.answer(tree, xid, op, body, &mut outbox.bytes);
                    answered_bytes += outbox.bytes.len() - before;
                    self.input.advance(length);
                    answered += 1;
                    count_op(&shared.metrics, op);
                    last = (op, xid.0, tree.last_zxid().0);
                    if after == After::Close {
                        outbox.close = true;
                        break;
                    }
                    if outbox.bytes.len() > OUTBOX_BYTES_HIGH {
                        break;
                    }
                } else {
                    let mut payload = self.input.split_to(length);
                    payload.advance(header_bytes);
                    queued += 1;
                    queued_bytes += payload.len();
                    in_flight += 1;
                    self.submitted.push(Input::Request(Request {
                        conn: conn.id,
                        session,
                        xid,
                        op,
                        body: payload.freeze(),
                        ids: ids.clone(),
                        received,
                    }));
                }
            }
            if answered > 0 {
                let (op, xid, zxid) = last;
                conn.stats.answered(answered, op, xid, zxid, now_ms, 0);
                conn.stats.sent.fetch_add(answered, Ordering::Relaxed);
                count_answers(&shared.stats, &shared.metrics, answered, answered_bytes, 0);
            }
        }
        let metrics = &shared.metrics;
        metrics.bytes_received_count.add(bytes as u64);
        shared.stats.packets_received.add(frames as u64);
        conn.stats.received.fetch_add(frames as u64, Ordering::Relaxed);
        if queued > 0 {
            conn.in_flight.fetch_add(queued, Ordering::AcqRel);
            shared.inbox.entering(queued as usize, queued_bytes);
            shared.inbox.push_all(&mut self.submitted);
        }
        match broken {
            Some(end) => Err(end),
            None => Ok(()),
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
