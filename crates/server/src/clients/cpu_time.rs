//! CPU time: of the whole machine, and of one thread of this process.

use std::time::Duration;

use rustix::thread::gettid;

/// The unit of `/proc/stat`, in milliseconds. Linux shows hundredths of a second to every program,
/// whatever the kernel uses itself.
const TICK_MS: u64 = 10;

/// The name of the calling thread; `None` if the system does not provide it.
pub fn this_thread() -> Option<String> {
    let path = format!("/proc/self/task/{}/schedstat", gettid().as_raw_nonzero());
    thread_time(&path).is_some().then_some(path)
}

/// The total time for which a thread has run.
pub fn thread_time(thread: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(thread).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The total idle time of the machine's processors, summed over all; `None` if the system does not
/// provide it.
pub fn idle_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    idle_ticks(&text).map(|ticks| Duration::from_millis(ticks.saturating_mul(TICK_MS)))
}

/// Idle time, and time spent waiting for a disk.
fn idle_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().skip(3);
    let idle: u64 = fields.next()?.parse().ok()?;
    let waiting: u64 = fields.next()?.parse().ok()?;
    Some(idle + waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_what_nobody_used() {
        let stat = "cpu  347 87 868 2630 17 0 147 15 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(idle_ticks(stat), Some(2647));
        assert_eq!(idle_ticks("cpu  1 2 3"), None);
        assert_eq!(idle_ticks("intr 1 2 3 4 5"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_runs_is_seen_running() {
        let Some(thread) = this_thread() else { return };
        let before = thread_time(&thread).unwrap();
        let until = std::time::Instant::now() + Duration::from_millis(20);
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        // The thread is preempted meanwhile, perhaps most of the time.
        assert!(thread_time(&thread).unwrap() > before);
        assert!(idle_time().is_some());
    }
}
