//! Permissions, ids and access control lists.

use std::borrow::Cow;
use std::fmt;

/// A set of permissions; unknown bits are kept.
///
/// Source: `ZooDefs.Perms`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Perms(pub i32);

zebu_jute::number!(Perms: i32);

impl Perms {
    /// Read data and list children.
    pub const READ: Self = Self(1);
    /// Set data.
    pub const WRITE: Self = Self(2);
    /// Create children.
    pub const CREATE: Self = Self(4);
    /// Delete children.
    pub const DELETE: Self = Self(8);
    /// Set the ACL.
    pub const ADMIN: Self = Self(16);
    /// All five.
    pub const ALL: Self = Self(31);

    /// Whether any permission of `wanted` is in this set.
    pub fn intersects(self, wanted: Self) -> bool {
        self.0 & wanted.0 != 0
    }

    /// Both sets together.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, letter) in [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')] {
            if self.0 & bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// An identity: an authentication scheme and an id in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// The scheme, such as `world`, `digest` or `ip`.
    pub scheme: String,
    /// The id, in the scheme's own form.
    pub id: String,
}

impl Id {
    /// The id of `scheme` and `id`.
    pub fn new(scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Self { scheme: scheme.into(), id: id.into() }
    }
}

/// One entry of an access control list as it is stored: nothing in it is null.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acl {
    /// The permissions.
    pub perms: Perms,
    /// The identity that has them.
    pub id: Id,
}

impl Acl {
    /// Full permissions for everybody: the ACL of a znode with the open ACL.
    pub fn open() -> Vec<Self> {
        vec![Self { perms: Perms::ALL, id: Id::new("world", "anyone") }]
    }

    /// Read permission for everybody.
    pub fn read_only() -> Vec<Self> {
        vec![Self { perms: Perms::READ, id: Id::new("world", "anyone") }]
    }
}

impl zebu_jute::Encode for Acl {
    fn encode(&self, out: &mut zebu_jute::Encoder<'_>) {
        out.int(self.perms.0);
        out.text(&self.id.scheme);
        out.text(&self.id.id);
    }
}

zebu_jute::record! {
    /// One entry of an access control list as a request or a file has it.
    AclRef<'a> {
        /// The permissions.
        perms: Perms,
        /// The scheme; null is refused when a request is validated.
        scheme: Option<Cow<'a, str>>,
        /// The id.
        id: Option<Cow<'a, str>>,
    }
}

impl AclRef<'_> {
    /// The stored form; a null becomes the empty string.
    pub fn to_owned(&self) -> Acl {
        let own = |text: &Option<Cow<'_, str>>| text.as_deref().unwrap_or_default().to_owned();
        Acl { perms: self.perms, id: Id { scheme: own(&self.scheme), id: own(&self.id) } }
    }
}

impl<'a> From<&'a Acl> for AclRef<'a> {
    fn from(acl: &'a Acl) -> Self {
        Self {
            perms: acl.perms,
            scheme: Some(Cow::Borrowed(&acl.id.scheme)),
            id: Some(Cow::Borrowed(&acl.id.id)),
        }
    }
}

zebu_jute::record! {
    /// One credential of a connection, as `whoAmI` shows it.
    ClientInfo<'a> {
        /// The scheme.
        auth_scheme: Cow<'a, str>,
        /// The user's name, without secrets.
        user: Cow<'a, str>,
    }
}
