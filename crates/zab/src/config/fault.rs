//! What can be wrong with a configuration.

use std::fmt;

use zebu_proto::ServerId;
use zebu_proto::properties::PropertiesError;

/// A text that is no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The line, counted from 1; 0 when it is the whole text.
    pub line: u32,
    /// What is wrong.
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

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    /// It is no properties file.
    #[error("{0}")]
    Syntax(PropertiesError),
    /// A key that no configuration has.
    #[error("unrecognised parameter: {0}")]
    Key(String),
    /// What should be a server id is none.
    #[error("server id {0:?} is not a number from 0 on")]
    ServerId(String),
    /// Two keys for one server.
    #[error("server.{} is there twice", .0.0)]
    Twice(ServerId),
    /// A server's line is not what it should be.
    #[error(
        "{0:?} is no server: expected \
         host:port:port[:participant|observer][|host:port:port...][;[host:]port]"
    )]
    Form(String),
    /// A host with characters that no host has.
    #[error("{0:?} is not a host")]
    Host(String),
    /// A port that is none.
    #[error("{0:?} is not a port")]
    Port(String),
    /// One port for two purposes.
    #[error("quorum and election port are both {0}: they must differ")]
    SamePorts(u16),
    /// A role that does not exist.
    #[error("Unrecognised peertype: {0}")]
    Role(String),
    /// Addresses of one server with different roles.
    #[error("all addresses of a server must have the same role")]
    Roles,
    /// More than one address where that is not enabled.
    #[error("several addresses for one server need multiAddress.enabled=true")]
    MultiAddress,
    /// A version that is none.
    #[error("version {0:?} is not a hexadecimal number from 0 on")]
    Version(String),
    /// A group's id is no number.
    #[error("group id {0:?} is not a number")]
    GroupId(String),
    /// A server in two groups.
    #[error("server {} is in more than one group", .0.0)]
    InTwoGroups(ServerId),
    /// A voter in no group.
    #[error("server {} is in no group", .0.0)]
    InNoGroup(ServerId),
    /// A weight that is none.
    #[error("weight {0:?} is not a number from 0 on")]
    Weight(String),
    /// Somebody without a vote in a group, and no weight for it.
    #[error("server {} is in a group, but has neither a vote nor a weight", .0.0)]
    NoWeight(ServerId),
    /// Observers, and nobody who could lead them.
    #[error("Observers w/o participants is an invalid configuration")]
    ObserversAlone,
    /// Observers, and one voter that would run alone.
    #[error("Observers w/o quorum is an invalid configuration")]
    ObserversWithoutQuorum,
    /// Nobody who votes.
    #[error("with standaloneEnabled=false there must be at least one participant")]
    NoVoters,
}

impl ConfigFault {
    pub(super) fn at(self, line: u32) -> TextError {
        TextError { line, fault: self }
    }
}
