//! How a learner is brought to a server's history: the method, and the packets to send.
//! Source: `quorum-sync-broadcast.md` §3, `LearnerHandler.syncFollower`.

use bytes::Bytes;
use zebu_proto::Zxid;
use zebu_proto::quorum::{NO_ZXID, PacketKind, QuorumPacket};

use crate::ctx::Ctx;
use crate::faults;
use crate::history::{Txn, follows};
use crate::io::{LinkId, LogEnd, Options, Output};

/// The next step of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for a part of the log on disk.
    Reading,
    /// Send a snapshot.
    Copy,
    /// Nothing: all packets up to the end are queued.
    Done,
    /// Give up: the packets sent lead to a gap. The next attempt sends a snapshot.
    Broken,
}

/// A part of the log as read from disk.
pub(crate) struct LogRead {
    /// Only in the first part: the newest transaction at or below the start of reading.
    pub(crate) floor: Option<Zxid>,
    pub(crate) txns: Vec<(Zxid, Bytes)>,
    pub(crate) end: LogEnd,
}

/// The method of synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A snapshot (SNAP).
    Copy,
    /// The missing transactions (DIFF or TRUNC).
    Diff,
}

impl Way {
    /// How many observers may be synchronized with this method at a time.
    pub(crate) fn most(self, options: &Options) -> usize {
        match self {
            Self::Copy => options.syncs_max.copies,
            Self::Diff => options.syncs_max.diffs,
        }
    }
}

/// The synchronization of one learner.
#[derive(Clone, Debug)]
pub(crate) struct Catchup {
    peer: Zxid,
    synced_before: bool,
    /// The newest transaction at or below `peer` on disk, once known.
    floor: Option<Zxid>,
    before: Option<Zxid>,
    /// Where the last read of the log began.
    read_from: Zxid,
    queued: Zxid,
    chosen: bool,
}

impl Catchup {
    /// For a learner whose newest zxid is `peer`. `synced_before`: whether it has a history of its
    /// own.
    pub(crate) fn new(peer: Zxid, synced_before: bool) -> Self {
        let (floor, before) = (None, None);
        let read_from = NO_ZXID;
        Self { peer, synced_before, floor, before, read_from, queued: peer, chosen: false }
    }

    /// For a learner that has been sent a snapshot as of `copy`.
    pub(crate) fn behind(copy: Zxid) -> Self {
        let floor = Some(copy);
        Self { floor, chosen: true, ..Self::new(copy, true) }
    }

    /// Chooses the method for the history up to `end`, and starts.
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
            let trunc =
                if faults::diff_instead_of_trunc() { PacketKind::DIFF } else { PacketKind::TRUNC };
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

    /// A part of the log on disk was read.
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
        // The log must reach back to the learner's history.
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

    /// Sends the next part between the transactions already sent and the end.
    pub(crate) fn go_on(&mut self, ctx: &mut Ctx<'_>, id: LinkId, end: Zxid) -> Next {
        let min = oldest(ctx, end);
        if self.queued >= min {
            return self.send_memory(ctx, id, end);
        }
        // The history in memory may have moved on meanwhile. If not, the log does not lead to it.
        if self.queued == self.read_from {
            return Next::Broken;
        }
        self.read_from = self.queued;
        let (after, up_to) = (self.queued, min);
        ctx.out.push(Output::ReadLog { link: id, after, up_to, share: 0.0 });
        Next::Reading
    }

    /// Sends the transactions in memory after those already sent.
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

    /// Takes the next transaction of the history. False if the learner's history is not a prefix
    /// and truncation cannot make it one.
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
                if faults::unknown_transaction_kept() {
                    self.choose(PacketKind::DIFF, end, id, out);
                } else if before.epoch() != self.peer.epoch() {
                    // The learner may not have the transaction to truncate at.
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
        // Transactions of one epoch have no gaps; the log on disk is checked for that.
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

/// The oldest transaction in memory, or `end` if none is older: later ones are uncommitted.
fn oldest(ctx: &Ctx<'_>, end: Zxid) -> Zxid {
    ctx.history.all().next().map_or(end, |txn| txn.zxid.min(end))
}

/// A proposal for a follower, or for a learner that is being synchronized.
pub(crate) fn proposal(txn: &Txn) -> QuorumPacket {
    QuorumPacket::with_data(PacketKind::PROPOSAL, txn.zxid, txn.record.clone())
}
