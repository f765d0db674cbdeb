//! One server of the ensemble, and its entry.

use std::fmt;
use std::str::FromStr;

use zebu_proto::address::{same_host, split};
use zebu_proto::{HostPort, ServerId};

use super::ConfigFault;

/// The client address's host if an entry gives only the port.
const ANY_HOST: &str = "0.0.0.0";
/// The meaning of an empty host.
const THIS_HOST: &str = "localhost";

/// Whether a member is a voter.
/// Source: `QuorumPeer.LearnerType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A voter.
    #[default]
    Participant,
    /// A non-voter.
    Observer,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Participant => "participant",
            Self::Observer => "observer",
        })
    }
}

impl FromStr for Role {
    type Err = ConfigFault;

    fn from_str(text: &str) -> Result<Self, ConfigFault> {
        [Self::Participant, Self::Observer]
            .into_iter()
            .find(|role| text.eq_ignore_ascii_case(&role.to_string()))
            .ok_or_else(|| ConfigFault::Role(text.to_owned()))
    }
}

/// An address of a member for other servers; a member may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// A name, or an address without brackets, as written.
    pub host: String,
    /// The port for learners.
    pub quorum_port: u16,
    /// The port for elections.
    pub election_port: u16,
}

impl PeerAddress {
    /// The address for learners.
    pub fn quorum(&self) -> HostPort {
        HostPort::new(self.host.clone(), self.quorum_port)
    }

    /// The address for elections.
    pub fn election(&self) -> HostPort {
        HostPort::new(self.host.clone(), self.election_port)
    }

    fn is_same_as(&self, other: &Self) -> bool {
        (self.quorum_port, self.election_port) == (other.quorum_port, other.election_port)
            && same_host(&self.host, &other.host)
    }
}

/// One server of a configuration.
///
/// Source: `QuorumPeer.QuorumServer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The server id.
    pub id: ServerId,
    /// The addresses in print order; at least one.
    pub addresses: Vec<PeerAddress>,
    /// Whether it votes.
    pub role: Role,
    /// The client address, if configured.
    pub client: Option<HostPort>,
    /// The TLS client address. The original knows it only after 3.9; 3.9 refuses it.
    pub secure_client: Option<HostPort>,
}

impl Member {
    /// Parses the text after `server.N=`.
    ///
    /// # Errors
    /// [`ConfigFault`].
    pub fn parse(id: ServerId, text: &str, multi_address: bool) -> Result<Self, ConfigFault> {
        let form = || ConfigFault::Form(text.to_owned());
        let mut parts: Vec<&str> = text.trim().split(';').collect();
        while parts.len() > 1 && parts.last().is_some_and(|last| last.is_empty()) {
            parts.pop();
        }
        let (servers, clients) = parts.split_first().ok_or_else(form)?;
        if clients.len() > 2 {
            return Err(form());
        }
        let client = |at: usize| {
            let part = clients.get(at).filter(|part| !part.is_empty());
            part.map(|part| client_address(part, form)).transpose()
        };
        let mut addresses = Vec::new();
        let mut role = None;
        let servers = servers.trim_end_matches('|');
        for address in servers.split('|') {
            let fields = split(address).ok_or_else(form)?;
            let (&host, ports, named) = match fields.as_slice() {
                [host, quorum, election] => (host, [quorum, election], None),
                [host, quorum, election, role] => (host, [quorum, election], Some(*role)),
                _ => return Err(form()),
            };
            let (quorum_port, election_port) = (port(ports[0])?, port(ports[1])?);
            if quorum_port == election_port {
                return Err(ConfigFault::SamePorts(quorum_port));
            }
            if let Some(named) = named {
                let named: Role = named.parse()?;
                if *role.get_or_insert(named) != named {
                    return Err(ConfigFault::Roles);
                }
            }
            let address = PeerAddress { host: host_of(host)?, quorum_port, election_port };
            if !addresses.iter().any(|known: &PeerAddress| known.is_same_as(&address)) {
                addresses.push(address);
            }
        }
        if servers.contains('|') && !multi_address {
            return Err(ConfigFault::MultiAddress);
        }
        // The original prints them in this order.
        addresses.sort_by(|a, b| a.host.cmp(&b.host));
        Ok(Self {
            id,
            addresses,
            role: role.unwrap_or_default(),
            client: client(0)?,
            secure_client: client(1)?,
        })
    }

    /// The member's election addresses.
    pub fn election_addresses(&self) -> Vec<HostPort> {
        self.addresses.iter().map(PeerAddress::election).collect()
    }

    /// The member's quorum addresses.
    pub fn quorum_addresses(&self) -> Vec<HostPort> {
        self.addresses.iter().map(PeerAddress::quorum).collect()
    }

    /// Whether both are the same server with the same addresses and role. The order of addresses
    /// does not matter; hosts are compared without resolving them.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let same_client = |ours: &Option<HostPort>, theirs: &Option<HostPort>| match (ours, theirs)
        {
            (Some(ours), Some(theirs)) => ours.same_place(theirs),
            (ours, theirs) => ours == theirs,
        };
        let within = |some: &[PeerAddress], all: &[PeerAddress]| {
            some.iter().all(|one| all.iter().any(|other| one.is_same_as(other)))
        };
        (self.id, self.role) == (other.id, other.role)
            && within(&self.addresses, &other.addresses)
            && within(&other.addresses, &self.addresses)
            && same_client(&self.client, &other.client)
            && same_client(&self.secure_client, &other.secure_client)
    }

    /// Whether both share a quorum address: a leader that keeps one stays reachable across a
    /// reconfiguration.
    pub fn shares_quorum_address(&self, other: &Self) -> bool {
        let theirs = other.quorum_addresses();
        self.quorum_addresses().iter().any(|ours| theirs.iter().any(|one| ours.same_place(one)))
    }

    /// An address that both claim, if any. Wildcard and loopback addresses never conflict.
    /// Source: `QuorumServer.checkAddressDuplicate`.
    pub(super) fn conflict(&self, other: &Self) -> Option<HostPort> {
        let places = |member: &Self| {
            let mut places = member.quorum_addresses();
            places.extend(member.election_addresses());
            places.extend(member.client.clone());
            places.extend(member.secure_client.clone());
            places.retain(|place| !is_everyones(place));
            places
        };
        let theirs = places(other);
        places(self).into_iter().find(|ours| theirs.iter().any(|one| ours.same_place(one)))
    }
}

fn is_everyones(place: &HostPort) -> bool {
    match place.literal() {
        Some(address) => address.is_unspecified() || address.is_loopback(),
        None => place.host.eq_ignore_ascii_case(THIS_HOST),
    }
}

fn port(text: &str) -> Result<u16, ConfigFault> {
    text.parse().map_err(|_| ConfigFault::Port(text.to_owned()))
}

/// A host name without characters that are special in configurations.
fn host_of(text: &str) -> Result<String, ConfigFault> {
    let is_good = |c: char| c.is_alphanumeric() || "-._:%".contains(c);
    match text {
        "" => Ok(THIS_HOST.to_owned()),
        text if text.chars().all(is_good) => Ok(text.to_owned()),
        text => Err(ConfigFault::Host(text.to_owned())),
    }
}

fn client_address(text: &str, form: impl Fn() -> ConfigFault) -> Result<HostPort, ConfigFault> {
    match split(text).ok_or_else(&form)?.as_slice() {
        [only] => Ok(HostPort::new(ANY_HOST, port(only)?)),
        [host, number] => Ok(HostPort::new(host_of(host)?, port(number)?)),
        _ => Err(form()),
    }
}

impl fmt::Display for Member {
    /// The text after `server.N=`, with the role, and the client addresses if configured.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.addresses.iter().enumerate() {
            let bar = if index > 0 { "|" } else { "" };
            write!(f, "{bar}{}:{}", address.quorum(), address.election_port)?;
        }
        write!(f, ":{}", self.role)?;
        match (&self.client, &self.secure_client) {
            (None, None) => Ok(()),
            (Some(client), None) => write!(f, ";{client}"),
            (None, Some(secure)) => write!(f, ";;{secure}"),
            (Some(client), Some(secure)) => write!(f, ";{client};{secure}"),
        }
    }
}
