//! A stretch of the log on disk, read for a learner.

use bytes::Bytes;
use tracing::info;
use zebu_proto::Zxid;
use zebu_store::{Range, Unusable};
use zebu_zab::{Input, LinkId, LogEnd};

use super::Net;

/// Bytes handed over at once, roughly.
const PART_BYTES: usize = 1 << 20;

/// Reads the log behind `after`, unless it is longer than `share` of the newest snapshot; 0 is no
/// limit.
pub(super) fn read(net: &Net, link: LinkId, after: Zxid, up_to: Zxid, share: f64) {
    if let Err(unusable) = hand_over(net, link, after, up_to, share) {
        info!("the log is of no use to a learner at {after}: {unusable}");
        let (floor, txns) = (None, Vec::new());
        net.report(Input::LogRead { link, floor, txns, end: LogEnd::Unusable });
    }
}

fn hand_over(
    net: &Net,
    link: LinkId,
    after: Zxid,
    up_to: Zxid,
    share: f64,
) -> Result<(), Unusable> {
    let snapshots = &net.shared.snapshots;
    let bytes_max = match snapshots.latest()? {
        Some(snapshot) if share > 0.0 => (snapshot.bytes as f64 * share) as u64,
        _ => u64::MAX,
    };
    let mut history = snapshots.logs().history(Range { after, up_to, bytes_max })?;
    // Without a floor the logs begin with the very next one.
    let floor = Some(history.floor().unwrap_or(after));
    let (mut txns, mut bytes) = (Vec::new(), 0);
    while let Some((zxid, body)) = history.next()? {
        bytes += body.len();
        txns.push((zxid, Bytes::copy_from_slice(body)));
        if bytes >= PART_BYTES {
            let txns = std::mem::take(&mut txns);
            net.report(Input::LogRead { link, floor, txns, end: LogEnd::More });
            bytes = 0;
            while net.shared.inbox.len() > super::INPUTS_MAX && !net.shared.is_stopping() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
    net.report(Input::LogRead { link, floor, txns, end: LogEnd::Complete });
    Ok(())
}
