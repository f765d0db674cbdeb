//! A learner's part in the id of its ensemble: it refuses a leader of another ensemble, and keeps
//! the id that its leader proposes.

use zebu_jute::Decode as _;
use zebu_proto::Identity;
use zebu_proto::quorum::QuorumPacket;

use super::Learner;
use crate::ctx::Ctx;
use crate::identity;
use crate::leave::Leave;

impl Learner {
    /// Refuses a leader of another ensemble.
    pub(super) fn compare_ensembles(&self, ctx: &Ctx<'_>, theirs: Identity) -> Result<(), Leave> {
        match (ctx.identity.settled(), theirs.settled()) {
            (Some(own), Some(theirs))
                if identity::differ(*ctx.identity, Identity::Settled(theirs)) =>
            {
                Err(Leave::OtherEnsemble { server: self.dialling.dialled(), theirs, own })
            }
            _ => Ok(()),
        }
    }

    /// The leader tells what it knows of the ensemble's id.
    pub(super) fn ensemble(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &QuorumPacket,
    ) -> Result<(), Leave> {
        let Ok(theirs) = Identity::from_bytes(packet.body()) else {
            return Err(Leave::Damaged(packet.kind));
        };
        self.compare_ensembles(ctx, theirs)?;
        let is_of_this_epoch = match theirs {
            Identity::Unknown => false,
            Identity::Proposed { epoch, .. } => epoch == self.epoch,
            Identity::Settled(_) => true,
        };
        if ctx.told_identity().is_some() && ctx.identity.settled().is_none() && is_of_this_epoch {
            ctx.set_identity(theirs);
            if let Some(relay) = self.state.relay_mut() {
                relay.tell_identity(ctx);
            }
        }
        Ok(())
    }

    /// Whether this server has not kept the id that the leader proposes in its epoch. The leader
    /// settles that id when it counts this server's acknowledgement of its history.
    pub(super) fn lacks_identity(&self, ctx: &Ctx<'_>) -> bool {
        let kept = match ctx.told_identity() {
            None | Some(Identity::Settled(_)) => true,
            Some(Identity::Proposed { epoch, .. }) => epoch == self.epoch,
            Some(Identity::Unknown) => false,
        };
        self.tells_identity && !self.observer && !kept
    }
}
