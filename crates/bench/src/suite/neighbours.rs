//! Noisy neighbours: the latency of clients with one request each in flight, beside clients that
//! list very many children, beside a client with a deep pipeline, beside very many watchers of one
//! znode, and while very many sessions expire.

mod listers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::clock::Clock;
use crate::compare::{Bout, progress};
use crate::contestant::Running;
use crate::load::{Each, LoadSpec, OPENING_MAX, expect_errors, measure, pass, prepare};
use crate::pin::{self, Pinned, Split};
use crate::suite::neighbours::listers::Lists;
use crate::suite::{ROOT, STEP_LIMIT, client, mixed_load, pipeline, warm_up, watches};
use crate::swarm::Swarm;
use crate::tally::Kind;
use crate::wire::{self, EPHEMERAL, Template, op};

/// Clients that wait for each answer before the next request.
const NEIGHBOURS: usize = 4;
/// Clients that list children.
const LISTERS: usize = 3;
/// Requests per second of the neighbours of the clients that list, all together.
const READ_RATE: f64 = 4_000.0;
/// The same of writes.
const WRITE_RATE: f64 = 500.0;
/// Requests in flight of the client with the deep pipeline.
const DEPTH: u32 = 2048;
/// The timeout of the sessions that expire: the shortest that a tick of 2 s allows.
const TIMEOUT: Duration = Duration::from_secs(4);
/// How long is measured at least beside clients that list: several lists, even of a million
/// children.
const LISTING_SECONDS: f64 = 4.0;
/// The time between two changes of the watched znode, unless the notifications take longer.
const CHANGE_PAUSE: Duration = Duration::from_millis(250);
/// The measurement begins this long before the first session may expire.
const AHEAD: Duration = Duration::from_secs(1);
/// How long the expiry is measured: servers expire sessions at ticks.
const EXPIRY_SECONDS: f64 = 4.0;

/// The other users of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// None.
    Nobody,
    /// One client with a deep pipeline of reads or writes.
    Deep(Kind),
    /// Clients that list children.
    Listers,
    /// Clients that watch a znode, which changes several times a second.
    Watchers(usize),
    /// Abandoned sessions with one ephemeral znode each.
    Expiring(usize),
}

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    at_full_speed(bout, sheet)?;
    // A server that only answers has no children to list.
    if !bout.contestant.is_bound() {
        beside_listers(bout, sheet)?;
    }
    Ok(())
}

/// Neighbours that send the next request once they have the answer.
fn at_full_speed(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (running, _) = bout.start("/")?;
    warm_up(bout, &[running.address], running.process().as_slice())?;
    // A server that only answers has no watches and no sessions.
    let is_bound = bout.contestant.is_bound();
    if !is_bound {
        client(&running)?.ensure(&parent())?;
    }
    let watchers = bout.affordable(bout.args.fanout, running.ends(), sheet);
    let expiring = bout.affordable(bout.args.sessions, running.ends(), sheet);
    for (op, kind) in [("get", Kind::Read), ("set", Kind::Write)] {
        let mut quiet = None;
        for (name, beside) in [
            ("quiet".to_owned(), Beside::Nobody),
            (format!("beside one with {DEPTH} in flight"), Beside::Deep(kind)),
            (format!("beside {watchers} watchers of one change"), Beside::Watchers(watchers)),
            (format!("while {expiring} sessions expire"), Beside::Expiring(expiring)),
        ] {
            if is_bound && !matches!(beside, Beside::Nobody | Beside::Deep(_)) {
                continue;
            }
            let look = Look { kind, rate: None, beside };
            look.compare(bout, &running, &format!("{op}, {name}"), &mut quiet, sheet)?;
        }
    }
    running.stop()?;
    Ok(())
}

/// Neighbours with a fixed number of requests per second, beside clients that list children.
///
/// Requests at full speed would use all processor time, and few of them would meet a list. The
/// server has cores of its own, so that no client takes the place of one of its threads.
fn beside_listers(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let all = match pin::cores() {
        Ok(all) => all,
        Err(error) => {
            sheet.note(&format!("not measured beside lists: {error:#}"));
            return Ok(());
        }
    };
    let split = Split::new(&all, (all.len() / 2).max(1));
    let (running, _) = {
        let _pinned = Pinned::to(&split.server)?;
        bout.start("/")?
    };
    let _pinned = Pinned::to(&split.own)?;
    warm_up(bout, &[running.address], running.process().as_slice())?;
    let listed = LoadSpec { keys: bout.args.listed, value_bytes: 0, ..mixed_load(bout) };
    prepare(running.address, &listed)?;
    let beside = format!("beside {LISTERS} that list {} children", bout.args.listed);
    for (op, kind, rate) in [("get", Kind::Read, READ_RATE), ("set", Kind::Write, WRITE_RATE)] {
        let op = format!("{op}, {} per second", number(rate));
        let mut quiet = None;
        for (name, beside) in [("quiet", Beside::Nobody), (&*beside, Beside::Listers)] {
            let look = Look { kind, rate: Some(rate), beside };
            look.compare(bout, &running, &format!("{op}, {name}"), &mut quiet, sheet)?;
        }
    }
    running.stop()?;
    Ok(())
}

/// What the neighbours ask for, how often, and beside whom.
#[derive(Clone, Copy)]
struct Look {
    kind: Kind,
    /// Requests per second of all neighbours together; `None`: each sends the next one at once.
    rate: Option<f64>,
    beside: Beside,
}

impl Look {
    /// Measures, and compares the latency with that of the first look, which is `quiet`.
    fn compare(
        self,
        bout: &Bout<'_>,
        running: &Running,
        name: &str,
        quiet: &mut Option<[f64; 2]>,
        sheet: &mut Sheet<'_>,
    ) -> anyhow::Result<()> {
        let [p50, p99] = self.latency(bout, running, name, sheet)?;
        let [quiet50, quiet99] = *quiet.get_or_insert([p50, p99]);
        if self.beside != Beside::Nobody {
            let group = "times the quiet latency";
            sheet.put(group, format!("{name}, p50"), Better::Lower, p50 / quiet50);
            sheet.put(group, format!("{name}, p99"), Better::Lower, p99 / quiet99);
        }
        Ok(())
    }

    /// The median and the 99th percentile of the neighbours' latency, in µs.
    fn latency(
        self,
        bout: &Bout<'_>,
        running: &Running,
        name: &str,
        sheet: &mut Sheet<'_>,
    ) -> anyhow::Result<[f64; 2]> {
        let servers = [running.address];
        let load = |kind, connections, depth| LoadSpec {
            read_percent: if kind == Kind::Read { 100 } else { 0 },
            connections,
            depth,
            ..mixed_load(bout)
        };
        let is_over = AtomicBool::new(false);
        let listed = Mutex::new(Vec::new());
        let result = thread::scope(|scope| {
            let (is_over, listed) = (&is_over, &listed);
            let list = move || -> anyhow::Result<()> {
                let count = bout.args.listed;
                let interval = (LISTERS * count) as f64 / bout.args.list_rate;
                let interval = Duration::from_secs_f64(interval);
                let lists = listers::list(client(running)?, ROOT, count, interval, is_over)?;
                listed.lock().unwrap_or_else(PoisonError::into_inner).push(lists);
                Ok(())
            };
            let flood = move |kind| -> anyhow::Result<()> {
                while !is_over.load(Ordering::Relaxed) {
                    measure(&servers, &[], &load(kind, 1, DEPTH))?;
                }
                Ok(())
            };
            // A thread drops its sender when it is ready or has failed.
            let (ready, is_ready) = mpsc::channel();
            let others: Vec<_> = match self.beside {
                Beside::Nobody => vec![],
                Beside::Deep(kind) => vec![scope.spawn(move || flood(kind))],
                Beside::Listers => (0..LISTERS).map(|_| scope.spawn(list)).collect(),
                Beside::Watchers(count) => {
                    let ready = ready.clone();
                    vec![scope.spawn(move || watch(running, count, ready, is_over))]
                }
                Beside::Expiring(count) => {
                    let ready = ready.clone();
                    vec![scope.spawn(move || abandon(running, count, ready))]
                }
            };
            drop(ready);
            let _all_are_ready = is_ready.recv();
            let mut spec = LoadSpec { rate: self.rate, ..load(self.kind, NEIGHBOURS, 1) };
            let seconds_min = match self {
                Self { beside: Beside::Expiring(_), .. } => EXPIRY_SECONDS,
                Self { rate: Some(_), .. } => LISTING_SECONDS,
                _ => 0.0,
            };
            spec.seconds = spec.seconds.max(seconds_min);
            let result = measure(&servers, running.process().as_slice(), &spec);
            is_over.store(true, Ordering::Relaxed);
            for other in others {
                other.join().map_err(|_| anyhow::anyhow!("a neighbour panicked"))??;
            }
            result
        })?;
        pipeline::put(sheet, name, &result);
        put_lists(sheet, name, &listed.into_inner().unwrap_or_else(PoisonError::into_inner));
        let latency = &result.tally.total().latency;
        Ok([0.5, 0.99].map(|quantile| latency.value_at_quantile(quantile) as f64 / 1e3))
    }
}

/// How much the listing clients got, so that a server cannot starve them unnoticed.
fn put_lists(sheet: &mut Sheet<'_>, name: &str, listed: &[Lists]) {
    let mut each: Vec<Duration> = listed.iter().flat_map(|lists| lists.each.clone()).collect();
    each.sort_unstable();
    if let Some(median) = each.get(each.len() / 2) {
        let rate: f64 = listed.iter().map(Lists::children_per_second).sum();
        let ms = median.as_secs_f64() * 1e3;
        progress(&format!("    {} children listed/s, {} ms a list", number(rate), number(ms)));
        sheet.put("children listed per second", name, Better::Higher, rate);
        sheet.put("time of a list, ms, median", name, Better::Lower, ms);
    }
}

/// Changes a znode that `count` sessions watch, again and again.
fn watch(
    running: &Running,
    count: usize,
    ready: Sender<()>,
    is_over: &AtomicBool,
) -> anyhow::Result<()> {
    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?;
    swarm.open(&[running.address], count, OPENING_MAX, watches::TIMEOUT, STEP_LIMIT)?;
    let paths = [wire::path(&format!("{ROOT}/k#"), &[0])];
    drop(ready);
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        watches::watch(&mut swarm, clock, count, 1)?;
        watches::change(&mut swarm, clock, running, count, &paths, "a change that all watch")?;
        thread::sleep(CHANGE_PAUSE.saturating_sub(start.elapsed()));
    }
    swarm.close(STEP_LIMIT)?;
    Ok(())
}

/// Opens `count` sessions with one ephemeral znode each, and abandons them. Reports ready shortly
/// before they expire.
fn abandon(running: &Running, count: usize, ready: Sender<()>) -> anyhow::Result<()> {
    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?;
    swarm.open(&[running.address], count, OPENING_MAX, TIMEOUT, STEP_LIMIT)?;
    let template = Template::new(op::CREATE, &format!("{}/e#", parent()), |to, path| {
        wire::create_body_of(to, path, b"", EPHEMERAL);
    });
    let mut work = Each::new(template, Kind::Write, count);
    expect_errors("create", &pass(&mut swarm, clock, &mut work, 1)?, &[wire::ERR_NODE_EXISTS])?;
    drop(swarm);
    thread::sleep(TIMEOUT.saturating_sub(AHEAD));
    drop(ready);
    Ok(())
}

/// The parent of the znodes of the expiring sessions.
fn parent() -> String {
    format!("{ROOT}-expiring")
}
