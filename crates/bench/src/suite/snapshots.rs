//! Snapshots: the duration of one, and its effect on memory and on requests meanwhile.

use std::fs::{self, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::bail;
use zebu_figures::{median, number};

use crate::board::{Better, Sheet};
use crate::clock::{Nanos, nanos};
use crate::compare::{Bout, progress};
use crate::contestant::Running;
use crate::load::{LoadResult, LoadSpec, measure, prepare};
use crate::process::Process;
use crate::suite::{megabytes, mixed_load};
use crate::tally::Kind;

/// If a server takes a snapshot after a start, it begins within this time.
const BEGIN: Duration = Duration::from_secs(3);
/// The time limit for a snapshot.
const LIMIT: Duration = Duration::from_secs(300);
/// A file that has not grown for this long counts as complete.
const QUIET: Duration = Duration::from_millis(500);
/// The resolution of file times.
const TIME_GRAIN: Duration = Duration::from_millis(20);
/// The interval of memory measurements.
const LOOK: Duration = Duration::from_millis(5);
/// The most requests in flight on a connection. Later requests wait, and their wait counts.
const DEPTH: u32 = 1024;

/// The setting for several snapshots during [`under_load`]: a server takes one after between half
/// of `snapCount` and all of it.
pub(crate) fn often(bout: &Bout<'_>) -> String {
    let writes = bout.args.snapshot_rate / 2.0 * bout.args.snapshot_seconds;
    format!("snapCount={}", (writes / 2.0).max(2.0) as u64)
}

/// Waits for the snapshot of a start, and enters its size and time.
pub(crate) fn of_start(
    data: &Path,
    restart: SystemTime,
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<()> {
    let since = restart.checked_sub(TIME_GRAIN).unwrap_or(restart);
    let wait = Instant::now();
    let (meta, fresh) = loop {
        let newest = newest(data)?;
        let begun = newest.as_ref().is_some_and(|meta| is_since(meta.modified(), since));
        match newest {
            Some(meta) if begun && is_quiet(&meta) => break (meta, true),
            Some(meta) if !begun && wait.elapsed() > BEGIN => break (meta, false),
            None if wait.elapsed() > BEGIN => {
                sheet.note("no snapshot found");
                return Ok(());
            }
            _ if wait.elapsed() > LIMIT => bail!("no snapshot in {LIMIT:?}"),
            _ => thread::sleep(Duration::from_millis(20)),
        }
    };
    if !fresh {
        sheet.note("the start took no snapshot; size and time are those of one taken earlier");
    }
    sheet.put("disk, MB", "newest snapshot", Better::Lower, megabytes(meta.len()));
    // A file that is written again keeps its creation time, so the time is unknown.
    let took = match (meta.created(), meta.modified()) {
        (Ok(born), Ok(done)) if !fresh || is_since(Ok(born), since) => {
            done.duration_since(born).ok()
        }
        _ => None,
    };
    sheet.put("time, s", "write snapshot", Better::Lower, took.map(|took| took.as_secs_f64()));
    Ok(())
}

/// Sends reads and writes at a fixed rate while snapshots are written. Enters the longest latency
/// during snapshots and otherwise, and the memory that a snapshot needs. The server must have been
/// started with [`often`].
pub(crate) fn under_load(
    bout: &Bout<'_>,
    running: &Running,
    sheet: &mut Sheet<'_>,
) -> anyhow::Result<()> {
    let Some(process) = running.process() else { return Ok(()) };
    let spec = LoadSpec {
        depth: DEPTH,
        rate: Some(bout.args.snapshot_rate),
        seconds: bout.args.snapshot_seconds,
        warmup: bout.args.server_warmup,
        ..mixed_load(bout)
    };
    prepare(running.address, &spec)?;
    settle(&running.data)?;
    let is_over = AtomicBool::new(false);
    let (result, memory) = thread::scope(|scope| {
        let looking = scope.spawn(|| watch_memory(process, &is_over));
        let result = measure(&[running.address], &[process], &spec);
        is_over.store(true, Ordering::Relaxed);
        let memory = looking.join().unwrap_or_default();
        result.map(|result| (result, memory))
    })?;
    settle(&running.data)?;
    let window = window_of(&result);
    let mut written: Vec<Range<SystemTime>> = times(&running.data)?;
    written.retain(|time| window.start <= time.end && time.start <= window.end);
    if written.is_empty() {
        sheet.note("no snapshot was written under load\nhint: more --snapshot-seconds");
        return Ok(());
    }
    put(sheet, &result, &memory, &written);
    Ok(())
}

/// Enters the results of the time in which the snapshots were written.
fn put(
    sheet: &mut Sheet<'_>,
    result: &LoadResult,
    memory: &[(SystemTime, u64)],
    written: &[Range<SystemTime>],
) {
    if !result.tally.is_clean() {
        let tally = &result.tally;
        sheet.note(&format!(
            "during snapshots: errors {:?}, {} lost, {} never answered",
            tally.errors, tally.lost, tally.unanswered
        ));
    }
    let at = |time: SystemTime| {
        nanos(time.duration_since(result.origin).unwrap_or_default()) // before the load began: at its begin
    };
    let grain = nanos(TIME_GRAIN);
    let spans: Vec<Range<Nanos>> = written
        .iter()
        .map(|time| at(time.start).saturating_sub(grain)..at(time.end) + grain)
        .collect();
    let group = "longest request, ms";
    let ms = |ns: Option<Nanos>| ns.map(|ns| ns as f64 / 1e6);
    for (kind, word) in [(Kind::Read, "read"), (Kind::Write, "write")] {
        let latency = &result.tally.kind(kind).latency;
        let us = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1e3;
        for (group, quantile) in [("latency p50, us", 0.5), ("latency p99, us", 0.99)] {
            sheet.put(group, format!("{word}, all znodes"), Better::Lower, us(quantile));
        }
        let (within, outside) = result.tally.kind(kind).timeline.split(&spans);
        progress(&format!(
            "  longest {word}: {} ms while a snapshot is written, {} ms otherwise",
            ms(within).map_or_else(|| "-".to_owned(), number),
            ms(outside).map_or_else(|| "-".to_owned(), number),
        ));
        sheet.put(group, format!("{word} while a snapshot is written"), Better::Lower, ms(within));
        sheet.put(group, format!("{word} otherwise"), Better::Lower, ms(outside));
    }
    let took: Vec<f64> = written
        .iter()
        .filter_map(|time| Some(time.end.duration_since(time.start).ok()?.as_secs_f64()))
        .collect();
    sheet.put("time, s", "write snapshot under load", Better::Lower, median(&took));
    let growth = written.iter().filter_map(|time| growth(memory, time));
    if let Some((before, peak)) = growth.max_by(|a, b| (a.1 * b.0).cmp(&(b.1 * a.0))) {
        let group = "memory, MB";
        sheet.put(group, "before a snapshot under load", Better::Lower, megabytes(before));
        sheet.put(group, "peak of a snapshot under load", Better::Lower, megabytes(peak));
        let percent = (peak as f64 / before as f64 - 1.0) * 100.0;
        sheet.put("% of memory", "peak of a snapshot, above before", Better::Lower, percent);
    }
}

/// Resident memory just before a snapshot, and its maximum during the snapshot.
fn growth(memory: &[(SystemTime, u64)], time: &Range<SystemTime>) -> Option<(u64, u64)> {
    let start = time.start.checked_sub(TIME_GRAIN)?;
    let before = memory.iter().rev().find(|(at, _)| *at < start)?.1;
    let within = memory.iter().filter(|(at, _)| start <= *at && *at <= time.end + TIME_GRAIN);
    Some((before, within.map(|(_, bytes)| *bytes).max()?.max(before)))
}

fn watch_memory(process: Process, is_over: &AtomicBool) -> Vec<(SystemTime, u64)> {
    let mut seen = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if let Some(bytes) = process.rss() {
            seen.push((SystemTime::now(), bytes));
        }
        thread::sleep(LOOK);
    }
    seen
}

/// The time in which the counted requests were due.
fn window_of(result: &LoadResult) -> Range<SystemTime> {
    let at = |ns: Nanos| result.origin + Duration::from_nanos(ns);
    at(result.tally.window.start)..at(result.tally.window.end)
}

/// Waits until no snapshot is being written.
fn settle(data: &Path) -> anyhow::Result<()> {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if files(data)?.iter().all(|(_, meta)| is_quiet(meta)) {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
    bail!("snapshots are still written after {LIMIT:?}")
}

fn is_quiet(meta: &Metadata) -> bool {
    matches!(meta.modified().map(|at| at.elapsed()), Ok(Ok(age)) if age > QUIET)
}

fn is_since(at: std::io::Result<SystemTime>, since: SystemTime) -> bool {
    at.is_ok_and(|at| at >= since)
}

/// For each complete snapshot, the time from its creation to the last change of its content or, if
/// it was renamed, of its name.
fn times(data: &Path) -> anyhow::Result<Vec<Range<SystemTime>>> {
    let complete = files(data)?.into_iter().filter(|(zxid, _)| zxid.is_some());
    let time = |(_, meta): (Option<u64>, Metadata)| {
        let changed = Duration::new(
            u64::try_from(meta.ctime()).ok()?,
            u32::try_from(meta.ctime_nsec()).ok()?,
        );
        let end = meta.modified().ok()?.max(SystemTime::UNIX_EPOCH + changed);
        Some(meta.created().ok()?..end)
    };
    Ok(complete.filter_map(time).collect())
}

/// The complete snapshot with the largest zxid in its name.
pub(crate) fn newest(data: &Path) -> anyhow::Result<Option<Metadata>> {
    let complete = files(data)?.into_iter().filter_map(|(zxid, meta)| Some((zxid?, meta)));
    Ok(complete.max_by_key(|(zxid, _)| *zxid).map(|(_, meta)| meta))
}

/// The number of complete snapshots.
pub(crate) fn count(data: &Path) -> anyhow::Result<usize> {
    Ok(files(data)?.iter().filter(|(zxid, _)| zxid.is_some()).count())
}

/// All snapshots, with the zxid of those that are complete.
fn files(data: &Path) -> anyhow::Result<Vec<(Option<u64>, Metadata)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(data.join("version-2"))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.contains("snapshot.")) else { continue };
        let zxid = name.strip_prefix("snapshot.").and_then(|rest| {
            let (hex, suffix) = rest.split_once('.').unwrap_or((rest, ""));
            // A name with any other suffix than that of a compression is not complete yet.
            let is_complete = matches!(suffix, "" | "gz" | "snappy");
            u64::from_str_radix(hex, 16).ok().filter(|_| is_complete)
        });
        // The file may have been removed.
        if let Ok(meta) = entry.metadata() {
            files.push((zxid, meta));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::tally::Tally;

    #[test]
    fn the_newest_snapshot_is_the_one_with_the_largest_zxid() {
        let dir = tempfile::tempdir().unwrap();
        let version = dir.path().join("version-2");
        fs::create_dir(&version).unwrap();
        assert!(newest(dir.path()).unwrap().is_none());
        for (name, bytes) in [
            ("snapshot.9", 1),
            ("snapshot.1a.gz", 2),
            ("snapshot.ff.tmp", 3),
            ("tmp.snapshot.ff", 3),
            ("snapshot.x", 4),
            ("log.ff", 5),
        ] {
            fs::write(version.join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(newest(dir.path()).unwrap().unwrap().len(), 2);
        assert_eq!(files(dir.path()).unwrap().len(), 5);
        let complete = times(dir.path()).unwrap();
        assert_eq!(complete.len(), 2);
        assert!(complete.iter().all(|time| time.start <= time.end));
    }

    #[test]
    fn requests_and_memory_during_a_snapshot_are_told_from_the_rest() {
        const MS: u64 = 1_000_000;
        let origin = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let at = |ms: u64| origin + Duration::from_millis(ms);
        let mut tally = Tally::new(0..10_000 * MS, true);
        tally.answered(Kind::Read, 1, 100 * MS, 130 * MS);
        tally.answered(Kind::Read, 1, 2_000 * MS, 2_004 * MS);
        tally.answered(Kind::Write, 1, 2_100 * MS, 2_109 * MS);
        tally.answered(Kind::Write, 1, 5_000 * MS, 5_002 * MS);
        let result =
            LoadResult { seconds: 10.0, tally, server_cpu: None, first_break: None, origin };
        let memory = [(at(900), 500), (at(1_900), 100), (at(2_050), 125), (at(4_000), 400)];
        let mut board = Board::new(vec!["zebu".into()], 1);
        put(&mut board.sheet(0, 0), &result, &memory, &[at(1_950)..at(2_500)]);
        let json = board.to_json();
        let value = |name: &str| {
            let rows = json["rows"].as_array().unwrap();
            let row = rows.iter().find(|row| row["name"] == name).unwrap();
            row["values"]["zebu"][0].as_f64().unwrap()
        };
        assert_eq!(value("read while a snapshot is written"), 4.0);
        assert_eq!(value("read otherwise"), 30.0);
        assert_eq!(value("write while a snapshot is written"), 9.0);
        assert_eq!(value("write otherwise"), 2.0);
        assert_eq!(value("peak of a snapshot, above before"), 25.0);
        assert_eq!(value("write snapshot under load"), 0.55);
    }
}
