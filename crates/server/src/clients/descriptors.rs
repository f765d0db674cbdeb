//! File descriptors: the limit of this process, and how many it uses.
//!
//! Connections may not use all of them, because the log and the snapshots need some.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for files, listeners and runtimes.
const RESERVED: u64 = 64;

/// The directory with one entry for each descriptor.
const DESCRIPTORS: &str = "/proc/self/fd";

/// The maximum number of descriptors; `None` if unlimited.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The maximum number of connections that leaves enough descriptors for everything else; `None` if
/// unlimited.
pub fn connections_max() -> Option<u32> {
    limit().map(|limit| u32::try_from(share(limit)).unwrap_or(u32::MAX))
}

/// The share of `limit` descriptors for connections: nearly all, and at least half.
fn share(limit: u64) -> u64 {
    limit.saturating_sub(RESERVED).max(limit / 2)
}

/// The number of used descriptors, if the system provides it.
///
/// Since Linux 6.2 it is the size of their directory. Older systems only list them, which takes
/// milliseconds of a server with many connections.
pub fn open() -> Option<u64> {
    let size = std::fs::metadata(DESCRIPTORS).ok()?.len();
    if size > 0 { Some(size) } else { listed() }
}

/// The number of descriptors in the list, which has one of its own.
fn listed() -> Option<u64> {
    let count = std::fs::read_dir(DESCRIPTORS).ok()?.count() as u64;
    Some(count.saturating_sub(1))
}

/// Raises the soft limit of this process to its hard limit, as a JVM does.
///
/// # Errors
/// The system refuses.
pub fn raise() -> std::io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return Ok(());
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_some_to_files() {
        assert_eq!([20, 100, 1024].map(share), [10, 50, 960]);
    }

    #[test]
    fn this_process_has_some() {
        let limit = limit().unwrap_or(u64::MAX);
        assert!(open().is_none_or(|open| 0 < open && open <= limit));
    }

    #[test]
    fn a_thousand_more_are_counted_either_way() {
        const MORE: u64 = 1_000;
        let _ = raise();
        let Some(before) = open() else { return };
        let held: Vec<_> = (0..MORE).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        // Other tests of this process open and close some files meanwhile.
        for now in [open(), listed()] {
            let more = now.unwrap().saturating_sub(before);
            assert!(MORE.abs_diff(more) < MORE / 2, "{more}");
        }
        drop(held);
    }
}
