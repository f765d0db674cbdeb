//! The log thread: appends what the replica orders, makes it durable, and says so.
//!
//! Whatever queued up while the disk was busy goes out with one write and one sync (STO-03).

use std::sync::Arc;
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
    Append(Vec<(Zxid, Bytes)>),
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
    loop {
        let first = match commands.recv_timeout(SETTLE_AFTER) {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => {
                log.settle().context("the transaction log cannot be marked durable")?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let mut records = 0;
        let mut last = take(log, first, &mut records)?;
        let due = Instant::now() + delay;
        while records < batch_max {
            let next = match commands.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => match wait(commands, due) {
                    Some(next) => next,
                    None => break,
                },
            };
            last = take(log, next, &mut records)?.or(last);
        }
        let Some(last) = last else { continue };
        let synced = log.commit().context("the transaction log cannot be written")?;
        let metrics = &shared.metrics;
        metrics.fsynctime.add(synced.took.as_millis() as i64);
        metrics.sync_processor_batch_size.add(records as i64);
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

/// Waits for company until `due`, when a delay is configured.
fn wait(commands: &Receiver<Command>, due: Instant) -> Option<Command> {
    let left = due.saturating_duration_since(Instant::now());
    if left == Duration::ZERO {
        return None;
    }
    commands.recv_timeout(left).ok()
}

fn take(log: &mut TxnLog, command: Command, records: &mut usize) -> anyhow::Result<Option<Zxid>> {
    match command {
        Command::Append(batch) => {
            let mut last = None;
            *records += batch.len();
            for (zxid, record) in batch {
                log.append(zxid, &record);
                last = Some(zxid);
            }
            Ok(last)
        }
        Command::Roll => {
            log.roll().context("the transaction log cannot start a new file")?;
            Ok(None)
        }
    }
}
