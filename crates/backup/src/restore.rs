//! `zebu restore`: rebuilds a data directory as it was at a point, from a backup or from another
//! data directory.
//!
//! The result is one snapshot. A server that starts with it has the tree of that moment, and no
//! history.

mod live;
pub mod rebuild;
mod subtree;

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use zebu_credentials::CredentialArgs;
use zebu_proto::path::reserved;
use zebu_proto::{EnsembleId, Identity, Zxid};
use zebu_state::{Outline, Rebuild, Step};
use zebu_store::{EnsembleFile, OsVfs, Store, Written};
use zebu_tree::Tree;

use crate::dates::{self, Point};
use crate::error::{At as _, BackupError, Result};
use crate::identity;
use crate::repository::{Repository, is_bucket};
use crate::source::{Directory, Source};
use crate::stored::Stored;
use live::Target;
use rebuild::{Built, Proof, tree_options};

/// The number of znodes that are written at a time.
const STEP_ZNODES: usize = 1024;
/// Maximum bytes of a batch.
const STEP_BYTES: usize = 1 << 20;

/// Arguments of `zebu restore`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Restore a data directory as it was at a point",
    long_about = "Restore a data directory as it was at a point, from a backup or from another data directory.\n\n\
        Builds the tree from a snapshot and the transactions after it, and writes one snapshot into a directory that is new \
        or empty. Zebu and ZooKeeper start with it. The source is not changed.\n\n\
        With --subtree, shows what it takes to make one subtree of a live ensemble what it was at that point; with --apply, \
        carries it out as a client. Each change names the version that was shown, so nobody's later change is lost; nothing \
        outside of the subtree is touched. Ephemerals are left out. A run that was interrupted is run again.",
    after_long_help = "\
Examples:
  zebu restore /backup/zk --into /var/lib/zookeeper
  zebu restore /backup/zk --to 2026-11-25T04:50:00Z --into restored
  zebu restore /var/lib/zookeeper --to 0x100000004 --into restored
  zebu restore /backup/zk --to 0x100000004 --subtree /app --into-server zk1:2181
  zebu restore /backup/zk --to 0x100000004 --subtree /app --into-server zk1:2181 --over --apply

Exit codes: 0 restored or shown, 1 failed or something stays different, 2 wrong options."
)]
pub struct RestoreArgs {
    /// A backup, or a data directory
    #[arg(value_name = "FROM")]
    pub from: PathBuf,

    /// The directory of the logs (dataLogDir), if FROM is a data directory with a separate one
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,

    /// The new data directory (dataDir)
    #[arg(short, long, value_name = "DIR", required_unless_present = "into_server")]
    pub into: Option<PathBuf>,

    /// Restore this znode and its descendants into a live ensemble
    #[arg(long, value_name = "PATH", requires = "into_server")]
    pub subtree: Option<String>,

    /// The servers of the live ensemble, as in zk1:2181,zk2:2181
    #[arg(long, value_name = "SERVERS", requires = "subtree", conflicts_with = "into")]
    pub into_server: Option<String>,

    /// Overwrite and delete existing znodes of the subtree
    #[arg(long, requires = "subtree")]
    pub over: bool,

    /// Execute the changes that are shown
    #[arg(long, requires = "subtree")]
    pub apply: bool,

    /// A file with an identity that may read and write the subtree, one line: a scheme and a
    /// credential, as in `digest root:secret`
    #[arg(long, value_name = "FILE", requires = "subtree")]
    pub auth_file: Option<PathBuf>,

    /// Over what, and as whom.
    #[command(flatten)]
    pub credentials: CredentialArgs,

    /// The last transaction to restore: a zxid (0x…) or a time [default: the newest]
    #[arg(long, value_name = "POINT", value_parser = dates::parse_point)]
    pub to: Option<Point>,

    /// Which backup, instead of the newest
    #[arg(long, value_name = "NUMBER")]
    pub number: Option<u64>,

    /// The file with the key of an encrypted backup, as age-keygen writes it
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,

    /// Take a snapshot with traces of later transactions, where no logs make it exact
    #[arg(long)]
    pub fuzzy: bool,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &RestoreArgs) -> ExitCode {
    crate::end(act(args, &mut io::stdout().lock()))
}

fn act(args: &RestoreArgs, out: &mut dyn Write) -> Result<bool> {
    if let Some(into) = &args.into {
        check_empty(into)?;
    }
    let source: Box<dyn Source> = match (Repository::open(&args.from), args.number) {
        (Ok(mut repository), number) => {
            repository.unlock(args.identity.as_deref())?;
            if args.log_dir.is_some() {
                let wrong = "--log-dir is for a data directory, and FROM is a backup";
                return Err(BackupError::Usage(wrong.to_owned()));
            }
            Box::new(Stored::open(repository, number)?)
        }
        (Err(error), _) if is_bucket(&args.from) => return Err(error),
        (Err(error), Some(_)) => return Err(BackupError::NumberOfNone(Box::new(error))),
        (Err(_), None) if args.identity.is_some() => {
            let wrong = "--identity is for a backup, and FROM is a data directory";
            return Err(BackupError::Usage(wrong.to_owned()));
        }
        (Err(_), None) => {
            Box::new(Directory::open(Arc::new(OsVfs), &args.from, args.log_dir.as_deref())?)
        }
    };
    let mut built = rebuild::build(source.as_ref(), args.to, args.fuzzy)?;
    let into = match (&args.subtree, &args.into_server, &args.into) {
        (Some(subtree), Some(servers), _) => {
            let (over, apply, json) = (args.over, args.apply, args.json);
            let target = Target { subtree, servers, over, apply, json };
            let identity = args.auth_file.as_deref().map(identity::read).transpose()?;
            let credentials = args.credentials.load(|remark| eprintln!("note: {remark}"))?;
            return live::restore(&built, &target, identity, &credentials, out);
        }
        (_, _, Some(into)) => into,
        _ => return Err(BackupError::Usage("--into or --into-server is needed".to_owned())),
    };
    let cleared = clear_configuration(&mut built.tree);
    let written = write(&built.tree, into)?;
    // The restored data become a new ensemble.
    let ensemble = new_ensemble();
    EnsembleFile::new(Arc::new(OsVfs), into).write(Identity::Settled(ensemble))?;
    report(&built, &written, (&source.name(), cleared, ensemble), args.json, out)
        .map_err(BackupError::Output)?;
    Ok(true)
}

/// An id that no other ensemble has: the standard library's hash keys are random.
fn new_ensemble() -> EnsembleId {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    EnsembleId(half() << 64 | half())
}

/// Refuses a directory that is not empty.
pub(crate) fn check_empty(into: &Path) -> Result<()> {
    match fs::read_dir(into) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(entry) => {
                let found = entry.at(into)?.file_name().display().to_string();
                Err(BackupError::NotEmpty { path: into.to_owned(), found })
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at(into),
    }
}

/// Empties the znode with the old ensemble's configuration, because the new ensemble writes its
/// own. Returns whether the znode existed.
fn clear_configuration(tree: &mut Tree) -> bool {
    let has = tree.node(reserved::CONFIG).is_some_and(|node| node.data_bytes() > 0);
    if has {
        tree.show_configuration(b"", Zxid::ZERO, 0);
    }
    has
}

/// Writes the tree as the only snapshot of a new data directory, and reads it back.
///
/// # Errors
/// It cannot be written, or reading it back gives different data.
pub fn write(tree: &Tree, into: &Path) -> Result<Written> {
    let options = zebu_store::Options::new(into);
    let mut store = Store::open(Arc::new(OsVfs), options)?;
    let found = store.recover(&mut Rebuild::new(tree_options()))?;
    if !found.fresh {
        let found = "a log or a snapshot".to_owned();
        return Err(BackupError::NotEmpty { path: into.to_owned(), found });
    }
    let (log, snapshots) = store.split();
    let mut taking = Outline::of(tree).begin(&snapshots)?;
    while taking.step(tree, STEP_ZNODES, STEP_BYTES) == Step::More {
        taking.flush()?;
    }
    let written = taking.finish(true, true)?;
    drop(log);
    let again = rebuild::build(&Directory::open(Arc::new(OsVfs), into, None)?, None, false)?.tree;
    let is_same = (again.last_zxid(), again.digest(), again.znode_count(), again.sessions().len())
        == (tree.last_zxid(), tree.digest(), tree.znode_count(), tree.sessions().len());
    if !is_same {
        return Err(BackupError::NotWritten(written.path));
    }
    Ok(written)
}

fn report(
    built: &Built,
    written: &Written,
    (source, cleared, ensemble): (&str, bool, EnsembleId),
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Built { tree, zxid, time_ms, snapshot, replayed, proof, rejected } = built;
    let (znodes, sessions) = (tree.znode_count(), tree.sessions().len());
    let ephemerals = tree.ephemerals_count();
    let (path, bytes) = (written.path.display().to_string(), written.bytes);
    let proof = match proof {
        Proof::Digest => "the digest of the last transaction matches".to_owned(),
        Proof::Sections => "the snapshot has no traces of later transactions".to_owned(),
        Proof::LaterSnapshot => "the snapshot was complete before this moment".to_owned(),
        Proof::End => "there are no later transactions".to_owned(),
        Proof::FromNothing => "built from the first transaction on".to_owned(),
        Proof::Fuzzy(traces) => {
            format!("not exact: the snapshot has traces of some transactions up to {traces}")
        }
        Proof::OtherDigest => "the digest of the last transaction does not match".to_owned(),
    };
    if json {
        let value = json!({
            "zxid": zxid.to_string(), "time": time_ms.map(dates::utc), "source": source,
            "snapshot": snapshot.map(|zxid| zxid.to_string()), "replayed": replayed, "proof": proof,
            "znodes": znodes, "sessions": sessions, "ephemerals": ephemerals,
            "written": path, "bytes": bytes, "configuration_cleared": cleared, "rejected": rejected,
            "ensemble": ensemble.to_string(),
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    for rejected in rejected {
        writeln!(out, "not used: {rejected}")?;
    }
    let time = time_ms.map(|ms| format!(" of {}", dates::utc(ms))).unwrap_or_default();
    let base = match snapshot {
        Some(snapshot) => format!("snapshot {snapshot} and {replayed} transactions"),
        None => format!("{replayed} transactions, from the first one on"),
    };
    writeln!(out, "restored up to transaction {zxid}{time}")?;
    writeln!(out, "from {source}: {base}; {proof}")?;
    writeln!(out, "{znodes} znodes, {sessions} sessions with {ephemerals} ephemerals")?;
    if cleared {
        writeln!(
            out,
            "{} was emptied: the new ensemble writes its own configuration",
            reserved::CONFIG
        )?;
    }
    writeln!(out, "wrote {path}, {bytes} bytes")?;
    writeln!(
        out,
        "these data are a new ensemble, {ensemble}: servers of the old one refuse it, and are refused"
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
