//! Reads a part of the log for a learner.

use std::ops::ControlFlow;

use bytes::Bytes;
use zebu_proto::Zxid;
use zebu_store::{Range, Snapshots, Unusable};
use zebu_zab::{Input, LinkId, LogEnd};

/// The part that a leader wants to read.
#[derive(Clone, Copy, Debug)]
pub struct LogRange {
    /// The learner's connection.
    pub link: LinkId,
    /// The learner's newest transaction.
    pub after: Zxid,
    /// The last transaction of the part.
    pub up_to: Zxid,
    /// Maximum size, as a fraction of the newest snapshot; 0: no limit.
    pub share: f64,
    /// Approximate bytes per report.
    pub part_bytes: usize,
}

/// Reads the log and reports it in parts, until `report` stops it.
///
/// # Errors
/// Why the log is unusable; this was also reported.
pub fn read_log(
    snapshots: &Snapshots,
    range: LogRange,
    report: &mut dyn FnMut(Input) -> ControlFlow<()>,
) -> Result<(), Unusable> {
    let read = hand_over(snapshots, range, report);
    if read.is_err() {
        let (floor, txns) = (None, Vec::new());
        let _ = report(Input::LogRead { link: range.link, floor, txns, end: LogEnd::Unusable });
    }
    read
}

fn hand_over(
    snapshots: &Snapshots,
    range: LogRange,
    report: &mut dyn FnMut(Input) -> ControlFlow<()>,
) -> Result<(), Unusable> {
    let LogRange { link, after, up_to, share, part_bytes } = range;
    let bytes_max = match snapshots.latest()? {
        Some(snapshot) if share > 0.0 => (snapshot.bytes as f64 * share) as u64,
        _ => u64::MAX,
    };
    let mut history = snapshots.logs().history(Range { after, up_to, bytes_max })?;
    // Without a floor, the logs start right after `after`.
    let floor = Some(history.floor().unwrap_or(after));
    let (mut txns, mut bytes) = (Vec::new(), 0);
    while let Some((zxid, body)) = history.next()? {
        bytes += body.len();
        txns.push((zxid, Bytes::copy_from_slice(body)));
        if bytes >= part_bytes {
            let txns = std::mem::take(&mut txns);
            let more = Input::LogRead { link, floor, txns, end: LogEnd::More };
            if report(more).is_break() {
                return Ok(());
            }
            bytes = 0;
        }
    }
    let _ = report(Input::LogRead { link, floor, txns, end: LogEnd::Complete });
    Ok(())
}
