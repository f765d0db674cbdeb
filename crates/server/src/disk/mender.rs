//! Repairs damaged logs: a thread of a member whose start has found damage.
//!
//! It asks the other members for the transactions that its logs lack, as [`Mending`] decides. When
//! every log agrees with its sidecar again, it stops the server, and the process starts again with
//! these logs: one piece of code derives the initial state of a member from its data. If a leader's
//! snapshot arrives first, the repair is not needed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};
use zebu_proto::quorum::Missing;
use zebu_state::{Mending, Next, Waiting};
use zebu_store::mend::Mended;
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
    *disk.mending.lock() = vec![in_short(damage)];
    let done = mend((ending, disk, *clock), logs, damage, peers);
    disk.mending.lock().clear();
    match done {
        Ok(0) => {}
        Ok(count) => shared.stop(Err(RunError::Mended(count))),
        Err(failure) => shared.stop(Err(RunError::Mending(failure))),
    }
}

/// The number of repaired logs, if the server should restart with them.
fn mend(
    (ending, disk, clock): (&Ending, &Disk, Clock),
    logs: &LogFiles,
    damage: &Damage,
    peers: &peers::Handle,
) -> Result<usize, StoreError> {
    let Some(mut mending) = Mending::new(logs.wounds(damage)?) else {
        info!("no sidecar describes the damaged file, so no other member is asked for its records");
        while !ending.is_stopping() && logs.is_untrusted() {
            ending.wait_for(LOOK_AFTER);
        }
        return Ok(0);
    };
    let mut told = Vec::new();
    while !ending.is_stopping() && logs.is_untrusted() {
        match mending.next(clock.monotonic(), &peers.others()) {
            Next::Ask(server, missing) => {
                let most = mending.missing_bytes();
                let each = &mut |body: &[u8]| mending.received(body);
                let how = peers.ask_for_repair(server, missing, most, each);
                mending.answered(how);
            }
            Next::Write => {
                let Some(wound) = mending.current() else { return Ok(0) };
                let (path, found, records) = (wound.path(), wound.found(), wound.records());
                let what = logs.mend(wound)?;
                let path = path.display();
                match what {
                    Mended::Whole => info!(
                        "{path}: whole again: {found} of its {records} transactions are from other members"
                    ),
                    Mended::Differs => warn!(
                        "{path}: the records from other members differ from those that the sidecar describes"
                    ),
                    Mended::Replaced => return Ok(0),
                }
                mending.written(what);
            }
            Next::Wait(until) => {
                let words: Vec<String> = mending.waiting().iter().map(in_words).collect();
                if told != words {
                    words.iter().for_each(|words| warn!("{words}"));
                    *disk.mending.lock() =
                        std::iter::once(in_short(damage)).chain(words.iter().cloned()).collect();
                    told = words;
                }
                let now = clock.monotonic();
                ending.wait_for(until.saturating_sub(now).min(LOOK_AFTER));
            }
            Next::Whole => return Ok(mending.mended()),
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
    let stretch = |it: &Missing| format!("after {} up to {}", it.after, it.up_to);
    let mut named: Vec<String> = missing.iter().take(NAMED_MAX).map(stretch).collect();
    if missing.len() > NAMED_MAX {
        named.push(format!("and {} further stretches", missing.len() - NAMED_MAX));
    }
    format!(
        "{name} waits for transactions that no reachable member has whole: {}",
        named.join(", ")
    )
}
