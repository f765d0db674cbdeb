//! Many znodes: loading them, their memory and disk space, a restart, and a snapshot.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use anyhow::ensure;
use zebu_figures::number;

use crate::board::{Better, Sheet};
use crate::clock::Clock;
use crate::compare::{Bout, progress};
use crate::contestant::Running;
use crate::load::{Each, OPENING_MAX, SESSION_TIMEOUT, expect_errors, pass};
use crate::process::Process;
use crate::suite::{Memory, ROOT, STEP_LIMIT, client, each, megabytes, seconds, snapshots};
use crate::swarm::{Plan, Swarm, Workload};
use crate::tally::{Kind, Tally};
use crate::wire::{self, Template, digits, op};

/// Children of one parent.
const CHILDREN: usize = 1000;
/// Sessions that create znodes.
const CONNECTIONS: usize = 4;
/// Creates in flight for each session. All sessions together reach the original's global limit.
const DEPTH: u32 = 250;

/// Creates children of several parents. `next` counts all children.
struct Creates {
    template: Template,
    next: usize,
    count: usize,
}

impl Workload for Creates {
    fn next(&mut self, _conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind> {
        if self.next == self.count {
            return None;
        }
        let (parent, child) = (self.next / CHILDREN, self.next % CHILDREN);
        self.template.put(out, xid, &[digits(parent), digits(child)]);
        self.next += 1;
        Some(Kind::Write)
    }
}

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let count = bout.args.count;
    let (running, empty_start) = bout.start("/")?;
    sheet.put("time, s", "start when empty", Better::Lower, empty_start.as_secs_f64());
    client(&running)?.ensure(ROOT)?;
    let before = Memory::of(&running);

    load(bout, &running, sheet)?;
    let process = running.process();
    let after = Memory::of(&running);
    memory_rows(sheet, "after load", &before, &after, count);
    let peak = process.and_then(Process::rss_peak).map(megabytes);
    sheet.put("memory, MB", "peak of load", Better::Lower, peak);
    if running.process().is_none() {
        return Ok(()); // nothing is kept, so there is nothing to start again with
    }
    sheet.put("disk, MB", "after load", Better::Lower, megabytes(disk_bytes(&running.data)?));
    let stop = running.stop()?;
    sheet.put("time, s", "stop after load", Better::Lower, stop.as_secs_f64());

    let last = count - 1;
    let last = wire::path(&format!("{ROOT}/p#/n#"), &[last / CHILDREN, last % CHILDREN]);
    let restart = SystemTime::now();
    let (running, took) = bout.start(&last)?;
    progress(&format!("  start with {count} znodes: {} s", number(took.as_secs_f64())));
    sheet.put("time, s", "start with all znodes", Better::Lower, took.as_secs_f64());
    snapshots::of_start(&running.data, restart, sheet)?;
    memory_rows(sheet, "after restart", &before, &Memory::of(&running), count);
    let peak = running.process().and_then(Process::rss_peak).map(megabytes);
    sheet.put("memory, MB", "peak of restart", Better::Lower, peak);
    sheet.put("disk, MB", "after restart", Better::Lower, megabytes(disk_bytes(&running.data)?));
    running.stop()?;

    // Another start, because this setting lets a start take a snapshot.
    let (running, _) = bout.start_with(&last, &[snapshots::often(bout)])?;
    snapshots::under_load(bout, &running, sheet)?;
    running.stop()?;
    Ok(())
}

fn load(bout: &Bout<'_>, running: &Running, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let count = bout.args.count;
    let process = running.process();
    let cpu_before = process.and_then(Process::cpu);
    let written_before = process.and_then(Process::written);
    let took = fill(running.address, count, bout.args.size)?;
    let cpu_after = process.and_then(Process::cpu);
    progress(&format!("  {count} creates in {} s", number(took)));
    sheet.put("requests/s", "create", Better::Higher, count as f64 / took);
    let cpu = cpu_before.zip(cpu_after).map(|(before, after)| after.saturating_sub(before));
    let cpu = cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count as f64);
    sheet.put("server CPU, us/request", "create", Better::Lower, cpu);
    let written = written_before.zip(process.and_then(Process::written));
    let values = (count * bout.args.size).max(1) as f64;
    let written = written.map(|(before, after)| after.saturating_sub(before) as f64 / values);
    let group = "times the bytes of the values";
    sheet.put(group, "written while loading", Better::Lower, written);
    Ok(())
}

/// Creates `count` znodes of `bytes` bytes below the existing root, with [`CHILDREN`] children for
/// each parent. Returns the time in seconds, without that of the parents.
pub(crate) fn fill(server: SocketAddr, count: usize, bytes: usize) -> anyhow::Result<f64> {
    let data = wire::value(bytes);
    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?;
    swarm.open(&[server], CONNECTIONS, OPENING_MAX, SESSION_TIMEOUT, STEP_LIMIT)?;
    let parents = Template::new(op::CREATE, &format!("{ROOT}/p#"), |to, path| {
        wire::create_body(to, path, b"");
    });
    let mut parents = Each::new(parents, Kind::Write, count.div_ceil(CHILDREN));
    expect_errors("create the parents", &pass(&mut swarm, clock, &mut parents, DEPTH)?, &[])?;

    let template = Template::new(op::CREATE, &format!("{ROOT}/p#/n#"), |to, path| {
        wire::create_body(to, path, &data);
    });
    let mut tally = Tally::whole();
    let start = clock.now();
    let mut work = Creates { template, next: 0, count };
    swarm.drive(&mut work, &Plan::all(clock, DEPTH, STEP_LIMIT), &mut tally)?;
    let took = seconds(clock.now() - start);
    expect_errors("create the znodes", &tally, &[])?;
    let done = tally.total().completed;
    ensure!(done == count as u64, "only {done} of {count} znodes were created");
    swarm.close(STEP_LIMIT)?;
    Ok(took)
}

fn memory_rows(sheet: &mut Sheet<'_>, when: &str, before: &Memory, after: &Memory, count: usize) {
    let group = "bytes per znode";
    let rss = each(before.rss, after.rss, count);
    let live = each(before.live, after.live, count);
    sheet.put("memory, MB", format!("resident {when}"), Better::Lower, after.rss.map(megabytes));
    sheet.put("memory, MB", format!("in use {when}"), Better::Lower, after.live.map(megabytes));
    sheet.put(group, format!("resident {when}"), Better::Lower, rss);
    sheet.put(group, format!("in use {when}"), Better::Lower, live);
}

/// The size of all files below `dir`.
fn disk_bytes(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Servers rename and purge files meanwhile.
        let Ok(meta) = entry.metadata() else { continue };
        sum += if meta.is_dir() { disk_bytes(&entry.path())? } else { meta.blocks() * 512 };
    }
    Ok(sum)
}
