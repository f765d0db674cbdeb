//! How a learner gets a server's history: which way, and what is to be sent.
//!
//! Source: `quorum-sync-broadcast.md` §3, `LearnerHandler.syncFollower`.

use bytes::Bytes;
use zebu_proto::Zxid;
use zebu_proto::quorum::{NO_ZXID, PacketKind, QuorumPacket};

use crate::ctx::Ctx;
use crate::history::{Txn, follows};
use crate::io::{LinkId, LogEnd, Options, Output};

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A part of the log on disk.
    Reading,
    /// The whole tree is to be sent.
    Copy,
    /// Nothing: everything up to the end is on its way.
    Done,
    /// Nothing: what has been sent leads nowhere. Next time the whole tree is to be sent.
    Broken,
}

/// A part of the log on disk, as it was read.
pub(crate) struct LogRead {
    /// In the first part, the newest transaction at or below where reading began.
    pub(crate) floor: Option<Zxid>,
    pub(crate) txns: Vec<(Zxid, Bytes)>,
    pub(crate) end: LogEnd,
}

/// How a learner gets a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With the whole tree.
    Copy,
    /// With what it lacks.
    Diff,
}

impl Way {
    /// How many observers may get it this way at a time.
    pub(crate) fn most(self, options: &Options) -> usize {
        match self {
            Self::Copy => options.syncs_max.copies,
            Self::Diff => options.syncs_max.diffs,
        }
    }
}

/// A way through the history from where a learner stands.
#[derive(Clone, Debug)]
pub(crate) struct Catchup {
    peer: Zxid,
    synced_before: bool,
    /// The newest transaction at or below `peer` on disk, once that is known.
    floor: Option<Zxid>,
    before: Option<Zxid>,
    /// Where the last reading of the log on disk began.
    read_from: Zxid,
    queued: Zxid,
    chosen: bool,
}

impl Catchup {
    /// For a learner whose newest zxid is `peer`; `synced_before` says whether it has a history of
    /// its own.
    pub(crate) fn new(peer: Zxid, synced_before: bool) -> Self {
        let (floor, before) = (None, None);
        let read_from = NO_ZXID;
        Self { peer, synced_before, floor, before, read_from, queued: peer, chosen: false }
    }

    /// For a learner that has been sent the tree as of `copy`.
    pub(crate) fn behind(copy: Zxid) -> Self {
        let floor = Some(copy);
        Self { floor, chosen: true, ..Self::new(copy, true) }
    }

    /// Decides for the history up to `end`, and begins.
    pub(crate) fn begin(&mut self, ctx: &mut Ctx<'_>, id: LinkId, end: Zxid) -> Next {
        let peer = self.peer;
        if ctx.options.always_copy {
            return Next::Copy;
        }
        if peer == end {
            ctx.out.push(Output::Send(id, QuorumPacket::new(PacketKind::DIFF, end)));
            return Next::Done;
        }
        if !self.synced_before || peer < Zxid::ZERO {
            return Next::Copy;
        }
        if peer > end {
            if peer.counter() == 0 {
                return Next::Copy;
            }
            let trunc = if zebu_proto::mutant!("diff instead of trunc") {
                PacketKind::DIFF
            } else {
                PacketKind::TRUNC
            };
            ctx.out.push(Output::Send(id, QuorumPacket::new(trunc, end)));
            return Next::Done;
        }
        let min = oldest(ctx, end);
        if peer >= min {
            return self.send_memory(ctx, id, end);
        }
        let Some(share) = ctx.options.log_share else { return Next::Copy };
        ctx.out.push(Output::ReadLog { link: id, after: peer, up_to: min, share });
        Next::Reading
    }

    /// A part of the log on disk has been read.
    pub(crate) fn log_read(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: LinkId,
        end: Zxid,
        LogRead { floor, txns, end: log_end }: LogRead,
    ) -> Next {
        let mut usable = log_end != LogEnd::Unusable;
        if let Some(floor) = floor.filter(|_| self.floor.is_none()) {
            self.floor = Some(floor);
            if floor == self.peer {
                self.choose(PacketKind::DIFF, end, id, ctx.out);
            }
        }
        // The log must reach back to what the learner has.
        usable = usable && self.floor.is_some();
        for (zxid, record) in txns {
            usable = usable && self.take(&Txn { zxid, record }, end, id, ctx.out);
        }
        if !usable {
            return if self.chosen { Next::Broken } else { Next::Copy };
        }
        if log_end != LogEnd::Complete {
            return Next::Reading;
        }
        self.go_on(ctx, id, end)
    }

    /// Sends what lies between what has been sent and the end, or the first of it.
    pub(crate) fn go_on(&mut self, ctx: &mut Ctx<'_>, id: LinkId, end: Zxid) -> Next {
        let min = oldest(ctx, end);
        if self.queued >= min {
            return self.send_memory(ctx, id, end);
        }
        // Memory has moved on meanwhile, unless the log does not lead to it at all.
        if self.queued == self.read_from {
            return Next::Broken;
        }
        self.read_from = self.queued;
        let (after, up_to) = (self.queued, min);
        ctx.out.push(Output::ReadLog { link: id, after, up_to, share: 0.0 });
        Next::Reading
    }

    /// Sends what memory has beyond what has been sent.
    fn send_memory(&mut self, ctx: &mut Ctx<'_>, id: LinkId, end: Zxid) -> Next {
        let mut known = ctx.history.all().take_while(|txn| txn.zxid <= end);
        let usable = known.all(|txn| self.take(txn, end, id, ctx.out));
        match (usable, self.chosen) {
            (true, true) => Next::Done,
            (false, true) => Next::Broken,
            (_, false) => Next::Copy,
        }
    }

    fn choose(&mut self, kind: PacketKind, zxid: Zxid, id: LinkId, out: &mut Vec<Output>) {
        self.chosen = true;
        out.push(Output::Send(id, QuorumPacket::new(kind, zxid)));
    }

    /// Takes the next transaction of the history; false when the learner's is not a prefix of it
    /// and cannot be made one by cutting it.
    fn take(&mut self, txn: &Txn, end: Zxid, id: LinkId, out: &mut Vec<Output>) -> bool {
        let zxid = txn.zxid;
        if zxid < self.peer {
            self.before = Some(zxid);
            return true;
        }
        if !self.chosen {
            if zxid == self.peer || self.peer.counter() == 0 {
                self.choose(PacketKind::DIFF, end, id, out);
            } else {
                // The learner has a transaction that this leader does not know.
                let Some(before) = self.before.or(self.floor) else { return false };
                assert!(before < self.peer, "{before} is no cut below {}", self.peer);
                if zebu_proto::mutant!("unknown transaction kept") {
                    self.choose(PacketKind::DIFF, end, id, out);
                } else if before.epoch() != self.peer.epoch() {
                    // Nobody knows that the learner has the transaction to cut at.
                    return false;
                } else {
                    self.choose(PacketKind::TRUNC, before, id, out);
                }
                self.queued = before;
            }
        }
        if zxid <= self.queued {
            return true;
        }
        // Equal epochs go on without a hole; the log on disk is not trusted with that.
        if zxid.epoch() == self.queued.epoch() && !follows(self.queued, zxid) {
            return false;
        }
        assert!(self.chosen, "{zxid} is sent before it is told how");
        self.queued = zxid;
        out.push(Output::Send(id, proposal(txn)));
        out.push(Output::Send(id, QuorumPacket::new(PacketKind::COMMIT, zxid)));
        true
    }
}

/// The oldest transaction in memory, or the end if there is none up to there: what lies beyond may yet
/// be taken back.
fn oldest(ctx: &Ctx<'_>, end: Zxid) -> Zxid {
    ctx.history.all().next().map_or(end, |txn| txn.zxid.min(end))
}

/// A transaction on its way to a learner that votes, or is being brought up to date.
pub(crate) fn proposal(txn: &Txn) -> QuorumPacket {
    QuorumPacket::with_data(PacketKind::PROPOSAL, txn.zxid, txn.record.clone())
}
