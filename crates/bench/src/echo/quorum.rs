//! Servers that only sync, acknowledge and commit: the upper bound for an ensemble of three on this
//! machine.
//!
//! A follower forwards the requests of its clients. The leader orders all requests: it sends them
//! to both followers, and writes them to its own log at the same time. Each server makes all
//! requests that have arrived durable with one sync. When a quorum has synced a request, it is
//! committed: the leader answers its own clients, and informs the followers, which answer theirs.
//! The servers use loopback, like real ones on one machine. One system call sends everything that
//! waits for another server.
//!
//! Nothing here survives a failure: there are no elections, no epochs and no repair.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token, Waker};

use super::journal::{Counts, Journal};
use super::order::Ticket;

/// The first token of a link.
pub(super) const LINKS: Token = Token(usize::MAX - 16);
/// Bytes read from a link per system call.
const READ_BYTES: usize = 256 << 10;
/// Kind, number and length of a message.
const HEADER_BYTES: usize = 1 + 8 + 4;
/// The number of followers.
pub(super) const FOLLOWERS: usize = 2;

/// The messages between servers, each with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To the leader: requests of clients. The number counts these messages of the sender.
    Forward,
    /// To a follower: requests in their order. The number counts the leader's proposals.
    Propose,
    /// To the leader: proposals up to this number are durable.
    Ack,
    /// To a follower: its forwarded messages up to this number are committed.
    Commit,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Forward, Self::Propose, Self::Ack, Self::Commit]
            .into_iter()
            .find(|it| *it as u8 == byte)
    }
}

/// A received message.
#[derive(Debug)]
struct Message<'b> {
    kind: Kind,
    number: u64,
    bytes: &'b [u8],
}

/// A connection to another server.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    /// Whether something may have arrived.
    is_ready: bool,
    came: Vec<u8>,
    /// Bytes to send. Those before `written` are sent.
    out: Vec<u8>,
    written: usize,
}

impl Link {
    /// Both ends of a loopback connection.
    ///
    /// # Errors
    /// The system has no port or no socket.
    pub(super) fn pair() -> io::Result<(Self, Self)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = std::net::TcpStream::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept()?;
        let link = |stream: std::net::TcpStream| {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let stream = TcpStream::from_std(stream);
            io::Result::Ok(Self {
                stream,
                is_ready: false,
                came: Vec::new(),
                out: Vec::new(),
                written: 0,
            })
        };
        Ok((link(near)?, link(far)?))
    }

    fn register(&mut self, registry: &Registry, index: usize) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut self.stream, Token(LINKS.0 + index), interest)
    }

    fn tell(&mut self, kind: Kind, number: u64, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("a turn's requests are below 4 GiB");
        self.out.push(kind as u8);
        self.out.extend_from_slice(&number.to_be_bytes());
        self.out.extend_from_slice(&length.to_be_bytes());
        self.out.extend_from_slice(bytes);
    }

    /// Sends as much as the kernel takes.
    fn flush(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Takes all received messages.
    fn take(&mut self, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        if !std::mem::take(&mut self.is_ready) {
            return Ok(());
        }
        loop {
            let kept = self.came.len();
            self.came.resize(kept + READ_BYTES, 0);
            let read = self.stream.read(&mut self.came[kept..]);
            self.came.truncate(kept + *read.as_ref().unwrap_or(&0));
            let count = match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let mut at = 0;
            while let Some((message, length)) = message(&self.came[at..])? {
                each(message);
                at += length;
            }
            self.came.drain(..at);
            if count < READ_BYTES {
                return Ok(());
            }
        }
    }
}

/// The first message of `bytes` and its length, if it is complete.
fn message(bytes: &[u8]) -> io::Result<Option<(Message<'_>, usize)>> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let [kind, n0, n1, n2, n3, n4, n5, n6, n7, l0, l1, l2, l3] = *header;
    let kind = Kind::from_byte(kind).ok_or(io::ErrorKind::InvalidData)?;
    let number = u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let Some(bytes) = rest.get(..length) else { return Ok(None) };
    Ok(Some((Message { kind, number, bytes }, HEADER_BYTES + length)))
}

/// A member's log, with the last durable number.
#[derive(Debug)]
struct Log {
    journal: Journal,
    added: u64,
    begun: u64,
    durable: u64,
}

impl Log {
    fn new(dir: &Path, registry: &Registry) -> anyhow::Result<Self> {
        let journal = Journal::new(dir, Waker::new(registry, super::SYNCED)?)?;
        Ok(Self { journal, added: 0, begun: 0, durable: 0 })
    }

    fn add(&mut self, number: u64, bytes: &[u8]) {
        assert!(number > self.added, "{number} after {}", self.added);
        self.journal.add(bytes);
        self.added = number;
    }

    /// Starts a sync of the waiting requests, unless one is in progress. Returns whether more is
    /// durable than before.
    fn turn(&mut self) -> io::Result<bool> {
        let is_over = if self.journal.is_busy() {
            self.journal.is_done()?
        } else if self.journal.waiting() == 0 {
            return Ok(false);
        } else {
            self.begun = self.added;
            self.journal.sync()?
        };
        if is_over {
            self.durable = self.begun;
        }
        Ok(is_over)
    }
}

/// The server that orders the requests. Each proposal has one ticket.
#[derive(Debug)]
pub(super) struct Leader {
    log: Log,
    links: [Link; FOLLOWERS],
    /// The last durable proposal of each follower.
    acked: [u64; FOLLOWERS],
    /// Requests that are not proposed yet.
    pending: Vec<u8>,
    proposed: u64,
    committed: u64,
    /// Proposals, each with a follower whose requests it contains and the number that the follower
    /// gave them.
    forwarded: std::collections::VecDeque<(u64, usize, u64)>,
    /// Messages that were forwarded since the last proposal.
    taken: Vec<(usize, u64)>,
}

impl Leader {
    /// With a log in `dir`, and links to the followers.
    ///
    /// # Errors
    /// The log cannot be made.
    pub(super) fn new(
        dir: &Path,
        registry: &Registry,
        mut links: [Link; FOLLOWERS],
    ) -> anyhow::Result<Self> {
        for (index, link) in links.iter_mut().enumerate() {
            link.register(registry, index)?;
        }
        Ok(Self {
            log: Log::new(dir, registry)?,
            links,
            acked: [0; FOLLOWERS],
            pending: Vec::new(),
            proposed: 0,
            committed: 0,
            forwarded: std::collections::VecDeque::new(),
            taken: Vec::new(),
        })
    }

    pub(super) fn add(&mut self, request: &[u8]) {
        put(&mut self.pending, request);
    }

    /// What it has logged.
    pub(super) fn counts(&self) -> Arc<Counts> {
        self.log.journal.counts()
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.proposed + 1
    }

    /// A follower may have sent something.
    pub(super) fn ready(&mut self, index: usize) {
        self.links[index].is_ready = true;
    }

    pub(super) fn turn(&mut self) -> io::Result<Option<Ticket>> {
        for (index, link) in self.links.iter_mut().enumerate() {
            let (pending, taken, acked) =
                (&mut self.pending, &mut self.taken, &mut self.acked[index]);
            link.take(|message| match message.kind {
                Kind::Forward => {
                    pending.extend_from_slice(message.bytes);
                    taken.push((index, message.number));
                }
                Kind::Ack => *acked = message.number,
                Kind::Propose | Kind::Commit => {}
            })?;
        }
        if !self.pending.is_empty() {
            self.propose()?;
        }
        self.log.turn()?;
        let mut durable = [self.log.durable, self.acked[0], self.acked[1]];
        durable.sort_unstable();
        let is_more = durable[1] > self.committed;
        if is_more {
            self.commit(durable[1]);
        }
        for link in &mut self.links {
            link.flush()?;
        }
        Ok(is_more.then_some(self.committed))
    }

    fn propose(&mut self) -> io::Result<()> {
        self.proposed += 1;
        self.log.add(self.proposed, &self.pending);
        for link in &mut self.links {
            link.tell(Kind::Propose, self.proposed, &self.pending);
            // The followers' disks work at the same time as this server's.
            link.flush()?;
        }
        self.pending.clear();
        for (index, number) in self.taken.drain(..) {
            self.forwarded.push_back((self.proposed, index, number));
        }
        Ok(())
    }

    fn commit(&mut self, number: u64) {
        self.committed = number;
        let mut theirs = [None; FOLLOWERS];
        while let Some(&(proposal, index, forward)) = self.forwarded.front()
            && proposal <= number
        {
            self.forwarded.pop_front();
            theirs[index] = Some(forward);
        }
        for (link, forward) in self.links.iter_mut().zip(theirs) {
            // A real leader sends every commit to all followers.
            link.tell(Kind::Commit, forward.unwrap_or(0), &[]);
        }
    }
}

/// A server that forwards requests to the leader. Each forwarded message has one ticket.
#[derive(Debug)]
pub(super) struct Follower {
    log: Log,
    link: Link,
    pending: Vec<u8>,
    forwarded: u64,
    released: u64,
}

impl Follower {
    /// With a log in `dir`, and a link to the leader.
    ///
    /// # Errors
    /// The log cannot be made.
    pub(super) fn new(dir: &Path, registry: &Registry, mut link: Link) -> anyhow::Result<Self> {
        link.register(registry, 0)?;
        let log = Log::new(dir, registry)?;
        Ok(Self { log, link, pending: Vec::new(), forwarded: 0, released: 0 })
    }

    pub(super) fn add(&mut self, request: &[u8]) {
        put(&mut self.pending, request);
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.forwarded + 1
    }

    /// The leader may have sent something.
    pub(super) fn ready(&mut self) {
        self.link.is_ready = true;
    }

    pub(super) fn turn(&mut self) -> io::Result<Option<Ticket>> {
        let (log, mut released) = (&mut self.log, self.released);
        self.link.take(|message| match message.kind {
            Kind::Propose => log.add(message.number, message.bytes),
            Kind::Commit => released = released.max(message.number),
            Kind::Forward | Kind::Ack => {}
        })?;
        if !self.pending.is_empty() {
            self.forwarded += 1;
            self.link.tell(Kind::Forward, self.forwarded, &self.pending);
            self.pending.clear();
            self.link.flush()?;
        }
        let is_more = released > self.released;
        self.released = released;
        if is_more {
            // Clients get their answers before the next sync.
            return Ok(Some(released));
        }
        if self.log.turn()? {
            self.link.tell(Kind::Ack, self.log.durable, &[]);
        }
        self.link.flush()?;
        Ok(None)
    }
}

/// Appends a request and its length.
fn put(to: &mut Vec<u8>, request: &[u8]) {
    to.extend_from_slice(&(request.len() as u64).to_be_bytes());
    to.extend_from_slice(request);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_as_a_whole_and_in_order() {
        let (mut near, mut far) = Link::pair().unwrap();
        near.tell(Kind::Propose, 7, &[1, 2, 3]);
        near.tell(Kind::Commit, 3, &[]);
        let cut = near.out.split_off(HEADER_BYTES + 1);
        near.flush().unwrap();
        let mut all = Vec::new();
        let mut take = |far: &mut Link, count: usize| {
            for _ in 0..10_000 {
                far.is_ready = true;
                far.take(|it| all.push((it.kind, it.number, it.bytes.to_vec()))).unwrap();
                if all.len() + far.came.len().min(1) > count {
                    return;
                }
                std::thread::yield_now();
            }
        };
        take(&mut far, 0);
        near.out = cut;
        near.flush().unwrap();
        take(&mut far, 1);
        assert_eq!(all, [(Kind::Propose, 7, vec![1, 2, 3]), (Kind::Commit, 3, vec![])]);
    }
}
