//! One member of an ensemble: looks for a leader, leads, or learns.
//!
//! Owns the epochs, the history and the configurations, which outlive every role. Before it votes,
//! all its requests to the disk must be complete, so that its vote equals what a restart would
//! find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{Epoch, Identity, ServerId, Zxid};

use crate::busy::Busy;
use crate::catchup::LogRead;
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::doubt::Doubt;
use crate::election::{Ballot, Election, State};
use crate::history::{History, Txn};
use crate::identity;
use crate::io::{ConfigChange, Configs, EpochKind, Input, LinkId, Options, Output, Role};
use crate::leader::Leader;
use crate::learner::Learner;
use crate::leave::Leave;
use crate::links::Progress;
use crate::masters::Masters;
use crate::mesh::{self, Mesh};
use crate::owed::Owed;
use crate::quorums::Quorums;
use crate::random::Random;
use crate::reconfig::Appointed;
use crate::silence::Silence;
use crate::start::{Epochs, Start, standing};
use crate::vain::Vain;

mod elections;
mod facts;
mod handover;

pub use facts::Lacks;

/// Maximum number of known servers; beyond it, non-members are ignored.
const ACQUAINTANCES_MAX: usize = 512;

/// How far the committed zxid on disk may lag behind.
const TELL_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
enum Part {
    /// Waits for the disk before it votes.
    Settling,
    Looking,
    Leading(Box<Leader>),
    Learning(Box<Learner>),
}

/// One member of an ensemble.
#[derive(Debug)]
pub struct Peer {
    options: Options,
    epochs: Epochs,
    history: History,
    quorums: Quorums,
    has_database: bool,
    assumed_new: bool,
    unlogged: bool,
    /// The newest transaction that this server knows to be committed.
    certain: Zxid,
    /// Up to where the disk stores that, and when it may be stored next.
    told: Zxid,
    tells_at: Duration,
    busy: Busy,
    doubt: Doubt,
    silence: Silence,
    election: Election,
    mesh: Mesh,
    part: Part,
    /// Ballots received before this server could vote.
    early: BTreeMap<ServerId, Ballot>,
    /// Servers that began to look for a leader while this server had one, and when.
    ahead: BTreeMap<ServerId, (Duration, Ballot)>,
    /// Voters that have said that they do not vote.
    abstaining: BTreeSet<ServerId>,
    /// Non-voters that asked for the leader while it was unknown.
    asked: BTreeSet<ServerId>,
    /// A leader that was silent for too long, until it is heard again.
    silent: Option<ServerId>,
    /// The leaders followed in vain.
    vain: Vain,
    /// No look for a leader before this time.
    rest_until: Duration,
    /// At an observer: its masters.
    masters: Masters,
    random: Random,
    /// Whether the membership has changed since the election network was set up.
    members_changed: bool,
    /// The designated leader of the configuration that ended the last role.
    appointed: Option<Appointed>,
    /// The latest promised epoch that ended a leadership of this server.
    outbid: Epoch,
    /// Progress of its own disk while it serves.
    owed: Owed,
    /// Whether to remove the file of a proposed configuration whose transaction is not in the log.
    withdraws: bool,
    left: Leave,
    /// How often a role ended with [`Leave::SupporterLooks`].
    disloyal: u64,
    /// What it knows of the ensemble's id.
    identity: Identity,
    /// Whether it was asked to stop: it takes no role and no part in elections.
    retired: bool,
}

impl Peer {
    /// Creates a member; it looks for a leader at its first step.
    pub fn new(options: Options, start: Start) -> Self {
        let Start {
            epochs,
            committed,
            last_seen,
            last,
            recent,
            certain,
            assumed_new,
            has_database,
            identity,
        } = start;
        let mut quorums = Quorums::new(committed);
        // A proposed configuration whose transaction is not in the log was never acknowledged.
        let is_there =
            |config: &Arc<Membership>| config.version().counter() == 0 || config.version() <= last;
        let proposed = last_seen.is_some();
        if let Some(last_seen) = last_seen.filter(is_there) {
            quorums.propose(last_seen);
        }
        if options.reconfig && !options.credulous {
            for config in recent.iter().filter_map(|txn| Membership::in_txn(&txn.record)) {
                quorums.propose(Arc::new(config));
            }
        }
        // Otherwise a later start would take it for the transaction now at its zxid.
        let withdraws = proposed && options.reconfig && !quorums.is_joint();
        Self {
            epochs,
            history: History::new(options.memory, last, recent),
            quorums,
            has_database,
            assumed_new,
            unlogged: false,
            certain,
            told: certain,
            tells_at: Duration::ZERO,
            busy: Busy::default(),
            doubt: Doubt::default(),
            silence: Silence::default(),
            election: Election::new(options.me, options.patience, options.credulous),
            mesh: Mesh::new(options.me),
            part: Part::Settling,
            early: BTreeMap::new(),
            ahead: BTreeMap::new(),
            abstaining: BTreeSet::new(),
            asked: BTreeSet::new(),
            silent: None,
            vain: Vain::default(),
            rest_until: Duration::ZERO,
            masters: Masters::default(),
            random: Random::new(options.seed),
            members_changed: false,
            appointed: None,
            outbid: Epoch(0),
            owed: Owed::default(),
            withdraws,
            left: Leave::Started,
            disloyal: 0,
            identity,
            retired: false,
            options,
        }
    }

    /// This server's history.
    pub fn history(&self) -> &History {
        &self.history
    }

    fn standing(&self) -> Epoch {
        standing(self.epochs, &self.history, self.has_database)
    }

    /// The epochs on disk.
    pub fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// The newest transaction this server knows to be committed. It may not be delivered yet.
    pub fn committed(&self) -> Zxid {
        match &self.part {
            Part::Learning(learner) => learner.committed().max(self.history.delivered()),
            _ => self.history.delivered(),
        }
    }

    /// The newest transaction that this server has and knows to be committed, because it was leader
    /// or learner when a quorum had it. No leader can make it give up anything up to there.
    pub fn certain(&self) -> Zxid {
        self.certain
    }

    /// What this server knows of the id of its ensemble.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The relevant configurations.
    pub fn quorums(&self) -> &Quorums {
        &self.quorums
    }

    /// The state of this server.
    pub fn state(&self) -> State {
        self.election.state()
    }

    /// Whether it looks for a leader and has a history that it could serve read-only.
    pub fn looks_with_history(&self) -> bool {
        matches!(self.part, Part::Looking) && self.has_database
    }

    /// Why the last role ended.
    pub fn left(&self) -> Leave {
        self.left
    }

    /// When the next [`Input::Tick`] is due.
    pub fn deadline(&self) -> Duration {
        let part = match &self.part {
            Part::Settling if self.retired => Duration::MAX,
            Part::Settling if self.is_settled() => self.rest_until,
            Part::Settling => Duration::MAX,
            Part::Looking => self.mesh.redial_due(self.quorums.voters()),
            Part::Leading(leader) => leader.deadline(),
            Part::Learning(learner) => learner.deadline().min(self.doubt.due()),
        };
        let tells = self.untold().map_or(Duration::MAX, |_| self.tells_at);
        part.min(tells).min(self.election.deadline()).min(self.owed.due(self.options.sync_time()))
    }

    /// The epoch of this leader in broadcast; `None` otherwise.
    pub fn leads(&self) -> Option<Epoch> {
        match &self.part {
            Part::Leading(leader) => leader.epoch(),
            _ => None,
        }
    }

    /// At an established leader, the zxid of the next transaction; `None` if the epoch is
    /// exhausted, and in other roles.
    pub fn next_zxid(&self) -> Option<Zxid> {
        match &self.part {
            Part::Leading(leader) if leader.epoch().is_some() => {
                leader.next_zxid(self.options.first_counter)
            }
            _ => None,
        }
    }

    /// Proposes a transaction, whose zxid is [`Peer::next_zxid`].
    ///
    /// # Panics
    /// If this server does not lead, or the zxid is a different one.
    pub fn propose(&mut self, now: Duration, record: Bytes, out: &mut Vec<Output>) -> Zxid {
        let zxid = self.next_zxid().expect("a leader with zxids left proposes");
        let (part, mut ctx) = self.split(now, out);
        let Part::Leading(leader) = part else { unreachable!("only a leader has a next zxid") };
        leader.propose(&mut ctx, Txn { zxid, record });
        self.owed.look(now, &self.history, true);
        zxid
    }

    /// At an established leader: requests [`crate::Up::Confirmed`] with this token, once everything
    /// proposed so far is committed and it is certain that this server still led after this call.
    /// Tokens return in the order of the calls.
    pub fn confirm(&mut self, now: Duration, token: u64, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        if let Part::Leading(leader) = part {
            leader.confirm(&mut ctx, token);
        }
    }

    /// At a serving learner: sends a packet to the leader. False if there is no leader.
    pub fn send_to_leader(&mut self, packet: QuorumPacket, out: &mut Vec<Output>) -> bool {
        let link = match &self.part {
            Part::Learning(learner) => learner.serving(),
            _ => None,
        };
        out.extend(link.map(|link| Output::Send(link, packet)));
        link.is_some()
    }

    /// At an established leader, or a follower with observers: sends a packet to a learner after
    /// everything committed so far.
    pub fn send_to_learner(&mut self, link: LinkId, packet: QuorumPacket, out: &mut Vec<Output>) {
        let serves = match &self.part {
            Part::Leading(leader) => leader.serves(link),
            Part::Learning(learner) => learner.relay().is_some_and(|relay| relay.serves(link)),
            _ => false,
        };
        if serves {
            out.push(Output::Send(link, packet));
        }
    }

    /// At an established leader: whether a quorum of a configuration, including this server,
    /// follows it.
    pub fn reaches_quorum(&self, now: Duration, config: &Membership) -> bool {
        match &self.part {
            Part::Leading(leader) => leader.reaches(now, self.options.me, config),
            _ => false,
        }
    }

    /// Ends the current role.
    pub fn resign(&mut self, now: Duration, why: Leave, out: &mut Vec<Output>) {
        self.leave(now, why, out);
        self.settle(now, out);
    }

    /// Takes one event and appends its effects to `out`, in the order they must be carried out.
    pub fn step(&mut self, now: Duration, input: Input, out: &mut Vec<Output>) {
        if std::mem::take(&mut self.withdraws) {
            out.push(Output::Config(ConfigChange::Withdrawn));
        }
        let handled = self.handle(now, input, out);
        if let Err(why) = handled.and_then(|()| self.watch_disk(now)) {
            self.leave(now, why, out);
        }
        self.learn();
        self.tell(now, out);
        if std::mem::take(&mut self.members_changed) {
            self.meet_anew(out);
        }
        self.settle(now, out);
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// Updates the zxid known to be committed from that of an established leader.
    fn learn(&mut self) {
        let committed = match &self.part {
            Part::Leading(leader) if leader.epoch().is_some() => self.history.delivered(),
            Part::Learning(learner) => match learner.proven(&self.history) {
                Some(end) => end,
                None => return,
            },
            _ => return,
        };
        self.certain = self.certain.max(committed);
        assert!(self.certain <= self.history.last(), "{} is certain and not there", self.certain);
    }

    /// The committed zxid to store on disk, if there is news. It is never beyond the durable end of
    /// the log.
    fn untold(&self) -> Option<Zxid> {
        let end = self.certain.min(self.history.flushed());
        (end > self.told && !self.unlogged).then_some(end)
    }

    fn tell(&mut self, now: Duration, out: &mut Vec<Output>) {
        if let Some(end) = self.untold().filter(|_| self.tells_at <= now) {
            self.told = end;
            self.tells_at = now + TELL_PAUSE;
            out.push(Output::Committed(end));
        }
    }

    /// Asserts what holds between any two steps, of this member and of its parts.
    fn check(&self) {
        self.history.check();
        self.election.check();
        self.mesh.check();
        self.busy.check();
        let Epochs { accepted, current } = self.epochs;
        assert!(current <= accepted, "{current:?} is taken over, and {accepted:?} promised");
        assert!(self.disloyal == 0 || !matches!(self.left, Leave::Started), "it has never left");
        let state = self.election.state();
        match &self.part {
            Part::Settling => assert_eq!(state, State::Looking, "it has no role yet"),
            _ if self.retired => unreachable!("a server that is to stop takes another role"),
            Part::Looking => {
                assert_eq!(state, State::Looking, "it has no role yet");
                assert!(self.is_settled(), "it votes while its disk is busy");
                assert!(self.early.is_empty(), "it votes, and has not looked at what was heard");
            }
            Part::Leading(leader) => {
                assert_eq!(state, State::Leading, "it leads");
                leader.check(self.options.me, &self.history, self.epochs);
            }
            Part::Learning(learner) => {
                let role = if learner.is_observer() { State::Observing } else { State::Following };
                assert_eq!(state, role, "it learns");
                learner.check(&self.history, self.epochs, &self.busy);
            }
        }
        assert!(!self.unlogged || !self.options.observer.logs, "what is logged is on the disk");
    }

    /// Resets the election network for a new membership.
    fn meet_anew(&mut self, out: &mut Vec<Output>) {
        let mut done = Vec::new();
        self.mesh.restart(&mut done);
        out.extend(done.into_iter().map(Output::Mesh));
        self.election.restart();
    }

    fn split<'s>(&'s mut self, now: Duration, out: &'s mut Vec<Output>) -> (&'s mut Part, Ctx<'s>) {
        let ctx = Ctx {
            now,
            options: &self.options,
            history: &mut self.history,
            quorums: &mut self.quorums,
            epochs: self.epochs,
            has_database: self.has_database,
            certain: self.certain,
            unlogged: &mut self.unlogged,
            busy: &mut self.busy,
            doubt: &mut self.doubt,
            silence: &mut self.silence,
            members_changed: &mut self.members_changed,
            appointed: &mut self.appointed,
            outbid: &mut self.outbid,
            identity: &mut self.identity,
            out,
        };
        (&mut self.part, ctx)
    }

    /// Handles one event with the method for its kind.
    fn handle(&mut self, now: Duration, input: Input, out: &mut Vec<Output>) -> Result<(), Leave> {
        match input {
            Input::Tick => self.tick(now, out),
            Input::Stalled(time) => {
                self.stalled(time);
                Ok(())
            }
            Input::Mesh(input) => self.meet(now, input, out),
            Input::Heard { wire, ballot, said } => self.heard(now, wire, ballot, said, out),
            Input::Accepted(link) => {
                self.accepted(now, link, out);
                Ok(())
            }
            Input::Connected(link) => {
                self.connected(now, link, out);
                Ok(())
            }
            Input::ConnectFailed => self.connect_failed(now, out),
            Input::Packet(link, packet) => self.packet(now, link, packet, out),
            Input::Copied { link, zxid } => {
                self.copied(now, link, zxid, out);
                Ok(())
            }
            Input::CopySent(link) => {
                self.advance(now, link, Progress::CopySent, out);
                Ok(())
            }
            Input::LogRead { link, floor, txns, end } => {
                let read = LogRead { floor, txns, end };
                self.advance(now, link, Progress::LogRead(read), out);
                Ok(())
            }
            Input::Compared(compared) => {
                if let (Part::Learning(learner), mut ctx) = self.split(now, out) {
                    let change = ctx.doubt.compared(now, compared, ctx.options);
                    learner.doubts(&mut ctx, change);
                }
                Ok(())
            }
            Input::Moves(link) => {
                self.moves(now, link, out);
                Ok(())
            }
            Input::LinkDown(link) => self.link_down(now, link, out),
            Input::Oracle(allows_alone) => self.oracle(now, allows_alone, out),
            Input::Flushed(zxid) => {
                self.flushed(now, zxid, out);
                Ok(())
            }
            Input::EpochSaved(kind, epoch) => self.epoch_saved(now, kind, epoch, out),
            Input::Truncated { end, config } => self.truncated(now, end, config, out),
            Input::Reloaded { end } => {
                self.reloaded(end);
                Ok(())
            }
            Input::Restored { zxid, config } => self.restored(now, zxid, config, out),
        }
    }

    fn tick(&mut self, now: Duration, out: &mut Vec<Output>) -> Result<(), Leave> {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader) => leader.tick(&mut ctx),
            Part::Learning(learner) => learner.tick(&mut ctx),
            Part::Settling => Ok(()),
            Part::Looking => {
                let mut posts = Vec::new();
                let decision = self.election.tick(now, &self.quorums, &mut posts);
                self.post(now, posts, decision, out)?;
                let mut dials = Vec::new();
                self.mesh.redial(now, self.quorums.voters(), &mut dials);
                out.extend(dials.into_iter().map(Output::Mesh));
                Ok(())
            }
        }
    }

    /// This server was suspended: messages and disk reports of that time may be unread.
    fn stalled(&mut self, time: Duration) {
        if zebu_proto::mutant!("pause taken for silence") {
            return;
        }
        self.owed.postpone(time);
        self.silence.postpone(time);
        match &mut self.part {
            Part::Leading(leader) => leader.postpone(time),
            Part::Learning(learner) => learner.postpone(time),
            Part::Settling | Part::Looking => {}
        }
    }

    /// A connection of the election network was opened or closed.
    fn meet(
        &mut self,
        now: Duration,
        input: mesh::Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        if self.retired {
            if let mesh::Input::Accepted { wire, .. } | mesh::Input::Dialled { wire, .. } = input {
                out.push(Output::Mesh(mesh::Output::Close(wire)));
            }
            return Ok(());
        }
        if let mesh::Input::Accepted { wire, peer } = input
            && !self.may_take_part(peer)
        {
            out.push(Output::Mesh(mesh::Output::Close(wire)));
            return Ok(());
        }
        let (mut done, absent) = (Vec::new(), self.mesh.absent().len());
        self.mesh.step(input, &mut done);
        out.extend(done.into_iter().map(Output::Mesh));
        if self.mesh.absent().len() > absent {
            // It may be the last server whose vote was awaited.
            self.reconsider(now, out)?;
        }
        Ok(())
    }

    /// A notification arrived on a connection of the election network.
    fn heard(
        &mut self,
        now: Duration,
        wire: mesh::WireId,
        ballot: Ballot,
        said: Configs,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let Some(from) = self.mesh.peer(wire) else { return Ok(()) };
        if let Some(theirs) = said.ensemble
            && identity::differ(self.identity, Identity::Settled(theirs))
        {
            if let (Part::Looking, Some(own)) = (&self.part, self.identity.settled()) {
                self.left = Leave::OtherEnsemble { server: from, theirs, own };
            }
            out.push(Output::OtherEnsemble { server: from, theirs });
            out.push(Output::Mesh(mesh::Output::Close(wire)));
            return self.meet(now, mesh::Input::Closed(wire), out);
        }
        self.election.lists(from, said.committed.clone(), &self.quorums);
        if self.adopt(now, from, &ballot, said, out) {
            return Ok(());
        }
        self.hear(now, from, ballot, out)
    }

    /// A learner has connected.
    fn accepted(&mut self, now: Duration, link: LinkId, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader) => leader.accepted(&mut ctx, link),
            Part::Learning(learner) => match learner.relay_mut() {
                Some(relay) => relay.accepted(&ctx, link),
                None => ctx.out.push(Output::Close(link)),
            },
            Part::Settling | Part::Looking => ctx.out.push(Output::Close(link)),
        }
    }

    /// The connection requested with [`Output::Connect`] is open.
    fn connected(&mut self, now: Duration, link: LinkId, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Learning(learner) => learner.connected(&mut ctx, link),
            _ => ctx.out.push(Output::Close(link)),
        }
    }

    fn connect_failed(&mut self, now: Duration, out: &mut Vec<Output>) -> Result<(), Leave> {
        match self.split(now, out) {
            (Part::Learning(learner), mut ctx) => learner.connect_failed(&mut ctx),
            _ => Ok(()),
        }
    }

    /// A packet from the leader or a learner has arrived.
    fn packet(
        &mut self,
        now: Duration,
        link: LinkId,
        packet: QuorumPacket,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader) => leader.packet(&mut ctx, link, packet)?,
            Part::Learning(learner) if learner.is_link(link) => {
                learner.packet(&mut ctx, packet)?;
                if learner.serving().is_some() {
                    self.election.established(self.epochs.current.0.into());
                }
            }
            Part::Learning(learner) => {
                if let Some(relay) = learner.relay_mut() {
                    relay.packet(&mut ctx, link, packet);
                }
            }
            Part::Settling | Part::Looking => {}
        }
        Ok(())
    }

    /// The leader's snapshot has arrived.
    fn copied(&mut self, now: Duration, link: LinkId, zxid: Zxid, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        if let Part::Learning(learner) = part
            && learner.is_link(link)
        {
            learner.copied(&mut ctx, link, zxid);
        }
    }

    /// Bytes of a large packet or snapshot move on a connection.
    fn moves(&mut self, now: Duration, link: LinkId, out: &mut Vec<Output>) {
        match self.split(now, out) {
            (Part::Leading(leader), ctx) => leader.moves(&ctx, link),
            (Part::Learning(learner), mut ctx) => learner.moves(&mut ctx, link),
            (Part::Settling | Part::Looking, _) => {}
        }
    }

    fn link_down(
        &mut self,
        now: Duration,
        link: LinkId,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader) => leader.link_lost(&mut ctx, link),
            Part::Learning(learner) if learner.is_link(link) => {
                Err(Leave::LinkClosed(learner.leader()))
            }
            Part::Learning(learner) => {
                if let Some(relay) = learner.relay_mut() {
                    relay.link_down(link);
                }
                Ok(())
            }
            Part::Settling | Part::Looking => Ok(()),
        }
    }

    /// The oracle's answer: whether this server may continue alone.
    fn oracle(
        &mut self,
        now: Duration,
        allows_alone: bool,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        self.quorums.set_oracle(allows_alone);
        self.reconsider(now, out)?;
        match self.split(now, out) {
            (Part::Leading(leader), mut ctx) => leader.go_on_alone(&mut ctx),
            _ => Ok(()),
        }
    }

    /// The log is durable up to `zxid`. Ignored while the log is being truncated or replaced: the
    /// sync then concerned records that are removed.
    fn flushed(&mut self, now: Duration, zxid: Zxid, out: &mut Vec<Output>) {
        if self.busy.changes_the_log() {
            return;
        }
        self.history.set_flushed(zxid);
        match self.split(now, out) {
            (Part::Leading(leader), mut ctx) => leader.flushed(&mut ctx),
            (Part::Learning(learner), mut ctx) => learner.flushed(&mut ctx),
            (Part::Settling | Part::Looking, _) => {}
        }
    }

    fn epoch_saved(
        &mut self,
        now: Duration,
        kind: EpochKind,
        epoch: Epoch,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let owed = self.busy.epochs.pop_front();
        assert_eq!(owed, Some((kind, epoch)), "epochs are saved in the order asked for");
        match kind {
            EpochKind::Accepted => self.epochs.accepted = epoch,
            EpochKind::Current => {
                assert!(epoch >= self.epochs.current, "{epoch:?} is over");
                self.epochs.current = epoch;
            }
        }
        match self.split(now, out) {
            (Part::Leading(leader), mut ctx) => leader.epoch_saved(&mut ctx, kind, epoch),
            (Part::Learning(learner), mut ctx) => {
                learner.epoch_saved(&mut ctx, kind, epoch);
                Ok(())
            }
            (Part::Settling | Part::Looking, _) => Ok(()),
        }
    }

    /// The log was truncated as requested, or no snapshot and log lead there.
    fn truncated(
        &mut self,
        now: Duration,
        end: Option<Zxid>,
        config: Option<Arc<Membership>>,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let asked = self.busy.truncating.take().expect("something was to be cut");
        match end {
            Some(zxid) => {
                assert_eq!(zxid, asked, "the log is cut where it was to be cut");
                self.unlogged = false;
                self.cut(zxid);
            }
            None => {
                self.has_database = false;
                self.history.reset(Zxid::ZERO);
            }
        }
        let (part, mut ctx) = self.split(now, out);
        ctx.config_found(config);
        match part {
            Part::Learning(learner) => learner.truncated(&mut ctx, end.is_some()),
            _ => Ok(()),
        }
    }

    /// The tree was reloaded from disk.
    fn reloaded(&mut self, end: Option<Zxid>) {
        assert!(self.busy.reloading, "something was to be reloaded");
        self.busy.reloading = false;
        self.unlogged = false;
        self.has_database = end.is_some();
        // A configuration it knows to be proposed stays binding, though its transaction will arrive
        // again.
        self.history.reset(end.unwrap_or(Zxid::ZERO));
        self.certain = self.certain.min(self.history.last());
    }

    /// The leader's snapshot is installed and durable.
    fn restored(
        &mut self,
        now: Duration,
        zxid: Zxid,
        config: Option<Arc<Membership>>,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        assert!(self.busy.restoring, "something was to be restored");
        self.busy.restoring = false;
        self.has_database = true;
        self.unlogged = false;
        self.doubt.restored();
        self.history.reset(zxid);
        let (part, mut ctx) = self.split(now, out);
        if !zebu_proto::mutant!("copied change is hearsay") {
            ctx.config_found(config);
        }
        match part {
            Part::Learning(learner) => learner.restored(&mut ctx, zxid),
            _ => Ok(()),
        }
    }

    /// Tree and log now end at `zxid`.
    fn cut(&mut self, zxid: Zxid) {
        if zxid < self.history.delivered() {
            self.history.reset(zxid);
        } else {
            self.history.cut(zxid);
            self.history.set_flushed(zxid);
        }
    }

    /// Whether to listen to a server that has introduced itself: a member, or a server that may
    /// become one. Other members' configurations may already contain it.
    fn may_take_part(&self, server: ServerId) -> bool {
        if zebu_proto::mutant!("other lists refused") {
            return self.quorums.is_member(server);
        }
        self.quorums.is_member(server)
            || self.mesh.knows(server)
            || self.mesh.acquaintances() < ACQUAINTANCES_MAX
    }

    /// Ends the role if this server's own disk is too far behind.
    fn watch_disk(&mut self, now: Duration) -> Result<(), Leave> {
        let (serves, behind) = match &self.part {
            Part::Leading(leader) => (leader.epoch().is_some(), leader.falls_behind(&self.history)),
            Part::Learning(learner) => (learner.serving().is_some(), false),
            Part::Settling | Part::Looking => (false, false),
        };
        self.owed.look(now, &self.history, serves);
        let hangs = self.owed.due(self.options.sync_time()) <= now
            && !zebu_proto::mutant!("hung disk leads on");
        if behind {
            return Err(Leave::DiskBehind);
        }
        if hangs { Err(Leave::DiskHangs(self.options.sync_time())) } else { Ok(()) }
    }

    /// Continues the synchronization of a learner.
    fn advance(&mut self, now: Duration, link: LinkId, by: Progress, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader) => leader.advance(&mut ctx, link, by),
            Part::Learning(learner) => {
                if let Some(relay) = learner.relay_mut() {
                    relay.advance(&mut ctx, link, by);
                }
            }
            Part::Settling | Part::Looking => {}
        }
    }

    /// A random duration below `max`, in whole milliseconds.
    fn pause_below(&mut self, max: Duration) -> Duration {
        Duration::from_millis(self.random.below(max.as_millis() as u64))
    }

    /// Ends the role.
    fn leave(&mut self, now: Duration, why: Leave, out: &mut Vec<Output>) {
        self.left = why;
        // A leader elected without this server will send it a snapshot.
        let is_useless = matches!(why, Leave::TreeOutvoted { .. } | Leave::CopyNotProposed { .. });
        self.has_database &= !is_useless;
        self.tells_at = Duration::ZERO;
        self.owed = Owed::default();
        self.disloyal += u64::from(matches!(why, Leave::SupporterLooks(_)));
        match std::mem::replace(&mut self.part, Part::Settling) {
            Part::Leading(leader) => leader.leave(out),
            Part::Learning(learner) => {
                self.silent = learner.silent_leader(now);
                self.vain.left(now, &learner, &self.options);
                if learner.is_observer() {
                    // Leave the voters time for their election.
                    self.rest_until = now + self.pause_below(self.options.observer.look_pause_max);
                    if matches!(why, Leave::EpochOver { .. }) {
                        // Only a different leader can help.
                        self.rest_until += self.options.tick;
                    }
                    self.masters.left(now, &learner);
                }
                learner.leave(out);
            }
            Part::Settling | Part::Looking => return,
        }
        // These servers noticed first, and will not repeat their votes soon.
        for (from, (at, ballot)) in std::mem::take(&mut self.ahead) {
            if now < at + self.options.patience.resend_min {
                self.early.insert(from, ballot);
            }
        }
        self.election.wait();
        out.push(Output::Role(Role::Looking));
    }

    /// Whether all requests to the disk are complete.
    fn is_settled(&self) -> bool {
        !self.busy.any() && self.history.flushed() == self.history.last()
    }

    /// Looks for a leader once all requests to the disk are complete.
    fn settle(&mut self, now: Duration, out: &mut Vec<Output>) {
        while matches!(self.part, Part::Settling)
            && !self.retired
            && self.is_settled()
            && (self.rest_until <= now || self.appointed.is_some())
        {
            if self.forget_unlogged(out) {
                return;
            }
            // A server without its database must not lead, even if a reconfiguration designates it.
            let able = |it: &Appointed| {
                let has = self.has_database || zebu_proto::mutant!("empty server leads");
                has || it.leader != self.options.me
            };
            let begun = match self.appointed.take().filter(able) {
                Some(appointed) => self.go_over(now, appointed, out),
                None => {
                    self.part = Part::Looking;
                    self.look(now, out)
                }
            };
            if let Err(why) = begun {
                self.leave(now, why, out);
            }
            if std::mem::take(&mut self.members_changed) {
                self.meet_anew(out);
            }
        }
        match &self.part {
            Part::Leading(leader) if leader.epoch().is_some() => {
                self.election.established(self.epochs.current.0.into());
            }
            _ => {}
        }
    }

    /// If this server is to vote, its vote must equal what is on disk, so it reloads the tree.
    /// Returns whether it must wait for that.
    ///
    /// The dropped transactions were committed without it.
    fn forget_unlogged(&mut self, out: &mut Vec<Output>) -> bool {
        let forgets = self.unlogged && !self.quorums.is_observer(self.options.me);
        if forgets {
            self.busy.reloading = true;
            out.push(Output::Reload);
        }
        forgets
    }
}

#[cfg(test)]
mod tests;
