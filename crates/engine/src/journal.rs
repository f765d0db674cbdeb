//! What is asked of the disk, and what becomes of it.

use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::{Epoch, Zxid};
use zebu_state::Copied;
use zebu_state::membership::{self, ConfigError, ConfigFiles};
use zebu_store::{CommittedFile, EpochFile, EpochFiles, StoreError, TxnLog};
use zebu_tree::Tree;
use zebu_zab::config::Membership;
use zebu_zab::{ConfigChange, EpochKind, Input};

use crate::sync::RwLock;

/// Records of the log, in order.
pub type Records = Vec<(Zxid, Bytes)>;

/// What the log is asked to do.
#[derive(Debug)]
pub enum Order {
    /// Append these records, and make them durable.
    Append(Records),
    /// Start a new file with the next record.
    Roll,
    /// Something for a member of an ensemble, once everything before it is durable.
    Member(Job),
}

/// What a member of an ensemble asks of the disk.
#[derive(Debug)]
pub enum Job {
    /// Keep a configuration.
    Config(ConfigChange),
    /// Make an epoch durable.
    SaveEpoch(EpochKind, Epoch),
    /// Remember what is committed.
    Committed(Zxid),
    /// Take back everything behind this.
    Truncate(Zxid),
    /// Let the tree be what the disk has.
    Reload,
    /// Make a leader's tree this server's.
    Restore(Box<Copied>),
}

/// Why a job was not done.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The log, a snapshot or an epoch.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A member's files beside its log.
#[derive(Debug)]
pub struct MemberFiles {
    /// Its epochs.
    pub epochs: EpochFiles,
    /// What it knows to be committed; `None` where the log is not synced and may end before that after a power cut.
    pub committed: Option<CommittedFile>,
    /// Its configuration.
    pub config: ConfigFiles,
    /// Whether the members may change (`reconfigEnabled`).
    pub reconfig: bool,
}

impl MemberFiles {
    /// Makes the configuration in force visible to clients, at this time of the wall clock.
    pub fn show(&self, tree: &mut Tree, now_ms: i64) {
        if self.reconfig {
            membership::show(tree, self.config.committed(), now_ms);
        } else {
            membership::overwrite(tree, self.config.committed(), now_ms);
        }
    }
}

impl Job {
    /// Whether it makes log and tree anew.
    pub fn remakes(&self) -> bool {
        matches!(self, Self::Truncate(_) | Self::Reload | Self::Restore(_))
    }

    /// Does it; says what the replica is to be told.
    ///
    /// # Errors
    /// The disk's: the server cannot go on.
    pub fn run(
        self,
        log: &mut TxnLog,
        files: &mut MemberFiles,
        tree: &RwLock<Tree>,
        now_ms: i64,
    ) -> Result<Option<Input>, JobError> {
        let take = |files: &MemberFiles, mut new: Tree| {
            files.show(&mut new, now_ms);
            *tree.write() = new;
        };
        let arc = |config: Option<Membership>| config.map(Arc::new);
        Ok(Some(match self {
            Self::Config(change) => {
                files.config.save(&change)?;
                return Ok(None);
            }
            Self::SaveEpoch(kind, epoch) => {
                let file = match kind {
                    EpochKind::Accepted => EpochFile::Accepted,
                    EpochKind::Current => EpochFile::Current,
                };
                files.epochs.write(file, epoch)?;
                Input::EpochSaved(kind, epoch)
            }
            Self::Committed(zxid) => {
                if let Some(file) = &mut files.committed {
                    file.write(zxid)?;
                }
                return Ok(None);
            }
            Self::Truncate(zxid) => {
                let (options, applied) = {
                    let tree = tree.read();
                    (tree.options(), tree.last_zxid())
                };
                let (end, made) = zebu_state::truncate(log, zxid, applied, options)?;
                assert!(end.is_none_or(|end| end == zxid), "{end:?} instead of {zxid}");
                let config = match &made {
                    Some(made) => membership::in_data(made),
                    None => membership::in_data(&tree.read()),
                };
                if let Some(made) = made {
                    take(files, made);
                }
                Input::Truncated { end, config: arc(config) }
            }
            Self::Reload => {
                let options = tree.read().options();
                let (end, made) = zebu_state::reload(log, options)?;
                take(files, made);
                Input::Reloaded { end }
            }
            Self::Restore(copied) => {
                let Copied { tree: made, file, .. } = *copied;
                let zxid = file.zxid();
                log.install(file)?;
                let config = membership::in_data(&made);
                take(files, made);
                Input::Restored { zxid, config: arc(config) }
            }
        }))
    }
}
