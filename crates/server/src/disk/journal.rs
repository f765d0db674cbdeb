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

/// Duration of a sync up to which the disk counts as quick.
const QUICK_SYNC_MAX: Duration = Duration::from_millis(1);

/// What the log thread is asked to do.
#[derive(Debug)]
pub struct Command {
    /// What.
    pub order: Order,
    /// When it was handed in.
    pub since: Instant,
}

/// What the log belongs to: a server that runs alone, or a member of an ensemble with its files.
pub type Files = Option<Box<MemberFiles>>;

/// The log and what its disk was like lately.
///
/// The log thread owns it in all but name. The replica's thread borrows it while that thread is idle,
/// see [`Journal::append_now`].
#[derive(Debug)]
pub struct Journal {
    log: TxnLog,
    /// When something was committed last.
    committed: Instant,
    /// How long the last sync took.
    took: Duration,
}

impl Journal {
    /// A journal that was opened just now.
    pub fn new(log: TxnLog) -> Self {
        Self { log, committed: Instant::now(), took: Duration::ZERO }
    }

    /// Whether the disk answers faster than two threads could tell each other of it.
    pub fn is_quick(&self) -> bool {
        self.took < QUICK_SYNC_MAX
    }

    /// Appends records and makes them durable, on the thread of the caller.
    ///
    /// # Errors
    /// When the disk failed.
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
    /// When the disk failed.
    pub fn restore(&mut self, snapshot: Received) -> Result<(), RunError> {
        self.log
            .restore(snapshot)
            .map_err(RunError::log("cannot begin again behind a snapshot"))?;
        Ok(())
    }

    /// Makes a batch durable. Returns its last zxid.
    fn commit(&mut self, batch: Batch, shared: &Shared) -> Result<Option<Zxid>, RunError> {
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

    /// To be called now and then while nothing is appended.
    fn settle(&mut self) -> Result<(), RunError> {
        if self.committed.elapsed() < SETTLE_AFTER {
            return Ok(());
        }
        self.log.settle().map_err(RunError::log("cannot be marked durable"))
    }
}

/// Runs until the sender is dropped, then makes everything durable and ends.
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

/// Waits until `due` for further txns if a delay is configured, but not longer than `most`.
fn wait(commands: &Receiver<Command>, due: Instant, most: Duration) -> Option<Command> {
    let left = due.saturating_duration_since(Instant::now()).min(most);
    if left == Duration::ZERO {
        return None;
    }
    commands.recv_timeout(left).ok()
}

/// Does what a member asks of the disk, and reports it.
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
        Job::Reload => info!("this server gets a vote: it starts again from its disk"),
        Job::Identity(_) | Job::SaveEpoch(..) | Job::Committed(_) | Job::Restore(_) => {}
    }
    let remakes = job.remakes();
    let Done { input: done, replaced } =
        job.run(log, files, shared.tree(), shared.clock.now().wall_ms)?;
    if let Some(zebu_zab::Input::Restored { zxid, .. }) = &done {
        info!("the leader's snapshot {zxid} is this server's state now");
        let differing = shared.disk.differing.lock().take();
        if let (Some(since), Some(old)) = (differing, replaced) {
            evidence::name_znodes(shared.clone(), since, old);
        }
    }
    shared.inbox().push_all(&mut done.map(Input::Zab).into_iter().collect());
    if remakes {
        shared.disk.remaking.fetch_sub(1, Ordering::Relaxed);
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

/// What goes out with one sync.
#[derive(Default)]
struct Batch {
    records: usize,
    last: Option<Zxid>,
    /// When its records were handed in, and how many at a time.
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
        metrics.sync_processor_queue_size.add(queued as i64);
        metrics.sync_processor_queue_time_ms.add_many(ms_since(since), count as u64);
        let began = Instant::now();
        let mut bytes = 0;
        for (zxid, record) in records {
            log.append(zxid, &record);
            bytes += record.len();
            self.last = Some(zxid);
        }
        shared.disk.log_queue_bytes.fetch_sub(bytes, Ordering::Relaxed);
        metrics.sync_process_time.add(ms_since(began));
        self.records += count;
        self.arrivals.push((since, count));
    }
}
