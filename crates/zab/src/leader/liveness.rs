//! Liveness of a leader: pings, silence, and proof that it still leads.

use std::collections::BTreeSet;
use std::time::Duration;

use zebu_jute::Encode as _;
use zebu_proto::ServerId;
use zebu_proto::quorum::{Alive, NO_ZXID, PacketKind, QuorumPacket};

use super::state::Broadcast;
use super::{Confirmation, Leader, Link, Phase, State};
use crate::ctx::Ctx;
use crate::faults;
use crate::io::{LinkId, Output, Up};
use crate::leave::Leave;
use crate::silence;

impl Leader {
    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        let now = ctx.now;
        if self.phase() != Phase::Broadcast && self.give_up_at <= now {
            return Err(Leave::NoQuorumInTime);
        }
        self.links.close_silent(ctx);
        if self.alone_from <= now {
            self.waits_to_go_alone = false;
        }
        self.go_on_alone(ctx)?;
        self.misses_heir()?;
        self.retire(ctx)?;
        if let State::Broadcast(broadcast) = &mut self.state
            && broadcast.check_at <= now
        {
            broadcast.check_at = now + ctx.options.tick;
            let mut alive: BTreeSet<ServerId> = self
                .links
                .values()
                .filter(|link| !link.observer && link.own.alive_until >= now)
                .map(|link| link.server)
                .collect();
            alive.insert(ctx.options.me);
            if !ctx.quorums.all_have_quorum(&alive) && !self.goes_alone(ctx) {
                return Err(Leave::QuorumLost);
            }
            if self.waits_in_vain(ctx) {
                return Err(Leave::FormerQuorumLost);
            }
        }
        if self.links.ping_is_due(ctx) {
            let limit = ctx.options.sync_time();
            let is_late =
                |link: &Link| link.own.unacked.is_some_and(|(_, since)| since + limit <= now);
            for link in self.links.which(is_late) {
                self.links.close(ctx, link);
            }
            self.ping(ctx);
        }
        self.beat(ctx)
    }

    /// If that is due, tells the learners that this leader is alive, and looks whether a quorum of
    /// them is; see [`crate::silence`].
    fn beat(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        let Some(limit) = ctx.options.leader_silence else { return Ok(()) };
        match &mut self.state {
            State::Broadcast(broadcast) if broadcast.alive_at <= ctx.now => {
                broadcast.alive_at = ctx.now + silence::interval(limit);
            }
            _ => return Ok(()),
        }
        let limit = if self.has_only_ours() { limit } else { Duration::ZERO };
        let packet =
            QuorumPacket::with_data(PacketKind::ALIVE, NO_ZXID, Alive::new(limit).to_bytes());
        for (id, link) in self.links.iter_mut() {
            let expects = !limit.is_zero();
            if link.is_serving() && link.identity.is_some() && (expects || link.own.expects_much) {
                link.own.expects_much = expects;
                ctx.out.push(Output::Send(id, packet.clone()));
            }
        }
        ctx.silence.announced(ctx.now, limit, ctx.options);
        if limit.is_zero() || faults::deaf_leader_stays() {
            return Ok(());
        }
        self.hears_quorum(ctx)
    }

    /// Ends the role if no quorum was heard for too long, although it was asked.
    fn hears_quorum(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        let at = self.quorum_heard(ctx).unwrap_or_default();
        let silent = ctx.silence.heard_at(ctx.now, at);
        // A leader that was starved may look only when the limit is over: then, too, it asks first.
        if ctx.silence.asks(ctx.now) {
            self.ping(ctx);
        } else if silent >= ctx.silence.limit(ctx.options.sync_time())
            && ctx.silence.over(ctx.now).is_none()
        {
            return Err(Leave::QuorumSilent(silent));
        }
        Ok(())
    }

    /// The newest time since when every server of some quorum has been heard; `None`: there is no
    /// quorum. A server that is being synchronized has nothing to say.
    fn quorum_heard(&self, ctx: &Ctx<'_>) -> Option<Duration> {
        let now = ctx.now;
        let mut voters: Vec<(Duration, ServerId)> = self
            .links
            .values()
            .filter(|link| !link.observer && link.own.alive_until >= now)
            .map(|link| (if link.is_serving() { link.own.heard } else { now }, link.server))
            .collect();
        voters.sort_unstable_by(|a, b| b.cmp(a));
        let mut servers = BTreeSet::from([ctx.options.me]);
        if ctx.quorums.all_have_quorum(&servers) || self.goes_alone(ctx) {
            return Some(now);
        }
        voters.into_iter().find_map(|(heard, server)| {
            servers.insert(server);
            ctx.quorums.all_have_quorum(&servers).then_some(heard)
        })
    }

    /// Whether all followers are Zebu servers. Otherwise a follower that gives up this leader early
    /// would be alone with that, and find it again.
    fn has_only_ours(&self) -> bool {
        let is_ours = |link: &Link| link.observer || link.identity.is_some();
        self.links.values().filter(|link| link.is_registered()).all(is_ours)
            || faults::alive_beside_the_original()
    }

    /// A learner has accepted more queued bytes. During synchronization, the leader waits for a
    /// voter that makes progress.
    pub(crate) fn moves(&mut self, ctx: &Ctx<'_>, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        let counts = link.moves(ctx.now, ctx.options);
        if counts
            && self.state.phase() == Phase::Synchronization
            && ctx.quorums.is_voter(link.server)
        {
            self.give_up_at = self.give_up_at.max(ctx.now + ctx.options.init_time());
        }
    }

    /// This server was suspended: extends its learners' deadlines, since their packets may be
    /// unread.
    pub(crate) fn postpone(&mut self, time: Duration) {
        self.give_up_at += time;
        self.links.postpone(time);
        for (_, link) in self.links.iter_mut() {
            link.own.alive_until += time;
            link.own.heard += time;
            link.own.told_until += time;
            if let Some((_, since)) = &mut link.own.unacked {
                *since += time;
            }
        }
    }

    /// Starts a ping round.
    fn ping(&mut self, ctx: &mut Ctx<'_>) {
        self.round += 1;
        for (_, link) in self.links.iter_mut().filter(|(_, link)| link.is_serving()) {
            link.own.awaited.get_or_insert((self.round, ctx.now));
        }
        self.links.ping(ctx, self.proposed);
    }

    /// Reports [`Up::Confirmed`] once everything proposed so far is committed and it is certain
    /// that this server still led after this call.
    ///
    /// Proof is the ping round that starts after the call. It starts when a quorum has answered the
    /// round before: there is one round at a time, however many requests wait.
    pub(crate) fn confirm(&mut self, ctx: &mut Ctx<'_>, token: u64) {
        if faults::sync_without_proof() {
            ctx.out.push(Output::Up(Up::Confirmed(token)));
            return;
        }
        let round = self.round + 1;
        let broadcast = self.state.broadcast_mut().expect("only an established leader confirms");
        broadcast.confirmations.push_back(Confirmation { token, above: self.proposed, round });
        self.confirm_by_pings(ctx);
    }

    pub(super) fn confirm_by_pings(&mut self, ctx: &mut Ctx<'_>) {
        let Some(broadcast) = self.state.broadcast() else { return };
        if broadcast.confirmations.is_empty() {
            return;
        }
        let alone = self.goes_alone(ctx);
        let end = self.end;
        // Many requests wait for the same round.
        let mut looked: Option<(u64, bool)> = None;
        let mut count = 0;
        for confirmation in &broadcast.confirmations {
            let Confirmation { above, round, .. } = *confirmation;
            if above.counter() > 0 && above > end {
                break;
            }
            let shown = match looked {
                Some((before, shown)) if before == round => shown,
                _ => alone || self.answers_round(ctx, round),
            };
            looked = Some((round, shown));
            if !shown {
                break;
            }
            count += 1;
        }
        let State::Broadcast(Broadcast { confirmations, .. }) = &mut self.state else { return };
        for confirmation in confirmations.drain(..count) {
            ctx.out.push(Output::Up(Up::Confirmed(confirmation.token)));
        }
        let waits = confirmations.back().is_some_and(|last| last.round > self.round);
        if waits && self.answers_round(ctx, self.round) {
            self.ping(ctx);
        }
    }

    /// Whether a quorum has answered this ping round or a later one.
    fn answers_round(&self, ctx: &Ctx<'_>, round: u64) -> bool {
        let answers =
            |link: &&Link| link.is_serving() && !link.observer && link.own.answered() >= round;
        let mut servers: BTreeSet<ServerId> =
            self.links.values().filter(answers).map(|link| link.server).collect();
        servers.insert(ctx.options.me);
        ctx.quorums.all_have_quorum(&servers)
    }
}
