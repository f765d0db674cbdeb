//! The kinds of znodes that a create can make.

use std::time::Duration;

use zebu_proto::{OpCode, TTL_MS_MAX};

/// The kind of znode that a create makes.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode};
///
/// let acl = Acls::creator();
/// client.create("/queue", "", CreateMode::Container, &acl).await?;
/// let first = client.create("/queue/job-", "", CreateMode::PersistentSequential, &acl).await?;
/// assert_eq!(first.path, "/queue/job-0000000000");
/// let second = client.create("/queue/job-", "", CreateMode::EphemeralSequential, &acl).await?;
/// assert_eq!(second.path, "/queue/job-0000000001");
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreateMode {
    /// The znode stays until a client deletes it.
    Persistent,
    /// As [`CreateMode::Persistent`], with a number of ten digits appended to the name. The number
    /// counts all children that the parent has ever had.
    PersistentSequential,
    /// The znode is deleted when the session ends. It cannot have children.
    Ephemeral,
    /// As [`CreateMode::Ephemeral`], with a number as in [`CreateMode::PersistentSequential`].
    EphemeralSequential,
    /// The servers delete the znode some time after its last child was deleted.
    Container,
    /// The servers delete the znode some time after it has had neither children nor new data for
    /// this time to live. From 1 ms to 2^40 − 1 ms, in whole milliseconds. The configuration of the
    /// servers must allow such znodes.
    Ttl(Duration),
    /// As [`CreateMode::Ttl`], with a number as in [`CreateMode::PersistentSequential`].
    SequentialTtl(Duration),
}

/// The encoding of a mode.
pub(crate) struct Wire {
    pub(crate) op: OpCode,
    pub(crate) flags: i32,
    /// −1 without a time to live.
    pub(crate) ttl_ms: i64,
}

impl CreateMode {
    /// Whether the servers append a number to the name.
    ///
    /// ```
    /// use zebu_client::CreateMode;
    /// assert!(CreateMode::EphemeralSequential.is_sequential());
    /// assert!(!CreateMode::Ephemeral.is_sequential());
    /// ```
    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PersistentSequential | Self::EphemeralSequential | Self::SequentialTtl(_)
        )
    }

    /// Whether the znode is deleted when the session ends.
    ///
    /// ```
    /// use zebu_client::CreateMode;
    /// assert!(CreateMode::EphemeralSequential.is_ephemeral());
    /// assert!(!CreateMode::Container.is_ephemeral());
    /// ```
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// `None` for a time to live that no server accepts.
    pub(crate) fn wire(self) -> Option<Wire> {
        let plain = |flags| Some(Wire { op: OpCode::CREATE2, flags, ttl_ms: -1 });
        let ttl = |flags, ttl: Duration| {
            let ttl_ms = i64::try_from(ttl.as_millis()).ok()?;
            (1..=TTL_MS_MAX).contains(&ttl_ms).then_some(Wire {
                op: OpCode::CREATE_TTL,
                flags,
                ttl_ms,
            })
        };
        match self {
            Self::Persistent => plain(0),
            Self::Ephemeral => plain(1),
            Self::PersistentSequential => plain(2),
            Self::EphemeralSequential => plain(3),
            Self::Container => Some(Wire { op: OpCode::CREATE_CONTAINER, flags: 4, ttl_ms: -1 }),
            Self::Ttl(time) => ttl(5, time),
            Self::SequentialTtl(time) => ttl(6, time),
        }
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::CreateMode as Flags;

    use super::*;

    #[test]
    fn flags_mean_what_the_mode_says() {
        let time = Duration::from_secs(1);
        for mode in [
            CreateMode::Persistent,
            CreateMode::PersistentSequential,
            CreateMode::Ephemeral,
            CreateMode::EphemeralSequential,
            CreateMode::Container,
            CreateMode::Ttl(time),
            CreateMode::SequentialTtl(time),
        ] {
            let wire = mode.wire().unwrap();
            let flags = Flags::from_flags(wire.flags).unwrap();
            assert_eq!(flags.sequential, mode.is_sequential());
            assert_eq!(flags.ephemeral, mode.is_ephemeral());
            assert_eq!(flags.container, mode == CreateMode::Container);
            assert_eq!(flags.ttl, wire.ttl_ms == 1000);
            assert_eq!(flags.ttl, wire.op == OpCode::CREATE_TTL);
        }
    }

    #[test]
    fn a_time_to_live_has_bounds() {
        let wire = |ms| CreateMode::Ttl(Duration::from_millis(ms)).wire().map(|wire| wire.ttl_ms);
        assert_eq!(wire(0), None);
        assert_eq!(wire(1), Some(1));
        assert_eq!(wire((1 << 40) - 1), Some(TTL_MS_MAX));
        assert_eq!(wire(1 << 40), None);
    }
}
