//! What one znode does, for [`crate::linear`]: it comes, changes by versions, and goes.

use crate::linear::Call;

/// Any version will do.
pub const ANY: i32 = -1;

/// Version and value, if it is there.
pub type State = Option<(i32, String)>;

/// What is asked of it.
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

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Version and value.
    Is(i32, String),
    /// Done, and the version is this one now.
    Version(i32),
    /// Done.
    Done,
    /// There is no such znode.
    NoNode,
    /// There is one already.
    Exists,
    /// It has another version.
    BadVersion,
    /// Nothing: perhaps it was done, perhaps not.
    Unknown,
}

/// Both.
#[derive(Clone, Debug)]
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
