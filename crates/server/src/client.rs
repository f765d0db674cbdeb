//! A client's connection, from its first byte to its last: frames in, answers out.
//!
//! One task per connection, on the network worker that accepted it. Whatever is answered from the
//! tree as it is, is answered here, a whole batch under one read lock; the rest goes to the replica.
//! Memory follows the bytes that really came, never a length that was promised.

use std::cell::RefCell;
use std::io::{ErrorKind, Read as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use zebu_jute::Decode as _;
use zebu_proto::SessionId;
use zebu_proto::request::ConnectRequest;
use zebu_replica::{Connect, Input, frame};

use batch::Batch;

use crate::aside;
use crate::conn::{Conn, OutboxEnd};
use crate::conns;
use crate::load::Several;
use crate::shared::{Shared, StopOnPanic};
use crate::words;

pub use batch::outbox_bytes_max;

mod batch;

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;

/// Unsent bytes above which nothing more is read from a connection.
const OUTBOX_BYTES_HIGH: usize = 1 << 20;

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

/// Why a network worker serves a connection no longer.
enum Turn {
    /// It has ended.
    Over,
    /// Another one is to serve it.
    Elsewhere,
}

/// Why a connection ends at once.
enum End {
    /// Its bytes are not what they claim; nothing more is sent.
    Broken(&'static str),
    /// Nobody is served.
    NotServing,
    /// It wants to send a large request while there is no room for it.
    TooLarge,
    /// It asked a four-letter word.
    Word(words::Question),
}

thread_local! {
    /// Where bytes arrive. Only a connection that has not enough for a frame keeps them.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection between two turns: all of it but its socket.
pub struct Client {
    shared: Arc<Shared>,
    conn: Arc<Conn>,
    phase: Phase,
    input: BytesMut,
    submitted: Vec<Input>,
    /// What was taken from the outbox, and how much of it is sent.
    unsent: Vec<u8>,
    sent: usize,
}

/// Serves a connection until it ends, or until another network worker than `worker` is to serve it: then
/// it goes on from what is returned.
pub async fn serve(
    mut client: Client,
    stream: TcpStream,
    worker: usize,
) -> Option<(Client, std::net::TcpStream)> {
    let shared = client.shared.clone();
    let _guard = StopOnPanic::new(&shared, "a connection");
    let end = match client.drive(&stream, worker).await {
        Ok(Turn::Over) => Ok(()),
        Ok(Turn::Elsewhere) => match stream.into_std() {
            Ok(stream) => return Some((client, stream)),
            Err(_) => Ok(()),
        },
        Err(End::Word(question)) => {
            words::answer(&shared, &stream, question).await;
            Ok(())
        }
        Err(end) => Err(end),
    };
    client.leave();
    let conn = &client.conn;
    match end {
        Ok(()) | Err(End::Word(_)) => {}
        Err(End::NotServing) => shared.refused.say(conn.peer),
        Err(End::Broken(why)) => info!("closing the connection from {}: {why}", conn.peer),
        Err(End::TooLarge) => {
            shared.metrics.large_requests_rejected.add(1);
            warn!(
                "closing the connection from {}: large requests in progress reach largeRequestMaxBytes",
                conn.peer
            );
        }
    }
    None
}

impl Client {
    /// A connection that was just accepted.
    pub fn new(shared: Arc<Shared>, conn: Arc<Conn>) -> Self {
        Self {
            shared,
            conn,
            phase: Phase::Start,
            input: BytesMut::new(),
            submitted: Vec::new(),
            unsent: Vec::new(),
            sent: 0,
        }
    }

    /// The connection as others see it.
    pub fn conn(&self) -> &Conn {
        &self.conn
    }

    /// The connection is over, for everybody.
    pub fn leave(&self) {
        let Self { shared, conn, .. } = self;
        shared.conns.leave(conn);
        shared.tree.read().drop_watcher(conns::watcher(conn.id));
        shared.conns.free(conn);
        if self.phase != Phase::Start {
            // Said even when there is no session yet: it may be on its way.
            let session = conn.session().unwrap_or(SessionId::NONE);
            // What the client said last was perhaps not reported yet.
            shared.inbox.push(Input::Touched { session, at: conn.heard() });
            shared.inbox.push(Input::Disconnected { conn: conn.id, session });
        }
    }

    async fn drive(&mut self, stream: &TcpStream, worker: usize) -> Result<Turn, End> {
        let deadline = Instant::now() + self.shared.config.net.handshake_timeout;
        let mut linger = None;
        loop {
            self.conn.looking();
            aside::passes(&self.shared);
            if self.phase == Phase::Open && self.conn.worker.load(Ordering::Relaxed) != worker {
                return Ok(Turn::Elsewhere);
            }
            self.process()?;
            // Collect what there is to send, and send as much as fits now.
            let waiting = {
                let mut outbox = self.conn.outbox.lock();
                if self.sent == self.unsent.len() {
                    self.unsent.clear();
                    self.sent = 0;
                    outbox.swap(&mut self.unsent);
                }
                match outbox.end() {
                    OutboxEnd::Open => {}
                    OutboxEnd::Last => self.phase = Phase::Closing,
                    OutboxEnd::Overrun => {
                        return Err(End::Broken("it does not read what it is sent"));
                    }
                }
                outbox.len()
            };
            while self.sent < self.unsent.len() {
                match stream.try_write(&self.unsent[self.sent..]) {
                    Ok(count) => self.sent += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return Ok(Turn::Over),
                }
            }
            let blocked = self.sent < self.unsent.len();
            if !blocked {
                if waiting > 0 {
                    continue;
                }
                if self.unsent.capacity() > READ_BYTES {
                    self.unsent = Vec::new();
                    self.sent = 0;
                }
                if self.phase == Phase::Closing {
                    return Ok(Turn::Over);
                }
            }
            let stuffed = blocked && waiting + self.unsent.len() - self.sent > OUTBOX_BYTES_HIGH;
            let read = match self.phase {
                Phase::Start => true,
                Phase::Open => !stuffed && !self.is_held(),
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
                    return Ok(Turn::Over);
                }
            };
            let Ok(ready) = ready else { return Ok(Turn::Over) };
            if read && (ready.is_readable() || ready.is_read_closed()) {
                if !self.read(stream) {
                    return Ok(Turn::Over);
                }
            } else if ready.is_error() {
                return Ok(Turn::Over);
            }
        }
    }

    /// Reads what has come; false when the client is gone.
    fn read(&mut self, stream: &TcpStream) -> bool {
        READ_BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(READ_BYTES, 0);
            let mut count = 0;
            // A read that does not fill its buffer has taken everything: the next one, which would only
            // say so, is spared by saying it ourselves.
            let read = stream.try_io(Interest::READABLE, || {
                count = (&*SockRef::from(stream)).read(buffer)?;
                if (1..READ_BYTES).contains(&count) {
                    Err(ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
            });
            self.input.extend_from_slice(&buffer[..count]);
            match read {
                Ok(()) if count == 0 => {
                    self.shared.metrics.connection_drop_count.add(1);
                    false
                }
                Ok(()) => true,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            }
        })
    }

    /// Whether nothing is taken from the input until an answer wakes the task.
    fn is_held(&self) -> bool {
        let in_flight = self.conn.in_flight.load(Ordering::Acquire);
        let queued_reads = self.conn.queued_reads.load(Ordering::Acquire);
        batch::is_held(&self.shared, in_flight, queued_reads, &Several::default())
    }

    /// Whether so much waits to be sent that this comes first.
    fn is_stuffed(&self) -> bool {
        let taken = self.unsent.len() - self.sent;
        taken + self.conn.outbox.lock().len() > OUTBOX_BYTES_HIGH
    }

    fn has_frame(&self) -> bool {
        match frame_length(&self.input, &self.shared) {
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
        let Some(length) = frame_length(&self.input, &self.shared)? else { return Ok(()) };
        if self.input.len() < frame::LENGTH_BYTES + length {
            return Ok(());
        }
        self.input.advance(frame::LENGTH_BYTES);
        let payload = self.input.split_to(length);
        if self.shared.serving().is_none() {
            return Err(End::NotServing);
        }
        let request = ConnectRequest::from_bytes(&payload)
            .map_err(|_| End::Broken("its first frame is not a connect request"))?;
        let metrics = &self.shared.metrics;
        metrics.bytes_received_count.add((frame::LENGTH_BYTES + length) as u64);
        self.shared.stats.packets_received.add(1);
        self.conn.stats.received.fetch_add(1, Ordering::Relaxed);
        self.conn.says_read_only.store(request.read_only.is_some(), Ordering::Relaxed);
        self.conn.renews.store(request.session_id != SessionId::NONE.0, Ordering::Relaxed);
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
            read_only: request.read_only == Some(true),
        }));
        Ok(())
    }

    fn heard(&self) {
        let now = self.shared.clock.monotonic().as_millis() as u64;
        self.conn.heard_ms.store(now, Ordering::Relaxed);
    }

    /// Takes requests until the input has no whole frame, or others should have their turn.
    fn requests(&mut self) -> Result<(), End> {
        if !self.has_frame() || self.is_held() || self.is_stuffed() {
            return Ok(());
        }
        self.heard();
        let Some(session) = self.conn.session() else { return Ok(()) };
        Batch::new(&self.shared, &self.conn, session).run(&mut self.input, &mut self.submitted)
    }
}

/// The length of the frame that `input` starts with, once it is here.
///
/// A frame that cannot be taken ends the connection as soon as its length is known.
fn frame_length(input: &[u8], shared: &Shared) -> Result<Option<usize>, End> {
    let Some(length) = input.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length))
        .ok()
        .filter(|length| *length <= shared.config.limits.packet_bytes)
        .ok_or(End::Broken("a frame of impossible length"))?;
    if shared.load.has_room_for(length) { Ok(Some(length)) } else { Err(End::TooLarge) }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
