//! The cost of Zebu's protections: two servers in turn, one with all of them, and one without those
//! that can be turned off, which are digests, scrub and purge. Syncs and sidecars stay on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::Signal;

use crate::board::{Better, Sheet};
use crate::compare::Bout;
use crate::contestant::{Contestant, Running};
use crate::load::{LoadSpec, measure};
use crate::suite::{mixed_load, pipeline, warm_up};

/// Lines for both configurations: enough snapshots that scrub and purge have work.
const BOTH: [&str; 1] = ["snapCount=20000"];
/// The protections. The scrub reads all files again every few seconds instead of once a day.
const WITH: [&str; 2] = ["zebu.scrubInterval=5s", "autopurge.purgeInterval=1"];
/// Switches off the protections that can be switched off.
const WITHOUT: [&str; 2] = ["zebu.scrubInterval=0", "digest.enabled=false"];
/// The most requests in flight on a connection of the open loop. Later requests wait, and their
/// wait counts.
const DEPTH: u32 = 1024;

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let Contestant::Zebu { program } = bout.contestant else { return Ok(()) };
    let dirs = ["with", "without"].map(|name| bout.dir.join(name));
    let start = |dir: &Path, own: &[&str]| {
        fs::create_dir(dir).with_context(|| format!("create {}", dir.display()))?;
        let lines: Vec<String> = BOTH.iter().chain(own).map(|&line| line.to_owned()).collect();
        let running = bout.within(dir).start_with("/", &lines)?.0;
        warm_up(bout, &[running.address], running.process().as_slice())?;
        anyhow::Ok(running)
    };
    let elsewhere = bout.args.backups.as_ref().map(tempfile::tempdir_in).transpose()?;
    let backups = elsewhere.as_ref().map_or(bout.dir, |dir| dir.path());
    let with = start(&dirs[0], &WITH)?;
    let without = start(&dirs[1], &WITHOUT)?;

    let closed = LoadSpec { read_percent: 0, ..mixed_load(bout) };
    let rate = |running: &Running, name: &str, sheet: &mut Sheet<'_>| {
        let result = measure(&[running.address], running.process().as_slice(), &closed)?;
        pipeline::put(sheet, name, &result);
        anyhow::Ok(result.throughput())
    };
    // The order spreads a change of the machine's speed evenly over both.
    let (name, other) = ("set, with all protections", "set, without");
    let first = rate(&with, name, sheet)?;
    let others = while_paused(&with, || {
        anyhow::Ok([rate(&without, other, sheet)?, rate(&without, other, sheet)?])
    })?;
    let second = rate(&with, name, sheet)?;
    let share = (first + second) / (others[0] + others[1]);
    sheet.put(
        "% of the throughput without",
        "set, with all protections",
        Better::Higher,
        share * 100.0,
    );

    for &rate in &bout.args.rates {
        let open = LoadSpec {
            read_percent: 0,
            depth: DEPTH,
            seconds: bout.args.rate_seconds,
            rate: Some(rate),
            ..mixed_load(bout)
        };
        let p99 = |running: &Running, name: &str, sheet: &mut Sheet<'_>| {
            // What the work before has left to the disk would count for the first one.
            rustix::fs::sync();
            let result = measure(&[running.address], running.process().as_slice(), &open)?;
            let name = format!("set, open loop, {rate}/s, {name}");
            pipeline::put(sheet, &name, &result);
            anyhow::Ok(result.tally.total().latency.value_at_quantile(0.99) as f64)
        };
        let quiet = while_paused(&with, || p99(&without, "without protections", sheet))?;
        let scrubbed = p99(&with, "while a scrub runs", sheet)?;
        let mut found = vec![("while a scrub runs".to_owned(), scrubbed)];
        let through = bout.args.backups_through.iter().map(String::as_str);
        for starter in std::iter::once("").chain(through) {
            let name = match starter {
                "" => "while scrub and backups run".to_owned(),
                _ => format!("while scrub and backups through {starter} run"),
            };
            let saved =
                beside_backups(starter, program, backups, &with, || p99(&with, &name, sheet))?;
            found.push((name, saved));
        }
        let group = "times the p99 without";
        for (name, ns) in found {
            sheet.put(group, format!("set, {rate}/s, {name}"), Better::Lower, ns / quiet);
        }
    }
    with.stop()?;
    without.stop()?;
    Ok(())
}

/// Runs `work` while a server stands still, so that its scrub does not disturb the other one.
fn while_paused<T>(server: &Running, work: impl FnOnce() -> T) -> T {
    server.signal(Signal::STOP);
    let done = work();
    server.signal(Signal::CONT);
    done
}

/// Runs `work` while backups of this server follow each other, and then ends the last one. The
/// words of `starter` come before their command.
fn beside_backups<T>(
    starter: &str,
    program: &Path,
    dir: &Path,
    running: &Running,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let is_over = AtomicBool::new(false);
    let save = || -> anyhow::Result<()> {
        while !is_over.load(Ordering::Relaxed) {
            let mut words = starter.split_whitespace().map(Path::new).chain([program]);
            let mut command = Command::new(words.next().unwrap_or(program));
            command.args(words).args(["backup", "create", "--dir"]).arg(&running.data);
            command.arg("--to").arg(dir.join("backup")).stdin(Stdio::null()).stdout(Stdio::null());
            let mut backup =
                command.spawn().with_context(|| format!("start {}", program.display()))?;
            let status = loop {
                if let Some(status) = backup.try_wait()? {
                    break status;
                }
                if is_over.load(Ordering::Relaxed) {
                    backup.kill()?;
                    backup.wait()?;
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(20));
            };
            ensure!(status.success(), "the backup failed: {status}");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let saving = scope.spawn(save);
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        saving.join().map_err(|_| anyhow::anyhow!("the backups panicked"))??;
        result
    })
}
