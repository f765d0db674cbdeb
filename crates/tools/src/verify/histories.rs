//! Compares the transactions of several places: finds the newest one that all places have, and the
//! first difference.
//!
//! A history keeps the zxid and a hash of each transaction in a temporary file. The hash leaves out
//! digests, because members of some versions do not write them.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

use zebu_proto::Zxid;
use zebu_proto::txn::TxnRecord;

use super::spool::hash;

/// The bytes of an entry in the file: zxid and hash.
const ENTRY_BYTES: usize = 16;
/// The bytes of the digest after a transaction: version and sum.
const DIGEST_BYTES: usize = 12;

/// The transactions of one place, oldest first.
#[derive(Debug)]
pub(super) struct History {
    entries: BufWriter<File>,
    /// The first transaction.
    pub(super) first: Option<Zxid>,
    /// The last transaction.
    pub(super) last: Option<Zxid>,
    /// Gaps: the last transaction before and the first one after each.
    pub(super) holes: Vec<(Zxid, Zxid)>,
    /// The number of transactions.
    pub(super) txns: u64,
}

impl History {
    /// An empty history.
    pub(super) fn new() -> io::Result<Self> {
        let entries = BufWriter::new(tempfile::tempfile()?);
        Ok(Self { entries, first: None, last: None, holes: Vec::new(), txns: 0 })
    }

    /// Adds a transaction, which must be newer than all others.
    pub(super) fn add(&mut self, zxid: Zxid, body: &[u8]) -> io::Result<()> {
        assert!(self.last.is_none_or(|last| last < zxid), "{zxid} comes again");
        let has_digest = TxnRecord::decode(body).is_ok_and(|record| record.digest.is_some());
        let digest_bytes = if has_digest { DIGEST_BYTES } else { 0 };
        let content = body.get(..body.len().saturating_sub(digest_bytes)).unwrap_or(body);
        self.first.get_or_insert(zxid);
        self.last = Some(zxid);
        self.txns += 1;
        self.entries.write_all(&zxid.0.to_be_bytes())?;
        self.entries.write_all(&hash(content).to_be_bytes())
    }

    /// The extent of the history, for questions while the file is read.
    fn shape(&self) -> Shape {
        Shape { first: self.first, last: self.last, holes: self.holes.clone() }
    }

    fn read(&mut self) -> io::Result<Entries<'_>> {
        self.entries.flush()?;
        let file = self.entries.get_mut();
        file.rewind()?;
        let mut entries = Entries { reader: BufReader::new(file), next: None };
        entries.advance()?;
        Ok(entries)
    }
}

struct Entries<'h> {
    reader: BufReader<&'h mut File>,
    next: Option<(Zxid, u64)>,
}

impl Entries<'_> {
    fn advance(&mut self) -> io::Result<()> {
        let mut entry = [0; ENTRY_BYTES];
        self.next = match self.reader.read_exact(&mut entry) {
            Ok(()) => {
                let number = u128::from_be_bytes(entry);
                Some((Zxid((number >> 64) as i64), number as u64))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        Ok(())
    }
}

/// The result of a comparison of histories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Common {
    /// The newest transaction that all have.
    pub(super) last: Option<Zxid>,
    /// The newest common transaction up to `limit`.
    pub(super) limited: Option<Zxid>,
    /// The first transaction that some places lack or have with another content at the same zxid.
    /// For each place: its hash, if the place has the transaction.
    pub(super) parted: Option<(Zxid, Vec<Option<u64>>)>,
    /// The number of such transactions.
    pub(super) differing: u64,
}

/// Compares histories. Each has further zxids that its place has: those of its snapshots.
pub(super) fn compare(
    histories: &mut [&mut History],
    moments: &[Vec<Zxid>],
    limit: Zxid,
) -> io::Result<Common> {
    assert_eq!(histories.len(), moments.len(), "each place has a history and snapshots");
    let mut common = Common::default();
    let shapes: Vec<_> = histories.iter().map(|history| history.shape()).collect();
    let mut all =
        histories.iter_mut().map(|history| history.read()).collect::<io::Result<Vec<_>>>()?;
    let note = |common: &mut Common, zxid: Zxid| {
        common.last = common.last.max(Some(zxid));
        if zxid <= limit {
            common.limited = common.limited.max(Some(zxid));
        }
    };
    while let Some(zxid) = all.iter().filter_map(|it| Some(it.next?.0)).min() {
        let mut found = Vec::new();
        for entries in &mut all {
            let here = entries.next.filter(|(next, _)| *next == zxid).map(|(_, hash)| hash);
            if here.is_some() {
                entries.advance()?;
            }
            found.push(here);
        }
        let mut asked = found.iter().zip(&shapes).filter(|(_, shape)| shape.covers(zxid));
        let first = asked.next().map(|(hash, _)| *hash);
        if asked.any(|(hash, _)| Some(*hash) != first) {
            common.differing += 1;
            common.parted.get_or_insert_with(|| (zxid, found.clone()));
        }
        let has =
            |(hash, moments): (&Option<u64>, &Vec<Zxid>)| hash.is_some() || moments.contains(&zxid);
        if found.iter().zip(moments).all(has) {
            note(&mut common, zxid);
        }
    }
    // Snapshots as of one transaction may exist without its log.
    for zxid in moments.first().into_iter().flatten() {
        if moments.iter().all(|moments| moments.contains(zxid)) {
            note(&mut common, *zxid);
        }
    }
    Ok(common)
}

/// The zxids that a history must contain: those between its ends that are in no gap.
struct Shape {
    first: Option<Zxid>,
    last: Option<Zxid>,
    holes: Vec<(Zxid, Zxid)>,
}

impl Shape {
    fn covers(&self, zxid: Zxid) -> bool {
        let is_between = self.first.is_some_and(|first| first <= zxid)
            && self.last.is_some_and(|last| zxid <= last);
        is_between && self.holes.iter().all(|(last, next)| zxid <= *last || *next <= zxid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(txns: &[(i64, &[u8])]) -> History {
        let mut history = History::new().unwrap();
        for (zxid, body) in txns {
            history.add(Zxid(*zxid), body).unwrap();
        }
        history
    }

    fn common(histories: Vec<History>) -> Common {
        let mut histories = histories;
        let moments = vec![Vec::new(); histories.len()];
        let mut histories: Vec<_> = histories.iter_mut().collect();
        compare(&mut histories, &moments, Zxid(i64::MAX)).unwrap()
    }

    #[test]
    fn one_that_is_behind_or_begins_later_is_the_same_history() {
        let long = || history(&[(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]);
        let found = common(vec![long(), history(&[(2, b"b"), (3, b"c")])]);
        assert_eq!((found.last, found.parted, found.differing), (Some(Zxid(3)), None, 0));
    }

    #[test]
    fn where_histories_part_is_found() {
        let long = || history(&[(1, b"a"), (2, b"b"), (3, b"c")]);
        let other = common(vec![long(), history(&[(1, b"a"), (2, b"x"), (3, b"c")])]);
        assert_eq!((other.parted.unwrap().0, other.differing), (Zxid(2), 1));
        let fewer = common(vec![long(), history(&[(1, b"a"), (3, b"c")])]);
        let (zxid, found) = fewer.parted.unwrap();
        assert_eq!((zxid, found[0].is_some(), found[1]), (Zxid(2), true, None));
        // A place with an unknown history is not judged.
        let mut holed = history(&[(1, b"a"), (3, b"c")]);
        holed.holes.push((Zxid(1), Zxid(3)));
        assert_eq!(common(vec![long(), holed]).parted, None);
    }

    #[test]
    fn a_snapshot_is_a_moment_that_logs_need_not_have() {
        let (mut long, mut empty) = (history(&[(1, b"a"), (2, b"b")]), history(&[]));
        let moments = [vec![], vec![Zxid(2)]];
        let found = compare(&mut [&mut long, &mut empty], &moments, Zxid(1)).unwrap();
        assert_eq!((found.last, found.limited), (Some(Zxid(2)), None));
    }
}
