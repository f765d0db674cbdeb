//! Answers that exceed the limit for answers: an error for the client each time, and a log line now
//! and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::warn;
use zebu_proto::OpCode;

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// The time of the last line.
#[derive(Debug, Default)]
pub struct TooLong(AtomicU64);

impl TooLong {
    /// Logs that a read got an error instead of its answer, unless that was logged a moment ago.
    pub fn say(&self, op: OpCode, now: Duration) {
        if self.is_due(now) {
            warn!(
                "the answer to {op} is too long, so the client gets an error; an answer has at most 64 times \
                 jute.maxbuffer, or 64 MiB if that is more; hint: read fewer children at a time"
            );
        }
    }

    fn is_due(&self, now: Duration) -> bool {
        let due_ms = self.0.load(Ordering::Relaxed);
        let now_ms = now.as_millis() as u64;
        let next_ms = now_ms + PAUSE.as_millis() as u64;
        let order = Ordering::Relaxed;
        now_ms >= due_ms && self.0.compare_exchange(due_ms, next_ms, order, order).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute() {
        let told = TooLong::default();
        let seconds = [0, 1, 59, 60, 61, 130];
        let due = seconds.map(|second| told.is_due(Duration::from_secs(second)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
