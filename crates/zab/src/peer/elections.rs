//! A member's part in elections: handles ballots, votes, and starts the resulting role.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use zebu_proto::quorum::NO_ZXID;
use zebu_proto::{Epoch, ServerId, Zxid};

use super::Peer;
use super::part::{Looking, Part, Settling, Tenure};
use crate::election::{Avoided, Ballot, Decision, Post, State, Tell, Vote};
use crate::faults;
use crate::io::{Configs, Output, Role};
use crate::leader::Leader;
use crate::learner::Learner;
use crate::leave::Leave;
use crate::reconfig::Appointed;

impl Peer {
    /// Adopts later configurations that other servers know, unless this server has a leader to
    /// learn them from. Returns whether the election must restart with them.
    ///
    /// Committed configurations are taken from members only; the original takes them from any
    /// server. A proposed one is taken from a server with a better history: it may need this
    /// server's vote to lead.
    /// Source: `FastLeaderElection.Messenger.WorkerReceiver`.
    pub(super) fn adopt(
        &mut self,
        now: Duration,
        from: ServerId,
        ballot: &Ballot,
        said: Configs,
        out: &mut Vec<Output>,
    ) -> bool {
        if !self.options.reconfig || !matches!(self.part, Part::Settling(_) | Part::Looking(_)) {
            return false;
        }
        let Configs { committed, proposed, .. } = said;
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
        if differs && matches!(self.part, Part::Looking(_)) {
            self.settle_first(from, *ballot);
        }
        differs
    }

    /// Handles a notification.
    pub(super) fn hear(
        &mut self,
        now: Duration,
        from: ServerId,
        ballot: Ballot,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        self.note_abstention(from, &ballot);
        if from != self.options.me && self.quorums.is_voter(from) {
            self.heard.insert(from, ballot);
        }
        if let Part::Settling(settling) = &mut self.part {
            // This server cannot vote yet: remembers the ballot.
            settling.early.insert(from, ballot);
            if std::mem::take(&mut settling.rests_unheard) {
                settling.rest_until = now;
            }
            return Ok(());
        }
        if self.may_have_lost(from, &ballot) {
            self.has_database = false;
            self.left = Leave::MayHaveLost { server: from, zxid: ballot.vote.zxid };
            self.settle_first(from, ballot);
            out.push(Output::Role(Role::Looking));
            return Ok(());
        }
        let mut posts = Vec::new();
        self.silent = self.silent.filter(|silent| *silent != from);
        let absent = &self.absent();
        let decision = self.election.receive(now, from, ballot, &self.quorums, absent, &mut posts);
        self.post(now, posts, decision, out)?;
        let looks = ballot.state == State::Looking;
        if let Part::Looking(looking) = &mut self.part
            && looks
            && !self.quorums.is_voter(from)
        {
            looking.asked.insert(from);
        }
        if let Some(tenure) = self.part.tenure_mut() {
            match ballot.state {
                State::Looking => tenure.ahead.insert(from, (now, ballot)),
                _ => tenure.ahead.remove(&from),
            };
        }
        match &mut self.part {
            Part::Leading(leader, _) if looks => {
                let same_election = ballot.round == self.election.round();
                if same_election && ballot.vote.leader != self.options.me {
                    leader.turns_away(&self.quorums, from)?;
                }
                leader.looks(now, from)
            }
            _ => Ok(()),
        }
    }

    /// Remembers for operators whether a voter says that it does not vote.
    fn note_abstention(&mut self, from: ServerId, ballot: &Ballot) {
        let abstains = ballot.state == State::Looking && ballot.vote.zxid == NO_ZXID;
        if abstains && from != self.options.me && self.quorums.is_voter(from) {
            self.abstaining.insert(from);
        } else {
            self.abstaining.remove(&from);
        }
    }

    /// Whether a voter reports a history that this server, which is about to vote with an empty
    /// one, may have had itself.
    ///
    /// If a member has lost a history it acknowledged, its vote could elect a leader that lacks
    /// committed transactions. In a new ensemble no candidate has transactions.
    fn may_have_lost(&self, from: ServerId, ballot: &Ballot) -> bool {
        let has_none = self.history.last() == Zxid::ZERO && self.epochs.current == Epoch(0);
        let votes = self.assumed_new && self.has_database && has_none;
        let tells = from != self.options.me && self.quorums.is_voter(from);
        let is_history = ballot.vote.zxid > Zxid::new(Epoch(1), 0);
        let may = matches!(self.part, Part::Looking(_)) && votes && tells && is_history;
        may && !faults::wiped_server_votes()
    }

    /// Decides the election if the ballots received so far suffice now.
    pub(super) fn reconsider(&mut self, now: Duration, out: &mut Vec<Output>) -> Result<(), Leave> {
        if !matches!(self.part, Part::Looking(_)) {
            return Ok(());
        }
        if !self.can_do_without(self.election.avoided()) {
            self.election.avoid_no_longer(now);
        }
        let absent = &self.absent();
        let decision = self.election.reconsider(now, &self.quorums, absent);
        self.post(now, Vec::new(), decision, out)
    }

    /// Sends notifications, handling those to itself at once, until there is a decision.
    pub(super) fn post(
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

    /// The servers whose votes are not awaited: unreachable ones, and a leader that was silent for
    /// too long.
    fn absent(&self) -> BTreeSet<ServerId> {
        self.mesh.absent().iter().copied().chain(self.silent).collect()
    }

    /// Whether the reachable servers are a quorum without these.
    fn can_do_without(&self, servers: &Avoided) -> bool {
        let mut others: BTreeSet<ServerId> = self.quorums.voters().collect();
        others.retain(|it| !servers.contains_key(it) && !self.mesh.absent().contains(it));
        self.quorums.all_have_quorum(&others)
    }

    /// The leaders to avoid because this server followed them in vain repeatedly, as long as the
    /// other servers are a quorum.
    fn avoided(&self, now: Duration) -> Avoided {
        let mut avoided = Avoided::new();
        for (server, until) in self.followed_in_vain.avoided(now) {
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
        let mut told = self.part.take_asked();
        if decision.state == State::Leading {
            told.extend(supporters.iter().filter(|supporter| **supporter != self.options.me));
        }
        let result = self.election.result();
        for server in told {
            self.notify(server, result, out);
        }
        let (_, mut ctx) = self.split(now, out);
        let part = match decision.state {
            State::Leading => {
                Part::Leading(Box::new(Leader::new(&mut ctx, supporters)), Tenure::default())
            }
            _ => {
                let learner = Learner::new(&mut ctx, leader, observer, masters, pause);
                Part::Learning(Box::new(learner), Tenure::default())
            }
        };
        self.part = part;
        // A single-voter leader needs no other server to proceed.
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader, _) => leader.begin(&mut ctx),
            _ => Ok(()),
        }
    }

    /// Begins to vote, or joins the designated leader, and hears the early ballots.
    pub(super) fn end_settling(
        &mut self,
        now: Duration,
        appointed: Option<Appointed>,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let Part::Settling(settling) = &mut self.part else { unreachable!("it is settling") };
        let early = std::mem::take(&mut settling.early);
        let votes = appointed.is_none();
        let begun = match appointed {
            Some(appointed) => self.go_over(now, appointed, out),
            None => {
                let asked = self.part.take_asked();
                self.part = Part::Looking(Looking { asked });
                self.look(now, out)
            }
        };
        if let Err(why) = begun {
            self.leave(now, why, out);
            if let Part::Settling(settling) = &mut self.part {
                for (from, ballot) in early {
                    settling.early.entry(from).or_insert(ballot);
                }
            }
            return Ok(());
        }
        for (from, ballot) in early {
            let looks = ballot.state == State::Looking;
            if !votes || looks || matches!(self.part, Part::Looking(_)) {
                self.hear(now, from, ballot, out)?;
            }
        }
        Ok(())
    }

    /// Stops voting until everything on the disk is complete, and hears this ballot then.
    fn settle_first(&mut self, from: ServerId, ballot: Ballot) {
        self.election.wait();
        let (asked, early) = (self.part.take_asked(), BTreeMap::from([(from, ballot)]));
        self.part = Part::Settling(Settling { early, asked, ..Settling::default() });
    }

    /// Joins the designated leader of a newly committed configuration without an election. That may
    /// be this server.
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
        self.take_part(now, Decision { state, vote }, out)
    }

    /// Votes, with the history that this server has on disk.
    fn look(&mut self, now: Duration, out: &mut Vec<Output>) -> Result<(), Leave> {
        let me = self.options.me;
        let mut zxid = if self.has_database { self.history.last() } else { NO_ZXID };
        if faults::vote_from_the_tree() {
            zxid = zxid.min(self.history.delivered());
        }
        let epoch = self.standing().0.into();
        let standing = Vote { leader: me, zxid, epoch };
        let votes_only = Vote { zxid, epoch, ..Vote::NONE };
        let hasty = self.quorums.is_voter(me) && faults::stands_without_a_vote();
        let heir = match self.left {
            // It has exactly this server's history.
            Leave::HandedOver(heir) if self.quorums.committed().is_voter(heir) => heir,
            _ => me,
        };
        let (own, late) = if self.quorums.committed().is_voter(me) || hasty {
            (Vote { leader: heir, ..standing }, None)
        } else if self.quorums.is_voter(me) {
            (votes_only, Some(standing).filter(|_| !self.options.credulous))
        } else if self.quorums.is_observer(me) {
            (Vote::NONE, None)
        } else {
            (votes_only, None)
        };
        let mut posts = Vec::new();
        self.election.avoid(self.avoided(now));
        self.election.look(now, own, late, &mut posts);
        self.mesh.redial_later(now);
        self.post(now, posts, None, out)
    }
}
