//! The servers of a handle: names, addresses, and the order of attempts.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zebu_proto::connect_string::HostPort;
use zebu_session::{Candidate, Chroot};

/// Whether servers are tried in the order of the connect string.
static IS_ORDERED: AtomicBool = AtomicBool::new(false);

/// For tests: sets whether all handles try their servers in the order of the connect string.
/// Otherwise each handle uses a random order.
#[unsafe(no_mangle)]
extern "C" fn zoo_deterministic_conn_order(is_ordered: c_int) {
    IS_ORDERED.store(is_ordered != 0, Ordering::Relaxed);
}

/// The error in a connect string.
pub(crate) type Fault = String;

/// The servers and the chroot of a connect string.
pub(crate) fn parse(text: &str) -> Result<(Vec<HostPort>, Chroot), Fault> {
    let (servers, chroot) = match text.find('/') {
        Some(at) => text.split_at(at),
        None => (text, "/"),
    };
    let chroot = Chroot::new(chroot).map_err(|error| format!("chroot {chroot:?}: {error}"))?;
    let names = servers.split(',').map(str::trim).filter(|server| !server.is_empty());
    let names: Vec<HostPort> = names.map(name).collect::<Result<_, _>>()?;
    if names.is_empty() {
        return Err("the connect string names no server".to_owned());
    }
    Ok((names, chroot))
}

/// A host and its port. The port follows the last colon, so IPv6 addresses need no brackets.
fn name(text: &str) -> Result<HostPort, Fault> {
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("no port in {text:?}"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| format!("the port in {text:?} is not from 1 to 65535"))?;
    match host.is_empty() || host.contains(['[', ']']) {
        true => Err(format!("no host in {text:?}")),
        false => Ok(HostPort { host: host.to_owned(), port }),
    }
}

/// Resolves these names with the system's resolver. This may take long.
pub(crate) fn resolve(names: &[HostPort]) -> Vec<SocketAddr> {
    let found = names.iter().flat_map(|name| (name.host.as_str(), name.port).to_socket_addrs());
    let mut seen = BTreeSet::new();
    found.flatten().filter(|address| seen.insert(*address)).collect()
}

/// The servers of one handle.
#[derive(Debug)]
pub(crate) struct Hosts {
    names: Vec<HostPort>,
    /// In the order of attempts.
    addresses: Vec<SocketAddr>,
    /// The index of the next attempt.
    next: usize,
    current: Option<SocketAddr>,
    /// How long addresses are used; `None` without limit.
    fresh: Option<Duration>,
    asked: Duration,
    /// Whether the addresses were not used yet.
    is_new: bool,
}

impl Hosts {
    pub(crate) fn new(names: Vec<HostPort>, found: Vec<SocketAddr>) -> Self {
        let mut hosts = Self {
            names,
            addresses: Vec::new(),
            next: 0,
            current: None,
            fresh: Some(Duration::ZERO),
            asked: Duration::ZERO,
            is_new: true,
        };
        hosts.learn(found);
        hosts
    }

    pub(crate) fn names(&self) -> &[HostPort] {
        &self.names
    }

    /// Sets how long addresses are used; `None` without limit.
    pub(crate) fn believe(&mut self, fresh: Option<Duration>) {
        self.fresh = fresh;
    }

    /// Whether the names must be resolved again.
    pub(crate) fn is_stale(&mut self, now: Duration) -> bool {
        if std::mem::take(&mut self.is_new) && !self.addresses.is_empty() {
            return false;
        }
        let believed = self.fresh.map(|fresh| self.asked + fresh);
        self.addresses.is_empty() || believed.is_some_and(|until| until <= now)
    }

    /// Takes the resolved addresses. If resolving failed, the known addresses stay.
    pub(crate) fn resolved(&mut self, now: Duration, found: Vec<SocketAddr>) {
        self.asked = now;
        if !found.is_empty() {
            self.learn(found);
        }
    }

    fn learn(&mut self, mut found: Vec<SocketAddr>) {
        let set = |addresses: &[SocketAddr]| addresses.iter().copied().collect::<BTreeSet<_>>();
        if set(&found) == set(&self.addresses) {
            return;
        }
        if !IS_ORDERED.load(Ordering::Relaxed) {
            fastrand::shuffle(&mut found);
        }
        self.addresses = found;
        self.next = 0;
    }

    /// The servers in the order of attempts.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let count = self.addresses.len();
        let place = |at: usize| (at + count - self.next % count) % count;
        let ranked = self.addresses.iter().enumerate();
        ranked
            .map(|(at, address)| Candidate { address: *address, rank: place(at) as u32 })
            .collect()
    }

    /// Records an attempt to connect to this server.
    pub(crate) fn tried(&mut self, server: SocketAddr) {
        self.current = Some(server);
        if let Some(at) = self.addresses.iter().position(|other| *other == server) {
            self.next = (at + 1) % self.addresses.len();
        }
    }

    /// The server of the last attempt; before that, the first candidate.
    pub(crate) fn current(&self) -> Option<SocketAddr> {
        self.current.or_else(|| self.addresses.first().copied())
    }

    /// Selects the next server.
    pub(crate) fn cycle(&mut self) {
        let at = if self.current.is_none() { 1 } else { self.next };
        if let Some(server) = self.addresses.get(at % self.addresses.len().max(1)).copied() {
            self.tried(server);
            // The selected server is also the first candidate for the next connection.
            self.next = at % self.addresses.len();
        }
    }

    /// Replaces the servers. Returns whether the connection should move to another one.
    ///
    /// It should move if its server is no longer in the list. If the list has grown, it moves with
    /// the probability that balances the clients over all servers, and then to a new server.
    /// Source: `zoo_set_servers` and `update_addrs` in the C client, ZOOKEEPER-1355.
    pub(crate) fn replace(&mut self, names: Vec<HostPort>, found: Vec<SocketAddr>) -> bool {
        let (before, count) = (std::mem::take(&mut self.addresses), found.len());
        self.names = names;
        self.is_new = true;
        let added = |address: &SocketAddr| !before.contains(address);
        self.learn(found);
        let Some(current) = self.current else { return false };
        if !self.addresses.contains(&current) {
            return true;
        }
        self.tried(current);
        if count <= before.len() || fastrand::usize(..count) < before.len() {
            return false;
        }
        self.addresses.sort_by_key(|address| !added(address));
        self.next = 0;
        self.addresses.first().is_some_and(added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn order(hosts: &Hosts) -> Vec<u16> {
        let mut candidates = hosts.candidates();
        candidates.sort_by_key(|candidate| candidate.rank);
        candidates.iter().map(|candidate| candidate.address.port()).collect()
    }

    #[test]
    fn connect_strings() {
        let (names, chroot) = parse("a:1,::1:2, [::1]:3/x").unwrap();
        let names: Vec<_> = names.iter().map(HostPort::to_string).collect();
        assert_eq!(names, ["a:1", "[::1]:2", "[::1]:3"]);
        assert_eq!(chroot.root(), "/x");
        assert_eq!(parse("a:1/").unwrap().1.root(), "/");
        for wrong in ["", "/x", ",", "a", "a:", "a:0", "a:65536", "a:x", ":1", "a:1/x/", "a:1//x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_server_after_the_last_one_is_tried_next() {
        let mut hosts = Hosts::new(Vec::new(), vec![address(1), address(2), address(3)]);
        let first = order(&hosts);
        hosts.tried(address(first[1]));
        assert_eq!(order(&hosts), [first[2], first[0], first[1]]);
        hosts.resolved(Duration::ZERO, vec![address(3), address(2), address(1)]);
        assert_eq!(order(&hosts), [first[2], first[0], first[1]]);
        hosts.cycle();
        assert_eq!(hosts.current(), Some(address(first[2])));
        assert_eq!(order(&hosts)[0], first[2]);
    }

    #[test]
    fn clients_spread_over_more_servers() {
        let mut moved = 0;
        for _ in 0..400 {
            let mut hosts = Hosts::new(Vec::new(), vec![address(1), address(2)]);
            hosts.tried(address(1));
            let more = vec![address(1), address(2), address(3), address(4)];
            if hosts.replace(Vec::new(), more) {
                moved += 1;
                assert!(order(&hosts)[0] > 2);
            }
        }
        assert!((100..300).contains(&moved), "half of them move: {moved}");
        let mut hosts = Hosts::new(Vec::new(), vec![address(1), address(2)]);
        hosts.tried(address(1));
        assert!(!hosts.replace(Vec::new(), vec![address(1)]));
        assert!(hosts.replace(Vec::new(), vec![address(2)]));
    }
}
