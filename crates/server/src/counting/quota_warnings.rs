//! Writes beyond a soft quota: one log line for each quota now and then, regardless of the number
//! of writes.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::warn;

/// Minimum time between two lines about writes beyond the same quota.
const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of quotas with separate times; warnings of further quotas are dropped until there
/// is room.
const QUOTAS_MAX: usize = 1024;

/// The time of each quota's last warning.
#[derive(Debug, Default)]
pub struct QuotaWarnings(BTreeMap<String, Duration>);

impl QuotaWarnings {
    /// Logs the warnings that are due. Each warning begins with the path of its quota.
    pub fn tell(&mut self, now: Duration, warnings: &[String]) {
        for warning in warnings {
            if self.is_due(now, warning) {
                warn!("Quota exceeded: {warning}");
            }
        }
    }

    fn is_due(&mut self, now: Duration, warning: &str) -> bool {
        // Exceeding the count and exceeding the bytes get separate warnings.
        let quota = warning.rsplit_once('=').map_or(warning, |(quota, _)| quota);
        let quota = match quota.rsplit_once(" [") {
            Some((path, rest)) => format!("{path} {}", rest.rsplit(' ').next().unwrap_or_default()),
            None => quota.to_owned(),
        };
        if self.0.get(&quota).is_some_and(|told| now < *told + INTERVAL) {
            return false;
        }
        if self.0.len() >= QUOTAS_MAX {
            self.0.retain(|_, told| now < *told + INTERVAL);
        }
        let has_room = self.0.len() < QUOTAS_MAX;
        if has_room {
            self.0.insert(quota, now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quota_is_told_of_once_a_minute() {
        let mut warnings = QuotaWarnings::default();
        let count =
            |path: &str, count: u32| format!("{path} [current count={count}, softCountLimit=3]");
        let at = Duration::from_secs;
        assert!(warnings.is_due(at(5), &count("/a", 4)));
        assert!(!warnings.is_due(at(64), &count("/a", 5)));
        assert!(warnings.is_due(at(64), &count("/b", 4)));
        assert!(warnings.is_due(at(64), "/a [current bytes=11, softByteLimit=10]"));
        assert!(warnings.is_due(at(65), &count("/a", 6)));
    }

    #[test]
    fn many_quotas_do_not_fill_memory_or_log() {
        let mut warnings = QuotaWarnings::default();
        let due = |warnings: &mut QuotaWarnings, second, paths: std::ops::Range<usize>| {
            let now = Duration::from_secs(second);
            paths.filter(|path| warnings.is_due(now, &format!("/{path} [x, y=1]"))).count()
        };
        assert_eq!(due(&mut warnings, 1, 0..2000), QUOTAS_MAX);
        assert_eq!(due(&mut warnings, 61, 1500..1600), 100);
    }
}
