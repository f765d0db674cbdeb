//! Positions in a line of sequential znodes, and the predecessor that each contender waits for.

use crate::faults;
use crate::layout::{Layout, Seat};

/// Whether a place in a line is exclusive or shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Excludes all others.
    Exclusive,
    /// Compatible with others of this kind.
    Shared,
}

impl Kind {
    /// The prefix of its znode's name, after the prefix of a protected create.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Exclusive => "x-",
            Self::Shared => "s-",
        }
    }
}

/// The state of a place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn<'a> {
    /// It is its turn.
    Now,
    /// It waits for this predecessor.
    After(&'a str),
    /// It is no longer in the line.
    Missing,
}

/// Determines whether it is a place's turn. That is so for the first place, and for every shared
/// place without an exclusive one before it.
///
/// A waiting place watches exactly one other: the last one that blocks it. So a place that leaves
/// wakes only those directly behind it. Names that are not places are ignored.
pub(crate) fn turn<'a>(layout: Layout, names: &'a [String], mine: &str) -> Turn<'a> {
    let Some(Seat { kind, number }) = layout.seat(mine) else { return Turn::Missing };
    if !names.iter().any(|name| name == mine) {
        return Turn::Missing;
    }
    let is_sharing = kind == Kind::Shared;
    if is_sharing && faults::reads_beside_writers() {
        return Turn::Now;
    }
    let before = names.iter().filter_map(|name| {
        let other = layout.seat(name)?;
        let ahead = number.wrapping_sub(other.number);
        let is_in_the_way = ahead > 0 && !(is_sharing && other.kind == Kind::Shared);
        is_in_the_way.then_some((ahead, name))
    });
    before.min().map_or(Turn::Now, |(_, name)| Turn::After(name))
}

/// The places in order; other names are left out.
pub(crate) fn in_order(layout: Layout, names: &[String]) -> Vec<&str> {
    let mut places: Vec<(i32, &str)> =
        names.iter().filter_map(|name| Some((layout.seat(name)?.number, name.as_str()))).collect();
    if let Some((first, _)) = places.first().copied() {
        places.sort_by_key(|(place, _)| place.wrapping_sub(first));
    }
    places.into_iter().map(|(_, name)| name).collect()
}

/// The number that the server appended to a name that ends in a dash.
///
/// Numbers go up to 2,147,483,647 and continue with −2,147,483,648, so they are compared by
/// distance, not by value. They have ten characters including the sign; only the lowest numbers
/// have eleven.
pub(crate) fn sequence(name: &str) -> Option<i32> {
    let dash = |count| name.get(name.len().checked_sub(count)?..)?.strip_prefix('-');
    let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
    dash(12)
        .filter(|text| text.starts_with('-'))
        .and_then(number)
        .or_else(|| dash(11).and_then(number))
}

/// The contender of another library, which orders its line differently: a name that ends in a
/// number of the server's, but is not a place of this recipe. `None` if there is none.
///
/// The C client's recipe names places `x-SESSION-NUMBER` and orders them by number, like this one.
pub(crate) fn foreign(names: &[String]) -> Option<&str> {
    let is_foreign = |name: &&String| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let named = name.strip_prefix("_c_").and_then(|rest| {
            // In names of other libraries, the id contains dashes.
            ["-x-", "-s-"].iter().find_map(|kind| Some(&rest[rest.find(kind)? + 1..]))
        });
        let named = named.unwrap_or(name);
        let is_ours = named.starts_with("x-") || named.starts_with("s-");
        digits >= 9 && !(is_ours && sequence(name).is_some())
    };
    names.iter().find(is_foreign).map(String::as_str)
}

/// The kind of a place, from its name. Unknown kinds count as exclusive.
pub(crate) fn kind(name: &str) -> Kind {
    let named = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let named = named.strip_suffix("--").map_or(named, |cut| &named[..cut.len() + 1]);
    if named == "s-" || (named.starts_with("_c_") && named.ends_with("-s-")) {
        Kind::Shared
    } else {
        Kind::Exclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `line`: the names, separated by blanks. `expected`: for each name, the name that it waits
    /// for.
    fn check(line: &str, expected: &str) {
        let names: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let turns: Vec<&str> = names
            .iter()
            .map(|mine| match turn(Layout::Own, &names, mine) {
                Turn::Now => "now",
                Turn::After(name) => name,
                Turn::Missing => "missing",
            })
            .collect();
        assert_eq!(turns.join(" "), expected, "{line}");
    }

    #[test]
    fn exclusive_places_wait_for_the_one_before() {
        check("x-0000000007", "now");
        check("x-0000000009 x-0000000007 x-0000000008", "x-0000000008 now x-0000000007");
    }

    /// RCP-04: shared holders coexist; an exclusive one waits for all before it, watching only the
    /// last.
    #[test]
    fn shared_places_wait_for_the_last_exclusive_one() {
        check(
            "s-0000000001 s-0000000002 x-0000000003 s-0000000004 s-0000000005 x-0000000006",
            "now now s-0000000002 x-0000000003 x-0000000003 s-0000000005",
        );
    }

    #[test]
    fn protection_changes_neither_order_nor_kind() {
        check(
            "_c_0b-x-0000000002 _c_ff-s-0000000001 _c_aa-s-0000000000",
            "_c_ff-s-0000000001 now now",
        );
        // A name that only looks like it.
        assert_eq!(kind("locks-0000000001"), Kind::Exclusive);
    }

    #[test]
    fn whoever_is_not_in_line_is_missing_and_strangers_are_passed_over() {
        let names = ["readme".to_owned(), "x-0000000003".to_owned()];
        assert_eq!(turn(Layout::Own, &names, "x-0000000003"), Turn::Now);
        assert_eq!(turn(Layout::Own, &names, "x-0000000002"), Turn::Missing);
        assert_eq!(turn(Layout::Own, &names, "readme"), Turn::Missing);
    }

    /// ERA-23: after the highest number comes the lowest.
    #[test]
    fn the_line_goes_on_behind_the_highest_number() {
        check(
            "x-2147483647 x--2147483648 x--2147483647 x--000000005",
            "now x-2147483647 x--2147483648 x--2147483647",
        );
        assert_eq!(sequence("x--2147483648"), Some(i32::MIN));
        assert_eq!(sequence("x--000000005"), Some(-5));
        assert_eq!(sequence("x-0000000005"), Some(5));
        assert_eq!(sequence("x-00000005"), None);
        assert_eq!(sequence("x-+000000005"), None);
        assert_eq!(kind("s--000000005"), Kind::Shared);
        assert_eq!(kind("_c_1-s--2147483648"), Kind::Shared);
    }

    /// Contenders of Curator's mutex and its locks for readers and writers, and of kazoo's.
    #[test]
    fn contenders_of_other_libraries_are_found() {
        for name in [
            "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa-lock-0000000004",
            "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa-__READ__0000000004",
            "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa-__WRIT__0000000004",
            "cdd6ea2c8b0e4a7d9b34b0a7a1c0f7d2__lock__0000000004",
            "cdd6ea2c8b0e4a7d9b34b0a7a1c0f7d2__rlock__0000000004",
            "n_0000000004",
            "__lock__-000000005",
        ] {
            let names = ["x-0000000001".to_owned(), name.to_owned()];
            assert_eq!(foreign(&names), Some(name));
        }
        let ours = [
            "x-0000000001",
            "_c_0b-x-0000000002",
            "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa-s--000000004",
            "x-16f0a0b0c-0000000003",
            "s--2147483648",
            "readme",
            "release-7",
        ];
        assert_eq!(foreign(&ours.map(str::to_owned)), None);
    }

    #[test]
    fn a_line_in_order() {
        let names = ["x--2147483648", "s-2147483647", "other", "x-2147483646"].map(str::to_owned);
        assert_eq!(
            in_order(Layout::Own, &names),
            ["x-2147483646", "s-2147483647", "x--2147483648"]
        );
    }
}
