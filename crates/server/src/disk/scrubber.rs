//! The scrub: a thread that rereads logs and snapshots at a limited rate, and finds damage before a
//! start needs the file.
//!
//! Each damaged file is logged once, counted, and shown by `/health`. While a start would need a
//! damaged file, the scrub requests a snapshot, and a new log begins after the snapshot: the tree
//! in memory is not damaged. The damaged files stay unchanged.

use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_config::ScrubConfig;
use zebu_replica::Input;
use zebu_store::scrub::{Incidents, RETRY_AFTER};
use zebu_store::{Rate, Snapshots};

use crate::shared::{Clock, Ending, Shared};

/// Minimum time between the start and the first pass, unless passes are more frequent: the start
/// has just read the files.
const FIRST_AFTER: Duration = Duration::from_secs(600);

/// Reads no faster than `zebu.scrubRateInKb`, until the server stops. Without that setting, only
/// the end of the server stops it.
pub fn pace<'s>(
    ending: &'s Ending,
    clock: Clock,
    config: Option<&ScrubConfig>,
) -> impl FnMut(u64) -> bool + use<'s> {
    let new = |config: &ScrubConfig| Rate::new(config.bytes_per_second, clock.monotonic());
    let mut rate = config.map(new);
    move |bytes| {
        let pause = rate.as_mut().map(|rate| rate.pause(clock.monotonic(), bytes));
        if let Some(pause) = pause.filter(|pause| !pause.is_zero()) {
            ending.wait_for(pause);
        }
        !ending.is_stopping()
    }
}

/// Runs until the server stops.
pub fn run(shared: &Shared, snapshots: &Snapshots) {
    let Some(config) = shared.config.scrub else { return };
    super::step_back();
    let files = snapshots.logs();
    let mut incidents = Incidents::default();
    let mut due = Instant::now() + config.interval.min(FIRST_AFTER);
    while !shared.ending.is_stopping() {
        let now = Instant::now();
        if due <= now {
            let pass = files.scrub(&mut pace(&shared.ending, shared.clock, Some(&config)));
            if shared.ending.is_stopping() {
                return;
            }
            match pass {
                Ok(pass) => {
                    for rotten in incidents.found(pass.damage) {
                        error!("{rotten}");
                        shared.metrics.scrub_damage_count.add(1);
                    }
                    *shared.disk.damaged_files.lock() =
                        incidents.known().iter().map(ToString::to_string).collect();
                    info!("scrub: {} files, {} bytes read", pass.files, pass.bytes);
                }
                Err(failure) => warn!("scrub: {failure}"),
            }
            due = Instant::now() + config.interval;
        }
        // Without damage, this thread of the lowest priority never holds the tree's lock.
        let asks = !incidents.is_empty() && {
            let last = shared.tree().read().last_zxid();
            incidents.ask(&files, shared.clock.monotonic(), last)
        };
        if asks {
            info!(
                "scrub: the next start would need a damaged file, so this server takes a snapshot now; later starts do not \
                 need the file"
            );
            shared.inbox().push(Input::SnapshotWanted);
        }
        let next = if incidents.is_empty() { due } else { due.min(Instant::now() + RETRY_AFTER) };
        shared.ending.wait_for(next.saturating_duration_since(Instant::now()));
    }
}
