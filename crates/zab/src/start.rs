//! The state that a member starts with.

use std::sync::Arc;

use zebu_proto::{Epoch, Identity, Zxid};

use crate::config::Membership;
use crate::history::{History, Txn};

/// The epochs on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The newest epoch this server has promised to take part in (accepted epoch).
    pub accepted: Epoch,
    /// The epoch of the newest leader whose history this server has (current epoch).
    pub current: Epoch,
}

/// The state that a member starts with.
#[derive(Debug)]
pub struct Start {
    /// The epochs on disk.
    pub epochs: Epochs,
    /// The committed configuration.
    pub committed: Arc<Membership>,
    /// The newest proposed configuration, if newer.
    pub last_seen: Option<Arc<Membership>>,
    /// The newest transaction in the tree, which is the end of the log.
    pub last: Zxid,
    /// The last part of the log.
    pub recent: Vec<Txn>,
    /// The newest transaction that this server has remembered to be committed, see
    /// [`Output::Committed`]; 0 when it remembers none. It may be newer than `last`: then its data
    /// were put back to an older state.
    ///
    /// [`Output::Committed`]: crate::Output::Committed
    pub certain: Zxid,
    /// Whether an empty history is assumed to be that of a new ensemble without being told so. If
    /// such a member hears of a leader's history, it neither votes nor counts until a leader has
    /// sent it that history.
    pub assumed_new: bool,
    /// Whether the history is usable: false if the disk is unexpectedly empty, or damaged. The
    /// server then neither votes nor counts until a leader has synchronized it.
    pub has_database: bool,
    /// What it has remembered of the ensemble's id.
    pub identity: Identity,
}

/// The epoch by which a history is compared: the current epoch, or that of the newest transaction
/// if later.
///
/// A server with a transaction of an epoch also has the history its leader began with, even if the
/// synchronization was interrupted. It may hold the only remaining copy of acknowledged
/// transactions.
pub(crate) fn standing(epochs: Epochs, history: &History, has_database: bool) -> Epoch {
    if has_database { epochs.current.max(history.last().epoch()) } else { epochs.current }
}
