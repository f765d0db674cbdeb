//! Warnings that this server did not read the sockets of its clients for a time.

use std::time::Duration;

use tracing::warn;

/// Minimum interval between two warnings that this server did not read its sockets.
const SILENCE_SAID_EVERY: Duration = Duration::from_secs(5);

/// Collects the times in which this server did not read its clients' sockets, for one warning in
/// several seconds.
#[derive(Debug, Default)]
pub(super) struct Silences {
    untold: Duration,
    said: Option<Duration>,
}

impl Silences {
    /// Adds such a time. Logs a warning if one is due.
    pub(super) fn add(&mut self, time: Duration, now: Duration) {
        if let Some(time) = self.due(time, now) {
            warn!("this server did not listen to its clients for {} ms", time.as_millis());
        }
    }

    /// The time to report now: the sum since the last warning.
    fn due(&mut self, time: Duration, now: Duration) -> Option<Duration> {
        self.untold += time;
        if self.said.is_some_and(|said| now < said + SILENCE_SAID_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_that_lasts_is_told_now_and_then_and_as_a_whole() {
        let ms = Duration::from_millis;
        let mut silences = Silences::default();
        assert_eq!(silences.due(ms(200), ms(10_000)), Some(ms(200)));
        let mut told = |at| silences.due(ms(200), ms(10_000 + at));
        let times: Vec<_> = (1..=25_u64).map(|tick| told(tick * 200)).collect();
        assert!(times[..24].iter().all(Option::is_none), "{times:?}");
        assert_eq!(times[24], Some(ms(5_000)));
    }
}
