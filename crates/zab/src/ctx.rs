//! The state that all roles of a member share, and that outlives them.

use std::time::Duration;
use zebu_proto::quorum::NO_ZXID;
use zebu_proto::{Epoch, Identity, ServerId, Zxid};

use crate::busy::Busy;
use crate::doubt::Doubt;
use crate::faults;
use crate::history::History;
use crate::io::{EpochKind, Options, Output};
use crate::leave::Leave;
use crate::quorums::Quorums;
use crate::reconfig::Appointed;
use crate::silence::Silence;
use crate::start::{Epochs, standing};

/// The shared state.
pub(crate) struct Ctx<'c> {
    pub(crate) now: Duration,
    pub(crate) options: &'c Options,
    pub(crate) history: &'c mut History,
    pub(crate) quorums: &'c mut Quorums,
    pub(crate) epochs: Epochs,
    pub(crate) has_database: bool,
    /// The newest transaction that this server knows to be committed, see
    /// [`Peer::certain`](crate::Peer::certain).
    pub(crate) certain: Zxid,
    /// Whether this server's tree has transactions that will never be on its disk.
    pub(crate) unlogged: &'c mut bool,
    pub(crate) busy: &'c mut Busy,
    pub(crate) doubt: &'c mut Doubt,
    /// At a learner: how long its leader may be silent.
    pub(crate) silence: &'c mut Silence,
    pub(crate) members_changed: &'c mut bool,
    pub(crate) appointed: &'c mut Option<Appointed>,
    /// The latest promised epoch that ended a leadership of this server.
    pub(crate) outbid: &'c mut Epoch,
    /// What this server knows of the ensemble's id.
    pub(crate) identity: &'c mut Identity,
    pub(crate) out: &'c mut Vec<Output>,
}

impl Ctx<'_> {
    /// The newest zxid of this server's history.
    pub(crate) fn history_end(&self) -> Zxid {
        if self.has_database { self.history.last() } else { NO_ZXID }
    }

    /// The epoch by which this server's history is compared with others'.
    pub(crate) fn standing(&self) -> Epoch {
        standing(self.epochs, self.history, self.has_database)
    }

    /// Refuses a history that ends at `end` if this server has a committed transaction after that.
    ///
    /// A quorum has made every committed transaction durable. So if the leader lacks one, members
    /// of its quorum have lost data, and this server may hold the last copy.
    pub(crate) fn refuse_to_forget(&self, leader: ServerId, end: Zxid) -> Result<(), Leave> {
        if end >= self.certain || faults::forgets_at_a_leaders_word() {
            return Ok(());
        }
        Err(Leave::WouldForget { leader, end, certain: self.certain })
    }

    /// What this server tells others of the ensemble's id: nothing, if it knows no such ids.
    pub(crate) fn told_identity(&self) -> Option<Identity> {
        self.options.new_ensemble.map(|_| *self.identity)
    }

    /// Knows this of the ensemble's id from now on.
    pub(crate) fn set_identity(&mut self, identity: Identity) {
        if *self.identity != identity {
            assert!(self.identity.settled().is_none(), "{:?} is settled", self.identity);
            *self.identity = identity;
            self.out.push(Output::Identity(identity));
        }
    }

    /// Makes an epoch durable.
    pub(crate) fn save_epoch(&mut self, kind: EpochKind, epoch: Epoch) {
        self.busy.epochs.push_back((kind, epoch));
        self.out.push(Output::SaveEpoch(kind, epoch));
    }
}
