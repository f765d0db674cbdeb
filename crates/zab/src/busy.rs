//! Work that a member has given to its disk and that is not finished.

use std::collections::VecDeque;

use zebu_proto::{Epoch, Zxid};

use crate::io::EpochKind;

/// The unfinished work.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    pub(crate) truncating: Option<Zxid>,
    pub(crate) restoring: bool,
    pub(crate) reloading: bool,
    pub(crate) epochs: VecDeque<(EpochKind, Epoch)>,
}

impl Busy {
    pub(crate) fn changes_the_log(&self) -> bool {
        self.truncating.is_some() || self.restoring || self.reloading
    }

    /// Asserts that at most one operation at a time changes the log.
    pub(crate) fn check(&self) {
        let changes = [self.truncating.is_some(), self.restoring, self.reloading];
        assert!(changes.iter().filter(|it| **it).count() <= 1, "the log changes in two ways");
    }

    pub(crate) fn any(&self) -> bool {
        self.changes_the_log() || !self.epochs.is_empty()
    }
}
