//! A stretch of the log on disk, read for a learner.

use tracing::info;
use zebu_state::{Stretch, read_log};

use super::Net;

/// Bytes handed over at once, roughly.
pub(super) const PART_BYTES: usize = 1 << 20;

/// Reads what the leader wants, as fast as the replica takes it.
pub(super) fn read(net: &Net, stretch: Stretch) {
    let read = read_log(&net.shared.snapshots, stretch, &mut |input| {
        net.report(input);
        while net.shared.inbox.len() > super::INPUTS_MAX && !net.shared.is_stopping() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    if let Err(unusable) = read {
        info!("the log is of no use to a learner at {}: {unusable}", stretch.after);
    }
}
