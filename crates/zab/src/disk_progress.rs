//! How long this server's own disk has made no progress.
//!
//! A server answers its clients only when a transaction is durable on its own disk, whatever a
//! quorum has. So a server whose disk hangs stops serving, as a leader disconnects such a follower.

use std::time::Duration;

use zebu_proto::Zxid;

use crate::history::History;

/// A transaction that is not durable here, and since when.
///
/// It is the newest one at the time the previous one became durable, so a slow disk still counts as
/// making progress.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskProgress(Option<(Zxid, Duration)>);

impl DiskProgress {
    /// Checks the disk's progress. A server that does not serve has no deadline.
    pub(crate) fn look(&mut self, now: Duration, history: &History, serves: bool) {
        let (flushed, last) = (history.flushed(), history.last());
        assert!(flushed <= last, "{flushed} is durable, and {last} is all there is");
        let owed = self.0.filter(|(zxid, _)| serves && *zxid > flushed);
        self.0 = owed.or((serves && last > flushed).then_some((last, now)));
    }

    /// This server was suspended: reports of the disk may be outstanding.
    pub(crate) fn postpone(&mut self, time: Duration) {
        if let Some((_, since)) = &mut self.0 {
            *since += time;
        }
    }

    /// When the disk will have been without progress for `limit`.
    pub(crate) fn due(&self, limit: Duration) -> Duration {
        self.0.map_or(Duration::MAX, |(_, since)| since + limit)
    }
}
