//! The identity that a SASL mechanism has proved.

/// The authenticated identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The user whose password the peer knew, or the principal of the ticket with its realm.
    pub user: String,
    /// The user as whom the peer wants to act; by default the authenticated user.
    pub authorization: String,
}

impl Authenticated {
    /// Whether the ensemble may accept this server: it must act as itself. Source:
    /// `SaslQuorumServerCallbackHandler`.
    pub fn is_itself(&self) -> bool {
        self.user == self.authorization
    }
}
