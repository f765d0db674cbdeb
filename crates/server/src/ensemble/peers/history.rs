//! Reads a part of the log on disk for a learner.

use std::ops::ControlFlow;

use tokio::runtime::Handle;
use tracing::info;
use zebu_state::{LogRange, read_log};
use zebu_zab::Input;

use super::Net;

/// Approximate bytes passed on at once.
pub(super) const PART_BYTES: usize = 1 << 20;

/// Reads the requested part of the log, as fast as the learner receives it, until the learner
/// disconnects.
///
/// `runtime`: the runtime of the network, which drives the futures that this thread waits for.
pub(super) fn read(net: &Net, runtime: &Handle, range: LogRange) {
    let link = range.link;
    let read = read_log(&net.shared.disk.snapshots, range, &mut |input| {
        let bytes: usize = match &input {
            Input::LogRead { txns, .. } => txns.iter().map(|(_, record)| record.len()).sum(),
            _ => 0,
        };
        net.shared.inbox().push_sized(&mut vec![zebu_replica::Input::Zab(input)], bytes);
        match runtime.block_on(net.wait_for_learner(link)) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    if let Err(unusable) = read {
        info!("the log cannot synchronize a learner at {}: {unusable}", range.after);
    }
}
