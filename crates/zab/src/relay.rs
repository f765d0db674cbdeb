//! A follower that serves observers: brings them to its history, then tells them what is committed.
//!
//! To an observer it looks like a leader. What observers' clients ask for goes on to the leader.
//!
//! Source: `quorum-sync-broadcast.md` §10, `ObserverMaster`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::{
    Activate, EpochAck, LearnerInfo, NO_ZXID, PacketKind, QuorumPacket, protocol_version,
};
use zebu_proto::{Epoch, ServerId, Zxid};

use crate::catchup::{Catchup, Next, Way, proposal};
use crate::history::Txn;
use crate::io::{LinkId, LogEnd, Output, Up};
use crate::peer::Ctx;

/// How far an observer has come.
#[derive(Clone, Debug)]
enum Stage {
    /// It has not said who it is.
    New,
    /// It has been told the epoch.
    Asked,
    /// It has more than this server, which is behind.
    Ahead,
    /// The log on disk is being read for it.
    Reading(Catchup),
    /// The whole tree is on its way to it, as of this.
    Copying(Zxid),
    /// Everything is on its way to it, and it has been asked to acknowledge.
    Sent,
    /// It has been told to serve.
    Serving,
}

#[derive(Debug)]
struct Link {
    server: ServerId,
    stage: Stage,
    /// How it is being brought up to date; `None` before and after that.
    way: Option<Way>,
    /// Its newest zxid, as it said.
    zxid: Zxid,
    /// It has a history of its own.
    synced_before: bool,
    /// When its silence ends it.
    deadline: Duration,
}

impl Link {
    fn is_registered(&self) -> bool {
        matches!(self.stage, Stage::Sent | Stage::Serving)
    }
}

/// The observers of a follower, as long as it follows.
#[derive(Debug)]
pub(crate) struct Relay {
    links: BTreeMap<LinkId, Link>,
    /// The newest transaction that is committed.
    end: Zxid,
    ping_at: Duration,
    /// Observers for which the log on disk has proven to be of no use.
    copy_next: BTreeSet<ServerId>,
}

impl Relay {
    /// Serves observers from now on; everything up to `end` is committed.
    pub(crate) fn new(ctx: &mut Ctx<'_>, end: Zxid) -> Self {
        ctx.out.push(Output::ListenForObservers);
        let ping_at = ctx.now + ctx.options.tick / 2;
        Self { links: BTreeMap::new(), end, ping_at, copy_next: BTreeSet::new() }
    }

    /// How many observers have everything, or are being sent the last of it.
    pub(crate) fn observers(&self) -> usize {
        self.links.values().filter(|link| link.is_registered()).count()
    }

    /// Whether a connection is that of an observer that serves.
    pub(crate) fn serves(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link| matches!(link.stage, Stage::Serving))
    }

    pub(crate) fn deadline(&self) -> Duration {
        let links = self.links.values().map(|link| link.deadline);
        links.fold(self.ping_at, Duration::min)
    }

    /// Closes everything.
    pub(crate) fn leave(self, out: &mut Vec<Output>) {
        out.push(Output::Unlisten);
        out.extend(self.links.into_keys().map(Output::Close));
    }

    pub(crate) fn accepted(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let link = Link {
            server: ServerId(0),
            stage: Stage::New,
            way: None,
            zxid: Zxid::ZERO,
            synced_before: false,
            deadline: ctx.now + ctx.options.init_time(),
        };
        self.links.insert(id, link);
    }

    pub(crate) fn link_down(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    fn close(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        ctx.out.push(Output::Close(id));
        self.link_down(id);
    }

    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let is_silent = |(_, link): &(&LinkId, &Link)| link.deadline <= ctx.now;
        let silent: Vec<LinkId> = self.links.iter().filter(is_silent).map(|(id, _)| *id).collect();
        for id in silent {
            self.close(ctx, id);
        }
        if self.ping_at <= ctx.now {
            self.ping_at = ctx.now + ctx.options.tick / 2;
            for (id, _) in self.links.iter().filter(|(_, link)| link.is_registered()) {
                ctx.out.push(Output::Send(*id, QuorumPacket::new(PacketKind::PING, self.end)));
            }
        }
    }

    /// This server stood still: its observers' words of that time are still to be heard.
    pub(crate) fn postpone(&mut self, time: Duration) {
        for link in self.links.values_mut() {
            link.deadline += time;
        }
    }

    /// A packet of an observer. What it does wrong costs it its connection, nothing more.
    pub(crate) fn packet(&mut self, ctx: &mut Ctx<'_>, id: LinkId, packet: QuorumPacket) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let serves = matches!(link.stage, Stage::Serving);
        let limit = if serves { ctx.options.sync_time() } else { ctx.options.init_time() };
        link.deadline = ctx.now + limit;
        match (&link.stage, packet.kind) {
            (Stage::New, PacketKind::OBSERVERINFO) => self.introduce(ctx, id, &packet),
            (Stage::Asked, PacketKind::ACKEPOCH) => self.epoch_acked(ctx, id, &packet),
            (Stage::Sent, PacketKind::ACK) => {
                if packet.zxid == Zxid::new(ctx.epochs.current, 0) {
                    link.stage = Stage::Serving;
                    link.way = None;
                    link.deadline = ctx.now + ctx.options.sync_time();
                    let uptodate = QuorumPacket::new(PacketKind::UPTODATE, NO_ZXID);
                    ctx.out.push(Output::Send(id, uptodate));
                }
            }
            (Stage::Serving, PacketKind::PING | PacketKind::REQUEST | PacketKind::REVALIDATE) => {
                ctx.out.push(Output::Up(Up::FromLearner(id, packet)))
            }
            // Whatever else an established observer says is of no use, but does no harm.
            (Stage::Serving, _) => {}
            _ => self.close(ctx, id),
        }
    }

    fn introduce(&mut self, ctx: &mut Ctx<'_>, id: LinkId, packet: &QuorumPacket) {
        let info = LearnerInfo::decode(packet.data.as_deref()).ok().flatten();
        let Some(info) = info.filter(LearnerInfo::acknowledges_epochs) else {
            return self.close(ctx, id);
        };
        let committed = ctx.quorums.committed();
        let known = committed.member(info.server).is_some() || ctx.options.reconfig;
        let newer = info.config_version.is_some_and(|version| version > committed.version());
        if !known || newer || info.server == ctx.options.me {
            return self.close(ctx, id);
        }
        let same = |link: &&Link| link.server == info.server && !matches!(link.stage, Stage::New);
        let older = self.links.iter().find(|(_, link)| same(link)).map(|(id, _)| *id);
        if let Some(older) = older {
            self.close(ctx, older);
        }
        let Some(link) = self.links.get_mut(&id) else { return };
        link.server = info.server;
        link.stage = Stage::Asked;
        let zxid = Zxid::new(ctx.epochs.current, 0);
        let packet = QuorumPacket::with_data(PacketKind::LEADERINFO, zxid, protocol_version());
        ctx.out.push(Output::Send(id, packet));
    }

    fn epoch_acked(&mut self, ctx: &mut Ctx<'_>, id: LinkId, packet: &QuorumPacket) {
        let Ok(ack) = EpochAck::decode(packet.data.as_deref()) else { return self.close(ctx, id) };
        let Some(link) = self.links.get_mut(&id) else { return };
        link.zxid = packet.zxid;
        link.synced_before = packet.zxid != Zxid::ZERO || ack.current_epoch != Some(Epoch(0));
        if packet.zxid > self.end && packet.zxid.epoch() == ctx.epochs.current {
            // The leader has committed that; nobody has to take it back.
            link.stage = Stage::Ahead;
            return;
        }
        self.synchronize(ctx, id);
    }

    // ---- synchronization

    fn synchronize(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(link) = self.links.get(&id) else { return };
        let mut catchup = Catchup::new(link.zxid, link.synced_before);
        let mark = ctx.out.len();
        let next = if self.copy_next.remove(&link.server) {
            Next::Copy
        } else {
            catchup.begin(ctx, id, self.end)
        };
        if next != Next::Copy && !self.admits(ctx, id, Way::Diff) {
            ctx.out.truncate(mark);
            return self.close(ctx, id);
        }
        self.go_on(ctx, id, catchup, next);
    }

    /// A part of the log on disk has been read.
    pub(crate) fn log_read(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        floor: Option<Zxid>,
        txns: Vec<(Zxid, Bytes)>,
        end: LogEnd,
    ) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Stage::Reading(catchup) = &mut link.stage else { return };
        link.deadline = ctx.now + ctx.options.init_time();
        let mut catchup = catchup.clone();
        let next = catchup.log_read(ctx, id, self.end, floor, txns, end);
        self.go_on(ctx, id, catchup, next);
    }

    /// Whether an observer may be brought up to date this way now; it counts if so.
    fn admits(&mut self, ctx: &Ctx<'_>, id: LinkId, way: Way) -> bool {
        let is_other = |(other, link): &(&LinkId, &Link)| **other != id && link.way == Some(way);
        let others = self.links.iter().filter(is_other).count();
        let admitted = others < way.most(ctx.options);
        if let Some(link) = self.links.get_mut(&id) {
            link.way = admitted.then_some(way);
        }
        admitted
    }

    fn go_on(&mut self, ctx: &mut Ctx<'_>, id: LinkId, catchup: Catchup, next: Next) {
        match next {
            Next::Reading => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.stage = Stage::Reading(catchup);
                }
            }
            Next::Copy if !self.admits(ctx, id, Way::Copy) => self.close(ctx, id),
            Next::Copy => {
                ctx.out.push(Output::SendCopy(id));
                if let Some(link) = self.links.get_mut(&id) {
                    link.stage = Stage::Copying(ctx.history.delivered());
                }
            }
            Next::Done => self.register(ctx, id),
            Next::Broken => {
                self.copy_next.extend(self.links.get(&id).map(|link| link.server));
                self.close(ctx, id);
            }
        }
    }

    /// The whole tree has been sent: what has happened meanwhile follows.
    pub(crate) fn copy_sent(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Stage::Copying(copy) = link.stage else { return };
        link.deadline = ctx.now + ctx.options.init_time();
        let mut catchup = Catchup::behind(copy);
        let next = catchup.go_on(ctx, id, self.end);
        self.go_on(ctx, id, catchup, next);
    }

    /// From here on the observer is told everything as it is committed.
    fn register(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.stage = Stage::Sent;
        // What is proposed beside it may yet fail.
        let text = ctx.quorums.committed().to_string();
        let zxid = Zxid::new(ctx.epochs.current, 0);
        let packet = QuorumPacket::with_data(PacketKind::NEWLEADER, zxid, text);
        ctx.out.push(Output::Send(id, packet));
    }

    // ---- broadcast

    /// The leader has committed the next transaction; after a reconfiguration, it says who leads.
    pub(crate) fn tell(&mut self, ctx: &mut Ctx<'_>, txn: &Txn, leads: Option<ServerId>) {
        self.end = txn.zxid;
        for (id, _) in self.links.iter().filter(|(_, link)| link.is_registered()) {
            let inform = match leads {
                None => QuorumPacket { kind: PacketKind::INFORM, ..proposal(txn) },
                Some(leader) => {
                    let data = Activate { leader, txn: txn.record.clone() }.to_data();
                    QuorumPacket::with_data(PacketKind::INFORMANDACTIVATE, txn.zxid, data)
                }
            };
            ctx.out.push(Output::Send(*id, inform));
        }
        let has_come = |link: &Link| matches!(link.stage, Stage::Ahead) && link.zxid <= txn.zxid;
        let ready: Vec<LinkId> =
            self.links.iter().filter(|(_, link)| has_come(link)).map(|(id, _)| *id).collect();
        for id in ready {
            self.synchronize(ctx, id);
        }
    }
}
