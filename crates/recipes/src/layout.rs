//! The names of the znodes in a waiting line: this crate's own, Curator's and kazoo's.

use crate::line::{self, Kind};

/// The naming scheme of a waiting line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `x-` and `s-`, as in the original's description of the recipe.
    Own,
    /// Curator's `InterProcessMutex`: all contenders are exclusive.
    Mutex,
    /// Curator's `InterProcessReadWriteLock`.
    ReadWrite,
    /// Curator's `LeaderLatch`: all contenders are exclusive.
    Latch,
    /// kazoo's `Lock`, `WriteLock` and `Election`, and its `ReadLock`.
    Kazoo,
}

const KAZOO: &str = "__lock__";
const KAZOO_READ: &str = "__rlock__";
const MUTEX: &str = "lock-";
const LATCH: &str = "latch-";
const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";

/// A place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) kind: Kind,
    pub(crate) number: i32,
}

impl Layout {
    /// The beginning of a place's name, after the prefix of a protected create.
    pub(crate) fn prefix(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Own, kind) => kind.prefix(),
            (Self::Mutex, _) => MUTEX,
            (Self::Latch, _) => LATCH,
            (Self::ReadWrite, Kind::Exclusive) => WRITE,
            (Self::ReadWrite, Kind::Shared) => READ,
            (Self::Kazoo, Kind::Exclusive) => KAZOO,
            (Self::Kazoo, Kind::Shared) => KAZOO_READ,
        }
    }

    /// Parses a name; `None` if it is not a place of this layout.
    ///
    /// Source: `StandardLockInternalsDriver.standardFixForSorting`: the number is the text after
    /// the last occurrence of the prefix.
    pub(crate) fn seat(self, name: &str) -> Option<Seat> {
        let behind = |word: &str, kind| {
            let (_, digits) = name.rsplit_once(word)?;
            Some(Seat { kind, number: number(digits)? })
        };
        match self {
            Self::Own => Some(Seat { kind: line::kind(name), number: line::sequence(name)? }),
            Self::Mutex => behind(MUTEX, Kind::Exclusive),
            Self::Latch => behind(LATCH, Kind::Exclusive),
            Self::ReadWrite => {
                behind(WRITE, Kind::Exclusive).or_else(|| behind(READ, Kind::Shared))
            }
            Self::Kazoo => {
                behind(KAZOO, Kind::Exclusive).or_else(|| behind(KAZOO_READ, Kind::Shared))
            }
        }
    }

    /// The data that another process writes into a holder's znode to ask for the lock. `None` if
    /// the request consists of writing the holder's own data again.
    ///
    /// Source: `LockInternals.REVOKE_MESSAGE`.
    pub(crate) fn request(self) -> Option<&'static [u8]> {
        match self {
            Self::Own | Self::Kazoo => None,
            Self::Mutex | Self::ReadWrite | Self::Latch => Some(b"__REVOKE__"),
        }
    }

    /// A contender of a lock that orders its line differently, if there is one.
    pub(crate) fn foreign(self, names: &[String]) -> Option<&str> {
        match self {
            Self::Own => line::foreign(names),
            Self::Mutex | Self::ReadWrite | Self::Latch | Self::Kazoo => names
                .iter()
                .map(String::as_str)
                .find(|name| self.seat(name).is_none() && ends_in_number(name)),
        }
    }
}

/// Whether the name ends in a sequence number of the server.
fn ends_in_number(name: &str) -> bool {
    name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len() >= 9
}

/// The server's sequence number: ten characters including the sign. Only the lowest numbers have
/// eleven.
fn number(digits: &str) -> Option<i32> {
    let is_of_server = matches!(digits.len(), 10 | 11) && !digits.starts_with('+');
    digits.parse().ok().filter(|_| is_of_server)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(layout: Layout, name: &str, expected: Option<(Kind, i32)>) {
        let expected = expected.map(|(kind, number)| Seat { kind, number });
        assert_eq!(layout.seat(name), expected, "{name}");
    }

    /// Names as Curator 5.9 creates them.
    #[test]
    fn curators_places_are_read() {
        let id = "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa";
        let (mutex, both) = (Layout::Mutex, Layout::ReadWrite);
        check(mutex, &format!("{id}-lock-0000000004"), Some((Kind::Exclusive, 4)));
        check(mutex, "lock-0000000004", Some((Kind::Exclusive, 4)));
        check(mutex, &format!("{id}-lock--2147483648"), Some((Kind::Exclusive, i32::MIN)));
        check(Layout::Latch, &format!("{id}-latch-0000000004"), Some((Kind::Exclusive, 4)));
        check(mutex, &format!("{id}-latch-0000000004"), None);
        check(mutex, &format!("{id}-x-0000000004"), None);
        check(mutex, "lock-4", None);
        check(mutex, "lock-+000000004", None);
        check(both, &format!("{id}-__READ__0000000004"), Some((Kind::Shared, 4)));
        check(both, &format!("{id}-__WRIT__0000000004"), Some((Kind::Exclusive, 4)));
        check(both, &format!("{id}-lock-0000000004"), None);
    }

    /// Names as kazoo 2.11 creates them.
    #[test]
    fn kazoos_places_are_read() {
        let id = "0b4f8f1e5f0c4a539d6e54b6d1a5d3aa";
        let kazoo = Layout::Kazoo;
        check(kazoo, &format!("{id}__lock__0000000004"), Some((Kind::Exclusive, 4)));
        check(kazoo, &format!("{id}__rlock__0000000004"), Some((Kind::Shared, 4)));
        check(kazoo, &format!("{id}-lock-0000000004"), None);
        check(kazoo, "lease_holder", None);
    }

    #[test]
    fn contenders_of_other_layouts_are_found() {
        let names = ["readme", "_c_0b-lock-0000000001", "_c_0b-x-0000000002"].map(str::to_owned);
        assert_eq!(Layout::Mutex.foreign(&names), Some("_c_0b-x-0000000002"));
        assert_eq!(Layout::ReadWrite.foreign(&names), Some("_c_0b-lock-0000000001"));
        assert_eq!(Layout::Kazoo.foreign(&names), Some("_c_0b-lock-0000000001"));
        assert_eq!(Layout::Own.foreign(&names), Some("_c_0b-lock-0000000001"));
    }
}
