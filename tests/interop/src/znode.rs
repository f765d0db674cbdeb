//! A model of one znode for [`crate::linear`]: it is created, changed under version conditions, and
//! deleted.

use std::collections::{HashMap, HashSet};

use anyhow::Result;

use crate::linear::{self, Call, Operation};

/// Matches every version.
pub const ANY: i32 = -1;

/// Version and value, if the znode exists.
pub type State = Option<(i32, String)>;

/// An operation on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `create` with this value.
    Create(String),
    /// `setData` of this version, or of [`ANY`], with this value.
    Set(i32, String),
    /// `delete` of this version, or of [`ANY`].
    Delete(i32),
    /// `sync` and `getData`.
    Read,
}

/// An outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Version and value.
    Is(i32, String),
    /// Success, with the new version.
    Version(i32),
    /// Success.
    Done,
    /// The znode does not exist.
    NoNode,
    /// The znode exists already.
    Exists,
    /// It has another version.
    BadVersion,
    /// Unknown: the operation was executed or not.
    Unknown,
}

/// An operation and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(pub Ask, pub Answer);

impl Call for Asked {
    type State = State;

    fn after(&self, before: &State) -> Option<State> {
        let fits = |asked: i32, version: i32| asked == ANY || asked == version;
        match (&self.0, &self.1, before) {
            (Ask::Read, Answer::Is(version, value), Some((at, of))) => {
                (version == at && value == of).then(|| before.clone())
            }
            (Ask::Create(value), Answer::Done | Answer::Unknown, None) => {
                Some(Some((0, value.clone())))
            }
            (Ask::Create(_), Answer::Exists, Some(_)) => Some(before.clone()),
            (Ask::Set(asked, value), answer, Some((at, _))) if fits(*asked, *at) => {
                let done = [Answer::Version(at + 1), Answer::Unknown].contains(answer);
                done.then(|| Some((at + 1, value.clone())))
            }
            (Ask::Delete(asked), Answer::Done | Answer::Unknown, Some((at, _))) => {
                fits(*asked, *at).then_some(None)
            }
            (Ask::Set(asked, _) | Ask::Delete(asked), Answer::BadVersion, Some((at, _))) => {
                (!fits(*asked, *at)).then(|| before.clone())
            }
            (Ask::Set(..) | Ask::Delete(_) | Ask::Read, Answer::NoNode, None) => Some(None),
            _ => None,
        }
    }

    /// Versions only grow, by one with each change, until the znode is deleted.
    fn can_follow(&self, state: &State, between: &[&Self]) -> bool {
        let needed = match &self.1 {
            Answer::Is(version, _) => *version,
            Answer::Version(version) => *version - 1,
            _ => return true,
        };
        let is_deletion = |asked: &&Self| matches!(asked.0, Ask::Delete(_));
        let Some((at, _)) = state else { return true };
        if between.iter().any(is_deletion) {
            return true;
        }
        let changes = between.iter().filter(|asked| matches!(asked.0, Ask::Set(..))).count();
        *at <= needed && usize::try_from(needed - at).is_ok_and(|more| more <= changes)
    }

    fn stands_for(&self, other: &Self) -> bool {
        let is_unknown = [&self.1, &other.1].iter().all(|answer| **answer == Answer::Unknown);
        self == other
            || is_unknown
                && match (&self.0, &other.0) {
                    (Ask::Set(ANY, value), Ask::Set(_, other)) => value == other,
                    (Ask::Delete(ANY), Ask::Delete(_)) => true,
                    _ => false,
                }
    }
}

/// Checks the history of a znode that does not exist at first. Returns the number of configurations
/// examined.
///
/// Every value must be written only once. Then a read tells which version a change without an
/// answer made, and values that nobody has read need not be distinguished. Without either, the
/// search would be too large.
///
/// # Errors
/// As for [`linear::check`].
pub fn check(history: &[Operation<Asked>]) -> Result<usize> {
    let mut read: HashMap<&str, HashSet<i32>> = HashMap::new();
    for operation in history {
        if let Answer::Is(version, value) = &operation.call.1 {
            read.entry(value).or_default().insert(*version);
        }
    }
    let told = |operation: &Operation<Asked>| {
        let mut operation = operation.clone();
        let Asked(ask, answer) = &mut operation.call;
        if let Ask::Create(value) | Ask::Set(_, value) = ask {
            match read.get(value.as_str()) {
                None => value.clear(),
                // An impossible version contradicts the read itself.
                Some(versions) if matches!(ask, Ask::Set(..)) && *answer == Answer::Unknown => {
                    if let Some(version) = versions.iter().next() {
                        *answer = Answer::Version(*version);
                    }
                }
                Some(_) => {}
            }
        }
        operation
    };
    linear::check(&None, &history.iter().map(told).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A correct client, and many changes without answers, some of which happened.
    #[test]
    fn many_changes_without_answer_are_decided() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let mut history = Vec::new();
        let mut tell = |began: u64, ended: Option<u64>, ask: Ask, answer: Answer| {
            let call = Asked(ask, answer);
            history.push(Operation { began: at(began), ended: ended.map(at), call });
        };
        tell(0, Some(1), Ask::Create("first".to_owned()), Answer::Done);
        for count in 0..60 {
            tell(2, None, Ask::Set(ANY, format!("lost-{count}")), Answer::Unknown);
            tell(2, None, Ask::Set(count, format!("old-{count}")), Answer::Unknown);
        }
        let mut version = 0;
        for count in 0..20_i32 {
            let now = 10 * u64::try_from(count + 1).unwrap();
            // One unknown change, two changes that nobody has read, and one with an answer.
            let name = format!("lost-{}", 59 - count);
            tell(now, Some(now + 1), Ask::Read, Answer::Is(version + 1, name));
            version += 4;
            let set = Ask::Set(ANY, format!("mine-{count}"));
            tell(now + 2, Some(now + 3), set, Answer::Version(version));
        }
        check(&history).unwrap();
        // An impossible number of versions.
        let read = Ask::Read;
        let call = Asked(read, Answer::Is(version + 200, "mine-19".to_owned()));
        history.push(Operation { began: at(900), ended: Some(at(901)), call });
        let error = check(&history).unwrap_err().to_string();
        assert!(error.contains("not linearizable"), "{error}");
    }

    #[test]
    fn a_znode_comes_changes_and_goes() {
        let x = |version| Some((version, "x".to_owned()));
        let (make, set) = (Ask::Create("x".to_owned()), |v| Ask::Set(v, "x".to_owned()));
        let is = |version| Answer::Is(version, "x".to_owned());
        for (before, ask, answer, after) in [
            (None, make.clone(), Answer::Done, Some(x(0))),
            (None, make.clone(), Answer::Exists, None),
            (x(3), make.clone(), Answer::Exists, Some(x(3))),
            (x(3), make.clone(), Answer::Done, None),
            (x(3), make, Answer::Unknown, None),
            (x(3), set(ANY), Answer::Version(4), Some(x(4))),
            (x(3), set(3), Answer::Version(4), Some(x(4))),
            (x(3), set(3), Answer::Version(5), None),
            (x(3), set(2), Answer::Version(4), None),
            (x(3), set(2), Answer::BadVersion, Some(x(3))),
            (x(3), set(3), Answer::BadVersion, None),
            (x(3), set(ANY), Answer::BadVersion, None),
            (x(3), set(3), Answer::Unknown, Some(x(4))),
            (x(3), set(2), Answer::Unknown, None),
            (None, set(3), Answer::NoNode, Some(None)),
            (x(3), set(3), Answer::NoNode, None),
            (x(3), Ask::Delete(ANY), Answer::Done, Some(None)),
            (x(3), Ask::Delete(2), Answer::Done, None),
            (x(3), Ask::Delete(2), Answer::BadVersion, Some(x(3))),
            (x(3), Ask::Delete(3), Answer::Unknown, Some(None)),
            (None, Ask::Delete(3), Answer::NoNode, Some(None)),
            (x(3), Ask::Read, is(3), Some(x(3))),
            (x(3), Ask::Read, is(2), None),
            (x(3), Ask::Read, Answer::Is(3, "y".to_owned()), None),
            (x(3), Ask::Read, Answer::NoNode, None),
            (None, Ask::Read, Answer::NoNode, Some(None)),
            (None, Ask::Read, is(0), None),
        ] {
            let asked = Asked(ask, answer);
            assert_eq!(asked.after(&before), after, "{asked:?} of {before:?}");
        }
    }
}
