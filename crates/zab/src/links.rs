//! Connections of those who learn from a server: how far each has come, how it is brought up to date,
//! and when its silence ends it.
//!
//! A leader and a follower that serves observers both have them. What they tell their learners, and
//! what they make of the answers, is theirs.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Values};
use std::time::Duration;

use zebu_proto::quorum::{EpochAck, LeaderInfo, LearnerInfo, NO_ZXID, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, ServerId, Zxid};

use crate::catchup::{Catchup, LogRead, Next, Way};
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::io::{LinkId, Options, Output};

/// How far a learner has come.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// The connection is new: the learner has not said who it is.
    Connected,
    /// The learner has sent FOLLOWERINFO or OBSERVERINFO, with the epoch that it promised last.
    Introduced,
    /// The leader has sent LEADERINFO.
    EpochTold,
    /// The learner has sent ACKEPOCH, and waits for its turn.
    EpochAcked,
    /// The leader reads the part of its log that the learner lacks.
    LogRead(Catchup),
    /// The leader's tree, which ends at this zxid, is on its way.
    SnapshotTransfer(Zxid),
    /// Everything is on its way, NEWLEADER included.
    NewLeaderSent,
    /// The learner has acknowledged NEWLEADER.
    Synchronized,
    /// The learner has been sent UPTODATE.
    Broadcast,
}

/// A learner's connection, with what only its owner keeps of it.
#[derive(Debug)]
pub(crate) struct Link<T> {
    pub(crate) server: ServerId,
    pub(crate) observer: bool,
    pub(crate) stage: Stage,
    /// Its newest zxid, as it said.
    pub(crate) zxid: Zxid,
    /// When its silence ends it.
    pub(crate) deadline: Duration,
    pub(crate) own: T,
    /// It has a history of its own.
    synced_before: bool,
    /// How it is being brought up to date; `None` before and after that.
    way: Option<Way>,
}

impl<T> Link<T> {
    /// Whether it has said that it is a server's.
    pub(crate) fn is_of(&self, server: ServerId) -> bool {
        self.server == server && !matches!(self.stage, Stage::Connected)
    }

    /// Whether it hears of everything that happens.
    pub(crate) fn is_registered(&self) -> bool {
        matches!(self.stage, Stage::NewLeaderSent | Stage::Synchronized | Stage::Broadcast)
    }

    /// Whether it has the history that it was sent.
    pub(crate) fn is_proven(&self) -> bool {
        matches!(self.stage, Stage::Synchronized | Stage::Broadcast)
    }

    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.stage, Stage::Broadcast)
    }

    /// It has said something; returns for how long it may be silent now.
    pub(crate) fn heard(&mut self, now: Duration, options: &Options) -> Duration {
        let limit = if self.is_proven() { options.sync_time() } else { options.init_time() };
        self.deadline = now + limit;
        limit
    }

    /// It has taken more of what waits for it. Whether that counts: while it is brought up to date it has nothing to
    /// say itself, however long that takes.
    pub(crate) fn moves(&mut self, now: Duration, options: &Options) -> bool {
        let counts = matches!(
            self.stage,
            Stage::LogRead(_) | Stage::SnapshotTransfer(_) | Stage::NewLeaderSent
        ) && !zebu_proto::mutant!("copies have a time limit");
        if counts {
            self.deadline = self.deadline.max(now + options.init_time());
        }
        counts
    }

    /// It has acknowledged the history that it was sent.
    pub(crate) fn proves(&mut self, now: Duration, options: &Options) {
        assert!(matches!(self.stage, Stage::NewLeaderSent), "asked for proof: {:?}", self.stage);
        self.stage = Stage::Synchronized;
        self.way = None;
        self.deadline = now + options.sync_time();
    }
}

/// What brings a learner further that is brought up to date.
pub(crate) enum Progress {
    /// Its turn has come.
    Begins,
    /// A part of the log on disk has been read.
    LogRead(LogRead),
    /// The whole tree has been sent.
    CopySent,
}

/// What the owner has to do for a learner that is being brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// Nothing, for now or for ever.
    Nothing,
    /// Send it the whole tree.
    Copy,
    /// Ask it to acknowledge: everything up to the end is on its way.
    Register,
}

/// Who has come, as it says itself; `None` when that cannot be read, or is from before epochs.
pub(crate) fn introduction(packet: &QuorumPacket) -> Option<LearnerInfo> {
    let info = LearnerInfo::decode(packet.data.as_deref()).ok().flatten();
    info.filter(LearnerInfo::acknowledges_epochs)
}

/// The connections of those who learn from a server.
#[derive(Debug)]
pub(crate) struct Links<T> {
    links: BTreeMap<LinkId, Link<T>>,
    ping_at: Duration,
    /// Learners for which the log on disk has proven to be of no use.
    copy_next: BTreeSet<ServerId>,
}

impl<T> Links<T> {
    /// Nobody has come yet; the first ping is due then.
    pub(crate) fn new(ping_at: Duration) -> Self {
        Self { links: BTreeMap::new(), ping_at, copy_next: BTreeSet::new() }
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self) {
        let mut counted = BTreeSet::new();
        for link in self.links.values() {
            let Link { server, stage, way, .. } = link;
            match stage {
                Stage::Connected | Stage::Introduced | Stage::EpochTold => {
                    assert!(way.is_none(), "{server:?} is brought up to date: {stage:?}");
                    assert_eq!(link.zxid, Zxid::ZERO, "{server:?} has not said what it has");
                }
                Stage::EpochAcked | Stage::Synchronized | Stage::Broadcast => {
                    assert!(way.is_none(), "{server:?} is brought up to date: {stage:?}");
                    assert!(counted.insert(*server), "{server:?} counts twice");
                }
                Stage::LogRead(_) | Stage::SnapshotTransfer(_) | Stage::NewLeaderSent => {
                    assert!(way.is_some(), "{server:?} takes part in no way: {stage:?}");
                    assert!(counted.insert(*server), "{server:?} counts twice");
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn get(&self, id: LinkId) -> Option<&Link<T>> {
        self.links.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link<T>> {
        self.links.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkId, &Link<T>)> {
        self.links.iter().map(|(id, link)| (*id, link))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut Link<T>)> {
        self.links.iter_mut().map(|(id, link)| (*id, link))
    }

    pub(crate) fn values(&self) -> Values<'_, LinkId, Link<T>> {
        self.links.values()
    }

    /// Those who hear of everything that happens.
    pub(crate) fn registered(&self) -> impl Iterator<Item = (LinkId, &Link<T>)> {
        self.iter().filter(|(_, link)| link.is_registered())
    }

    /// Whose link is like this.
    pub(crate) fn which(&self, is: impl Fn(&Link<T>) -> bool) -> Vec<LinkId> {
        self.iter().filter(|(_, link)| is(link)).map(|(id, _)| id).collect()
    }

    /// Whether a connection is a learner's that takes part in the broadcast.
    pub(crate) fn serves(&self, id: LinkId) -> bool {
        self.get(id).is_some_and(Link::is_serving)
    }

    // ---- coming and going

    /// Somebody has connected.
    pub(crate) fn accepted(&mut self, ctx: &Ctx<'_>, id: LinkId, own: T) {
        let link = Link {
            server: ServerId(0),
            observer: false,
            stage: Stage::Connected,
            zxid: Zxid::ZERO,
            deadline: ctx.now + ctx.options.init_time(),
            own,
            synced_before: false,
            way: None,
        };
        let before = self.links.insert(id, link);
        assert!(before.is_none(), "{id:?} is of two connections");
    }

    /// A connection is gone.
    pub(crate) fn remove(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    pub(crate) fn close(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        ctx.out.push(Output::Close(id));
        self.remove(id);
    }

    /// Closes everything.
    pub(crate) fn leave(self, out: &mut Vec<Output>) {
        out.push(Output::Unlisten);
        out.extend(self.links.into_keys().map(Output::Close));
    }

    /// A connection says who it is from.
    ///
    /// Older ones of the same server stay until this one has taken part in the discovery: everybody can claim a
    /// server's id.
    pub(crate) fn introduced(&mut self, id: LinkId, server: ServerId, observer: bool) {
        let Some(link) = self.get_mut(id) else { return };
        assert!(matches!(link.stage, Stage::Connected), "introduced twice: {:?}", link.stage);
        (link.server, link.observer, link.stage) = (server, observer, Stage::Introduced);
    }

    /// Tells a learner the epoch, and whether the digests in what it will learn are exact.
    pub(crate) fn ask(&mut self, ctx: &mut Ctx<'_>, id: LinkId, epoch: Epoch, exact: bool) {
        let Some(link) = self.get_mut(id) else { return };
        assert!(matches!(link.stage, Stage::Introduced), "told the epoch: {:?}", link.stage);
        link.stage = Stage::EpochTold;
        let zxid = Zxid::new(epoch, 0);
        let data = LeaderInfo::new(exact).to_data();
        let packet = QuorumPacket::with_data(PacketKind::LEADERINFO, zxid, data);
        ctx.out.push(Output::Send(id, packet));
    }

    /// A learner has accepted the epoch, and says what it has: the epoch that it followed in last, if it
    /// tells. `None` when its words make no sense; its connection is closed then.
    ///
    /// Older connections of the same server end here, before it is brought up to date: what it has acknowledged
    /// on them may be cut now. `has` says what that is; whoever lacks some of it is not that server, or has lost
    /// it, and has to wait until the older connection is known to be dead.
    pub(crate) fn counted(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        packet: &QuorumPacket,
        has: impl Fn(&T) -> Zxid,
    ) -> Option<EpochAck> {
        let server = self.get(id)?.server;
        let older: Vec<LinkId> = self
            .iter()
            .filter(|(other, link)| *other != id && link.is_of(server))
            .map(|(other, _)| other)
            .collect();
        let lacks = |link: &Link<T>| has(&link.own) > packet.zxid.max(Zxid::ZERO);
        let ack = EpochAck::decode(packet.data.as_deref()).ok();
        let Some(ack) = ack.filter(|_| !older.iter().any(|other| lacks(&self.links[other]))) else {
            self.close(ctx, id);
            return None;
        };
        for other in older {
            if !zebu_proto::mutant!("older connection kept") {
                self.close(ctx, other);
            }
        }
        let link = self.get_mut(id)?;
        link.zxid = packet.zxid;
        link.synced_before = packet.zxid != Zxid::ZERO || ack.current_epoch != Some(Epoch(0));
        link.stage = Stage::EpochAcked;
        Some(ack)
    }

    // ---- silence

    /// When something is due: a ping, or the end of who has been silent for too long.
    pub(crate) fn deadline(&self) -> Duration {
        self.values().map(|link| link.deadline).fold(self.ping_at, Duration::min)
    }

    /// Closes the connections of those who have been silent for too long.
    pub(crate) fn close_silent(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        for id in self.which(|link| link.deadline <= now) {
            self.close(ctx, id);
        }
    }

    /// This server stood still: its learners' words of that time are still to be heard.
    pub(crate) fn postpone(&mut self, time: Duration) {
        for link in self.links.values_mut() {
            link.deadline += time;
        }
    }

    /// Pings are due within half a tick.
    pub(crate) fn ping_soon(&mut self, ctx: &Ctx<'_>) {
        self.ping_at = self.ping_at.min(ctx.now + ctx.options.tick / 2);
    }

    /// Whether pings are due; if so, the next ones are in half a tick.
    pub(crate) fn ping_is_due(&mut self, ctx: &Ctx<'_>) -> bool {
        let is_due = self.ping_at <= ctx.now;
        if is_due {
            self.ping_at = ctx.now + ctx.options.tick / 2;
        }
        is_due
    }

    /// Shows all who hear of everything how far that is.
    pub(crate) fn ping(&self, ctx: &mut Ctx<'_>, zxid: Zxid) {
        for (id, _) in self.registered() {
            ctx.out.push(Output::Send(id, QuorumPacket::new(PacketKind::PING, zxid)));
        }
    }

    // ---- synchronization

    /// Brings a learner further to the history up to `end`.
    pub(crate) fn advance(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        end: Zxid,
        by: Progress,
    ) -> Todo {
        match by {
            Progress::Begins => self.begin(ctx, id, end),
            Progress::LogRead(read) => self.log_read(ctx, id, end, read),
            Progress::CopySent => self.copy_sent(ctx, id, end),
        }
    }

    /// Decides how a learner gets the history up to `end`, and begins.
    fn begin(&mut self, ctx: &mut Ctx<'_>, id: LinkId, end: Zxid) -> Todo {
        let Some(link) = self.get(id) else { return Todo::Nothing };
        let server = link.server;
        let mut catchup = Catchup::new(link.zxid, link.synced_before);
        let mark = ctx.out.len();
        let next =
            if self.copy_next.remove(&server) { Next::Copy } else { catchup.begin(ctx, id, end) };
        if next != Next::Copy && !self.admits(ctx, id, Way::Diff) {
            ctx.out.truncate(mark);
            self.close(ctx, id);
            return Todo::Nothing;
        }
        self.go_on(ctx, id, catchup, next)
    }

    fn log_read(&mut self, ctx: &mut Ctx<'_>, id: LinkId, end: Zxid, read: LogRead) -> Todo {
        let Some(link) = self.get_mut(id) else { return Todo::Nothing };
        let Stage::LogRead(catchup) = &mut link.stage else { return Todo::Nothing };
        link.deadline = ctx.now + ctx.options.init_time();
        let mut catchup = catchup.clone();
        let next = catchup.log_read(ctx, id, end, read);
        self.go_on(ctx, id, catchup, next)
    }

    /// Sends the whole tree, as of what has been delivered. What happens meanwhile is kept nowhere for
    /// the learner: afterwards it gets that like anybody else who is behind.
    pub(crate) fn copy(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        ctx.out.push(Output::SendCopy(id));
        if let Some(link) = self.get_mut(id) {
            link.stage = Stage::SnapshotTransfer(ctx.history.delivered());
        }
    }

    /// A learner cannot be brought up to date yet; it waits, for as long as it may be silent.
    pub(crate) fn begin_later(&mut self, id: LinkId) {
        if let Some(link) = self.get_mut(id) {
            (link.stage, link.way) = (Stage::EpochAcked, None);
        }
    }

    /// What has happened while the whole tree was sent follows.
    fn copy_sent(&mut self, ctx: &mut Ctx<'_>, id: LinkId, end: Zxid) -> Todo {
        let Some(link) = self.get_mut(id) else { return Todo::Nothing };
        let Stage::SnapshotTransfer(copy) = link.stage else { return Todo::Nothing };
        link.deadline = ctx.now + ctx.options.init_time();
        let mut catchup = Catchup::behind(copy);
        let next = catchup.go_on(ctx, id, end);
        self.go_on(ctx, id, catchup, next)
    }

    fn go_on(&mut self, ctx: &mut Ctx<'_>, id: LinkId, catchup: Catchup, next: Next) -> Todo {
        match next {
            Next::Reading => {
                if let Some(link) = self.get_mut(id) {
                    link.stage = Stage::LogRead(catchup);
                }
                Todo::Nothing
            }
            Next::Copy if !self.admits(ctx, id, Way::Copy) => {
                self.close(ctx, id);
                Todo::Nothing
            }
            Next::Copy => Todo::Copy,
            Next::Done => Todo::Register,
            Next::Broken => {
                self.copy_next.extend(self.links.get(&id).map(|link| link.server));
                self.close(ctx, id);
                Todo::Nothing
            }
        }
    }

    /// Whether a learner may be brought up to date this way now; it counts if so.
    ///
    /// Source: `LearnerSyncThrottler`.
    fn admits(&mut self, ctx: &Ctx<'_>, id: LinkId, way: Way) -> bool {
        let others = self.iter().filter(|(other, link)| *other != id && link.way == Some(way));
        let others = others.count();
        let Some(link) = self.get_mut(id) else { return false };
        let admitted = !link.observer || others < way.most(ctx.options);
        link.way = admitted.then_some(way);
        admitted
    }

    /// From here on a learner hears of everything as it happens: it is asked to acknowledge, and told
    /// who is a member.
    pub(crate) fn register(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        epoch: Epoch,
        config: &Membership,
    ) {
        let Some(link) = self.get_mut(id) else { return };
        assert!(!link.is_registered(), "registered twice: {:?}", link.stage);
        link.stage = Stage::NewLeaderSent;
        let (zxid, text) = (Zxid::new(epoch, 0), config.to_string());
        let packet = QuorumPacket::with_data(PacketKind::NEWLEADER, zxid, text);
        ctx.out.push(Output::Send(id, packet));
    }

    /// A learner may serve.
    pub(crate) fn serve(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(link) = self.get_mut(id) else { return };
        assert!(matches!(link.stage, Stage::Synchronized), "it serves: {:?}", link.stage);
        link.stage = Stage::Broadcast;
        ctx.out.push(Output::Send(id, QuorumPacket::new(PacketKind::UPTODATE, NO_ZXID)));
    }
}
