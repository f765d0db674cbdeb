//! The network between the members of an ensemble, as one that can be cut.
//!
//! In network namespaces, if this machine lets us make them, each member is a host of its own behind a router,
//! and what is cut vanishes there, packet by packet. Else members dial each other through proxies on loopback,
//! which hold back what is cut.

mod namespaces;
mod proxies;

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;

use self::namespaces::Namespaces;
use self::proxies::Proxies;
use crate::server::free_ports;

/// Where a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address for everybody.
    pub host: Ipv4Addr,
    /// The network namespace of its process, if it has one of its own.
    pub namespace: Option<String>,
}

impl Default for Place {
    fn default() -> Self {
        Self { host: Ipv4Addr::LOCALHOST, namespace: None }
    }
}

/// How members reach each other.
#[derive(Debug)]
enum Links {
    Direct,
    /// Each on an address of its own, all of them of loopback.
    Addressed,
    /// Each on two of them. `one_is_dead`: nobody can be reached by others at the first.
    Twofold {
        one_is_dead: bool,
    },
    Proxied(Proxies),
    Routed(Namespaces),
    /// The same with two addresses for each, of which only the first can be cut off.
    RoutedTwice(Namespaces),
}

/// The network of one ensemble.
#[derive(Debug)]
pub struct Network {
    links: Links,
    /// The quorum port of each member; that of elections is the next one.
    ports: Vec<u16>,
}

impl Network {
    /// Loopback, which cannot be cut.
    pub fn loopback(members: usize) -> Self {
        let ports = (0..members).map(|_| free_ports(2)).collect();
        Self { links: Links::Direct, ports }
    }

    /// Loopback with an address for each member, so that all of them can have the same ports.
    pub fn addresses(members: usize) -> Self {
        let ports = vec![free_ports(2); members];
        Self { links: Links::Addressed, ports }
    }

    /// Loopback with two addresses for each member; with `one_is_dead` others are given a wrong first one.
    pub fn two_addresses(members: usize, one_is_dead: bool) -> Self {
        let ports = vec![free_ports(2); members];
        Self { links: Links::Twofold { one_is_dead }, ports }
    }

    /// A network that can be cut. With `ZEBU_INTEROP_NETWORK=proxies` it is made of proxies in any case.
    ///
    /// # Errors
    /// Nothing of the kind can be had.
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
        let Self { ports, .. } = Self::loopback(members);
        let host = Ipv4Addr::LOCALHOST;
        let targets: Vec<[SocketAddr; 2]> =
            ports.iter().map(|port| [(host, *port).into(), (host, port + 1).into()]).collect();
        Ok(Self { links: Links::Proxied(Proxies::start(&targets)?), ports })
    }

    /// A network where each member has two addresses, and one path to each of them: cuts are of the first ones.
    ///
    /// # Errors
    /// This machine has no network namespaces.
    pub fn two_paths(members: usize) -> Result<Self> {
        let links = Links::RoutedTwice(Namespaces::make(members)?);
        Ok(Self { links, ports: vec![2888; members] })
    }

    /// What it is, for people.
    pub fn kind(&self) -> &'static str {
        match self.links {
            Links::Direct | Links::Addressed | Links::Twofold { .. } => "loopback",
            Links::Proxied(_) => "proxies on loopback",
            Links::Routed(_) | Links::RoutedTwice(_) => "network namespaces",
        }
    }

    /// Where a member runs.
    pub fn place(&self, member: usize) -> Place {
        match &self.links {
            Links::Direct | Links::Proxied(_) => Place::default(),
            Links::Addressed | Links::Twofold { .. } => {
                Place { host: loopback(10, member), namespace: None }
            }
            Links::Routed(namespaces) | Links::RoutedTwice(namespaces) => namespaces.place(member),
        }
    }

    /// `host:port:port` of a member, as `viewer` is to be configured.
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

    /// Lets nothing go from one member to another any more.
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

    /// Mends everything.
    ///
    /// # Errors
    /// It cannot be mended.
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

/// An address of loopback.
fn loopback(first: u8, member: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, first + u8::try_from(member).expect("few members"))
}
