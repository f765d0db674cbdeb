//! Digests in transactions that are not the tree's: each is counted, and many are told in one line.

use tracing::{error, info};
use zebu_proto::Zxid;

use crate::clients::workers::Warnings;
use crate::shared::Shared;

/// What became of the digests compared so far.
#[derive(Debug, Default)]
pub struct Digests {
    /// Whether the last one that was compared was another.
    differs: bool,
    /// Those that differ and were not told.
    untold: u64,
    told: Warnings,
}

impl Digests {
    /// The tree's digest after a transaction was compared with the one in the transaction, or in a snapshot.
    pub fn compared(
        &mut self,
        shared: &Shared,
        zxid: Zxid,
        matches: bool,
        tree: i64,
        expected: Option<i64>,
    ) {
        if matches && !self.differs {
            return;
        }
        if matches {
            info!("after {zxid} the digest of the tree is the one in the transaction again");
        } else {
            shared.metrics.digest_mismatches_count.add(1);
            self.untold += 1;
            if self.told.is_due() {
                let expected = expected.map_or("another one".to_owned(), |it| format!("{it:#x}"));
                error!(
                    "after {zxid} the digest of this server's tree is {tree:#x}, but {expected} was expected: \
                     znodes are not what they are elsewhere ({} such transactions since this was said last)",
                    self.untold
                );
                self.untold = 0;
            }
        }
        self.differs = !matches;
    }
}
