//! The operating system's figures about a process: memory, CPU time, open files.
//!
//! They come from `/proc`; other systems have no such figures.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A process that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// Resident memory, in bytes.
    pub(crate) fn rss(self) -> Option<u64> {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.0)).ok()?;
        let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }

    /// The peak of the resident memory, in bytes.
    pub(crate) fn rss_peak(self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }

    /// The bytes that it has had written to a disk so far.
    pub(crate) fn written(self) -> Option<u64> {
        self.io("write_bytes:")
    }

    /// The bytes that a disk has read for it so far.
    pub(crate) fn read(self) -> Option<u64> {
        self.io("read_bytes:")
    }

    fn io(self, name: &str) -> Option<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.0)).ok()?;
        io.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    }

    /// CPU time used so far by all threads, in user and kernel mode.
    pub(crate) fn cpu(self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let ticks = cpu_ticks(&stat)?;
        let per_second = rustix::param::clock_ticks_per_second();
        Some(Duration::from_nanos(ticks * (1_000_000_000 / per_second)))
    }
}

/// User and system time from a line of `/proc/PID/stat`.
fn cpu_ticks(stat: &str) -> Option<u64> {
    // The second field is the command's name in parentheses, and may contain anything.
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Raises this process's limit of open files as far as possible, and returns it. Servers that start
/// later inherit it.
pub(crate) fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            return limit.maximum.unwrap_or(u64::MAX);
        }
    }
    limit.current.unwrap_or(u64::MAX)
}

/// The average number of threads that ran, or waited for a core or a disk, in the last minute.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// A description of the machine.
pub(crate) fn machine() -> serde_json::Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    serde_json::json!({
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": field(&read("/proc/cpuinfo"), "model name"),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 12 0 100";
        assert_eq!(cpu_ticks(stat), Some(100));
        assert_eq!(cpu_ticks("42 (a"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_a_peak() {
        let this = Process(std::process::id());
        let (rss, peak) = (this.rss().unwrap(), this.rss_peak().unwrap());
        assert!(this.written().is_some() && this.read().is_some());
        assert!(0 < rss);
        assert!(rss <= peak + (64 << 20));
        assert!(this.cpu().is_some());
    }
}
