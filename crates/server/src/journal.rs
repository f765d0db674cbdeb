//! The log thread: appends what the replica orders, makes it durable, and says so.
//!
//! Whatever queued up while the disk was busy goes out with one write and one sync (STO-03).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use tracing::warn;
use zebu_proto::Zxid;
use zebu_replica::Input;
use zebu_store::TxnLog;

use crate::shared::Shared;

/// Silence after which the log is marked durable up to its end.
const SETTLE_AFTER: Duration = Duration::from_millis(100);

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
}

/// Runs until the sender is gone, then makes everything durable and ends.
///
/// A failure stops the server; a failed sync is never retried.
pub fn run(mut log: TxnLog, commands: &Receiver<Command>, shared: &Arc<Shared>) {
    let done = drive(&mut log, commands, shared);
    let done = done.and_then(|()| log.close().context("the transaction log cannot be closed"));
    if let Err(failure) = done {
        shared.stop(Err(failure));
    }
}

fn drive(
    log: &mut TxnLog,
    commands: &Receiver<Command>,
    shared: &Arc<Shared>,
) -> anyhow::Result<()> {
    let batch_max = shared.config.log.batch_txns_max.map_or(usize::MAX, |most| most as usize);
    let delay = shared.config.log.flush_delay;
    let poll = shared.config.log.queue_poll_max;
    loop {
        let first = match commands.recv_timeout(SETTLE_AFTER) {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => {
                log.settle().context("the transaction log cannot be marked durable")?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let due = Instant::now() + delay;
        let mut batch = Batch::default();
        batch.take(log, first, shared)?;
        while batch.records < batch_max {
            let next = match commands.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => match wait(commands, due, poll) {
                    Some(next) => next,
                    None => break,
                },
            };
            batch.take(log, next, shared)?;
        }
        let Some(last) = batch.last else { continue };
        let flush = Instant::now();
        let synced = log.commit().context("the transaction log cannot be written")?;
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
        if log.should_roll() {
            log.roll().context("the transaction log cannot start a new file")?;
        }
        shared.inbox.push(Input::Flushed(last));
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
                for (zxid, record) in records {
                    log.append(zxid, &record);
                    self.last = Some(zxid);
                }
                metrics.sync_process_time.add(ms_since(began));
                self.records += count;
                self.arrivals.push((since, count));
            }
            Command::Roll => {
                log.roll().context("the transaction log cannot start a new file")?;
            }
        }
        Ok(())
    }
}
