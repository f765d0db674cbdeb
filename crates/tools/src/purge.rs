//! `zebu purge`: removes snapshots and logs that no start needs.
//!
//! Its arguments and output are those of the original's `PurgeTxnLog`, which `zkCleanup.sh` runs.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use zebu_store::{OsVfs, StoreError, purge_beside};

use crate::date;
use crate::failure::Failure;

/// The smallest number of snapshots to keep.
const KEEP_MIN: i32 = 3;

const USAGE: &str = "\
Usage:
PurgeTxnLog dataLogDir [snapDir] -n count
\tdataLogDir -- path to the txn log directory
\tsnapDir -- path to the snapshot directory
\tcount -- the number of old snaps/logs you want to keep, value should be greater than or equal to 3";

/// Arguments of `zebu purge`.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(
    about = "Remove old snapshots and logs, while the server runs or not",
    long_about = "Remove old snapshots and logs, while the server runs or not.\n\n\
        The newest COUNT snapshots that are sound are kept, and the logs they need; while there are not so many nothing is \
        removed. If something is to be removed, each of these snapshots is read to its end. A server does the same by itself \
        with autopurge.purgeInterval.",
    override_usage = "zebu purge <DATA_LOG_DIR> [SNAP_DIR] -n <COUNT>"
)]
pub struct PurgeArgs {
    /// Directories, and how many to keep
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub words: Vec<String>,
}

/// The arguments of a purge.
#[derive(Debug, PartialEq, Eq)]
struct Job {
    log_dir: PathBuf,
    data_dir: PathBuf,
    keep: usize,
}

/// Purges, and prints the removed files.
pub fn run(args: &PurgeArgs) -> ExitCode {
    let mut out = io::stdout();
    let job = match parse(&args.words) {
        Ok(job) => job,
        Err(wrong) => {
            if !wrong.is_empty() {
                eprintln!("{wrong}");
            }
            // The output may be closed.
            writeln!(out, "{USAGE}").ok();
            return ExitCode::FAILURE;
        }
    };
    match purge(&job, &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::from(error).report(),
    }
}

/// Parses the arguments. An empty error means that only the usage helps.
fn parse(words: &[String]) -> Result<Job, String> {
    let (dirs, [option, count]) = words.split_last_chunk().ok_or_else(String::new)?;
    let [log_dir, rest @ ..] = dirs else { return Err(String::new()) };
    if rest.len() > 1 {
        return Err(String::new());
    }
    for dir in dirs {
        if !Path::new(dir).exists() {
            return Err(format!("Path '{}' does not exist. ", absolute(dir)));
        }
    }
    let keep: i32 =
        count.parse().map_err(|_| format!("'{count}' can not be parsed to integer."))?;
    if keep < KEEP_MIN {
        return Err(format!("count should be greater than or equal to {KEEP_MIN}"));
    }
    if option != "-n" {
        return Err(String::new());
    }
    let data_dir = rest.first().unwrap_or(log_dir).into();
    Ok(Job { log_dir: log_dir.into(), data_dir, keep: keep.unsigned_abs() as usize })
}

fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

fn purge(job: &Job, out: &mut dyn Write) -> Result<(), StoreError> {
    let mut remove = |path: &Path| {
        let changed = fs::metadata(path)?.modified()?;
        let changed = jiff::Timestamp::try_from(changed).map_err(io::Error::other)?;
        writeln!(out, "Removing file: {}\t{}", date::medium(changed), path.display()).ok();
        fs::remove_file(path)
    };
    let purged = purge_beside(&OsVfs, &job.data_dir, &job.log_dir, job.keep, &mut remove)?;
    for rotten in purged.damaged {
        let zebu_store::scrub::Rotten { path, offset, reason, .. } = rotten;
        let path = path.display();
        eprintln!(
            "warning: damaged, so it is not one of the {keep} to keep: {path}, offset {offset}: {reason}",
            keep = job.keep
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_are_the_originals() {
        let job = parse(&words("/tmp / -n 5")).unwrap();
        assert_eq!((job.log_dir, job.data_dir, job.keep), ("/tmp".into(), "/".into(), 5));
        assert_eq!(parse(&words("/tmp -n 3")).unwrap().data_dir, Path::new("/tmp"));
        let wrong = |line| parse(&words(line)).unwrap_err();
        assert_eq!(wrong("/tmp -n 2"), "count should be greater than or equal to 3");
        assert_eq!(wrong("/tmp -n x"), "'x' can not be parsed to integer.");
        assert_eq!(wrong("/no/where -n 3"), "Path '/no/where' does not exist. ");
        for line in ["", "-n 3", "/tmp -x 3", "/tmp / / -n 3"] {
            assert_eq!(wrong(line), "", "{line}");
        }
    }

    #[test]
    fn a_damaged_snapshot_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("version-2");
        fs::create_dir(&dir).unwrap();
        let mut snapshot =
            include_bytes!("../../../tests/fixtures/zookeeper-3.9.5/basic/version-2/snapshot.48")
                .to_vec();
        for zxid in [1, 2, 3, 4] {
            fs::write(dir.join(format!("snapshot.{zxid}")), &snapshot).unwrap();
        }
        let middle = snapshot.len() / 2;
        snapshot[middle] ^= 1;
        fs::write(dir.join("snapshot.3"), &snapshot).unwrap();
        let job = Job { log_dir: folder.path().into(), data_dir: folder.path().into(), keep: 3 };
        let mut out = Vec::new();
        purge(&job, &mut out).unwrap();
        assert!(out.is_empty(), "only three are sound");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 4);
    }

    #[test]
    fn what_is_old_goes_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("version-2");
        fs::create_dir(&dir).unwrap();
        // Files that look like complete snapshots: a header, and the last bytes of a snapshot.
        let snapshot =
            include_bytes!("../../../tests/fixtures/zookeeper-3.9.5/basic/version-2/snapshot.48");
        for zxid in [1, 2, 3, 4, 5] {
            fs::write(dir.join(format!("snapshot.{zxid}")), snapshot).unwrap();
            fs::write(dir.join(format!("log.{zxid}")), b"").unwrap();
        }
        let job = Job { log_dir: folder.path().into(), data_dir: folder.path().into(), keep: 3 };
        let mut out = Vec::new();
        purge(&job, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let names: Vec<&str> = out.lines().filter_map(|line| line.rsplit('/').next()).collect();
        assert_eq!(names, ["snapshot.1", "snapshot.2", "log.1", "log.2"]);
        assert!(out.lines().all(|line| line.starts_with("Removing file: ")), "{out}");
        let left = fs::read_dir(&dir).unwrap().count();
        assert_eq!(left, 6);
    }
}
