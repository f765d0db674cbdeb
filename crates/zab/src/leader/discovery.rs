//! A leader in discovery: it chooses an epoch above those that a quorum has promised, and leads
//! only with the newest history of a quorum. Source: `quorum-sync-broadcast.md` §1, §2,
//! `Leader.getEpochToPropose`, `Leader.waitForEpochAck`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::quorum::{NO_ZXID, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, ServerId, Zxid};

use super::{Leader, Phase, State};
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::faults;
use crate::identity::differ;
use crate::io::{EpochKind, LinkId, Output};
use crate::leave::Leave;
use crate::links::{self, Progress, Stage};
use crate::quorums::Quorums;

/// How far a server's promised epoch may exceed this server's. Members that were separated for
/// months differ by less. One packet of a stranger must not use up the epochs of an ensemble.
const EPOCHS_APART_MAX: u32 = 1 << 24;

/// The same limit for a server that has not voted for this one, as far as known.
const EPOCHS_APART_UNPROVEN: u32 = 1 << 10;

impl Leader {
    /// A server looks for a leader.
    /// Source: `Leader.reportLookingSid` (ZOOKEEPER-3109).
    pub(crate) fn looks(&mut self, now: Duration, server: ServerId) -> Result<(), Leave> {
        self.looking.insert(server);
        match self.state {
            State::EpochDiscovery { disloyal_after, .. }
                if now > disloyal_after && self.supporters.contains(&server) =>
            {
                Err(Leave::SupporterLooks(server))
            }
            _ => Ok(()),
        }
    }

    /// A supporter has voted for another server in the election that this server won: its election
    /// was not finished. In the original, that takes 200 ms longer.
    pub(crate) fn turns_away(&mut self, quorums: &Quorums, server: ServerId) -> Result<(), Leave> {
        let had_quorum = quorums.all_have_quorum(&self.supporters);
        let lost = self.supporters.remove(&server)
            && had_quorum
            && !quorums.all_have_quorum(&self.supporters);
        if self.phase() == Phase::EpochDiscovery && lost {
            return Err(Leave::SupporterTurnsAway(server));
        }
        Ok(())
    }

    /// A server joins the choice of the epoch.
    ///
    /// Anyone can claim to be a server. So the promised epoch counts only for a supporter, or if it
    /// is as close as those of servers that sometimes miss an election. A server with a higher
    /// promise will look for a leader again, and is known then.
    pub(super) fn join(
        &mut self,
        ctx: &mut Ctx<'_>,
        server: ServerId,
        accepted: Epoch,
        is_believed: bool,
    ) {
        let alone = self.goes_alone(ctx);
        let State::EpochDiscovery { highest, connecting, .. } = &mut self.state else { return };
        let close = Epoch(ctx.epochs.accepted.0.saturating_add(EPOCHS_APART_UNPROVEN));
        if ctx.quorums.is_member(server) && (is_believed || accepted <= close) {
            *highest = accepted.max(*highest);
        }
        if ctx.quorums.is_voter(server) {
            connecting.insert(server);
        }
        let here = connecting.contains(&ctx.options.me);
        // During a reconfiguration, the promise must bind a quorum of both configurations. The
        // original requires only the old one.
        let is_quorum = ctx.quorums.all_have_quorum(connecting);
        // If its own promise is the last possible epoch, this server waits until the others give up
        // on it.
        let is_left = *highest < Epoch::MAX;
        if here && is_left && (is_quorum || alone) {
            self.epoch = Epoch(highest.0 + u32::from(!faults::epoch_used_twice()));
            self.state = State::EpochPromise;
            ctx.save_epoch(EpochKind::Accepted, self.epoch);
            if faults::epoch_announced_before_it_is_durable() {
                let epoch = self.epoch;
                for link in self.links.which(|link| matches!(link.stage, Stage::Introduced)) {
                    self.links.ask(ctx, link, epoch, true);
                }
            }
        }
    }

    pub(crate) fn epoch_saved(
        &mut self,
        ctx: &mut Ctx<'_>,
        kind: EpochKind,
        epoch: Epoch,
    ) -> Result<(), Leave> {
        if epoch != self.epoch {
            return Ok(());
        }
        match kind {
            EpochKind::Accepted if self.phase() == Phase::EpochPromise => {
                self.state = State::HistoryDiscovery { electing: BTreeSet::new() };
                self.give_up_at = ctx.now + ctx.options.init_time();
                let seen = ctx.quorums.last_seen();
                if seen.version() == Zxid::ZERO {
                    // The first epoch agrees on a configuration that no server has agreed on
                    // before.
                    let first = Membership::clone(seen).with_version(Zxid::new(epoch, 0));
                    ctx.config_proposed(Arc::new(first));
                }
                for link in self.links.which(|link| matches!(link.stage, Stage::Introduced)) {
                    self.links.ask(ctx, link, epoch, true);
                }
                self.elect(ctx, ctx.options.me)?;
            }
            EpochKind::Current => {
                if let State::Synchronization { current_saved, .. } = &mut self.state {
                    *current_saved = true;
                }
                self.settle_identity(ctx);
                self.prove(ctx, ctx.options.me)?;
            }
            EpochKind::Accepted => {}
        }
        Ok(())
    }

    /// A voter has accepted the epoch, and its history is not newer.
    pub(super) fn elect(&mut self, ctx: &mut Ctx<'_>, server: ServerId) -> Result<(), Leave> {
        let alone = self.goes_alone(ctx);
        let State::HistoryDiscovery { electing } = &mut self.state else { return Ok(()) };
        if ctx.quorums.is_voter(server) || faults::observers_counted() {
            electing.insert(server);
        }
        let here = electing.contains(&ctx.options.me);
        let is_quorum = ctx.quorums.all_have_quorum(electing);
        if here && (is_quorum || alone) {
            let electing = std::mem::take(electing);
            self.choose_identity(ctx, &electing)?;
            ctx.forget_hearsay();
            self.state = State::Synchronization { proven: BTreeSet::new(), current_saved: false };
            self.give_up_at = ctx.now + ctx.options.init_time();
            ctx.save_epoch(EpochKind::Current, self.epoch);
            self.begin_waiting(ctx);
        }
        Ok(())
    }

    pub(super) fn introduce(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        packet: &QuorumPacket,
    ) -> Result<(), Leave> {
        let Some(info) = links::introduction(packet) else {
            self.links.close(ctx, id);
            return Ok(());
        };
        let committed = ctx.quorums.committed();
        let newer = info.config_version.is_some_and(|version| version > committed.version());
        if newer || info.server == ctx.options.me {
            // A voter with a newer configuration would reconnect again and again, so the leader
            // gives up. The original waits until discovery times out.
            let misses = newer && committed.is_voter(info.server) && self.believes(id, info.server);
            let own = committed.version();
            self.links.close(ctx, id);
            return if misses && self.phase() < Phase::Broadcast {
                let version = info.config_version.unwrap_or_default();
                Err(Leave::NewerConfig { server: info.server, version, own })
            } else {
                Ok(())
            };
        }
        let promised = packet.epoch();
        let most = Epoch(ctx.epochs.accepted.max(self.epoch).0.saturating_add(EPOCHS_APART_MAX));
        if promised >= Epoch::MAX.min(most) {
            ctx.out.push(Output::AbsurdEpoch { server: info.server, epoch: promised });
            self.links.close(ctx, id);
            return Ok(());
        }
        let observer = packet.kind == PacketKind::OBSERVERINFO;
        let theirs = info.identity.unwrap_or_default();
        if differ(*ctx.identity, theirs) {
            self.links.introduced(id, &info, observer);
            self.links.refuse_others(ctx);
            return Ok(());
        }
        if self.phase() != Phase::EpochDiscovery && promised > self.epoch {
            self.outbid(ctx, id, info.server, promised)?;
        }
        self.links.introduced(id, &info, observer);
        self.hear_identity(ctx, info.server, info.identity);
        match self.phase() {
            Phase::EpochDiscovery => {
                let is_believed = self.believes(id, info.server);
                self.join(ctx, info.server, promised, is_believed);
            }
            Phase::EpochPromise => {}
            _ => self.links.ask(ctx, id, self.epoch, true),
        }
        Ok(())
    }

    /// A learner has promised a later epoch than this leader's.
    ///
    /// It must not follow any leader up to that epoch. A voter would stay outside the ensemble, so
    /// this leader gives up once, and the next one starts above. The original leaves the voter
    /// outside until the next election. An observer is not worth an election: its promise does not
    /// keep it from learning from this leader, and the next discovery starts above that promise.
    /// An observer of the original leaves, and stays outside until then.
    fn outbid(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        server: ServerId,
        promised: Epoch,
    ) -> Result<(), Leave> {
        let heeded = !faults::old_epoch_accepted();
        if !heeded || !ctx.quorums.is_member(server) || !self.believes(id, server) {
            return Ok(());
        }
        if !faults::one_epoch_a_try() {
            *ctx.outbid = promised.max(*ctx.outbid);
        }
        if ctx.quorums.is_voter(server) {
            return Err(Leave::LaterPromise { server, promised, own: self.epoch });
        }
        Ok(())
    }

    /// Whether to believe that a connection comes from the server it claims.
    ///
    /// Anyone can claim a server id. The real server has looked for a leader on the election
    /// network before, and has no other connection.
    fn believes(&self, id: LinkId, server: ServerId) -> bool {
        if faults::strangers_believed() {
            return true;
        }
        let is_known = self.looking.contains(&server) || self.supporters.contains(&server);
        is_known && !self.links.iter().any(|(other, link)| other != id && link.is_of(server))
    }

    pub(super) fn epoch_acked(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        packet: &QuorumPacket,
    ) -> Result<(), Leave> {
        let counted = self.links.counted(ctx, id, packet, |follow| follow.acked);
        let Some(ack) = counted else { return Ok(()) };
        let Some(link) = self.links.get(id) else { return Ok(()) };
        let (server, observer) = (link.server, link.observer);
        if self.phase() == Phase::HistoryDiscovery
            && let Some(current) = ack.current_epoch
        {
            if (current, packet.zxid) > self.summary && !faults::better_follower_ignored() {
                self.links.close(ctx, id);
                let votes = !observer && ctx.quorums.is_voter(server) && self.believes(id, server);
                let (epoch, last) = (current, packet.zxid);
                return if votes {
                    Err(Leave::BetterHistory { server, epoch, last })
                } else {
                    Ok(())
                };
            }
            // A server without a database promises nothing.
            if packet.zxid != NO_ZXID || faults::empty_server_counted() {
                self.elect(ctx, server)?;
            }
        }
        if self.phase() >= Phase::Synchronization
            && self.links.get(id).is_some_and(|link| matches!(link.stage, Stage::EpochAcked))
        {
            self.advance(ctx, id, Progress::Begins);
        }
        Ok(())
    }
}
