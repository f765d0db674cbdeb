//! `zebu bench disk`: ways to make an appended record durable, in turn, on one disk.

mod way;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::json;
use zebu_figures::{Spread, number};

use crate::cleanup::{self, GuardedDir};
use crate::output::Output;
use crate::process;
use crate::table::Table;
use way::{WAYS, Way};

/// The most bytes that one measurement writes.
const FILE_BYTES_MAX: usize = 256 << 20;

/// Measure ways to make an appended record durable: files that are empty, allocated or filled with
/// zeros, and fdatasync or O_DSYNC
#[derive(Clone, Debug, Args)]
pub(crate) struct DiskArgs {
    /// Where the files are made: on the disk to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Bytes of each record
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [256, 4096, 65536])]
    sizes: Vec<usize>,
    /// Records of each way in each round
    #[arg(long, value_name = "N", default_value_t = 200)]
    records: usize,
    /// How often each way is measured; the ways take turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Begin no further record after this time
    #[arg(long, value_name = "S", default_value_t = 120.0)]
    seconds: f64,
    /// Write the raw numbers, with all parameters, to this file (- for stdout)
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
}

/// The times of one way's records in one round, in µs.
#[derive(Clone, Copy, Debug)]
struct Figures {
    p50: f64,
    p99: f64,
    mean: f64,
}

impl Figures {
    /// `None` without times.
    fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort();
        let us = |time: &Duration| time.as_secs_f64() * 1e6;
        let at = |share: usize| times.get(times.len() * share / 100).map(us);
        let mean = times.iter().map(us).sum::<f64>() / times.len() as f64;
        Some(Self { p50: at(50)?, p99: at(99)?, mean })
    }
}

/// The figures of one length of records: for each way those of each round, if it was measured.
#[derive(Clone, Debug)]
struct Measured {
    size: usize,
    ways: Vec<Vec<Option<Figures>>>,
}

impl Measured {
    /// The figures of a way's rounds.
    fn spread(&self, way: usize, figure: impl Fn(&Figures) -> f64) -> Option<Spread> {
        Spread::of(self.ways[way].iter().flatten().map(figure))
    }

    /// A way's medians, as times of those of the first way in the same round.
    fn times_first(&self, way: usize) -> Option<Spread> {
        let rounds = self.ways[0].iter().zip(&self.ways[way]);
        let both = rounds.filter_map(|(first, other)| first.zip(*other));
        Spread::of(both.map(|(first, other)| other.p50 / first.p50))
    }

    fn render(&self) -> String {
        let mut table = Table::new([
            &format!("records of {} bytes", number(self.size as f64)),
            "p50 us",
            "p99 us",
            "mean us",
            "times the first",
            "spread",
        ]);
        let median = |of: Option<Spread>| of.map_or("-".to_owned(), |of| number(of.median));
        for (index, way) in WAYS.iter().enumerate() {
            let times = self.times_first(index);
            let spread = times.filter(|of| of.count > 1);
            table.row([
                way.name.to_owned(),
                median(self.spread(index, |of| of.p50)),
                median(self.spread(index, |of| of.p99)),
                median(self.spread(index, |of| of.mean)),
                median(times),
                spread.map_or(String::new(), |of| {
                    format!("{}..{}", number(of.least), number(of.most))
                }),
            ]);
        }
        table.render()
    }

    fn to_json(&self) -> serde_json::Value {
        let round = |figures: &Option<Figures>| {
            figures.map(|of| json!({ "p50_us": of.p50, "p99_us": of.p99, "mean_us": of.mean }))
        };
        let ways = WAYS.iter().zip(&self.ways).map(|(way, rounds)| {
            json!({ "way": way.name, "rounds": rounds.iter().map(round).collect::<Vec<_>>() })
        });
        json!({ "size": self.size, "ways": ways.collect::<Vec<_>>() })
    }
}

pub(crate) fn run(args: &DiskArgs) -> anyhow::Result<()> {
    args.check()?;
    cleanup::on_interrupt();
    let time = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    let deadline = Instant::now().checked_add(time).context("--seconds is too long")?;
    let load_average = process::load_average();
    let dir = tempfile::Builder::new()
        .prefix("zebu-bench-disk-")
        .tempdir_in(std::path::absolute(&args.dir)?)
        .with_context(|| format!("make a directory in {}", args.dir.display()))?;
    let _guard = GuardedDir::new(dir.path());

    let blank = |&size: &usize| Measured { size, ways: vec![vec![]; WAYS.len()] };
    let mut measured: Vec<Measured> = args.sizes.iter().map(blank).collect();
    let mut notes = Vec::new();
    for round in 0..args.rounds {
        for (number, of_size) in measured.iter_mut().enumerate() {
            // Each round begins with another way: a disk may be slower after some of them.
            for turn in 0..WAYS.len() {
                let index = (turn + round) % WAYS.len();
                let path = dir.path().join(format!("{round}-{number}-{index}"));
                let figures = args.measure(&WAYS[index], &path, of_size.size, deadline, &mut notes);
                of_size.ways[index].push(figures?);
            }
        }
    }
    notes.dedup();
    let output = Output::new(args.json.as_deref());
    let busy = load_average.map_or("unknown".to_owned(), number);
    output.line(&format!(
        "{} records in each of {} rounds; load average before {busy}\n",
        args.records, args.rounds
    ));
    for of_size in &measured {
        output.line(&of_size.render());
    }
    for note in &notes {
        output.line(&format!("note: {note}"));
    }
    output.json(&json!({
        "command": "disk",
        "machine": process::machine(),
        "load_average": load_average,
        "parameters": { "records": args.records, "rounds": args.rounds, "seconds": args.seconds },
        "sizes": measured.iter().map(Measured::to_json).collect::<Vec<_>>(),
        "notes": notes,
    }))
}

impl DiskArgs {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.rounds > 0, "at least one round is needed");
        ensure!(self.records > 0, "at least one record is needed");
        ensure!(self.seconds > 0.0, "some time is needed: {}", self.seconds);
        for &size in &self.sizes {
            ensure!(size > 0, "a record has at least one byte");
            ensure!(
                size.checked_mul(self.records).is_some_and(|bytes| bytes <= FILE_BYTES_MAX),
                "{} records of {size} bytes are more than {FILE_BYTES_MAX} bytes",
                self.records
            );
        }
        Ok(())
    }

    /// Writes the records of one way and round. `None`: the time was over, or this file system does
    /// not have the way, which is then noted.
    ///
    /// The file stays until the end: on some disks, its removal would slow down what comes next.
    fn measure(
        &self,
        way: &Way,
        path: &Path,
        size: usize,
        deadline: Instant,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Option<Figures>> {
        if Instant::now() >= deadline {
            notes.push(format!("the time of --seconds {} was over", self.seconds));
            return Ok(None);
        }
        let mut file = match way.prepare(path, (size * self.records) as u64) {
            Ok(file) => file,
            Err(error) if way::is_missing(&error) => {
                notes.push(format!("{}: not on this file system: {error}", way.name));
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("prepare: {}", way.name)),
        };
        let mut times = Vec::with_capacity(self.records);
        for index in 0..self.records {
            let record = vec![record_byte(index); size];
            let start = Instant::now();
            file.append(&record).with_context(|| format!("write: {}", way.name))?;
            times.push(start.elapsed());
            if Instant::now() >= deadline {
                break;
            }
        }
        Ok(Figures::of(times))
    }
}

/// The byte that fills a record: never zero.
fn record_byte(index: usize) -> u8 {
    (index % 255) as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path, records: usize) -> DiskArgs {
        DiskArgs {
            dir: dir.to_owned(),
            sizes: vec![700],
            records,
            rounds: 2,
            seconds: 60.0,
            json: None,
        }
    }

    #[test]
    fn every_way_leaves_the_same_records_and_nothing_but_zeros_behind_them() {
        let dir = tempfile::tempdir().unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        for size in [700, 4096, 5000] {
            let records: Vec<u8> = (0..20).flat_map(|i| vec![record_byte(i); size]).collect();
            for (index, way) in WAYS.iter().enumerate() {
                let path = dir.path().join(format!("{size}-{index}"));
                let mut notes = vec![];
                let figures =
                    args(dir.path(), 20).measure(way, &path, size, later, &mut notes).unwrap();
                if figures.is_none() {
                    // A file system in memory has no O_DIRECT, for instance.
                    assert!(notes[0].contains("not on this file system"), "{notes:?}");
                    continue;
                }
                let content = std::fs::read(&path).unwrap();
                let (written, rest) = content.split_at(records.len());
                assert!(written == records, "{}, {size} bytes", way.name);
                assert!(rest.iter().all(|byte| *byte == 0), "{}, {size} bytes", way.name);
            }
        }
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let figures = |p50| Some(Figures { p50, p99: 10.0 * p50, mean: 2.0 * p50 });
        let mut ways = vec![vec![None; 3]; WAYS.len()];
        ways[0] = vec![figures(100.0), figures(200.0), figures(400.0)];
        ways[1] = vec![figures(50.0), figures(200.0), None];
        let text = Measured { size: 4096, ways }.render();
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split("  ").collect()).collect();
        let cells = |line: usize| -> Vec<&str> {
            lines[line][1..]
                .iter()
                .map(|cell| cell.trim())
                .filter(|cell| !cell.is_empty())
                .collect()
        };
        assert!(text.starts_with("records of 4,096 bytes"), "{text}");
        assert_eq!(cells(1), ["200", "2,000", "400", "1.00", "1.00..1.00"]);
        assert_eq!(cells(2), ["125", "1,250", "250", "0.750", "0.500..1.00"]);
        assert_eq!(cells(3), ["-", "-", "-", "-"]);
    }

    #[test]
    fn what_the_time_did_not_allow_is_noted() {
        let dir = tempfile::tempdir().unwrap();
        let (args, now) = (args(dir.path(), 20), Instant::now());
        let mut notes = vec![];
        let figures = args.measure(&WAYS[0], &dir.path().join("a"), 1, now, &mut notes).unwrap();
        assert!(figures.is_none() && std::fs::read_dir(dir.path()).unwrap().count() == 0);
        assert_eq!(notes, ["the time of --seconds 60 was over"]);
    }
}
