//! A follower that serves observers: synchronizes them, then sends them the committed transactions.
//!
//! To an observer it acts like a leader. Requests of the observers' clients are forwarded to the
//! leader.
//! Source: `quorum-sync-broadcast.md` §10, `ObserverMaster`.

use std::time::Duration;

use zebu_proto::quorum::{Activate, PacketKind, QuorumPacket};
use zebu_proto::{ServerId, Zxid};

use crate::catchup::proposal;
use crate::ctx::Ctx;
use crate::history::{History, Txn};
use crate::io::{LinkId, Output, Up};
use crate::links::{self, Link, Links, Progress, Stage, Todo};

/// The observers of a follower, as long as it follows.
#[derive(Debug)]
pub(crate) struct Relay {
    links: Links<()>,
    /// The newest committed transaction.
    end: Zxid,
}

impl Relay {
    /// Starts to serve observers; everything up to `end` is committed.
    pub(crate) fn new(ctx: &mut Ctx<'_>, end: Zxid) -> Self {
        ctx.out.push(Output::ListenForObservers);
        Self { links: Links::new(ctx.now + ctx.options.tick / 2), end }
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self, history: &History) {
        self.links.check();
        assert!(self.end <= history.last(), "{} is told, and not there", self.end);
        let all_observe = self.links.registered().all(|(_, link)| link.observer);
        assert!(all_observe, "a server that votes learns from a follower");
    }

    /// The number of observers that are synchronized, or have been sent everything.
    pub(crate) fn observers(&self) -> usize {
        self.links.registered().count()
    }

    /// Whether the connection's observer takes part in broadcast.
    pub(crate) fn serves(&self, link: LinkId) -> bool {
        self.links.serves(link)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.links.deadline()
    }

    /// Closes all connections.
    pub(crate) fn leave(self, out: &mut Vec<Output>) {
        self.links.leave(out);
    }

    pub(crate) fn accepted(&mut self, ctx: &Ctx<'_>, id: LinkId) {
        self.links.accepted(ctx, id, ());
    }

    pub(crate) fn link_down(&mut self, id: LinkId) {
        self.links.remove(id);
    }

    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        self.links.close_silent(ctx);
        if self.links.ping_is_due(ctx) {
            self.links.ping(ctx, self.end);
        }
    }

    /// This server was suspended: extends its observers' deadlines, since their packets may be
    /// unread.
    pub(crate) fn postpone(&mut self, time: Duration) {
        self.links.postpone(time);
    }

    /// An observer has accepted more queued bytes.
    pub(crate) fn moves(&mut self, ctx: &Ctx<'_>, id: LinkId) {
        if let Some(link) = self.links.get_mut(id) {
            link.moves(ctx.now, ctx.options);
        }
    }

    /// Handles an observer's packet. A violation costs the observer its connection, nothing more.
    pub(crate) fn packet(&mut self, ctx: &mut Ctx<'_>, id: LinkId, packet: QuorumPacket) {
        let Some(link) = self.links.get_mut(id) else { return };
        link.heard(ctx.now, ctx.options);
        match (&link.stage, packet.kind) {
            (Stage::Connected, PacketKind::OBSERVERINFO) => self.introduce(ctx, id, &packet),
            (Stage::EpochTold, PacketKind::ACKEPOCH) => self.epoch_acked(ctx, id, &packet),
            (Stage::NewLeaderSent, PacketKind::ACK) => {
                if packet.zxid == Zxid::new(ctx.epochs.current, 0) {
                    link.proves(ctx.now, ctx.options);
                    self.links.serve(ctx, id);
                }
            }
            (Stage::Broadcast, PacketKind::PING | PacketKind::REQUEST | PacketKind::REVALIDATE) => {
                ctx.out.push(Output::Up(Up::FromLearner(id, packet)))
            }
            // Other packets of an established observer are ignored.
            (Stage::Broadcast, _) => {}
            _ => self.links.close(ctx, id),
        }
    }

    fn introduce(&mut self, ctx: &mut Ctx<'_>, id: LinkId, packet: &QuorumPacket) {
        let Some(info) = links::introduction(packet) else { return self.links.close(ctx, id) };
        let committed = ctx.quorums.committed().version();
        let newer = info.config_version.is_some_and(|version| version > committed);
        if newer || info.server == ctx.options.me {
            return self.links.close(ctx, id);
        }
        self.links.introduced(id, &info, true);
        self.links.refuse_others(ctx);
        self.links.ask(ctx, id, ctx.epochs.current, ctx.doubt.exact_digests);
    }

    fn epoch_acked(&mut self, ctx: &mut Ctx<'_>, id: LinkId, packet: &QuorumPacket) {
        if self.links.counted(ctx, id, packet, |()| Zxid::ZERO).is_none() {
            return;
        }
        if packet.zxid > self.end && packet.zxid.epoch() == ctx.epochs.current {
            // The leader has committed these transactions, so they need not be truncated. The
            // observer waits for this server to catch up.
            return;
        }
        self.advance(ctx, id, Progress::Begins);
    }

    /// This server knows more of the ensemble's id.
    pub(crate) fn tell_identity(&mut self, ctx: &mut Ctx<'_>) {
        self.links.refuse_others(ctx);
        self.links.tell_all_identity(ctx);
    }

    // ---- synchronization

    /// Continues the synchronization of an observer.
    pub(crate) fn advance(&mut self, ctx: &mut Ctx<'_>, id: LinkId, by: Progress) {
        match self.links.advance(ctx, id, self.end, by) {
            Todo::Nothing => {}
            Todo::Copy => self.links.copy(ctx, id),
            Todo::Register => {
                // A configuration that is only proposed may still fail.
                let config = ctx.quorums.committed().clone();
                self.links.register(ctx, id, ctx.epochs.current, &config);
            }
        }
    }

    // ---- broadcast

    /// The leader has committed the next transaction. `leads`: after a reconfiguration, the
    /// designated leader.
    pub(crate) fn tell(&mut self, ctx: &mut Ctx<'_>, txn: &Txn, leads: Option<ServerId>) {
        assert!(txn.zxid > self.end, "{} is told after {}", txn.zxid, self.end);
        self.end = txn.zxid;
        for (id, _) in self.links.registered() {
            let inform = match leads {
                None => QuorumPacket { kind: PacketKind::INFORM, ..proposal(txn) },
                Some(leader) => {
                    let data = Activate { leader, txn: txn.record.clone() }.to_data();
                    QuorumPacket::with_data(PacketKind::INFORMANDACTIVATE, txn.zxid, data)
                }
            };
            ctx.out.push(Output::Send(id, inform));
        }
        let is_due =
            |link: &Link<()>| matches!(link.stage, Stage::EpochAcked) && link.zxid <= txn.zxid;
        for id in self.links.which(is_due) {
            self.advance(ctx, id, Progress::Begins);
        }
    }
}
