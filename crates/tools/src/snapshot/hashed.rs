//! The order in which Java's hash tables list their entries.
//!
//! The original's tools print children and sessions in that order, so the output of both tools has
//! the same lines in the same places. Source: `java.util.HashMap`.

/// The order in which a Java hash table with `keys`, inserted in this order, returns them: as their
/// positions.
///
/// `buckets`: the initial number of buckets. It doubles when the table is three quarters full.
pub(super) fn order<T>(keys: &[T], hash: impl Fn(&T) -> u32, mut buckets: usize) -> Vec<usize> {
    while keys.len() > buckets / 4 * 3 {
        buckets *= 2;
    }
    let bucket = |key: &T| {
        let hash = hash(key);
        (hash ^ (hash >> 16)) as usize & (buckets - 1)
    };
    let mut order: Vec<usize> = (0..keys.len()).collect();
    // A stable sort: entries of one bucket stay in the order of their insertion.
    order.sort_by_key(|at| bucket(&keys[*at]));
    order
}

/// The hash of a Java string, from its UTF-16 units.
pub(super) fn of_text(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

/// The hash of a `long`.
pub(super) fn of_long(value: i64) -> u32 {
    (value ^ (value >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of `new HashSet<>(8)` with these strings in a JVM.
    #[test]
    fn strings_come_in_javas_order() {
        assert_eq!(of_text("hello"), 99_162_322);
        assert_eq!(of_text("ключ"), 33_309_882);
        let names = [
            "n-0000000000",
            "n-0000000001",
            "n-0000000002",
            "n-0000000003",
            "bare",
            "a",
            "b",
            "zz",
        ];
        let order = order(&names, |name| of_text(name), 8);
        let named: Vec<&str> = order.into_iter().map(|at| names[at]).collect();
        assert_eq!(
            named,
            [
                "zz",
                "a",
                "b",
                "n-0000000000",
                "n-0000000002",
                "n-0000000001",
                "n-0000000003",
                "bare"
            ]
        );
    }

    #[test]
    fn numbers_come_in_javas_order() {
        let sessions = [0x0100_001a_3980_0000_i64, 0x0100_001a_3980_0001, 0x0100_001a_45ac_0000];
        assert_eq!(order(&sessions, |id| of_long(*id), 16), [2, 0, 1]);
    }
}
