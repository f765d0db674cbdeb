//! The names of the checks. Each description of a violated property contains one.

/// All names, in the order of the table in `docs/simulation.md`.
pub const NAMES: [&str; 54] = [
    "S-1", "S-2", "S-3", "S-4", "S-5", "S-6", "S-7", "S-8", "S-9", "S-10", "S-11", "S-12", "S-13",
    "P-2", "P-3", "P-4", "P-6", "P-9", "P-10", "P-11", "P-12", "P-13", "R-1", "R-2", "R-3", "B-20",
    "B-22", "B-30", "F2", "F6", "F9", "F13", "PAI-43", "SES-01", "SES-07", "SES-10", "ORD",
    "ORD-01", "ORD-09", "WAT-01", "WAT-14", "WAT-15", "WAT-19", "LIN", "SYNC", "ERR-10", "ANS",
    "ONCE", "limits", "quota", "progress", "liveness", "model", "panic",
];

/// The check that a description of a violated property is from, or `other` for a message that
/// cannot be decoded and the like.
pub fn name_of(what: &str) -> &'static str {
    // The description may begin with the time and with the party.
    let known = |word: &str| NAMES.into_iter().find(|name| *name == word);
    what.lines().next().unwrap_or_default().split(": ").find_map(known).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_behind_time_and_party() {
        assert_eq!(name_of("at 3.120 s: S-8: server 1 comes back"), "S-8");
        assert_eq!(name_of("at 3.120 s: client 2: WAT-14: an answer\nliveness: no"), "WAT-14");
        assert_eq!(name_of("panic: index out of bounds"), "panic");
        assert_eq!(name_of("at 1 s: end of input"), "other");
    }
}
