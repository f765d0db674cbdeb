//! Orderly end of a role: requests in progress are finished, and a leader hands over.
//!
//! If a leader just stopped, its learners' requests would stay unanswered, and clients would not
//! know their outcome. So a leader that stops, or lets another server lead, orders nothing new and
//! waits until all its proposals are committed and those have them who lead next. Then it closes
//! all connections at once. A server that stops is gone then; a leader that hands over follows the
//! next leader.

use std::time::Duration;

use zebu_proto::{ErrorCode, ServerId, SessionId};
use zebu_zab::{Leave, NoHeir};

use crate::faults;
use crate::io::Output;
use crate::replica::{Order, Replica, World};

/// Why a server has not handed over leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHandedOver {
    /// There are no other servers.
    #[error("this server is standalone")]
    Standalone,
    /// This server or the one that was named cannot.
    #[error(transparent)]
    NoHeir(NoHeir),
    /// The server stops.
    #[error("this server is stopping")]
    Stops,
    /// It is handing over already.
    #[error("this server is handing over to server.{} already", .0.0)]
    Begun(ServerId),
    /// The role has ended for another reason.
    #[error("this server has stopped leading before server.{} could take over", .0.0)]
    Ended(ServerId),
}

/// What the end of the role is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// The server stops.
    Stop,
    /// This server leads next. `told`: it has been sent the last transaction.
    HandOver { heir: ServerId, told: bool },
}

/// The state of the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Retirement {
    /// Not requested.
    #[default]
    Unasked,
    /// Requests received until `at` are being finished, at most until `by`.
    Begun { at: Duration, by: Duration, aim: Aim },
    /// Finished: the server may stop.
    Over,
}

impl Retirement {
    /// Whether a request received at this time is still finished.
    pub(crate) fn takes(self, received: Duration) -> bool {
        match self {
            Self::Unasked => true,
            // The last transaction of this leader is proposed.
            Self::Begun { aim: Aim::HandOver { told: true, .. }, .. } => false,
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

    /// The next leader while this one hands over.
    fn heir(self) -> Option<ServerId> {
        match self {
            Self::Begun { aim: Aim::HandOver { heir, .. }, .. } => Some(heir),
            _ => None,
        }
    }
}

impl Replica {
    /// Requests the stop. A second request changes nothing.
    pub(crate) fn begin_stop(&mut self, at: Duration, by: Duration, out: &mut Vec<Output>) {
        let at = match self.retirement {
            // Nothing is ordered behind the last transaction of this leader.
            Retirement::Begun { aim: Aim::HandOver { told: true, .. }, .. } => Duration::ZERO,
            Retirement::Begun { at, .. } => at,
            Retirement::Unasked | Retirement::Over => at,
        };
        let hands_over = self.retirement.heir().is_some();
        if hands_over {
            out.push(Output::HandedOver(Err(NotHandedOver::Stops)));
        }
        if hands_over || self.retirement == Retirement::Unasked {
            self.retirement = Retirement::Begun { at, by, aim: Aim::Stop };
        }
    }

    /// Requests that another server leads.
    pub(crate) fn begin_hand_over(
        &mut self,
        at: Duration,
        to: Option<ServerId>,
        by: Duration,
        out: &mut Vec<Output>,
    ) {
        let heir = match (self.retirement, self.peer()) {
            (_, None) => Err(NotHandedOver::Standalone),
            (Retirement::Unasked, Some(peer)) => peer.heir(to).map_err(NotHandedOver::NoHeir),
            (begun, Some(_)) => {
                Err(begun.heir().map_or(NotHandedOver::Stops, NotHandedOver::Begun))
            }
        };
        match heir {
            Ok(heir) => {
                let aim = Aim::HandOver { heir, told: false };
                self.retirement = Retirement::Begun { at, by, aim };
            }
            Err(why) => out.push(Output::HandedOver(Err(why))),
        }
    }

    /// The role has ended: a leader that was to hand over takes part in the ensemble again.
    pub(crate) fn handed_over(&mut self, out: &mut Vec<Output>) {
        let Some(heir) = self.retirement.heir() else { return };
        self.retirement = Retirement::Unasked;
        let is_done = self.peer().is_some_and(|peer| peer.left() == Leave::HandedOver(heir));
        let result = if is_done { Ok(heir) } else { Err(NotHandedOver::Ended(heir)) };
        out.push(Output::HandedOver(result));
    }

    /// Ends the role once nothing is in progress or the deadline has passed.
    pub(crate) fn retire_when_done(&mut self, world: World<'_>, out: &mut Vec<Output>) {
        let Retirement::Begun { by, aim, .. } = self.retirement else { return };
        let is_late = by <= world.now.monotonic;
        let is_idle = self.work.is_empty() && self.waiting() == 0;
        match aim {
            Aim::Stop => self.stop_when_done(world, is_idle, is_late, out),
            Aim::HandOver { heir, .. } if is_late => {
                self.resign(world, Leave::HeirLost(heir), out);
            }
            Aim::HandOver { heir, told: false } if is_idle => {
                self.hand_over_when_done(world, heir, out);
            }
            Aim::HandOver { .. } => {}
        }
    }

    fn stop_when_done(
        &mut self,
        world: World<'_>,
        is_idle: bool,
        is_late: bool,
        out: &mut Vec<Output>,
    ) {
        let may = self.peer().is_none_or(zebu_zab::Peer::may_retire);
        let is_done = is_idle && may || faults::retires_at_once();
        if self.serves() && !is_done && !is_late {
            return;
        }
        self.retirement = Retirement::Over;
        if let Order::Ensemble(ensemble) = &mut self.order {
            let mut asked = std::mem::take(&mut ensemble.asked);
            ensemble.peer.retire(world.now.monotonic, &mut asked);
            // A retiring server proposes nothing, so nothing can fail here.
            let _ = self.obey(world, asked, out);
        }
        out.push(Output::Retired);
    }

    /// Sends the next leader the last transaction, once it has everything before.
    fn hand_over_when_done(&mut self, world: World<'_>, heir: ServerId, out: &mut Vec<Output>) {
        if !self.peer().is_some_and(|peer| peer.may_hand_over(heir)) {
            return;
        }
        // It changes nothing, and no client waits for it.
        let record = match self.prep(world, &[], SessionId::NONE, 0) {
            Ok(mut prep) => prep.failed(ErrorCode::UNIMPLEMENTED),
            Err(_) => {
                self.resign(world, Leave::ZxidsSpent, out);
                return;
            }
        };
        if let Retirement::Begun { aim: Aim::HandOver { told, .. }, .. } = &mut self.retirement {
            *told = true;
        }
        let Order::Ensemble(ensemble) = &mut self.order else { return };
        let mut asked = std::mem::take(&mut ensemble.asked);
        ensemble.peer.hand_over(world.now.monotonic, heir, record, &mut asked);
        // Nothing is delivered by a proposal, so nothing can fail here.
        let _ = self.obey(world, asked, out);
    }
}
