//! The disk's own speed: how long one small durable write takes without any server.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

/// Writes timed.
const WRITES: u64 = 200;
/// No longer than this, however slow the disk.
const LIMIT: Duration = Duration::from_secs(5);
/// Bytes of each write.
const WRITE_BYTES: usize = 4096;

/// The median time of a write and `fdatasync` into a file whose space is there already, in `dir`.
pub(crate) fn sync_latency(dir: &Path) -> anyhow::Result<Duration> {
    let file: File =
        tempfile::tempfile_in(dir).with_context(|| format!("make a file in {}", dir.display()))?;
    let block = [7; WRITE_BYTES];
    for index in 0..WRITES {
        file.write_all_at(&block, index * WRITE_BYTES as u64)?;
    }
    file.sync_all()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    for index in 0..WRITES {
        let start = Instant::now();
        file.write_all_at(&block, index * WRITE_BYTES as u64)?;
        file.sync_data()?;
        times.push(start.elapsed());
        if begin.elapsed() > LIMIT {
            break;
        }
    }
    times.sort();
    Ok(times[times.len() / 2])
}
