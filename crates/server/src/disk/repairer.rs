//! Repairs damaged logs: a thread of a member whose start has found damage.
//!
//! It asks the other members for the transactions that its logs lack, as [`LogRepair`] decides.
//! When every log agrees with its sidecar again, it stops the server, and the process starts again
//! with these logs: one piece of code derives the initial state of a member from its data. If a
//! leader's snapshot arrives first, the repair is not needed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};
use zebu_proto::quorum::Missing;
use zebu_state::{LogRepair, Next, Waiting};
use zebu_store::log_repair::Repaired;
use zebu_store::{Damage, LogFiles, StoreError};

use crate::ensemble::peers;
use crate::error::RunError;
use crate::shared::{Clock, Disk, Ending, Shared};

/// Time between two checks whether a leader's snapshot has arrived.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of ranges in a message. For further ranges it shows only their number.
const NAMED_MAX: usize = 4;

/// Runs until all logs are repaired, the repair is impossible, or the server stops.
pub fn run(shared: &Arc<Shared>, logs: &LogFiles, damage: &Damage, peers: &peers::Handle) {
    let Shared { ending, disk, clock, .. } = &**shared;
    *disk.repair.lock() = vec![in_short(damage)];
    let done = repair((ending, disk, *clock), logs, damage, peers);
    disk.repair.lock().clear();
    match done {
        Ok(0) => {}
        Ok(count) => shared.stop(Err(RunError::Repaired(count))),
        Err(failure) => shared.stop(Err(RunError::Repair(failure))),
    }
}

/// The number of repaired logs, if the server should restart with them.
fn repair(
    (ending, disk, clock): (&Ending, &Disk, Clock),
    logs: &LogFiles,
    damage: &Damage,
    peers: &peers::Handle,
) -> Result<usize, StoreError> {
    let Some(mut repair) = LogRepair::new(logs.damaged_logs(damage)?) else {
        info!("no sidecar describes the damaged file, so no other member is asked for its records");
        while !ending.is_stopping() && logs.is_untrusted() {
            ending.wait_for(LOOK_AFTER);
        }
        return Ok(0);
    };
    let mut told = Vec::new();
    while !ending.is_stopping() && logs.is_untrusted() {
        match repair.next(clock.monotonic(), &peers.others()) {
            Next::Ask(server, missing) => {
                let most = repair.missing_bytes();
                let each = &mut |body: &[u8]| repair.received(body);
                let how = peers.ask_for_repair(server, missing, most, each);
                repair.answered(how);
            }
            Next::Write => {
                let Some(damaged) = repair.current() else { return Ok(0) };
                let (path, found, records) = (damaged.path(), damaged.found(), damaged.records());
                let what = logs.repair(damaged)?;
                let path = path.display();
                match what {
                    Repaired::Whole => info!(
                        "{path}: repaired: other members supplied {found} of its {records} transactions"
                    ),
                    Repaired::Differs => warn!(
                        "{path}: the records from other members differ from those that the sidecar describes"
                    ),
                    Repaired::Replaced => return Ok(0),
                }
                repair.written(what);
            }
            Next::Wait(until) => {
                let words: Vec<String> = repair.waiting().iter().map(in_words).collect();
                if told != words {
                    words.iter().for_each(|words| warn!("{words}"));
                    *disk.repair.lock() =
                        std::iter::once(in_short(damage)).chain(words.iter().cloned()).collect();
                    told = words;
                }
                let now = clock.monotonic();
                ending.wait_for(until.saturating_sub(now).min(LOOK_AFTER));
            }
            Next::Whole => return Ok(repair.repaired()),
        }
    }
    Ok(0)
}

/// The damage that the start has found, without the hint for an operator.
fn in_short(damage: &Damage) -> String {
    damage.to_string().lines().next().unwrap_or_default().to_owned()
}

/// The missing transactions of a log.
fn in_words(waiting: &Waiting) -> String {
    let Waiting { log, missing } = waiting;
    let name = log.file_name().map_or(log.as_path(), Path::new).display();
    let range = |it: &Missing| format!("after {} up to {}", it.after, it.up_to);
    let mut named: Vec<String> = missing.iter().take(NAMED_MAX).map(range).collect();
    if missing.len() > NAMED_MAX {
        named.push(format!("and {} further ranges", missing.len() - NAMED_MAX));
    }
    format!(
        "{name}: no reachable member has an intact copy of these transactions: {}",
        named.join(", ")
    )
}
