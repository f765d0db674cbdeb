//! How fast connections are let in: a bucket of tokens, optionally with random early drop.
//!
//! Source: `BlueThrottle`; properties `zookeeper.connection_throttle_*`.

use std::time::Duration;

use crate::random::Random;
use crate::replica::Now;

/// The connection throttle's settings.
#[derive(Clone, Debug)]
pub struct ThrottleOptions {
    /// Size of the bucket; 0 switches the throttle off.
    pub tokens: u32,
    /// How often tokens are added.
    pub fill_time: Duration,
    /// How many are added each time.
    pub fill_count: u32,
    /// How long the drop probability stays as it is; `None` switches random drop off.
    pub freeze_time: Option<Duration>,
    /// What an empty bucket adds to the drop probability.
    pub drop_increase: f64,
    /// What a full enough bucket takes from it.
    pub drop_decrease: f64,
    /// Which share of the bucket counts as full enough.
    pub decrease_ratio: f64,
    /// Whether connections cost by kind.
    pub weighted: bool,
    /// What a new session costs then.
    pub new_session_weight: u32,
    /// What a renewed session costs then.
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
            renew_session_weight: 2,
        }
    }
}

/// The bucket. Invariant: `tokens <= options.tokens`.
#[derive(Debug)]
pub(crate) struct ConnectionThrottle {
    options: ThrottleOptions,
    tokens: u32,
    filled: Duration,
    drop: f64,
    frozen: Duration,
    random: Random,
}

impl ConnectionThrottle {
    pub(crate) fn new(options: ThrottleOptions, seed: u64, now: Now) -> Self {
        Self {
            tokens: options.tokens,
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

    /// Whether a connection is let in; it pays for that.
    pub(crate) fn admit(&mut self, new_session: bool, now: Now) -> bool {
        if self.options.tokens == 0 {
            return true;
        }
        self.fill(now);
        let cost = match (self.options.weighted, new_session) {
            (false, _) => 1,
            (true, true) => self.options.new_session_weight,
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

    /// Adds what the time since the last filling is worth; nothing can overflow (ZOOKEEPER-4933).
    fn fill(&mut self, now: Now) {
        let period = self.options.fill_time.max(Duration::from_millis(1));
        let periods = (now.monotonic - self.filled).as_nanos() / period.as_nanos();
        if periods == 0 {
            return;
        }
        let added = u64::try_from(periods)
            .unwrap_or(u64::MAX)
            .saturating_mul(self.options.fill_count.into());
        self.tokens = u32::try_from(added)
            .unwrap_or(u32::MAX)
            .saturating_add(self.tokens)
            .min(self.options.tokens);
        self.filled = now.monotonic;
    }

    fn adjust(&mut self, now: Now) {
        let Some(freeze) = self.options.freeze_time else { return };
        if now.monotonic < self.frozen + freeze {
            return;
        }
        let full_enough = f64::from(self.options.tokens) * self.options.decrease_ratio;
        if self.tokens == 0 {
            self.drop = (self.drop + self.options.drop_increase).min(1.0);
            self.frozen = now.monotonic;
        } else if f64::from(self.tokens) > full_enough {
            self.drop = (self.drop - self.options.drop_decrease).max(0.0);
            self.frozen = now.monotonic;
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
        let admitted = [0, 0, 0, 50, 100].map(|ms| throttle.admit(true, at(ms)));
        assert_eq!(admitted, [true, true, false, false, true]);
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
            tokens: 5,
            weighted: true,
            fill_time: Duration::from_secs(1000),
            ..ThrottleOptions::default()
        };
        let mut throttle = ConnectionThrottle::new(options, 1, at(0));
        assert!(throttle.admit(true, at(0)));
        assert!(throttle.admit(false, at(0)));
        assert!(!throttle.admit(false, at(0)));
    }
}
