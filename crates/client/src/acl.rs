//! Access control lists. Every create names one; there is no default.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use zebu_proto::{Acl, Id, Perms};

/// The access control list of a znode: the permissions of each identity.
///
/// Every create names one; there is no default. An ACL concerns one znode only: it is not inherited
/// by children, and reaching a znode needs no permission on its parent.
///
/// ```
/// use zebu_client::{Acls, Perms};
///
/// // All rights to whoever this connection has authenticated as, reading to everybody.
/// let acl = Acls::creator().and(Acls::anyone(Perms::READ));
/// assert_eq!(acl.entries().len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acls(Vec<Acl>);

impl Acls {
    /// Grants all permissions to the identities with which the connection has authenticated, see
    /// [`Client::authenticate`](crate::Client::authenticate).
    ///
    /// A create with this ACL fails if the connection has no such identity.
    ///
    /// ```
    /// use zebu_client::{Acls, Perms};
    /// assert_eq!(Acls::creator().entries()[0].perms, Perms::ALL);
    /// ```
    pub fn creator() -> Self {
        Self::to(Perms::ALL, "auth", "")
    }

    /// Grants these permissions to every client.
    ///
    /// ```
    /// use zebu_client::{Acls, Perms};
    /// let acl = Acls::anyone(Perms::READ);
    /// assert_eq!(acl.entries()[0].id.scheme, "world");
    /// ```
    pub fn anyone(perms: Perms) -> Self {
        Self::to(perms, "world", "anyone")
    }

    /// Grants all permissions to every client: any client may read, change and delete the znode,
    /// and lock others out.
    ///
    /// ```
    /// use zebu_client::{Acls, Perms};
    /// assert_eq!(Acls::open_to_all(), Acls::anyone(Perms::ALL));
    /// ```
    pub fn open_to_all() -> Self {
        Self::anyone(Perms::ALL)
    }

    /// Grants these permissions to clients that know the password.
    ///
    /// The ACL contains a hash of name and password. Clients with the permission ADMIN on the znode
    /// see that hash.
    ///
    /// ```
    /// use zebu_client::{Acls, Perms};
    /// let acl = Acls::user("amy", "secret", Perms::READ);
    /// assert_eq!(acl.entries()[0].id.id, "amy:Iq0onHjzb4KyxPAp8YWOIC8zzwY=");
    /// ```
    pub fn user(name: &str, password: &str, perms: Perms) -> Self {
        Self::to(perms, "digest", &digest(name, password))
    }

    /// Grants these permissions to clients at an address, or in a network such as `10.11.12.0/24`.
    ///
    /// ```
    /// use zebu_client::{Acls, Perms};
    /// let acl = Acls::address("10.11.12.0/24", Perms::READ);
    /// assert_eq!(acl.entries()[0].id.scheme, "ip");
    /// ```
    pub fn address(network: &str, perms: Perms) -> Self {
        Self::to(perms, "ip", network)
    }

    /// Grants these permissions to an id of any scheme that the servers know.
    ///
    /// ```
    /// use zebu_client::{Acls, Perms};
    /// let acl = Acls::to(Perms::READ, "sasl", "amy@EXAMPLE.COM");
    /// assert_eq!(acl.entries()[0].id.id, "amy@EXAMPLE.COM");
    /// ```
    pub fn to(perms: Perms, scheme: &str, id: &str) -> Self {
        Self(vec![Acl { perms, id: Id::new(scheme, id) }])
    }

    /// Grants the permissions of both lists.
    ///
    /// ```
    /// use zebu_client::{Acls, Perms};
    /// let acl = Acls::user("amy", "secret", Perms::ALL).and(Acls::user("dom", "secret", Perms::READ));
    /// assert_eq!(acl.entries().len(), 2);
    /// ```
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The entries.
    ///
    /// ```
    /// use zebu_client::{Acls, Perms};
    /// assert_eq!(Acls::anyone(Perms::READ).entries()[0].perms, Perms::READ);
    /// ```
    pub fn entries(&self) -> &[Acl] {
        &self.0
    }
}

/// A list as [`Client::get_acl`](crate::Client::get_acl) returns it.
///
/// ```
/// use zebu_client::{Acls, Perms};
/// let entries = Acls::anyone(Perms::READ).entries().to_vec();
/// assert_eq!(Acls::from(entries), Acls::anyone(Perms::READ));
/// ```
impl From<Vec<Acl>> for Acls {
    fn from(entries: Vec<Acl>) -> Self {
        Self(entries)
    }
}

/// The id of a user in the scheme `digest`, as in an ACL: the name, and a hash of name and
/// password.
///
/// ```
/// assert_eq!(zebu_client::digest("super", "asdf"), "super:T+4Qoey4ZZ8Fnni1Yl2GZtbH2W4=");
/// ```
pub fn digest(name: &str, password: &str) -> String {
    let hash = Sha1::digest(format!("{name}:{password}"));
    format!("{name}:{}", STANDARD.encode(hash))
}
