//! Derives a new configuration from an old one.

use zebu_proto::request::Reconfig;
use zebu_proto::{ErrorCode, HostPort, ServerId, Zxid};

use super::text::server_id;
use super::{ConfigFault, Member, Membership, Rules, TextError, Verifier};

/// Why a reconfiguration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It expects another version of the configuration.
    #[error("the configuration has version {found:x}, not {wanted:x}", found = .found.0)]
    Version {
        /// The current version.
        found: Zxid,
        /// The version in the request.
        wanted: i64,
    },
    /// The new members are not a valid configuration.
    #[error("{0}")]
    Text(#[from] TextError),
    /// A joining server's entry is not `server.N=...`.
    #[error("{0:?} is not server.N=host:port:port;[host:]port")]
    Joining(String),
    /// A joining server's entry has a fault.
    #[error("{entry:?}: {fault}")]
    Member {
        /// The entry.
        entry: String,
        /// The fault.
        fault: ConfigFault,
    },
    /// The id of a leaving server is not a number.
    #[error("{0:?} is not a server id")]
    Leaving(String),
    /// Two servers have the same address.
    #[error("{address} of server {} is also server {}'s", .joining.0, .member.0)]
    Address {
        /// The address.
        address: HostPort,
        /// The joining server.
        joining: ServerId,
        /// The member that already has the address.
        member: ServerId,
    },
    /// A configuration with groups cannot be changed incrementally.
    #[error("an ensemble with groups can only be changed as a whole")]
    Groups,
    /// Too few voters would be left.
    #[error("the new configuration must have at least {0} voters")]
    Voters(usize),
}

impl ChangeError {
    /// The error code for the client.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Version { .. } => ErrorCode::BAD_VERSION,
            Self::Leaving(_) => ErrorCode::MARSHALLING_ERROR,
            _ => ErrorCode::BAD_ARGUMENTS,
        }
    }
}

impl Membership {
    /// The configuration that results from a request. `zxid`: the zxid of the transaction, which
    /// becomes the version.
    ///
    /// The caller checks whether reconfiguration is enabled, no other one is in progress, the
    /// client has the permission, and a quorum of the result is connected.
    /// Source: `PrepRequestProcessor.pRequest2Txn`, reconfig.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed.
    pub fn changed(
        &self,
        request: &Reconfig<'_>,
        zxid: Zxid,
        rules: Rules,
    ) -> Result<Self, ChangeError> {
        if request.config_id != -1 && request.config_id != self.version.0 {
            return Err(ChangeError::Version { found: self.version, wanted: request.config_id });
        }
        let changed = match &request.members {
            // Lists from a command line separate the members by commas.
            Some(members) => Self::parse(members.replace(',', "\n").as_bytes(), rules)?,
            None => self.changed_by_server(
                request.joining.as_deref().unwrap_or_default(),
                request.leaving.as_deref().unwrap_or_default(),
                rules,
            )?,
        };
        let voters_min = if rules.standalone { 2 } else { 1 };
        if changed.voters().count() < voters_min {
            return Err(ChangeError::Voters(voters_min));
        }
        Ok(changed.with_version(zxid))
    }

    fn changed_by_server(
        &self,
        joining: &str,
        leaving: &str,
        rules: Rules,
    ) -> Result<Self, ChangeError> {
        if self.verifier != Verifier::Majority {
            return Err(ChangeError::Groups);
        }
        let mut changed = self.clone();
        for text in words(leaving) {
            let id = text.parse().map_err(|_| ChangeError::Leaving(text.to_owned()))?;
            changed.members.remove(&ServerId(id));
        }
        for entry in words(joining) {
            let joining = joining_member(entry, rules)?;
            let others = changed.members.values().filter(|member| member.id != joining.id);
            for member in others {
                if let Some(address) = joining.conflict(member) {
                    let (joining, member) = (joining.id, member.id);
                    return Err(ChangeError::Address { address, joining, member });
                }
            }
            changed.members.insert(joining.id, joining);
        }
        Ok(changed)
    }
}

/// The client address is required: the one in the new server's static file is unknown here.
fn joining_member(entry: &str, rules: Rules) -> Result<Member, ChangeError> {
    let form = || ChangeError::Joining(entry.to_owned());
    let (key, value) = entry.split_once('=').ok_or_else(form)?;
    if value.contains('=') {
        return Err(form());
    }
    // Only the part after the last dot counts.
    let id = key.trim().rsplit('.').next().ok_or_else(form)?;
    let fault = |fault| ChangeError::Member { entry: entry.to_owned(), fault };
    let id = server_id(id).map_err(fault)?;
    let member = Member::parse(id, value, rules.multi_address).map_err(fault)?;
    if member.client.is_none() && member.secure_client.is_none() {
        return Err(form());
    }
    Ok(member)
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty())
}
