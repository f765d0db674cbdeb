//! Clients that list the children of one znode at fixed intervals, each on its own thread.
//!
//! They give way to everybody: their threads have the lowest priority, and they do not decode the
//! names. So the others wait for the server, and not for the clients that list.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::client::Client;

/// The longest sleep, after which a client looks whether the measurement is over.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// The lists of one client.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// The number of children in all lists.
    pub(crate) children: usize,
    /// From the first request until the last answer, or until the next request would have followed.
    pub(crate) time: Duration,
    /// From each request to the end of its answer.
    pub(crate) each: Vec<Duration>,
}

impl Lists {
    /// Their share of the children that are listed per second.
    pub(crate) fn children_per_second(&self) -> f64 {
        self.children as f64 / self.time.as_secs_f64()
    }
}

/// Lists the `count` children of `path` once in each interval, until `is_over`. A list that takes
/// longer delays the next ones, and none is left out.
pub(crate) fn list(
    mut client: Client,
    path: &str,
    count: usize,
    interval: Duration,
    is_over: &AtomicBool,
) -> anyhow::Result<Lists> {
    give_way()?;
    let mut lists = Lists::default();
    let begin = Instant::now();
    let mut due = begin;
    while !is_over.load(Ordering::Relaxed) {
        let rest = due.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            thread::sleep(rest.min(SLEEP_MAX));
            continue;
        }
        let asked = Instant::now();
        let listed = client.count_children(path)?;
        ensure!(listed == count, "{path} has {count} children, and {listed} are listed");
        lists.each.push(asked.elapsed());
        lists.children += listed;
        due += interval;
    }
    lists.time = begin.elapsed().max(due - begin);
    client.close()?;
    Ok(lists)
}

/// Lets all other threads run before the calling one.
#[cfg(target_os = "linux")]
fn give_way() -> anyhow::Result<()> {
    // On Linux, this is the calling thread's alone.
    rustix::process::nice(19)?;
    Ok(())
}

/// The priority is that of the whole process here.
#[cfg(not(target_os = "linux"))]
fn give_way() -> anyhow::Result<()> {
    Ok(())
}
