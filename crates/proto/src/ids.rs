//! Typed ids, so that a zxid, a session id and a time cannot be confused.

use std::fmt;

/// A transaction's place in the total order: leader epoch (high 32 bits), then counter (low 32).
///
/// Compared as a signed 64-bit integer, as on the wire. Printed in hex with `0x`, as in every
/// ZooKeeper log; `Debug` prints the same. A standalone server uses epoch 0.
/// Source: `ZxidUtils.java`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

impl Zxid {
    /// Before the first transaction.
    pub const ZERO: Self = Self(0);

    /// The zxid of `counter` in `epoch`.
    pub const fn new(epoch: Epoch, counter: u32) -> Self {
        Self((epoch.0 as i64) << 32 | counter as i64)
    }

    /// The leadership it was issued in.
    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 >> 32) as u32)
    }

    /// Its place within the epoch.
    pub const fn counter(self) -> u32 {
        self.0 as u32
    }

    /// The next zxid of this epoch, or `None` when the counter is spent and a new epoch is due.
    pub fn next(self) -> Option<Self> {
        (self.counter() < u32::MAX).then(|| Self(self.0 + 1))
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

impl fmt::Debug for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Numbers leaderships; grows with every election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The last one that fits into a zxid, which is a signed number.
    pub const MAX: Self = Self(i32::MAX as u32);
}

/// A server of the ensemble: the number in its `myid` file, 1 for a standalone server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub i64);

/// A client session, unique per ensemble; printed in hex with `0x`.
///
/// Layout: server id (8 bits), start time (40 bits), counter (16 bits).
/// Source: `SessionTrackerImpl.initializeNextSessionId`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl SessionId {
    /// No session: a client that wants a new one, or the server acting for itself.
    pub const NONE: Self = Self(0);

    /// The first session id of a server's incarnation.
    ///
    /// `clock_ms` is the server's start clock in milliseconds; 40 bits of it are used. The one id
    /// that means «container» as an ephemeral owner is skipped.
    pub fn first(server: ServerId, clock_ms: i64) -> Self {
        let clock = ((clock_ms << 24) as u64 >> 8) as i64;
        let id = clock | server.0 << 56;
        Self(if id == i64::MIN { id + 1 } else { id })
    }

    /// The id after this one; it may carry into the time bits.
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A request's number on its connection, echoed by the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub i32);

impl Xid {
    /// A notification of the server.
    pub const NOTIFICATION: Self = Self(-1);
    /// A ping and its answer.
    pub const PING: Self = Self(-2);
    /// An authentication packet and its answer.
    pub const AUTH: Self = Self(-4);
    /// Watches set again after a reconnection, by convention.
    pub const SET_WATCHES: Self = Self(-8);
}

/// A data, child or ACL version, as a request names it or a stat shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i32);

impl Version {
    /// In a request: whatever the version is.
    pub const ANY: Self = Self(-1);

    /// Whether a request naming this version may go ahead on a znode at `current`.
    pub fn admits(self, current: i32) -> bool {
        self == Self::ANY || self.0 == current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxid_splits_into_epoch_and_counter() {
        let zxid = Zxid::new(Epoch(5), 7);
        assert_eq!((zxid.epoch(), zxid.counter()), (Epoch(5), 7));
        assert_eq!(zxid.to_string(), "0x500000007");
        assert_eq!(Zxid::new(Epoch(5), u32::MAX).next(), None);
    }

    #[test]
    fn session_ids_start_with_the_server_and_its_clock() {
        // A session of a real standalone server: 0x100001ec8950000, clock 0x1ec895 ms.
        assert_eq!(SessionId::first(ServerId(1), 0x1ec895), SessionId(0x0100_001e_c895_0000));
    }
}
