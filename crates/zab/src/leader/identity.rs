//! What a leader does about the id of its ensemble; see [`crate::identity`].

use std::collections::BTreeSet;

use zebu_proto::{Identity, ServerId};

use super::{Leader, Link, Phase, Stage, State};
use crate::ctx::Ctx;
use crate::faults;
use crate::identity;
use crate::leave::Leave;

impl Leader {
    /// Finds out, or decides, what the ensemble's id is. A quorum has accepted the epoch, so none
    /// of an earlier one can be settled any more unless this quorum knows it.
    pub(super) fn choose_identity(
        &mut self,
        ctx: &mut Ctx<'_>,
        electing: &BTreeSet<ServerId>,
    ) -> Result<(), Leave> {
        let Some(new) = ctx.options.new_ensemble else { return Ok(()) };
        let counts = |link: &&Link| {
            matches!(link.stage, Stage::EpochAcked)
                && !link.observer
                && electing.contains(&link.server)
        };
        let said = self.links.values().filter(counts);
        let said = said.filter_map(|link| Some((link.server, link.identity?)));
        let chosen = identity::choose(*ctx.identity, said, self.epoch, new)?;
        ctx.set_identity(chosen);
        self.links.refuse_others(ctx);
        Ok(())
    }

    /// Settles the id that this leader has proposed once a quorum of servers that know such ids has
    /// it durably.
    pub(super) fn settle_identity(&mut self, ctx: &mut Ctx<'_>) {
        let Identity::Proposed { id, epoch } = *ctx.identity else { return };
        let is_durable = match self.state {
            State::Synchronization { current_saved, .. } => current_saved,
            State::Broadcast(_) => true,
            _ => false,
        };
        if epoch != self.epoch || !is_durable {
            return;
        }
        let knows = |link: &&Link| link.is_proven() && !link.observer && link.identity.is_some();
        let mut have: BTreeSet<_> =
            self.links.values().filter(knows).map(|link| link.server).collect();
        have.insert(ctx.options.me);
        if ctx.quorums.all_have_quorum(&have) || faults::ensemble_id_settled_by_one() {
            ctx.set_identity(Identity::Settled(id));
            self.links.tell_all_identity(ctx);
        }
    }

    /// A learner has said what it knows. A settled id counts more than what this leader has only
    /// proposed: it was settled when the members of this quorum knew no ids, as after a while with
    /// servers of the original.
    pub(super) fn hear_identity(
        &mut self,
        ctx: &mut Ctx<'_>,
        server: ServerId,
        theirs: Option<Identity>,
    ) {
        let settled = theirs.and_then(Identity::settled);
        let knows_better =
            self.phase() >= Phase::Synchronization && ctx.identity.settled().is_none();
        if let Some(id) = settled.filter(|_| knows_better && ctx.quorums.is_voter(server)) {
            ctx.set_identity(Identity::Settled(id));
            self.links.tell_all_identity(ctx);
        }
        self.links.refuse_others(ctx);
    }
}
