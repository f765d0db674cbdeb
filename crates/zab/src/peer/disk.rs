//! A member and its disk: reports of finished requests, the disk's progress, and what the disk has
//! to store of commits.

use std::sync::Arc;
use std::time::Duration;

use zebu_proto::{Epoch, Zxid};

use super::{Part, Peer};
use crate::config::Membership;
use crate::faults;
use crate::io::{EpochKind, Output};
use crate::leave::Leave;

/// How far the committed zxid on disk may lag behind.
const TELL_PAUSE: Duration = Duration::from_millis(200);

impl Peer {
    /// The log is durable up to `zxid`. Ignored while the log is being truncated or replaced: the
    /// sync then concerned records that are removed.
    pub(super) fn flushed(&mut self, now: Duration, zxid: Zxid, out: &mut Vec<Output>) {
        if self.busy.changes_the_log() {
            return;
        }
        self.history.set_flushed(zxid);
        match self.split(now, out) {
            (Part::Leading(leader, _), mut ctx) => leader.flushed(&mut ctx),
            (Part::Learning(learner, _), mut ctx) => learner.flushed(&mut ctx),
            (Part::Settling(_) | Part::Looking(_), _) => {}
        }
    }

    pub(super) fn epoch_saved(
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
            (Part::Leading(leader, _), mut ctx) => leader.epoch_saved(&mut ctx, kind, epoch),
            (Part::Learning(learner, _), mut ctx) => {
                learner.epoch_saved(&mut ctx, kind, epoch);
                Ok(())
            }
            (Part::Settling(_) | Part::Looking(_), _) => Ok(()),
        }
    }

    /// The log was truncated as requested, or no snapshot and log lead there.
    pub(super) fn truncated(
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
            Part::Learning(learner, _) => learner.truncated(&mut ctx, end.is_some()),
            _ => Ok(()),
        }
    }

    /// The tree was reloaded from disk.
    pub(super) fn reloaded(&mut self, end: Option<Zxid>) {
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
    pub(super) fn restored(
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
        if !faults::copied_change_is_hearsay() {
            ctx.config_found(config);
        }
        match part {
            Part::Learning(learner, _) => learner.restored(&mut ctx, zxid),
            _ => Ok(()),
        }
    }

    /// Tree and log now end at `zxid`.
    pub(super) fn cut(&mut self, zxid: Zxid) {
        if zxid < self.history.delivered() {
            self.history.reset(zxid);
        } else {
            self.history.cut(zxid);
            self.history.set_flushed(zxid);
        }
    }

    /// Ends the role if this server's own disk is too far behind.
    pub(super) fn watch_disk(&mut self, now: Duration) -> Result<(), Leave> {
        let (behind, disk_progress) = match &mut self.part {
            Part::Leading(leader, tenure) => {
                tenure.disk_progress.look(now, &self.history, leader.epoch().is_some());
                (leader.falls_behind(&self.history), tenure.disk_progress)
            }
            Part::Learning(learner, tenure) => {
                tenure.disk_progress.look(now, &self.history, learner.serving().is_some());
                (false, tenure.disk_progress)
            }
            Part::Settling(_) | Part::Looking(_) => return Ok(()),
        };
        let hangs =
            disk_progress.due(self.options.sync_time()) <= now && !faults::hung_disk_leads_on();
        if behind {
            return Err(Leave::DiskBehind);
        }
        if hangs { Err(Leave::DiskHangs(self.options.sync_time())) } else { Ok(()) }
    }

    /// Whether all requests to the disk are complete.
    pub(super) fn is_settled(&self) -> bool {
        !self.busy.any() && self.history.flushed() == self.history.last()
    }

    /// If this server is to vote, its vote must equal what is on disk, so it reloads the tree.
    /// Returns whether it must wait for that.
    ///
    /// The dropped transactions were committed without it.
    pub(super) fn forget_unlogged(&mut self, out: &mut Vec<Output>) -> bool {
        let votes = !self.quorums.is_observer(self.options.me);
        let forgets = self.unlogged && votes && !faults::unlogged_history_votes();
        if forgets {
            self.busy.reloading = true;
            out.push(Output::Reload);
        }
        forgets
    }

    /// Updates the zxid known to be committed from that of an established leader.
    pub(super) fn learn(&mut self) {
        let committed = match &self.part {
            Part::Leading(leader, _) if leader.epoch().is_some() => self.history.delivered(),
            Part::Learning(learner, _) => match learner.proven(&self.history) {
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
    pub(super) fn untold(&self) -> Option<Zxid> {
        let end = self.certain.min(self.history.flushed());
        (end > self.told && !self.unlogged).then_some(end)
    }

    pub(super) fn tell(&mut self, now: Duration, out: &mut Vec<Output>) {
        if let Some(end) = self.untold().filter(|_| self.tells_at <= now) {
            self.told = end;
            self.tells_at = now + TELL_PAUSE;
            out.push(Output::Committed(end));
        }
    }
}
