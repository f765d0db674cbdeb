//! Doubt about this server's tree: the digest in a leader's transaction is not the tree's.
//!
//! The digest is a sum over all znodes, so a tree that once differs goes on differing, and one digest that agrees
//! later shows that the tree is right. A leader may send a wrong digest with a single transaction: the original does
//! after some requests, and then in all that it orders before those are applied. So one difference is a suspicion. When
//! nothing agrees for a while, the learner asks for the whole tree of its leader, once.
//!
//! A leader of this project announces that its digests are exact. A second difference in a row from such a leader, or
//! half a tick in which nothing has agreed, makes the suspicion a doubt: the learner serves no client, and tells its
//! leader. Were it to doubt a leader of the original's as soon, a client could have it turn away all others.
//!
//! A leader whose digests go on being wrong must not have it copy for ever. Where no digest has agreed since the last
//! copy, the copy has not helped: the two compute digests differently. The learner serves, and the next copy waits for
//! longer each time.
//!
//! The learner that is wrong and the leader that is wrong look the same from here. [`Reports`] tells them apart at the
//! leader: when a quorum of followers has the same digest at the same transaction and the leader has another one, the
//! leader is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::{Epoch, ServerId};

use crate::io::{Compared, Options, TreeDigest};
use crate::leave::Leave;
use crate::quorums::Quorums;

/// How much longer the longest pause between two copies is than the shortest: a day for a minute.
const PAUSE_GROWS: u32 = 1440;

const _: () = assert!(PAUSE_GROWS == 24 * 60, "a day has as many minutes");

/// What comes of digests that differ.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// The first digest in a row that differs.
    first: Option<TreeDigest>,
    /// When this is a doubt, unless a digest agrees before; `None`: it is one already, or nothing differs.
    doubts_at: Option<Duration>,
    /// Whether clients are kept away.
    is_doubted: bool,
    /// When the role ends, unless a digest agrees before.
    leaves_at: Option<Duration>,
    /// Whether the next leader is asked for its whole tree.
    wants_tree: bool,
    /// Whether a digest has agreed since the last tree was asked for.
    has_agreed: bool,
    /// No tree is asked for again before this.
    not_before: Duration,
    /// The last pause between two trees.
    pause: Duration,
    /// Whether the leader announces that its digests are exact.
    pub(crate) exact_digests: bool,
    /// An epoch far ahead that a leader has told.
    told: Option<Epoch>,
}

/// What changes with a comparison, or with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// The tree is doubted from now on, since this digest.
    Doubted(TreeDigest),
    /// It is doubted no more.
    Trusted,
}

impl Doubt {
    /// A learner's role begins.
    pub(crate) fn begin(&mut self) {
        (self.first, self.doubts_at, self.leaves_at) = (None, None, None);
        self.is_doubted = false;
    }

    /// Whether this epoch, which is far ahead, was told the last time as well.
    pub(crate) fn is_told_again(&mut self, epoch: Epoch) -> bool {
        self.told.replace(epoch) == Some(epoch)
    }

    /// A digest was compared.
    pub(crate) fn compared(&mut self, now: Duration, it: Compared, options: &Options) -> Change {
        let Compared { digest, differs } = it;
        if !differs {
            let was_doubted = self.is_doubted;
            self.begin();
            self.has_agreed = true;
            return if was_doubted { Change::Trusted } else { Change::None };
        }
        if zebu_proto::mutant!("another tree is served") {
            return Change::None;
        }
        if self.first.is_some() {
            return if self.exact_digests { self.doubt() } else { Change::None };
        }
        let may_ask = now >= self.not_before;
        if !may_ask && !self.trusts_digests() {
            // The last tree has not helped.
            return Change::None;
        }
        self.first = Some(digest);
        self.doubts_at = self.exact_digests.then_some(now + options.tick / 2);
        // Should several members see the same, they do not leave at once: a quorum is to stay, if it can.
        let turn = u32::try_from(options.me.0.rem_euclid(4)).unwrap_or(0);
        self.leaves_at = Some((now + options.tick * (1 + turn)).max(self.not_before));
        Change::None
    }

    /// Whether a difference is the tree's: a digest of this leader's has agreed with the tree that was copied last.
    fn trusts_digests(&self) -> bool {
        self.has_agreed && self.exact_digests
    }

    fn doubt(&mut self) -> Change {
        let Some(first) = self.first.filter(|_| !self.is_doubted) else { return Change::None };
        (self.is_doubted, self.doubts_at) = (true, None);
        Change::Doubted(first)
    }

    /// When there is something to do.
    pub(crate) fn due(&self) -> Duration {
        let due = [self.doubts_at, self.leaves_at].into_iter().flatten().min();
        due.unwrap_or(Duration::MAX)
    }

    /// Makes a suspicion a doubt, and ends the role when the doubt has lasted.
    pub(crate) fn tick(&mut self, now: Duration, options: &Options) -> Result<Change, Leave> {
        if self.leaves_at.is_none_or(|at| at > now) {
            let is_due = self.doubts_at.is_some_and(|at| at <= now);
            return Ok(if is_due { self.doubt() } else { Change::None });
        }
        self.begin();
        self.wants_tree = true;
        let is_first = self.trusts_digests() || now >= self.not_before + self.pause;
        let longer = (self.pause * 2).min(options.resync_pause * PAUSE_GROWS);
        self.pause = if is_first { options.resync_pause } else { longer };
        assert!(self.pause <= options.resync_pause * PAUSE_GROWS, "a pause of {:?}", self.pause);
        self.not_before = now + self.pause;
        self.has_agreed = false;
        Err(Leave::TreeDiffers)
    }

    /// Whether the leader's whole tree is to be asked for. That is tried once: a leader that nobody follows yet may
    /// need this server's history more.
    pub(crate) fn take_wish(&mut self) -> bool {
        std::mem::take(&mut self.wants_tree)
    }
}

/// What a follower with a doubted tree tells its leader.
pub(crate) fn report(first: TreeDigest) -> QuorumPacket {
    let data = first.tree.to_be_bytes().to_vec();
    QuorumPacket::with_data(PacketKind::TREE_DIFFERS, first.zxid, data)
}

/// At a leader: the followers that have another tree, as they say.
#[derive(Debug, Default)]
pub(crate) struct Reports(BTreeMap<ServerId, TreeDigest>);

impl Reports {
    /// A follower has another tree. Ends the role when a quorum agrees on it, for then the leader's tree is the wrong
    /// one.
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
        // A reconfiguration may have taken votes away since the others said so.
        self.0.retain(|server, _| quorums.is_voter(*server));
        let same: BTreeSet<_> =
            self.0.iter().filter(|(_, it)| **it == digest).map(|(server, _)| *server).collect();
        if quorums.all_have_quorum(&same) && !zebu_proto::mutant!("outvoted leader leads on") {
            return Err(Leave::TreeOutvoted { zxid: packet.zxid });
        }
        Ok(())
    }
}
