//! Limits the rate of new connections: a token bucket, optionally with random early drop.
//! Source: `BlueThrottle`; properties `zookeeper.connection_throttle_*`. Requests of admitted
//! connections are limited by `intake`.

use std::time::Duration;

use crate::io::Now;
use zebu_zab::random::Random;

/// Options of the connection throttle.
#[derive(Clone, Debug)]
pub struct ThrottleOptions {
    /// Size of the bucket, in new sessions; 0 disables the throttle.
    pub tokens: u32,
    /// How often tokens are added.
    pub fill_time: Duration,
    /// Tokens added each time, in new sessions.
    pub fill_count: u32,
    /// Time between changes of the drop probability; `None` disables random drop.
    pub freeze_time: Option<Duration>,
    /// Increase of the drop probability when the bucket is empty.
    pub drop_increase: f64,
    /// Decrease of the drop probability when the bucket is nearly full.
    pub drop_decrease: f64,
    /// Fraction of the bucket that may be missing when it counts as nearly full.
    pub decrease_ratio: f64,
    /// Whether costs depend on the kind of connection. Bucket and filling are still given in new
    /// sessions.
    pub weighted: bool,
    /// Tokens for a new session, if weighted.
    pub new_session_weight: u32,
    /// Tokens for a new local session, if weighted; as for other new sessions unless set.
    pub local_session_weight: Option<u32>,
    /// Tokens for a renewed session, if weighted.
    pub renew_session_weight: u32,
}

impl Default for ThrottleOptions {
    fn default() -> Self {
        Self {
            tokens: 0,
            fill_time: Duration::from_millis(1),
            fill_count: 1,
            freeze_time: None,
            drop_increase: 0.02,
            drop_decrease: 0.002,
            decrease_ratio: 0.0,
            weighted: false,
            new_session_weight: 3,
            local_session_weight: None,
            renew_session_weight: 2,
        }
    }
}

/// The bucket. Invariant: `tokens <= size`.
#[derive(Debug)]
pub(crate) struct ConnectionThrottle {
    options: ThrottleOptions,
    /// Tokens of a full bucket.
    size: u32,
    /// Tokens added each time.
    fill_count: u32,
    tokens: u32,
    filled: Duration,
    drop: f64,
    frozen: Duration,
    random: Random,
}

impl ConnectionThrottle {
    pub(crate) fn new(options: ThrottleOptions, seed: u64, now: Now) -> Self {
        // The configured sizes are in new sessions, whatever those cost.
        let unit = if options.weighted { options.new_session_weight } else { 1 };
        let size = options.tokens.saturating_mul(unit);
        Self {
            size,
            fill_count: options.fill_count.saturating_mul(unit),
            tokens: size,
            filled: now.monotonic,
            drop: 0.0,
            frozen: now.monotonic,
            random: Random::new(seed ^ 0x7407_71e5),
            options,
        }
    }

    pub(crate) fn drop_probability(&self) -> f64 {
        self.drop
    }

    /// Tokens missing from a full bucket.
    pub(crate) fn deficit(&self) -> u32 {
        assert!(self.tokens <= self.size, "{} of {} tokens", self.tokens, self.size);
        self.size - self.tokens
    }

    /// Whether a connection is admitted. Takes its tokens if so.
    pub(crate) fn admit(&mut self, new_session: bool, now: Now) -> bool {
        if self.size == 0 {
            return true;
        }
        self.fill(now);
        let cost = match (self.options.weighted, new_session) {
            (false, _) => 1,
            (true, true) => {
                self.options.local_session_weight.unwrap_or(self.options.new_session_weight)
            }
            (true, false) => self.options.renew_session_weight,
        };
        if self.options.freeze_time.is_some() {
            self.adjust(now);
            if self.random.chance(self.drop) {
                return false;
            }
        }
        match self.tokens.checked_sub(cost) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Adds the tokens for the time since the last filling, if that exceeds a period; cannot
    /// overflow (ZOOKEEPER-4933).
    fn fill(&mut self, now: Now) {
        let period = self.options.fill_time.max(Duration::from_millis(1));
        let passed = now.monotonic - self.filled;
        if passed <= period {
            return;
        }
        let added = passed.as_millis() * u128::from(self.fill_count) / period.as_millis();
        self.tokens =
            u32::try_from(added).unwrap_or(u32::MAX).saturating_add(self.tokens).min(self.size);
        assert!(self.tokens <= self.size, "{} of {} tokens", self.tokens, self.size);
        assert!(self.filled < now.monotonic, "the bucket was filled in a time to come");
        self.filled = now.monotonic;
    }

    fn adjust(&mut self, now: Now) {
        let Some(freeze) = self.options.freeze_time else { return };
        if now.monotonic <= self.frozen + freeze {
            return;
        }
        self.frozen = now.monotonic;
        let may_miss = (f64::from(self.size) * self.options.decrease_ratio).round();
        if self.tokens == 0 {
            self.drop = (self.drop + self.options.drop_increase).min(1.0);
        } else if f64::from(self.deficit()) <= may_miss {
            self.drop = (self.drop - self.options.drop_decrease).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { monotonic: Duration::from_millis(ms), wall_ms: 0 }
    }

    #[test]
    fn an_empty_bucket_lets_nobody_in_until_it_fills() {
        let options = ThrottleOptions {
            tokens: 2,
            fill_time: Duration::from_millis(100),
            ..ThrottleOptions::default()
        };
        let mut throttle = ConnectionThrottle::new(options, 1, at(0));
        let admitted = [0, 0, 0, 100, 101, 101].map(|ms| throttle.admit(true, at(ms)));
        assert_eq!(admitted, [true, true, false, false, true, false]);
        assert_eq!(throttle.deficit(), 2);
    }

    #[test]
    fn a_filling_is_worth_all_the_time_that_passed() {
        let options = ThrottleOptions {
            tokens: 100,
            fill_time: Duration::from_millis(100),
            fill_count: 10,
            ..ThrottleOptions::default()
        };
        let mut throttle = ConnectionThrottle::new(options, 1, at(0));
        (0..100).for_each(|_| assert!(throttle.admit(true, at(0))));
        // One and a half periods.
        let admitted = (0..20).filter(|_| throttle.admit(true, at(150))).count();
        assert_eq!(admitted, 15);
    }

    #[test]
    fn a_long_pause_does_not_overflow_the_bucket() {
        let options = ThrottleOptions {
            tokens: u32::MAX,
            fill_count: u32::MAX,
            ..ThrottleOptions::default()
        };
        let mut throttle = ConnectionThrottle::new(options, 1, at(0));
        assert!(throttle.admit(true, at(u64::MAX / 2_000_000)));
        assert!(throttle.admit(true, at(u64::MAX / 1_500_000)));
    }

    #[test]
    fn kinds_of_session_cost_differently_when_weighted() {
        let options = ThrottleOptions {
            tokens: 2,
            weighted: true,
            fill_time: Duration::from_millis(1000),
            ..ThrottleOptions::default()
        };
        // Two new sessions of three tokens each, or three renewed ones of two.
        let mut throttle = ConnectionThrottle::new(options.clone(), 1, at(0));
        let admitted = [true, true, false, false].map(|new| throttle.admit(new, at(0)));
        assert_eq!(admitted, [true, true, false, false]);
        // Local ones are cheaper, in a bucket of the same size.
        let local = ThrottleOptions { local_session_weight: Some(1), ..options.clone() };
        let mut locals = ConnectionThrottle::new(local, 1, at(0));
        assert_eq!((0..10).filter(|_| locals.admit(true, at(0))).count(), 6);
        // A filling is worth one new session.
        let admitted = [false, false, true].map(|new| throttle.admit(new, at(1001)));
        assert_eq!(admitted, [true, false, false]);
    }

    #[test]
    fn an_empty_bucket_raises_the_chance_of_being_dropped_and_a_full_one_lowers_it() {
        let options = ThrottleOptions {
            tokens: 10,
            fill_time: Duration::from_millis(1000),
            fill_count: 8,
            freeze_time: Some(Duration::from_millis(10)),
            drop_increase: 0.75,
            drop_decrease: 0.5,
            decrease_ratio: 0.2,
            ..ThrottleOptions::default()
        };
        let mut throttle = ConnectionThrottle::new(options, 1, at(0));
        (0..10).for_each(|_| assert!(throttle.admit(true, at(0))));
        let mut chance = |ms| {
            throttle.admit(true, at(ms));
            throttle.drop_probability()
        };
        assert_eq!([chance(10), chance(11), chance(21), chance(22)], [0.0, 0.75, 0.75, 1.0]);
        // Eight of ten tokens are back: two may be missing.
        assert_eq!([chance(1022), chance(1032)], [0.5, 0.5]);
    }
}
