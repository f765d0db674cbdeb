//! The end of a server that is asked to stop: what is in progress is finished first, and a leader lets another lead.
//!
//! A leader that stops without that leaves its learners' requests unanswered, and their clients do not know what has
//! become of them. One that retires orders nothing new, waits until everything that it has proposed is committed and
//! those have it who will elect the next leader, and then closes its connections all at once.

use std::time::Duration;

use crate::io::Output;
use crate::replica::{Order, Replica, World};

/// How far the end of a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Retirement {
    /// Nobody has asked for it.
    #[default]
    Unasked,
    /// What had come `at` that time is being finished, until `by`.
    Begun { at: Duration, by: Duration },
    /// The server may stop.
    Over,
}

impl Retirement {
    /// The server is asked to stop. Whoever asks again changes nothing.
    pub(crate) fn begin(&mut self, at: Duration, by: Duration) {
        if *self == Self::Unasked {
            *self = Self::Begun { at, by };
        }
    }

    /// Whether a request is finished that came at this time.
    pub(crate) fn takes(self, received: Duration) -> bool {
        match self {
            Self::Unasked => true,
            Self::Begun { at, .. } => received <= at,
            Self::Over => false,
        }
    }

    /// Whether nothing new is begun any more.
    pub(crate) fn is_asked(self) -> bool {
        self != Self::Unasked
    }

    /// When what is in progress is given up.
    pub(crate) fn due(self) -> Duration {
        match self {
            Self::Begun { by, .. } => by,
            Self::Unasked | Self::Over => Duration::MAX,
        }
    }
}

impl Replica {
    /// Ends the role of a server that is asked to stop, once nothing is in progress or the time for that is over.
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
            // A server that ends its role proposes nothing, so nothing of this fails.
            let _ = self.obey(world, asked, out);
        }
        out.push(Output::Retired);
    }
}
