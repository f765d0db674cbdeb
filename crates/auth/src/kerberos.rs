//! Kerberos names: principals, and the rules that turn them into short names (`auth_to_local`).
//!
//! Every SASL user passes through this module, also the users of DIGEST-MD5. The rules are
//! Hadoop's, as in ZooKeeper. A rule that can never apply is refused when the rules are read, not
//! when a client connects.
//!
//! Sources: `KerberosName`, `SaslServerCallbackHandler`, `SaslQuorumServerCallbackHandler`.

mod rules;

use std::fmt;

pub use rules::{RuleError, Rules};

/// A name that is not a principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a Kerberos name; use NAME, NAME@REALM or NAME/HOST@REALM")]
pub struct Malformed(String);

/// No rule produces a short name for a principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no rule of auth_to_local makes a short name of {0:?}")]
pub struct NoShortName(String);

/// A principal: `service[/host]@realm`, or a name without a realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    service: String,
    host: Option<String>,
    realm: Option<String>,
}

impl Principal {
    /// Parses a name. Without a realm, the whole text is the service, including slashes.
    ///
    /// # Errors
    /// There is more than one `@`, more than one `/`, or a `/` in the realm.
    pub fn parse(name: &str) -> Result<Self, Malformed> {
        let Some((head, realm)) = name.split_once('@') else {
            return Ok(Self { service: name.to_owned(), host: None, realm: None });
        };
        let (service, host) = match head.split_once('/') {
            Some((service, host)) => (service, Some(host)),
            None => (head, None),
        };
        if realm.contains(['/', '@']) || host.is_some_and(|host| host.contains('/')) {
            return Err(Malformed(name.to_owned()));
        }
        Ok(Self {
            service: service.to_owned(),
            host: host.map(str::to_owned),
            realm: Some(realm.to_owned()),
        })
    }

    /// The first part.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// The part after the slash.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The part after the `@`.
    pub fn realm(&self) -> Option<&str> {
        self.realm.as_deref()
    }

    /// Whether a peer with this name may join the ensemble: it names a host of the ensemble, and
    /// its realm equals `realm` if one is given. A name without a host is refused (CVE-2023-44981).
    pub fn is_of_ensemble(&self, hosts: &[&str], realm: Option<&str>) -> bool {
        let has_host = self.host.as_deref().is_some_and(|own| hosts.contains(&own));
        let has_realm = match (self.realm(), realm) {
            (Some(own), Some(wanted)) => own == wanted,
            (Some(own), None) => !own.is_empty(),
            (None, _) => false,
        };
        has_host && has_realm
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.service)?;
        if let Some(host) = &self.host {
            write!(f, "/{host}")?;
        }
        if let Some(realm) = &self.realm {
            write!(f, "@{realm}")?;
        }
        Ok(())
    }
}

/// Settings that turn a client's principal into its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Naming {
    /// `zookeeper.security.auth_to_local`.
    pub rules: Rules,
    /// The realm of this machine, which `DEFAULT` removes; empty if there is none.
    pub default_realm: String,
    /// `zookeeper.kerberos.removeHostFromPrincipal`.
    pub removes_host: bool,
    /// `zookeeper.kerberos.removeRealmFromPrincipal`.
    pub removes_realm: bool,
}

impl Naming {
    /// The id of the scheme `sasl` for the authenticated `user`: its short name, with host and
    /// realm unless the settings remove them.
    ///
    /// If no rule applies, the id is the whole of `user`. The original uses the authorization id in
    /// that case, which a client chooses freely with DIGEST-MD5.
    ///
    /// # Errors
    /// `user` is not a Kerberos name.
    pub fn id(&self, user: &str) -> Result<String, Malformed> {
        let principal = Principal::parse(user)?;
        let Ok(mut id) = self.rules.short_name(&principal, &self.default_realm) else {
            return Ok(user.to_owned());
        };
        if let Some(host) = principal.host().filter(|_| !self.removes_host) {
            id.push('/');
            id.push_str(host);
        }
        if let Some(realm) = principal.realm().filter(|_| !self.removes_realm) {
            id.push('@');
            id.push_str(realm);
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
