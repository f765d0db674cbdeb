//! A stretch of the log on disk, read for a learner.

use std::ops::ControlFlow;

use bytes::Bytes;
use zebu_proto::Zxid;
use zebu_store::{Range, Snapshots, Unusable};
use zebu_zab::{Input, LinkId, LogEnd};

/// What a leader wants to be read, and how much of it at a time.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The learner's connection.
    pub link: LinkId,
    /// The transaction it has.
    pub after: Zxid,
    /// The last one wanted.
    pub up_to: Zxid,
    /// How long the stretch may be, as a share of the newest snapshot; 0 is no limit.
    pub share: f64,
    /// Bytes in a part, roughly.
    pub part_bytes: usize,
}

/// Reads the log, and reports it part by part as the leader is told of it, unless nobody wants more of it.
///
/// # Errors
/// Why the log is of no use, which has been reported as well.
pub fn read_log(
    snapshots: &Snapshots,
    stretch: Stretch,
    report: &mut dyn FnMut(Input) -> ControlFlow<()>,
) -> Result<(), Unusable> {
    let read = hand_over(snapshots, stretch, report);
    if read.is_err() {
        let (floor, txns) = (None, Vec::new());
        let _ = report(Input::LogRead { link: stretch.link, floor, txns, end: LogEnd::Unusable });
    }
    read
}

fn hand_over(
    snapshots: &Snapshots,
    stretch: Stretch,
    report: &mut dyn FnMut(Input) -> ControlFlow<()>,
) -> Result<(), Unusable> {
    let Stretch { link, after, up_to, share, part_bytes } = stretch;
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
