//! A follower or an observer: adopts the leader's history, then takes its transactions.
//!
//! Packets are logged at once and in order. A transaction is delivered when it is committed and
//! durable, and a quorum has confirmed the leader. So an interrupted synchronization leaves a
//! prefix of the leader's history, with any method.
//! Source: `quorum-sync-broadcast.md` §2, §4, §6.2, `Learner`, `Follower`, `Observer`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use zebu_jute::Decode as _;
use zebu_proto::quorum::{
    Activate, Alive, EpochAck, LeaderInfo, LearnerInfo, NO_ZXID, PacketKind, QuorumPacket,
};
use zebu_proto::{Epoch, Identity, ServerId, Zxid};

use crate::busy::Busy;
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::doubt::{self, Change};
use crate::history::{History, Txn, follows};
use crate::identity;
use crate::io::{EpochKind, LinkId, Output, Role, Up};
use crate::leave::Leave;
use crate::reconfig::leader_stays;
use crate::relay::Relay;
use crate::start::Epochs;

/// Attempts to connect to a leader that are a full pause apart.
const CONNECT_TRIES: u32 = 5;

/// First pause before another attempt to connect. It doubles up to a full pause, and these attempts
/// do not count: the leader only listens once it knows the result of the election, perhaps a moment
/// after this server.
const QUICK_PAUSE: Duration = Duration::from_millis(2);

/// An epoch at most this far ahead is promised at once. Otherwise a flipped bit could keep this
/// server out of all lower epochs.
const EPOCHS_APART_MAX: u32 = 1000;

/// The stages of a learner, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Discovery: the learner dials, or waits before it dials again.
    Connecting,
    /// Discovery: the learner has sent FOLLOWERINFO or OBSERVERINFO.
    Introduced,
    /// Discovery: the learner makes its promise of the leader's epoch durable.
    EpochPromise,
    /// Discovery is over: the learner has sent ACKEPOCH.
    EpochAccepted,
    /// Synchronization by TRUNC: the disk truncates the log.
    Truncation,
    /// Synchronization by SNAP: the leader's snapshot is being received.
    SnapshotTransfer,
    /// Synchronization by SNAP: the snapshot ends before a transaction that this server knows to be
    /// committed. The transactions after it decide whether the leader has that: a snapshot may be
    /// older than the leader's history.
    SnapshotDoubted,
    /// Synchronization by SNAP: the disk installs the snapshot.
    SnapshotInstall,
    /// Synchronization: the learner receives missing transactions.
    CatchUp,
    /// Synchronization: NEWLEADER has arrived, and everything before it is being synced.
    HistorySync,
    /// Synchronization: the leader's epoch is being stored as the current epoch.
    EpochSync,
    /// The learner has acknowledged NEWLEADER, and waits for UPTODATE.
    Synchronized,
    /// Broadcast: the learner serves clients.
    Broadcast,
}

/// A follower or an observer, from the end of its election on.
#[derive(Debug)]
pub(crate) struct Learner {
    leader: ServerId,
    observer: bool,
    /// The observer masters to try in turn, if not the leader itself.
    masters: VecDeque<ServerId>,
    /// The server it is connected or connecting to.
    dialled: ServerId,
    /// At a follower: the observers that learn from it.
    relay: Option<Relay>,
    stage: Stage,
    link: Option<LinkId>,
    /// Attempts to connect that count.
    tries: u32,
    /// The next pause after which an attempt does not count.
    quick_pause: Duration,
    retry_at: Duration,
    /// Whether it makes no more attempts; the role ends at `retry_at`.
    gives_up: bool,
    /// When the leader counts as dead unless it sends something.
    deadline: Duration,
    epoch: Epoch,
    /// The newest transaction that the leader has committed.
    committed: Zxid,
    /// The newest transaction that this server has acknowledged.
    acked: Zxid,
    /// What must be durable before NEWLEADER is acknowledged.
    prove: Zxid,
    /// Packets received while the disk was busy, or after a doubted snapshot.
    held: VecDeque<QuorumPacket>,
    /// The end of the received snapshot, or of the transactions after it while it is doubted.
    copy_end: Zxid,
    /// The end of an installed snapshot, until the leader names that zxid or a later one in another
    /// packet.
    ///
    /// Only the packet that announces a snapshot says where it ends. A single damaged packet must
    /// not make this server know of transactions that nobody has proposed.
    unproven: Option<Zxid>,
    /// The end of its history at the leader's last ping.
    had: Zxid,
    /// Whether it has requested a snapshot despite a history of its own.
    wants_tree: bool,
    /// Whether the leader knows ids of ensembles.
    tells_identity: bool,
    /// The configuration in NEWLEADER.
    config: Option<Arc<Membership>>,
}

impl Learner {
    /// Connects to the leader, or to the masters in turn, after a pause.
    pub(crate) fn new(
        ctx: &mut Ctx<'_>,
        leader: ServerId,
        observer: bool,
        masters: VecDeque<ServerId>,
        pause: Duration,
    ) -> Self {
        let dials = u32::try_from(masters.len()).unwrap_or(u32::MAX).max(1);
        let limit = ctx.options.tick * ctx.options.connect_limit * dials;
        let waits = pause > Duration::ZERO;
        ctx.doubt.begin();
        ctx.silence.begin();
        let mut learner = Self {
            leader,
            observer,
            masters,
            dialled: leader,
            relay: None,
            stage: Stage::Connecting,
            link: None,
            tries: 0,
            quick_pause: QUICK_PAUSE,
            retry_at: if waits { ctx.now + pause } else { Duration::MAX },
            gives_up: false,
            deadline: ctx.now + pause + limit,
            epoch: Epoch(0),
            committed: Zxid::ZERO,
            acked: Zxid::ZERO,
            prove: Zxid::ZERO,
            held: VecDeque::new(),
            copy_end: Zxid::ZERO,
            unproven: None,
            had: Zxid::ZERO,
            wants_tree: false,
            tells_identity: false,
            config: None,
        };
        if !waits {
            learner.dial(ctx);
        }
        learner
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self, history: &History, epochs: Epochs, busy: &Busy) {
        let stage = self.stage;
        assert!(stage == Stage::Connecting || self.link.is_some(), "{stage:?} without a leader");
        assert_eq!(stage == Stage::Truncation, busy.truncating.is_some(), "{stage:?}");
        assert_eq!(stage == Stage::SnapshotInstall, busy.restoring, "{stage:?}");
        let holds =
            matches!(stage, Stage::Truncation | Stage::SnapshotDoubted | Stage::SnapshotInstall);
        assert!(holds || self.held.is_empty(), "{stage:?}, and packets are held back");
        assert!(self.committed <= history.last(), "{} is committed, and not there", self.committed);
        if stage >= Stage::EpochAccepted {
            let promised =
                epochs.accepted == self.epoch || self.observer && epochs.accepted > self.epoch;
            assert!(promised, "{stage:?} in {:?}, and {epochs:?}", self.epoch);
        }
        if stage >= Stage::Synchronized {
            assert_eq!(epochs.current, self.epoch, "{stage:?} in an epoch that is not durable");
            assert!(history.flushed() >= self.prove, "{stage:?} with less than was acknowledged");
        }
        assert!(stage != Stage::Connecting || self.link.is_none(), "connected, and it dials");
        let dials = stage == Stage::Connecting;
        assert!(dials || self.retry_at == Duration::MAX, "{stage:?}, and it dials again");
        assert!(dials || !self.gives_up, "{stage:?}, and it gives up to dial");
        assert!(self.tries < CONNECT_TRIES, "{} attempts have failed", self.tries);
        assert!(!self.observer || self.acked == Zxid::ZERO || stage == Stage::Broadcast);
        assert!(self.config.is_none() || stage >= Stage::HistorySync, "{stage:?} in its members");
        assert!(self.unproven.is_none() || stage >= Stage::CatchUp, "{stage:?} after a snapshot");
        let end = self.unproven.unwrap_or(Zxid::ZERO);
        assert!(end <= history.last(), "{end} was the end of the snapshot, and is not there");
        if stage <= Stage::Introduced {
            assert_eq!(self.committed, Zxid::ZERO, "{stage:?}, and knows what is committed");
            assert_eq!(self.epoch, Epoch(0), "{stage:?}, and knows the epoch");
        }
        if let Some(relay) = &self.relay {
            relay.check(history);
        }
        let relays = stage == Stage::Broadcast && !self.observer;
        assert!(self.relay.is_none() || relays, "{stage:?} and observers learn from it");
    }

    fn dial(&mut self, ctx: &mut Ctx<'_>) {
        ctx.out.push(match self.masters.pop_front() {
            Some(master) => {
                self.dialled = master;
                Output::ConnectToMaster(master)
            }
            None => Output::Connect(self.leader),
        });
    }

    /// The leader.
    pub(crate) fn leader(&self) -> ServerId {
        self.leader
    }

    /// The server it learns from, or tries to.
    pub(crate) fn master(&self) -> ServerId {
        self.dialled
    }

    /// The end of its attempts to connect, if it is still connecting.
    pub(crate) fn dials_until(&self) -> Option<Duration> {
        (self.stage == Stage::Connecting).then_some(self.deadline)
    }

    /// The observers that learn from this server.
    pub(crate) fn relay(&self) -> Option<&Relay> {
        self.relay.as_ref()
    }

    /// The observers that learn from this server, mutably.
    pub(crate) fn relay_mut(&mut self) -> Option<&mut Relay> {
        self.relay.as_mut()
    }

    pub(crate) fn deadline(&self) -> Duration {
        let relay = self.relay.as_ref().map_or(Duration::MAX, Relay::deadline);
        self.deadline.min(self.retry_at).min(relay)
    }

    /// The newest transaction that the leader has committed.
    pub(crate) fn committed(&self) -> Zxid {
        self.committed
    }

    /// The newest transaction that the leader has committed, if the leader proves it.
    pub(crate) fn proven(&self, history: &History) -> Option<Zxid> {
        let serves = self.serving().is_some() && self.unproven.is_none();
        serves.then(|| self.committed.max(history.delivered()))
    }

    /// The leader has proposed everything up to `zxid`.
    fn prove_copy(&mut self, zxid: Zxid) {
        self.unproven = self.unproven.filter(|end| *end > zxid);
    }

    /// The connection to the leader, during broadcast.
    pub(crate) fn serving(&self) -> Option<LinkId> {
        self.link.filter(|_| self.stage == Stage::Broadcast)
    }

    /// This server was suspended: extends the leader's deadline, since its packets may be unread.
    pub(crate) fn postpone(&mut self, time: Duration) {
        self.deadline += time;
        if let Some(relay) = &mut self.relay {
            relay.postpone(time);
        }
    }

    /// Whether it is an observer.
    pub(crate) fn is_observer(&self) -> bool {
        self.observer
    }

    /// The leader, if it has been silent for too long.
    pub(crate) fn silent_leader(&self, now: Duration) -> Option<ServerId> {
        (self.deadline <= now && self.dialled == self.leader).then_some(self.leader)
    }

    /// Whether this is the connection to the leader.
    pub(crate) fn is_link(&self, link: LinkId) -> bool {
        self.link == Some(link)
    }

    pub(crate) fn leave(self, out: &mut Vec<Output>) {
        match self.link {
            Some(link) => out.push(Output::Close(link)),
            None => out.push(Output::CancelConnect),
        }
        if let Some(relay) = self.relay {
            relay.leave(out);
        }
    }

    pub(crate) fn connected(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        if self.stage != Stage::Connecting || self.link.is_some() {
            ctx.out.push(Output::Close(link));
            return;
        }
        self.link = Some(link);
        self.stage = Stage::Introduced;
        self.retry_at = Duration::MAX;
        self.deadline = ctx.now + ctx.options.init_time();
        let kind = if self.observer { PacketKind::OBSERVERINFO } else { PacketKind::FOLLOWERINFO };
        let info = LearnerInfo::new(ctx.options.me, ctx.quorums.committed().version())
            .with_identity(ctx.told_identity());
        let zxid = Zxid::new(ctx.epochs.accepted, 0);
        self.send(ctx, QuorumPacket::with_data(kind, zxid, info.to_data()));
    }

    pub(crate) fn connect_failed(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        if self.stage != Stage::Connecting || self.link.is_some() {
            return Ok(());
        }
        if !self.masters.is_empty() {
            self.dial(ctx);
            return Ok(());
        }
        if self.dialled != self.leader {
            // Not at once: every voter hears a server that looks for a leader.
            self.gives_up = true;
            self.retry_at = ctx.now + ctx.options.connect_pause;
            return Ok(());
        }
        let mut pause = ctx.options.connect_pause;
        if self.quick_pause < pause {
            pause = self.quick_pause;
            self.quick_pause *= 2;
        } else {
            self.tries += 1;
            if self.tries >= CONNECT_TRIES {
                return Err(Leave::LeaderUnreachable(self.leader));
            }
        }
        self.retry_at = ctx.now + pause;
        Ok(())
    }

    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        if self.deadline <= ctx.now {
            match ctx.silence.over(ctx.now) {
                Some(more) => self.deadline = ctx.now + more,
                None => return Err(Leave::LeaderSilent(self.leader)),
            }
        }
        let change = ctx.doubt.tick(ctx.now, ctx.options)?;
        self.doubts(ctx, change);
        if self.retry_at <= ctx.now {
            if self.gives_up {
                return Err(Leave::MastersUnreachable);
            }
            self.retry_at = Duration::MAX;
            self.dial(ctx);
        }
        if let Some(relay) = &mut self.relay {
            relay.tick(ctx);
        }
        Ok(())
    }

    /// Handles a change of doubt in this server's tree.
    pub(crate) fn doubts(&self, ctx: &mut Ctx<'_>, change: Change) {
        match change {
            Change::None => {}
            Change::Doubted(first) => {
                ctx.out.push(Output::Doubted(first));
                if self.serving().is_some() && !self.observer {
                    self.send(ctx, doubt::report(first));
                }
            }
            Change::Trusted => ctx.out.push(Output::Trusted),
        }
    }

    fn send(&self, ctx: &mut Ctx<'_>, packet: QuorumPacket) {
        if let Some(link) = self.link {
            ctx.out.push(Output::Send(link, packet));
        }
    }

    pub(crate) fn packet(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Result<(), Leave> {
        ctx.silence.heard(ctx.now);
        self.deadline = ctx.now + self.patience(ctx);
        match self.stage {
            Stage::Connecting | Stage::EpochPromise | Stage::SnapshotTransfer => {
                Err(Leave::OutOfTurn(packet.kind))
            }
            Stage::Introduced => self.leader_info(ctx, &packet),
            Stage::EpochAccepted => self.first(ctx, &packet),
            Stage::Truncation | Stage::SnapshotInstall => {
                self.held.push_back(packet);
                Ok(())
            }
            Stage::SnapshotDoubted => self.judge(ctx, packet),
            Stage::Broadcast => self.broadcast(ctx, packet),
            _ => self.synchronize(ctx, packet),
        }
    }

    /// Bytes move. From the leader: it is alive; a snapshot or a large packet may take longer than
    /// the whole limit. To an observer: see [`Relay::moves`].
    pub(crate) fn moves(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        if !self.is_link(link) {
            self.relay.iter_mut().for_each(|relay| relay.moves(ctx, link));
        } else if !zebu_proto::mutant!("copies have a time limit") {
            ctx.silence.heard(ctx.now);
            self.deadline = self.deadline.max(ctx.now + self.patience(ctx));
        }
    }

    /// How long the leader may be silent.
    fn patience(&self, ctx: &Ctx<'_>) -> Duration {
        match self.stage {
            Stage::Broadcast if zebu_proto::mutant!("lost leader missed late") => {
                ctx.options.sync_time() * 6
            }
            Stage::Broadcast => ctx.silence.limit(ctx.options.sync_time()),
            stage if stage >= Stage::EpochSync => ctx.options.sync_time(),
            _ => ctx.options.init_time(),
        }
    }

    // ---- discovery

    fn leader_info(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Result<(), Leave> {
        if packet.kind != PacketKind::LEADERINFO {
            return Err(Leave::EpochNotTold(packet.kind));
        }
        self.epoch = packet.epoch();
        if packet.zxid < Zxid::ZERO {
            return Err(Leave::EpochImpossible(packet.zxid));
        }
        let is_over = self.epoch < ctx.epochs.accepted;
        let observes = is_over && self.may_observe(ctx);
        if is_over && !observes && !zebu_proto::mutant!("old epoch accepted") {
            return Err(Leave::EpochOver { epoch: self.epoch, promised: ctx.epochs.accepted });
        }
        let info = LeaderInfo::decode(packet.data.as_deref());
        let theirs = info.ok().and_then(|info| info.identity);
        self.tells_identity = theirs.is_some();
        self.compare_ensembles(ctx, theirs.unwrap_or_default())?;
        ctx.doubt.exact_digests = info.is_ok_and(|info| info.exact_digests);
        let is_far = self.epoch.0 - ctx.epochs.accepted.0.min(self.epoch.0) > EPOCHS_APART_MAX;
        if is_far && !ctx.doubt.is_told_again(self.epoch, EPOCHS_APART_MAX) {
            // A promise cannot be withdrawn.
            return Err(Leave::EpochFarAhead { epoch: self.epoch, promised: ctx.epochs.accepted });
        }
        let is_promised = self.epoch == ctx.epochs.accepted || observes;
        if is_promised || zebu_proto::mutant!("epoch not promised") {
            // It was promised before, or a later one was: the answer must not count.
            self.accept(ctx, None);
        } else {
            self.stage = Stage::EpochPromise;
            ctx.save_epoch(EpochKind::Accepted, self.epoch);
        }
        Ok(())
    }

    /// Whether this server may learn from a leader whose epoch is below the promised one.
    ///
    /// A promise keeps what a server acknowledges out of the quorums of older leaders. No quorum
    /// contains an observer, so its promise binds it to nothing. Otherwise an observer that made a
    /// promise for nothing would stay outside until the next election, and for ever if one changed
    /// packet had told it the epoch. It refuses a leader only if its own history is of a later
    /// epoch. The promise stays on disk: it binds this server again when it becomes a voter. In the
    /// original the observer stays outside.
    fn may_observe(&self, ctx: &Ctx<'_>) -> bool {
        self.observer && self.epoch >= ctx.standing()
    }

    /// Refuses a leader of another ensemble.
    fn compare_ensembles(&self, ctx: &Ctx<'_>, theirs: Identity) -> Result<(), Leave> {
        match (ctx.identity.settled(), theirs.settled()) {
            (Some(own), Some(theirs))
                if identity::differ(*ctx.identity, Identity::Settled(theirs)) =>
            {
                Err(Leave::OtherEnsemble { server: self.dialled, theirs, own })
            }
            _ => Ok(()),
        }
    }

    /// The leader tells what it knows of the ensemble's id.
    fn ensemble(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Result<(), Leave> {
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
            if let Some(relay) = &mut self.relay {
                relay.tell_identity(ctx);
            }
        }
        Ok(())
    }

    /// Whether this server has not kept the id that the leader proposes in its epoch. The leader
    /// settles that id when it counts this server's acknowledgement of its history.
    fn lacks_identity(&self, ctx: &Ctx<'_>) -> bool {
        let kept = match ctx.told_identity() {
            None | Some(Identity::Settled(_)) => true,
            Some(Identity::Proposed { epoch, .. }) => epoch == self.epoch,
            Some(Identity::Unknown) => false,
        };
        self.tells_identity && !self.observer && !kept
    }

    fn accept(&mut self, ctx: &mut Ctx<'_>, current_epoch: Option<Epoch>) {
        self.stage = Stage::EpochAccepted;
        self.wants_tree = ctx.doubt.take_wish();
        // A server without a history gets a snapshot.
        let zxid = if self.wants_tree { NO_ZXID } else { ctx.history_end() };
        let data = EpochAck { current_epoch }.to_data();
        self.send(ctx, QuorumPacket::with_data(PacketKind::ACKEPOCH, zxid, data));
    }

    pub(crate) fn epoch_saved(&mut self, ctx: &mut Ctx<'_>, kind: EpochKind, epoch: Epoch) {
        if epoch != self.epoch {
            return;
        }
        match (kind, self.stage) {
            (EpochKind::Accepted, Stage::EpochPromise) => {
                self.accept(ctx, Some(ctx.standing()));
            }
            (EpochKind::Current, Stage::EpochSync) => {
                self.stage = Stage::Synchronized;
                self.deadline = ctx.now + ctx.options.sync_time();
                self.send(ctx, self.history_ack());
            }
            _ => {}
        }
    }

    fn history_ack(&self) -> QuorumPacket {
        QuorumPacket::new(PacketKind::ACK, Zxid::new(self.epoch, 0))
    }

    // ---- synchronization

    /// Handles the packet that announces the method of synchronization.
    fn first(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Result<(), Leave> {
        match packet.kind {
            PacketKind::DIFF => {
                ctx.refuse_to_forget(self.leader, ctx.history.last())?;
                self.agreed(ctx);
            }
            PacketKind::SNAP if packet.zxid.epoch() > self.epoch => {
                return Err(Leave::TreeOfLaterEpoch { zxid: packet.zxid, epoch: self.epoch });
            }
            // The leader does not know what this server has acknowledged, so its snapshot may lack
            // that.
            PacketKind::SNAP if self.wants_tree && packet.zxid < ctx.history.last() => {
                return Err(Leave::TreeTooShort { zxid: packet.zxid, last: ctx.history.last() });
            }
            PacketKind::SNAP => self.stage = Stage::SnapshotTransfer,
            PacketKind::TRUNC if packet.zxid < Zxid::ZERO || packet.zxid > ctx.history.last() => {
                return Err(Leave::TruncatedBeyondEnd {
                    zxid: packet.zxid,
                    last: ctx.history.last(),
                });
            }
            PacketKind::TRUNC => {
                ctx.refuse_to_forget(self.leader, packet.zxid)?;
                self.stage = Stage::Truncation;
                ctx.busy.truncating = Some(packet.zxid);
                ctx.out.push(Output::Truncate(packet.zxid));
            }
            _ => return Err(Leave::SyncNotTold(packet.kind)),
        }
        Ok(())
    }

    /// The log was truncated as requested, or no snapshot and log lead there.
    pub(crate) fn truncated(&mut self, ctx: &mut Ctx<'_>, done: bool) -> Result<(), Leave> {
        if self.stage != Stage::Truncation {
            return Ok(());
        }
        if !done {
            return Err(Leave::TruncatedNowhere);
        }
        self.agreed(ctx);
        self.go_on(ctx)
    }

    /// This server's whole history is part of the leader's: it is committed as soon as the leader
    /// is confirmed.
    fn agreed(&mut self, ctx: &Ctx<'_>) {
        self.stage = Stage::CatchUp;
        self.committed = ctx.history.last();
    }

    /// The leader's snapshot has arrived, as of `zxid`.
    pub(crate) fn copied(&mut self, ctx: &mut Ctx<'_>, link: LinkId, zxid: Zxid) {
        if self.stage != Stage::SnapshotTransfer {
            return;
        }
        self.copy_end = zxid;
        self.deadline = ctx.now + ctx.options.init_time();
        match ctx.refuse_to_forget(self.leader, zxid) {
            Ok(()) => self.install(ctx, link),
            Err(_) => self.stage = Stage::SnapshotDoubted,
        }
    }

    /// Handles packets after a snapshot that is older than this server's committed history: the
    /// leader's history either reaches that or ends before.
    fn judge(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Result<(), Leave> {
        match packet.kind {
            PacketKind::PROPOSAL | PacketKind::INFORM | PacketKind::INFORMANDACTIVATE => {
                self.copy_end = self.copy_end.max(packet.zxid);
            }
            _ => {}
        }
        let reaches = ctx.refuse_to_forget(self.leader, self.copy_end);
        if packet.kind == PacketKind::NEWLEADER {
            reaches?;
        }
        self.held.push_back(packet);
        if let (Ok(()), Some(link)) = (reaches, self.link) {
            self.install(ctx, link);
        }
        Ok(())
    }

    fn install(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        self.stage = Stage::SnapshotInstall;
        self.deadline = ctx.now + ctx.options.init_time();
        ctx.busy.restoring = true;
        ctx.out.push(Output::Restore(link));
    }

    /// The snapshot is installed.
    pub(crate) fn restored(&mut self, ctx: &mut Ctx<'_>, zxid: Zxid) -> Result<(), Leave> {
        if self.stage != Stage::SnapshotInstall {
            return Ok(());
        }
        self.agreed(ctx);
        debug_assert_eq!(self.committed, zxid, "the copy is all there is");
        if !zebu_proto::mutant!("announced end believed") {
            self.unproven = Some(zxid);
        }
        self.go_on(ctx)
    }

    /// Handles the packets received while the disk was busy.
    fn go_on(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        while let Some(packet) = self.held.pop_front() {
            self.synchronize(ctx, packet)?;
        }
        Ok(())
    }

    /// Handles a packet between the first one and UPTODATE.
    fn synchronize(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Result<(), Leave> {
        match packet.kind {
            PacketKind::PROPOSAL => self.log(ctx, packet).map(drop),
            PacketKind::ENSEMBLE => self.ensemble(ctx, &packet),
            PacketKind::COMMIT => {
                self.commit(ctx, packet.zxid)?;
                self.relieve(ctx);
                Ok(())
            }
            PacketKind::INFORM => {
                let zxid = packet.zxid;
                self.log(ctx, packet)?;
                self.commit(ctx, zxid)?;
                self.relieve(ctx);
                Ok(())
            }
            PacketKind::COMMITANDACTIVATE | PacketKind::INFORMANDACTIVATE => {
                self.reconfigure(ctx, packet)
            }
            PacketKind::NEWLEADER if self.stage <= Stage::CatchUp => {
                if packet.epoch() != self.epoch {
                    return Err(Leave::EpochChanged { told: self.epoch, now: packet.epoch() });
                }
                if self.lacks_identity(ctx) && !zebu_proto::mutant!("ensemble id not waited for") {
                    return Err(Leave::IdentityNotTold);
                }
                self.stage = Stage::HistorySync;
                self.prove = ctx.history.last();
                self.config = Membership::agreed(packet.body()).map(Arc::new);
                if let Some(config) = &self.config {
                    ctx.config_adopted(config.clone());
                }
                if self.observer && !ctx.quorums.is_observer(ctx.options.me) {
                    // The leader may need this server's vote to commit the configuration that makes
                    // it a voter.
                    ctx.appoint(self.leader, packet.zxid);
                    return Err(Leave::HasVoteInProposed);
                }
                self.proving(ctx);
                Ok(())
            }
            PacketKind::UPTODATE if self.stage == Stage::Synchronized => {
                self.stage = Stage::Broadcast;
                self.send(ctx, self.history_ack());
                let role = if self.observer { Role::Observing } else { Role::Following };
                self.acked = self.committed;
                self.deliver(ctx);
                self.complete(ctx)?;
                let change = ctx.doubt.resume(ctx.now, ctx.options);
                self.doubts(ctx, change);
                ctx.out.push(Output::Role(role(self.leader)));
                self.acknowledge(ctx);
                if ctx.options.observer.masters && !self.observer {
                    let end = self.committed.max(ctx.history.delivered());
                    self.relay = Some(Relay::new(ctx, end));
                }
                Ok(())
            }
            PacketKind::NEWLEADER | PacketKind::UPTODATE => Err(Leave::OutOfTurn(packet.kind)),
            _ => Ok(()),
        }
    }

    /// Continues once everything before NEWLEADER is durable.
    fn proving(&mut self, ctx: &mut Ctx<'_>) {
        if zebu_proto::mutant!("history acknowledged before fsync")
            && self.stage == Stage::HistorySync
        {
            self.stage = Stage::Synchronized;
            ctx.save_epoch(EpochKind::Current, self.epoch);
            return self.send(ctx, self.history_ack());
        }
        if self.stage == Stage::HistorySync && ctx.history.flushed() >= self.prove {
            assert!(ctx.epochs.current <= self.epoch, "an epoch that was over before");
            self.stage = Stage::EpochSync;
            ctx.save_epoch(EpochKind::Current, self.epoch);
        }
    }

    // ---- broadcast

    fn broadcast(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Result<(), Leave> {
        match (packet.kind, self.observer) {
            (PacketKind::PROPOSAL, false) => {
                let zxid = packet.zxid;
                if !self.log(ctx, packet)? && zxid <= ctx.history.flushed() {
                    // The leader has sent it twice, and it was logged the first time.
                    self.send(ctx, QuorumPacket::new(PacketKind::ACK, zxid));
                }
            }
            (PacketKind::COMMIT, false) => {
                self.commit(ctx, packet.zxid)?;
                self.deliver(ctx);
            }
            (PacketKind::INFORM, true) => {
                let zxid = packet.zxid;
                self.log(ctx, packet)?;
                self.commit(ctx, zxid)?;
                self.deliver(ctx);
            }
            (PacketKind::COMMITANDACTIVATE, false) | (PacketKind::INFORMANDACTIVATE, true) => {
                self.reconfigure(ctx, packet)?;
            }
            (PacketKind::PING, _) => {
                if self.dialled == self.leader {
                    self.compare_ends(ctx, packet.zxid)?;
                }
                ctx.out.push(Output::Up(Up::Ping(packet)));
            }
            (PacketKind::ENSEMBLE, _) => self.ensemble(ctx, &packet)?,
            (PacketKind::ALIVE, _) => self.alive(ctx, &packet),
            (PacketKind::REVALIDATE | PacketKind::SYNC, _) => {
                ctx.out.push(Output::Up(Up::FromLeader(packet)));
            }
            _ => {}
        }
        Ok(())
    }

    /// The leader announces how long it may be silent.
    fn alive(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) {
        if let Ok(alive) = Alive::from_bytes(packet.body()) {
            ctx.silence.announced(ctx.now, alive.limit(), ctx.options);
            self.deadline = ctx.now + self.patience(ctx);
        }
    }

    /// Checks that the leader's proposals, which reach up to `end`, include what this server had
    /// logged at the previous ping. Otherwise this server would mistake new proposals for
    /// transactions it already has. In the original a proposal may overtake a ping, so the newest
    /// logged end cannot be checked yet.
    fn compare_ends(&mut self, ctx: &Ctx<'_>, end: Zxid) -> Result<(), Leave> {
        self.prove_copy(end);
        let had = std::mem::replace(&mut self.had, ctx.history.last());
        if had <= end || had.epoch() != self.epoch {
            return Ok(());
        }
        match self.unproven {
            Some(copied) => Err(Leave::CopyNotProposed { end, copied }),
            None => Err(Leave::NotProposed { end, had }),
        }
    }

    /// Logs a transaction, unless it was logged before. Returns whether it was logged now.
    fn log(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Result<bool, Leave> {
        let last = ctx.history.last();
        let zxid = packet.zxid;
        if zxid <= last && !zebu_proto::mutant!("what comes again is logged again") {
            return Ok(false);
        }
        if zxid.epoch() > self.epoch {
            return Err(Leave::ProposedInLaterEpoch { zxid, epoch: self.epoch });
        }
        if !follows(last, zxid) && !zebu_proto::mutant!("gap accepted") {
            return Err(Leave::Gap { last, zxid });
        }
        let record = packet.data.unwrap_or_default();
        if let Some(config) = Membership::in_txn(&record) {
            ctx.config_proposed(Arc::new(config));
        }
        ctx.history.push(Txn { zxid, record: record.clone() });
        if self.observer && !ctx.options.observer.logs {
            // It never becomes more durable.
            ctx.history.set_flushed(zxid);
            *ctx.unlogged = true;
        } else {
            ctx.out.push(Output::Append { zxid, record });
        }
        Ok(true)
    }

    /// The leader has committed a transaction.
    fn commit(&mut self, ctx: &mut Ctx<'_>, zxid: Zxid) -> Result<(), Leave> {
        self.commit_and_tell(ctx, zxid, None)
    }

    /// The leader has committed a transaction. `leads`: after a reconfiguration, the designated
    /// leader.
    fn commit_and_tell(
        &mut self,
        ctx: &mut Ctx<'_>,
        zxid: Zxid,
        leads: Option<ServerId>,
    ) -> Result<(), Leave> {
        if zxid <= self.committed || zxid <= ctx.history.delivered() {
            return Ok(());
        }
        let next = ctx.history.pending_above(self.committed).next();
        let Some(txn) = next.filter(|txn| txn.zxid == zxid) else {
            return Err(Leave::CommittedUnproposed { zxid, committed: self.committed });
        };
        assert!(zxid > self.committed, "{zxid} is committed after {}", self.committed);
        self.committed = zxid;
        self.prove_copy(zxid);
        if let Some(relay) = &mut self.relay {
            let txn = txn.clone();
            relay.tell(ctx, &txn, leads);
        }
        Ok(())
    }

    // ---- reconfiguration

    /// A reconfiguration is committed. The packet names the designated leader; for observers it
    /// contains the reconfiguration.
    fn reconfigure(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Result<(), Leave> {
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
        if self.stage == Stage::Broadcast {
            self.deliver(ctx);
        }
        match config {
            Some(config) => self.activate(ctx, Arc::new(config), Some(leader)),
            None => Ok(()),
        }
    }

    /// This server starts to serve: the configuration in NEWLEADER is committed, unless it is a
    /// reconfiguration that is still pending.
    fn complete(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
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

    pub(crate) fn flushed(&mut self, ctx: &mut Ctx<'_>) {
        self.proving(ctx);
        self.relieve(ctx);
        if self.stage == Stage::Broadcast {
            self.acknowledge(ctx);
            self.deliver(ctx);
        }
    }

    /// Acknowledges the transactions that have become durable.
    fn acknowledge(&mut self, ctx: &mut Ctx<'_>) {
        if self.observer {
            return;
        }
        let mut flushed = ctx.history.flushed();
        if zebu_proto::mutant!("ack before fsync") {
            flushed = ctx.history.last();
        }
        if let Some(link) = self.link {
            let durable = ctx.history.above(self.acked).take_while(|txn| txn.zxid <= flushed);
            let ack = |txn: &Txn| QuorumPacket::new(PacketKind::ACK, txn.zxid);
            ctx.out.extend(durable.map(|txn| Output::Send(link, ack(txn))));
        }
        self.acked = self.acked.max(flushed);
    }

    /// Applies transactions that exceed the memory limit before the leader is confirmed. They are
    /// in the log; a leader that truncates them truncates the tree too.
    fn relieve(&mut self, ctx: &mut Ctx<'_>) {
        if ctx.history.is_far_ahead() {
            self.deliver(ctx);
        }
    }

    fn deliver(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(Txn { zxid, record }) = ctx.history.deliver(self.committed) {
            ctx.out.push(Output::Deliver { zxid, record });
        }
    }
}
