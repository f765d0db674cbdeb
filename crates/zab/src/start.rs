//! What a member starts with.

use std::sync::Arc;

use zebu_proto::{Epoch, Zxid};

use crate::config::Membership;
use crate::history::{History, Txn};

/// The epochs on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The newest epoch this server has promised to take part in.
    pub accepted: Epoch,
    /// The epoch of the newest leader whose history this server has.
    pub current: Epoch,
}

/// What a member starts with.
#[derive(Debug)]
pub struct Start {
    /// The epochs on disk.
    pub epochs: Epochs,
    /// The configuration in force.
    pub committed: Arc<Membership>,
    /// The newest configuration that was proposed, if it is newer.
    pub last_seen: Option<Arc<Membership>>,
    /// The newest transaction in the tree, which is the end of the log.
    pub last: Zxid,
    /// The end of the log.
    pub recent: Vec<Txn>,
    /// The newest transaction that this server has remembered to be committed, see [`Output::Committed`]; 0 when it
    /// remembers none. It may be newer than `last`: then its data were put back to an older state.
    ///
    /// [`Output::Committed`]: crate::Output::Committed
    pub certain: Zxid,
    /// Whether an empty history is taken for that of a new ensemble although nobody has said so. A member that has
    /// no leader's history yet, and hears of one, then neither votes nor counts until a leader has given it that.
    pub assumed_new: bool,
    /// Whether there is a history to speak of: false for a server whose disk is empty although it
    /// should not be, or damaged. It neither votes nor counts until a leader has repaired it.
    pub has_database: bool,
}

/// That of the last leader whose history was taken over, or the newest that a transaction is of: whoever
/// has that has all that its leader began with, and what came before it, though the synchronization that
/// has brought it was broken off. It may be all that is left of what was acknowledged here.
pub(crate) fn standing(epochs: Epochs, history: &History, has_database: bool) -> Epoch {
    if has_database { epochs.current.max(history.last().epoch()) } else { epochs.current }
}
