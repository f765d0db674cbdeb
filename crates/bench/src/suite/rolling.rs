//! A rolling restart under write load: each server, also the leader, is asked to stop and started
//! again.
//!
//! Every writer keeps its session: when its connection ends, it renews the session at the next
//! server.
//!
//! The load is an open loop: writes are due at equal intervals, whatever the servers do. A delayed
//! writer makes up for the delay, and the time of a write counts from the time when it was due.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::client::Client;
use crate::ensemble::{Ensemble, MEMBERS};
use crate::suite::ROOT;
use crate::wire::{self, SessionKey, op};

/// Writers for each server.
const WRITERS: usize = 4;
/// Sessions of all writers.
pub(crate) const SESSIONS: usize = WRITERS * MEMBERS;
/// Writes per second, of all writers together.
const RATE: u32 = 4_000;
/// The time limit for an answer, before a writer goes to the next server.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before the next attempt at servers that have refused.
const RETRY: Duration = Duration::from_millis(2);
/// The quiet time before each restart and after the last one.
const QUIET: Duration = Duration::from_secs(1);

/// The costs of a rolling restart.
pub(crate) struct Rolled {
    /// Writes per second over the whole run.
    pub(crate) rate: f64,
    /// The longest time without an acknowledged write.
    pub(crate) gap: Duration,
    /// The times from when a write was due until it was acknowledged: the 99th percentile and the
    /// longest one.
    pub(crate) late: [Duration; 2],
    /// Sessions that had expired when their writers resumed them.
    pub(crate) lost: usize,
}

/// Restarts all servers, one after the other.
pub(crate) fn restart(ensemble: &mut Ensemble<'_>) -> anyhow::Result<Rolled> {
    ensemble.wait_for_all()?;
    let servers = ensemble.addresses().to_vec();
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let (servers, is_over) = (&servers, &is_over);
                let pace = Pace::new(begun, number);
                scope.spawn(move || Writer::new(servers, number % MEMBERS, pace).run(is_over))
            })
            .collect();
        let restarted = (0..MEMBERS).try_for_each(|index| {
            thread::sleep(QUIET);
            ensemble.stop_one(index)?;
            ensemble.launch(index)?;
            ensemble.wait_for(index)
        });
        thread::sleep(QUIET);
        is_over.store(true, Ordering::Relaxed);
        let ended: Vec<_> = writers.into_iter().filter_map(|writer| writer.join().ok()).collect();
        restarted?;
        let written = || ended.iter().flat_map(|writer| writer.written.iter());
        let mut acknowledged: Vec<Instant> = written().map(|write| write.acknowledged).collect();
        acknowledged.sort_unstable();
        let mut late: Vec<Duration> = written().map(Write::late).collect();
        late.sort_unstable();
        let gaps = acknowledged.windows(2).map(|pair| pair[1] - pair[0]);
        Ok(Rolled {
            rate: acknowledged.len() as f64 / begun.elapsed().as_secs_f64(),
            gap: gaps.max().context("no client could write")?,
            late: [late[late.len() * 99 / 100], late[late.len() - 1]],
            lost: ended.iter().map(|writer| writer.lost).sum(),
        })
    })
}

/// The times at which the writes of a session are due.
struct Pace {
    start: Instant,
    /// Number of writes that were acknowledged.
    done: u64,
}

impl Pace {
    /// The sessions take turns.
    fn new(begun: Instant, number: usize) -> Self {
        Self { start: begun + Duration::from_secs(number as u64) / RATE, done: 0 }
    }

    fn due(&self) -> Instant {
        self.start
            + Duration::from_nanos(self.done * SESSIONS as u64 * 1_000_000_000 / u64::from(RATE))
    }
}

/// An acknowledged write.
struct Write {
    due: Instant,
    acknowledged: Instant,
}

impl Write {
    fn late(&self) -> Duration {
        self.acknowledged.saturating_duration_since(self.due)
    }
}

/// A session that writes at its share of the rate.
struct Writer<'s> {
    servers: &'s [SocketAddr],
    at: usize,
    pace: Pace,
    session: SessionKey,
    client: Option<Client>,
    written: Vec<Write>,
    lost: usize,
}

impl<'s> Writer<'s> {
    fn new(servers: &'s [SocketAddr], at: usize, pace: Pace) -> Self {
        let (session, client, written) = Default::default();
        Self { servers, at, pace, session, client, written, lost: 0 }
    }

    fn run(mut self, is_over: &AtomicBool) -> Self {
        while !is_over.load(Ordering::Relaxed) {
            let Some(client) = &mut self.client else {
                self.connect();
                continue;
            };
            let due = self.pace.due();
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let path = ROOT;
            match client.expect("set", op::SET_DATA, |to| wire::set_body(to, path, b"x")) {
                Ok(()) => {
                    self.written.push(Write { due, acknowledged: Instant::now() });
                    self.pace.done += 1;
                }
                Err(_) => {
                    self.client = None;
                    self.at += 1;
                }
            }
        }
        if let Some(client) = self.client.take() {
            let _ = client.close(); // what it has written is what counts
        }
        self
    }

    fn connect(&mut self) {
        let server = self.servers[self.at % self.servers.len()];
        match Client::resume(server, PATIENCE, &self.session) {
            Ok(Some((client, session))) => (self.client, self.session) = (Some(client), session),
            Ok(None) => {
                self.lost += 1;
                self.session = SessionKey::default();
            }
            Err(_) => {
                self.at += 1;
                thread::sleep(RETRY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Together the sessions write at the rate, in turns, however late the acknowledgements are.
    #[test]
    fn writes_are_due_at_the_rate_whatever_the_servers_do() {
        let begun = Instant::now();
        let mut due = Vec::new();
        for number in 0..SESSIONS {
            let mut pace = Pace::new(begun, number);
            while pace.due() < begun + Duration::from_secs(3) {
                due.push(pace.due() - begun);
                pace.done += 1;
            }
        }
        due.sort_unstable();
        let expected = (0..3 * u64::from(RATE)).map(|number| Duration::from_secs(number) / RATE);
        assert_eq!(due, expected.collect::<Vec<_>>());
        let write = Write { due: begun, acknowledged: begun + Duration::from_millis(7) };
        assert_eq!(write.late(), Duration::from_millis(7));
    }
}
