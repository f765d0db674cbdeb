//! Proxies on loopback: one for each pair of members and direction of connecting.
//!
//! Proxies also make bad weather: they hold up bytes, break connections, and change bytes of votes.
//!
//! Bytes on a cut link are held back until it is restored, as if TCP sent them again. A server that
//! is called by a server with a smaller id hangs up and connects to the address in that server's
//! first message. So the proxy replaces this address by its own.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use zebu_testkit::Random;

use crate::network::Weather;
use crate::server::free_port;

/// Time between two checks of a waiting thread's flags.
const LOOK_UP: Duration = Duration::from_millis(100);

/// One direction between two members.
#[derive(Debug, Default)]
struct Way {
    is_cut: Mutex<bool>,
    restored: Condvar,
    is_over: AtomicBool,
    /// The delay of bytes, in milliseconds.
    delay_ms: AtomicU64,
    /// The number of times that all connections were broken.
    breaks: AtomicUsize,
    /// One of this many pieces of votes is changed; 0: none.
    changes_of: AtomicUsize,
}

impl Way {
    fn set(&self, is_cut: bool) {
        *self.is_cut.lock().unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.restored.notify_all();
    }

    /// Waits until the link is restored; `false` if the test has ended.
    fn pass(&self) -> bool {
        let mut is_cut = self.is_cut.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_cut && !self.is_over() {
            let waited = self.restored.wait_timeout(is_cut, LOOK_UP);
            is_cut = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

type Ways = BTreeMap<(usize, usize), Arc<Way>>;

/// The proxies of one ensemble.
#[derive(Debug)]
pub(super) struct Proxies {
    ways: Ways,
    ports: BTreeMap<(usize, usize), [u16; 2]>,
}

impl Proxies {
    /// Starts proxies in front of the members' quorum and election addresses.
    pub(super) fn start(targets: &[[SocketAddr; 2]]) -> Result<Self> {
        let members = targets.len();
        let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
        let pairs: Vec<(usize, usize)> = pairs.filter(|(from, to)| from != to).collect();
        let ways: Ways = pairs.iter().map(|pair| (*pair, Arc::default())).collect();
        let mut listeners = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for pair in &pairs {
            let both = [listen()?, listen()?];
            ports.insert(*pair, [both[0].local_addr()?.port(), both[1].local_addr()?.port()]);
            listeners.insert(*pair, both);
        }
        for ((from, to), both) in listeners {
            let back = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[&(to, from)][1]));
            for (kind, listener) in both.into_iter().enumerate() {
                let proxy = Proxy {
                    target: targets[to][kind],
                    named: (kind == 1).then_some(back),
                    there: ways[&(from, to)].clone(),
                    back: ways[&(to, from)].clone(),
                };
                thread::spawn(move || proxy.serve(&listener));
            }
        }
        Ok(Self { ways, ports })
    }

    pub(super) fn ports(&self, from: usize, to: usize) -> [u16; 2] {
        self.ports[&(from, to)]
    }

    pub(super) fn cut(&mut self, from: usize, to: usize) {
        self.ways[&(from, to)].set(true);
    }

    pub(super) fn heal(&mut self) {
        self.weather(Weather::Calm);
        self.ways.values().for_each(|way| way.set(false));
    }

    pub(super) fn weather(&mut self, weather: Weather) {
        let (mut delay, mut changes_of) = (Duration::ZERO, 0);
        match weather {
            Weather::Calm => {}
            Weather::Slow(by) => delay = by,
            Weather::Breaks => {
                for way in self.ways.values() {
                    way.breaks.fetch_add(1, Ordering::Relaxed);
                }
            }
            Weather::Changes { one_of } => changes_of = one_of,
        }
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        for way in self.ways.values() {
            way.delay_ms.store(delay_ms, Ordering::Relaxed);
            way.changes_of.store(changes_of, Ordering::Relaxed);
        }
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        for way in self.ways.values() {
            way.is_over.store(true, Ordering::Relaxed);
            way.restored.notify_all();
        }
    }
}

fn listen() -> Result<TcpListener> {
    let listener = loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            other => break other.context("listen on loopback")?,
        }
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The address by which one member reaches another.
#[derive(Clone)]
struct Proxy {
    target: SocketAddr,
    /// The address that replaces the caller's own, on the election network.
    named: Option<SocketAddr>,
    there: Arc<Way>,
    back: Arc<Way>,
}

impl Proxy {
    fn serve(self, listener: &TcpListener) {
        while !self.there.is_over() {
            let Ok((dialler, _)) = listener.accept() else {
                thread::sleep(LOOK_UP / 10);
                continue;
            };
            let proxy = self.clone();
            // Either end may close the connection at any time.
            thread::spawn(move || proxy.connect(dialler).ok());
        }
    }

    fn connect(self, dialler: TcpStream) -> Result<()> {
        dialler.set_nonblocking(false)?;
        // A connection needs packets in both directions.
        if !(self.there.pass() && self.back.pass()) {
            return Ok(());
        }
        let target = TcpStream::connect(self.target)?;
        for stream in [&dialler, &target] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK_UP))?;
        }
        let (from, to) = (target.try_clone()?, dialler.try_clone()?);
        let way = self.back;
        thread::spawn(move || forward(from, to, &way, None));
        forward(dialler, target, &self.there, self.named);
        Ok(())
    }
}

/// Copies bytes from one end to the other, until either is closed.
fn forward(mut from: TcpStream, mut to: TcpStream, way: &Way, named: Option<SocketAddr>) {
    let mut buffer = vec![0; 64 << 10];
    let is_election = named.is_some();
    let mut head = named.map(|named| (named, Vec::new()));
    let breaks = way.breaks.load(Ordering::Relaxed);
    let mut random = Random::new(u64::from(from.peer_addr().map_or(0, |peer| peer.port())));
    while way.pass() {
        if way.breaks.load(Ordering::Relaxed) != breaks {
            break;
        }
        let length = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        let mut bytes = buffer[..length].to_vec();
        if let Some((named, mut held)) = head.take() {
            held.extend_from_slice(&bytes);
            match rename(&held, named) {
                Some(renamed) => bytes = renamed,
                None => {
                    head = Some((named, held));
                    continue;
                }
            }
        } else if is_election {
            let one_of = way.changes_of.load(Ordering::Relaxed);
            if one_of > 0 && random.index(one_of) == 0 {
                let at = random.index(bytes.len());
                bytes[at] ^= 1 << random.index(8);
            }
        }
        let delay = way.delay_ms.load(Ordering::Relaxed);
        if delay > 0 {
            // Anything from half of it to one and a half times.
            let delay = delay / 2 + random.next() % delay;
            thread::sleep(Duration::from_millis(delay));
        }
        if !way.pass() || to.write_all(&bytes).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}

/// Replaces the address in a first message: version, server id, length, `host:port`. `None` if the
/// message is incomplete.
fn rename(held: &[u8], named: SocketAddr) -> Option<Vec<u8>> {
    let (first, rest) = held.split_first_chunk::<8>()?;
    if i64::from_be_bytes(*first) >= 0 {
        return Some(held.to_vec());
    }
    let (server, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let rest = rest.get(usize::try_from(i32::from_be_bytes(*length)).ok()?..)?;
    let named = named.to_string();
    let length = i32::try_from(named.len()).ok()?.to_be_bytes();
    Some([first.as_slice(), server, &length, named.as_bytes(), rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_a_first_message_is_replaced() {
        // From `fixtures`: protocol version -65535, server 1.
        let mut message = (-65_535_i64).to_be_bytes().to_vec();
        message.extend(1_i64.to_be_bytes());
        message.extend(14_i32.to_be_bytes());
        message.extend(b"127.0.0.1:3888");
        message.extend(b"more");
        let named = "127.0.0.1:13889".parse().unwrap();
        for cut in 0..message.len() - 4 {
            assert_eq!(rename(&message[..cut], named), None);
        }
        let renamed = rename(&message, named).unwrap();
        assert_eq!(&renamed[20..], b"127.0.0.1:13889more");
        assert_eq!(renamed[16..20], 15_i32.to_be_bytes());
        // The oldest form has only the server's id.
        assert_eq!(rename(&1_i64.to_be_bytes(), named), Some(1_i64.to_be_bytes().to_vec()));
    }
}
