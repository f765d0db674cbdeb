//! Handles a digest mismatch: the digest in a leader's transaction differs from that of this
//! server's tree.
//!
//! The digest is a sum over all znodes. So a tree that differs once keeps differing, and a single
//! later match proves the tree right. A leader may send a wrong digest with a single transaction:
//! the original does after some requests, until those are applied. So one mismatch is only a
//! suspicion. If no digest matches for a while, the learner asks its leader for a snapshot, once.
//!
//! A Zebu leader announces that its digests are exact. Then a second consecutive mismatch, or half
//! a tick without a match, turns the suspicion into doubt: the learner stops serving clients and
//! informs the leader. With a leader of the original that would be unsafe: a client could make the
//! learner refuse all other clients.
//!
//! A leader whose digests stay wrong must not cause endless snapshot transfers. If no digest has
//! matched since the last transfer, the two servers compute digests differently. The learner then
//! serves, and waits longer before each further transfer. A snapshot that was requested and has not
//! arrived says nothing: the tree is still the wrong one. Then the learner refuses clients in its
//! next role too, until a digest matches, and the next request waits for a few ticks only.
//!
//! A learner cannot tell whether its own tree or the leader's is wrong. [`Reports`] decides at the
//! leader: if a quorum of followers has the same digest at the same transaction, and the leader
//! another one, the leader is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::{Epoch, ServerId};

use crate::faults;
use crate::io::{Compared, Options, TreeDigest};
use crate::leave::Leave;
use crate::quorums::Quorums;

/// Ratio of the longest to the shortest pause between two snapshot transfers: a day to a minute.
const PAUSE_GROWS: u32 = 1440;

const _: () = assert!(PAUSE_GROWS == 24 * 60, "a day has as many minutes");

/// The state of digest mismatches.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// The first of the consecutive mismatches.
    first: Option<TreeDigest>,
    /// When the suspicion becomes doubt, unless a digest matches before. `None`: doubted already,
    /// or no mismatch.
    doubts_at: Option<Duration>,
    /// Whether clients are refused.
    is_doubted: bool,
    /// When the role ends, unless a digest matches before.
    leaves_at: Option<Duration>,
    /// Whether to ask the next leader for a snapshot.
    wants_tree: bool,
    /// The mismatch because of which the last role ended in doubt, until a digest matches or a
    /// snapshot is installed: this server still has the wrong tree.
    unresolved: Option<TreeDigest>,
    /// Whether a digest has matched since the last snapshot was requested.
    has_agreed: bool,
    /// No snapshot is requested before this time.
    not_before: Duration,
    /// The last pause between two snapshot requests.
    pause: Duration,
    /// The number of requests in a row that have brought no snapshot.
    unanswered: u32,
    /// Whether the leader announces that its digests are exact.
    pub(crate) exact_digests: bool,
    /// An epoch far ahead that a leader has announced.
    told: Option<Epoch>,
}

/// The result of a comparison or a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// The tree is doubted from now on, because of this digest.
    Doubted(TreeDigest),
    /// The tree is trusted again.
    Trusted,
}

impl Doubt {
    /// A learner's role begins.
    pub(crate) fn begin(&mut self) {
        (self.first, self.doubts_at, self.leaves_at) = (None, None, None);
        self.is_doubted = false;
    }

    /// Whether the epoch announced before this one, which is far ahead, was at most `apart` away. A
    /// leader that found no quorum begins a later epoch the next time.
    pub(crate) fn is_told_again(&mut self, epoch: Epoch, apart: u32) -> bool {
        let before = self.told.replace(epoch);
        before.is_some_and(|before| before.0.abs_diff(epoch.0) <= apart)
    }

    /// A digest was compared.
    pub(crate) fn compared(&mut self, now: Duration, it: Compared, options: &Options) -> Change {
        let Compared { digest, differs } = it;
        if !differs {
            let was_doubted = self.is_doubted;
            self.begin();
            (self.has_agreed, self.unanswered, self.unresolved) = (true, 0, None);
            return if was_doubted { Change::Trusted } else { Change::None };
        }
        if faults::another_tree_is_served() {
            return Change::None;
        }
        if self.first.is_some() {
            return if self.exact_digests { self.doubt() } else { Change::None };
        }
        let is_known = self.unanswered > 0;
        let may_ask = is_known || now >= self.not_before;
        if !may_ask && !self.trusts_digests() {
            // The last snapshot has not helped.
            return Change::None;
        }
        self.suspect(now, digest, options);
        if is_known && self.exact_digests { self.doubt() } else { Change::None }
    }

    /// Begins a suspicion because of a mismatch.
    fn suspect(&mut self, now: Duration, digest: TreeDigest, options: &Options) {
        self.first = Some(digest);
        self.doubts_at = self.exact_digests.then_some(now + options.tick / 2);
        // Members that see the same mismatch leave at different times, so that a quorum remains if
        // possible.
        let turn = u32::try_from(options.me.0.rem_euclid(4)).unwrap_or(0);
        let not_before = self.next_request(options);
        self.leaves_at = Some((now + options.tick * (1 + turn)).max(not_before));
    }

    /// This server is synchronized and would serve. It does not if it still has the wrong tree.
    pub(crate) fn resume(&mut self, now: Duration, options: &Options) -> Change {
        match self.unresolved.filter(|_| self.exact_digests) {
            Some(digest) if !faults::doubt_ends_with_the_role() => {
                self.suspect(now, digest, options);
                self.doubt()
            }
            _ => Change::None,
        }
    }

    /// Whether a mismatch shows that the tree is wrong: digests of this leader have matched the
    /// last snapshot.
    fn trusts_digests(&self) -> bool {
        self.has_agreed && self.exact_digests
    }

    /// When the next snapshot may be requested.
    fn next_request(&self, options: &Options) -> Duration {
        if self.unanswered == 0 {
            return self.not_before;
        }
        let asked = self.not_before.saturating_sub(self.pause);
        asked + (options.tick * (1 << self.unanswered.min(16))).min(self.pause)
    }

    fn doubt(&mut self) -> Change {
        let Some(first) = self.first.filter(|_| !self.is_doubted) else { return Change::None };
        (self.is_doubted, self.doubts_at) = (true, None);
        Change::Doubted(first)
    }

    /// When [`Doubt::tick`] is due.
    pub(crate) fn due(&self) -> Duration {
        let due = [self.doubts_at, self.leaves_at].into_iter().flatten().min();
        due.unwrap_or(Duration::MAX)
    }

    /// Turns a suspicion into doubt, and ends the role when the doubt has lasted long enough.
    pub(crate) fn tick(&mut self, now: Duration, options: &Options) -> Result<Change, Leave> {
        if self.leaves_at.is_none_or(|at| at > now) {
            let is_due = self.doubts_at.is_some_and(|at| at <= now);
            return Ok(if is_due { self.doubt() } else { Change::None });
        }
        self.unresolved = self.first.filter(|_| self.is_doubted).or(self.unresolved);
        self.begin();
        self.wants_tree = true;
        if self.unanswered == 0 {
            let is_first = self.trusts_digests() || now >= self.not_before + self.pause;
            let longer = (self.pause * 2).min(options.resync_pause * PAUSE_GROWS);
            self.pause = if is_first { options.resync_pause } else { longer };
        }
        assert!(self.pause <= options.resync_pause * PAUSE_GROWS, "a pause of {:?}", self.pause);
        self.not_before = now + self.pause;
        self.has_agreed = false;
        Err(Leave::TreeDiffers)
    }

    /// Takes the wish for a snapshot. It counts once: a leader without followers may need this
    /// server's history.
    pub(crate) fn take_wish(&mut self) -> bool {
        let wants = std::mem::take(&mut self.wants_tree);
        self.unanswered = self.unanswered.saturating_add(u32::from(wants));
        wants
    }

    /// A snapshot is installed.
    pub(crate) fn restored(&mut self) {
        (self.unanswered, self.unresolved) = (0, None);
    }
}

/// A follower's report to its leader that its tree is doubted.
pub(crate) fn report(first: TreeDigest) -> QuorumPacket {
    let data = first.tree.to_be_bytes().to_vec();
    QuorumPacket::with_data(PacketKind::TREE_DIFFERS, first.zxid, data)
}

/// At a leader: the followers that report a different tree.
#[derive(Debug, Default)]
pub(crate) struct Reports(BTreeMap<ServerId, TreeDigest>);

impl Reports {
    /// A follower reports a different tree. Ends the role if a quorum reports the same one: the
    /// leader's tree is then wrong.
    pub(crate) fn add(
        &mut self,
        from: ServerId,
        packet: &QuorumPacket,
        epoch: Epoch,
        quorums: &Quorums,
    ) -> Result<(), Leave> {
        let tree = packet.body().first_chunk().map(|bytes| i64::from_be_bytes(*bytes));
        let Some(tree) = tree.filter(|_| quorums.is_voter(from) && packet.epoch() == epoch) else {
            return Ok(());
        };
        let digest = TreeDigest { zxid: packet.zxid, tree };
        self.0.insert(from, digest);
        // A reconfiguration may have removed voters since their reports.
        self.0.retain(|server, _| quorums.is_voter(*server));
        let same: BTreeSet<_> =
            self.0.iter().filter(|(_, it)| **it == digest).map(|(server, _)| *server).collect();
        if quorums.all_have_quorum(&same) && !faults::outvoted_leader_leads_on() {
            return Err(Leave::TreeOutvoted { zxid: packet.zxid });
        }
        Ok(())
    }
}
