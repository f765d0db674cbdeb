//! A rolling restart under write load: each server, also the leader, is asked to stop and started
//! again.
//!
//! Every writer keeps its session: when its connection ends, it renews the session at the next
//! server.

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
                scope.spawn(move || Writer::new(servers, number % MEMBERS).run(is_over))
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
        let mut acknowledged: Vec<Instant> =
            ended.iter().flat_map(|writer| writer.acknowledged.iter().copied()).collect();
        acknowledged.sort_unstable();
        let gaps = acknowledged.windows(2).map(|pair| pair[1] - pair[0]);
        Ok(Rolled {
            rate: acknowledged.len() as f64 / begun.elapsed().as_secs_f64(),
            gap: gaps.max().context("no client could write")?,
            lost: ended.iter().map(|writer| writer.lost).sum(),
        })
    })
}

/// A session that writes at its share of the rate.
struct Writer<'s> {
    servers: &'s [SocketAddr],
    at: usize,
    session: SessionKey,
    client: Option<Client>,
    acknowledged: Vec<Instant>,
    lost: usize,
}

impl<'s> Writer<'s> {
    fn new(servers: &'s [SocketAddr], at: usize) -> Self {
        let (session, client, acknowledged) = Default::default();
        Self { servers, at, session, client, acknowledged, lost: 0 }
    }

    fn run(mut self, is_over: &AtomicBool) -> Self {
        let pause = Duration::from_secs(1) / (RATE / SESSIONS as u32);
        let mut next = Instant::now();
        while !is_over.load(Ordering::Relaxed) {
            let Some(client) = &mut self.client else {
                self.connect();
                continue;
            };
            let path = ROOT;
            match client.expect("set", op::SET_DATA, |to| wire::set_body(to, path, b"x")) {
                Ok(()) => self.acknowledged.push(Instant::now()),
                Err(_) => {
                    self.client = None;
                    self.at += 1;
                    continue;
                }
            }
            // A delayed writer does not catch up.
            next = (next + pause).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
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
