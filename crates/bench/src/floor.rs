//! The speed of this machine without any server: durable writes, round trips, streams. No server
//! can be faster, so the difference is the cost of a server.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

/// The number of timed writes and round trips.
const TIMES: u64 = 200;
/// The time limit, for slow disks.
const LIMIT: Duration = Duration::from_secs(5);
/// Bytes of each small write.
const WRITE_BYTES: usize = 4096;
/// Bytes of a timed request and of its reply: about those of a setData of 100 bytes.
const MESSAGE_BYTES: usize = 150;
/// Bytes of each write of a stream.
const BLOCK_BYTES: usize = 1 << 20;

/// The median time of a write and `fdatasync` in `dir`, into a file with allocated blocks.
pub(crate) fn sync_latency(dir: &Path) -> anyhow::Result<Duration> {
    let file = file_in(dir)?;
    let block = [7; WRITE_BYTES];
    for index in 0..TIMES {
        file.write_all_at(&block, index * WRITE_BYTES as u64)?;
    }
    file.sync_all()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    for index in 0..TIMES {
        let start = Instant::now();
        file.write_all_at(&block, index * WRITE_BYTES as u64)?;
        file.sync_data()?;
        times.push(start.elapsed());
        if begin.elapsed() > LIMIT {
            break;
        }
    }
    Ok(median(times))
}

/// The rate in bytes per second at which a new file of `bytes` bytes in `dir` is written
/// sequentially and synced.
pub(crate) fn disk_stream(dir: &Path, bytes: u64) -> anyhow::Result<f64> {
    let mut file = file_in(dir)?;
    let block = vec![7; BLOCK_BYTES];
    let start = Instant::now();
    let mut left = bytes;
    while left > 0 {
        let part = left.min(BLOCK_BYTES as u64);
        file.write_all(&block[..part as usize])?;
        left -= part;
    }
    file.sync_data()?;
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

/// The median round-trip time of a small message over loopback, between two threads that block.
pub(crate) fn round_trip() -> anyhow::Result<Duration> {
    let (mut near, mut far) = loopback()?;
    let echo = thread::spawn(move || -> std::io::Result<()> {
        let mut message = [0; MESSAGE_BYTES];
        for _ in 0..TIMES {
            far.read_exact(&mut message)?;
            far.write_all(&message)?;
        }
        Ok(())
    });
    let mut message = [7; MESSAGE_BYTES];
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        near.write_all(&message)?;
        near.read_exact(&mut message)?;
        times.push(start.elapsed());
    }
    echo.join().map_err(|_| anyhow!("the echo panicked"))??;
    Ok(median(times))
}

/// The rate in bytes per second of one loopback connection that carries `bytes` bytes.
pub(crate) fn loopback_stream(bytes: u64) -> anyhow::Result<f64> {
    let (mut near, far) = loopback()?;
    let start = Instant::now();
    let sink = thread::spawn(move || {
        let mut far = far.take(bytes);
        let mut buffer = vec![0; BLOCK_BYTES];
        while far.read(&mut buffer)? > 0 {}
        std::io::Result::Ok(())
    });
    let block = vec![7; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(BLOCK_BYTES as u64);
        near.write_all(&block[..part as usize])?;
        left -= part;
    }
    sink.join().map_err(|_| anyhow!("the receiver panicked"))??;
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

fn file_in(dir: &Path) -> anyhow::Result<File> {
    tempfile::tempfile_in(dir).with_context(|| format!("make a file in {}", dir.display()))
}

fn loopback() -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_floor_can_be_measured() {
        let dir = tempfile::tempdir().unwrap();
        assert!(sync_latency(dir.path()).unwrap() > Duration::ZERO);
        assert!(disk_stream(dir.path(), 3_000_001).unwrap() > 0.0);
        assert!(round_trip().unwrap() > Duration::ZERO);
        assert!(loopback_stream(3_000_001).unwrap() > 0.0);
    }
}
