//! Errors in configurations.

use std::fmt;

use zebu_proto::ServerId;
use zebu_proto::properties::PropertiesError;

/// A text that is not a valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The line, counted from 1; 0 for the whole text.
    pub line: u32,
    /// The error.
    pub fault: ConfigFault,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => fmt::Display::fmt(&self.fault, f),
            line => write!(f, "line {line}: {}", self.fault),
        }
    }
}

impl std::error::Error for TextError {}

impl From<PropertiesError> for TextError {
    fn from(fault: PropertiesError) -> Self {
        Self { line: fault.line(), fault: ConfigFault::Syntax(fault) }
    }
}

/// An error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    /// It is not a properties file.
    #[error("{0}")]
    Syntax(PropertiesError),
    /// An unknown key.
    #[error("unrecognised parameter: {0}")]
    Key(String),
    /// An invalid server id.
    #[error("server id {0:?} is not a number from 0 on")]
    ServerId(String),
    /// A server appears twice.
    #[error("server.{} is there twice", .0.0)]
    Twice(ServerId),
    /// A malformed server entry.
    #[error(
        "{0:?} is no server: expected \
         host:port:port[:participant|observer][|host:port:port...][;[host:]port]"
    )]
    Form(String),
    /// An invalid host name.
    #[error("{0:?} is not a host")]
    Host(String),
    /// An invalid port.
    #[error("{0:?} is not a port")]
    Port(String),
    /// Quorum and election port are equal.
    #[error("quorum and election port are both {0}: they must differ")]
    SamePorts(u16),
    /// An unknown role.
    #[error("Unrecognised peertype: {0}")]
    Role(String),
    /// The addresses of one server have different roles.
    #[error("all addresses of a server must have the same role")]
    Roles,
    /// Several addresses, though that is not enabled.
    #[error("several addresses for one server need multiAddress.enabled=true")]
    MultiAddress,
    /// An invalid version.
    #[error("version {0:?} is not a hexadecimal number from 0 on")]
    Version(String),
    /// An invalid group id.
    #[error("group id {0:?} is not a number")]
    GroupId(String),
    /// A server in two groups.
    #[error("server {} is in more than one group", .0.0)]
    InTwoGroups(ServerId),
    /// A voter is in no group.
    #[error("server {} is in no group", .0.0)]
    InNoGroup(ServerId),
    /// An invalid weight.
    #[error("weight {0:?} is not a number from 0 on")]
    Weight(String),
    /// A non-voter in a group has no weight.
    #[error("server {} is in a group, but has neither a vote nor a weight", .0.0)]
    NoWeight(ServerId),
    /// There are observers but no voters.
    #[error("Observers w/o participants is an invalid configuration")]
    ObserversAlone,
    /// There are observers and a single voter, which would run standalone.
    #[error("Observers w/o quorum is an invalid configuration")]
    ObserversWithoutQuorum,
    /// There are no voters.
    #[error("with standaloneEnabled=false there must be at least one participant")]
    NoVoters,
}

impl ConfigFault {
    pub(super) fn at(self, line: u32) -> TextError {
        TextError { line, fault: self }
    }
}
