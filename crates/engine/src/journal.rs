//! Orders to the disk, and how they are carried out.

use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::{Epoch, Identity, Zxid};
use zebu_state::Copied;
use zebu_state::membership::{self, ConfigError, ConfigFiles};
use zebu_store::{CommittedFile, EnsembleFile, EpochFile, EpochFiles, StoreError, TxnLog};
use zebu_tree::Tree;
use zebu_zab::config::Membership;
use zebu_zab::{ConfigChange, EpochKind, Input};

use crate::sync::RwLock;

/// Log records, in order.
pub type Records = Vec<(Zxid, Bytes)>;

/// Orders to the log.
#[derive(Debug)]
pub enum Order {
    /// Append these records and sync.
    Append(Records),
    /// Start a new file with the next record.
    Roll,
    /// A member's job, to be done when everything before it is durable.
    Member(Job),
}

/// The data that a member of an ensemble stores.
#[derive(Debug)]
pub enum Job {
    /// Store a configuration.
    Config(ConfigChange),
    /// Store an epoch.
    SaveEpoch(EpochKind, Epoch),
    /// Make durable what is known of the ensemble's id.
    Identity(Identity),
    /// Store the last committed zxid.
    Committed(Zxid),
    /// Delete all records after this zxid.
    Truncate(Zxid),
    /// Load the tree from the disk again.
    Reload,
    /// Replace log and tree by the leader's snapshot.
    Restore(Box<Copied>),
}

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The log, a snapshot or an epoch file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A member's files other than its log.
#[derive(Debug)]
pub struct MemberFiles {
    /// The accepted and the current epoch.
    pub epochs: EpochFiles,
    /// The last zxid known to be committed. `None` if the log is not synced, since it may then end
    /// earlier after a power cut.
    pub committed: Option<CommittedFile>,
    /// The id of the ensemble that it belongs to.
    pub ensemble: EnsembleFile,
    /// The configuration.
    pub config: ConfigFiles,
    /// Whether the members may change (`reconfigEnabled`).
    pub reconfig: bool,
}

impl MemberFiles {
    /// Makes the configuration visible to clients. `now_ms`: wall-clock time.
    pub fn show(&self, tree: &mut Tree, now_ms: i64) {
        if self.reconfig {
            membership::show(tree, self.config.committed(), now_ms);
        } else {
            membership::overwrite(tree, self.config.committed(), now_ms);
        }
    }
}

/// The result of a job.
#[derive(Debug, Default)]
pub struct Done {
    /// The report to the replica.
    pub input: Option<Input>,
    /// The tree in whose place another one is now.
    pub replaced: Option<Tree>,
}

impl Job {
    /// Whether the job rebuilds log and tree.
    pub fn remakes(&self) -> bool {
        matches!(self, Self::Truncate(_) | Self::Reload | Self::Restore(_))
    }

    /// Does the job.
    ///
    /// # Errors
    /// The disk failed: the server cannot continue.
    pub fn run(
        self,
        log: &mut TxnLog,
        files: &mut MemberFiles,
        tree: &RwLock<Tree>,
        now_ms: i64,
    ) -> Result<Done, JobError> {
        let mut replaced = None;
        let mut take = |files: &MemberFiles, mut new: Tree| {
            files.show(&mut new, now_ms);
            replaced = Some(std::mem::replace(&mut *tree.write(), new));
        };
        let arc = |config: Option<Membership>| config.map(Arc::new);
        let input = match self {
            Self::Config(change) => {
                files.config.save(&change)?;
                return Ok(Done::default());
            }
            Self::SaveEpoch(kind, epoch) => {
                let file = match kind {
                    EpochKind::Accepted => EpochFile::Accepted,
                    EpochKind::Current => EpochFile::Current,
                };
                files.epochs.write(file, epoch)?;
                Input::EpochSaved(kind, epoch)
            }
            Self::Identity(identity) => {
                files.ensemble.write(identity)?;
                return Ok(Done::default());
            }
            Self::Committed(zxid) => {
                if let Some(file) = &mut files.committed {
                    file.write(zxid)?;
                }
                return Ok(Done::default());
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
        };
        Ok(Done { input: Some(input), replaced })
    }
}
