//! A leader: chooses an epoch, brings its learners to its history, then orders transactions.
//!
//! Source: `quorum-sync-broadcast.md` §1 to §6, `Leader`, `LearnerHandler`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::quorum::{NO_ZXID, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, ServerId, Zxid};

use crate::catchup::proposal;
use crate::config::Membership;
use crate::history::{History, Txn};
use crate::io::{EpochKind, Learners, LinkId, Output, Role, Up};
use crate::links::{self, Links, Progress, Stage, Todo};
use crate::peer::{Ctx, Leave};
use crate::quorums::Quorums;

mod liveness;
mod reconfig;

/// The last counter of an epoch that is proposed.
const COUNTER_MAX: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Hears which epochs the others have promised.
    Choosing,
    /// Makes its own promise durable.
    Promising,
    /// Hears how good the others' histories are.
    Electing,
    /// Brings a quorum to its history.
    Syncing,
    /// Orders transactions.
    Leading,
}

/// What a leader keeps of a learner.
#[derive(Debug)]
struct Follow {
    /// Until when it counts as alive.
    alive_until: Duration,
    acked: Zxid,
    /// A proposal it has not acknowledged, and since when.
    unacked: Option<(Zxid, Duration)>,
    pings_sent: u64,
    pings_answered: u64,
}

type Link = links::Link<Follow>;

/// Somebody wants to know that this server still leads.
#[derive(Debug)]
struct Confirmation {
    token: u64,
    /// What had been proposed; a commit above this shows it.
    above: Zxid,
    /// An answer to a later ping than these does so, too.
    pings: BTreeMap<LinkId, u64>,
}

/// A leader, from the decision of its election on.
#[derive(Debug)]
pub(crate) struct Leader {
    phase: Phase,
    give_up_at: Duration,
    /// Who has voted for it.
    supporters: BTreeSet<ServerId>,
    /// Before this it waits for the other one of two, whatever the oracle says.
    alone_from: Duration,
    waits_to_go_alone: bool,
    /// From when on a supporter that looks again ends this before it begins.
    disloyal_after: Duration,
    /// What it had when it was elected.
    summary: (Epoch, Zxid),
    highest: Epoch,
    epoch: Epoch,
    connecting: BTreeSet<ServerId>,
    electing: BTreeSet<ServerId>,
    proven: BTreeSet<ServerId>,
    current_saved: bool,
    links: Links<Follow>,
    /// The newest transaction that counts: the end of the initial history, then what is committed.
    end: Zxid,
    proposed: Zxid,
    check_at: Duration,
    confirmations: VecDeque<Confirmation>,
    /// Whose quorums transactions need.
    needed: reconfig::Needed,
    /// Who leads the configuration that is in force now: this server commits nothing more.
    successor: Option<reconfig::Successor>,
}

impl Leader {
    pub(crate) fn new(ctx: &mut Ctx<'_>, supporters: BTreeSet<ServerId>) -> Self {
        ctx.out.push(Output::Listen);
        let last = ctx.history.last();
        Self {
            phase: Phase::Choosing,
            give_up_at: ctx.now + ctx.options.init_time(),
            waits_to_go_alone: supporters.len() > 1 && ctx.quorums.oracle().is_some(),
            alone_from: match supporters.len() {
                0 | 1 => ctx.now,
                _ => ctx.now + ctx.options.tick,
            },
            supporters,
            disloyal_after: ctx.options.epoch_wait_max.map_or(Duration::MAX, |max| ctx.now + max),
            summary: (ctx.standing(), last),
            highest: Epoch(0),
            epoch: Epoch(0),
            connecting: BTreeSet::new(),
            electing: BTreeSet::new(),
            proven: BTreeSet::new(),
            current_saved: false,
            links: Links::new(Duration::MAX),
            end: last,
            proposed: last,
            check_at: Duration::MAX,
            confirmations: VecDeque::new(),
            needed: reconfig::Needed::default(),
            successor: None,
        }
    }

    /// Takes part in its own discovery.
    pub(crate) fn begin(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        self.join(ctx, ctx.options.me, ctx.epochs.accepted);
        Ok(())
    }

    /// Whether the oracle of two servers lets this one go on without the other.
    fn goes_alone(&self, ctx: &Ctx<'_>) -> bool {
        let follows = |link: &Link| link.is_registered() && !link.observer;
        ctx.quorums.oracle() == Some(true)
            && self.alone_from <= ctx.now
            && !self.links.values().any(follows)
    }

    /// The oracle may let this server go on alone now.
    pub(crate) fn go_on_alone(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        if !self.goes_alone(ctx) {
            return Ok(());
        }
        match self.phase {
            Phase::Choosing => self.join(ctx, ctx.options.me, ctx.epochs.accepted),
            Phase::Electing => self.elect(ctx, ctx.options.me)?,
            Phase::Syncing if self.current_saved => self.prove(ctx, ctx.options.me)?,
            Phase::Leading => {
                self.commit(ctx);
                self.confirm_by_pings(ctx);
            }
            Phase::Promising | Phase::Syncing => {}
        }
        Ok(())
    }

    /// A connection is gone, at the other end's wish.
    pub(crate) fn link_lost(&mut self, ctx: &mut Ctx<'_>, id: LinkId) -> Result<(), Leave> {
        self.link_down(ctx, id)?;
        self.go_on_alone(ctx)
    }

    /// A server looks for a leader.
    ///
    /// Source: `Leader.reportLookingSid` (ZOOKEEPER-3109).
    pub(crate) fn looks(&self, now: Duration, server: ServerId) -> Result<(), Leave> {
        let disloyal = self.supporters.contains(&server) && now > self.disloyal_after;
        if self.phase == Phase::Choosing && disloyal {
            return Err(Leave::DISLOYAL);
        }
        Ok(())
    }

    /// A server that looks for a leader votes for another one in the election that this server has won: it was not
    /// done with it. The original's are not for 200 ms.
    pub(crate) fn turns_away(&mut self, quorums: &Quorums, server: ServerId) -> Result<(), Leave> {
        let had_quorum = quorums.all_have_quorum(&self.supporters);
        let lost = self.supporters.remove(&server)
            && had_quorum
            && !quorums.all_have_quorum(&self.supporters);
        if self.phase == Phase::Choosing && lost {
            return Err(Leave("its supporters have found another leader"));
        }
        Ok(())
    }

    /// The epoch this server leads in, once it does.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        (self.phase == Phase::Leading).then_some(self.epoch)
    }

    /// The zxid of the next transaction, or `None` when the epoch has none left.
    pub(crate) fn next_zxid(&self, first_counter: u32) -> Option<Zxid> {
        if self.proposed.counter() == 0 {
            return Some(Zxid::new(self.epoch, first_counter));
        }
        let overflows = zebu_proto::mutant!("counter overflows");
        (self.proposed.counter() < COUNTER_MAX || overflows).then(|| Zxid(self.proposed.0 + 1))
    }

    /// Who is connected to this leader.
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

    /// Whether a connection is a learner's that takes part in the broadcast.
    pub(crate) fn serves(&self, link: LinkId) -> bool {
        self.links.serves(link)
    }

    pub(crate) fn deadline(&self) -> Duration {
        let mut phase = if self.phase == Phase::Leading { Duration::MAX } else { self.give_up_at };
        if self.waits_to_go_alone {
            phase = phase.min(self.alone_from);
        }
        let successor = self.successor.map_or(Duration::MAX, |successor| successor.until());
        self.links.deadline().min(phase).min(self.check_at).min(successor)
    }

    /// Closes everything.
    pub(crate) fn leave(self, out: &mut Vec<Output>) {
        self.links.leave(out);
    }

    // ---- discovery

    /// A server takes part in the choice of the epoch.
    fn join(&mut self, ctx: &mut Ctx<'_>, server: ServerId, accepted: Epoch) {
        if self.phase != Phase::Choosing {
            return;
        }
        self.highest = self.highest.max(accepted);
        if ctx.quorums.is_voter(server) {
            self.connecting.insert(server);
        }
        let here = self.connecting.contains(&ctx.options.me);
        // While a reconfiguration is under way the promise must bind a quorum of either side: the
        // original asks the old one only.
        let is_quorum = ctx.quorums.all_have_quorum(&self.connecting);
        if here && (is_quorum || self.goes_alone(ctx)) {
            self.phase = Phase::Promising;
            self.epoch =
                Epoch(self.highest.0 + u32::from(!zebu_proto::mutant!("epoch used twice")));
            ctx.save_epoch(EpochKind::Accepted, self.epoch);
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
            EpochKind::Accepted if self.phase == Phase::Promising => {
                self.phase = Phase::Electing;
                self.give_up_at = ctx.now + ctx.options.init_time();
                let seen = ctx.quorums.last_seen();
                if seen.version() == Zxid::ZERO {
                    // What nobody has agreed on yet is agreed on with this epoch.
                    let first = Membership::clone(seen).with_version(Zxid::new(epoch, 0));
                    ctx.config_proposed(Arc::new(first));
                }
                for link in self.links.which(|link| matches!(link.stage, Stage::Told)) {
                    self.links.ask(ctx, link, epoch);
                }
                self.elect(ctx, ctx.options.me)?;
            }
            EpochKind::Current => {
                self.current_saved = true;
                self.prove(ctx, ctx.options.me)?;
            }
            EpochKind::Accepted => {}
        }
        Ok(())
    }

    /// A voter has accepted the epoch, and its history is not better.
    fn elect(&mut self, ctx: &mut Ctx<'_>, server: ServerId) -> Result<(), Leave> {
        if self.phase != Phase::Electing {
            return Ok(());
        }
        if ctx.quorums.is_voter(server) || zebu_proto::mutant!("observers counted") {
            self.electing.insert(server);
        }
        let here = self.electing.contains(&ctx.options.me);
        let is_quorum = ctx.quorums.all_have_quorum(&self.electing);
        if here && (is_quorum || self.goes_alone(ctx)) {
            ctx.forget_hearsay();
            self.phase = Phase::Syncing;
            self.give_up_at = ctx.now + ctx.options.init_time();
            ctx.save_epoch(EpochKind::Current, self.epoch);
            for link in self.links.which(|link| matches!(link.stage, Stage::Counted)) {
                self.advance(ctx, link, Progress::Begins);
            }
        }
        Ok(())
    }

    // ---- links

    pub(crate) fn accepted(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let follow = Follow {
            alive_until: ctx.now + ctx.options.init_time() + ctx.options.sync_time(),
            acked: Zxid::ZERO,
            unacked: None,
            pings_sent: 0,
            pings_answered: 0,
        };
        self.links.accepted(ctx, id, follow);
    }

    fn link_down(&mut self, ctx: &mut Ctx<'_>, id: LinkId) -> Result<(), Leave> {
        self.links.remove(id);
        self.retire(ctx)
    }

    /// A packet of a learner. What it does wrong costs it its connection, nothing more.
    pub(crate) fn packet(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        packet: QuorumPacket,
    ) -> Result<(), Leave> {
        let Some(link) = self.links.get_mut(id) else { return Ok(()) };
        let limit = link.heard(ctx.now, ctx.options);
        if link.is_serving() {
            link.own.alive_until = ctx.now + limit;
        }
        match (&link.stage, packet.kind) {
            (Stage::New, PacketKind::FOLLOWERINFO | PacketKind::OBSERVERINFO) => {
                self.introduce(ctx, id, &packet)?;
            }
            (Stage::Asked, PacketKind::ACKEPOCH) => self.epoch_acked(ctx, id, &packet)?,
            (Stage::Sent | Stage::Proven | Stage::Serving, PacketKind::ACK) => {
                self.acked(ctx, id, packet.zxid)?;
            }
            (Stage::Proven | Stage::Serving, PacketKind::PING) => {
                link.own.pings_answered += 1;
                ctx.out.push(Output::Up(Up::FromLearner(id, packet)));
                self.confirm_by_pings(ctx);
            }
            (Stage::Proven | Stage::Serving, PacketKind::REQUEST | PacketKind::REVALIDATE) => {
                ctx.out.push(Output::Up(Up::FromLearner(id, packet)));
            }
            // Whatever else an established learner says is of no use, but does no harm.
            (Stage::Proven | Stage::Serving, _) => {}
            _ => self.links.close(ctx, id),
        }
        Ok(())
    }

    fn introduce(
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
        let known = ctx.quorums.is_member(info.server) || ctx.options.reconfig;
        let newer = info.config_version.is_some_and(|version| version > committed.version());
        if !known || newer || info.server == ctx.options.me {
            // Voters would come again and again; who looks for a leader is told. The original waits
            // until discovery has taken too long.
            let misses = newer && known && committed.is_voter(info.server);
            self.links.close(ctx, id);
            return if misses && self.phase < Phase::Leading {
                Err(Leave("a learner knows a later configuration"))
            } else {
                Ok(())
            };
        }
        let heeded = !zebu_proto::mutant!("old epoch accepted");
        if heeded
            && self.phase != Phase::Choosing
            && packet.epoch() > self.epoch
            && committed.member(info.server).is_some()
        {
            // It may follow nobody in this epoch, nor anybody who would be elected without it.
            return Err(Leave("a learner has promised a later epoch"));
        }
        let observer = packet.kind == PacketKind::OBSERVERINFO;
        self.links.introduced(ctx, id, info.server, observer);
        match self.phase {
            Phase::Choosing => self.join(ctx, info.server, packet.epoch()),
            Phase::Promising => {}
            _ => self.links.ask(ctx, id, self.epoch),
        }
        Ok(())
    }

    fn epoch_acked(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        packet: &QuorumPacket,
    ) -> Result<(), Leave> {
        let Some(ack) = self.links.counted(ctx, id, packet) else { return Ok(()) };
        let Some(link) = self.links.get(id) else { return Ok(()) };
        let (server, observer) = (link.server, link.observer);
        if self.phase == Phase::Electing
            && let Some(current) = ack.current_epoch
        {
            if (current, packet.zxid) > self.summary
                && !zebu_proto::mutant!("better follower ignored")
            {
                self.links.close(ctx, id);
                let votes = !observer && ctx.quorums.is_voter(server);
                return if votes { Err(Leave("a follower has a better history")) } else { Ok(()) };
            }
            // Who has no database promises nothing.
            if packet.zxid != NO_ZXID || zebu_proto::mutant!("empty server counted") {
                self.elect(ctx, server)?;
            }
        }
        if self.phase >= Phase::Syncing
            && self.links.get(id).is_some_and(|link| matches!(link.stage, Stage::Counted))
        {
            self.advance(ctx, id, Progress::Begins);
        }
        Ok(())
    }

    // ---- synchronization

    /// Brings a learner further to this leader's history.
    pub(crate) fn advance(&mut self, ctx: &mut Ctx<'_>, id: LinkId, by: Progress) {
        match self.links.advance(ctx, id, self.end, by) {
            Todo::Nothing => {}
            Todo::Copy => self.copy(ctx, id),
            Todo::Register => self.register(ctx, id),
        }
    }

    /// Sends the whole tree.
    ///
    /// A copy takes away everything the learner has. A quorum may count on what it has of this
    /// history, so that must be in the copy itself: what follows it may never get to its disk.
    fn copy(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        if self.phase == Phase::Syncing && !zebu_proto::mutant!("copy without its end") {
            // Nobody is served yet; should this leader fail, it cuts what another one does not have.
            self.deliver_initial(ctx);
        }
        let had = self.links.get(id).map_or(Zxid::ZERO, |link| link.zxid.min(self.end));
        if ctx.history.delivered() < had && !zebu_proto::mutant!("copy without its end") {
            // This leader's own disk is behind: the learner may come again.
            return self.links.close(ctx, id);
        }
        self.links.copy(ctx, id);
    }

    /// From here on the learner gets everything as it happens.
    fn register(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(link) = self.links.get(id) else { return };
        if !link.observer {
            for txn in ctx.history.pending_above(self.end) {
                ctx.out.push(Output::Send(id, proposal(txn)));
            }
        }
        // A new leader's learners complete what it found proposed. Later they hear of a
        // reconfiguration as of every transaction: it may yet fail.
        let leads = self.phase == Phase::Leading;
        let quorums = ctx.quorums.clone();
        let config = if leads { quorums.committed() } else { quorums.last_seen() };
        self.links.register(ctx, id, self.epoch, config);
        self.links.ping_soon(ctx);
    }

    /// A server has this leader's history on its disk.
    fn prove(&mut self, ctx: &mut Ctx<'_>, server: ServerId) -> Result<(), Leave> {
        self.proven.insert(server);
        if self.phase != Phase::Syncing
            || !self.current_saved
            || !(ctx.quorums.all_have_quorum(&self.proven) || self.goes_alone(ctx))
        {
            return Ok(());
        }
        self.phase = Phase::Leading;
        self.proposed = Zxid::new(self.epoch, 0);
        self.links.ping_soon(ctx);
        self.check_at = ctx.now + ctx.options.tick;
        let stays = self.complete(ctx);
        self.deliver(ctx);
        if stays {
            ctx.out.push(Output::Role(Role::Leading(self.epoch)));
        }
        for link in self.links.which(|link| matches!(link.stage, Stage::Proven)) {
            self.serve(ctx, link);
        }
        if stays { Ok(()) } else { Err(Leave("the new configuration has another leader")) }
    }

    fn serve(&mut self, ctx: &mut Ctx<'_>, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        link.own.alive_until = link.own.alive_until.max(ctx.now + ctx.options.sync_time());
        self.links.serve(ctx, id);
    }

    // ---- broadcast

    /// Orders a transaction at [`Leader::next_zxid`].
    pub(crate) fn propose(&mut self, ctx: &mut Ctx<'_>, txn: Txn) {
        assert_eq!(self.phase, Phase::Leading, "only an established leader proposes");
        self.prepare(ctx, &txn);
        self.proposed = txn.zxid;
        let Txn { zxid, record } = txn.clone();
        ctx.history.push(txn.clone());
        ctx.out.push(Output::Append { zxid, record });
        for (id, link) in self.links.iter_mut() {
            let left_out =
                zebu_proto::mutant!("proposal left out") && zxid.counter().is_multiple_of(32);
            if link.is_registered() && !link.observer && !left_out {
                link.own.unacked.get_or_insert((zxid, ctx.now));
                ctx.out.push(Output::Send(id, proposal(&txn)));
            }
        }
    }

    fn acked(&mut self, ctx: &mut Ctx<'_>, id: LinkId, zxid: Zxid) -> Result<(), Leave> {
        let Some(link) = self.links.get_mut(id) else { return Ok(()) };
        if zxid == Zxid::new(self.epoch, 0) {
            if matches!(link.stage, Stage::Sent) {
                link.proves(ctx.now, ctx.options);
                let (server, observer) = (link.server, link.observer);
                if self.phase == Phase::Leading {
                    self.serve(ctx, id);
                    // What it acknowledged before counts from now on.
                    self.commit(ctx);
                } else if !observer || zebu_proto::mutant!("observers counted") {
                    self.prove(ctx, server)?;
                }
            }
            return Ok(());
        }
        if zxid > self.proposed || zxid.counter() == 0 {
            return Ok(());
        }
        link.own.acked = link.own.acked.max(zxid);
        if link.own.unacked.is_some_and(|(oldest, _)| oldest <= zxid) {
            link.own.unacked = (self.proposed > zxid).then_some((self.proposed, ctx.now));
        }
        // What is committed needs no more acknowledgements.
        if zxid > self.end {
            self.commit(ctx);
        }
        Ok(())
    }

    pub(crate) fn flushed(&mut self, ctx: &mut Ctx<'_>) {
        self.commit(ctx);
        self.deliver(ctx);
    }

    /// Commits what a quorum of every configuration that counts has on its disks.
    fn commit(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase != Phase::Leading {
            return;
        }
        let mut any = false;
        while self.successor.is_none() {
            let me = ctx.options.me;
            let alone = self.goes_alone(ctx);
            let needed = self.needed.after(self.end);
            let (quorums, until) = needed.expect("a leader knows whose quorums it needs");
            let mut safe = if alone && !quorums.is_joint() {
                ctx.history.flushed()
            } else {
                Self::durable(&self.links, me, ctx.history, quorums.committed())
            };
            if quorums.is_joint() {
                let new = Self::durable(&self.links, me, ctx.history, quorums.last_seen());
                let new_alone = zebu_proto::mutant!("one quorum for a reconfiguration");
                safe = if new_alone { new } else { safe.min(new) };
            }
            safe = safe.min(Zxid(until.0 - 1));
            let reconfig = self.needed.pending().filter(|zxid| *zxid <= safe);
            safe = reconfig.unwrap_or(safe);
            if safe <= self.end {
                break;
            }
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

    /// Says that everything behind `from` is committed, up to the end. How a reconfiguration comes
    /// into force is said elsewhere.
    fn send_commits(&mut self, ctx: &mut Ctx<'_>, from: Zxid, reconfig: Option<Zxid>) {
        let safe = self.end;
        for txn in ctx.history.pending_above(from).take_while(|txn| txn.zxid <= safe) {
            // Who asked before this was proposed hears of it before it is committed.
            let asked = self.confirmations.iter().take_while(|c| c.above < txn.zxid).count();
            for confirmation in self.confirmations.drain(..asked) {
                ctx.out.push(Output::Up(Up::Confirmed(confirmation.token)));
            }
            if Some(txn.zxid) == reconfig {
                continue;
            }
            for (id, link) in self.links.registered() {
                if zebu_proto::mutant!("commit out of order") && txn.zxid < safe {
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

    /// The newest transaction that a quorum of `config` has on its disks.
    fn durable(
        links: &Links<Follow>,
        me: ServerId,
        history: &History,
        config: &Membership,
    ) -> Zxid {
        let mut acked: Vec<(Zxid, ServerId)> = links
            .values()
            .filter(|link| link.is_proven())
            .filter(|link| config.is_voter(link.server) && !link.observer)
            .map(|link| (link.own.acked, link.server))
            .collect();
        if config.is_voter(me) {
            let early = zebu_proto::mutant!("leader counts before fsync");
            acked.push((if early { history.last() } else { history.flushed() }, me));
        }
        acked.sort_unstable_by(|a, b| b.cmp(a));
        let quorum = (1..=acked.len()).find(|count| {
            let best = &acked[..*count];
            config.has_quorum(|voter| best.iter().any(|(_, server)| *server == voter))
                || zebu_proto::mutant!("commit without quorum")
        });
        quorum.map_or(Zxid::ZERO, |count| acked[count - 1].0)
    }

    fn deliver(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase == Phase::Leading {
            self.deliver_initial(ctx);
        }
    }

    /// Delivers everything up to the end, which before this server leads is that of its own history.
    fn deliver_initial(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(Txn { zxid, record }) = ctx.history.deliver(self.end) {
            ctx.out.push(Output::Deliver { zxid, record });
        }
    }
}
