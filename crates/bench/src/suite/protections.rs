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
use crate::compare::{Bout, CompareArgs};
use crate::contestant::{Contestant, Running};
use crate::load::{LoadResult, LoadSpec, measure};
use crate::process::Process;
use crate::suite::{megabytes, mixed_load, pipeline, warm_up};

/// Lines for both configurations: enough snapshots that scrub and purge have work.
const BOTH: [&str; 1] = ["snapCount=20000"];
/// The protections. The scrub reads all files again every few seconds instead of once a day.
const WITH: [&str; 2] = ["zebu.scrubInterval=5s", "autopurge.purgeInterval=1"];
/// Switches off the protections that can be switched off.
const WITHOUT: [&str; 2] = ["zebu.scrubInterval=0", "digest.enabled=false"];
/// The most requests in flight on a connection of the open loop. Later requests wait, and their
/// wait counts.
const DEPTH: u32 = 1024;
/// The length of a window of a pair: so short that a change of the machine's speed meets both
/// servers.
const WINDOW_SECONDS: f64 = 0.5;
/// The pairs for each second of `--seconds`.
const PAIRS_PER_SECOND: f64 = 20.0;
/// The fewest pairs of which an interval can be told.
const PAIRS_MIN: f64 = 6.0;
/// The time of all pairs, as far as it is not for the fewest.
const PAIRS_SECONDS_MAX: f64 = 60.0;
/// The windows of each latency: once in this order, once in the opposite one.
const TURNS: usize = 2;
/// The load before a window of a latency, besides the usual one: the server may have stood still,
/// with work that is overdue and connections that are new.
const SETTLE_SECONDS: f64 = 1.0;
/// The figures of the throughput and of the CPU time.
const PROTECTED: &str = "set, with all protections";

/// Both servers.
struct Servers {
    with: Running,
    without: Running,
}

/// What a latency is measured beside.
enum Beside<'a> {
    /// Nothing, on the server without protections.
    Nothing,
    /// The scrub.
    Scrub,
    /// The scrub, and backups that this command starts.
    Backups(&'a str),
}

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let Contestant::Zebu { program } = bout.contestant else { return Ok(()) };
    let start = |name: &str, own: &[&str]| {
        let dir = bout.dir.join(name);
        fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
        let lines: Vec<String> = BOTH.iter().chain(own).map(|&line| line.to_owned()).collect();
        let running = bout.within(&dir).start_with("/", &lines)?.0;
        warm_up(bout, &[running.address], running.process().as_slice())?;
        anyhow::Ok(running)
    };
    let elsewhere = bout.args.backups.as_ref().map(tempfile::tempdir_in).transpose()?;
    let backups = elsewhere.as_ref().map_or(bout.dir, |dir| dir.path());
    let servers = Servers { with: start("with", &WITH)?, without: start("without", &WITHOUT)? };
    throughput(bout, &servers, sheet)?;
    for &rate in &bout.args.rates {
        latency(bout, &servers, rate, (program, backups), sheet)?;
    }
    servers.with.stop()?;
    servers.without.stop()?;
    Ok(())
}

/// How many pairs of windows the throughput takes.
pub(crate) fn pairs(args: &CompareArgs) -> usize {
    let pair = 2.0 * (args.warmup + WINDOW_SECONDS);
    (args.seconds * PAIRS_PER_SECOND).min(PAIRS_SECONDS_MAX / pair).max(PAIRS_MIN) as usize
}

/// The seconds that the windows take, with the load before them.
pub(crate) fn seconds(args: &CompareArgs) -> f64 {
    let pair = 2.0 * (args.warmup + WINDOW_SECONDS + 0.1);
    let turns = TURNS as f64 * (args.warmup + SETTLE_SECONDS + 0.1) + args.rate_seconds;
    let latencies = (3 + args.backups_through.len()) * args.rates.len();
    pairs(args) as f64 * pair + latencies as f64 * turns
}

/// Writes in a closed loop: many pairs of short windows, one of each server. The server that comes
/// first changes from pair to pair, and the other one stands still.
fn throughput(bout: &Bout<'_>, servers: &Servers, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let spec = LoadSpec { read_percent: 0, seconds: WINDOW_SECONDS, ..mixed_load(bout) };
    let (mut with, mut without) = (None, None);
    let (mut shares, mut cpu_shares) = (Vec::new(), Vec::new());
    let read = || servers.with.process().and_then(Process::read);
    let read_before = read();
    for pair in 0..pairs(bout.args) {
        let window = |server: &Running, other: &Running| {
            while_paused(other, || measure(&[server.address], server.process().as_slice(), &spec))
        };
        let first = (pair % 2 == 1).then(|| window(&servers.without, &servers.with)).transpose()?;
        let protected = window(&servers.with, &servers.without)?;
        let bare = match first {
            Some(bare) => bare,
            None => window(&servers.without, &servers.with)?,
        };
        shares.push(protected.throughput() / bare.throughput() * 100.0);
        let cpu = |result: &LoadResult| result.server_cpu.and_then(|cpu| result.cpu_us_per_op(cpu));
        cpu_shares
            .extend(cpu(&protected).zip(cpu(&bare)).map(|(with, without)| with / without * 100.0));
        add(&mut with, protected);
        add(&mut without, bare);
    }
    let read = read().zip(read_before).map(|(after, before)| megabytes(after - before));
    for (name, result) in [(PROTECTED, with), ("set, without", without)] {
        pipeline::put(sheet, name, &result.expect("there is a pair"));
    }
    put_share(sheet, "% of the throughput without", Better::Higher, &shares);
    put_share(sheet, "% of the server's CPU time per write without", Better::Lower, &cpu_shares);
    sheet.put("read from the disk, MB", format!("{PROTECTED}, in all pairs"), Better::Lower, read);
    Ok(())
}

/// The median of the pairs, the interval that contains what they vary about with a chance of 95 %,
/// and every pair.
fn put_share(sheet: &mut Sheet<'_>, group: &'static str, better: Better, shares: &[f64]) {
    sheet.put(group, PROTECTED, better, zebu_figures::median(shares));
    if let Some((from, to)) = zebu_figures::median_interval(shares) {
        sheet.put(group, format!("{PROTECTED}, 95 % interval from"), better, from);
        sheet.put(group, format!("{PROTECTED}, 95 % interval to"), better, to);
    }
    let each: Vec<String> = shares.iter().map(|share| format!("{share:.1}")).collect();
    sheet.note(&format!("{group}, by pair: {}", each.join(" ")));
}

/// Writes in an open loop of this rate: beside nothing, beside scrubs, and beside backups.
/// `program` makes backups below a directory.
fn latency(
    bout: &Bout<'_>,
    servers: &Servers,
    rate: f64,
    (program, backups): (&Path, &Path),
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<()> {
    let args = bout.args;
    let spec = LoadSpec {
        read_percent: 0,
        depth: DEPTH,
        seconds: args.rate_seconds / TURNS as f64,
        warmup: args.warmup + SETTLE_SECONDS,
        rate: Some(rate),
        ..mixed_load(bout)
    };
    let Servers { with, without } = servers;
    let window = |server: &Running| measure(&[server.address], server.process().as_slice(), &spec);
    let through = args.backups_through.iter().map(String::as_str);
    let starters = std::iter::once("").chain(through);
    let mut beside = vec![Beside::Nothing, Beside::Scrub];
    beside.extend(starters.map(Beside::Backups));
    let mut results: Vec<Option<LoadResult>> = beside.iter().map(|_| None).collect();
    for turn in 0..TURNS {
        for step in 0..beside.len() {
            let index = if turn % 2 == 0 { step } else { beside.len() - 1 - step };
            // What the work before has left to the disk would count for the next one.
            rustix::fs::sync();
            let result = match beside[index] {
                Beside::Nothing => while_paused(with, || window(without)),
                Beside::Scrub => window(with),
                Beside::Backups(starter) => {
                    beside_backups(starter, program, backups, with, || window(with))
                }
            };
            add(&mut results[index], result?);
        }
    }
    let mut quiet = None;
    for (beside, result) in beside.iter().zip(results) {
        let result = result.expect("there is a turn");
        let name = match beside {
            Beside::Nothing => "without protections".to_owned(),
            Beside::Scrub => "while a scrub runs".to_owned(),
            Beside::Backups("") => "while scrub and backups run".to_owned(),
            Beside::Backups(starter) => format!("while scrub and backups through {starter} run"),
        };
        pipeline::put(sheet, &format!("set, open loop, {rate}/s, {name}"), &result);
        let p99 = result.tally.total().latency.value_at_quantile(0.99) as f64;
        match quiet {
            None => quiet = Some(p99),
            Some(quiet) => {
                let name = format!("set, {rate}/s, {name}");
                sheet.put("times the p99 without", name, Better::Lower, p99 / quiet);
            }
        }
    }
    Ok(())
}

/// Adds a window to those before it.
fn add(sum: &mut Option<LoadResult>, window: LoadResult) {
    match sum {
        Some(sum) => sum.add(&window),
        None => *sum = Some(window),
    }
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
