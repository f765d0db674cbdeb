//! The log thread: appends the records of the replica, makes them durable, and reports that.
//!
//! An idle log thread of a member also runs the replica's next turn after a sync.
//! All records that were queued during a sync are written and synced together (STO-03).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{info, warn};
use zebu_engine::journal::{Done, Job, MemberFiles, Order, Records};
use zebu_proto::Zxid;
use zebu_replica::Input;
use zebu_store::{Received, TxnLog};
use zebu_zab::ConfigChange;

use crate::ensemble::evidence;
use crate::error::RunError;
use crate::shared::Shared;
use crate::turns;

/// Silence after which the log is marked durable up to its end.
const SETTLE_AFTER: Duration = Duration::from_millis(100);

/// Maximum records of a sync after which this thread also runs the replica's turn.
const LEISURELY_MAX: usize = 64;

/// Maximum duration of a sync on a disk that counts as fast.
const QUICK_SYNC_MAX: Duration = Duration::from_millis(1);

/// A request to the log thread.
#[derive(Debug)]
pub struct Command {
    /// The request.
    pub order: Order,
    /// The time of the request.
    pub since: Instant,
}

/// The files of a member of an ensemble; `None` for a standalone server.
pub type Files = Option<Box<MemberFiles>>;

/// The log, and the recent speed of its disk.
///
/// It belongs to the log thread. The replica's thread borrows it while the log thread is idle; see
/// [`Journal::append_now`].
#[derive(Debug)]
pub struct Journal {
    log: TxnLog,
    /// The time of the last commit.
    committed: Instant,
    /// The duration of the last sync.
    took: Duration,
}

impl Journal {
    /// A journal that was just opened.
    pub fn new(log: TxnLog) -> Self {
        Self { log, committed: Instant::now(), took: Duration::ZERO }
    }

    /// Whether the disk is faster than the communication between two threads.
    pub fn is_quick(&self) -> bool {
        self.took < QUICK_SYNC_MAX
    }

    /// Appends records and makes them durable, on the caller's thread.
    ///
    /// # Errors
    /// The disk failed.
    pub fn append_now(
        &mut self,
        records: Records,
        shared: &Shared,
    ) -> Result<Option<Zxid>, RunError> {
        let mut batch = Batch::default();
        batch.append(&mut self.log, records, Instant::now(), shared);
        self.commit(batch, shared)
    }

    /// Makes an operator's snapshot the state on the disk.
    ///
    /// # Errors
    /// The disk failed.
    pub fn restore(&mut self, snapshot: Received) -> Result<(), RunError> {
        self.log
            .restore(snapshot)
            .map_err(RunError::log("cannot begin again behind a snapshot"))?;
        Ok(())
    }

    /// Makes a batch durable. Returns its last zxid.
    fn commit(&mut self, batch: Batch, shared: &Shared) -> Result<Option<Zxid>, RunError> {
        let arrived: usize = batch.arrivals.iter().map(|(_, records)| records).sum();
        assert_eq!(arrived, batch.records, "every record has arrived at a time");
        let Some(last) = batch.last else { return Ok(None) };
        let flush = Instant::now();
        let synced = self.log.commit().map_err(RunError::log("cannot be written"))?;
        let metrics = &shared.metrics;
        metrics.fsynctime.add(synced.took.as_millis() as i64);
        shared.counting.histograms.fsync.add(synced.took);
        metrics.sync_processor_batch_size.add(batch.records as i64);
        metrics.sync_processor_queue_flush_time_ms.add(ms_since(flush));
        for (since, records) in batch.arrivals {
            let waited = &metrics.sync_processor_queue_and_flush_time_ms;
            waited.add_many(ms_since(since), records as u64);
        }
        let limit = shared.config.log.fsync_warning;
        if synced.took > limit {
            shared.counting.stats.fsync_threshold_exceed_count.add(1);
            warn!(
                "fsync of the transaction log took {} ms, longer than {} ms: this delays every write",
                synced.took.as_millis(),
                limit.as_millis()
            );
        }
        if self.log.should_roll() {
            self.log.roll().map_err(RunError::log("cannot start a new file"))?;
        }
        (self.committed, self.took) = (Instant::now(), synced.took);
        Ok(Some(last))
    }

    /// Must be called from time to time while no records are appended.
    fn settle(&mut self) -> Result<(), RunError> {
        if self.committed.elapsed() < SETTLE_AFTER {
            return Ok(());
        }
        self.log.settle().map_err(RunError::log("cannot be marked durable"))
    }
}

/// Runs until the sender is dropped. Then it makes everything durable and ends.
///
/// A failure stops the server; a failed sync is never retried.
pub fn run(
    journal: &Mutex<Journal>,
    commands: &Receiver<Command>,
    mut files: Files,
    shared: &Arc<Shared>,
) {
    let done = drive(journal, commands, &mut files, shared)
        .and_then(|()| journal.lock().log.roll().map_err(RunError::log("cannot be closed")));
    if let Err(failure) = done {
        shared.stop(Err(failure));
    }
}

fn drive(
    journal: &Mutex<Journal>,
    commands: &Receiver<Command>,
    files: &mut Files,
    shared: &Arc<Shared>,
) -> Result<(), RunError> {
    let batch_max = shared.config.log.batch_txns_max.map_or(usize::MAX, |most| most as usize);
    let delay = shared.config.log.flush_delay;
    let poll = shared.config.log.queue_poll_max;
    let mut held = None;
    loop {
        let first = match held.take().map_or_else(|| commands.recv_timeout(SETTLE_AFTER), Ok) {
            Ok(Command { order: Order::Member(job), .. }) => {
                run_job(job, &mut journal.lock().log, files, shared)?;
                continue;
            }
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => {
                journal.lock().settle()?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let due = Instant::now() + delay;
        let mut journal = journal.lock();
        let mut batch = Batch::default();
        batch.take(&mut journal.log, first, shared)?;
        while batch.records < batch_max {
            let next = match commands.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => match wait(commands, due, poll) {
                    Some(next) => next,
                    None => break,
                },
            };
            if let Order::Member(_) = next.order {
                held = Some(next);
                break;
            }
            batch.take(&mut journal.log, next, shared)?;
        }
        let is_small = batch.records <= LEISURELY_MAX;
        let committed = journal.commit(batch, shared)?;
        drop(journal);
        if let Some(last) = committed {
            match files {
                None => shared.inbox().push(Input::Flushed(last)),
                Some(_) => {
                    if held.is_none() {
                        held = commands.try_recv().ok();
                    }
                    let is_idle = is_small && held.is_none();
                    let flushed = Input::Zab(zebu_zab::Input::Flushed(last));
                    turns::tell(&shared.turns, shared.inbox(), flushed, is_idle);
                }
            }
            shared.ensemble.caught_up.notify_waiters();
        }
    }
}

/// If a delay is configured, waits until `due` for further transactions, but at most for `most`.
fn wait(commands: &Receiver<Command>, due: Instant, most: Duration) -> Option<Command> {
    let left = due.saturating_duration_since(Instant::now()).min(most);
    if left == Duration::ZERO {
        return None;
    }
    commands.recv_timeout(left).ok()
}

/// Executes a member's request to the disk, and reports the result.
fn run_job(
    job: Job,
    log: &mut TxnLog,
    files: &mut Files,
    shared: &Arc<Shared>,
) -> Result<(), RunError> {
    let Some(files) = files else { unreachable!("a server alone has no jobs") };
    match &job {
        Job::Config(change) => tell(change),
        Job::Truncate(zxid) => {
            info!("truncating everything after {zxid}: the leader does not have it");
        }
        Job::Reload => info!("this server becomes a voter: it reloads its state from its disk"),
        Job::Identity(_) | Job::SaveEpoch(..) | Job::Committed(_) | Job::Restore(_) => {}
    }
    let remakes = job.remakes();
    let Done { input: done, replaced } =
        job.run(log, files, shared.tree(), shared.clock.now().wall_ms)?;
    if let Some(zebu_zab::Input::Restored { zxid, .. }) = &done {
        info!("installed the leader's snapshot: the state of this server is now that of {zxid}");
        let differing = shared.disk.differing.lock().take();
        if let (Some(since), Some(old)) = (differing, replaced) {
            evidence::name_znodes(shared.clone(), since, old);
        }
    }
    shared.inbox().push_all(&mut done.map(Input::Zab).into_iter().collect());
    if remakes {
        let before = shared.disk.remaking.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "nobody asked for a new state");
    }
    shared.ensemble.caught_up.notify_waiters();
    Ok(())
}

fn tell(change: &ConfigChange) {
    match change {
        ConfigChange::Proposed(config) => {
            info!("a configuration is proposed: version {:x}", config.version().0);
        }
        ConfigChange::Withdrawn | ConfigChange::Heard(_) => {}
        ConfigChange::Committed(config) => {
            info!("the configuration has changed: version {:x}", config.version().0);
            for line in config.committed_text().lines() {
                info!("{line}");
            }
        }
    }
}

fn ms_since(at: Instant) -> i64 {
    at.elapsed().as_millis() as i64
}

/// The records of one sync.
#[derive(Default)]
struct Batch {
    records: usize,
    last: Option<Zxid>,
    /// The times of the requests, each with the number of its records.
    arrivals: Vec<(Instant, usize)>,
}

impl Batch {
    fn take(
        &mut self,
        log: &mut TxnLog,
        command: Command,
        shared: &Shared,
    ) -> Result<(), RunError> {
        match command.order {
            Order::Append(records) => self.append(log, records, command.since, shared),
            Order::Roll => {
                log.roll().map_err(RunError::log("cannot start a new file"))?;
            }
            Order::Member(_) => unreachable!("a job is no part of a batch"),
        }
        Ok(())
    }

    fn append(&mut self, log: &mut TxnLog, records: Records, since: Instant, shared: &Shared) {
        let metrics = &shared.metrics;
        let count = records.len();
        let queued = shared.disk.log_queue.fetch_sub(count, Ordering::Relaxed);
        assert!(count <= queued, "{count} records are written, and {queued} were queued");
        metrics.sync_processor_queue_size.add(queued as i64);
        metrics.sync_processor_queue_time_ms.add_many(ms_since(since), count as u64);
        let began = Instant::now();
        let mut bytes = 0;
        for (zxid, record) in records {
            log.append(zxid, &record);
            bytes += record.len();
            self.last = Some(zxid);
        }
        let queued = shared.disk.log_queue_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(bytes <= queued, "{bytes} bytes are written, and {queued} were queued");
        metrics.sync_process_time.add(ms_since(began));
        self.records += count;
        self.arrivals.push((since, count));
    }
}
