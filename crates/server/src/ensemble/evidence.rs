//! Records the evidence when a member's tree differs from its leader's: the last transactions, and
//! both digests after each of them.
//!
//! Two files beside the logs are named after the first transaction whose digest differs.
//! `differs.<zxid>.txt` is text. `differs.<zxid>.log` is a log of the transactions that the text
//! lists; every tool for logs can read it. The original ignores both files, because their names
//! start neither with `log` nor with `snapshot`. `docs/formats/ensemble.md` describes them. After
//! the leader's tree has replaced this member's tree, `differs.<zxid>.znodes` lists the znodes that
//! differ.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{error, warn};
use zebu_proto::{ServerId, Zxid};
use zebu_state::{Difference, Differing, Step};
use zebu_store::log::{encode_record, header};
use zebu_store::{OsVfs, Vfs, vfs};
use zebu_tree::Tree;

use crate::counting::digests::Comparison;
use crate::shared::Shared;

/// Maximum number of stored transactions before the first one that differs, and from that one on.
const TXNS_MAX: usize = 64;

/// Maximum bytes of the records of each part. A longer record is stored alone.
const BYTES_MAX: usize = 1 << 20;

/// Maximum number of stored differences, so that repeated differences do not fill the disk.
const KEPT_MAX: usize = 16;

/// Maximum number of znodes that are named. All are counted.
const ZNODES_MAX: usize = 1_000;

/// Number of znodes that are compared under one lock of the tree.
const STEP_ZNODES: usize = 512;

/// The prefix of the files' names.
const NAME: &str = "differs.";

/// The last transactions whose digests were compared, oldest first.
///
/// When one differs, those before it stay, and the same number after it is added.
#[derive(Debug, Default)]
pub struct Recent {
    /// The comparisons, each with the length of its record.
    compared: VecDeque<(Comparison, usize)>,
    /// The records, one after the other.
    records: VecDeque<u8>,
    /// The index of the first transaction in a row that differs.
    first: Option<usize>,
    /// The difference that was stored last.
    kept: Option<Zxid>,
}

/// The server that stores the evidence, and the reason.
#[derive(Clone, Debug)]
pub struct Incident {
    /// This server.
    pub me: ServerId,
    /// Its leader, if it has one.
    pub leader: Option<ServerId>,
    /// The event, as a sentence.
    pub what: String,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
    /// The first transaction after which the trees differ, if it is not the first one whose
    /// comparison shows that.
    pub zxid: Option<Zxid>,
}

/// The content of the two files.
#[derive(Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The first transaction after which the trees differ.
    zxid: Zxid,
    text: String,
    log: Vec<u8>,
}

impl Recent {
    /// A transaction was applied, and its digest was compared.
    pub fn add(&mut self, comparison: Comparison, record: &[u8]) {
        if comparison.matches {
            self.first = None;
        }
        let bytes = self.records.len() + record.len();
        if let Some(first) = self.first {
            if self.compared.len() >= first + TXNS_MAX || bytes > 2 * BYTES_MAX {
                return;
            }
        } else {
            self.make_room(record.len());
            self.first = (!comparison.matches).then_some(self.compared.len());
        }
        self.compared.push_back((comparison, record.len()));
        self.records.extend(record);
        assert!(self.compared.len() <= 2 * TXNS_MAX, "as many before the first one as behind it");
    }

    /// Removes the oldest transactions to make room for a record of `bytes` bytes.
    fn make_room(&mut self, bytes: usize) {
        let is_full =
            |it: &Self| it.compared.len() >= TXNS_MAX || it.records.len() + bytes > BYTES_MAX;
        while is_full(self)
            && let Some((_, bytes)) = self.compared.pop_front()
        {
            self.records.drain(..bytes);
        }
    }

    /// The evidence of a difference, unless it was already stored.
    pub fn evidence(&mut self, incident: &Incident) -> Option<Evidence> {
        let last = self.compared.len().checked_sub(1)?;
        let first = self.compared[self.first.unwrap_or(last)].0.zxid;
        let zxid = incident.zxid.unwrap_or(first);
        if self.kept.replace(zxid) == Some(zxid) {
            return None;
        }
        let Incident { me, leader, what, wall_ms, .. } = incident;
        let leader = leader.map_or_else(|| "none".to_owned(), |leader| leader.0.to_string());
        let mut text = format!(
            "{what}\nserver: {}\nleader: {leader}\ntime: {wall_ms} ms since 1970\nfirst difference: {zxid}\n\n\
             zxid, digest of this server's tree, digest in the transaction:\n",
            me.0
        );
        let mut log = header().to_vec();
        let mut records = self.records.make_contiguous() as &[u8];
        for (Comparison { zxid, tree, expected, matches }, bytes) in &self.compared {
            let expected = expected.map_or_else(|| "unknown".to_owned(), |it| format!("{it:#x}"));
            let mark = if *matches { "" } else { " differs" };
            let _ = writeln!(text, "{zxid} {tree:#x} {expected}{mark}");
            let (record, rest) = records.split_at(*bytes);
            encode_record(record, &mut log);
            records = rest;
        }
        assert!(records.is_empty(), "{} bytes belong to no transaction", records.len());
        Some(Evidence { zxid, text, log })
    }
}

impl Evidence {
    /// The first transaction after which the trees differ.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Writes the files into `dir`, beside the logs, on a separate thread, while the tree changes.
    pub fn keep(self, dir: PathBuf) {
        let write = move || match self.write(&OsVfs, &dir) {
            Ok(Some(path)) => {
                error!("wrote the last transactions and their digests to {}", path.display())
            }
            Ok(None) => warn!(
                "did not write the last transactions and their digests, because {} has {KEPT_MAX} files {NAME}*.txt; hint: \
                 move them to another directory once somebody has examined them",
                dir.display()
            ),
            Err(error) => warn!(
                "cannot write the last transactions and their digests into {}: {error}",
                dir.display()
            ),
        };
        if let Err(error) = std::thread::Builder::new().name("evidence".to_owned()).spawn(write) {
            warn!("cannot write the last transactions and their digests: {error}");
        }
    }

    /// Writes the files. Returns `None` if the maximum number of files exists.
    fn write(&self, vfs: &dyn Vfs, dir: &Path) -> io::Result<Option<PathBuf>> {
        let entries = vfs.list(dir)?;
        let is_kept = |name: &str| name.starts_with(NAME) && name.ends_with(".txt");
        if entries.iter().filter(|entry| is_kept(&entry.name)).count() >= KEPT_MAX {
            return Ok(None);
        }
        let path = |kind: &str| dir.join(format!("{NAME}{:x}.{kind}", self.zxid.0));
        let text = path("txt");
        for (path, content) in [(&path("log"), &self.log[..]), (&text, self.text.as_bytes())] {
            let temporary = path.with_extension("tmp");
            vfs::replace(vfs, path, &temporary, content)?;
        }
        Ok(Some(text))
    }
}

/// Compares the tree that differed with the leader's tree, which has replaced it, and names the
/// znodes in a file beside the logs. It uses a thread of its own, which takes the lock of the tree
/// repeatedly and briefly.
pub fn name_znodes(shared: Arc<Shared>, since: Zxid, old: Tree) {
    let compare = move || {
        let mut differing = Differing::new(old, ZNODES_MAX);
        loop {
            if shared.ending.is_stopping() {
                return;
            }
            match differing.step(&shared.tree().read(), STEP_ZNODES) {
                Step::More => {}
                Step::Done => break,
                Step::Replaced => {
                    warn!(
                        "the znodes that differed are not listed: this server's tree has been replaced meanwhile"
                    );
                    return;
                }
            }
        }
        let text = znodes_text(since, differing);
        match write_znodes(&OsVfs, &shared.config.data.logs(), since, &text) {
            Ok(Some(path)) => error!("the znodes that differed are listed in {}", path.display()),
            Ok(None) => warn!(
                "the znodes that differed are not listed: {KEPT_MAX} files {NAME}*.znodes are there already"
            ),
            Err(error) => warn!("the znodes that differed are not listed: {error}"),
        }
    };
    if let Err(error) = std::thread::Builder::new().name("evidence".to_owned()).spawn(compare) {
        warn!("the znodes that differed are not listed: {error}");
    }
}

fn znodes_text(since: Zxid, differing: Differing) -> String {
    let last = differing.last_zxid();
    let (found, count) = differing.found();
    let mut text = format!(
        "znodes that differed between this server's tree and its leader's, after transaction {last}\n\
         first difference: {since}\nznodes: {count}\n\n"
    );
    for Difference { path, what } in &found {
        // A path may contain a line break, but each znode must be one line.
        let _ = writeln!(text, "{}: {what}", path.escape_debug());
    }
    text
}

/// Writes the file. Returns `None` if the maximum number of files exists.
fn write_znodes(vfs: &dyn Vfs, dir: &Path, since: Zxid, text: &str) -> io::Result<Option<PathBuf>> {
    let is_kept = |name: &str| name.starts_with(NAME) && name.ends_with(".znodes");
    if vfs.list(dir)?.iter().filter(|entry| is_kept(&entry.name)).count() >= KEPT_MAX {
        return Ok(None);
    }
    let path = dir.join(format!("{NAME}{:x}.znodes", since.0));
    // The other two files have a different temporary name.
    vfs::replace(vfs, &path, &path.with_extension("znodes.tmp"), text.as_bytes())?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use zebu_store::log::read::{Tail, read_log};

    use super::*;

    fn comparison(zxid: i64, matches: bool) -> Comparison {
        Comparison { zxid: Zxid(zxid), matches, tree: -zxid, expected: matches.then_some(-zxid) }
    }

    fn incident() -> Incident {
        let what = "the tree differs".to_owned();
        Incident { me: ServerId(2), leader: Some(ServerId(1)), what, wall_ms: 7, zxid: None }
    }

    /// The zxids that the text lists, and whether each differs.
    fn listed(text: &str) -> Vec<(String, bool)> {
        let (_, lines) = text.split_once("transaction:\n").unwrap();
        let zxid = |line: &str| line.split(' ').next().unwrap().to_owned();
        lines.lines().map(|line| (zxid(line), line.ends_with(" differs"))).collect()
    }

    /// The records of a log.
    fn logged(log: &[u8]) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let (_, tail) =
            read_log(log, 8 << 20, &mut |record| records.push(record.body.to_vec())).unwrap();
        assert_eq!(tail, Tail::Clean);
        records
    }

    #[test]
    fn what_came_before_the_first_difference_and_behind_it_is_kept() {
        let mut recent = Recent::default();
        for zxid in 1..=1_000 {
            recent.add(comparison(zxid, zxid < 500), &zxid.to_be_bytes().repeat(8));
        }
        let evidence = recent.evidence(&incident()).unwrap();
        assert_eq!(evidence.zxid, Zxid(500));
        let listed = listed(&evidence.text);
        assert_eq!(listed.len(), 2 * TXNS_MAX - 1, "a full ring less the one that makes room");
        assert_eq!(listed.iter().filter(|(_, differs)| *differs).count(), TXNS_MAX);
        assert_eq!(listed.iter().find(|(_, differs)| *differs).unwrap().0, Zxid(500).to_string());
        assert!(evidence.text.starts_with("the tree differs\nserver: 2\nleader: 1\n"));
        let records = logged(&evidence.log);
        assert_eq!(records.len(), listed.len());
        assert_eq!(records[TXNS_MAX - 1], 500_i64.to_be_bytes().repeat(8));
        // The same difference is stored once.
        assert_eq!(recent.evidence(&incident()), None);
        // A matching digest ends the difference, and the next one is a new difference.
        recent.add(comparison(1_001, true), &[7; 40]);
        recent.add(comparison(1_002, false), &[8; 40]);
        assert_eq!(recent.evidence(&incident()).unwrap().zxid, Zxid(1_002));
        assert_eq!(recent.compared.len(), TXNS_MAX);
    }

    #[test]
    fn long_records_take_the_place_of_others() {
        let mut recent = Recent::default();
        assert_eq!(recent.evidence(&incident()), None, "nothing was compared");
        let long = vec![7; BYTES_MAX + 1];
        for zxid in 1..=3 {
            recent.add(comparison(zxid, true), &long);
            assert_eq!((recent.compared.len(), recent.records.len()), (1, long.len()));
        }
        for zxid in 4..=9 {
            recent.add(comparison(zxid, false), &long[..BYTES_MAX / 2]);
        }
        assert!(recent.records.len() <= 2 * BYTES_MAX);
        let evidence = recent.evidence(&incident()).unwrap();
        assert_eq!(evidence.zxid, Zxid(4));
        assert_eq!(logged(&evidence.log).len(), listed(&evidence.text).len());
    }

    #[test]
    fn as_many_differences_as_there_may_be_are_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let evidence = |zxid| {
            let mut recent = Recent::default();
            recent.add(comparison(zxid, false), &[9; 40]);
            recent.evidence(&incident()).unwrap()
        };
        for zxid in 1..=KEPT_MAX as i64 {
            let path = evidence(zxid).write(&OsVfs, dir.path()).unwrap().unwrap();
            assert_eq!(path, dir.path().join(format!("differs.{zxid:x}.txt")));
            assert!(path.exists() && path.with_extension("log").exists());
        }
        assert_eq!(evidence(99).write(&OsVfs, dir.path()).unwrap(), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2 * KEPT_MAX);
    }
}
