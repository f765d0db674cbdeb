//! The log thread: appends what the replica orders, makes it durable, and says so.
//!
//! Whatever queued up while the disk was busy goes out with one write and one sync (STO-03).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use parking_lot::Mutex;
use tracing::{info, warn};
use zebu_proto::{Epoch, Zxid};
use zebu_replica::Input;
use zebu_state::Copied;
use zebu_state::membership::{self, ConfigFiles};
use zebu_store::{EpochFile, EpochFiles, TxnLog};
use zebu_tree::Tree;
use zebu_zab::{ConfigChange, EpochKind};

use crate::shared::Shared;

/// Silence after which the log is marked durable up to its end.
const SETTLE_AFTER: Duration = Duration::from_millis(100);

/// A sync that took longer is left to a thread of its own.
const QUICK_SYNC_MAX: Duration = Duration::from_millis(1);

/// What the log thread is asked to do.
#[derive(Debug)]
pub enum Command {
    /// Append these records.
    Append {
        /// In order.
        records: Vec<(Zxid, Bytes)>,
        /// When they were handed in.
        since: Instant,
    },
    /// Start a new file with the next record.
    Roll,
    /// Something for an ensemble, once everything before it is durable.
    Member(Job),
}

/// What a member of an ensemble asks of the disk.
#[derive(Debug)]
pub enum Job {
    /// Keep a configuration.
    Config(ConfigChange),
    /// Make an epoch durable.
    SaveEpoch(EpochKind, Epoch),
    /// Take back everything behind this.
    Truncate(Zxid),
    /// Let the tree be what the disk has.
    Reload,
    /// Make a leader's tree this server's.
    Restore(Box<Copied>),
}

/// How the log thread reports to the replica.
#[derive(Debug)]
pub enum Reports {
    /// To a server that runs alone.
    Alone,
    /// To a member of an ensemble, with its epochs and its configuration.
    Member(EpochFiles, Box<ConfigFiles>),
}

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
        records: Vec<(Zxid, Bytes)>,
        shared: &Shared,
    ) -> anyhow::Result<Option<Zxid>> {
        let mut batch = Batch::default();
        batch.take(&mut self.log, Command::Append { records, since: Instant::now() }, shared)?;
        self.commit(batch, shared)
    }

    /// Makes a batch durable; says up to where.
    fn commit(&mut self, batch: Batch, shared: &Shared) -> anyhow::Result<Option<Zxid>> {
        let Some(last) = batch.last else { return Ok(None) };
        let flush = Instant::now();
        let synced = self.log.commit().context("the transaction log cannot be written")?;
        let metrics = &shared.metrics;
        metrics.fsynctime.add(synced.took.as_millis() as i64);
        metrics.sync_processor_batch_size.add(batch.records as i64);
        metrics.sync_processor_queue_flush_time_ms.add(ms_since(flush));
        for (since, records) in batch.arrivals {
            let waited = &metrics.sync_processor_queue_and_flush_time_ms;
            waited.add_many(ms_since(since), records as u64);
        }
        let limit = shared.config.log.fsync_warning;
        if synced.took > limit {
            shared.stats.fsync_threshold_exceed_count.add(1);
            warn!(
                "fsync of the transaction log took {} ms, longer than {} ms: this delays every write",
                synced.took.as_millis(),
                limit.as_millis()
            );
        }
        if self.log.should_roll() {
            self.log.roll().context("the transaction log cannot start a new file")?;
        }
        (self.committed, self.took) = (Instant::now(), synced.took);
        Ok(Some(last))
    }

    /// To be called now and then while nothing is appended.
    fn settle(&mut self) -> anyhow::Result<()> {
        if self.committed.elapsed() < SETTLE_AFTER {
            return Ok(());
        }
        self.log.settle().context("the transaction log cannot be marked durable")
    }
}

/// Runs until the sender is gone, then makes everything durable and ends.
///
/// A failure stops the server; a failed sync is never retried.
pub fn run(
    journal: &Mutex<Journal>,
    commands: &Receiver<Command>,
    mut reports: Reports,
    shared: &Arc<Shared>,
) {
    let done = drive(journal, commands, &mut reports, shared)
        .and_then(|()| journal.lock().log.roll().context("the transaction log cannot be closed"));
    if let Err(failure) = done {
        shared.stop(Err(failure));
    }
}

fn drive(
    journal: &Mutex<Journal>,
    commands: &Receiver<Command>,
    reports: &mut Reports,
    shared: &Arc<Shared>,
) -> anyhow::Result<()> {
    let batch_max = shared.config.log.batch_txns_max.map_or(usize::MAX, |most| most as usize);
    let delay = shared.config.log.flush_delay;
    let poll = shared.config.log.queue_poll_max;
    let mut held = None;
    loop {
        let first = match held.take().map_or_else(|| commands.recv_timeout(SETTLE_AFTER), Ok) {
            Ok(Command::Member(job)) => {
                job.run(&mut journal.lock().log, reports, shared)?;
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
            if let Command::Member(_) = next {
                held = Some(next);
                break;
            }
            batch.take(&mut journal.log, next, shared)?;
        }
        if let Some(last) = journal.commit(batch, shared)? {
            shared.inbox.push(match reports {
                Reports::Alone => Input::Flushed(last),
                Reports::Member(..) => Input::Zab(zebu_zab::Input::Flushed(last)),
            });
        }
    }
}

/// Waits for company until `due`, when a delay is configured, but not longer than `most`.
fn wait(commands: &Receiver<Command>, due: Instant, most: Duration) -> Option<Command> {
    let left = due.saturating_duration_since(Instant::now()).min(most);
    if left == Duration::ZERO {
        return None;
    }
    commands.recv_timeout(left).ok()
}

impl Job {
    /// Whether it makes log and tree anew.
    pub fn remakes(&self) -> bool {
        matches!(self, Self::Truncate(_) | Self::Reload | Self::Restore(_))
    }

    fn run(self, log: &mut TxnLog, reports: &mut Reports, shared: &Shared) -> anyhow::Result<()> {
        let Reports::Member(epochs, config) = reports else {
            unreachable!("a server alone has no jobs")
        };
        let take = |mut tree: Tree| {
            let now_ms = shared.clock.now().wall_ms;
            if shared.config.reconfig_enabled {
                membership::show(&mut tree, config.committed(), now_ms);
            } else {
                membership::overwrite(&mut tree, config.committed(), now_ms);
            }
            *shared.tree.write() = tree;
        };
        let remakes = self.remakes();
        let done = match self {
            Self::Config(change) => {
                tell(&change);
                return Ok(config.save(&change)?);
            }
            Self::SaveEpoch(kind, epoch) => {
                let file = match kind {
                    EpochKind::Accepted => EpochFile::Accepted,
                    EpochKind::Current => EpochFile::Current,
                };
                epochs.write(file, epoch)?;
                zebu_zab::Input::EpochSaved(kind, epoch)
            }
            Self::Truncate(zxid) => {
                info!("taking back everything behind {zxid}: the leader does not have it");
                let options = shared.tree.read().options();
                let applied = shared.tree.read().last_zxid();
                let (end, tree) = zebu_state::truncate(log, zxid, applied, options)?;
                let config = tree
                    .as_ref()
                    .map_or_else(|| membership::in_data(&shared.tree.read()), membership::in_data);
                if let Some(tree) = tree {
                    take(tree);
                }
                zebu_zab::Input::Truncated { end, config: config.map(Arc::new) }
            }
            Self::Reload => {
                info!("this server gets a vote: it begins again with what its disk has");
                let options = shared.tree.read().options();
                let (end, tree) = zebu_state::reload(log, options)?;
                take(tree);
                zebu_zab::Input::Reloaded { end }
            }
            Self::Restore(copied) => {
                let Copied { tree, file, .. } = *copied;
                let zxid = file.zxid();
                let written = log.install(file)?;
                info!("{} is this server's state now", written.path.display());
                let config = membership::in_data(&tree).map(Arc::new);
                take(tree);
                zebu_zab::Input::Restored { zxid, config }
            }
        };
        shared.inbox.push(Input::Zab(done));
        if remakes {
            shared.remaking.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }
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
    fn take(&mut self, log: &mut TxnLog, command: Command, shared: &Shared) -> anyhow::Result<()> {
        match command {
            Command::Append { records, since } => {
                let metrics = &shared.metrics;
                let count = records.len();
                let queued = shared.log_queue.fetch_sub(count, Ordering::Relaxed);
                metrics.sync_processor_queue_size.add(queued as i64);
                metrics.sync_processor_queue_time_ms.add_many(ms_since(since), count as u64);
                let began = Instant::now();
                let mut bytes = 0;
                for (zxid, record) in records {
                    log.append(zxid, &record);
                    bytes += record.len();
                    self.last = Some(zxid);
                }
                shared.log_queue_bytes.fetch_sub(bytes, Ordering::Relaxed);
                metrics.sync_process_time.add(ms_since(began));
                self.records += count;
                self.arrivals.push((since, count));
            }
            Command::Roll => {
                log.roll().context("the transaction log cannot start a new file")?;
            }
            Command::Member(_) => unreachable!("a job is no part of a batch"),
        }
        Ok(())
    }
}
