//! Arithmetic for measured figures: medians, spreads, ratios, and numbers formatted for people.
//!
//! The terminal output of `zebu bench` and the pages made from it both use this crate, so they show
//! the same numbers. It knows no server and no file.

/// The median, minimum and maximum of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median. For an even number of values, the mean of the two middle ones.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Number of values.
    pub count: usize,
}

impl Spread {
    /// The spread of values in any order; `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Self { median, least, most, count: values.len() })
    }
}

/// The median of values in any order; `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    Spread::of(values.iter().copied()).map(|of| of.median)
}

/// The chance that the median of what was sampled lies below the interval, and that it lies above.
const MISSED: f64 = 0.025;

/// An interval that contains the median of what was sampled with a chance of at least 95 %,
/// whatever its distribution: two of the values. `None` with fewer than six values.
///
/// # Panics
/// There are more than a thousand values.
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    assert!(
        count <= 1000,
        "more values than this arithmetic can tell from infinitely many: {count}"
    );
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    // Each value is below the median with a chance of a half, so the number of those below it is
    // binomial.
    let mut chance = 0.5_f64.powi(count as i32);
    let (mut missed, mut interval) = (0.0, None);
    for below in 0..count / 2 {
        missed += chance;
        if missed > MISSED {
            break;
        }
        interval = Some((values[below], values[count - 1 - below]));
        chance *= (count - below) as f64 / (below + 1) as f64;
    }
    interval
}

/// For each round with values of both servers: how many times better the first server is.
#[must_use]
pub fn times_better(
    is_more_better: bool,
    first: &[Option<f64>],
    other: &[Option<f64>],
) -> Vec<f64> {
    let pairs = first.iter().zip(other).filter_map(|(first, other)| first.zip(*other));
    let ratio = |(first, other)| match is_more_better {
        true => first / other,
        false => other / first,
    };
    pairs.map(ratio).filter(|ratio: &f64| ratio.is_finite()).collect()
}

/// A number with three significant digits; digits before the point are never dropped: `1,234,567`,
/// `12.3`, `0.0012`.
#[must_use]
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    if magnitude < 100.0 {
        let decimals = match magnitude {
            m if m >= 10.0 => 1,
            m if m >= 1.0 => 2,
            m if m >= 0.01 => 3,
            0.0 => 0,
            _ => 5,
        };
        return format!("{value:.decimals$}");
    }
    let digits = format!("{magnitude:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value < 0.0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let cases = [
            (0.0, "0"),
            (0.0012, "0.00120"),
            (0.25, "0.250"),
            (2.34567, "2.35"),
            (99.94, "99.9"),
            (123.4, "123"),
            (-4_321.0, "-4,321"),
            (1_234_567.0, "1,234,567"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn medians_of_even_and_odd_numbers_of_rounds() {
        assert_eq!(median(&[3.0, 1.0, 9.0]), Some(3.0));
        let even = Spread::of([4.0, 1.0, 2.0, 9.0]).unwrap();
        assert_eq!((even.median, even.least, even.most, even.count), (3.0, 1.0, 9.0, 4));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn the_interval_of_a_median_leaves_out_as_many_values_at_both_ends() {
        let values: Vec<f64> = (1..=40).rev().map(f64::from).collect();
        // From tables of the binomial distribution with p = 1/2.
        for (count, expected) in [
            (5, None),
            (6, Some((1.0, 6.0))),
            (10, Some((2.0, 9.0))),
            (20, Some((6.0, 15.0))),
            (40, Some((14.0, 27.0))),
        ] {
            assert_eq!(median_interval(&values[40 - count..]), expected, "{count}");
        }
        assert!(median_interval(&[1.0; 1000]).is_some());
    }

    #[test]
    fn ratios_are_above_one_where_the_first_is_better() {
        let (first, other) =
            ([Some(8.0), None, Some(6.0), Some(1.0)], [Some(2.0), Some(1.0), Some(3.0), Some(0.0)]);
        assert_eq!(times_better(true, &first, &other), [4.0, 2.0]);
        assert_eq!(times_better(false, &other, &first), [4.0, 2.0]);
    }
}
