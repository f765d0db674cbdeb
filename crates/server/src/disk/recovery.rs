//! Recovery on two threads: one reads and checks the files, the other builds the tree.
//!
//! The division into threads does not affect the result. The reader waits for the builder where it
//! needs an answer: whether a transaction can be decoded, and whether a snapshot is accepted. The
//! builder also reports each znode that it does not accept.
//!
//! The caller's thread builds the tree. It is the first thread of the process, whose memory grows
//! in larger steps than that of other threads.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::error::{BuildError, StartError};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_state::{Rebuild, Rebuilt};
use zebu_store::{Recover, Recovered, Refused, Store, StoreError};
use zebu_tree::Options;

/// Approximate bytes of a batch: few enough to stay in a processor's cache until the builder uses
/// them.
const BATCH_BYTES: usize = 64 << 10;
/// The number of batches that wait for the builder.
const BATCHES_MAX: usize = 8;

/// A batch of read records.
#[derive(Debug)]
enum Work {
    Restart,
    Session(SessionId, i32),
    Acl(i64, Vec<Acl>),
    Nodes(Nodes),
    Digest(Zxid, i32, i64),
    /// Answered.
    Loaded(Zxid),
    Txns(Txns),
}

/// Consecutive znodes.
#[derive(Debug, Default)]
struct Nodes {
    paths: String,
    data: Vec<u8>,
    nodes: Vec<Node>,
}

/// One znode; its path and data are the next bytes, with these lengths.
#[derive(Debug)]
struct Node {
    path_bytes: usize,
    data_bytes: Option<usize>,
    acl: i64,
    stat: StatPersisted,
}

impl Nodes {
    fn add(&mut self, path: &str, data: Option<&[u8]>, acl: i64, stat: &StatPersisted) {
        self.paths.push_str(path);
        self.data.extend_from_slice(data.unwrap_or_default());
        let (path_bytes, data_bytes) = (path.len(), data.map(<[u8]>::len));
        self.nodes.push(Node { path_bytes, data_bytes, acl, stat: *stat });
    }

    fn bytes(&self) -> usize {
        self.paths.len() + self.data.len() + self.nodes.len() * size_of::<Node>()
    }

    /// Inserts the znodes. Returns the error of the first one that is not accepted.
    fn enter(&self, into: &mut dyn Recover) -> Result<(), BuildError> {
        let (mut paths, mut data) = (&*self.paths, &*self.data);
        for Node { path_bytes, data_bytes, acl, stat } in &self.nodes {
            let (path, other_paths) = paths.split_at(*path_bytes);
            let (bytes, other_data) = data.split_at(data_bytes.unwrap_or(0));
            let bytes = data_bytes.map(|_| bytes);
            into.node(path, bytes, *acl, stat)
                .map_err(|fault| BuildError::Znode { path: path.to_owned(), fault })?;
            (paths, data) = (other_paths, other_data);
        }
        Ok(())
    }
}

/// Consecutive transactions.
#[derive(Debug, Default)]
struct Txns {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Txns {
    fn add(&mut self, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        self.lengths.push(body.len());
    }

    fn apply(&self, to: &mut Rebuild) -> Result<(), Refused> {
        let mut bytes = &*self.bytes;
        to.txns(self.lengths.iter().map(|length| {
            let (body, others) = bytes.split_at(*length);
            bytes = others;
            body
        }))
    }
}

/// The reader's end: passes the records on in batches.
struct Ahead {
    to: SyncSender<Work>,
    /// Whether a snapshot is accepted.
    accepted: Receiver<Result<(), BuildError>>,
    nodes: Nodes,
    txns: Txns,
}

impl Ahead {
    /// Incomplete batches are sent before it. The builder exists as long as the reader sends,
    /// unless it has panicked; then the panic is the error that is reported.
    fn pass(&mut self, work: Work) {
        if !self.nodes.nodes.is_empty() {
            let _ = self.to.send(Work::Nodes(std::mem::take(&mut self.nodes)));
        }
        if !self.txns.lengths.is_empty() {
            let _ = self.to.send(Work::Txns(std::mem::take(&mut self.txns)));
        }
        let _ = self.to.send(work);
    }

    fn end(self) {
        if !self.txns.lengths.is_empty() {
            let _ = self.to.send(Work::Txns(self.txns));
        }
    }
}

impl Recover for Ahead {
    fn restart(&mut self) {
        self.nodes = Nodes::default();
        self.txns = Txns::default();
        self.pass(Work::Restart);
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.pass(Work::Session(id, timeout_ms));
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.pass(Work::Acl(id, acl));
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), Refused> {
        self.nodes.add(path, data, acl, stat);
        if self.nodes.bytes() >= BATCH_BYTES {
            let _ = self.to.send(Work::Nodes(std::mem::take(&mut self.nodes)));
        }
        Ok(())
    }

    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64) {
        self.pass(Work::Digest(zxid, version, digest));
    }

    fn loaded(&mut self, zxid: Zxid) -> Result<(), Refused> {
        self.pass(Work::Loaded(zxid));
        self.accepted.recv().unwrap_or(Err(BuildError::Ended)).map_err(Refused::state)
    }

    fn txn(&mut self, body: &[u8]) -> Result<(), Refused> {
        // The only possible fault of a transaction: applying one never fails.
        TxnRecord::decode(body)?;
        self.txns.add(body);
        if self.txns.bytes.len() >= BATCH_BYTES {
            let _ = self.to.send(Work::Txns(std::mem::take(&mut self.txns)));
        }
        Ok(())
    }
}

/// Builds a tree from the records, until the reader ends.
fn build(
    rebuild: &mut Rebuild,
    from: Receiver<Work>,
    accepts: SyncSender<Result<(), BuildError>>,
) -> Result<(), BuildError> {
    let mut state = Ok(());
    for work in from {
        match work {
            Work::Restart => {
                rebuild.restart();
                state = Ok(());
            }
            Work::Session(id, timeout_ms) => rebuild.session(id, timeout_ms),
            Work::Acl(id, acl) => rebuild.acl(id, acl),
            Work::Nodes(nodes) => state = state.and_then(|()| nodes.enter(rebuild)),
            Work::Digest(zxid, version, digest) => rebuild.digest(zxid, version, digest),
            Work::Loaded(zxid) => {
                state = state.and_then(|()| Ok(rebuild.loaded(zxid)?));
                let _ = accepts.send(state.clone()); // the reader waits for it
            }
            Work::Txns(txns) => state = state.and_then(|()| Ok(txns.apply(rebuild)?)),
        }
    }
    state
}

/// Recovers the content of `store`, and builds its tree.
///
/// # Errors
/// The fault of the files, or no threads are left.
pub fn recover(store: &mut Store, options: Options) -> Result<(Recovered, Rebuilt), StartError> {
    let mut rebuild = Rebuild::new(options);
    let (to, from) = sync_channel(BATCHES_MAX);
    let (accepts, accepted) = sync_channel(1);
    let recovered = thread::scope(|scope| {
        let reader = thread::Builder::new().name("zebu-recovery".into()).spawn_scoped(
            scope,
            move || -> Result<Recovered, StoreError> {
                let (nodes, txns) = (Nodes::default(), Txns::default());
                let mut ahead = Ahead { to, accepted, nodes, txns };
                let recovered = store.recover(&mut ahead)?;
                ahead.end();
                Ok(recovered)
            },
        );
        let reader = reader.map_err(|source| StartError::System { what: "recovery", source })?;
        let built = build(&mut rebuild, from, accepts);
        let recovered = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        built?;
        Ok::<_, StartError>(recovered)
    })?;
    Ok((recovered, rebuild.finish()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use zebu_jute::Encoder;
    use zebu_proto::txn::{Txn, TxnHeader};
    use zebu_proto::{Epoch, OpCode};
    use zebu_store::vfs::{MemVfs, Vfs as _};
    use zebu_store::{Options as StoreOptions, Warning};

    use super::*;

    fn at(counter: u32) -> Zxid {
        Zxid::new(Epoch(1), counter)
    }

    fn open(vfs: &MemVfs) -> Store {
        Store::open(Arc::new(vfs.clone()), StoreOptions::new("/d")).unwrap()
    }

    /// Snapshots of znodes, each with a transaction behind it, and further ones.
    fn write(vfs: &MemVfs, snapshots: &[&[String]], txns: u32) {
        let mut store = open(vfs);
        store.recover(&mut Rebuild::new(Options::default())).unwrap();
        let (mut log, all) = store.split();
        for (number, paths) in snapshots.iter().enumerate() {
            let number = number as u32;
            let mut writer = all.begin(if number == 0 { Zxid::ZERO } else { at(number) }).unwrap();
            writer.sessions(&[(SessionId(77), 30_000)]);
            writer.acls(&[(1, Acl::open())]);
            writer.node("", Some(b""), 1, &StatPersisted::default());
            for path in *paths {
                writer.node(path, Some(path.as_bytes()), 1, &StatPersisted::default());
            }
            writer.finish(None, None).unwrap();
            append(&mut log, number + 1);
        }
        (1..=txns).for_each(|txn| append(&mut log, snapshots.len() as u32 + txn));
        log.commit().unwrap();
    }

    /// A session, whose number is that of the transaction.
    fn append(log: &mut zebu_store::TxnLog, counter: u32) {
        let (session, zxid) = (SessionId(counter.into()), at(counter));
        let header = TxnHeader { session, cxid: 0, zxid, time_ms: 1, op: OpCode::CREATE_SESSION };
        let txn = Txn::CreateSession { timeout_ms: counter as i32 };
        let mut body = Vec::new();
        TxnRecord { header, txn, digest: None }.encode(&mut Encoder::new(&mut body));
        log.append(zxid, &body);
    }

    /// Both in many batches, the last one not full.
    #[test]
    fn two_threads_find_what_one_does() {
        let vfs = MemVfs::new(Path::new("/d"));
        let paths: Vec<String> = (0..3_000).map(|number| format!("/{number}")).collect();
        write(&vfs, &[&paths], 3_000);
        let mut alone = Rebuild::new(Options::default());
        let expected = open(&vfs).recover(&mut alone).unwrap();
        let expected_tree = alone.finish().tree;
        let (recovered, Rebuilt { tree, mismatches }) =
            recover(&mut open(&vfs), Options::default()).unwrap();
        assert_eq!((recovered.last_zxid, recovered.replayed), (at(3_001), 3_001));
        assert_eq!((recovered.snapshot, recovered.recent), (expected.snapshot, expected.recent));
        assert_eq!(mismatches, 0);
        assert_eq!((tree.last_zxid(), tree.digest()), (at(3_001), expected_tree.digest()));
        for path in &paths {
            assert_eq!(tree.node(path).unwrap().data(), Some(path.as_bytes()));
        }
        for session in (1..=3_001).chain([77]) {
            let timeout = tree.session_timeout(SessionId(session));
            assert!(timeout.is_some());
            assert_eq!(timeout, expected_tree.session_timeout(SessionId(session)));
        }
    }

    #[test]
    fn a_snapshot_that_cannot_be_built_is_given_up_for_an_older_one() {
        let vfs = MemVfs::new(Path::new("/d"));
        let orphan = ["/a".to_owned(), "/b/c".to_owned()];
        write(&vfs, &[&orphan[..1], &orphan], 1);
        let (recovered, Rebuilt { tree, .. }) =
            recover(&mut open(&vfs), Options::default()).unwrap();
        assert_eq!((recovered.snapshot, recovered.replayed), (Some(Zxid::ZERO), 3));
        assert!(tree.node("/a").is_some() && tree.node("/b/c").is_none());
        let why = "/b/c: the parent of a znode did not come before it";
        let is_it = |warning: &Warning| matches!(warning, Warning::SnapshotRejected { reason, .. } if reason == why);
        assert!(recovered.warnings.iter().any(is_it), "{:?}", recovered.warnings);
    }

    #[test]
    fn nothing_is_recovered_from_what_is_damaged() {
        let vfs = MemVfs::new(Path::new("/d"));
        let orphan = ["/b/c".to_owned()];
        write(&vfs, &[&orphan], 0);
        for entry in vfs.list(Path::new("/d/version-2")).unwrap() {
            if entry.name.starts_with("log") {
                vfs.remove(&Path::new("/d/version-2").join(entry.name)).unwrap();
            }
        }
        let failure = recover(&mut open(&vfs), Options::default()).err().unwrap();
        assert!(matches!(failure, StartError::Data(_)), "{failure}");
    }
}
