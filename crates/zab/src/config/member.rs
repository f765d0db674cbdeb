//! One server of the ensemble, and its line.

use std::fmt;
use std::str::FromStr;

use zebu_proto::address::{same_host, split};
use zebu_proto::{HostPort, ServerId};

use super::ConfigFault;

/// Where clients are served when a line names only the port.
const ANY_HOST: &str = "0.0.0.0";
/// What an empty host means.
const THIS_HOST: &str = "localhost";

/// Whether a member votes.
///
/// Source: `QuorumPeer.LearnerType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It does.
    #[default]
    Participant,
    /// It only learns what was decided.
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

/// Where other servers reach a member; it may have more than one such address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// As it was written: a name, or an address without brackets.
    pub host: String,
    /// Where the leader listens for learners.
    pub quorum_port: u16,
    /// Where votes go.
    pub election_port: u16,
}

impl PeerAddress {
    /// Where it listens for learners when it leads.
    pub fn quorum(&self) -> HostPort {
        HostPort::new(self.host.clone(), self.quorum_port)
    }

    /// Where it listens for votes.
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
    /// Its number.
    pub id: ServerId,
    /// At least one; in the order in which they are printed.
    pub addresses: Vec<PeerAddress>,
    /// Whether it votes.
    pub role: Role,
    /// Where it serves clients, if the configuration says so.
    pub client: Option<HostPort>,
    /// Where it serves clients over TLS. Known to the original only after 3.9, which refuses it.
    pub secure_client: Option<HostPort>,
}

impl Member {
    /// Reads what stands behind `server.N=`.
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
        // As the original sorts them when it prints them.
        addresses.sort_by(|a, b| a.host.cmp(&b.host));
        Ok(Self {
            id,
            addresses,
            role: role.unwrap_or_default(),
            client: client(0)?,
            secure_client: client(1)?,
        })
    }

    /// The addresses the member listens on for votes.
    pub fn election_addresses(&self) -> Vec<HostPort> {
        self.addresses.iter().map(PeerAddress::election).collect()
    }

    /// The addresses the member listens on for learners.
    pub fn quorum_addresses(&self) -> Vec<HostPort> {
        self.addresses.iter().map(PeerAddress::quorum).collect()
    }

    /// Whether both are the same server at the same addresses in the same role; the order of
    /// addresses does not count, and hosts are compared as far as possible without resolving them.
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

    /// Whether both have a quorum address in common: the leader need not change when a
    /// reconfiguration leaves it that.
    pub fn shares_quorum_address(&self, other: &Self) -> bool {
        let theirs = other.quorum_addresses();
        self.quorum_addresses().iter().any(|ours| theirs.iter().any(|one| ours.same_place(one)))
    }

    /// An address that both claim, if there is one. Wildcards and loopback addresses are each
    /// server's own.
    ///
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

/// A host without characters that would mean something else in a configuration's text.
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
    /// What stands behind `server.N=`; the role always, client addresses if there are any.
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
