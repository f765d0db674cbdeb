//! Orderly stop of a server: requests in progress are finished, and a leader hands over.
//!
//! If a leader just stopped, its learners' requests would stay unanswered, and clients would not
//! know their outcome. So a retiring leader orders nothing new, waits until all its proposals are
//! committed and the voters that will elect the next leader have them, and then closes all
//! connections at once.

use std::time::Duration;

use crate::io::Output;
use crate::replica::{Order, Replica, World};

/// The state of the stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Retirement {
    /// Not requested.
    #[default]
    Unasked,
    /// Requests received until `at` are being finished, at most until `by`.
    Begun { at: Duration, by: Duration },
    /// Finished: the server may stop.
    Over,
}

impl Retirement {
    /// Requests the stop. A second request changes nothing.
    pub(crate) fn begin(&mut self, at: Duration, by: Duration) {
        if *self == Self::Unasked {
            *self = Self::Begun { at, by };
        }
    }

    /// Whether a request received at this time is still finished.
    pub(crate) fn takes(self, received: Duration) -> bool {
        match self {
            Self::Unasked => true,
            Self::Begun { at, .. } => received <= at,
            Self::Over => false,
        }
    }

    /// Whether new requests are refused.
    pub(crate) fn is_asked(self) -> bool {
        self != Self::Unasked
    }

    /// When requests in progress are given up.
    pub(crate) fn due(self) -> Duration {
        match self {
            Self::Begun { by, .. } => by,
            Self::Unasked | Self::Over => Duration::MAX,
        }
    }
}

impl Replica {
    /// Ends the role of a stopping server once nothing is in progress or the deadline has passed.
    pub(crate) fn retire_when_done(&mut self, world: World<'_>, out: &mut Vec<Output>) {
        let Retirement::Begun { by, .. } = self.retirement else { return };
        let now = world.now.monotonic;
        let may = self.peer().is_none_or(zebu_zab::Peer::may_retire);
        let is_idle = self.work.is_empty() && self.waiting() == 0;
        let is_done = is_idle && may || zebu_proto::mutant!("retires at once");
        if self.serves() && !is_done && now < by {
            return;
        }
        self.retirement = Retirement::Over;
        if let Order::Ensemble(ensemble) = &mut self.order {
            let mut asked = std::mem::take(&mut ensemble.asked);
            ensemble.peer.retire(now, &mut asked);
            // A retiring server proposes nothing, so nothing can fail here.
            let _ = self.obey(world, asked, out);
        }
        out.push(Output::Retired);
    }
}
