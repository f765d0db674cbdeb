//! The kinds of znode, and how the stored `ephemeralOwner` tells them apart.

use crate::SessionId;

/// The owner value of a container.
pub const CONTAINER_OWNER: i64 = i64::MIN;

/// Longest time to live, in milliseconds: 2^40 − 1.
pub const TTL_MS_MAX: i64 = (1 << 40) - 1;

const TTL_MARK: i64 = 0xff << 56;

/// The kind of a znode, from its stored `ephemeralOwner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No owner: it stays until it is deleted.
    Persistent,
    /// Owned by a session: deleted when the session ends.
    Session(SessionId),
    /// A container: deleted after its last child.
    Container,
    /// A TTL znode: deleted when it has no children and was not changed for this many milliseconds.
    Ttl(i64),
}

/// Which of the extended kinds this server recognises.
///
/// Source: `EphemeralType`, properties `zookeeper.extendedTypesEnabled` and
/// `zookeeper.emulate353TTLNodes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedTypes {
    /// TTL znodes exist.
    pub enabled: bool,
    /// Owners in the layout of 3.5.3 are TTL znodes too.
    pub emulate_353: bool,
}

impl Owner {
    /// Reads a stored owner.
    pub fn decode(stored: i64, types: ExtendedTypes) -> Self {
        if stored == 0 {
            return Self::Persistent;
        }
        if stored == CONTAINER_OWNER {
            return Self::Container;
        }
        if types.enabled {
            if types.emulate_353 && stored < 0 {
                return Self::Ttl(stored & ((1 << 60) - 1));
            }
            if stored & TTL_MARK == TTL_MARK {
                return Self::Ttl(stored & TTL_MS_MAX);
            }
        }
        Self::Session(SessionId(stored))
    }

    /// The stored form.
    pub fn encode(self) -> i64 {
        match self {
            Self::Persistent => 0,
            Self::Session(session) => session.0,
            Self::Container => CONTAINER_OWNER,
            Self::Ttl(ttl_ms) => TTL_MARK | ttl_ms & TTL_MS_MAX,
        }
    }
}

/// The kind of znode that a create asks for.
/// Source: `CreateMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateMode {
    /// Owned by the session.
    pub ephemeral: bool,
    /// The name gets the parent's counter appended.
    pub sequential: bool,
    /// A container.
    pub container: bool,
    /// With a time to live.
    pub ttl: bool,
}

impl CreateMode {
    /// The mode behind a request's flags, or `None` for flags that mean nothing.
    pub fn from_flags(flags: i32) -> Option<Self> {
        let mode = |ephemeral, sequential, container, ttl| {
            Some(Self { ephemeral, sequential, container, ttl })
        };
        match flags {
            0 => mode(false, false, false, false),
            1 => mode(true, false, false, false),
            2 => mode(false, true, false, false),
            3 => mode(true, true, false, false),
            4 => mode(false, false, true, false),
            5 => mode(false, false, false, true),
            6 => mode(false, true, false, true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: ExtendedTypes = ExtendedTypes { enabled: true, emulate_353: false };

    #[test]
    fn stored_owners_of_the_original() {
        // Owners found in a snapshot of the original: a container, the longest TTL, a session.
        assert_eq!(Owner::decode(i64::MIN, ON), Owner::Container);
        assert_eq!(Owner::decode(0xff00_00ff_ffff_ffff_u64 as i64, ON), Owner::Ttl(TTL_MS_MAX));
        assert_eq!(Owner::Ttl(TTL_MS_MAX).encode(), 0xff00_00ff_ffff_ffff_u64 as i64);
        let session = 0x0100_001a_3980_0000;
        assert_eq!(Owner::decode(session, ON), Owner::Session(SessionId(session)));
    }

    #[test]
    fn without_extended_types_a_ttl_owner_reads_as_a_session() {
        let stored = Owner::Ttl(5).encode();
        let off = ExtendedTypes::default();
        assert_eq!(Owner::decode(stored, off), Owner::Session(SessionId(stored)));
    }
}
