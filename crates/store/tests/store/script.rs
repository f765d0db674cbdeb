//! The life of a server on a small scale, and the properties that must hold after any part of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::{Acl, Epoch, StatPersisted, Zxid};
use zebu_store::log::read::{Tail, read_log};
use zebu_store::log::sidecar::Mark;
use zebu_store::vfs::{Crash, MemVfs};
use zebu_store::{
    Options, Received, Recovered, SnapshotWriter, Snapshots, Store, StoreError, TxnLog, Vfs,
};
use zebu_testkit::told::Told;

use crate::support::body;

pub(crate) const ROOT: &str = "/srv";

pub(crate) fn options() -> Options {
    Options { prealloc_bytes: 4096, ..Options::new("/srv/data") }
}

/// The written transactions, and how many of them are acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) attempted: Vec<(Zxid, Vec<u8>)>,
    pub(crate) acknowledged: usize,
    /// Distinguishes the writes of different lives of the server.
    pub(crate) salt: u8,
}

/// Recovers a state from the disk.
pub(crate) fn recover(
    vfs: Arc<dyn Vfs>,
    options: Options,
) -> Result<(Store, Recovered, Told), StoreError> {
    let mut history = Told::default();
    let mut store = Store::open(vfs, options)?;
    let recovered = store.recover(&mut history)?;
    Ok((store, recovered, history))
}

impl Run {
    /// Checks that every acknowledged transaction is present, in order, and that no transaction
    /// appears that was never written.
    pub(crate) fn check(&self, recovered: &Recovered, history: &Told) -> Result<(), String> {
        let bodies = history.bodies();
        let found = bodies.len();
        if found < self.acknowledged {
            return Err(format!("{found} of {} acknowledged are there", self.acknowledged));
        }
        if found > self.attempted.len() {
            return Err(format!("{found} found, {} written", self.attempted.len()));
        }
        for (at, (zxid, body)) in self.attempted[..found].iter().enumerate() {
            if bodies[at] != *body {
                return Err(format!("{zxid} is another one"));
            }
        }
        let last = self.attempted[..found].last().map_or(Zxid::ZERO, |(zxid, _)| *zxid);
        if recovered.last_zxid != last {
            return Err(format!("last is {}, not {last}", recovered.last_zxid));
        }
        Ok(())
    }

    /// Starts a server: recovers, checks, and continues.
    pub(crate) fn start(&mut self, vfs: &Arc<dyn Vfs>) -> Result<(TxnLog, Snapshots), StoreError> {
        let (store, recovered, history) = recover(Arc::clone(vfs), options())?;
        self.check(&recovered, &history).unwrap_or_else(|what| panic!("{what}: {recovered:?}"));
        self.attempted.truncate(history.bodies().len());
        self.acknowledged = self.attempted.len();
        self.salt += 1;
        let (log, snapshots) = store.split();
        // Nothing depends on an existing snapshot.
        if recovered.snapshot.is_none() || recovered.replayed > 0 {
            self.snapshot(&snapshots)?;
        }
        Ok((log, snapshots))
    }

    pub(crate) fn last(&self) -> Zxid {
        self.attempted.last().map_or(Zxid::ZERO, |(zxid, _)| *zxid)
    }

    pub(crate) fn snapshot(&self, snapshots: &Snapshots) -> Result<(), StoreError> {
        let last = self.last();
        self.written(snapshots)?.finish(Some((last, 0)), Some(last)).map(drop)
    }

    /// The same, as a leader sends it.
    pub(crate) fn received(&self, snapshots: &Snapshots) -> Result<Received, StoreError> {
        self.written(snapshots)?.complete(None, Some(self.last()))
    }

    fn written(&self, snapshots: &Snapshots) -> Result<SnapshotWriter, StoreError> {
        let mut writer = snapshots.begin(self.last())?;
        writer.sessions(&[]);
        writer.acls::<Vec<Acl>>(&[]);
        let stat = StatPersisted::default();
        writer.node("", None, -1, &stat);
        for (at, (zxid, body)) in self.attempted.iter().enumerate() {
            writer.node(&format!("/{zxid}"), Some(body), -1, &stat);
            if at % 64 == 63 {
                writer.flush()?;
            }
        }
        Ok(writer)
    }

    /// Writes `count` transactions from `next` on, in batches.
    pub(crate) fn write(
        &mut self,
        log: &mut TxnLog,
        next: Zxid,
        count: usize,
    ) -> Result<(), StoreError> {
        let mut zxid = next;
        let mut left = count;
        for batch in [1, 3, 2, 7, 1, 5].into_iter().cycle() {
            let batch = left.min(batch);
            for _ in 0..batch {
                let body = body(zxid, self.salt);
                log.append(zxid, &body);
                self.attempted.push((zxid, body));
                zxid = zxid.next().unwrap();
            }
            let synced = log.commit()?;
            assert_eq!(synced.up_to, self.last());
            self.acknowledged = self.attempted.len();
            left -= batch;
            if left == 0 {
                return Ok(());
            }
        }
        unreachable!("batches never end");
    }

    pub(crate) fn next(&self) -> Zxid {
        self.last().next().unwrap()
    }
}

/// Three lives: a first start, 200 writes, rolls, snapshots, an end without a close, a new epoch,
/// purges.
pub(crate) fn script(vfs: &Arc<dyn Vfs>, clock: &MemVfs, run: &mut Run) -> Result<(), StoreError> {
    let (mut log, snapshots) = run.start(vfs)?;
    run.write(&mut log, run.next(), 40)?;
    log.settle()?;
    run.write(&mut log, run.next(), 5)?;
    log.roll()?;
    run.snapshot(&snapshots)?;
    clock.advance(Duration::from_secs(2));
    run.write(&mut log, run.next(), 45)?;
    run.snapshot(&snapshots)?;
    run.write(&mut log, run.next(), 20)?;
    drop((log, snapshots));

    let (mut log, snapshots) = run.start(vfs)?;
    run.write(&mut log, Zxid::new(Epoch(1), 1), 30)?;
    log.roll()?;
    run.snapshot(&snapshots)?;
    snapshots.purge(3, &mut |_| true)?;
    run.write(&mut log, run.next(), 30)?;
    log.roll()?;
    run.write(&mut log, run.next(), 10)?;
    run.snapshot(&snapshots)?;
    snapshots.purge(3, &mut |_| true)?;
    run.write(&mut log, run.next(), 20)?;
    log.close()?;
    drop(snapshots);

    let (mut log, snapshots) = run.start(vfs)?;
    run.write(&mut log, run.next(), 4)?;
    snapshots.purge(3, &mut |_| true)?;
    log.settle()
}

/// Checks that a server starts on the state after a crash, continues, and starts again.
pub(crate) fn lives_on(disk: &MemVfs, run: &Run, what: &dyn Fn() -> String) {
    let mut run = run.clone();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    for round in 0..2 {
        let started = recover(Arc::clone(&vfs), options());
        let (_, recovered, history) =
            started.unwrap_or_else(|error| panic!("{}: round {round}: {error}", what()));
        if let Err(broken) = run.check(&recovered, &history) {
            panic!("{}: round {round}: {broken}: {recovered:?}", what());
        }
        run.attempted.truncate(history.bodies().len());
        run.acknowledged = run.attempted.len();
        if round == 0 {
            let (mut log, _) = run.start(&vfs).unwrap();
            run.write(&mut log, run.next(), 3).unwrap();
        }
    }
    // No file is left that the original would refuse.
    for path in disk.files() {
        if path.to_string_lossy().contains("/log.") {
            let content = disk.content(&path).unwrap();
            let (end, tail) = read_log(&content[..], 1 << 20, &mut |_| ()).unwrap();
            assert_eq!(tail, Tail::Clean, "{}: {path:?}: {end:?}", what());
        }
        if path.to_string_lossy().contains("/durable.") {
            let mark = Mark::read(&disk.content(&path).unwrap());
            assert!(mark.is_some_and(|mark| mark.records > 0), "{}: {path:?}: {mark:?}", what());
        }
    }
}

/// A disk after the whole script, closed cleanly.
pub(crate) fn finished() -> (MemVfs, Run) {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    script(&vfs, &disk, &mut run).unwrap();
    (disk, run)
}

/// A name for a failing case.
pub(crate) fn case(at: u64, crash: Crash) -> String {
    format!("stopped at {at}, {crash:?}")
}
