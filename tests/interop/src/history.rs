//! Whether what was seen of one znode can have happened in one order.
//!
//! Every write names the version it replaces, so the versions give the only order there can be: the
//! history is linearizable if and only if that order does not contradict what was over before
//! something else began.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};

/// What somebody did, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// Read this version with this value.
    Read(i32, String),
    /// Made this version with this value.
    Wrote(i32, String),
    /// Tried to make this version with this value, and does not know what came of it.
    Tried(i32, String),
    /// Was told that there is another version than this one.
    Refused(i32),
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Before it was sent.
    pub began: Instant,
    /// After its answer; for one that was never answered it means nothing.
    pub ended: Instant,
    /// What it was.
    pub did: Did,
}

/// Checks the history of a znode that was made once, as version 0 with the value `first`.
///
/// # Errors
/// It is not linearizable.
pub fn check(first: &str, history: &[Operation]) -> Result<()> {
    let mut values: BTreeMap<i32, &str> = BTreeMap::from([(0, first)]);
    // When each version can have come into being at the earliest.
    let mut made: BTreeMap<i32, Instant> = BTreeMap::new();
    for operation in history {
        if let Did::Wrote(version, value) = &operation.did {
            let before = values.insert(*version, value);
            ensure!(before.is_none(), "version {version} was written twice: {before:?}, {value}");
            made.insert(*version, operation.began);
        }
    }
    let mut tried: BTreeMap<(i32, &str), Instant> = BTreeMap::new();
    for operation in history {
        if let Did::Tried(version, value) = &operation.did {
            tried.insert((*version, value), operation.began);
        }
    }
    for operation in history {
        let Did::Read(version, value) = &operation.did else { continue };
        if !values.contains_key(version) {
            let began = tried.get(&(*version, value.as_str()));
            ensure!(began.is_some(), "version {version} has {value:?}, which nobody wrote");
            values.insert(*version, value);
            made.extend(began.map(|began| (*version, *began)));
        }
        let known = values[version];
        ensure!(known == value, "version {version} is {known:?} and {value:?}");
    }
    let mut ends: Vec<&Operation> = history.iter().collect();
    ends.sort_by_key(|operation| operation.ended);
    let mut starts: Vec<&Operation> = history.iter().collect();
    starts.sort_by_key(|operation| operation.began);
    // The newest version that was there when an operation began.
    let mut over = ends.into_iter().peekable();
    let mut newest = 0;
    for operation in starts {
        while let Some(before) = over.next_if(|before| before.ended < operation.began) {
            newest = newest.max(match &before.did {
                Did::Read(version, _) | Did::Wrote(version, _) => *version,
                Did::Refused(version) => *version + 1,
                Did::Tried(..) => 0,
            });
        }
        match &operation.did {
            Did::Read(version, _) => {
                ensure!(*version >= newest, "version {version} read after {newest} was known");
                let made = made.get(version).copied();
                ensure!(made <= Some(operation.ended), "version {version} read before it was made");
            }
            Did::Wrote(version, _) => {
                ensure!(*version > newest, "version {version} made after {newest} was known");
            }
            // Whoever is refused knew the version from a read, so it can only have been replaced.
            Did::Refused(_) | Did::Tried(..) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn history(of: &[(u64, u64, Did)]) -> Vec<Operation> {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let operation = |(began, ended, did): &(u64, u64, Did)| Operation {
            began: at(*began),
            ended: at(*ended),
            did: did.clone(),
        };
        of.iter().map(operation).collect()
    }

    fn read(version: i32, value: &str) -> Did {
        Did::Read(version, value.to_owned())
    }

    fn wrote(version: i32, value: &str) -> Did {
        Did::Wrote(version, value.to_owned())
    }

    #[test]
    fn what_overlaps_may_have_happened_in_either_order() {
        let good = [(0, 9, wrote(1, "a")), (1, 2, read(0, "")), (3, 8, read(1, "a"))];
        check("", &history(&good)).unwrap();
    }

    #[test]
    fn a_write_without_answer_may_have_happened() {
        let tried = Did::Tried(1, "a".to_owned());
        let good = [(0, 1, tried.clone()), (5, 6, read(0, "")), (7, 8, read(1, "a"))];
        check("", &history(&good)).unwrap();
        check("", &history(&[(5, 6, tried), (1, 2, read(1, "a"))])).unwrap_err();
    }

    #[test]
    fn a_stale_read_is_found() {
        let bad = [(0, 1, wrote(1, "a")), (2, 3, read(0, ""))];
        check("", &history(&bad)).unwrap_err();
        let bad = [(0, 1, Did::Refused(0)), (2, 3, read(0, ""))];
        check("", &history(&bad)).unwrap_err();
    }

    #[test]
    fn a_lost_write_is_found() {
        let bad = [(0, 1, wrote(1, "a")), (2, 3, wrote(1, "b"))];
        check("", &history(&bad)).unwrap_err();
        let bad = [(0, 1, wrote(1, "a")), (2, 3, read(1, "b"))];
        check("", &history(&bad)).unwrap_err();
    }
}
