//! The leader: chooses an epoch (`discovery`), synchronizes its learners, then orders transactions.
//! Source: `quorum-sync-broadcast.md` §1 to §6, `Leader`, `LearnerHandler`.

use std::collections::BTreeSet;
use std::time::Duration;

use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::{Epoch, ServerId, Zxid};

use crate::catchup::proposal;
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::faults;
use crate::history::{History, Txn};
use crate::io::{Learners, LinkId, Output, Role, Up};
use crate::leave::Leave;
use crate::links::{self, Links, Progress, Stage, Todo};
use crate::start::Epochs;

mod discovery;
mod handover;
mod identity;
mod liveness;
mod reconfig;
mod state;

pub use handover::NoHeir;

use state::{Broadcast, Phase, State};

/// The last counter used in an epoch.
const COUNTER_MAX: u32 = u32::MAX - 1;

/// A leader's state of a learner.
#[derive(Debug)]
struct Follow {
    /// Until when the learner counts as alive.
    alive_until: Duration,
    /// The time at which the learner last sent something.
    heard: Duration,
    acked: Zxid,
    /// The oldest unacknowledged proposal that is watched, and since when.
    unacked: Option<(Zxid, Duration)>,
    /// Ping rounds before it served, and the number answered since. Each is answered in order.
    rounds_before: u64,
    pings_answered: u64,
    /// The ping round whose answer is awaited, and when it began.
    awaited: Option<(u64, Duration)>,
    /// Up to when it has reported its clients' signs of life.
    told_until: Duration,
    /// Whether it was told that this leader will not be silent for long.
    expects_much: bool,
}

impl Follow {
    /// The newest ping round that it has answered.
    fn answered(&self) -> u64 {
        if self.pings_answered == 0 { 0 } else { self.rounds_before + self.pings_answered }
    }

    /// It answers the next ping, with all sessions heard of before.
    fn answers_ping(&mut self) {
        self.pings_answered += 1;
        if let Some((round, began)) = self.awaited
            && self.answered() >= round
        {
            (self.awaited, self.told_until) = (None, began);
        }
    }
}

type Link = links::Link<Follow>;

/// A request to confirm that this server still leads.
#[derive(Debug)]
struct Confirmation {
    token: u64,
    /// The last zxid proposed before; a commit above it is a confirmation.
    above: Zxid,
    /// An answer to this ping round is a confirmation too.
    round: u64,
}

/// A leader, from its election on.
#[derive(Debug)]
pub(crate) struct Leader {
    state: State,
    /// The end of the phase, before broadcast.
    give_up_at: Duration,
    /// The servers that voted for it, until broadcast.
    supporters: BTreeSet<ServerId>,
    /// Until then it waits for the other of two voters, whatever the oracle says.
    alone_from: Duration,
    waits_to_go_alone: bool,
    /// Servers that have looked for a leader since this phase began, and have not been served
    /// since.
    looking: BTreeSet<ServerId>,
    /// Epoch and end of its history at its election.
    summary: (Epoch, Zxid),
    /// The epoch that it has chosen; 0 before.
    epoch: Epoch,
    links: Links<Follow>,
    /// The newest committed transaction; at first the end of the initial history.
    end: Zxid,
    proposed: Zxid,
    /// The number of ping rounds so far.
    round: u64,
}

impl Leader {
    pub(crate) fn new(ctx: &mut Ctx<'_>, supporters: BTreeSet<ServerId>) -> Self {
        ctx.out.push(Output::Listen);
        let last = ctx.history.last();
        let state = State::EpochDiscovery {
            highest: *ctx.outbid,
            connecting: BTreeSet::new(),
            disloyal_after: ctx.options.epoch_wait_max.map_or(Duration::MAX, |max| ctx.now + max),
        };
        Self {
            state,
            give_up_at: ctx.now + ctx.options.init_time(),
            waits_to_go_alone: supporters.len() > 1 && ctx.quorums.oracle().is_some(),
            alone_from: match supporters.len() {
                0 | 1 => ctx.now,
                _ => ctx.now + ctx.options.tick,
            },
            supporters,
            looking: BTreeSet::new(),
            summary: (ctx.standing(), last),
            epoch: Epoch(0),
            links: Links::new(Duration::MAX),
            end: last,
            proposed: last,
            round: 0,
        }
    }

    fn phase(&self) -> Phase {
        self.state.phase()
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self, history: &History, epochs: Epochs) {
        let (phase, epoch) = (self.phase(), self.epoch);
        assert_eq!(
            phase == Phase::EpochDiscovery,
            epoch == Epoch(0),
            "{phase:?} in epoch {epoch:?}"
        );
        if phase >= Phase::HistoryDiscovery {
            assert!(epochs.accepted >= epoch, "{phase:?} in {epoch:?}, which is not promised here");
        }
        assert!(history.delivered() <= self.end, "more is delivered than counts");
        assert!(self.end <= history.last(), "{} counts, which is not there", self.end);
        assert!(self.end <= self.proposed, "{} counts, which is not proposed", self.end);
        if let State::Broadcast(broadcast) = &self.state {
            let is_early = faults::leads_before_its_epoch_is_durable();
            assert!(epochs.current == epoch || is_early, "the epoch is not durable");
            broadcast.check(epoch, self.end, self.proposed, self.round, history);
        }
        self.check_links();
    }

    /// Asserts the invariants of each learner.
    fn check_links(&self) {
        self.links.check();
        let phase = self.phase();
        for link in self.links.values() {
            let (server, own) = (link.server, &link.own);
            match link.stage {
                Stage::Connected | Stage::Introduced => {}
                Stage::EpochTold | Stage::EpochAcked => {
                    let is_early = faults::epoch_announced_before_it_is_durable();
                    let may_know = phase >= Phase::HistoryDiscovery || is_early;
                    assert!(may_know, "{server:?} knows the epoch: {phase:?}");
                }
                Stage::LogRead(_) | Stage::SnapshotTransfer(_) | Stage::NewLeaderSent => {
                    assert!(phase >= Phase::Synchronization, "{server:?} learns: {phase:?}");
                }
                Stage::Synchronized => {
                    assert_eq!(phase, Phase::Synchronization, "{server:?} has proven, and waits");
                }
                Stage::Broadcast => {
                    assert_eq!(phase, Phase::Broadcast, "{server:?} serves before its leader");
                }
            }
            assert!(own.acked <= self.proposed, "{server:?} has acknowledged {}", own.acked);
            let unacked = own.unacked.map(|(zxid, _)| zxid);
            assert!(unacked.is_none_or(|it| it <= self.proposed), "{server:?} owes {unacked:?}");
            assert!(own.rounds_before <= self.round, "{server:?} serves since a round to come");
            let awaited = own.awaited.map(|(round, _)| round);
            assert!(awaited.is_none_or(|it| it <= self.round), "{server:?} owes ping {awaited:?}");
        }
    }

    /// Joins its own discovery.
    pub(crate) fn begin(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        self.join(ctx, ctx.options.me, ctx.epochs.accepted, true);
        Ok(())
    }

    /// Whether the oracle lets this server continue without the other voter.
    fn goes_alone(&self, ctx: &Ctx<'_>) -> bool {
        let follows = |link: &Link| link.is_registered() && !link.observer;
        ctx.quorums.oracle() == Some(true)
            && self.alone_from <= ctx.now
            && !self.links.values().any(follows)
    }

    /// Continues alone if the oracle allows it now.
    pub(crate) fn go_on_alone(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        if !self.goes_alone(ctx) {
            return Ok(());
        }
        match &self.state {
            State::EpochDiscovery { .. } => {
                self.join(ctx, ctx.options.me, ctx.epochs.accepted, true);
            }
            State::HistoryDiscovery { .. } => self.elect(ctx, ctx.options.me)?,
            State::Synchronization { current_saved: true, .. } => {
                self.prove(ctx, ctx.options.me)?;
            }
            State::Broadcast(_) => {
                self.commit(ctx);
                self.confirm_by_pings(ctx);
            }
            State::EpochPromise | State::Synchronization { .. } => {}
        }
        Ok(())
    }

    /// A connection was closed by the peer.
    pub(crate) fn link_lost(&mut self, ctx: &mut Ctx<'_>, id: LinkId) -> Result<(), Leave> {
        self.link_down(ctx, id)?;
        self.go_on_alone(ctx)
    }

    /// The epoch of this leader in broadcast; `None` before.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.state.broadcast().map(|_| self.epoch)
    }

    /// The zxid of the next transaction; `None` if the epoch is exhausted.
    pub(crate) fn next_zxid(&self, first_counter: u32) -> Option<Zxid> {
        if self.proposed.counter() == 0 {
            return Some(Zxid::new(self.epoch, first_counter));
        }
        let overflows = faults::counter_overflows();
        (self.proposed.counter() < COUNTER_MAX || overflows).then(|| Zxid(self.proposed.0 + 1))
    }

    /// The learners of this leader.
    pub(crate) fn learners(&self, voters: &Membership) -> Learners {
        let mut learners = Learners { connected: self.links.len(), ..Learners::default() };
        for link in self.links.values().filter(|link| link.is_registered()) {
            if link.observer {
                learners.observers += 1;
            } else {
                learners.followers += 1;
                learners.without_vote += usize::from(!voters.is_voter(link.server));
            }
        }
        learners
    }

    /// Whether the connection's learner takes part in broadcast.
    pub(crate) fn serves(&self, link: LinkId) -> bool {
        self.links.serves(link)
    }

    /// Up to when a learner has reported its clients' signs of life.
    pub(crate) fn told_until(&self, link: LinkId) -> Option<Duration> {
        self.links.get(link).filter(|link| link.is_serving()).map(|link| link.own.told_until)
    }

    /// Up to when all learners have.
    pub(crate) fn all_told_until(&self) -> Option<Duration> {
        let serving = self.links.values().filter(|link| link.is_serving());
        serving.map(|link| link.own.told_until).min()
    }

    pub(crate) fn deadline(&self) -> Duration {
        let phase = self.state.broadcast().map_or(self.give_up_at, Broadcast::deadline);
        let alone = if self.waits_to_go_alone { self.alone_from } else { Duration::MAX };
        self.links.deadline().min(phase).min(alone)
    }

    /// Closes all connections.
    pub(crate) fn leave(self, out: &mut Vec<Output>) {
        self.links.leave(out);
    }

    // ---- links

    pub(crate) fn accepted(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let follow = Follow {
            alive_until: ctx.now + ctx.options.init_time() + ctx.options.sync_time(),
            heard: ctx.now,
            acked: Zxid::ZERO,
            unacked: None,
            rounds_before: 0,
            pings_answered: 0,
            awaited: None,
            told_until: ctx.now,
            expects_much: false,
        };
        self.links.accepted(ctx, id, follow);
    }

    fn link_down(&mut self, ctx: &mut Ctx<'_>, id: LinkId) -> Result<(), Leave> {
        self.links.remove(id);
        self.misses_heir()?;
        self.retire(ctx)
    }

    /// Handles a learner's packet. A violation costs the learner its connection, nothing more.
    pub(crate) fn packet(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        packet: QuorumPacket,
    ) -> Result<(), Leave> {
        let Some(link) = self.links.get_mut(id) else { return Ok(()) };
        let limit = link.heard(ctx.now, ctx.options);
        if link.is_serving() {
            (link.own.alive_until, link.own.heard) = (ctx.now + limit, ctx.now);
        }
        match (&link.stage, packet.kind) {
            (Stage::Connected, PacketKind::FOLLOWERINFO | PacketKind::OBSERVERINFO) => {
                self.introduce(ctx, id, &packet)?;
            }
            (Stage::EpochTold, PacketKind::ACKEPOCH) => self.epoch_acked(ctx, id, &packet)?,
            (Stage::NewLeaderSent | Stage::Synchronized | Stage::Broadcast, PacketKind::ACK) => {
                self.acked(ctx, id, packet.zxid)?;
            }
            (Stage::Synchronized | Stage::Broadcast, PacketKind::PING) => {
                link.own.answers_ping();
                ctx.out.push(Output::Up(Up::FromLearner(id, packet)));
                self.confirm_by_pings(ctx);
            }
            (
                Stage::Synchronized | Stage::Broadcast,
                PacketKind::REQUEST | PacketKind::REVALIDATE,
            ) => {
                ctx.out.push(Output::Up(Up::FromLearner(id, packet)));
            }
            (Stage::Synchronized | Stage::Broadcast, PacketKind::TREE_DIFFERS)
                if !link.observer =>
            {
                if let State::Broadcast(broadcast) = &mut self.state {
                    broadcast.reports.add(link.server, &packet, self.epoch, ctx.quorums)?;
                }
            }
            // Other packets of an established learner are ignored.
            (Stage::Synchronized | Stage::Broadcast, _) => {}
            _ => self.links.close(ctx, id),
        }
        Ok(())
    }

    // ---- synchronization

    /// Continues the synchronization of a learner.
    pub(crate) fn advance(&mut self, ctx: &mut Ctx<'_>, id: LinkId, by: Progress) {
        match self.links.advance(ctx, id, self.end, by) {
            Todo::Nothing => {}
            Todo::Copy => self.copy(ctx, id),
            Todo::Register => self.register(ctx, id),
        }
    }

    /// Sends a snapshot.
    ///
    /// A snapshot replaces the learner's data. A quorum may depend on the part of this history that
    /// the learner has, so the snapshot itself must contain that part: later transactions may never
    /// reach the learner's disk.
    fn copy(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        if self.phase() == Phase::Synchronization && !faults::copy_without_its_end() {
            // No client is served yet. If this leader fails, it truncates what the next leader
            // lacks.
            self.deliver_initial(ctx);
        }
        let had = self.links.get(id).map_or(Zxid::ZERO, |link| link.zxid.min(self.end));
        if ctx.history.delivered() < had && !faults::copy_without_its_end() {
            // This leader's disk is behind: the learner waits.
            return self.links.begin_later(id);
        }
        self.links.copy(ctx, id);
    }

    /// This server's disk has advanced: synchronizes the learners that waited for that.
    fn begin_waiting(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase() < Phase::Synchronization {
            return;
        }
        for id in self.links.which(|link| matches!(link.stage, Stage::EpochAcked)) {
            self.advance(ctx, id, Progress::Begins);
        }
    }

    /// Registers a learner: from now on it gets all packets, and first the current proposals.
    ///
    /// The learners of a new leader complete the configuration that the leader found proposed.
    /// During broadcast a reconfiguration is sent like any transaction, since it may still fail.
    /// NEWLEADER names the committed configuration, and the reconfiguration follows it, with all
    /// later proposals. The original's leader names the proposed configuration instead, and its
    /// learners put it in force when they are told to serve. With the reconfiguration before
    /// NEWLEADER, learners would drop the proposed configuration.
    fn register(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let broadcast = self.state.broadcast();
        let leads = broadcast.is_some() && !faults::proposal_named();
        let in_front = faults::proposal_in_front();
        let change = broadcast.and_then(|it| it.needed.pending()).filter(|_| !in_front);
        let change = change.unwrap_or(Zxid(i64::MAX));
        self.send_pending(ctx, id, |zxid| zxid < change);
        let quorums = ctx.quorums.clone();
        let config = if leads { quorums.committed() } else { quorums.last_seen() };
        self.links.register(ctx, id, self.epoch, config);
        self.send_pending(ctx, id, |zxid| zxid >= change);
        self.links.ping_soon(ctx);
    }

    /// Sends a follower those of the uncommitted proposals that `those` selects.
    fn send_pending(&self, ctx: &mut Ctx<'_>, id: LinkId, those: impl Fn(Zxid) -> bool) {
        if self.links.get(id).is_some_and(|link| !link.observer) {
            for txn in ctx.history.pending_above(self.end).filter(|txn| those(txn.zxid)) {
                ctx.out.push(Output::Send(id, proposal(txn)));
            }
        }
    }

    /// A server has this leader's history on disk.
    fn prove(&mut self, ctx: &mut Ctx<'_>, server: ServerId) -> Result<(), Leave> {
        let alone = self.goes_alone(ctx);
        let State::Synchronization { proven, current_saved } = &mut self.state else {
            return Ok(());
        };
        proven.insert(server);
        let is_early = faults::leads_before_its_epoch_is_durable();
        if !*current_saved && !is_early || !(ctx.quorums.all_have_quorum(proven) || alone) {
            return Ok(());
        }
        let is_proven = proven.contains(&ctx.options.me) || is_early;
        assert!(is_proven, "it leads with what is not on its own disk");
        self.state = State::Broadcast(Broadcast::new(ctx));
        self.supporters.clear();
        self.looking.clear();
        self.proposed = Zxid::new(self.epoch, 0);
        self.links.ping_soon(ctx);
        ctx.silence.begin();
        let stays = self.complete(ctx);
        self.deliver(ctx);
        if stays {
            ctx.out.push(Output::Role(Role::Leading(self.epoch)));
        }
        for link in self.links.which(|link| matches!(link.stage, Stage::Synchronized)) {
            self.serve(ctx, link);
        }
        if stays { Ok(()) } else { Err(Leave::ConfigHasOtherLeader) }
    }

    fn serve(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        link.own.alive_until = link.own.alive_until.max(ctx.now + ctx.options.sync_time());
        link.own.heard = ctx.now;
        (link.own.rounds_before, link.own.pings_answered) = (self.round, 0);
        (link.own.awaited, link.own.told_until) = (None, ctx.now);
        self.looking.remove(&link.server);
        self.links.serve(ctx, id);
        if let State::Broadcast(broadcast) = &mut self.state
            && ctx.options.leader_silence.is_some()
        {
            // Until it is told, it lets this leader be silent for `syncLimit`.
            broadcast.alive_at = ctx.now;
        }
    }

    // ---- broadcast

    /// Proposes a transaction at [`Leader::next_zxid`].
    pub(crate) fn propose(&mut self, ctx: &mut Ctx<'_>, txn: Txn) {
        self.propose_to(ctx, txn, |_| true);
    }

    /// Proposes a transaction to some of the followers.
    fn propose_to(&mut self, ctx: &mut Ctx<'_>, txn: Txn, those: impl Fn(ServerId) -> bool) {
        let broadcast = self.state.broadcast().expect("only an established leader proposes");
        assert!(broadcast.heir.is_none(), "it hands over, and proposes");
        assert!(txn.zxid > self.proposed, "{} after {}", txn.zxid, self.proposed);
        assert_eq!(txn.zxid.epoch(), self.epoch, "{} in an epoch of its own", txn.zxid);
        self.prepare(ctx, &txn);
        self.proposed = txn.zxid;
        let Txn { zxid, record } = txn.clone();
        ctx.history.push(txn.clone());
        if !faults::proposed_and_not_logged() {
            ctx.out.push(Output::Append { zxid, record });
        }
        for (id, link) in self.links.iter_mut() {
            let left_out = faults::proposal_left_out() && zxid.counter().is_multiple_of(32);
            if link.is_registered() && !link.observer && !left_out && those(link.server) {
                link.own.unacked.get_or_insert((zxid, ctx.now));
                ctx.out.push(Output::Send(id, proposal(&txn)));
            }
        }
    }

    fn acked(&mut self, ctx: &mut Ctx<'_>, id: LinkId, zxid: Zxid) -> Result<(), Leave> {
        let Some(link) = self.links.get_mut(id) else { return Ok(()) };
        if zxid == Zxid::new(self.epoch, 0) {
            if matches!(link.stage, Stage::NewLeaderSent) {
                link.proves(ctx.now, ctx.options);
                let (server, observer) = (link.server, link.observer);
                if self.phase() == Phase::Broadcast {
                    self.serve(ctx, id);
                    // Its earlier acknowledgements count from now on.
                    self.commit(ctx);
                } else if !observer || faults::observers_counted() {
                    self.prove(ctx, server)?;
                }
                self.settle_identity(ctx);
            }
            return Ok(());
        }
        if zxid > self.proposed || zxid.counter() == 0 {
            return Ok(());
        }
        link.own.acked = link.own.acked.max(zxid);
        let heir = self.state.broadcast().and_then(|broadcast| broadcast.heir);
        if heir.is_some_and(|(heir, last)| heir == link.server && last <= zxid) {
            return Err(Leave::HandedOver(link.server));
        }
        if link.own.unacked.is_some_and(|(oldest, _)| oldest <= zxid) {
            link.own.unacked = (self.proposed > zxid).then_some((self.proposed, ctx.now));
        }
        // Committed transactions need no more acknowledgements.
        if zxid > self.end {
            self.commit(ctx);
        }
        Ok(())
    }

    pub(crate) fn flushed(&mut self, ctx: &mut Ctx<'_>) {
        self.commit(ctx);
        self.deliver(ctx);
        self.begin_waiting(ctx);
    }

    /// Whether the followers have made so much durable beyond this server's disk that it should not
    /// lead any more.
    pub(crate) fn falls_behind(&self, history: &History) -> bool {
        history.flushed() < self.end && history.is_too_far_ahead()
    }

    /// Commits what quorums of all relevant configurations have on disk.
    fn commit(&mut self, ctx: &mut Ctx<'_>) {
        let mut any = false;
        loop {
            let me = ctx.options.me;
            let alone = self.goes_alone(ctx);
            let State::Broadcast(broadcast) = &mut self.state else { return };
            if broadcast.ends() {
                break;
            }
            let pending = broadcast.needed.pending();
            let needed = broadcast.needed.after(self.end);
            let (quorums, until) = needed.expect("a leader knows whose quorums it needs");
            let mut safe = if alone && !quorums.is_joint() {
                ctx.history.flushed()
            } else {
                Self::durable(&self.links, me, ctx.history, quorums.committed())
            };
            if quorums.is_joint() {
                let new = Self::durable(&self.links, me, ctx.history, quorums.last_seen());
                let new_alone = faults::one_quorum_for_a_reconfiguration();
                safe = if new_alone { new } else { safe.min(new) };
            }
            safe = safe.min(Zxid(until.0 - 1));
            let reconfig = pending.filter(|zxid| *zxid <= safe);
            safe = reconfig.unwrap_or(safe);
            if safe <= self.end {
                break;
            }
            assert!(safe <= ctx.history.last(), "{safe} is committed, and not there");
            any = true;
            let from = std::mem::replace(&mut self.end, safe);
            self.send_commits(ctx, from, reconfig);
            if let Some(zxid) = reconfig {
                let txn = ctx.history.pending_above(Zxid(zxid.0 - 1)).next();
                let txn = txn.expect("what is committed now is not delivered").clone();
                self.activate(ctx, &txn);
            }
        }
        if any {
            self.confirm_by_pings(ctx);
            self.deliver(ctx);
        }
    }

    /// Sends the commits after `from` up to the end, except for the reconfiguration, which has
    /// packets of its own.
    fn send_commits(&mut self, ctx: &mut Ctx<'_>, from: Zxid, reconfig: Option<Zxid>) {
        let safe = self.end;
        let State::Broadcast(broadcast) = &mut self.state else { return };
        for txn in ctx.history.pending_above(from).take_while(|txn| txn.zxid <= safe) {
            // Confirms requests that are older than this proposal before its commit.
            let confirmations = &mut broadcast.confirmations;
            let asked = confirmations.iter().take_while(|c| c.above < txn.zxid).count();
            for confirmation in confirmations.drain(..asked) {
                ctx.out.push(Output::Up(Up::Confirmed(confirmation.token)));
            }
            if Some(txn.zxid) == reconfig {
                continue;
            }
            for (id, link) in self.links.registered() {
                if faults::commit_out_of_order() && txn.zxid < safe {
                    continue;
                }
                let packet = if link.observer {
                    QuorumPacket { kind: PacketKind::INFORM, ..proposal(txn) }
                } else {
                    QuorumPacket::new(PacketKind::COMMIT, txn.zxid)
                };
                ctx.out.push(Output::Send(id, packet));
            }
        }
    }

    /// The newest transaction that a quorum of `config` has on disk.
    fn durable(
        links: &Links<Follow>,
        me: ServerId,
        history: &History,
        config: &Membership,
    ) -> Zxid {
        let mut acked: Vec<(Zxid, ServerId)> = links
            .values()
            .filter(|link| link.is_proven() || faults::unproven_acknowledgements_counted())
            .filter(|link| config.is_voter(link.server) && !link.observer)
            .map(|link| (link.own.acked, link.server))
            .collect();
        if config.is_voter(me) {
            let early = faults::leader_counts_before_fsync();
            acked.push((if early { history.last() } else { history.flushed() }, me));
        }
        acked.sort_unstable_by(|a, b| b.cmp(a));
        if faults::slowest_learner_waited_for() {
            return acked.last().map_or(Zxid::ZERO, |(zxid, _)| *zxid);
        }
        let quorum = (1..=acked.len()).find(|count| {
            let best = &acked[..*count];
            config.has_quorum(|voter| best.iter().any(|(_, server)| *server == voter))
                || faults::commit_without_quorum()
        });
        quorum.map_or(Zxid::ZERO, |count| acked[count - 1].0)
    }

    fn deliver(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase() == Phase::Broadcast {
            self.deliver_initial(ctx);
        }
    }

    /// Delivers everything up to the end; before broadcast, that is the initial history.
    fn deliver_initial(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(Txn { zxid, record }) = ctx.history.deliver(self.end) {
            assert!(zxid <= self.end, "{zxid} is delivered, and does not count");
            ctx.out.push(Output::Deliver { zxid, record });
        }
    }
}
