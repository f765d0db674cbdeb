//! A learner's part in a reconfiguration: it puts the new configuration in force, and leaves its
//! role if that changes this server's role or leader. Source: `quorum-reconfig.md` §6,
//! `Learner.syncWithLeader`, `Follower.processPacket`.

use std::sync::Arc;

use zebu_proto::quorum::{Activate, PacketKind, QuorumPacket};
use zebu_proto::{ServerId, Zxid};

use super::{Learner, Stage};
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::leave::Leave;
use crate::reconfig::leader_stays;

impl Learner {
    /// A reconfiguration is committed. The packet names the designated leader; for observers it
    /// contains the reconfiguration.
    pub(super) fn reconfigure(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: QuorumPacket,
    ) -> Result<(), Leave> {
        let QuorumPacket { kind, zxid, data, .. } = packet;
        let Ok(Activate { leader, txn }) = Activate::decode(&data.unwrap_or_default()) else {
            return Err(Leave::NoDesignatedLeader);
        };
        if kind == PacketKind::INFORMANDACTIVATE {
            self.log(ctx, QuorumPacket::with_data(PacketKind::INFORM, zxid, txn))?;
        }
        let it = ctx.history.pending_above(Zxid(zxid.0.saturating_sub(1))).next();
        let config =
            it.filter(|txn| txn.zxid == zxid).and_then(|txn| Membership::in_txn(&txn.record));
        self.commit_and_tell(ctx, zxid, Some(leader))?;
        if self.stage() == Stage::Broadcast {
            self.deliver(ctx);
        }
        match config {
            Some(config) => self.activate(ctx, Arc::new(config), Some(leader)),
            None => Ok(()),
        }
    }

    /// This server starts to serve: the configuration in NEWLEADER is committed, unless it is a
    /// reconfiguration that is still pending.
    pub(super) fn complete(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        let Some(config) = self.config.take() else { return Ok(()) };
        // The leader announces the commit of its own reconfigurations. An observer does not hear of
        // them before.
        let version = config.version();
        let proposed_since = version.epoch() == self.epoch && version.counter() > 0;
        let is_open = proposed_since && version > self.committed
            || ctx.history.pending_above(self.committed).any(|txn| txn.zxid == version);
        let is_open = is_open && !ctx.options.credulous;
        if is_open { Ok(()) } else { self.activate(ctx, config, None) }
    }

    /// A configuration is committed. Ends the role if this server's role or leader changes.
    fn activate(
        &mut self,
        ctx: &mut Ctx<'_>,
        config: Arc<Membership>,
        designated: Option<ServerId>,
    ) -> Result<(), Leave> {
        let Some(before) = ctx.config_committed(config.clone()) else { return Ok(()) };
        let same_role = self.observer == config.is_observer(ctx.options.me);
        let same_leader = match designated {
            Some(leader) => leader == self.leader,
            None => leader_stays(self.leader, &before, &config),
        };
        if same_role && same_leader {
            return Ok(());
        }
        if let Some(leader) = designated {
            ctx.appoint(leader, config.version());
        }
        Err(Leave::ConfigChanged(config.version()))
    }
}
