//! One member of an ensemble: looks for a leader, leads, or learns.
//!
//! Owns the epochs, the history and the configurations, which outlive every role. Before it votes,
//! everything it asked the disk for is done, so that its vote says what a restart would find.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::{NO_ZXID, QuorumPacket};
use zebu_proto::{Epoch, ServerId, Zxid};

use crate::catchup::LogRead;
use crate::config::Membership;
use crate::election::{Avoided, Ballot, Decision, Election, Post, State, Tell, Vote};
use crate::history::{History, Txn};
use crate::io::{Configs, EpochKind, Input, Learners, LinkId, Options, Output, Role};
use crate::leader::Leader;
use crate::learner::Learner;
use crate::links::Progress;
use crate::masters::Masters;
use crate::mesh::{self, Mesh};
use crate::quorums::Quorums;
use crate::random::Random;
use crate::reconfig::Appointed;
use crate::relay::Relay;
use crate::vain::Vain;

/// Servers at which no more are heard that are not members.
const ACQUAINTANCES_MAX: usize = 512;

/// Why a role ends: the member looks for a leader again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leave(pub(crate) &'static str);

impl Leave {
    /// Of a leader that waits for the others: one that has voted for it votes again.
    pub(crate) const DISLOYAL: Self = Self("a supporter looks for a leader again");
}

/// The epochs on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The newest epoch this server has promised to take part in.
    pub accepted: Epoch,
    /// The epoch of the newest leader whose history this server has.
    pub current: Epoch,
}

/// What a member starts with.
#[derive(Debug)]
pub struct Start {
    /// The epochs on disk.
    pub epochs: Epochs,
    /// The configuration in force.
    pub committed: Arc<Membership>,
    /// The newest configuration that was proposed, if it is newer.
    pub last_seen: Option<Arc<Membership>>,
    /// The newest transaction in the tree, which is the end of the log.
    pub last: Zxid,
    /// The end of the log.
    pub recent: Vec<Txn>,
    /// Whether there is a history to speak of: false for a server whose disk is empty although it
    /// should not be, or damaged. It neither votes nor counts until a leader has repaired it.
    pub has_database: bool,
}

/// What the disk has not finished.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    pub(crate) truncating: Option<Zxid>,
    pub(crate) restoring: bool,
    reloading: bool,
    epochs: VecDeque<(EpochKind, Epoch)>,
}

impl Busy {
    fn changes_the_log(&self) -> bool {
        self.truncating.is_some() || self.restoring || self.reloading
    }

    fn any(&self) -> bool {
        self.changes_the_log() || !self.epochs.is_empty()
    }
}

/// What a role works with.
pub(crate) struct Ctx<'c> {
    pub(crate) now: Duration,
    pub(crate) options: &'c Options,
    pub(crate) history: &'c mut History,
    pub(crate) quorums: &'c mut Quorums,
    pub(crate) epochs: Epochs,
    pub(crate) has_database: bool,
    /// Whether there are transactions that this server's disk does not have and never will.
    pub(crate) unlogged: &'c mut bool,
    pub(crate) busy: &'c mut Busy,
    pub(crate) members_changed: &'c mut bool,
    pub(crate) appointed: &'c mut Option<Appointed>,
    pub(crate) out: &'c mut Vec<Output>,
}

impl Ctx<'_> {
    /// The newest zxid this server answers for.
    pub(crate) fn history_end(&self) -> Zxid {
        if self.has_database { self.history.last() } else { NO_ZXID }
    }

    /// The epoch by which this server's history is compared with others'.
    pub(crate) fn standing(&self) -> Epoch {
        standing(self.epochs, self.history, self.has_database)
    }

    /// Makes an epoch durable.
    pub(crate) fn save_epoch(&mut self, kind: EpochKind, epoch: Epoch) {
        self.busy.epochs.push_back((kind, epoch));
        self.out.push(Output::SaveEpoch(kind, epoch));
    }
}

/// That of the last leader whose history was taken over, or the newest that a transaction is of: whoever
/// has that has all that its leader began with, and what came before it, though the synchronization that
/// has brought it was broken off. It may be all that is left of what was acknowledged here.
fn standing(epochs: Epochs, history: &History, has_database: bool) -> Epoch {
    if has_database { epochs.current.max(history.last().epoch()) } else { epochs.current }
}

#[derive(Debug)]
enum Part {
    /// Waits for the disk before it votes.
    Settling,
    Looking,
    Leading(Box<Leader>),
    Learning(Box<Learner>),
}

/// One member of an ensemble. See the module's documentation.
#[derive(Debug)]
pub struct Peer {
    options: Options,
    epochs: Epochs,
    history: History,
    quorums: Quorums,
    has_database: bool,
    unlogged: bool,
    busy: Busy,
    election: Election,
    mesh: Mesh,
    part: Part,
    /// What was heard before this server could vote.
    early: BTreeMap<ServerId, Ballot>,
    /// Who has begun to look for a leader while this server had one, and when.
    ahead: BTreeMap<ServerId, (Duration, Ballot)>,
    /// Who has no vote, and has asked who leads while this server did not know.
    asked: BTreeSet<ServerId>,
    /// A leader that has said nothing for too long, until it is heard of again.
    silent: Option<ServerId>,
    /// Whom it has followed in vain last.
    vain: Vain,
    /// Before this it does not look for a leader.
    rest_until: Duration,
    /// At an observer: whom it may learn from.
    masters: Masters,
    random: Random,
    /// The members are others than those that the election network was made for.
    members_changed: bool,
    /// Who leads the configuration that ended the last role.
    appointed: Option<Appointed>,
    left: &'static str,
    /// How often that was [`Leave::DISLOYAL`].
    disloyal: u64,
}

impl Peer {
    /// A member that has just started; it looks for a leader at its first step.
    pub fn new(options: Options, start: Start) -> Self {
        let Start { epochs, committed, last_seen, last, recent, has_database } = start;
        let mut quorums = Quorums::new(committed);
        // What was proposed in a transaction that never got to the log was never acknowledged.
        let is_there =
            |config: &Arc<Membership>| config.version().counter() == 0 || config.version() <= last;
        if let Some(last_seen) = last_seen.filter(is_there) {
            quorums.propose(last_seen);
        }
        if options.reconfig {
            for config in recent.iter().filter_map(|txn| Membership::in_txn(&txn.record)) {
                quorums.propose(Arc::new(config));
            }
        }
        Self {
            epochs,
            history: History::new(options.memory, last, recent),
            quorums,
            has_database,
            unlogged: false,
            busy: Busy::default(),
            election: Election::new(options.me, options.patience),
            mesh: Mesh::new(options.me),
            part: Part::Settling,
            early: BTreeMap::new(),
            ahead: BTreeMap::new(),
            asked: BTreeSet::new(),
            silent: None,
            vain: Vain::default(),
            rest_until: Duration::ZERO,
            masters: Masters::default(),
            random: Random::new(options.seed),
            members_changed: false,
            appointed: None,
            left: "it has started",
            disloyal: 0,
            options,
        }
    }

    /// What this server has.
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

    /// The newest transaction this server knows to be committed; it may not be delivered yet.
    pub fn committed(&self) -> Zxid {
        match &self.part {
            Part::Learning(learner) => learner.committed().max(self.history.delivered()),
            _ => self.history.delivered(),
        }
    }

    /// The configurations that count.
    pub fn quorums(&self) -> &Quorums {
        &self.quorums
    }

    /// What this server is doing.
    pub fn state(&self) -> State {
        self.election.state()
    }

    /// Whether it looks for a leader, with a history that it could show meanwhile.
    pub fn looks_with_history(&self) -> bool {
        matches!(self.part, Part::Looking) && self.has_database
    }

    /// Why the last role ended.
    pub fn left(&self) -> &'static str {
        self.left
    }

    /// How often this server gave up to lead before it had begun, as a supporter looked for a leader again.
    pub fn disloyal_supporters(&self) -> u64 {
        self.disloyal
    }

    /// Whose connection of the election network this is.
    pub fn wire_peer(&self, wire: crate::mesh::WireId) -> Option<ServerId> {
        self.mesh.peer(wire)
    }

    /// When the next [`Input::Tick`] is due.
    pub fn deadline(&self) -> Duration {
        let part = match &self.part {
            Part::Settling if self.is_settled() => self.rest_until,
            Part::Settling => Duration::MAX,
            Part::Looking => self.mesh.redial_due(self.quorums.voters()),
            Part::Leading(leader) => leader.deadline(),
            Part::Learning(learner) => learner.deadline(),
        };
        part.min(self.election.deadline())
    }

    /// The epoch this server leads in, if it does.
    pub fn leads(&self) -> Option<Epoch> {
        match &self.part {
            Part::Leading(leader) => leader.epoch(),
            _ => None,
        }
    }

    /// At a follower that serves observers: how many there are.
    pub fn observers(&self) -> Option<usize> {
        match &self.part {
            Part::Learning(learner) => learner.relay().map(Relay::observers),
            _ => None,
        }
    }

    /// At an observer: from whom it learns, or tries to.
    pub fn master(&self) -> Option<ServerId> {
        match &self.part {
            Part::Learning(learner) if learner.is_observer() => Some(learner.master()),
            _ => None,
        }
    }

    /// At a leader, who is connected to it.
    pub fn learners(&self) -> Option<Learners> {
        match &self.part {
            Part::Leading(leader) => Some(leader.learners(self.quorums.committed())),
            _ => None,
        }
    }

    /// At an established leader, the zxid of the next transaction; `None` when the epoch has none
    /// left, and anywhere else.
    pub fn next_zxid(&self) -> Option<Zxid> {
        match &self.part {
            Part::Leading(leader) if leader.epoch().is_some() => {
                leader.next_zxid(self.options.first_counter)
            }
            _ => None,
        }
    }

    /// Orders a transaction, whose zxid is [`Peer::next_zxid`].
    ///
    /// # Panics
    /// When this server does not lead, or the zxid is another.
    pub fn propose(&mut self, now: Duration, record: Bytes, out: &mut Vec<Output>) -> Zxid {
        let zxid = self.next_zxid().expect("a leader with zxids left proposes");
        let (part, mut ctx) = self.split(now, out);
        let Part::Leading(leader) = part else { unreachable!("only a leader has a next zxid") };
        leader.propose(&mut ctx, Txn { zxid, record });
        zxid
    }

    /// At an established leader: asks for [`crate::Up::Confirmed`] with this token once everything
    /// proposed so far is committed and it is certain that this server has led until after this
    /// call. Tokens come back in the order of the calls.
    pub fn confirm(&mut self, now: Duration, token: u64, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        if let Part::Leading(leader) = part {
            leader.confirm(&mut ctx, token);
        }
    }

    /// At a serving learner: sends the leader a packet. False when there is no leader.
    pub fn send_to_leader(&mut self, packet: QuorumPacket, out: &mut Vec<Output>) -> bool {
        let link = match &self.part {
            Part::Learning(learner) => learner.serving(),
            _ => None,
        };
        out.extend(link.map(|link| Output::Send(link, packet)));
        link.is_some()
    }

    /// At an established leader, or a follower with observers: sends a learner a packet behind
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

    /// At an established leader: whether a quorum of a configuration follows it, itself included.
    pub fn reaches_quorum(&self, now: Duration, config: &Membership) -> bool {
        match &self.part {
            Part::Leading(leader) => leader.reaches(now, self.options.me, config),
            _ => false,
        }
    }

    /// Ends the role, whatever it is.
    pub fn resign(&mut self, now: Duration, why: &'static str, out: &mut Vec<Output>) {
        self.leave(now, Leave(why), out);
        self.settle(now, out);
    }

    /// Takes one event and pushes what it asks for, to be done in that order.
    pub fn step(&mut self, now: Duration, input: Input, out: &mut Vec<Output>) {
        if let Err(why) = self.handle(now, input, out) {
            self.leave(now, why, out);
        }
        if std::mem::take(&mut self.members_changed) {
            self.meet_anew(out);
        }
        self.settle(now, out);
    }

    /// The election network is made for other members.
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
            unlogged: &mut self.unlogged,
            busy: &mut self.busy,
            members_changed: &mut self.members_changed,
            appointed: &mut self.appointed,
            out,
        };
        (&mut self.part, ctx)
    }

    fn handle(&mut self, now: Duration, input: Input, out: &mut Vec<Output>) -> Result<(), Leave> {
        match input {
            Input::Tick => {
                let (part, mut ctx) = self.split(now, out);
                match part {
                    Part::Leading(leader) => leader.tick(&mut ctx)?,
                    Part::Learning(learner) => learner.tick(&mut ctx)?,
                    Part::Settling => {}
                    Part::Looking => {
                        let mut posts = Vec::new();
                        let decision = self.election.tick(now, &self.quorums, &mut posts);
                        self.post(now, posts, decision, out)?;
                        let mut dials = Vec::new();
                        self.mesh.redial(now, self.quorums.voters(), &mut dials);
                        out.extend(dials.into_iter().map(Output::Mesh));
                    }
                }
            }
            Input::Stalled(_) if zebu_proto::mutant!("pause taken for silence") => {}
            Input::Stalled(time) => {
                // Who has spoken meanwhile has not been heard yet.
                match &mut self.part {
                    Part::Leading(leader) => leader.postpone(time),
                    Part::Learning(learner) => learner.postpone(time),
                    Part::Settling | Part::Looking => {}
                }
            }
            Input::Mesh(mesh::Input::Accepted { wire, peer }) if !self.may_take_part(peer) => {
                out.push(Output::Mesh(mesh::Output::Close(wire)));
            }
            Input::Mesh(input) => {
                let (mut done, absent) = (Vec::new(), self.mesh.absent().len());
                self.mesh.step(input, &mut done);
                out.extend(done.into_iter().map(Output::Mesh));
                if self.mesh.absent().len() > absent {
                    // It may be the last one whose vote was waited for.
                    self.reconsider(now, out)?;
                }
            }
            Input::Heard { wire, ballot, said } => {
                let Some(from) = self.mesh.peer(wire) else { return Ok(()) };
                if !self.adopt(now, from, &ballot, said, out) {
                    self.hear(now, from, ballot, out)?;
                }
            }
            Input::Accepted(link) => {
                let (part, mut ctx) = self.split(now, out);
                match part {
                    Part::Leading(leader) => leader.accepted(&mut ctx, link),
                    Part::Learning(learner) if learner.relay().is_some() => {
                        let relay = learner.relay_mut().expect("it was just seen");
                        relay.accepted(&ctx, link);
                    }
                    _ => ctx.out.push(Output::Close(link)),
                }
            }
            Input::Connected(link) => {
                let (part, mut ctx) = self.split(now, out);
                match part {
                    Part::Learning(learner) => learner.connected(&mut ctx, link),
                    _ => ctx.out.push(Output::Close(link)),
                }
            }
            Input::ConnectFailed => {
                let (part, mut ctx) = self.split(now, out);
                if let Part::Learning(learner) = part {
                    learner.connect_failed(&mut ctx)?;
                }
            }
            Input::Packet(link, packet) => {
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
                    _ => {}
                }
            }
            Input::Copied { link, zxid: _ } => {
                let (part, mut ctx) = self.split(now, out);
                if let Part::Learning(learner) = part
                    && learner.is_link(link)
                {
                    learner.copied(&mut ctx, link);
                }
            }
            Input::CopySent(link) => self.advance(now, link, Progress::CopySent, out),
            Input::LinkDown(link) => {
                let (part, mut ctx) = self.split(now, out);
                match part {
                    Part::Leading(leader) => leader.link_lost(&mut ctx, link)?,
                    Part::Learning(learner) if learner.is_link(link) => {
                        return Err(Leave("the leader has closed the connection"));
                    }
                    Part::Learning(learner) => {
                        if let Some(relay) = learner.relay_mut() {
                            relay.link_down(link);
                        }
                    }
                    _ => {}
                }
            }
            Input::Oracle(allows_alone) => {
                self.quorums.set_oracle(allows_alone);
                self.reconsider(now, out)?;
                let (part, mut ctx) = self.split(now, out);
                if let Part::Leading(leader) = part {
                    leader.go_on_alone(&mut ctx)?;
                }
            }
            Input::Flushed(zxid) => {
                if !self.busy.changes_the_log() {
                    self.history.set_flushed(zxid);
                    let (part, mut ctx) = self.split(now, out);
                    match part {
                        Part::Leading(leader) => leader.flushed(&mut ctx),
                        Part::Learning(learner) => learner.flushed(&mut ctx),
                        _ => {}
                    }
                }
            }
            Input::EpochSaved(kind, epoch) => {
                let owed = self.busy.epochs.pop_front();
                assert_eq!(owed, Some((kind, epoch)), "epochs are saved in the order asked for");
                match kind {
                    EpochKind::Accepted => self.epochs.accepted = epoch,
                    EpochKind::Current => self.epochs.current = epoch,
                }
                let (part, mut ctx) = self.split(now, out);
                match part {
                    Part::Leading(leader) => leader.epoch_saved(&mut ctx, kind, epoch)?,
                    Part::Learning(learner) => learner.epoch_saved(&mut ctx, kind, epoch),
                    _ => {}
                }
            }
            Input::Truncated { end, config } => {
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
                if let Part::Learning(learner) = part {
                    learner.truncated(&mut ctx, end.is_some())?;
                }
            }
            Input::Reloaded { end } => {
                assert!(self.busy.reloading, "something was to be reloaded");
                self.busy.reloading = false;
                self.unlogged = false;
                self.has_database = end.is_some();
                // It stays bound by what it knows to be proposed, though the transaction comes anew.
                self.history.reset(end.unwrap_or(Zxid::ZERO));
            }
            Input::Restored { zxid, config } => {
                assert!(self.busy.restoring, "something was to be restored");
                self.busy.restoring = false;
                self.has_database = true;
                self.unlogged = false;
                self.history.reset(zxid);
                let (part, mut ctx) = self.split(now, out);
                if !zebu_proto::mutant!("copied change is hearsay") {
                    ctx.config_found(config);
                }
                if let Part::Learning(learner) = part {
                    learner.restored(&mut ctx, zxid)?;
                }
            }
            Input::LogRead { link, floor, txns, end } => {
                let read = LogRead { floor, txns, end };
                self.advance(now, link, Progress::LogRead(read), out);
            }
        }
        Ok(())
    }

    /// Tree and log end at `zxid` now.
    fn cut(&mut self, zxid: Zxid) {
        if zxid < self.history.delivered() {
            self.history.reset(zxid);
        } else {
            self.history.cut(zxid);
            self.history.set_flushed(zxid);
        }
    }

    /// Whether a server that has said who it is is heard: a member, or, where members may change,
    /// one that may become one.
    fn may_take_part(&self, server: ServerId) -> bool {
        self.quorums.is_member(server)
            || self.options.reconfig
                && (self.mesh.knows(server) || self.mesh.acquaintances() < ACQUAINTANCES_MAX)
    }

    // ---- election

    /// Takes over later configurations that others know of, unless this server has a leader to learn
    /// of them from. Whether the election begins anew with them.
    ///
    /// What is in force is taken from members; the original takes anybody's word for it. What is
    /// proposed is taken from who has a better history with it: to lead, it may need this server.
    ///
    /// Source: `FastLeaderElection.Messenger.WorkerReceiver`.
    fn adopt(
        &mut self,
        now: Duration,
        from: ServerId,
        ballot: &Ballot,
        said: Configs,
        out: &mut Vec<Output>,
    ) -> bool {
        if !self.options.reconfig || !matches!(self.part, Part::Settling | Part::Looking) {
            return false;
        }
        let Configs { committed, proposed } = said;
        let committed = committed.filter(|_| self.quorums.is_member(from));
        let vote = ballot.vote;
        let own = (i64::from(self.standing().0), self.history.last());
        let is_candidate = ballot.state == State::Looking && vote.leader == from;
        let proposed = proposed.filter(|config| {
            is_candidate && (vote.epoch, vote.zxid) > own && config.version() <= vote.zxid
        });
        let (_, mut ctx) = self.split(now, out);
        let mut differs =
            committed.is_some_and(|committed| ctx.config_committed(committed).is_some());
        differs |= proposed.is_some_and(|proposed| ctx.config_heard(proposed));
        if differs && matches!(self.part, Part::Looking) {
            self.election.wait();
            self.part = Part::Settling;
            self.early.insert(from, *ballot);
        }
        differs
    }

    /// One who learns from this server is brought further.
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

    /// A server has said what it is doing.
    fn hear(
        &mut self,
        now: Duration,
        from: ServerId,
        ballot: Ballot,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        if matches!(self.part, Part::Settling) {
            // This server cannot vote yet; what the others want is remembered.
            self.early.insert(from, ballot);
            return Ok(());
        }
        let mut posts = Vec::new();
        self.silent = self.silent.filter(|silent| *silent != from);
        let absent = &self.absent();
        let decision = self.election.receive(now, from, ballot, &self.quorums, absent, &mut posts);
        self.post(now, posts, decision, out)?;
        let looks = ballot.state == State::Looking;
        if looks && matches!(self.part, Part::Looking) && !self.quorums.is_voter(from) {
            self.asked.insert(from);
        }
        if matches!(self.part, Part::Leading(_) | Part::Learning(_)) {
            match ballot.state {
                State::Looking => self.ahead.insert(from, (now, ballot)),
                _ => self.ahead.remove(&from),
            };
        }
        match &mut self.part {
            Part::Leading(leader) if looks => {
                let same_election = ballot.round == self.election.round();
                if same_election && ballot.vote.leader != self.options.me {
                    leader.turns_away(&self.quorums, from)?;
                }
                leader.looks(now, from)
            }
            _ => Ok(()),
        }
    }

    /// What was heard in this election may be enough now.
    fn reconsider(&mut self, now: Duration, out: &mut Vec<Output>) -> Result<(), Leave> {
        if !matches!(self.part, Part::Looking) {
            return Ok(());
        }
        if !self.can_do_without(self.election.avoided()) {
            self.election.avoid_no_longer(now);
        }
        let absent = &self.absent();
        let decision = self.election.reconsider(now, &self.quorums, absent);
        self.post(now, Vec::new(), decision, out)
    }

    /// Sends notifications, those to this server itself at once, until something is decided.
    fn post(
        &mut self,
        now: Duration,
        mut posts: Vec<Post>,
        mut decision: Option<Decision>,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let me = self.options.me;
        let mut own = VecDeque::new();
        loop {
            for (tell, ballot) in posts.drain(..) {
                match tell {
                    Tell::One(server) => self.notify(server, ballot, out),
                    Tell::Voters => {
                        let voters: Vec<ServerId> = self.quorums.voters().collect();
                        for server in voters {
                            if server == me {
                                own.push_back(ballot);
                            } else {
                                self.notify(server, ballot, out);
                            }
                        }
                    }
                }
            }
            if let Some(decision) = decision {
                return self.take_part(now, decision, out);
            }
            let Some(ballot) = own.pop_front() else { return Ok(()) };
            let absent = &self.absent();
            decision = self.election.receive(now, me, ballot, &self.quorums, absent, &mut posts);
        }
    }

    /// Whose vote is not worth waiting for: those that cannot be reached, and a leader that has
    /// stood still until now.
    fn absent(&self) -> BTreeSet<ServerId> {
        self.mesh.absent().iter().copied().chain(self.silent).collect()
    }

    /// Whether those who can be reached are a quorum without these.
    fn can_do_without(&self, servers: &Avoided) -> bool {
        let mut others: BTreeSet<ServerId> = self.quorums.voters().collect();
        others.retain(|it| !servers.contains_key(it) && !self.mesh.absent().contains(it));
        self.quorums.all_have_quorum(&others)
    }

    /// Whom this server has followed in vain again and again, as long as the others are enough.
    fn avoided(&self, now: Duration) -> Avoided {
        let mut avoided = Avoided::new();
        for (server, until) in self.vain.avoided(now) {
            avoided.insert(server, until);
            if !self.can_do_without(&avoided) {
                avoided.remove(&server);
            }
        }
        avoided
    }

    fn notify(&mut self, server: ServerId, ballot: Ballot, out: &mut Vec<Output>) {
        let mut done = Vec::new();
        self.mesh.send(server, ballot, &mut done);
        out.extend(done.into_iter().map(Output::Mesh));
    }

    fn take_part(
        &mut self,
        now: Duration,
        decision: Decision,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let leader = decision.vote.leader;
        let observer = decision.state == State::Observing;
        let (mut masters, mut pause) = (VecDeque::new(), Duration::ZERO);
        if observer {
            let mut all_tried = true;
            if self.options.observer.masters {
                let members = self.quorums.committed();
                (masters, all_tried) =
                    self.masters.untried(now, leader, members, &self.options, &mut self.random);
            }
            if masters.is_empty() || all_tried {
                pause = self.pause_below(self.options.observer.connect_pause_max);
            }
        }
        let supporters = self.election.supporters();
        let mut told = std::mem::take(&mut self.asked);
        if decision.state == State::Leading {
            told.extend(supporters.iter().filter(|supporter| **supporter != self.options.me));
        }
        let result = self.election.result();
        for server in told {
            self.notify(server, result, out);
        }
        let (_, mut ctx) = self.split(now, out);
        let part = match decision.state {
            State::Leading => Part::Leading(Box::new(Leader::new(&mut ctx, supporters))),
            _ => Part::Learning(Box::new(Learner::new(&mut ctx, leader, observer, masters, pause))),
        };
        self.part = part;
        // A leader of one needs nobody to go on.
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader) => leader.begin(&mut ctx),
            _ => Ok(()),
        }
    }

    /// A random time below this, in whole milliseconds.
    fn pause_below(&mut self, max: Duration) -> Duration {
        Duration::from_millis(self.random.below(max.as_millis() as u64))
    }

    /// Ends the role.
    fn leave(&mut self, now: Duration, why: Leave, out: &mut Vec<Output>) {
        self.left = why.0;
        self.disloyal += u64::from(why == Leave::DISLOYAL);
        match std::mem::replace(&mut self.part, Part::Settling) {
            Part::Leading(leader) => leader.leave(out),
            Part::Learning(learner) => {
                self.silent = learner.silent_leader(now);
                self.vain.left(now, &learner, &self.options);
                if learner.is_observer() {
                    // Those who vote have enough to do with each other.
                    self.rest_until = now + self.pause_below(self.options.observer.look_pause_max);
                    self.masters.left(now, &learner);
                }
                learner.leave(out);
            }
            Part::Settling | Part::Looking => return,
        }
        // They were the first to notice, and do not repeat soon what they want.
        for (from, (at, ballot)) in std::mem::take(&mut self.ahead) {
            if now < at + self.options.patience.resend_min {
                self.early.insert(from, ballot);
            }
        }
        self.election.wait();
        out.push(Output::Role(Role::Looking));
    }

    /// Whether the disk has done everything it was asked for.
    fn is_settled(&self) -> bool {
        !self.busy.any() && self.history.flushed() == self.history.last()
    }

    /// Looks for a leader as soon as the disk has done what it was asked for.
    fn settle(&mut self, now: Duration, out: &mut Vec<Output>) {
        while matches!(self.part, Part::Settling)
            && self.is_settled()
            && (self.rest_until <= now || self.appointed.is_some())
        {
            if self.forget_unlogged(out) {
                return;
            }
            // Whoever has lost what it had leads nobody, though it be appointed.
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

    /// If it votes from now on, what it votes with has to be on its disk. Says whether that takes time.
    ///
    /// What it forgets was committed without it.
    fn forget_unlogged(&mut self, out: &mut Vec<Output>) -> bool {
        let forgets = self.unlogged && !self.quorums.is_observer(self.options.me);
        if forgets {
            self.busy.reloading = true;
            out.push(Output::Reload);
        }
        forgets
    }

    /// Goes over to the leader of the configuration that has come into force, which this server may
    /// be itself, without an election.
    fn go_over(
        &mut self,
        now: Duration,
        appointed: Appointed,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let Appointed { leader, zxid } = appointed;
        let state = if leader == self.options.me {
            State::Leading
        } else if self.quorums.is_observer(self.options.me) {
            State::Observing
        } else {
            State::Following
        };
        self.election.appoint(state, leader, zxid);
        let vote = Vote { leader, zxid, epoch: -1 };
        self.take_part(now, Decision { state, vote }, out)?;
        for (from, ballot) in std::mem::take(&mut self.early) {
            self.hear(now, from, ballot, out)?;
        }
        Ok(())
    }

    fn look(&mut self, now: Duration, out: &mut Vec<Output>) -> Result<(), Leave> {
        let me = self.options.me;
        let mut zxid = if self.has_database { self.history.last() } else { NO_ZXID };
        if zebu_proto::mutant!("vote from the tree") {
            zxid = zxid.min(self.history.delivered());
        }
        let epoch = self.standing().0.into();
        // Who is to get a vote may be the only one whose history is good enough to complete that; the
        // original lets it vote, but not stand.
        let own = if self.quorums.is_voter(me) {
            Vote { leader: me, zxid, epoch }
        } else if self.quorums.is_observer(me) {
            Vote::NONE
        } else {
            Vote { zxid, epoch, ..Vote::NONE }
        };
        let mut posts = Vec::new();
        self.election.avoid(self.avoided(now));
        self.election.look(now, own, &mut posts);
        self.mesh.redial_later(now);
        self.post(now, posts, None, out)?;
        for (from, ballot) in std::mem::take(&mut self.early) {
            if matches!(self.part, Part::Looking) || ballot.state == State::Looking {
                self.hear(now, from, ballot, out)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
