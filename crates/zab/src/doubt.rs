//! Doubt about this server's tree: the digest in a leader's transaction is not the tree's.
//!
//! The digest is a sum over all znodes, so a tree that once differs goes on differing, and one digest that agrees
//! later shows that the tree is right. A leader may send a wrong digest with a single transaction: the original does
//! after some requests. So a learner doubts its tree when nothing has agreed for a while. Then it asks for the whole
//! tree of its leader, once; a leader whose digests go on being wrong must not have it copy for ever.

use std::time::Duration;

use zebu_proto::Epoch;

use crate::io::Options;
use crate::leave::Leave;

/// How much longer the longest pause between two copies is than the shortest: a day for a minute.
const PAUSE_GROWS: u32 = 1440;

const _: () = assert!(PAUSE_GROWS == 24 * 60, "a day has as many minutes");

/// What comes of digests that differ.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// When the role ends, unless a digest agrees before.
    leaves_at: Option<Duration>,
    /// Whether the next leader is asked for its whole tree.
    wants_tree: bool,
    /// No tree is asked for again before this.
    not_before: Duration,
    /// The last pause between two trees.
    pause: Duration,
    /// An epoch far ahead that a leader has told.
    told: Option<Epoch>,
}

impl Doubt {
    /// A learner's role begins.
    pub(crate) fn begin(&mut self) {
        self.leaves_at = None;
    }

    /// Whether this epoch, which is far ahead, was told the last time as well.
    pub(crate) fn is_told_again(&mut self, epoch: Epoch) -> bool {
        self.told.replace(epoch) == Some(epoch)
    }

    /// A digest was compared.
    pub(crate) fn compared(&mut self, now: Duration, differs: bool, options: &Options) {
        if !differs {
            self.leaves_at = None;
        } else if now >= self.not_before && self.leaves_at.is_none() {
            // Should several members see the same, they do not leave at once: a quorum is to stay, if it can.
            let turn = u32::try_from(options.me.0.rem_euclid(4)).unwrap_or(0);
            self.leaves_at = Some(now + options.tick * (1 + turn));
        }
    }

    /// When there is something to do.
    pub(crate) fn due(&self) -> Duration {
        self.leaves_at.unwrap_or(Duration::MAX)
    }

    /// Ends the role when the doubt has lasted.
    pub(crate) fn tick(&mut self, now: Duration, options: &Options) -> Result<(), Leave> {
        if self.due() > now {
            return Ok(());
        }
        self.leaves_at = None;
        self.wants_tree = true;
        let is_first = now >= self.not_before + self.pause;
        let longer = (self.pause * 2).min(options.resync_pause * PAUSE_GROWS);
        self.pause = if is_first { options.resync_pause } else { longer };
        assert!(self.pause <= options.resync_pause * PAUSE_GROWS, "a pause of {:?}", self.pause);
        self.not_before = now + self.pause;
        Err(Leave::TreeDiffers)
    }

    /// Whether the leader's whole tree is to be asked for. That is tried once: a leader that nobody follows yet may
    /// need this server's history more.
    pub(crate) fn take_wish(&mut self) -> bool {
        std::mem::take(&mut self.wants_tree)
    }
}
