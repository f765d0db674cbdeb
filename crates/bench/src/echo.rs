//! A server that does nothing but answer in the right form: the upper bound of what any server could
//! reach on this machine, and the counterpart of this crate's tests.
//!
//! Keeps no znodes. Every read succeeds with the last value written, every write succeeds; one-shot
//! data watches are remembered, so that notifications can be counted against it too.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use zebu_jute::{Decoder, Encoder};

use crate::wire::{self, LENGTH_BYTES, op};

/// Bytes read per system call.
const READ_BYTES: usize = 256 << 10;
/// Nothing more is read from a client that leaves this much unread.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Largest request taken: `jute.maxbuffer`'s default.
const REQUEST_BYTES_MAX: usize = 0xf_ffff;
/// Readiness events taken per turn.
const EVENTS_MAX: usize = 1024;
/// How soon a stop is noticed.
const TURN_MAX: Duration = Duration::from_millis(50);
const LISTENER: Token = Token(usize::MAX - 1);
/// Bytes of a `Stat`.
const STAT_BYTES: usize = 68;

/// A running echo server; it stops when this is dropped.
#[derive(Debug)]
pub struct EchoServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl EchoServer {
    /// Listens on `address` (port 0 takes a free one) and serves on a thread of its own.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let mut listener =
            TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
        let address = listener.local_addr()?;
        let poll = Poll::new().context("create an epoll instance")?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut echo = Echo {
            poll,
            listener,
            conns: Vec::new(),
            watches: HashMap::new(),
            replies: Replies::new(0),
            sessions: 0,
        };
        let thread = std::thread::Builder::new().name("echo".into()).spawn(move || {
            if let Err(error) = echo.serve(&stopped) {
                eprintln!("the echo server stopped: {error}");
            }
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    pub(crate) fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic has been reported by the thread itself
        }
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // as above
        }
    }
}

#[derive(Debug)]
struct Conn {
    stream: TcpStream,
    greeted: bool,
    partial: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    closing: bool,
}

#[derive(Debug)]
struct Echo {
    poll: Poll,
    listener: TcpListener,
    conns: Vec<Option<Conn>>,
    /// Connections with a data watch, by path.
    watches: HashMap<Box<[u8]>, Vec<usize>>,
    replies: Replies,
    sessions: i64,
}

/// Whether a connection goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Serve,
    Hang,
}

impl Echo {
    fn serve(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut scratch = vec![0; READ_BYTES + REQUEST_BYTES_MAX + LENGTH_BYTES];
        let mut notified = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            match self.poll.poll(&mut events, Some(TURN_MAX)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(id) => {
                        if self.turn(id, &mut scratch, &mut notified) == Next::Hang {
                            self.drop_conn(id);
                        }
                    }
                }
            }
            for id in notified.drain(..) {
                let broken = self.conns[id].as_mut().is_some_and(|conn| conn.flush() == Next::Hang);
                if broken {
                    self.drop_conn(id);
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            stream.set_nodelay(true)?;
            // Places are not reused: watches are kept by place, and runs are bounded.
            let id = self.conns.len();
            self.poll.registry().register(
                &mut stream,
                Token(id),
                Interest::READABLE | Interest::WRITABLE,
            )?;
            self.conns.push(Some(Conn {
                stream,
                greeted: false,
                partial: Vec::new(),
                out: Vec::new(),
                written: 0,
                closing: false,
            }));
        }
    }

    fn drop_conn(&mut self, id: usize) {
        if let Some(mut conn) = self.conns[id].take() {
            let _ = self.poll.registry().deregister(&mut conn.stream); // it is closed next
        }
    }

    /// Reads, answers and writes as long as there is something.
    fn turn(&mut self, id: usize, scratch: &mut [u8], notified: &mut Vec<usize>) -> Next {
        loop {
            let Some(conn) = self.conns[id].as_mut() else { return Next::Serve };
            if conn.flush() == Next::Hang {
                return Next::Hang;
            }
            if conn.out.len() - conn.written > UNSENT_BYTES_MAX {
                return Next::Serve; // goes on when the client has read
            }
            let kept = conn.partial.len();
            let end = kept + READ_BYTES;
            let count = match conn.stream.read(&mut scratch[kept..end]) {
                Ok(0) => return Next::Hang,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Serve,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Next::Hang,
            };
            scratch[..kept].copy_from_slice(&conn.partial);
            // Taken out, so that notifications can reach the other connections meanwhile.
            let mut conn = self.conns[id].take().expect("looked up above");
            let next = self.answer_all(id, &mut conn, &scratch[..kept + count], notified);
            let next = if conn.flush() == Next::Hang || conn.closing { Next::Hang } else { next };
            self.conns[id] = Some(conn);
            if next == Next::Hang || count < READ_BYTES {
                return next;
            }
        }
    }

    fn answer_all(
        &mut self,
        id: usize,
        conn: &mut Conn,
        bytes: &[u8],
        notified: &mut Vec<usize>,
    ) -> Next {
        let mut at = 0;
        while let Some((length, rest)) = bytes[at..].split_first_chunk::<LENGTH_BYTES>() {
            let length = i32::from_be_bytes(*length);
            let Ok(length) = usize::try_from(length) else { return Next::Hang };
            if length > REQUEST_BYTES_MAX {
                return Next::Hang;
            }
            let Some(payload) = rest.get(..length) else { break };
            at += LENGTH_BYTES + length;
            let answered = if conn.greeted {
                self.answer(id, conn, payload, notified)
            } else {
                self.greet(conn, payload)
            };
            if answered.is_none() {
                return Next::Hang;
            }
        }
        conn.partial.clear();
        conn.partial.extend_from_slice(&bytes[at..]);
        Next::Serve
    }

    fn greet(&mut self, conn: &mut Conn, payload: &[u8]) -> Option<()> {
        let mut from = Decoder::new(payload);
        from.int().ok()?; // protocol version
        from.long().ok()?; // last zxid seen
        let timeout = from.int().ok()?;
        self.sessions += 1;
        let start = conn.out.len();
        let mut to = Encoder::new(&mut conn.out);
        to.int(0); // length
        to.int(0); // protocol version
        to.int(timeout.clamp(4_000, 40_000));
        to.long(self.sessions);
        to.buffer(Some(&[0; 16]));
        to.boolean(false);
        wire::seal(&mut conn.out, start);
        conn.greeted = true;
        Some(())
    }

    /// Answers one request; `None` when it is not one.
    #[inline]
    fn answer(
        &mut self,
        id: usize,
        conn: &mut Conn,
        payload: &[u8],
        notified: &mut Vec<usize>,
    ) -> Option<()> {
        let mut from = Decoder::new(payload);
        let xid = from.int().ok()?;
        match from.int().ok()? {
            op::GET_DATA => {
                self.watch(id, from)?;
                self.replies.get.put(&mut conn.out, xid);
            }
            op::EXISTS => {
                self.watch(id, from)?;
                self.replies.stat.put(&mut conn.out, xid);
            }
            op::SET_DATA => {
                let path = from.buffer().ok()??;
                let data = from.buffer().ok()?.unwrap_or_default();
                self.wrote(data.len());
                self.fire(path, id, conn, notified);
                self.replies.stat.put(&mut conn.out, xid);
            }
            op::CREATE => {
                let path = from.buffer().ok()??;
                let data = from.buffer().ok()?.unwrap_or_default();
                self.wrote(data.len());
                let start = conn.out.len();
                self.replies.empty.put(&mut conn.out, xid);
                Encoder::new(&mut conn.out).buffer(Some(path));
                wire::seal(&mut conn.out, start);
            }
            op::MULTI => {
                loop {
                    let (kind, done) = (from.int().ok()?, from.boolean().ok()?);
                    from.int().ok()?; // error: none in a request
                    if done {
                        break;
                    }
                    if kind != op::SET_DATA {
                        return None; // this crate sends no other
                    }
                    let path = from.buffer().ok()??;
                    from.buffer().ok()?; // data
                    from.int().ok()?; // version
                    self.fire(path, id, conn, notified);
                }
                let start = conn.out.len();
                self.replies.empty.put(&mut conn.out, xid);
                let mut to = Encoder::new(&mut conn.out);
                to.int(-1);
                to.boolean(true);
                to.int(-1);
                wire::seal(&mut conn.out, start);
            }
            op::CLOSE_SESSION => {
                self.replies.empty.put(&mut conn.out, xid);
                conn.closing = true;
            }
            _ => self.replies.empty.put(&mut conn.out, xid), // delete, ping
        }
        Some(())
    }

    /// Remembers the size of the last value, which is what reads answer.
    fn wrote(&mut self, bytes: usize) {
        if self.replies.value_bytes != bytes {
            self.replies = Replies::new(bytes);
        }
    }

    fn watch(&mut self, id: usize, mut request: Decoder<'_>) -> Option<()> {
        let path = request.buffer().ok()??;
        if request.boolean().ok()? {
            let watchers = match self.watches.get_mut(path) {
                Some(watchers) => watchers,
                None => self.watches.entry(path.into()).or_default(),
            };
            watchers.push(id);
        }
        Some(())
    }

    /// Queues the notifications of a change to `path`; `conn` is `id`'s own connection.
    fn fire(&mut self, path: &[u8], id: usize, conn: &mut Conn, notified: &mut Vec<usize>) {
        if self.watches.is_empty() {
            return;
        }
        for watcher in self.watches.remove(path).unwrap_or_default() {
            let to = match &mut self.conns[watcher] {
                _ if watcher == id => &mut *conn,
                Some(other) => other,
                None => continue,
            };
            let start = to.out.len();
            self.replies.empty.put(&mut to.out, wire::XID_NOTIFICATION);
            let mut event = Encoder::new(&mut to.out);
            event.int(3); // the data changed
            event.int(3); // connected
            event.buffer(Some(path));
            wire::seal(&mut to.out, start);
            if watcher != id {
                notified.push(watcher);
            }
        }
    }
}

impl Conn {
    fn flush(&mut self) -> Next {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Next::Hang,
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Serve,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Next::Hang,
            }
        }
        self.out.clear();
        self.written = 0;
        Next::Serve
    }
}

/// Replies that are built once.
#[derive(Debug)]
struct Replies {
    value_bytes: usize,
    /// To getData.
    get: Reply,
    /// To exists and setData.
    stat: Reply,
    /// A header alone.
    empty: Reply,
}

impl Replies {
    fn new(value_bytes: usize) -> Self {
        let stat = [0; STAT_BYTES];
        Self {
            value_bytes,
            get: Reply::new(|to| {
                to.buffer(Some(&wire::value(value_bytes)));
                to.raw(&stat);
            }),
            stat: Reply::new(|to| to.raw(&stat)),
            empty: Reply::new(|_| {}),
        }
    }
}

/// A reply frame of which only the xid changes.
#[derive(Debug)]
struct Reply(Vec<u8>);

impl Reply {
    fn new(body: impl FnOnce(&mut Encoder<'_>)) -> Self {
        let mut bytes = Vec::new();
        let mut to = Encoder::new(&mut bytes);
        to.int(0); // length
        to.int(0); // xid
        to.long(1); // zxid
        to.int(0); // no error
        body(&mut to);
        wire::seal(&mut bytes, 0);
        Self(bytes)
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, xid: i32) {
        let start = out.len();
        out.extend_from_slice(&self.0);
        out[start + LENGTH_BYTES..start + LENGTH_BYTES + 4].copy_from_slice(&xid.to_be_bytes());
    }
}
