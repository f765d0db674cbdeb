//! Metrics of a member's work with the other servers: elections, synchronizations, and the time
//! that transactions take between servers.
//!
//! The time of a transaction begins with the time in its header, which comes from the leader's wall
//! clock. A negative time, which clocks that differ can cause, is not counted.
//!
//! Source: `Request.logLatency`, `LearnerHandler`, `QuorumPeer.setZabState`, `Leader.lead`,
//! `Follower.followLeader`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use zebu_jute::Decoder;
use zebu_proto::Zxid;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::txn::TxnHeader;
use zebu_replica::Now;
use zebu_zab::{Input, LinkId, Output};

use crate::metrics::{Metrics, PercentileSummary};
use crate::shared::{MarkedProposal, Shared};

/// How a learner is brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Copy,
    Diff,
}

/// The counters, and the state that they need.
pub struct MemberCounts {
    shared: Arc<Shared>,
    /// The time since which this server looks for a leader.
    looking: Option<Duration>,
    /// The time since which it does not serve clients.
    unavailable: Option<Duration>,
    leads: bool,
    /// The number of times that it gave up leading before its leadership was established.
    given_up: u64,
    /// Its own id.
    me: String,
    /// Whether its own acknowledgement of the marked proposal has been counted.
    timed_own: bool,
    proposals: Proposals,
    /// Learners that are being synchronized.
    syncs: BTreeMap<LinkId, Way>,
}

impl MemberCounts {
    /// The initial state.
    pub fn new(shared: Arc<Shared>) -> Self {
        let me = shared.config.ensemble.as_ref().map_or_else(String::new, |it| it.me.0.to_string());
        Self {
            shared,
            looking: None,
            unavailable: None,
            leads: false,
            given_up: 0,
            me,
            timed_own: false,
            proposals: Proposals::default(),
            syncs: BTreeMap::new(),
        }
    }

    /// From now on, this server looks for a leader. `given_up`: how often it has given up leading
    /// because a voter that had elected it looked for a leader again.
    pub fn looks(&mut self, given_up: u64) {
        let (now, metrics) = (self.shared.clock.monotonic(), &self.shared.metrics);
        metrics.looking_count.add(1);
        let before = std::mem::replace(&mut self.given_up, given_up);
        metrics.quit_leading_due_to_disloyal_voter.add(given_up - before);
        self.looking = Some(now);
        self.unavailable.get_or_insert(now);
        self.leads = false;
        self.syncs.clear();
    }

    /// Whether this server is an observer, so that it has no part in elections.
    fn observes(&self) -> bool {
        let members = self.shared.ensemble.members.lock();
        let me = self.shared.config.ensemble.as_ref().map(|ensemble| ensemble.me);
        members.as_ref().zip(me).is_some_and(|(members, me)| members.is_observer(me))
    }

    /// This server has a role now.
    pub fn serves(&mut self, leads: bool) {
        let metrics = &self.shared.metrics;
        self.leads = leads;
        let Some(since) = self.unavailable.take() else { return };
        let took = ms(self.shared.clock.monotonic().saturating_sub(since));
        metrics.unavailable_time.add(took);
        if leads {
            metrics.leader_unavailable_time.add(took);
        }
    }

    /// An event of the network or the disk, before the replica gets it.
    pub fn hears(&mut self, now: Now, input: &Input) {
        match input {
            Input::Flushed(zxid) if self.leads => {
                self.proposals.acknowledged.reach(*zxid, now.wall_ms);
                // This server's acknowledgement covers all transactions up to this one.
                let counting = &self.shared.counting;
                let marked = counting.marked();
                if let Some(marked) = marked.filter(|it| it.zxid <= *zxid && !self.timed_own) {
                    self.timed_own = true;
                    let metrics = &self.shared.metrics;
                    counting.acknowledged(marked.zxid, &self.me, metrics, || now.wall_ms);
                }
            }
            Input::Packet(link, QuorumPacket { kind: PacketKind::ACK, zxid, .. })
                if zxid.counter() == 0 =>
            {
                // This server is synchronized.
                if let Some(way) = self.syncs.remove(link) {
                    self.count_syncs(way);
                }
            }
            Input::LinkDown(link) => drop(self.syncs.remove(link)),
            _ => {}
        }
    }

    /// An output of the replica.
    pub fn asked(&mut self, now: Now, output: &Output) {
        let metrics = &self.shared.metrics;
        match output {
            Output::Listen | Output::Connect(_) | Output::ConnectToMaster(_) => {
                // The election has just ended. Observers do not vote.
                if let Some(since) = self.looking.take().filter(|_| !self.observes()) {
                    let took = self.shared.clock.monotonic().saturating_sub(since);
                    metrics.election_time.add(ms(took));
                }
            }
            Output::SendCopy(link) => {
                metrics.snap_count.add(1);
                self.begins(*link, Way::Copy);
            }
            Output::Close(link) => drop(self.syncs.remove(link)),
            Output::Send(link, QuorumPacket { kind, zxid, .. }) => match *kind {
                PacketKind::DIFF | PacketKind::TRUNC => {
                    metrics.diff_count.add(1);
                    self.begins(*link, Way::Diff);
                }
                PacketKind::ACK => self.proposals.acknowledged.reach(*zxid, now.wall_ms),
                PacketKind::COMMIT | PacketKind::INFORM if self.leads => {
                    self.proposals.committed.reach(*zxid, now.wall_ms);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// A transaction is about to be logged.
    pub fn logged(&mut self, zxid: Zxid, record: &[u8]) {
        let Some(made_ms) = made_ms(record) else { return };
        self.proposals.add(zxid, made_ms, &self.shared.metrics);
        if self.leads && self.shared.counting.mark(MarkedProposal { zxid, made_ms }) {
            self.timed_own = false;
        }
    }

    /// A transaction is about to be applied.
    pub fn applied(&mut self, now: Now, zxid: Zxid) {
        if self.leads {
            self.proposals.committed.reach(zxid, now.wall_ms);
        }
        self.proposals.applied = zxid.max(self.proposals.applied);
    }

    /// Counts the transactions of the outputs that have been carried out.
    pub fn carried_out(&mut self) {
        if self.proposals.count(&self.shared.metrics) {
            self.shared.counting.unmark(self.proposals.committed.reached);
        }
    }

    fn begins(&mut self, link: LinkId, way: Way) {
        self.syncs.insert(link, way);
        self.count_syncs(way);
    }

    /// Counts how many learners are being synchronized in one way.
    fn count_syncs(&self, way: Way) {
        let count = self.syncs.values().filter(|other| **other == way).count() as i64;
        let metrics = &self.shared.metrics;
        match way {
            Way::Copy => metrics.inflight_snap_count.add(count),
            Way::Diff => metrics.inflight_diff_count.add(count),
        }
    }
}

/// The time at which the leader made a transaction, by the leader's wall clock.
fn made_ms(record: &[u8]) -> Option<i64> {
    let mut from = Decoder::new(record);
    <TxnHeader as zebu_jute::Decode>::decode(&mut from).ok().map(|header| header.time_ms)
}

/// A time as metrics count it, in whole milliseconds.
pub fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The time since the leader made a transaction, if the clocks agree that it is in the past.
pub fn latency(now_ms: i64, made_ms: i64) -> Option<i64> {
    let latency = now_ms.saturating_sub(made_ms);
    (latency >= 0).then_some(latency)
}

/// Transactions that are logged here but not applied yet, oldest first, with the time at which the
/// leader made them. What has been reached is counted later, for many transactions together.
#[derive(Debug, Default)]
struct Proposals {
    made: VecDeque<(Zxid, i64)>,
    acknowledged: Place,
    committed: Place,
    /// The newest applied transaction.
    applied: Zxid,
}

/// How far the transactions have come on one way.
#[derive(Debug, Default)]
struct Place {
    /// The newest transaction that has come here, and the time of that.
    reached: Zxid,
    at_ms: i64,
    /// The newest one that is counted.
    counted: Zxid,
}

impl Place {
    /// A transaction, and all before it, have come here.
    fn reach(&mut self, zxid: Zxid, now_ms: i64) {
        if zxid > self.reached {
            (self.reached, self.at_ms) = (zxid, now_ms);
        }
    }

    /// The log was truncated: what comes next is `zxid`.
    fn truncate(&mut self, zxid: Zxid) {
        let last = Zxid(zxid.0 - 1);
        self.reached = self.reached.min(last);
        self.counted = self.counted.min(last);
    }

    /// Counts what has come here since the last call. Returns whether there was anything.
    fn count(&mut self, made: &VecDeque<(Zxid, i64)>, metric: &PercentileSummary) -> bool {
        if self.reached <= self.counted {
            return false;
        }
        let mut times = metric.gather();
        let from = made.partition_point(|(zxid, _)| *zxid <= self.counted);
        for (_, made_ms) in made.range(from..).take_while(|(zxid, _)| *zxid <= self.reached) {
            if let Some(time) = latency(self.at_ms, *made_ms) {
                times.add(time);
            }
        }
        self.counted = self.reached;
        true
    }
}

impl Proposals {
    fn add(&mut self, zxid: Zxid, made_ms: i64, metrics: &Metrics) {
        if self.made.back().is_some_and(|(newest, _)| *newest >= zxid) {
            // The log was truncated before the transactions that this one replaces.
            self.count(metrics);
            while self.made.back().is_some_and(|(newest, _)| *newest >= zxid) {
                self.made.pop_back();
            }
        }
        self.acknowledged.truncate(zxid);
        self.committed.truncate(zxid);
        self.applied = self.applied.min(Zxid(zxid.0 - 1));
        self.made.push_back((zxid, made_ms));
    }

    /// Counts what has been reached, and removes what is applied. Returns whether something was
    /// committed.
    fn count(&mut self, metrics: &Metrics) -> bool {
        let Self { made, acknowledged, committed, applied } = self;
        acknowledged.count(made, &metrics.proposal_ack_creation_latency);
        let any = committed.count(made, &metrics.quorum_ack_latency);
        while made.front().is_some_and(|(oldest, _)| oldest <= applied) {
            made.pop_front();
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::Epoch;

    use super::*;

    fn at(epoch: u32, counter: u32) -> Zxid {
        Zxid::new(Epoch(epoch), counter)
    }

    #[test]
    fn each_transaction_counts_once_at_each_place() {
        let metrics = Metrics::default();
        let counted =
            |metric: &PercentileSummary| (metric.summary().count(), metric.summary().sum());
        let mut proposals = Proposals::default();
        for counter in 1..=4 {
            proposals.add(at(1, counter), 100, &metrics);
        }
        proposals.committed.reach(at(1, 1), 104);
        assert!(proposals.count(&metrics));
        proposals.committed.reach(at(1, 2), 106);
        proposals.acknowledged.reach(at(1, 2), 106);
        proposals.acknowledged.reach(at(1, 3), 107);
        assert_eq!(counted(&metrics.quorum_ack_latency), (1, 4), "it is counted later");
        assert!(proposals.count(&metrics));
        proposals.committed.reach(at(1, 2), 500);
        proposals.acknowledged.reach(at(1, 0), 500);
        assert!(!proposals.count(&metrics));
        assert_eq!(counted(&metrics.quorum_ack_latency), (2, 10));
        assert_eq!(counted(&metrics.proposal_ack_creation_latency), (3, 21));
        proposals.applied = at(1, 2);
        // The clock was put back.
        proposals.committed.reach(at(1, 3), 90);
        assert!(proposals.count(&metrics));
        assert_eq!((counted(&metrics.quorum_ack_latency), proposals.made.len()), ((2, 10), 2));
        // Another leader's transaction, in the place of a truncated one.
        proposals.add(at(2, 1), 110, &metrics);
        proposals.add(at(1, 4), 200, &metrics);
        proposals.committed.reach(at(1, 4), 202);
        proposals.applied = at(1, 4);
        assert!(proposals.count(&metrics));
        assert_eq!(counted(&metrics.quorum_ack_latency), (3, 12));
        assert!(proposals.made.is_empty());
    }

    #[test]
    fn what_replaces_a_truncated_transaction_counts_too() {
        let metrics = Metrics::default();
        let mut proposals = Proposals::default();
        proposals.add(at(1, 1), 100, &metrics);
        proposals.committed.reach(at(1, 1), 101);
        proposals.add(at(1, 1), 100, &metrics);
        proposals.committed.reach(at(1, 1), 103);
        assert!(proposals.count(&metrics));
        assert_eq!(metrics.quorum_ack_latency.summary().sum(), 4);
    }
}
