//! The connections of a server's learners: the stage of each, its synchronization, and its
//! deadline.
//!
//! Both a leader and a follower that serves observers have learners. They decide themselves what to
//! send in broadcast, and how to handle the answers.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Values};
use std::time::Duration;

use zebu_proto::quorum::{EpochAck, LeaderInfo, LearnerInfo, NO_ZXID, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, Identity, ServerId, Zxid};

use crate::catchup::{Catchup, LogRead, Next, Way};
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::faults;
use crate::identity;
use crate::io::{LinkId, Options, Output};

/// The stage of a learner.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Connected: the learner has not introduced itself.
    Connected,
    /// The learner has sent FOLLOWERINFO or OBSERVERINFO, with the epoch that it promised last.
    Introduced,
    /// The leader has sent LEADERINFO.
    EpochTold,
    /// The learner has sent ACKEPOCH, and waits for synchronization.
    EpochAcked,
    /// The server reads the part of its log that the learner lacks.
    LogRead(Catchup),
    /// The snapshot, which ends at this zxid, is being sent.
    SnapshotTransfer(Zxid),
    /// Everything is queued, including NEWLEADER.
    NewLeaderSent,
    /// The learner has acknowledged NEWLEADER.
    Synchronized,
    /// The learner has been sent UPTODATE.
    Broadcast,
}

/// A learner's connection. `own`: data that only the leader or the relay needs.
#[derive(Debug)]
pub(crate) struct Link<T> {
    pub(crate) server: ServerId,
    pub(crate) observer: bool,
    pub(crate) stage: Stage,
    /// The learner's newest zxid, as it reported.
    pub(crate) zxid: Zxid,
    /// When the connection is closed for silence.
    pub(crate) deadline: Duration,
    pub(crate) own: T,
    /// What it knows of the ensemble's id, as it has said or been told; `None` when it knows no
    /// such ids.
    pub(crate) identity: Option<Identity>,
    /// Whether it has a history of its own.
    synced_before: bool,
    /// How it is being synchronized; `None` before and after.
    way: Option<Way>,
}

impl<T> Link<T> {
    /// Whether it has introduced itself as this server.
    pub(crate) fn is_of(&self, server: ServerId) -> bool {
        self.server == server && !matches!(self.stage, Stage::Connected)
    }

    /// Whether it receives all packets of broadcast.
    pub(crate) fn is_registered(&self) -> bool {
        matches!(self.stage, Stage::NewLeaderSent | Stage::Synchronized | Stage::Broadcast)
    }

    /// Whether it has acknowledged NEWLEADER.
    pub(crate) fn is_proven(&self) -> bool {
        matches!(self.stage, Stage::Synchronized | Stage::Broadcast)
    }

    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.stage, Stage::Broadcast)
    }

    /// The learner has sent something. Returns how long it may be silent now.
    pub(crate) fn heard(&mut self, now: Duration, options: &Options) -> Duration {
        let limit = if self.is_proven() { options.sync_time() } else { options.init_time() };
        self.deadline = now + limit;
        limit
    }

    /// The learner has accepted more queued bytes. Returns whether that counts as a sign of life:
    /// during synchronization it has nothing to send, however long that takes.
    pub(crate) fn moves(&mut self, now: Duration, options: &Options) -> bool {
        let counts = matches!(
            self.stage,
            Stage::LogRead(_) | Stage::SnapshotTransfer(_) | Stage::NewLeaderSent
        ) && !faults::copies_have_a_time_limit();
        if counts {
            self.deadline = self.deadline.max(now + options.init_time());
        }
        counts
    }

    /// It has acknowledged NEWLEADER.
    pub(crate) fn proves(&mut self, now: Duration, options: &Options) {
        assert!(matches!(self.stage, Stage::NewLeaderSent), "asked for proof: {:?}", self.stage);
        self.stage = Stage::Synchronized;
        self.way = None;
        self.deadline = now + options.sync_time();
    }
}

/// An event that continues a synchronization.
pub(crate) enum Progress {
    /// Synchronization may start.
    Begins,
    /// A part of the log on disk was read.
    LogRead(LogRead),
    /// The snapshot was sent.
    CopySent,
}

/// The next step of a synchronization, to be done by the owner of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// Nothing, for now.
    Nothing,
    /// Send a snapshot.
    Copy,
    /// Register the learner and send NEWLEADER: everything up to the end is queued.
    Register,
}

/// The learner's introduction; `None` if it cannot be decoded, or its protocol is too old to know
/// epochs.
pub(crate) fn introduction(packet: &QuorumPacket) -> Option<LearnerInfo> {
    let info = LearnerInfo::decode(packet.data.as_deref()).ok().flatten();
    info.filter(LearnerInfo::acknowledges_epochs)
}

/// The connections of a server's learners.
#[derive(Debug)]
pub(crate) struct Links<T> {
    links: BTreeMap<LinkId, Link<T>>,
    ping_at: Duration,
    /// Learners for which the log on disk was of no use.
    copy_next: BTreeSet<ServerId>,
}

impl<T> Links<T> {
    /// No connections. `ping_at`: when the first ping is due.
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

    /// The learners that receive all packets of broadcast.
    pub(crate) fn registered(&self) -> impl Iterator<Item = (LinkId, &Link<T>)> {
        self.iter().filter(|(_, link)| link.is_registered())
    }

    /// The links that match a condition.
    pub(crate) fn which(&self, is: impl Fn(&Link<T>) -> bool) -> Vec<LinkId> {
        self.iter().filter(|(_, link)| is(link)).map(|(id, _)| id).collect()
    }

    /// Whether the connection's learner takes part in broadcast.
    pub(crate) fn serves(&self, id: LinkId) -> bool {
        self.get(id).is_some_and(Link::is_serving)
    }

    // ---- coming and going

    /// A learner has connected.
    pub(crate) fn accepted(&mut self, ctx: &Ctx<'_>, id: LinkId, own: T) {
        let link = Link {
            server: ServerId(0),
            observer: false,
            stage: Stage::Connected,
            zxid: Zxid::ZERO,
            deadline: ctx.now + ctx.options.init_time(),
            own,
            identity: None,
            synced_before: false,
            way: None,
        };
        let before = self.links.insert(id, link);
        assert!(before.is_none(), "{id:?} is of two connections");
    }

    /// A connection has ended.
    pub(crate) fn remove(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    pub(crate) fn close(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        ctx.out.push(Output::Close(id));
        self.remove(id);
    }

    /// Closes all connections.
    pub(crate) fn leave(self, out: &mut Vec<Output>) {
        out.push(Output::Unlisten);
        out.extend(self.links.into_keys().map(Output::Close));
    }

    /// A learner has introduced itself.
    ///
    /// Older connections of the same server stay until this one has taken part in discovery: anyone
    /// can claim a server id.
    pub(crate) fn introduced(&mut self, id: LinkId, info: &LearnerInfo, observer: bool) {
        let Some(link) = self.get_mut(id) else { return };
        assert!(matches!(link.stage, Stage::Connected), "introduced twice: {:?}", link.stage);
        (link.server, link.observer, link.stage) = (info.server, observer, Stage::Introduced);
        link.identity = info.identity;
    }

    /// Closes the connections of those who belong to another ensemble.
    pub(crate) fn refuse_others(&mut self, ctx: &mut Ctx<'_>) {
        let own = *ctx.identity;
        for id in self.which(|link| identity::differ(own, link.identity.unwrap_or_default())) {
            self.refuse(ctx, id);
        }
    }

    /// Closes the connection of a learner that belongs to another ensemble.
    fn refuse(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let link = self.get(id);
        let theirs = link.and_then(|link| Some((link.server, link.identity?.settled()?)));
        if let Some((server, theirs)) = theirs {
            ctx.out.push(Output::OtherEnsemble { server, theirs });
        }
        self.close(ctx, id);
    }

    /// Tells a learner what this server knows of the ensemble's id, if that is news.
    fn tell_identity(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(identity) = ctx.told_identity().filter(|it| *it != Identity::Unknown) else {
            return;
        };
        let Some(link) = self.get_mut(id) else { return };
        let is_news =
            link.identity.is_some_and(|said| said != identity && said.settled().is_none());
        if is_news {
            link.identity = Some(identity);
            ctx.out.push(Output::Send(id, identity::packet(identity)));
        }
    }

    /// Tells all who are told everything else.
    pub(crate) fn tell_all_identity(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.which(Link::is_registered) {
            self.tell_identity(ctx, id);
        }
    }

    /// Sends LEADERINFO: the epoch, and whether the server's digests are exact.
    pub(crate) fn ask(&mut self, ctx: &mut Ctx<'_>, id: LinkId, epoch: Epoch, exact: bool) {
        let Some(link) = self.get_mut(id) else { return };
        assert!(matches!(link.stage, Stage::Introduced), "told the epoch: {:?}", link.stage);
        link.stage = Stage::EpochTold;
        let zxid = Zxid::new(epoch, 0);
        let data = LeaderInfo::new(exact).with_identity(ctx.told_identity()).to_data();
        let packet = QuorumPacket::with_data(PacketKind::LEADERINFO, zxid, data);
        ctx.out.push(Output::Send(id, packet));
    }

    /// Handles ACKEPOCH. Returns the learner's current epoch, if it reports one. `None` if the
    /// packet is invalid; its connection is then closed.
    ///
    /// Older connections of the same server are closed before it is synchronized, because
    /// transactions acknowledged on them may now be truncated. `has` returns what was acknowledged.
    /// A learner that lacks some of it is a different server, or has lost data: it must wait until
    /// the older connection is known to be dead.
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
            if !faults::older_connection_kept() {
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

    /// When a ping or the deadline of a silent learner is due.
    pub(crate) fn deadline(&self) -> Duration {
        self.values().map(|link| link.deadline).fold(self.ping_at, Duration::min)
    }

    /// Closes the connections of learners that were silent for too long.
    pub(crate) fn close_silent(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        for id in self.which(|link| link.deadline <= now) {
            self.close(ctx, id);
        }
    }

    /// This server was suspended: extends its learners' deadlines, since their packets may be
    /// unread.
    pub(crate) fn postpone(&mut self, time: Duration) {
        for link in self.links.values_mut() {
            link.deadline += time;
        }
    }

    /// Makes pings due within half a tick.
    pub(crate) fn ping_soon(&mut self, ctx: &Ctx<'_>) {
        self.ping_at = self.ping_at.min(ctx.now + ctx.options.tick / 2);
    }

    /// Whether pings are due. If so, schedules the next ones in half a tick.
    pub(crate) fn ping_is_due(&mut self, ctx: &Ctx<'_>) -> bool {
        let is_due = self.ping_at <= ctx.now;
        if is_due {
            self.ping_at = ctx.now + ctx.options.tick / 2;
        }
        is_due
    }

    /// Pings all registered learners with this zxid.
    pub(crate) fn ping(&self, ctx: &mut Ctx<'_>, zxid: Zxid) {
        for (id, _) in self.registered() {
            ctx.out.push(Output::Send(id, QuorumPacket::new(PacketKind::PING, zxid)));
        }
    }

    // ---- synchronization

    /// Continues a learner's synchronization with the history up to `end`.
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

    /// Chooses the method of synchronization up to `end`, and starts.
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

    /// Sends a snapshot as of the delivered end. Later transactions are not kept for the learner:
    /// it then gets them like any learner that is behind.
    pub(crate) fn copy(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        ctx.out.push(Output::SendCopy(id));
        if let Some(link) = self.get_mut(id) {
            link.stage = Stage::SnapshotTransfer(ctx.history.delivered());
        }
    }

    /// Postpones a learner's synchronization. It waits, at most as long as it may be silent.
    pub(crate) fn begin_later(&mut self, id: LinkId) {
        if let Some(link) = self.get_mut(id) {
            (link.stage, link.way) = (Stage::EpochAcked, None);
        }
    }

    /// The snapshot was sent: continues with the transactions after it.
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

    /// Whether a learner may be synchronized with this method now. If so, it counts.
    /// Source: `LearnerSyncThrottler`.
    fn admits(&mut self, ctx: &Ctx<'_>, id: LinkId, way: Way) -> bool {
        let others = self.iter().filter(|(other, link)| *other != id && link.way == Some(way));
        let others = others.count();
        let Some(link) = self.get_mut(id) else { return false };
        let admitted = !link.observer || others < way.most(ctx.options);
        link.way = admitted.then_some(way);
        admitted
    }

    /// Registers a learner: from now on it gets all packets of broadcast. Sends NEWLEADER with the
    /// configuration.
    pub(crate) fn register(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        epoch: Epoch,
        config: &Membership,
    ) {
        self.tell_identity(ctx, id);
        let Some(link) = self.get_mut(id) else { return };
        assert!(!link.is_registered(), "registered twice: {:?}", link.stage);
        link.stage = Stage::NewLeaderSent;
        let (zxid, text) = (Zxid::new(epoch, 0), config.to_string());
        let packet = QuorumPacket::with_data(PacketKind::NEWLEADER, zxid, text);
        ctx.out.push(Output::Send(id, packet));
    }

    /// Sends UPTODATE: the learner may serve.
    pub(crate) fn serve(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(link) = self.get_mut(id) else { return };
        assert!(matches!(link.stage, Stage::Synchronized), "it serves: {:?}", link.stage);
        link.stage = Stage::Broadcast;
        ctx.out.push(Output::Send(id, QuorumPacket::new(PacketKind::UPTODATE, NO_ZXID)));
        self.tell_identity(ctx, id);
    }
}
