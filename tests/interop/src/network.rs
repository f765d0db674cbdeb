//! The network between the members of an ensemble, with links that tests can cut.
//!
//! If this machine permits network namespaces, each member is a host behind a router, and packets
//! on a cut link vanish there. Otherwise members connect to each other through proxies on loopback,
//! which hold back the bytes on a cut link.

mod namespaces;
mod proxies;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;

use self::namespaces::Namespaces;
use self::proxies::Proxies;
use crate::server::free_ports;

/// The place of a server in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address for all others.
    pub host: Ipv4Addr,
    /// The network namespace of its process, if it has one.
    pub namespace: Option<String>,
}

impl Default for Place {
    fn default() -> Self {
        Self { host: Ipv4Addr::LOCALHOST, namespace: None }
    }
}

/// The effect of the proxies on the bytes between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Nothing.
    Calm,
    /// They hold up each piece for about this long.
    Slow(Duration),
    /// They break all connections, once.
    Breaks,
    /// They change a bit in one of this many pieces of votes.
    Changes {
        /// The number of pieces.
        one_of: usize,
    },
}

/// The form of the addresses.
#[derive(Debug)]
enum Links {
    Direct,
    /// Each member has its own loopback address.
    Addressed,
    /// Each member has two loopback addresses. `one_is_dead`: others cannot reach the first one.
    Twofold {
        one_is_dead: bool,
    },
    Proxied(Proxies),
    Routed(Namespaces),
    /// Each member has two addresses in namespaces. Only the first one can be cut off.
    RoutedTwice(Namespaces),
}

/// The network of one ensemble.
#[derive(Debug)]
pub struct Network {
    links: Links,
    /// The quorum port of each member. The election port is the next one.
    ports: Vec<u16>,
}

impl Network {
    /// Loopback without cuts.
    pub fn loopback(members: usize) -> Self {
        let ports = (0..members).map(|_| free_ports(2)).collect();
        Self { links: Links::Direct, ports }
    }

    /// Loopback with an address for each member, so that all of them can use the same ports.
    pub fn addresses(members: usize) -> Self {
        let ports = vec![free_ports(2); members];
        Self { links: Links::Addressed, ports }
    }

    /// Loopback with two addresses for each member. With `one_is_dead`, others get a wrong first
    /// one.
    pub fn two_addresses(members: usize, one_is_dead: bool) -> Self {
        let ports = vec![free_ports(2); members];
        Self { links: Links::Twofold { one_is_dead }, ports }
    }

    /// A network with links that can be cut. With `ZEBU_INTEROP_NETWORK=proxies` it always uses
    /// proxies.
    ///
    /// # Errors
    /// Neither form is possible on this machine.
    pub fn with_cuts(members: usize) -> Result<Self> {
        let wanted = std::env::var("ZEBU_INTEROP_NETWORK");
        if wanted.as_deref() != Ok("proxies") {
            match Namespaces::make(members) {
                Ok(namespaces) => {
                    let ports = vec![2888; members];
                    return Ok(Self { links: Links::Routed(namespaces), ports });
                }
                Err(error) => eprintln!(
                    "no network namespaces on this machine, so proxies on loopback cut what is to be cut: {error:#}"
                ),
            }
        }
        Self::with_proxies(members)
    }

    /// A network with links that can be cut and with bad weather: proxies on loopback.
    ///
    /// # Errors
    /// They cannot listen.
    pub fn with_proxies(members: usize) -> Result<Self> {
        let Self { ports, .. } = Self::loopback(members);
        let host = Ipv4Addr::LOCALHOST;
        let targets: Vec<[SocketAddr; 2]> =
            ports.iter().map(|port| [(host, *port).into(), (host, port + 1).into()]).collect();
        Ok(Self { links: Links::Proxied(Proxies::start(&targets)?), ports })
    }

    /// A network with two addresses and paths for each member. Cuts affect the first ones.
    ///
    /// # Errors
    /// This machine does not permit network namespaces.
    pub fn two_paths(members: usize) -> Result<Self> {
        let links = Links::RoutedTwice(Namespaces::make(members)?);
        Ok(Self { links, ports: vec![2888; members] })
    }

    /// A description for people.
    pub fn kind(&self) -> &'static str {
        match self.links {
            Links::Direct | Links::Addressed | Links::Twofold { .. } => "loopback",
            Links::Proxied(_) => "proxies on loopback",
            Links::Routed(_) | Links::RoutedTwice(_) => "network namespaces",
        }
    }

    /// Whether links can be cut.
    pub fn has_cuts(&self) -> bool {
        matches!(self.links, Links::Proxied(_) | Links::Routed(_) | Links::RoutedTwice(_))
    }

    /// Whether a member has the same address for all others.
    pub fn is_uniform(&self) -> bool {
        self.line(0, 0) == self.line(1, 0)
    }

    /// The place of a member.
    pub fn place(&self, member: usize) -> Place {
        match &self.links {
            Links::Direct | Links::Proxied(_) => Place::default(),
            Links::Addressed | Links::Twofold { .. } => {
                Place { host: loopback(10, member), namespace: None }
            }
            Links::Routed(namespaces) | Links::RoutedTwice(namespaces) => namespaces.place(member),
        }
    }

    /// `host:port:port` of a member in the configuration of `viewer`.
    pub fn line(&self, viewer: usize, member: usize) -> String {
        let (host, port) = (self.place(member).host, self.ports[member]);
        match &self.links {
            Links::Proxied(proxies) if viewer != member => {
                let [quorum, election] = proxies.ports(viewer, member);
                format!("{host}:{quorum}:{election}")
            }
            Links::Twofold { one_is_dead } => {
                let first = if *one_is_dead && viewer != member { 30 } else { 20 };
                let (first, election) = (loopback(first, member), port + 1);
                format!("{first}:{port}:{election}|{host}:{port}:{election}")
            }
            Links::RoutedTwice(namespaces) => {
                let (second, election) = (namespaces.other(member), port + 1);
                format!("{host}:{port}:{election}|{second}:{port}:{election}")
            }
            _ => format!("{host}:{port}:{}", port + 1),
        }
    }

    /// Cuts the link from one member to another, in this direction.
    ///
    /// # Errors
    /// It cannot be cut.
    pub fn cut(&mut self, from: usize, to: usize) -> Result<()> {
        match &mut self.links {
            Links::Direct | Links::Addressed | Links::Twofold { .. } => {
                anyhow::bail!("loopback cannot be cut")
            }
            Links::Proxied(proxies) => proxies.cut(from, to),
            Links::Routed(namespaces) | Links::RoutedTwice(namespaces) => {
                return namespaces.cut(from, to);
            }
        }
        Ok(())
    }

    /// Changes the weather, until the links are restored. `false`: this network has none.
    pub fn weather(&mut self, weather: Weather) -> bool {
        match &mut self.links {
            Links::Proxied(proxies) => proxies.weather(weather),
            _ => return false,
        }
        true
    }

    /// Restores all links.
    ///
    /// # Errors
    /// They cannot be restored.
    pub fn heal(&mut self) -> Result<()> {
        match &mut self.links {
            Links::Direct | Links::Addressed | Links::Twofold { .. } => Ok(()),
            Links::Proxied(proxies) => {
                proxies.heal();
                Ok(())
            }
            Links::Routed(namespaces) | Links::RoutedTwice(namespaces) => namespaces.heal(),
        }
    }
}

/// A loopback address.
fn loopback(first: u8, member: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, first + u8::try_from(member).expect("few members"))
}
