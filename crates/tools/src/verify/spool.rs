//! The znodes of one tree in temporary files, to compare trees of any size in bounded memory.
//!
//! The hash of its path decides which of [`PARTS`] files contains a znode. A comparison reads one
//! part of each tree at a time. The files contain the length and a hash of the data, not the data.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

use zebu_jute::{Decode as _, Decoder, Encode as _, Encoder};
use zebu_proto::{Acl, StatPersisted};

/// The number of files for each tree. Each file needs a file descriptor.
const PARTS: usize = 32;

/// The compared parts of a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Znode {
    /// Length and hash of the data; `None` for null.
    pub(super) data: Option<(u64, u64)>,
    /// Its ACL as text.
    pub(super) acl: String,
    /// Its stat.
    pub(super) stat: StatPersisted,
}

impl Znode {
    /// A znode with these data.
    pub(super) fn new(data: Option<&[u8]>, acl: String, stat: StatPersisted) -> Self {
        let data = data.map(|data| (data.len() as u64, hash(data)));
        Self { data, acl, stat }
    }
}

/// A hash that is stable within one process only.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// An ACL in the syntax of the shell.
pub(super) fn acl_text(acl: &[Acl]) -> String {
    let one = |acl: &Acl| format!("{}:{}:{:?}", acl.id.scheme, acl.id.id, acl.perms);
    acl.iter().map(one).collect::<Vec<_>>().join(",")
}

/// All znodes of a tree, on the disk.
#[derive(Debug)]
pub(super) struct Spool {
    parts: Vec<BufWriter<File>>,
    record: Vec<u8>,
    /// The number of znodes.
    pub(super) znodes: u64,
}

impl Spool {
    /// An empty one, in the directory for temporary files.
    pub(super) fn new() -> io::Result<Self> {
        let part = |_| tempfile::tempfile().map(BufWriter::new);
        let parts = (0..PARTS).map(part).collect::<io::Result<_>>()?;
        Ok(Self { parts, record: Vec::new(), znodes: 0 })
    }

    /// Adds a znode.
    pub(super) fn add(&mut self, path: &str, znode: &Znode) -> io::Result<()> {
        self.record.clear();
        let mut out = Encoder::new(&mut self.record);
        out.text(path);
        out.boolean(znode.data.is_some());
        let (bytes, hash_of_data) = znode.data.unwrap_or_default();
        out.long(bytes.cast_signed());
        out.long(hash_of_data.cast_signed());
        out.text(&znode.acl);
        znode.stat.encode(&mut out);
        let part = usize::try_from(hash(path.as_bytes()) % PARTS as u64).expect("few parts");
        self.znodes += 1;
        let length = u32::try_from(self.record.len()).map_err(io::Error::other)?;
        self.parts[part].write_all(&length.to_be_bytes())?;
        self.parts[part].write_all(&self.record)
    }

    /// Reads the znodes of one part.
    fn read(&mut self, part: usize, each: &mut impl FnMut(String, Znode)) -> io::Result<()> {
        let writer = &mut self.parts[part];
        writer.flush()?;
        let file = writer.get_mut();
        file.rewind()?;
        let mut reader = BufReader::new(file);
        let mut record = Vec::new();
        loop {
            let mut length = [0; 4];
            match reader.read_exact(&mut length) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            }
            record.resize(u32::from_be_bytes(length) as usize, 0);
            reader.read_exact(&mut record)?;
            let (path, znode) = decode(&record)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            each(path, znode);
        }
    }
}

fn decode(record: &[u8]) -> Result<(String, Znode), zebu_jute::DecodeError> {
    let mut from = Decoder::new(record);
    let path = from.text()?.into_owned();
    let has_data = from.boolean()?;
    let data = (from.long()?.cast_unsigned(), from.long()?.cast_unsigned());
    let acl = from.text()?.into_owned();
    let stat = StatPersisted::decode(&mut from)?;
    Ok((path, Znode { data: has_data.then_some(data), acl, stat }))
}

/// A path, and its znode in each tree, in the order of the trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The znode.
    pub(super) path: String,
    /// The znode in each tree.
    pub(super) znodes: Vec<Option<Znode>>,
}

/// Calls `each` for each path at which the trees differ. `each` returns whether to continue.
pub(super) fn compare(
    trees: &mut [Spool],
    each: &mut impl FnMut(Difference) -> bool,
) -> io::Result<()> {
    let count = trees.len();
    for part in 0..PARTS {
        let mut found: BTreeMap<String, Vec<Option<Znode>>> = BTreeMap::new();
        for (at, tree) in trees.iter_mut().enumerate() {
            tree.read(part, &mut |path, znode| {
                found.entry(path).or_insert_with(|| vec![None; count])[at] = Some(znode);
            })?;
        }
        for (path, znodes) in found {
            let is_same = znodes.iter().all(|znode| *znode == znodes[0]);
            if !is_same && !each(Difference { path, znodes }) {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn znode(data: &[u8], version: i32) -> Znode {
        let stat = StatPersisted { version, ..StatPersisted::default() };
        Znode::new(Some(data), "world:anyone:cdrwa".to_owned(), stat)
    }

    fn tree(znodes: &[(&str, Znode)]) -> Spool {
        let mut spool = Spool::new().unwrap();
        for (path, znode) in znodes {
            spool.add(path, znode).unwrap();
        }
        spool
    }

    #[test]
    fn what_differs_is_found_whatever_the_order() {
        let same = ("/same", znode(b"s", 1));
        let null = Znode { data: None, ..znode(b"", 0) };
        let a = [same.clone(), ("/a", znode(b"1", 0)), ("/only", znode(b"", 0)), ("/null", null)];
        let b = [("/null", znode(b"", 0)), ("/a", znode(b"2", 0)), same];
        let mut found = Vec::new();
        compare(&mut [tree(&a), tree(&b)], &mut |difference| {
            let has = difference.znodes.iter().map(Option::is_some).collect::<Vec<_>>();
            found.push((difference.path, has));
            true
        })
        .unwrap();
        found.sort();
        let both = vec![true, true];
        let expected = [("/a", both.clone()), ("/null", both), ("/only", vec![true, false])];
        assert_eq!(found, expected.map(|(path, has)| (path.to_owned(), has)));
    }

    #[test]
    fn a_comparison_ends_where_its_caller_has_enough() {
        let many: Vec<String> = (0..1_000).map(|n| format!("/{n}")).collect();
        let many: Vec<_> = many.iter().map(|path| (path.as_str(), znode(b"", 0))).collect();
        let mut found = 0;
        compare(&mut [tree(&many), tree(&[])], &mut |_| {
            found += 1;
            found < 10
        })
        .unwrap();
        assert_eq!(found, 10);
    }
}
