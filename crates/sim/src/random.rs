//! The only source of chance: a small generator that a seed decides.

use std::time::Duration;

/// A stream of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// One of the streams of a seed; streams do not disturb each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        random.next();
        random
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`; 0 when that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in so many times; never for 0.
    pub fn one_in(&mut self, chance: u64) -> bool {
        chance > 0 && self.below(chance) == 0
    }

    /// A time between so many milliseconds, in microseconds' steps.
    pub fn ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low * 1000, high * 1000))
    }

    /// One of several.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len() as u64) as usize]
    }
}
