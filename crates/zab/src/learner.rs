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
use zebu_proto::quorum::{Alive, LearnerInfo, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, ServerId, Zxid};

use crate::busy::Busy;
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::doubt::{self, Change};
use crate::faults;
use crate::history::{History, Txn, follows};
use crate::io::{EpochKind, LinkId, Output, Role, Up};
use crate::leave::Leave;
use crate::relay::Relay;
use crate::start::Epochs;

mod dialling;
mod discovery;
mod identity;
mod reconfig;
mod state;

use dialling::Dialling;
use state::{Broadcast, Stage, State};

/// A follower or an observer, from the end of its election on.
#[derive(Debug)]
pub(crate) struct Learner {
    leader: ServerId,
    observer: bool,
    dialling: Dialling,
    state: State,
    link: Option<LinkId>,
    /// When the leader counts as dead unless it sends something.
    deadline: Duration,
    epoch: Epoch,
    /// The newest transaction that the leader has committed.
    committed: Zxid,
    /// The end of an installed snapshot, until the leader names that zxid or a later one in another
    /// packet.
    ///
    /// Only the packet that announces a snapshot says where it ends. A single damaged packet must
    /// not make this server know of transactions that nobody has proposed.
    unproven: Option<Zxid>,
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
        let mut dialling = Dialling::new(leader, masters);
        let limit = ctx.options.tick * ctx.options.connect_limit * dialling.servers();
        if pause > Duration::ZERO {
            dialling.wait_until(ctx.now + pause);
        } else {
            ctx.out.push(dialling.dial());
        }
        ctx.doubt.begin();
        ctx.silence.begin();
        Self {
            leader,
            observer,
            dialling,
            state: State::Connecting,
            link: None,
            deadline: ctx.now + pause + limit,
            epoch: Epoch(0),
            committed: Zxid::ZERO,
            unproven: None,
            tells_identity: false,
            config: None,
        }
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self, history: &History, epochs: Epochs, busy: &Busy) {
        let stage = self.stage();
        assert!(stage == Stage::Connecting || self.link.is_some(), "{stage:?} without a leader");
        assert_eq!(stage == Stage::Truncation, busy.truncating.is_some(), "{stage:?}");
        assert_eq!(stage == Stage::SnapshotInstall, busy.restoring, "{stage:?}");
        assert!(self.committed <= history.last(), "{} is committed, and not there", self.committed);
        if stage >= Stage::EpochAccepted {
            let promised =
                epochs.accepted == self.epoch || self.observer && epochs.accepted > self.epoch;
            assert!(promised, "{stage:?} in {:?}, and {epochs:?}", self.epoch);
        }
        if stage >= Stage::Synchronized {
            let early = faults::history_acknowledged_before_fsync();
            let is_durable = early || epochs.current == self.epoch;
            assert!(is_durable, "{stage:?} in an epoch that is not durable");
        }
        assert!(stage != Stage::Connecting || self.link.is_none(), "connected, and it dials");
        self.dialling.check(stage == Stage::Connecting);
        assert!(self.config.is_none() || stage >= Stage::HistorySync, "{stage:?} in its members");
        assert!(self.unproven.is_none() || stage >= Stage::CatchUp, "{stage:?} after a snapshot");
        let end = self.unproven.unwrap_or(Zxid::ZERO);
        assert!(end <= history.last(), "{end} was the end of the snapshot, and is not there");
        if stage <= Stage::Introduced {
            assert_eq!(self.committed, Zxid::ZERO, "{stage:?}, and knows what is committed");
            assert_eq!(self.epoch, Epoch(0), "{stage:?}, and knows the epoch");
        }
        if let Some(relay) = self.relay() {
            relay.check(history);
            assert!(!self.observer, "observers learn from an observer");
        }
    }

    fn stage(&self) -> Stage {
        self.state.stage()
    }

    /// The leader.
    pub(crate) fn leader(&self) -> ServerId {
        self.leader
    }

    /// The server it learns from, or tries to.
    pub(crate) fn master(&self) -> ServerId {
        self.dialling.dialled()
    }

    /// The end of its attempts to connect, if it is still connecting.
    pub(crate) fn dials_until(&self) -> Option<Duration> {
        (self.stage() == Stage::Connecting).then_some(self.deadline)
    }

    /// The observers that learn from this server.
    pub(crate) fn relay(&self) -> Option<&Relay> {
        self.state.relay()
    }

    /// The observers that learn from this server, mutably.
    pub(crate) fn relay_mut(&mut self) -> Option<&mut Relay> {
        self.state.relay_mut()
    }

    pub(crate) fn deadline(&self) -> Duration {
        let relay = self.relay().map_or(Duration::MAX, Relay::deadline);
        self.deadline.min(self.dialling.due()).min(relay)
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
        self.link.filter(|_| self.stage() == Stage::Broadcast)
    }

    /// This server was suspended: extends the leader's deadline, since its packets may be unread.
    pub(crate) fn postpone(&mut self, time: Duration) {
        self.deadline += time;
        if let Some(relay) = self.relay_mut() {
            relay.postpone(time);
        }
    }

    /// Whether it is an observer.
    pub(crate) fn is_observer(&self) -> bool {
        self.observer
    }

    /// The leader, if it has been silent for too long.
    pub(crate) fn silent_leader(&self, now: Duration) -> Option<ServerId> {
        (self.deadline <= now && self.dialling.is_at_leader()).then_some(self.leader)
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
        if let State::Broadcast(Broadcast { relay: Some(relay), .. }) = self.state {
            relay.leave(out);
        }
    }

    pub(crate) fn connected(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        if self.stage() != Stage::Connecting || self.link.is_some() {
            ctx.out.push(Output::Close(link));
            return;
        }
        self.link = Some(link);
        self.state = State::Introduced;
        self.dialling.connected();
        self.deadline = ctx.now + ctx.options.init_time();
        let kind = if self.observer { PacketKind::OBSERVERINFO } else { PacketKind::FOLLOWERINFO };
        let info = LearnerInfo::new(ctx.options.me, ctx.quorums.committed().version())
            .with_identity(ctx.told_identity());
        let zxid = Zxid::new(ctx.epochs.accepted, 0);
        self.send(ctx, QuorumPacket::with_data(kind, zxid, info.to_data()));
    }

    pub(crate) fn connect_failed(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        if self.stage() != Stage::Connecting || self.link.is_some() {
            return Ok(());
        }
        ctx.out.extend(self.dialling.failed(ctx.now, ctx.options.connect_pause)?);
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
        ctx.out.extend(self.dialling.tick(ctx.now)?);
        if let Some(relay) = self.relay_mut() {
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
        match &mut self.state {
            State::Connecting | State::EpochPromise | State::SnapshotTransfer => {
                Err(Leave::OutOfTurn(packet.kind))
            }
            State::Introduced => self.leader_info(ctx, &packet),
            State::EpochAccepted { wants_tree } => {
                let wants_tree = *wants_tree;
                self.first(ctx, &packet, wants_tree)
            }
            State::Truncation { held } | State::SnapshotInstall { held } => {
                held.push_back(packet);
                Ok(())
            }
            State::SnapshotDoubted { .. } => self.judge(ctx, packet),
            State::Broadcast(_) => self.broadcast(ctx, packet),
            State::CatchUp | State::HistorySync { .. } | State::EpochSync | State::Synchronized => {
                self.synchronize(ctx, packet)
            }
        }
    }

    /// Bytes move. From the leader: it is alive; a snapshot or a large packet may take longer than
    /// the whole limit. To an observer: see [`Relay::moves`].
    pub(crate) fn moves(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        if !self.is_link(link) {
            self.relay_mut().into_iter().for_each(|relay| relay.moves(ctx, link));
        } else if !faults::copies_have_a_time_limit() {
            ctx.silence.heard(ctx.now);
            self.deadline = self.deadline.max(ctx.now + self.patience(ctx));
        }
    }

    /// How long the leader may be silent.
    fn patience(&self, ctx: &Ctx<'_>) -> Duration {
        match self.stage() {
            Stage::Broadcast if faults::lost_leader_missed_late() => ctx.options.sync_time() * 6,
            Stage::Broadcast => ctx.silence.limit(ctx.options.sync_time()),
            stage if stage >= Stage::EpochSync => ctx.options.sync_time(),
            _ => ctx.options.init_time(),
        }
    }

    fn history_ack(&self) -> QuorumPacket {
        QuorumPacket::new(PacketKind::ACK, Zxid::new(self.epoch, 0))
    }

    // ---- synchronization

    /// Handles the packet that announces the method of synchronization.
    fn first(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &QuorumPacket,
        wants_tree: bool,
    ) -> Result<(), Leave> {
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
            PacketKind::SNAP if wants_tree && packet.zxid < ctx.history.last() => {
                return Err(Leave::TreeTooShort { zxid: packet.zxid, last: ctx.history.last() });
            }
            PacketKind::SNAP => self.state = State::SnapshotTransfer,
            PacketKind::TRUNC if packet.zxid < Zxid::ZERO || packet.zxid > ctx.history.last() => {
                return Err(Leave::TruncatedBeyondEnd {
                    zxid: packet.zxid,
                    last: ctx.history.last(),
                });
            }
            PacketKind::TRUNC => {
                ctx.refuse_to_forget(self.leader, packet.zxid)?;
                self.state = State::Truncation { held: VecDeque::new() };
                ctx.busy.truncating = Some(packet.zxid);
                ctx.out.push(Output::Truncate(packet.zxid));
            }
            _ => return Err(Leave::SyncNotTold(packet.kind)),
        }
        Ok(())
    }

    /// The log was truncated as requested, or no snapshot and log lead there.
    pub(crate) fn truncated(&mut self, ctx: &mut Ctx<'_>, done: bool) -> Result<(), Leave> {
        let State::Truncation { held } = &mut self.state else { return Ok(()) };
        if !done {
            return Err(Leave::TruncatedNowhere);
        }
        let held = std::mem::take(held);
        self.agreed(ctx);
        self.go_on(ctx, held)
    }

    /// This server's whole history is part of the leader's: it is committed as soon as the leader
    /// is confirmed.
    fn agreed(&mut self, ctx: &Ctx<'_>) {
        self.state = State::CatchUp;
        self.committed = ctx.history.last();
    }

    /// The leader's snapshot has arrived, as of `zxid`.
    pub(crate) fn copied(&mut self, ctx: &mut Ctx<'_>, link: LinkId, zxid: Zxid) {
        if self.stage() != Stage::SnapshotTransfer {
            return;
        }
        self.deadline = ctx.now + ctx.options.init_time();
        match ctx.refuse_to_forget(self.leader, zxid) {
            Ok(()) => self.install(ctx, link, VecDeque::new()),
            Err(_) => self.state = State::SnapshotDoubted { end: zxid, held: VecDeque::new() },
        }
    }

    /// Handles packets after a snapshot that is older than this server's committed history: the
    /// leader's history either reaches that or ends before.
    fn judge(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Result<(), Leave> {
        let State::SnapshotDoubted { end, held } = &mut self.state else {
            unreachable!("only the end of a doubted snapshot is judged")
        };
        match packet.kind {
            PacketKind::PROPOSAL | PacketKind::INFORM | PacketKind::INFORMANDACTIVATE => {
                *end = packet.zxid.max(*end);
            }
            _ => {}
        }
        let reaches = ctx.refuse_to_forget(self.leader, *end);
        if packet.kind == PacketKind::NEWLEADER {
            reaches?;
        }
        held.push_back(packet);
        if let (Ok(()), Some(link)) = (reaches, self.link) {
            let held = std::mem::take(held);
            self.install(ctx, link, held);
        }
        Ok(())
    }

    fn install(&mut self, ctx: &mut Ctx<'_>, link: LinkId, held: VecDeque<QuorumPacket>) {
        self.state = State::SnapshotInstall { held };
        self.deadline = ctx.now + ctx.options.init_time();
        ctx.busy.restoring = true;
        ctx.out.push(Output::Restore(link));
    }

    /// The snapshot is installed.
    pub(crate) fn restored(&mut self, ctx: &mut Ctx<'_>, zxid: Zxid) -> Result<(), Leave> {
        let State::SnapshotInstall { held } = &mut self.state else { return Ok(()) };
        let held = std::mem::take(held);
        self.agreed(ctx);
        debug_assert_eq!(self.committed, zxid, "the copy is all there is");
        if !faults::announced_end_believed() {
            self.unproven = Some(zxid);
        }
        self.go_on(ctx, held)
    }

    /// Handles the packets received while the disk was busy.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, held: VecDeque<QuorumPacket>) -> Result<(), Leave> {
        held.into_iter().try_for_each(|packet| self.synchronize(ctx, packet))
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
            PacketKind::NEWLEADER if self.stage() <= Stage::CatchUp => {
                if packet.epoch() != self.epoch {
                    return Err(Leave::EpochChanged { told: self.epoch, now: packet.epoch() });
                }
                if self.lacks_identity(ctx) && !faults::ensemble_id_not_waited_for() {
                    return Err(Leave::IdentityNotTold);
                }
                self.state = State::HistorySync { prove: ctx.history.last() };
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
            PacketKind::UPTODATE if self.stage() == Stage::Synchronized => {
                let (acked, had) = (self.committed, Zxid::ZERO);
                self.state = State::Broadcast(Broadcast { relay: None, acked, had });
                self.send(ctx, self.history_ack());
                let role = if self.observer { Role::Observing } else { Role::Following };
                self.deliver(ctx);
                self.complete(ctx)?;
                let change = ctx.doubt.resume(ctx.now, ctx.options);
                self.doubts(ctx, change);
                ctx.out.push(Output::Role(role(self.leader)));
                self.acknowledge(ctx);
                if let State::Broadcast(broadcast) = &mut self.state
                    && ctx.options.observer.masters
                    && !self.observer
                {
                    let end = self.committed.max(ctx.history.delivered());
                    broadcast.relay = Some(Relay::new(ctx, end));
                }
                Ok(())
            }
            PacketKind::NEWLEADER | PacketKind::UPTODATE => Err(Leave::OutOfTurn(packet.kind)),
            _ => Ok(()),
        }
    }

    /// Continues once everything before NEWLEADER is durable.
    fn proving(&mut self, ctx: &mut Ctx<'_>) {
        let State::HistorySync { prove } = self.state else { return };
        if faults::history_acknowledged_before_fsync() {
            self.state = State::Synchronized;
            ctx.save_epoch(EpochKind::Current, self.epoch);
            return self.send(ctx, self.history_ack());
        }
        if ctx.history.flushed() >= prove {
            assert!(ctx.epochs.current <= self.epoch, "an epoch that was over before");
            self.state = State::EpochSync;
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
                if self.dialling.is_at_leader() {
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
        let State::Broadcast(broadcast) = &mut self.state else { return Ok(()) };
        let had = std::mem::replace(&mut broadcast.had, ctx.history.last());
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
        if zxid <= last && !faults::what_comes_again_is_logged_again() {
            return Ok(false);
        }
        if zxid.epoch() > self.epoch {
            return Err(Leave::ProposedInLaterEpoch { zxid, epoch: self.epoch });
        }
        if !follows(last, zxid) && !faults::gap_accepted() {
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
        if let Some(relay) = self.state.relay_mut() {
            let txn = txn.clone();
            relay.tell(ctx, &txn, leads);
        }
        Ok(())
    }

    pub(crate) fn flushed(&mut self, ctx: &mut Ctx<'_>) {
        self.proving(ctx);
        self.relieve(ctx);
        if self.stage() == Stage::Broadcast {
            self.acknowledge(ctx);
            self.deliver(ctx);
        }
    }

    /// Acknowledges the transactions that have become durable.
    fn acknowledge(&mut self, ctx: &mut Ctx<'_>) {
        let State::Broadcast(broadcast) = &mut self.state else { return };
        if self.observer {
            return;
        }
        let mut flushed = ctx.history.flushed();
        if faults::ack_before_fsync() {
            flushed = ctx.history.last();
        }
        if let Some(link) = self.link {
            let durable = ctx.history.above(broadcast.acked).take_while(|txn| txn.zxid <= flushed);
            let ack = |txn: &Txn| QuorumPacket::new(PacketKind::ACK, txn.zxid);
            ctx.out.extend(durable.map(|txn| Output::Send(link, ack(txn))));
        }
        broadcast.acked = broadcast.acked.max(flushed);
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
