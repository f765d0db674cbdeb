//! SASL for clients: the scheme `sasl`, and one exchange for each connection.
//!
//! Leaves out the mechanisms: they are in [`zebu_auth::sasl`].
//! Sources: `SASLAuthenticationProvider`, `ZooKeeperServer.processSasl`.

use std::time::Duration;

use zebu_auth::kerberos::Principal;
use zebu_auth::sasl::{Failure, Given, Sasl, ServerExchange, Step};
use zebu_proto::{Id, Xid};
use zebu_replica::auth::{AuthProvider, Claim, Credentials, Refused, Schemes, Verdict};

use crate::conn::Ticket;

/// The scheme's name.
pub const SCHEME: &str = "sasl";

/// A credential id that matches every ACL entry of the scheme.
const SUPER: &str = "super";

/// The scheme `sasl`.
#[derive(Debug)]
pub struct SaslScheme {
    any_user: Option<String>,
}

impl SaslScheme {
    /// `any_user`: the ACL id that stands for every SASL user (`letAnySaslUserDoX`).
    pub fn new(any_user: Option<String>) -> Self {
        Self { any_user }
    }
}

impl AuthProvider for SaslScheme {
    fn scheme(&self) -> &str {
        SCHEME
    }

    /// Refuses: SASL needs an exchange, not an auth packet.
    fn authenticate(&self, _: &Claim<'_>) -> Verdict {
        Err(Refused::Credentials)
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, id: &str) -> bool {
        Principal::parse(id).is_ok()
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        id == SUPER || id == expression || self.any_user.as_deref() == Some(expression)
    }
}

/// SASL settings for clients.
#[derive(Clone, Debug)]
pub struct ClientSasl {
    /// The mechanism, and the mapping to ids.
    pub sasl: Sasl,
    /// Ids of super users: `superUser` and `superUser.*`.
    pub super_users: Vec<String>,
    /// Whether a client that fails stays connected without an id: `allowSaslFailedClients`.
    pub allows_failed: bool,
}

/// Result of a client's token.
#[derive(Debug)]
pub enum SaslEvent<'e> {
    /// The client is authenticated.
    Authenticated {
        /// The authenticated user name.
        user: &'e str,
        /// Its id of the scheme `sasl`.
        id: &'e str,
        /// Whether it is a super user.
        is_super: bool,
    },
    /// The client failed to authenticate; reported once for each connection.
    Failed {
        /// The reason.
        failure: &'e Failure,
        /// Whether the connection stays open without an id.
        stays: bool,
    },
}

/// The authentication state of one connection. It is empty until the client sends a SASL token, or
/// an auth packet for an asynchronous scheme.
#[derive(Debug, Default)]
pub(crate) struct Authentication {
    /// The auth packet whose verdict is outstanding. No input is taken until it arrives.
    pub(crate) asked: Option<Asked>,
    exchange: Option<Box<dyn ServerExchange>>,
    has_failed: bool,
}

/// An auth packet for an asynchronous scheme.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Its xid.
    pub(crate) xid: Xid,
    /// Its scheme.
    pub(crate) scheme: String,
    /// The ticket that the verdict carries.
    pub(crate) ticket: Ticket,
    /// When the check began.
    pub(crate) since: Duration,
}

/// A valid token.
pub(crate) struct Good {
    /// The token to send back.
    pub(crate) token: Option<Vec<u8>>,
    /// The client's identity, if the exchange is complete.
    pub(crate) who: Option<Who>,
}

/// An authenticated identity.
pub(crate) struct Who {
    pub(crate) user: String,
    pub(crate) id: String,
    pub(crate) is_super: bool,
    /// The credentials of the connection from now on.
    pub(crate) ids: Credentials,
}

impl Authentication {
    /// Takes a token of a client. `ids`: the current credentials of its connection.
    pub(crate) fn step(
        &mut self,
        rules: &ClientSasl,
        schemes: &Schemes,
        ids: &Credentials,
        token: &[u8],
        given: Option<Given>,
    ) -> Result<Good, Failure> {
        let given = given.ok_or_else(|| Failure::new("the system gives no random bytes"))?;
        let exchange = self.exchange.get_or_insert_with(|| rules.sasl.mechanism.begin());
        let (token, user) = match exchange.step(token, given)? {
            Step::More(token) => return Ok(Good { token: Some(token), who: None }),
            Step::Done { token, user } => (token, user),
        };
        let id = rules.sasl.id(&user)?;
        let is_super = !id.is_empty() && rules.super_users.contains(&id);
        let mut added = vec![Id::new(SCHEME, &*id)];
        added.extend(is_super.then(|| Id::new("super", "")));
        let ids = schemes
            .with(ids, added)
            .map_err(|_| Failure::new("the connection would have too many ids"))?;
        Ok(Good { token, who: Some(Who { user, id, is_super, ids }) })
    }

    /// Notes a failure. Returns whether it is the first.
    pub(crate) fn fails(&mut self) -> bool {
        !std::mem::replace(&mut self.has_failed, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_takes_kerberos_names_and_super_matches_all() {
        let scheme = SaslScheme::new(Some("any".to_owned()));
        for good in ["amy", "amy@R", "amy/h@R", "amy/h", "", "a/b/c"] {
            assert!(scheme.is_valid(good), "{good}");
        }
        for bad in ["a@b@c", "a/b/c@R", "a@b/c"] {
            assert!(!scheme.is_valid(bad), "{bad}");
        }
        assert!(scheme.matches("amy", "amy") && scheme.matches("amy", "any"));
        assert!(scheme.matches("super", "amy"));
        assert!(!scheme.matches("amy", "bob") && !scheme.matches("amy", "super"));
        assert!(!SaslScheme::new(None).matches("amy", "any"));
        scheme.authenticate(&Claim::new([127, 0, 0, 1].into(), Some(b"amy"))).unwrap_err();
    }
}
