//! Builds the tree as it was after a transaction, from snapshots and logs, and proves the result.
//!
//! A snapshot is fuzzy: it may contain effects of transactions that were applied while it was
//! written. A snapshot with effects of transactions after the wanted one must not be used. The
//! digests in transactions, which are those of the tree after the transaction, decide this for
//! certain. Without digests, the snapshot's own data or a later snapshot decide.

use zebu_proto::txn::{DIGEST_VERSION, TxnRecord};
use zebu_proto::{ExtendedTypes, OpCode, Zxid};
use zebu_state::Rebuild;
use zebu_store::snapshot::read::Sections;
use zebu_store::{Recover as _, Refused};
use zebu_tree::{Options, Tree};

use crate::dates::{self, Point};
use crate::error::{BackupError, Result};
use crate::source::{LogDamage, LogFile, SnapFile, Source, follows};

/// A tree that was built.
#[derive(Debug)]
pub struct Built {
    /// The tree.
    pub tree: Tree,
    /// Its last transaction.
    pub zxid: Zxid,
    /// Its time, if a log contains it.
    pub time_ms: Option<i64>,
    /// The snapshot that it was built from; `None` if it was built from the first transaction.
    pub snapshot: Option<Zxid>,
    /// The number of transactions that were applied to it.
    pub replayed: u64,
    /// The proof that it is the tree as of its zxid.
    pub proof: Proof,
    /// Newer snapshots that could not be used, with the reasons.
    pub rejected: Vec<String>,
}

/// The proof that a tree is the tree as of its zxid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Its digest equals the one in its last transaction.
    Digest,
    /// The snapshot itself proves that it contains no effects of later transactions.
    Sections,
    /// A later snapshot was begun before this transaction, so this snapshot was complete.
    LaterSnapshot,
    /// There are no later transactions.
    End,
    /// It was built from the first transaction.
    FromNothing,
    /// No proof: the snapshot contains effects of some transactions up to this one, and the caller
    /// accepts that.
    Fuzzy(Zxid),
    /// No proof: its digest differs from the one in its last transaction, and the caller wants the
    /// tree that a start builds.
    OtherDigest,
}

/// The required proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Any proof.
    Proved,
    /// Any proof, or a tree with effects of later transactions.
    Fuzzy,
    /// None: the tree that a start builds, whatever the digests say.
    AsStarted,
}

/// The options of a tree with every kind of znode that a log may contain.
pub fn tree_options() -> Options {
    let types = ExtendedTypes { enabled: true, emulate_353: false };
    Options { types, ..Options::default() }
}

/// The extent of a source.
#[derive(Clone, Debug, Default)]
struct Extent {
    /// The last transaction of the logs or of the last snapshot.
    last: Zxid,
    /// The last transaction up to the wanted point, and its time.
    wanted: Option<(Zxid, i64)>,
    /// Whether a transaction after the wanted point follows.
    is_over: bool,
    /// Damage after the last transaction: later transactions are unknown.
    damage: Option<String>,
}

/// Builds the tree as of a point, or of the end.
///
/// `fuzzy`: whether a snapshot with effects of later transactions is acceptable. The tree then
/// counts as that of the last such transaction.
///
/// # Errors
/// The source does not reach the point, or a necessary file is missing or damaged.
pub fn build(source: &dyn Source, point: Option<Point>, fuzzy: bool) -> Result<Built> {
    build_as(source, point, if fuzzy { Wanted::Fuzzy } else { Wanted::Proved })
}

/// Builds the tree as a start does, up to a transaction. [`Proof::OtherDigest`]: the digests
/// contradict it.
///
/// # Errors
/// As for [`build`].
pub fn build_as_started(source: &dyn Source, zxid: Zxid) -> Result<Built> {
    build_as(source, Some(Point::Zxid(zxid)), Wanted::AsStarted)
}

fn build_as(source: &dyn Source, point: Option<Point>, wanted: Wanted) -> Result<Built> {
    let logs = source.logs()?;
    let snapshots = source.snapshots()?;
    let extent = survey(source, &logs, &snapshots, point)?;
    let name = source.name();
    let is_named = matches!(point, Some(Point::Zxid(_)));
    if let Some(damage) = extent.damage.as_ref().filter(|_| !extent.is_over && !is_named) {
        return Err(BackupError::DamagedEnd { damage: damage.clone(), last: extent.last });
    }
    let target = match point {
        None => extent.last,
        Some(Point::Zxid(zxid)) => {
            if zxid > extent.last {
                let last = extent.last;
                return Err(BackupError::EndsBefore { source_name: name, last, wanted: zxid });
            }
            zxid
        }
        Some(Point::Time(ms)) => {
            let Some((zxid, _)) = extent.wanted else {
                let time = dates::utc(ms);
                return Err(BackupError::BeginsAfter { source_name: name, time });
            };
            zxid
        }
    };
    // The last transaction that certainly precedes the target. No earlier one is acceptable.
    let snapshot = snapshots.iter().rev().map(|file| file.zxid).find(|zxid| *zxid <= target);
    let logged = extent.wanted.map(|(zxid, _)| zxid).filter(|zxid| *zxid <= target);
    let needed = logged.max(snapshot).unwrap_or(Zxid::ZERO);
    let mut rejected = Vec::new();
    let older = snapshots.iter().rev().filter(|file| file.zxid <= target).map(Some);
    let is_whole = logs.first().is_some_and(is_first);
    for candidate in older.chain(is_whole.then_some(None)) {
        let later = snapshots.iter().any(|file| {
            candidate.is_some_and(|candidate| candidate.zxid < file.zxid && file.zxid <= target)
        });
        match attempt(source, &logs, candidate, target)? {
            Ok(attempt) if attempt.tree.last_zxid() < needed => {
                let last = attempt.tree.last_zxid();
                rejected.push(called(candidate, &format!("the logs after it end with {last}")));
            }
            Ok(mut attempt) => match attempt.proof(later, extent.last, wanted) {
                Ok(proof) => {
                    if let Proof::Fuzzy(traces) = proof {
                        attempt.tree.set_last_zxid(traces);
                    }
                    let zxid = attempt.tree.last_zxid();
                    let time_ms = attempt.last_ms.or_else(|| {
                        extent.wanted.filter(|(wanted, _)| *wanted == zxid).map(|(_, ms)| ms)
                    });
                    let (tree, replayed) = (attempt.tree, attempt.replayed);
                    let snapshot = candidate.map(|file| file.zxid);
                    return Ok(Built { tree, zxid, time_ms, snapshot, replayed, proof, rejected });
                }
                Err(reason) => rejected.push(called(candidate, &reason)),
            },
            Err(reason) => rejected.push(called(candidate, &reason)),
        }
    }
    let reasons =
        if rejected.is_empty() { format!("{name} begins later") } else { rejected.join("\n") };
    Err(BackupError::Unreachable { source_name: name, wanted: target, reasons })
}

fn called(candidate: Option<&SnapFile>, reason: &str) -> String {
    match candidate {
        Some(file) => format!("{}: {reason}", file.path.display()),
        None => format!("from the first transaction on: {reason}"),
    }
}

/// Reads the logs once, to find the point.
fn survey(
    source: &dyn Source,
    logs: &[LogFile],
    snapshots: &[SnapFile],
    point: Option<Point>,
) -> Result<Extent> {
    let mut extent = Extent::default();
    for log in logs {
        let report = source.read_log(log, &mut |record| {
            if record.zxid <= extent.last {
                return Ok(());
            }
            let bytes = record.body.get(20..28).expect("a record is not smaller than its header");
            let time_ms = i64::from_be_bytes(bytes.try_into().expect("eight bytes"));
            (extent.last, extent.damage) = (record.zxid, None);
            extent.is_over |= point.is_some_and(|point| point.is_before(record.zxid, time_ms));
            if !extent.is_over {
                extent.wanted = Some((record.zxid, time_ms));
            }
            Ok(())
        })?;
        extent.damage = report.and_then(|report| report.damage).map(|damage| told(log, &damage));
    }
    if let Some(file) = snapshots.last() {
        extent.last = extent.last.max(file.zxid);
    }
    Ok(extent)
}

fn told(log: &LogFile, damage: &LogDamage) -> String {
    format!("{}: {damage}", log.path.display())
}

/// Whether a log begins with the first transaction.
fn is_first(log: &LogFile) -> bool {
    match log.previous {
        Some(previous) => previous == Zxid::ZERO,
        None => log.first.counter() == 1 && log.first.epoch().0 <= 1,
    }
}

/// A tree that may be the wanted one.
struct Attempt {
    tree: Tree,
    sections: Option<Sections>,
    replayed: u64,
    last_ms: Option<i64>,
    /// The last digest in a transaction.
    digest: Option<i64>,
}

impl Attempt {
    /// The proof for this tree, or the reason why there is none.
    fn proof(&self, later: bool, end: Zxid, wanted: Wanted) -> Result<Proof, String> {
        let last = self.tree.last_zxid();
        if let Some(sections) = &self.sections {
            let traces = [sections.last_zxid, sections.digest.map(|(zxid, ..)| zxid)];
            if let Some(traces) = traces.into_iter().flatten().max().filter(|traces| *traces > last)
            {
                if wanted == Wanted::Fuzzy {
                    return Ok(Proof::Fuzzy(traces));
                }
                return Err(format!(
                    "it has traces of transactions up to {traces}, so it is no exact moment (--fuzzy takes it all the same)"
                ));
            }
        }
        match self.digest {
            Some(digest) if digest == self.tree.digest() => return Ok(Proof::Digest),
            Some(_) if wanted == Wanted::AsStarted => return Ok(Proof::OtherDigest),
            Some(_) => {
                return Err(
                    "the digest of the resulting tree differs from that of the log".to_owned()
                );
            }
            None => {}
        }
        match &self.sections {
            None => Ok(Proof::FromNothing),
            Some(sections) if sections.last_zxid.is_some() => Ok(Proof::Sections),
            _ if later => Ok(Proof::LaterSnapshot),
            _ if last == end => Ok(Proof::End),
            _ => Err("it may have traces of later transactions, and there are no digests to tell"
                .to_owned()),
        }
    }
}

/// Loads a snapshot, and applies every transaction up to the wanted one. The inner error is the
/// reason why that fails.
fn attempt(
    source: &dyn Source,
    logs: &[LogFile],
    candidate: Option<&SnapFile>,
    target: Zxid,
) -> Result<Result<Attempt, String>> {
    let mut rebuild = Rebuild::new(tree_options());
    rebuild.restart();
    let mut sections = None;
    let start = candidate.map_or(Zxid::ZERO, |file| file.zxid);
    if let Some(file) = candidate {
        match source.read_snapshot(file, &mut rebuild) {
            Ok(Some(read)) => sections = Some(read),
            Ok(None) => return Ok(Err("it was removed meanwhile".to_owned())),
            Err(error) => return Ok(Err(format!("{error}"))),
        }
    }
    if let Err(reason) = rebuild.loaded(start) {
        return Ok(Err(reason.to_string()));
    }
    let (mut last, mut replayed, mut last_ms, mut digest) = (start, 0, None, None);
    // The last log that begins no later than the next transaction contains it.
    let from = logs.iter().rposition(|log| log.first.0 <= start.0.saturating_add(1)).unwrap_or(0);
    for log in &logs[from..] {
        if log.first > target || last >= target {
            break;
        }
        let mut previous = log.previous;
        let mut broken = None;
        let report = source.read_log(log, &mut |record| {
            let previous = previous.take();
            if record.zxid <= last || record.zxid > target || broken.is_some() {
                return Ok(());
            }
            let is_next = match previous {
                Some(previous) => previous <= last,
                None if last == Zxid::ZERO => {
                    record.zxid.counter() == 1 && record.zxid.epoch().0 <= 1
                }
                None => follows(last, record.zxid),
            };
            if !is_next {
                broken =
                    Some(format!("transactions between {last} and {} are missing", record.zxid));
                return Ok(());
            }
            let wrong = |reason: Refused| {
                let (path, zxid) = (log.path.clone(), record.zxid);
                BackupError::Txn { path, zxid, reason }
            };
            let decoded = TxnRecord::decode(record.body).map_err(|error| wrong(error.into()))?;
            // A failed request changes nothing, and has no digest.
            if decoded.header.op != OpCode::ERROR {
                let found = decoded.digest.filter(|found| found.version == DIGEST_VERSION);
                digest = found.map(|found| found.tree);
            }
            rebuild.txn(record.body).map_err(wrong)?;
            (last, last_ms) = (record.zxid, Some(decoded.header.time_ms));
            replayed += 1;
            Ok(())
        })?;
        if let Some(reason) = broken {
            return Ok(Err(reason));
        }
        let report = report.ok_or_else(|| BackupError::Gone(log.path.clone()))?;
        if let Some(damage) = report.damage.filter(|damage| damage.last < target) {
            return Ok(Err(told(log, &damage)));
        }
    }
    if replayed == 0
        && let Some((zxid, DIGEST_VERSION, found)) =
            sections.and_then(|sections: Sections| sections.digest)
        && zxid == start
    {
        digest = Some(found);
    }
    let tree = rebuild.finish().tree;
    Ok(Ok(Attempt { tree, sections, replayed, last_ms, digest }))
}
