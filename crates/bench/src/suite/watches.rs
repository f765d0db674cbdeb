//! Many watches: their memory, and the time until one change reaches all watchers.

use std::thread;
use std::time::Duration;

use anyhow::{bail, ensure};
use zebu_figures::{median, number};

use crate::board::{Better, Sheet};
use crate::clock::{Clock, Nanos};
use crate::compare::{Bout, progress};
use crate::contestant::Running;
use crate::load::{Each, OPENING_MAX, expect_errors, pass, setup_depth};
use crate::suite::{ANSWER_LIMIT, Memory, ROOT, STEP_LIMIT, client, each, seconds};
use crate::swarm::{Plan, Swarm, Workload};
use crate::tally::{Kind, Tally};
use crate::wire::{self, Template, digits, op};

/// The timeout of watching sessions: the longest that a tick of 2 s allows.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(40);
/// The idle time after which a session is pinged.
const PING_AFTER: Duration = Duration::from_secs(10);
/// Requests in flight per session while watches are set.
const DEPTH: u32 = 128;
/// Znodes that one transaction changes.
const CHANGED: usize = 100;

/// Sets a watch on each of the first znodes, on every connection.
struct Watch {
    template: Template,
    /// The next znode of each connection.
    next: Vec<usize>,
    znodes: usize,
}

impl Watch {
    fn new(connections: usize, znodes: usize) -> Self {
        let template = Template::new(op::EXISTS, &format!("{ROOT}/k#"), |to, path| {
            wire::read_body(to, path, true);
        });
        Self { template, next: vec![0; connections], znodes }
    }
}

impl Workload for Watch {
    fn next(&mut self, conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind> {
        let next = &mut self.next[conn];
        if *next == self.znodes {
            return None;
        }
        self.template.put(out, xid, &[digits(*next)]);
        *next += 1;
        Some(Kind::Read)
    }
}

/// Waits for notifications.
struct Await {
    left: usize,
    first: Option<Nanos>,
    last: Nanos,
}

impl Workload for Await {
    fn next(&mut self, _conn: usize, _xid: i32, _out: &mut Vec<u8>) -> Option<Kind> {
        None
    }

    fn notified(&mut self, _conn: usize, now: Nanos) {
        self.left = self.left.saturating_sub(1);
        self.first.get_or_insert(now);
        self.last = now;
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let args = bout.args;
    let (running, _) = bout.start("/")?;
    let connections =
        bout.affordable(args.watch_connections.min(args.count), running.ends(), sheet);
    let znodes = args.count / connections;
    ensure!(znodes > 0, "no watch per connection");
    create(&running, znodes)?;

    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?;
    swarm.open(&[running.address], connections, OPENING_MAX, TIMEOUT, STEP_LIMIT)?;
    let before = Memory::of(&running);
    let took = watch(&mut swarm, clock, connections, znodes)?;
    let watches = connections * znodes;
    progress(&format!("  {watches} watches set in {} s", number(took)));
    sheet.put("requests/s", "exists with watch", Better::Higher, watches as f64 / took);
    let after = Memory::of(&running);
    let group = "bytes per watch";
    sheet.put(group, "resident", Better::Lower, each(before.rss, after.rss, watches));
    sheet.put(group, "in use", Better::Lower, each(before.live, after.live, watches));

    let changed = znodes.min(CHANGED);
    let name = format!("{changed} znodes x {connections} watchers");
    spread(&mut swarm, clock, &running, connections, changed, args.repeats, &name, sheet)?;
    swarm.close(STEP_LIMIT)?;

    let fanout = bout.affordable(args.fanout, running.ends(), sheet);
    let mut swarm = Swarm::new(clock)?;
    swarm.open(&[running.address], fanout, OPENING_MAX, TIMEOUT, STEP_LIMIT)?;
    watch(&mut swarm, clock, fanout, 1)?;
    let name = format!("1 znode x {fanout} watchers");
    spread(&mut swarm, clock, &running, fanout, 1, args.repeats, &name, sheet)?;
    swarm.close(STEP_LIMIT)?;
    running.stop()?;
    Ok(())
}

fn create(running: &Running, znodes: usize) -> anyhow::Result<()> {
    client(running)?.ensure(ROOT)?;
    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?;
    swarm.open(&[running.address], 1, 1, TIMEOUT, STEP_LIMIT)?;
    let template = Template::new(op::CREATE, &format!("{ROOT}/k#"), |to, path| {
        wire::create_body(to, path, b"");
    });
    let mut work = Each::new(template, Kind::Write, znodes);
    expect_errors("create", &pass(&mut swarm, clock, &mut work, setup_depth(0))?, &[])?;
    swarm.close(STEP_LIMIT)?;
    Ok(())
}

/// Sets the watches. Returns the time in seconds.
pub(crate) fn watch(
    swarm: &mut Swarm,
    clock: Clock,
    connections: usize,
    znodes: usize,
) -> anyhow::Result<f64> {
    let start = clock.now();
    let mut tally = Tally::whole();
    let plan = Plan::all(clock, DEPTH, STEP_LIMIT);
    swarm.drive(&mut Watch::new(connections, znodes), &plan, &mut tally)?;
    let took = seconds(clock.now() - start);
    if !tally.is_clean() {
        let why = swarm.first_break().unwrap_or("error replies");
        bail!("watches could not be set: {why}: {:?}", tally.errors);
    }
    Ok(took)
}

/// Changes the first `changed` znodes in one transaction, `repeats` times. Measures the time from
/// the request to the last notification.
#[expect(clippy::too_many_arguments, reason = "one caller, and every argument is its own thing")]
fn spread(
    swarm: &mut Swarm,
    clock: Clock,
    running: &Running,
    connections: usize,
    changed: usize,
    repeats: usize,
    name: &str,
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<()> {
    let paths: Vec<String> =
        (0..changed).map(|number| wire::path(&format!("{ROOT}/k#"), &[number])).collect();
    let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
    for repeat in 0..repeats {
        if repeat > 0 {
            watch(swarm, clock, connections, changed)?;
        }
        let wanted = connections * changed;
        let (first, last) = change(swarm, clock, running, wanted, &paths, name)?;
        firsts.push(first);
        lasts.push(last);
    }
    let last = median(&lasts);
    progress(&format!("  {name}: {} ms", last.map_or_else(String::new, number)));
    let group = "notifications of one change, ms";
    sheet.put(group, format!("{name}, first"), Better::Lower, median(&firsts));
    sheet.put(group, format!("{name}, last"), Better::Lower, last);
    Ok(())
}

/// Changes these znodes in one transaction, and waits for `wanted` notifications. Returns the times
/// in milliseconds from the request to the first and to the last notification.
pub(crate) fn change(
    swarm: &mut Swarm,
    clock: Clock,
    running: &Running,
    wanted: usize,
    paths: &[String],
    name: &str,
) -> anyhow::Result<(f64, f64)> {
    let mut trigger = client(running)?;
    let mut work = Await { left: wanted, first: None, last: 0 };
    let sent = thread::scope(|scope| {
        let changing = scope.spawn(|| {
            let sent = clock.now();
            let done = if let [path] = paths {
                trigger.expect("change", op::SET_DATA, |to| wire::set_body(to, path, b"new"))
            } else {
                let paths = paths.iter().map(String::as_str);
                trigger.expect("change", op::MULTI, |to| {
                    wire::multi_body(to, op::SET_DATA, paths, |to, path| {
                        wire::set_body(to, path, b"new");
                    });
                })
            };
            done.map(|()| sent)
        });
        let plan = Plan::wait(clock, ANSWER_LIMIT, PING_AFTER);
        let driven = swarm.drive(&mut work, &plan, &mut Tally::whole());
        let sent = changing.join().map_err(|_| anyhow::anyhow!("the change panicked"))?;
        driven.and(sent)
    })?;
    trigger.close()?;
    if work.left > 0 {
        bail!("{name}: {} of {wanted} notifications did not arrive", work.left);
    }
    let after = |arrived: Nanos| seconds(arrived.saturating_sub(sent)) * 1e3;
    Ok((after(work.first.unwrap_or(work.last)), after(work.last)))
}
