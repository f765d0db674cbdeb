//! A learner in discovery: it hears the leader's epoch, promises it, and tells its own history.
//! Source: `quorum-sync-broadcast.md` §2, `Learner.registerWithLeader`.

use zebu_proto::quorum::{EpochAck, LeaderInfo, NO_ZXID, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, Zxid};

use super::{Learner, State};
use crate::ctx::Ctx;
use crate::faults;
use crate::io::EpochKind;
use crate::leave::Leave;

/// An epoch at most this far ahead is promised at once. Otherwise a flipped bit could keep this
/// server out of all lower epochs.
const EPOCHS_APART_MAX: u32 = 1000;

impl Learner {
    pub(super) fn leader_info(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &QuorumPacket,
    ) -> Result<(), Leave> {
        if packet.kind != PacketKind::LEADERINFO {
            return Err(Leave::EpochNotTold(packet.kind));
        }
        self.epoch = packet.epoch();
        if packet.zxid < Zxid::ZERO {
            return Err(Leave::EpochImpossible(packet.zxid));
        }
        let is_over = self.epoch < ctx.epochs.accepted;
        let observes = is_over && self.may_observe(ctx);
        if is_over && !observes && !faults::old_epoch_accepted() {
            return Err(Leave::EpochOver { epoch: self.epoch, promised: ctx.epochs.accepted });
        }
        let info = LeaderInfo::decode(packet.data.as_deref());
        let theirs = info.ok().and_then(|info| info.identity);
        self.tells_identity = theirs.is_some();
        self.compare_ensembles(ctx, theirs.unwrap_or_default())?;
        ctx.doubt.exact_digests = info.is_ok_and(|info| info.exact_digests);
        let is_far = self.epoch.0 - ctx.epochs.accepted.0.min(self.epoch.0) > EPOCHS_APART_MAX;
        if is_far && !ctx.doubt.is_told_again(self.epoch, EPOCHS_APART_MAX) {
            // A promise cannot be withdrawn.
            return Err(Leave::EpochFarAhead { epoch: self.epoch, promised: ctx.epochs.accepted });
        }
        let is_promised = self.epoch == ctx.epochs.accepted || observes;
        if is_promised || faults::epoch_not_promised() {
            // It was promised before, or a later one was: the answer must not count.
            self.accept(ctx, None);
        } else {
            self.state = State::EpochPromise;
            ctx.save_epoch(EpochKind::Accepted, self.epoch);
        }
        Ok(())
    }

    /// Whether this server may learn from a leader whose epoch is below the promised one.
    ///
    /// A promise keeps what a server acknowledges out of the quorums of older leaders. No quorum
    /// contains an observer, so its promise binds it to nothing. Otherwise an observer that made a
    /// promise for nothing would stay outside until the next election, and for ever if one changed
    /// packet had told it the epoch. It refuses a leader only if its own history is of a later
    /// epoch. The promise stays on disk: it binds this server again when it becomes a voter. In the
    /// original the observer stays outside.
    fn may_observe(&self, ctx: &Ctx<'_>) -> bool {
        self.observer && self.epoch >= ctx.standing()
    }

    fn accept(&mut self, ctx: &mut Ctx<'_>, current_epoch: Option<Epoch>) {
        let wants_tree = ctx.doubt.take_wish();
        self.state = State::EpochAccepted { wants_tree };
        // A server without a history gets a snapshot.
        let zxid = if wants_tree { NO_ZXID } else { ctx.history_end() };
        let data = EpochAck { current_epoch }.to_data();
        self.send(ctx, QuorumPacket::with_data(PacketKind::ACKEPOCH, zxid, data));
    }

    pub(crate) fn epoch_saved(&mut self, ctx: &mut Ctx<'_>, kind: EpochKind, epoch: Epoch) {
        if epoch != self.epoch {
            return;
        }
        match (kind, &self.state) {
            (EpochKind::Accepted, State::EpochPromise) => {
                self.accept(ctx, Some(ctx.standing()));
            }
            (EpochKind::Current, State::EpochSync) => {
                self.state = State::Synchronized;
                self.deadline = ctx.now + ctx.options.sync_time();
                self.send(ctx, self.history_ack());
            }
            _ => {}
        }
    }
}
