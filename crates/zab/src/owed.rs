//! What a server's own disk owes: for how long it has not got further.
//!
//! Nobody whose client is here gets an answer before a transaction is durable here, whatever a quorum of the others
//! has. So a server whose disk hangs serves no longer, as a leader closes the connection of such a follower.

use std::time::Duration;

use zebu_proto::Zxid;

use crate::history::History;

/// A transaction that is not durable here yet, and since when that is so.
///
/// The newest one there was when the one before had become durable: a disk that is slow gets further.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owed(Option<(Zxid, Duration)>);

impl Owed {
    /// Looks at the disk of a server; one that does not serve owes nothing.
    pub(crate) fn look(&mut self, now: Duration, history: &History, serves: bool) {
        let (flushed, last) = (history.flushed(), history.last());
        assert!(flushed <= last, "{flushed} is durable, and {last} is all there is");
        let owed = self.0.filter(|(zxid, _)| serves && *zxid > flushed);
        self.0 = owed.or((serves && last > flushed).then_some((last, now)));
    }

    /// This server stood still: what the disk has done meanwhile is not told yet.
    pub(crate) fn postpone(&mut self, time: Duration) {
        if let Some((_, since)) = &mut self.0 {
            *since += time;
        }
    }

    /// When it will have been owed for so long.
    pub(crate) fn due(&self, limit: Duration) -> Duration {
        self.0.map_or(Duration::MAX, |(_, since)| since + limit)
    }
}
