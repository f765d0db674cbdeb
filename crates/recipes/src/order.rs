//! The names of a queue's items, and the order in which they are taken. Covers this crate's own
//! names, Curator's and kazoo's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::layout::Layout;
use crate::line;

/// The prefix of the names of Curator's items.
///
/// Source: `DistributedQueue.QUEUE_ITEM_NAME`.
pub(crate) const ITEM: &str = "queue-";

/// The prefix of the names of kazoo's items.
///
/// Source: kazoo's `Queue.prefix` and `LockingQueue.entry`.
const ENTRY: &str = "entry-";

/// Encloses the time or the id in a name.
const SEPARATOR: char = '|';

/// The order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `PPP-NUMBER`, the smallest priority first.
    Own,
    /// Curator's `DistributedQueue`: `queue-NUMBER`.
    Plain,
    /// Curator's `DistributedPriorityQueue`: `queue-SXXXXXXXXNUMBER`.
    Priority,
    /// Curator's `DistributedDelayQueue`: `queue-|TIME|NUMBER`.
    Delay,
    /// Curator's `DistributedIdQueue`: `queue-|ID|NUMBER`.
    Id,
    /// kazoo's `Queue` and `LockingQueue`: `entry-PPP-NUMBER`.
    Kazoo,
}

impl Order {
    /// The items in the order in which they are taken. Names that are not items are left out.
    pub(crate) fn sort(self, names: &[String]) -> Vec<&str> {
        if self == Self::Own {
            return own(names);
        }
        let prefix = if self == Self::Kazoo { ENTRY } else { ITEM };
        let mut items: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| name.starts_with(prefix)).collect();
        match self {
            Self::Own | Self::Plain | Self::Priority | Self::Kazoo => items.sort_unstable(),
            Self::Delay => items.sort_by_key(|name| (self.ready_ms(name), number(name))),
            Self::Id => items.sort_by_key(|name| number(name)),
        }
        items
    }

    /// The time from which an item may be taken, in milliseconds since the Unix epoch.
    ///
    /// Source: `DistributedDelayQueue.getEpoch`.
    pub(crate) fn ready_ms(self, name: &str) -> u64 {
        let time = || u64::from_str_radix(within(name)?, 16).ok();
        if self == Self::Delay { time().unwrap_or(0) } else { 0 }
    }
}

/// Sorts by priority, then by sequence number.
fn own(names: &[String]) -> Vec<&str> {
    let priority = |name: &str| name.get(..3).and_then(|digits| digits.parse::<u8>().ok());
    let mut items: Vec<(u8, &str)> = line::in_order(Layout::Own, names)
        .into_iter()
        .filter_map(|name| Some((priority(name)?, name)))
        .collect();
    items.sort_by_key(|(priority, _)| *priority); // stable: keeps the order within a priority
    items.into_iter().map(|(_, name)| name).collect()
}

/// The text between the last two separators.
pub(crate) fn within(name: &str) -> Option<&str> {
    let (before, _) = name.rsplit_once(SEPARATOR)?;
    Some(before.rsplit_once(SEPARATOR)?.1)
}

/// The sequence number that the server has appended.
fn number(name: &str) -> &str {
    name.rsplit_once(SEPARATOR).map_or(name, |(_, number)| number)
}

/// The name of an item with a priority; lower ones come first.
///
/// Source: `DistributedPriorityQueue.priorityToString`.
pub(crate) fn of_priority(priority: i32) -> String {
    format!("{ITEM}{}{priority:08X}", u8::from(priority >= 0))
}

/// The name of an item of kazoo's with a priority; lower ones come first.
///
/// Source: kazoo's `Queue.put`.
pub(crate) fn of_entry(priority: u16) -> String {
    format!("{ENTRY}{priority:03}-")
}

/// The name of an item that may be taken from this time on.
///
/// Source: `DistributedDelayQueue.epochToString`.
pub(crate) fn of_time(ready_ms: u64) -> String {
    format!("{ITEM}{SEPARATOR}{ready_ms:08X}{SEPARATOR}")
}

/// The name of an item with an id. Slashes and separators in it become underscores.
///
/// Source: `DistributedIdQueue.fixId`.
pub(crate) fn of_id(id: &str) -> String {
    format!("{ITEM}{SEPARATOR}{}{SEPARATOR}", fixed(id))
}

/// An id in the form in which names contain it.
pub(crate) fn fixed(id: &str) -> String {
    id.replace(['/', SEPARATOR], "_")
}

/// Milliseconds since the Unix epoch.
pub(crate) fn since_epoch_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time left until `ready_ms`: at most one hour, because the clock may be adjusted meanwhile.
pub(crate) fn left(ready_ms: u64, now_ms: u64) -> Duration {
    Duration::from_millis(ready_ms.saturating_sub(now_ms)).min(Duration::from_secs(3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(order: Order, names: &str, expected: &str) {
        let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        assert_eq!(order.sort(&names).join(" "), expected);
    }

    #[test]
    fn items_come_out_by_priority_and_then_in_order() {
        check(
            Order::Own,
            "005-0000000002 001-0000000009 note 005-0000000001 255-0000000000",
            "001-0000000009 005-0000000001 005-0000000002 255-0000000000",
        );
    }

    #[test]
    fn items_of_curators_come_out_as_curator_takes_them() {
        check(
            Order::Plain,
            "queue-0000000002 lock queue-0000000001",
            "queue-0000000001 queue-0000000002",
        );
        let named = |priority| format!("{}0000000001", of_priority(priority));
        let names = [i32::MAX, 7, 0, -1, i32::MIN].map(named);
        let sorted: Vec<_> = names.iter().rev().map(String::as_str).collect();
        assert_eq!(Order::Priority.sort(&names), sorted);
        check(
            Order::Delay,
            "queue-|00000010|0000000002 queue-|100000000|0000000000 queue-|00000010|0000000001",
            "queue-|00000010|0000000001 queue-|00000010|0000000002 queue-|100000000|0000000000",
        );
        check(
            Order::Id,
            "queue-|a|0000000002 queue-|b|0000000001",
            "queue-|b|0000000001 queue-|a|0000000002",
        );
    }

    /// Names as kazoo 2.11 creates them.
    #[test]
    fn items_of_kazoos_come_out_as_kazoo_takes_them() {
        check(
            Order::Kazoo,
            "entry-100-0000000000 entry-099-0000000002 note entry-100-0000000001",
            "entry-099-0000000002 entry-100-0000000000 entry-100-0000000001",
        );
        assert_eq!([of_entry(7), of_entry(999)], ["entry-007-", "entry-999-"]);
    }

    /// Names as Curator 5.9 creates them.
    #[test]
    fn names() {
        assert_eq!(of_priority(5), "queue-100000005");
        assert_eq!(of_priority(-1), "queue-0FFFFFFFF");
        assert_eq!(of_time(0x18bc_fe56_87ab), "queue-|18BCFE5687AB|");
        assert_eq!(of_time(1), "queue-|00000001|");
        assert_eq!(of_id("a|b/c"), "queue-|a_b_c|");
        assert_eq!(within("queue-|a_b_c|0000000001"), Some("a_b_c"));
        assert_eq!(within("queue-0000000001"), None);
    }
}
