//! Random choices determined by a seed.

use std::time::Duration;

/// A small generator (splitmix64). Not for secrets.
///
/// The tests' crate has the same generator. That crate is not published, and the published crates
/// below this one have the protocols only.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from 0 up to, not including, `end`; 0 when `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// A time from zero to `longest`, in whole milliseconds.
    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(self.below(longest + 1))
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = self.below(end as u64 + 1) as usize;
            items.swap(end, other);
        }
    }
}
