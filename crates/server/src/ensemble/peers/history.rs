//! A stretch of the log on disk, read for a learner.

use std::ops::ControlFlow;
use std::time::Duration;

use tracing::info;
use zebu_state::{Stretch, read_log};
use zebu_zab::{Input, LinkId};

use super::Net;
use super::backlog::READ_AHEAD_BYTES;

/// Pause between two looks at how far the learner is.
const PAUSE: Duration = Duration::from_millis(1);

/// Bytes handed over at once, roughly.
pub(super) const PART_BYTES: usize = 1 << 20;

/// Reads what the leader wants, as fast as the learner takes it, and as long as there is one.
pub(super) fn read(net: &Net, stretch: Stretch) {
    let link = stretch.link;
    let read = read_log(&net.shared.snapshots, stretch, &mut |input| {
        let bytes: usize = match &input {
            Input::LogRead { txns, .. } => txns.iter().map(|(_, record)| record.len()).sum(),
            _ => 0,
        };
        net.shared.inbox().push_sized(&mut vec![zebu_replica::Input::Zab(input)], bytes);
        wait_for(net, link)
    });
    if let Err(unusable) = read {
        info!("the log is of no use to a learner at {}: {unusable}", stretch.after);
    }
}

/// Waits until the learner has taken most of what has been read for it; nothing more is to be read when it is gone.
fn wait_for(net: &Net, link: LinkId) -> ControlFlow<()> {
    let is_full = || {
        let (_, bytes) = net.shared.inbox().load();
        bytes + net.backlog_bytes(link) > READ_AHEAD_BYTES || net.is_replica_behind()
    };
    while !net.shared.is_stopping() && net.has(link) {
        if !is_full() {
            return ControlFlow::Continue(());
        }
        std::thread::sleep(PAUSE);
    }
    ControlFlow::Break(())
}
