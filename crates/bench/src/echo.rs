//! A server that only answers in the correct format. It is the upper bound for every server on this
//! machine, and the peer in this crate's tests. On request it makes writes durable first, and is
//! then the upper bound for durable writes.
//!
//! It stores no znodes. Every read succeeds with the last value written, and every write succeeds.
//! It stores one-shot data watches, so that notifications can be measured, too. Three such servers
//! can make writes durable together, as an ensemble does.

mod answer;
mod conn;
mod journal;
mod order;
mod quorum;
mod replies;

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use conn::{Conn, Next};
use journal::Counts;
pub(crate) use journal::Logged;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Registry, Token};
use order::{Alone, Order, Ticket};
use quorum::{FOLLOWERS, Follower, LINKS, Leader, Link};
use replies::Replies;
use socket2::{Domain, Protocol, Socket, Type};

use crate::contestant::BACKLOG;
use crate::wire::LENGTH_BYTES;

/// Bytes read per system call.
const READ_BYTES: usize = 256 << 10;
/// Reading from a client stops while it leaves this much unread.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// The largest accepted request: the default of `jute.maxbuffer`.
const REQUEST_BYTES_MAX: usize = 0xf_ffff;
/// Readiness events taken per turn.
const EVENTS_MAX: usize = 1024;
/// The longest delay until a stop is noticed.
const TURN_MAX: Duration = Duration::from_millis(50);
const LISTENER: Token = Token(usize::MAX - 1);
/// The token of a complete sync.
const SYNCED: Token = Token(usize::MAX - 2);

/// Servers of an ensemble.
pub const MEMBERS: usize = FOLLOWERS + 1;

/// A running echo server. Dropping it stops it.
#[derive(Debug)]
pub struct EchoServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    counts: Option<Arc<Counts>>,
    thread: Option<JoinHandle<()>>,
}

impl EchoServer {
    /// Listens on `address`, where port 0 means a free port, and serves on its own thread.
    ///
    /// # Errors
    /// The address is not available.
    pub fn start(address: SocketAddr) -> anyhow::Result<Self> {
        Self::serving(address, |_| Ok(Order::Free))
    }

    /// The same, but each write is durable in a file in `dir` before its answer, with one sync for
    /// all waiting writes: the upper bound that `fdatasync` and the network leave.
    ///
    /// # Errors
    /// The address is not available, or the file cannot be created.
    pub fn durable(address: SocketAddr, dir: &Path) -> anyhow::Result<Self> {
        Self::serving(address, |registry| Ok(Order::Alone(Alone::new(dir, registry)?)))
    }

    /// Three such servers, whose writes are durable in the files of a quorum. The first one is the
    /// leader. Each has a file in its own directory of `dirs`.
    ///
    /// # Errors
    /// An address is not available, or a file cannot be created.
    pub fn ensemble(
        address: SocketAddr,
        dirs: &[PathBuf; MEMBERS],
    ) -> anyhow::Result<[Self; MEMBERS]> {
        let ((first, to_first), (second, to_second)) = (Link::pair()?, Link::pair()?);
        let [leads, rest @ ..] = dirs;
        let leader = Self::serving(address, |registry| {
            Ok(Order::Leading(Leader::new(leads, registry, [to_first, to_second])?))
        })?;
        let follower = |dir: &Path, link| {
            Self::serving(address, |registry| {
                Ok(Order::Following(Follower::new(dir, registry, link)?))
            })
        };
        Ok([leader, follower(&rest[0], first)?, follower(&rest[1], second)?])
    }

    fn serving(
        address: SocketAddr,
        order: impl FnOnce(&Registry) -> anyhow::Result<Order>,
    ) -> anyhow::Result<Self> {
        let mut listener = listen(address).with_context(|| format!("listen on {address}"))?;
        let address = listener.local_addr()?;
        let poll = Poll::new().context("create an epoll instance")?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let order = order(poll.registry())?;
        let counts = order.counts();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut echo = Echo {
            poll,
            listener,
            conns: Vec::new(),
            watches: HashMap::new(),
            replies: Replies::new(0),
            sessions: 0,
            order,
            added: 0,
            waiting: VecDeque::new(),
        };
        let thread = std::thread::Builder::new().name("echo".into()).spawn(move || {
            if let Err(error) = echo.serve(&stopped)
                // A server that stops closes its links.
                && !stopped.load(Ordering::Relaxed)
            {
                eprintln!("the echo server stopped: {error}");
            }
        })?;
        Ok(Self { address, stop, counts, thread: Some(thread) })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has logged; `None` if it has no log, or follows.
    pub(crate) fn logged(&self) -> Option<Logged> {
        self.counts.as_ref().map(|counts| counts.logged())
    }

    /// Asks it to stop, without waiting.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
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

/// Listens with the same backlog as other servers.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG as i32)?;
    Ok(TcpListener::from_std(socket.into()))
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
    /// The order of writes.
    order: Order,
    /// The number of writes.
    added: u64,
    /// Connections and the tickets that their answers wait for, in order.
    waiting: VecDeque<(Ticket, usize)>,
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
                    SYNCED => {}
                    Token(number) if (LINKS.0..LINKS.0 + FOLLOWERS).contains(&number) => {
                        self.order.ready(number - LINKS.0);
                    }
                    Token(id) => self.turn(id, &mut scratch, &mut notified),
                }
            }
            self.tell(&mut notified);
            while let Some(ticket) = self.order.turn()? {
                self.release(ticket, &mut scratch, &mut notified);
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
            // Places are not reused, because watches refer to them. Runs are short.
            let id = self.conns.len();
            self.poll.registry().register(
                &mut stream,
                Token(id),
                Interest::READABLE | Interest::WRITABLE,
            )?;
            self.conns.push(Some(Conn::new(stream)));
        }
    }

    fn drop_conn(&mut self, id: usize) {
        if let Some(mut conn) = self.conns[id].take() {
            let _ = self.poll.registry().deregister(&mut conn.stream); // it is closed next
        }
    }

    /// Reads, answers and writes until nothing is left.
    fn turn(&mut self, id: usize, scratch: &mut [u8], notified: &mut Vec<usize>) {
        if self.talk(id, scratch, notified) == Next::Hang {
            self.drop_conn(id);
        }
    }

    fn talk(&mut self, id: usize, scratch: &mut [u8], notified: &mut Vec<usize>) -> Next {
        loop {
            let Some(conn) = self.conns[id].as_mut() else { return Next::Serve };
            if conn.flush() == Next::Hang {
                return Next::Hang;
            }
            conn.is_paused = conn.unsent() > UNSENT_BYTES_MAX;
            if conn.is_paused {
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
            // The connection is taken out, so that notifications can reach the others.
            let mut conn = self.conns[id].take().expect("looked up above");
            let before = self.added;
            let next = self.answer_all(id, &mut conn, &scratch[..kept + count], notified);
            let next = match self.order.ticket() {
                Some(ticket) if self.added > before || conn.is_held() => {
                    self.hold(id, &mut conn, ticket);
                    next
                }
                _ => {
                    conn.release_all();
                    if conn.flush() == Next::Hang { Next::Hang } else { next }
                }
            };
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

    /// Sends notifications.
    fn tell(&mut self, notified: &mut Vec<usize>) {
        for id in notified.drain(..) {
            let Some(conn) = self.conns[id].as_mut() else { continue };
            conn.release_all();
            if conn.flush() == Next::Hang {
                self.drop_conn(id);
            }
        }
    }

    /// Orders a write before the next answers.
    fn log(&mut self, request: &[u8]) {
        if !matches!(self.order, Order::Free) {
            self.order.add(request);
            self.added += 1;
        }
    }

    /// Makes the answers of a connection wait for `ticket`, or for the ticket of its earlier
    /// answers.
    fn hold(&mut self, id: usize, conn: &mut Conn, ticket: Ticket) {
        if conn.hold(ticket) {
            self.waiting.push_back((ticket, id));
        }
    }

    /// Sends all answers that wait for tickets up to `ticket`.
    fn release(&mut self, ticket: Ticket, scratch: &mut [u8], notified: &mut Vec<usize>) {
        while let Some(&(waits_for, id)) = self.waiting.front()
            && waits_for <= ticket
        {
            self.waiting.pop_front();
            let Some(conn) = &mut self.conns[id] else { continue };
            conn.release(waits_for);
            if conn.is_paused {
                self.turn(id, scratch, notified);
            } else if conn.flush() == Next::Hang {
                self.drop_conn(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn many_connections_may_wait() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        // No thread accepts them. A full queue does not answer.
        let connect = |_| TcpStream::connect_timeout(&at, Duration::from_secs(5)).unwrap();
        let waiting: Vec<TcpStream> = (0..300).map(connect).collect();
        assert_eq!(waiting.len(), 300);
    }

    #[test]
    fn a_leader_tells_what_it_has_logged() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = [1, 2, 3].map(|number| dir.path().join(number.to_string()));
        let at = "127.0.0.1:0".parse().unwrap();
        let servers = EchoServer::ensemble(at, &dirs).unwrap();
        let logged = servers.each_ref().map(EchoServer::logged);
        assert_eq!(logged, [Some(Logged { records: 0, syncs: 0 }), None, None]);
        servers.iter().for_each(EchoServer::ask_to_stop);
    }
}
