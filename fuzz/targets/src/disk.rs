//! Files: logs, snapshots in all compressions, sidecars, epochs, and whole data directories.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use zebu_proto::txn::TxnRecord;
use zebu_proto::{Epoch, SessionId, Zxid};
use zebu_state::Rebuild;
use zebu_store::log::read::{EndKind, LogReader, Tail, read_log};
use zebu_store::log::sidecar::Mark;
use zebu_store::log::{HEADER_BYTES, encode_record};
use zebu_store::snapshot::decompressed;
use zebu_store::snapshot::read::{Sections, SnapshotError, read_snapshot};
use zebu_store::vfs::MemVfs;
use zebu_store::{Compression, EpochFile, EpochFiles, Epochs, Options, Store, names};
use zebu_testkit::told::Told;
use zebu_tree::{Silent, Tree};

use crate::cursor::Cursor;
use crate::state::{Content, OPTIONS, check_tree, create_session, load};

const RECORD_BYTES_MAX: usize = 1 << 20;
/// The maximum size of a decompressed snapshot that the target examines.
const SNAPSHOT_BYTES_MAX: u64 = 16 << 20;

/// Returns few bytes at a time.
struct Slowly<'a>(&'a [u8], usize);

impl Read for Slowly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.1);
        (&mut self.0).take(most as u64).read(buffer)
    }
}

/// A log: the reader returns the bytes of the file, as consecutive whole records, and skips no data
/// after its end.
pub(crate) fn txn_log(bytes: &[u8]) {
    let mut again = bytes[..bytes.len().min(HEADER_BYTES)].to_vec();
    let mut records = Vec::new();
    let (end, tail) = read_log(bytes, RECORD_BYTES_MAX, &mut |record| {
        assert_eq!(record.offset as usize, again.len());
        encode_record(record.body, &mut again);
        assert_eq!(record.end as usize, again.len());
        records.push((record.offset, record.zxid, record.body.len()));
        // Other code interprets a whole record; it must not panic.
        let _ = TxnRecord::decode(record.body);
    })
    .expect("memory can be read");
    if matches!(end.kind, EndKind::Empty | EndKind::NoHeader) {
        assert!(records.is_empty() && end.offset == 0);
    } else {
        assert_eq!(end.offset as usize, again.len());
        assert!(bytes.starts_with(&again), "what was read is what is there");
    }
    let behind = &bytes[(end.offset as usize).min(bytes.len())..];
    match tail {
        Tail::Clean if end.kind == EndKind::Empty => assert!(bytes.is_empty()),
        Tail::Clean => assert!(behind.iter().all(|byte| *byte == 0), "data is passed over"),
        Tail::MoreFollows { offset } => {
            assert!(end.offset < offset && offset < bytes.len() as u64);
        }
        Tail::Torn | Tail::Damaged => assert!(!behind.is_empty()),
    }
    for step in [1, 7, 4096] {
        let mut same = Vec::new();
        let source = Slowly(bytes, step);
        let result = read_log(source, RECORD_BYTES_MAX, &mut |record| {
            same.push((record.offset, record.zxid, record.body.len()));
        });
        assert_eq!(result.expect("memory can be read"), (end, tail), "{step} bytes at once");
        assert_eq!(same, records);
    }
    // Reads a log as recovery reads one of our own, whose lengths it trusts.
    let mut reader = LogReader::new(bytes, usize::MAX);
    while reader.next().expect("memory can be read").is_ok() {}
    reader.tail().expect("memory can be read");
}

fn compression_of(bytes: &[u8]) -> Compression {
    match bytes {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x82, b'S', ..] => Compression::Snappy,
        _ => Compression::None,
    }
}

/// The length of a decompressed snapshot, up to [`SNAPSHOT_BYTES_MAX`].
pub(crate) fn decompressed_bytes(bytes: &[u8]) -> usize {
    let source = decompressed(bytes, compression_of(bytes));
    let mut counted = Count(source.take(SNAPSHOT_BYTES_MAX), 0);
    let _ = io::copy(&mut counted, &mut io::sink());
    bytes.len() + counted.1
}

struct Count<R>(R, usize);

impl<R: Read> Read for Count<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1 += read;
        Ok(read)
    }
}

fn read_told(source: impl Read) -> Result<(Sections, Told), SnapshotError> {
    let mut told = Told::default();
    let sections = read_snapshot(source, RECORD_BYTES_MAX, true, &mut told)?;
    Ok((sections, told))
}

/// A snapshot, with the compression that its first bytes show. A valid one is the same after it is
/// written in every compression.
pub(crate) fn snapshot(bytes: &[u8]) {
    let source = decompressed(bytes, compression_of(bytes)).take(SNAPSHOT_BYTES_MAX);
    let Ok((sections, told)) = read_told(source) else { return };
    assert_eq!(sections.nodes as usize, told.znodes.len());
    if let Some(tree) = load(&told, OPTIONS) {
        check_tree(&tree);
    }
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
        let written = write_snapshot(&told, sections.last_zxid, compression);
        let (sections_again, again) =
            read_told(decompressed(&written[..], compression)).expect("it was just written");
        assert_eq!((&again.sessions, &again.acls), (&told.sessions, &told.acls));
        assert_eq!(again.znodes, told.znodes);
        assert_eq!(sections_again.nodes, sections.nodes);
        assert_eq!(sections_again.last_zxid, sections.last_zxid);
    }
}

fn write_snapshot(told: &Told, last: Option<Zxid>, compression: Compression) -> Vec<u8> {
    let vfs = MemVfs::new(Path::new("/d"));
    let options = Options { compression, ..Options::new("/d") };
    let mut store = Store::open(Arc::new(vfs.clone()), options).expect("an empty disk");
    store.recover(&mut Rebuild::new(OPTIONS)).expect("an empty disk");
    let (_, snapshots) = store.split();
    let mut writer = snapshots.begin(Zxid(1)).expect("the disk works");
    writer.sessions(&told.sessions);
    writer.acls(&told.acls);
    for znode in &told.znodes {
        writer.node(&znode.path, znode.data.as_deref(), znode.acl, &znode.stat);
    }
    let digest = told.digest.map(|(zxid, _, digest)| (zxid, digest));
    let written = writer.finish(digest, last).expect("the disk works");
    let written = vfs.content(&written.path).expect("it was just written");
    drop(snapshots);
    written
}

/// A sidecar: the mark is that of one of its slots, and is the same after writing.
pub(crate) fn sidecar(bytes: &[u8]) {
    let Some(mark) = Mark::read(bytes) else { return };
    assert_eq!(Mark::read(&mark.file()), Some(mark));
    let slots = [0, 4096].map(|at| bytes.get(at..).and_then(|slot| slot.get(..68)));
    let alone = slots.into_iter().flatten().filter_map(Mark::read);
    assert_eq!(alone.max_by_key(|mark| (mark.end, mark.sealed)), Some(mark));
    assert!(mark.agrees(&mark));
}

/// File names: a name that is accepted as ours or the original's is written in the same way.
pub(crate) fn file_name(bytes: &[u8]) {
    let name = String::from_utf8_lossy(bytes);
    let hex = |text: &str| text.trim_start_matches('0').to_ascii_lowercase();
    let same = |found: String| {
        let (kind, number) = found.split_once('.').expect("every name has a dot");
        let (kind_here, number_here) = name.split_once('.').expect("it was taken for one");
        assert_eq!((kind, hex(number)), (kind_here, hex(number_here)));
    };
    if let Some(first) = names::parse_log(&name) {
        same(names::log(first));
    }
    if let Some(first) = names::parse_sidecar(&name) {
        same(names::sidecar(first));
    }
    if let Some((zxid, compression)) = names::parse_snapshot(&name) {
        same(names::snapshot(zxid, compression));
    }
}

/// The two epoch files, one line each, after one byte with the epoch of the log.
pub(crate) fn epoch(bytes: &[u8]) {
    let mut cursor = Cursor::new(bytes);
    let last = Zxid::new(Epoch(cursor.byte().into()), 1);
    let vfs = MemVfs::new(Path::new("/d/version-2"));
    let files = ["currentEpoch", "acceptedEpoch", "currentEpoch.tmp"];
    let rest = bytes.get(1..).unwrap_or_default();
    for (file, content) in files.iter().zip(rest.split(|byte| *byte == b'|')) {
        vfs.put(&Path::new("/d/version-2").join(file), content);
    }
    let files = EpochFiles::new(Arc::new(vfs), Path::new("/d"));
    let Ok(epochs) = files.load(last) else { return };
    let Epochs { accepted, current, logged } = epochs;
    assert!(logged == last.epoch() && logged <= accepted && current <= accepted);
    assert_eq!(files.load(last).expect("it loaded before"), epochs);
    assert_eq!(files.read(EpochFile::Current).expect("it loaded before"), Some(current));
    assert_eq!(files.read(EpochFile::Accepted).expect("it loaded before"), Some(accepted));
}

/// Bodies of log records, each after its length: every logged transaction can be applied, and the
/// tree keeps its counters and its digest.
pub(crate) fn tree_apply(bytes: &[u8]) {
    let mut cursor = Cursor::new(bytes);
    let mut tree = Tree::new(OPTIONS);
    let mut applied = 0;
    loop {
        let body = cursor.run();
        if body.is_empty() {
            break;
        }
        let Ok(record) = TxnRecord::decode(body) else { continue };
        let before = tree.last_zxid();
        tree.apply(&record, &mut Silent);
        assert_eq!(tree.last_zxid(), before.max(record.header.zxid));
        applied += 1;
        if applied % 16 == 0 {
            check_tree(&tree);
        }
    }
    check_tree(&tree);
    tree.remove_orphan_ephemerals();
    check_tree(&tree);
    assert!(tree.sessions_with_ephemerals().all(|owner| tree.session_timeout(owner).is_some()));
}

/// The content of a disk in memory.
fn files_of(vfs: &MemVfs) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    vfs.files().into_iter().map(|path| (path.clone(), vfs.content(&path))).collect()
}

/// Files of a data directory, each as kind, zxid, length and content, after one byte of switches. A
/// refused start changes nothing. A start that succeeds has the same outcome when it is repeated,
/// and the next start finds what is logged after it.
pub(crate) fn data_dir(bytes: &[u8]) {
    let mut cursor = Cursor::new(bytes);
    let switches = cursor.byte();
    let vfs = MemVfs::new(Path::new("/d/version-2"));
    while let Some(kind) = cursor.next() {
        let zxid = Zxid(cursor.byte().into());
        let name = match kind % 8 {
            0 | 1 => names::log(zxid),
            2 | 3 => names::sidecar(zxid),
            4 => names::snapshot(zxid, Compression::None),
            5 => names::snapshot(zxid, Compression::Gzip),
            6 => names::snapshot(zxid, Compression::Snappy),
            _ => format!("log.{:x}.bak", zxid.0),
        };
        vfs.put(&Path::new("/d/version-2").join(name), cursor.run());
    }
    let options = Options {
        prealloc_bytes: 0,
        accept_damage: switches & 1 != 0,
        trust_empty_snapshot: switches & 2 != 0,
        record_bytes_max: RECORD_BYTES_MAX,
        ..Options::new("/d")
    };
    let start = || {
        let mut store =
            Store::open(Arc::new(vfs.clone()), options.clone()).expect("the disk works");
        let mut state = Rebuild::new(OPTIONS);
        store.recover(&mut state).map(|recovered| (store, state.finish().tree, recovered))
    };
    let before = files_of(&vfs);
    let Ok((store, tree, recovered)) = start() else {
        assert_eq!(files_of(&vfs), before, "a start that is refused changes nothing");
        return;
    };
    check_tree(&tree);
    assert_eq!(recovered.last_zxid.max(Zxid::ZERO), tree.last_zxid());
    let content = Content::of(&tree);
    drop(store);
    let (store, again, recovered_again) = start().expect("a start can be repeated");
    assert_eq!(Content::of(&again), content, "the same disk gives the same tree");
    assert_eq!(recovered_again.last_zxid, recovered.last_zxid);
    assert_eq!(recovered_again.snapshot, recovered.snapshot);
    // Continues as a server does: a snapshot if there is none, then the next transaction.
    let Some(next) = tree.last_zxid().next() else { return };
    if options.accept_damage {
        return;
    }
    let (mut log, snapshots) = store.split();
    if recovered.snapshot.is_none() {
        let mut writer = snapshots.begin(tree.last_zxid()).expect("the disk works");
        writer.sessions(&tree.sessions().collect::<Vec<_>>());
        writer.acls(&tree.acl_table().collect::<Vec<_>>());
        zebu_tree::Walk::new(&tree).step(&tree, usize::MAX, &mut |path, data, acl, stat| {
            writer.node(path, data, acl, stat);
        });
        writer.finish(None, None).expect("the disk works");
    }
    let body = create_session(next, SessionId(0x77), 30_000);
    log.append(next, &body);
    log.close().expect("the disk works");
    drop(snapshots);
    let (_, last, recovered) = start().expect("what was just written can be loaded");
    assert_eq!(recovered.last_zxid, next);
    assert_eq!(last.session_timeout(SessionId(0x77)), Some(30_000));
}
