//! Who stands where in a line of sequential znodes, and who has to wait for whom.

/// What a place in a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Not together with anybody.
    Exclusive,
    /// Together with others of this kind.
    Shared,
}

impl Kind {
    /// What the name of its znode begins with, behind the prefix of a protected create.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Exclusive => "x-",
            Self::Shared => "s-",
        }
    }
}

/// Whether it is somebody's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn<'a> {
    /// It is.
    Now,
    /// Not before this one has left.
    After(&'a str),
    /// It stands in no line any more.
    Missing,
}

/// Whose turn it is: that of the first, and of all who share and have nobody exclusive before them.
///
/// Whoever has to wait waits for exactly one other, the last one that is in the way. So one that leaves wakes
/// those who stand right behind it, and nobody else. Names that are no places are passed over.
pub(crate) fn turn<'a>(names: &'a [String], mine: &str) -> Turn<'a> {
    let Some(place) = sequence(mine) else { return Turn::Missing };
    if !names.iter().any(|name| name == mine) {
        return Turn::Missing;
    }
    let is_sharing = kind(mine) == Kind::Shared;
    let before = names.iter().filter_map(|name| {
        let ahead = place.wrapping_sub(sequence(name)?);
        let is_in_the_way = ahead > 0 && !(is_sharing && kind(name) == Kind::Shared);
        is_in_the_way.then_some((ahead, name))
    });
    before.min().map_or(Turn::Now, |(_, name)| Turn::After(name))
}

/// Places in order; what is no place is left out.
pub(crate) fn in_order(names: &[String]) -> Vec<&str> {
    let mut places: Vec<(i32, &str)> =
        names.iter().filter_map(|name| Some((sequence(name)?, name.as_str()))).collect();
    if let Some((first, _)) = places.first().copied() {
        places.sort_by_key(|(place, _)| place.wrapping_sub(first));
    }
    places.into_iter().map(|(_, name)| name).collect()
}

/// The number that the server put at the end of a name that ends in a dash.
///
/// It counts up to 2,147,483,647 and goes on with −2,147,483,648, so numbers are compared by their distance,
/// never by their size. It has ten characters, the sign included; only the lowest numbers have eleven.
pub(crate) fn sequence(name: &str) -> Option<i32> {
    let dash = |count| name.get(name.len().checked_sub(count)?..)?.strip_prefix('-');
    let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
    dash(12)
        .filter(|text| text.starts_with('-'))
        .and_then(number)
        .or_else(|| dash(11).and_then(number))
}

/// What a place is for: its name, without number and protection, says so. Places of unknown kinds are taken
/// for exclusive.
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

    /// The line is a text of names; the answer is whom each of them waits for.
    fn check(line: &str, expected: &str) {
        let names: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let turns: Vec<&str> = names
            .iter()
            .map(|mine| match turn(&names, mine) {
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

    /// RCP-04: shared holders coexist; an exclusive one waits for all before it, watching only the last.
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
        assert_eq!(turn(&names, "x-0000000003"), Turn::Now);
        assert_eq!(turn(&names, "x-0000000002"), Turn::Missing);
        assert_eq!(turn(&names, "readme"), Turn::Missing);
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

    #[test]
    fn a_line_in_order() {
        let names = ["x--2147483648", "s-2147483647", "other", "x-2147483646"].map(str::to_owned);
        assert_eq!(in_order(&names), ["x-2147483646", "s-2147483647", "x--2147483648"]);
    }
}
