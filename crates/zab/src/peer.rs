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
use crate::faults;
use crate::followed_in_vain::FollowedInVain;
use crate::history::{History, Txn};
use crate::io::{ConfigChange, Input, LinkId, Options, Output, Role};
use crate::leave::Leave;
use crate::links::Progress;
use crate::masters::Masters;
use crate::mesh::Mesh;
use crate::quorums::Quorums;
use crate::random::Random;
use crate::reconfig::Appointed;
use crate::silence::Silence;
use crate::start::{Epochs, Start, standing};

mod disk;
mod elections;
mod facts;
mod handover;
mod network;
mod part;

pub use facts::Lacks;
use part::{Looking, Part, Settling, Tenure};

/// How many times the wait for further votes a leader that heard nobody rests before it votes:
/// enough for an election among the others.
const UNHEARD_RESTS: u32 = 5;

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
    /// Voters that have said that they do not vote.
    abstaining: BTreeSet<ServerId>,
    /// What each voter has said last, while this server looked for a leader or had one.
    heard: BTreeMap<ServerId, Ballot>,
    /// A leader that was silent for too long, until it is heard again.
    silent: Option<ServerId>,
    /// The leaders followed in vain.
    followed_in_vain: FollowedInVain,
    /// At an observer: its masters.
    masters: Masters,
    random: Random,
    /// Whether the membership has changed since the election network was set up.
    members_changed: bool,
    /// The designated leader of the configuration that ended the last role.
    appointed: Option<Appointed>,
    /// The latest promised epoch that ended a leadership of this server.
    outbid: Epoch,
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
            part: Part::settling(),
            abstaining: BTreeSet::new(),
            heard: BTreeMap::new(),
            silent: None,
            followed_in_vain: FollowedInVain::default(),
            masters: Masters::default(),
            random: Random::new(options.seed),
            members_changed: false,
            appointed: None,
            outbid: Epoch(0),
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

    /// Whether the end of this server's history is only in memory: an observer without a log.
    pub fn is_unlogged(&self) -> bool {
        self.unlogged
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
            Part::Learning(learner, _) => learner.committed().max(self.history.delivered()),
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
        matches!(self.part, Part::Looking(_)) && self.has_database
    }

    /// Why the last role ended.
    pub fn left(&self) -> Leave {
        self.left
    }

    /// When the next [`Input::Tick`] is due.
    pub fn deadline(&self) -> Duration {
        let part = match &self.part {
            Part::Settling(_) if self.retired => Duration::MAX,
            Part::Settling(settling) if self.is_settled() => settling.rest_until,
            Part::Settling(_) => Duration::MAX,
            Part::Looking(_) => self.mesh.redial_due(self.quorums.voters()),
            Part::Leading(leader, _) => leader.deadline(),
            Part::Learning(learner, _) => learner.deadline().min(self.doubt.due()),
        };
        let tells = self.untold().map_or(Duration::MAX, |_| self.tells_at);
        let hangs = |tenure: &Tenure| tenure.disk_progress.due(self.options.sync_time());
        let disk = self.part.tenure().map_or(Duration::MAX, hangs);
        part.min(tells).min(self.election.deadline()).min(disk)
    }

    /// The epoch of this leader in broadcast; `None` otherwise.
    pub fn leads(&self) -> Option<Epoch> {
        match &self.part {
            Part::Leading(leader, _) => leader.epoch(),
            _ => None,
        }
    }

    /// At an established leader, the zxid of the next transaction; `None` if the epoch is
    /// exhausted, and in other roles.
    pub fn next_zxid(&self) -> Option<Zxid> {
        match &self.part {
            Part::Leading(leader, _) if leader.epoch().is_some() => {
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
        let Part::Leading(leader, tenure) = part else {
            unreachable!("only a leader has a next zxid")
        };
        leader.propose(&mut ctx, Txn { zxid, record });
        tenure.disk_progress.look(now, ctx.history, true);
        zxid
    }

    /// At an established leader: requests [`crate::Up::Confirmed`] with this token, once everything
    /// proposed so far is committed and it is certain that this server still led after this call.
    /// Tokens return in the order of the calls.
    pub fn confirm(&mut self, now: Duration, token: u64, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        if let Part::Leading(leader, _) = part {
            leader.confirm(&mut ctx, token);
        }
    }

    /// At a serving learner: sends a packet to the leader. False if there is no leader.
    pub fn send_to_leader(&mut self, packet: QuorumPacket, out: &mut Vec<Output>) -> bool {
        let link = match &self.part {
            Part::Learning(learner, _) => learner.serving(),
            _ => None,
        };
        out.extend(link.map(|link| Output::Send(link, packet)));
        link.is_some()
    }

    /// At an established leader, or a follower with observers: sends a packet to a learner after
    /// everything committed so far.
    pub fn send_to_learner(&mut self, link: LinkId, packet: QuorumPacket, out: &mut Vec<Output>) {
        let serves = match &self.part {
            Part::Leading(leader, _) => leader.serves(link),
            Part::Learning(learner, _) => learner.relay().is_some_and(|relay| relay.serves(link)),
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
            Part::Leading(leader, _) => leader.reaches(now, self.options.me, config),
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
            Part::Settling(_) => assert_eq!(state, State::Looking, "it has no role yet"),
            _ if self.retired => unreachable!("a server that is to stop takes another role"),
            Part::Looking(_) => {
                assert_eq!(state, State::Looking, "it has no role yet");
                assert!(self.is_settled(), "it votes while its disk is busy");
            }
            Part::Leading(leader, _) => {
                assert_eq!(state, State::Leading, "it leads");
                leader.check(&self.history, self.epochs);
            }
            Part::Learning(learner, _) => {
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
                self.compared(now, compared, out);
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
            Part::Leading(leader, _) => leader.tick(&mut ctx),
            Part::Learning(learner, _) => learner.tick(&mut ctx),
            Part::Settling(_) => Ok(()),
            Part::Looking(_) => {
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
        if faults::pause_taken_for_silence() {
            return;
        }
        self.silence.postpone(time);
        match &mut self.part {
            Part::Leading(leader, tenure) => {
                leader.postpone(time);
                tenure.disk_progress.postpone(time);
            }
            Part::Learning(learner, tenure) => {
                learner.postpone(time);
                tenure.disk_progress.postpone(time);
            }
            Part::Settling(_) | Part::Looking(_) => {}
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
        self.disloyal += u64::from(matches!(why, Leave::SupporterLooks(_)));
        let mut settling = Settling::default();
        let ahead = match std::mem::replace(&mut self.part, Part::settling()) {
            Part::Leading(leader, tenure) => {
                leader.leave(out);
                tenure.ahead
            }
            Part::Learning(learner, tenure) => {
                self.silent = learner.silent_leader(now);
                self.followed_in_vain.left(now, &learner, &self.options);
                if learner.is_observer() {
                    // Leave the voters time for their election.
                    settling.rest_until =
                        now + self.pause_below(self.options.observer.look_pause_max);
                    if matches!(why, Leave::EpochOver { .. }) {
                        // Only a different leader can help.
                        settling.rest_until += self.options.tick;
                    }
                    self.masters.left(now, &learner);
                }
                learner.leave(out);
                tenure.ahead
            }
            Part::Settling(settling) => {
                self.part = Part::Settling(settling);
                return;
            }
            Part::Looking(Looking { asked }) => {
                self.part = Part::Settling(Settling { asked, ..settling });
                return;
            }
        };
        // These servers noticed first, and will not repeat their votes soon.
        let is_recent = |at: Duration| now < at + self.options.patience.resend_min;
        let recent = ahead.into_iter().filter(|(_, (at, _))| is_recent(*at));
        settling.early = recent.map(|(from, (_, ballot))| (from, ballot)).collect();
        if matches!(why, Leave::QuorumSilent(_)) && settling.early.is_empty() {
            // The others may hear this server, which does not hear them: they would elect it again,
            // and could not reach it. So they elect another one first.
            settling.rest_until = now + self.options.patience.settle * UNHEARD_RESTS;
            settling.rests_unheard = true;
        }
        self.part = Part::Settling(settling);
        self.election.wait();
        out.push(Output::Role(Role::Looking));
    }

    /// Looks for a leader once all requests to the disk are complete.
    fn settle(&mut self, now: Duration, out: &mut Vec<Output>) {
        while let Part::Settling(settling) = &self.part
            && !self.retired
            && self.is_settled()
            && (settling.rest_until <= now || self.appointed.is_some())
        {
            if self.forget_unlogged(out) {
                return;
            }
            // A server without its database must not lead, even if a reconfiguration designates it.
            let able = |it: &Appointed| {
                let has = self.has_database || faults::empty_server_leads();
                has || it.leader != self.options.me
            };
            let appointed = self.appointed.take().filter(able);
            if let Err(why) = self.end_settling(now, appointed, out) {
                self.leave(now, why, out);
            }
            if std::mem::take(&mut self.members_changed) {
                self.meet_anew(out);
            }
        }
        match &self.part {
            Part::Leading(leader, _) if leader.epoch().is_some() => {
                self.election.established(self.epochs.current.0.into());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
