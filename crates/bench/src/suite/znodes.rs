//! Many znodes: loading them, what they cost in memory and on disk, restart, snapshot.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{bail, ensure};

use crate::board::{Better, Sheet};
use crate::clock::Clock;
use crate::compare::{Bout, progress};
use crate::contestant::Running;
use crate::load::{Each, OPENING_MAX, SESSION_TIMEOUT, expect_errors, pass};
use crate::process::Process;
use crate::suite::{Memory, ROOT, STEP_LIMIT, client, each, megabytes, seconds};
use crate::swarm::{Plan, Swarm, Workload};
use crate::table::number;
use crate::tally::{Kind, Tally};
use crate::wire::{self, Template, digits, op};

/// Children of one parent.
const CHILDREN: usize = 1000;
/// Sessions that load.
const CONNECTIONS: usize = 4;
/// Creates in flight per session: together the original's global limit of outstanding requests.
const DEPTH: u32 = 250;
/// How long a server may take to begin a snapshot after a start, should it take one.
const SNAPSHOT_BEGIN: Duration = Duration::from_secs(10);
/// How long a snapshot may take.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(300);
/// A file that has not grown for this long is taken as complete.
const QUIET: Duration = Duration::from_millis(500);
/// File times are this coarse.
const TIME_GRAIN: Duration = Duration::from_millis(20);

/// Creates parents' children, `next` counting all of them.
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
    snapshot(&running.data, restart, sheet)?;
    memory_rows(sheet, "after restart", &before, &Memory::of(&running), count);
    let peak = running.process().and_then(Process::rss_peak).map(megabytes);
    sheet.put("memory, MB", "peak of restart", Better::Lower, peak);
    sheet.put("disk, MB", "after restart", Better::Lower, megabytes(disk_bytes(&running.data)?));
    running.stop()?;
    Ok(())
}

fn load(bout: &Bout<'_>, running: &Running, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let count = bout.args.count;
    let data = wire::value(bout.args.size);
    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?;
    swarm.open(&[running.address], CONNECTIONS, OPENING_MAX, SESSION_TIMEOUT, STEP_LIMIT)?;
    let parents = Template::new(op::CREATE, &format!("{ROOT}/p#"), |to, path| {
        wire::create_body(to, path, b"");
    });
    let mut parents = Each::new(parents, Kind::Write, count.div_ceil(CHILDREN));
    expect_errors("create the parents", &pass(&mut swarm, clock, &mut parents, DEPTH)?, &[])?;

    let template = Template::new(op::CREATE, &format!("{ROOT}/p#/n#"), |to, path| {
        wire::create_body(to, path, &data);
    });
    let mut tally = Tally::whole();
    let cpu_before = running.process().and_then(Process::cpu);
    let start = clock.now();
    swarm.drive(
        &mut Creates { template, next: 0, count },
        &Plan::all(clock, DEPTH, STEP_LIMIT),
        &mut tally,
    )?;
    let took = seconds(clock.now() - start);
    let cpu_after = running.process().and_then(Process::cpu);
    expect_errors("create the znodes", &tally, &[])?;
    let done = tally.total().completed;
    ensure!(done == count as u64, "only {done} of {count} znodes were created");
    swarm.close(STEP_LIMIT)?;

    progress(&format!("  {count} creates in {} s", number(took)));
    sheet.put("requests/s", "create", Better::Higher, count as f64 / took);
    let cpu = cpu_before.zip(cpu_after).map(|(before, after)| after.saturating_sub(before));
    let cpu = cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count as f64);
    sheet.put("server CPU, us/request", "create", Better::Lower, cpu);
    Ok(())
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

/// Waits for the snapshot that a start takes and enters its size and time.
fn snapshot(data: &Path, restart: SystemTime, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let since = restart.checked_sub(TIME_GRAIN).unwrap_or(restart);
    let wait = Instant::now();
    let (meta, fresh) = loop {
        let newest = newest_snapshot(data)?;
        let begun = newest.as_ref().is_some_and(|meta| is_since(meta.modified(), since));
        let quiet = |meta: &Metadata| match meta.modified().map(|at| at.elapsed()) {
            Ok(Ok(age)) => age > QUIET,
            _ => false,
        };
        match newest {
            Some(meta) if begun && quiet(&meta) => break (meta, true),
            Some(meta) if !begun && wait.elapsed() > SNAPSHOT_BEGIN => break (meta, false),
            None if wait.elapsed() > SNAPSHOT_BEGIN => {
                sheet.note("no snapshot found");
                return Ok(());
            }
            _ if wait.elapsed() > SNAPSHOT_LIMIT => bail!("no snapshot in {SNAPSHOT_LIMIT:?}"),
            _ => thread::sleep(Duration::from_millis(20)),
        }
    };
    if !fresh {
        sheet.note("the start took no snapshot; size and time are those of one taken earlier");
    }
    sheet.put("disk, MB", "newest snapshot", Better::Lower, megabytes(meta.len()));
    // A file that was there before and is written again keeps its birth: no time then.
    let took = match (meta.created(), meta.modified()) {
        (Ok(born), Ok(done)) if !fresh || is_since(Ok(born), since) => {
            done.duration_since(born).ok()
        }
        _ => None,
    };
    sheet.put("time, s", "write snapshot", Better::Lower, took.map(|took| took.as_secs_f64()));
    Ok(())
}

fn is_since(at: std::io::Result<SystemTime>, since: SystemTime) -> bool {
    at.is_ok_and(|at| at >= since)
}

/// The snapshot with the largest zxid in its name.
fn newest_snapshot(data: &Path) -> anyhow::Result<Option<Metadata>> {
    let mut newest = None;
    for entry in fs::read_dir(data.join("version-2"))? {
        let entry = entry?;
        let name = entry.file_name();
        let zxid = name.to_str().and_then(|name| name.strip_prefix("snapshot.")).and_then(|rest| {
            let hex = rest.split('.').next()?;
            // A name with more than a compression's suffix is not complete yet.
            let complete = matches!(rest.split('.').nth(1), None | Some("gz" | "snappy"));
            u64::from_str_radix(hex, 16).ok().filter(|_| complete)
        });
        let Some(zxid) = zxid else { continue };
        if newest.as_ref().is_none_or(|&(other, _)| zxid > other) {
            // It may be gone again by now.
            if let Ok(meta) = entry.metadata() {
                newest = Some((zxid, meta));
            }
        }
    }
    Ok(newest.map(|(_, meta)| meta))
}

/// Space taken by all files below `dir`.
fn disk_bytes(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Servers rename and purge meanwhile.
        let Ok(meta) = entry.metadata() else { continue };
        sum += if meta.is_dir() { disk_bytes(&entry.path())? } else { meta.blocks() * 512 };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_snapshot_is_the_one_with_the_largest_zxid() {
        let dir = tempfile::tempdir().unwrap();
        let version = dir.path().join("version-2");
        fs::create_dir(&version).unwrap();
        assert!(newest_snapshot(dir.path()).unwrap().is_none());
        for (name, bytes) in [
            ("snapshot.9", 1),
            ("snapshot.1a.gz", 2),
            ("snapshot.ff.tmp", 3),
            ("snapshot.x", 4),
            ("log.ff", 5),
        ] {
            fs::write(version.join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(newest_snapshot(dir.path()).unwrap().unwrap().len(), 2);
        assert!(disk_bytes(dir.path()).unwrap() > 0);
    }
}
