//! The data of a server that starts: it recovers them, and makes the replica that continues with
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_engine::journal::MemberFiles;
use zebu_proto::{Identity, Zxid};
use zebu_replica::{Now, Replica};
use zebu_state::Rebuilt;
use zebu_state::membership::{self, ConfigFiles};
use zebu_store::{
    CommittedFile, Damage, EnsembleFile, EpochFiles, Mode as Recovery, OsVfs, Recovered, Snapshots,
    Store, Torn, TxnLog,
};
use zebu_tree::Tree;
use zebu_zab::config::Membership;

use super::options::{replica_options, store_options, tree_options};
use crate::config::{Config, EnsembleConfig};
use crate::disk::journal::Files;
use crate::disk::recovery;
use crate::ensemble::membership::{check_alone, check_hand_made};
use crate::ensemble::{identity, member};
use crate::error::StartError;
use crate::metrics::Metrics;
use crate::shared::Clock;

/// What was recovered.
pub(super) struct Data {
    vfs: Arc<OsVfs>,
    tree: Tree,
    log: TxnLog,
    snapshots: Snapshots,
    recovered: Recovered,
    /// The configurations of the ensemble in the tree and in the files.
    in_data: Option<Membership>,
    in_files: Option<Membership>,
    /// Whether an operator has changed the configuration since the last start.
    is_changed_by_hand: bool,
    committed: Option<CommittedFile>,
    ensemble: EnsembleFile,
}

/// The replica, and the data with which it continues.
pub(super) struct Continued {
    pub(super) replica: Replica,
    pub(super) tree: Tree,
    pub(super) log: TxnLog,
    pub(super) snapshots: Snapshots,
    pub(super) files: Files,
    pub(super) identity: Identity,
    /// The damage that other members may repair.
    pub(super) damage: Option<Damage>,
    /// Whether there must be a snapshot before anybody is served.
    pub(super) is_first: bool,
    /// Whether a snapshot is taken while clients are served already.
    pub(super) renews: bool,
}

impl Data {
    /// Recovers the data.
    ///
    /// # Errors
    /// The data cannot be used, or contradict the configuration.
    pub(super) fn recover(
        config: &Config,
        clock: Clock,
        metrics: &Metrics,
    ) -> Result<Self, StartError> {
        let began = Instant::now();
        let vfs = Arc::new(OsVfs);
        let mut store = Store::open(vfs.clone(), store_options(config))?;
        let (recovered, rebuilt) = recovery::recover(&mut store, tree_options(config))?;
        if config.ensemble.is_none() && recovered.fresh && recovered.last_zxid < Zxid::ZERO {
            // For a member, other servers have the history; for a standalone server, no other
            // server has it.
            return Err(StartError::Empty(config.data.logs().to_owned()));
        }
        let Rebuilt { mut tree, mismatches } = rebuilt;
        report(&recovered, mismatches);
        metrics.digest_mismatches_count.add(mismatches);
        let ms = |time: Duration| time.as_millis() as i64;
        metrics.dbinittime.add(ms(began.elapsed()));
        metrics.startup_snap_load_time.add(ms(recovered.snapshot_time));
        metrics.startup_txns_load_time.add(ms(recovered.log_time));
        metrics.startup_txns_loaded.add(i64::try_from(recovered.replayed).unwrap_or(i64::MAX));
        if config.ensemble.is_none() {
            let orphans = tree.remove_orphan_ephemerals();
            if orphans > 0 {
                info!("removed {orphans} ephemerals whose sessions have ended");
            }
        }
        let (in_data, mut in_files) = (membership::in_data(&tree), None);
        let mut is_changed_by_hand = false;
        if let Some(ensemble) = &config.ensemble {
            let now_ms = clock.now().wall_ms;
            if config.reconfig_enabled {
                let file = config.file.as_deref();
                in_files = file.and_then(|file| membership::in_files(vfs.as_ref(), file));
                membership::show(&mut tree, &ensemble.members, now_ms);
            } else {
                if let Some(before) = &in_data {
                    is_changed_by_hand = check_hand_made(config, ensemble, before)?;
                }
                membership::overwrite(&mut tree, &ensemble.members, now_ms);
            }
        } else {
            check_alone(config, &store.epochs(), in_data.as_ref())?;
        }
        let (committed, ensemble) = (store.committed(), store.ensemble());
        let (log, snapshots) = store.split();
        Ok(Self {
            vfs,
            tree,
            log,
            snapshots,
            recovered,
            in_data,
            in_files,
            is_changed_by_hand,
            committed,
            ensemble,
        })
    }

    /// Makes the replica that continues with the data.
    ///
    /// # Errors
    /// A file cannot be read or written, or contradicts the data.
    pub(super) fn carry_on(self, config: &Config, now: Now) -> Result<Continued, StartError> {
        match &config.ensemble {
            None => self.for_standalone(config, now),
            Some(ensemble) => self.for_member(config, ensemble, now),
        }
    }

    fn for_standalone(self, config: &Config, now: Now) -> Result<Continued, StartError> {
        let Self { tree, log, snapshots, recovered, ensemble, .. } = self;
        let options = replica_options(config, now.wall_ms);
        info!("session passwords: {}", options.passwords);
        let identity = identity::of_one(&ensemble)?;
        Ok(Continued {
            replica: Replica::new(options, &tree, now),
            tree,
            log,
            snapshots,
            files: None,
            identity,
            damage: recovered.damaged,
            is_first: recovered.snapshot.is_none(),
            // A start that changed nothing already has its snapshot.
            renews: recovered.replayed > 0,
        })
    }

    fn for_member(
        self,
        config: &Config,
        ensemble: &EnsembleConfig,
        now: Now,
    ) -> Result<Continued, StartError> {
        let options = replica_options(config, now.wall_ms);
        info!("session passwords: {}", options.passwords);
        let identity = identity::found(&self.ensemble)?;
        let epochs = EpochFiles::new(self.vfs.clone(), &config.data.dir);
        let committed = Arc::new(ensemble.members.clone());
        let proposed = ensemble.proposed.as_ref();
        let file = config.file.as_deref().map(in_full);
        let files = ConfigFiles::new(self.vfs, file, ensemble.me, committed, proposed);
        if config.reconfig_enabled {
            files.settle()?;
            if ensemble.dynamic_file.is_none() {
                files.back_up()?;
            }
        }
        let certain = self.committed.as_ref().map_or(Ok(None), CommittedFile::read);
        let certain = certain.map_err(StartError::Committed)?;
        let (known, found) = ((certain, identity), (self.in_data, self.in_files));
        let peer = member::peer(config, ensemble, &epochs, &self.recovered, known, found)?;
        let mut replica = Replica::member(options, peer, &self.tree, now);
        // Transactions that no quorum has confirmed must not get into a snapshot. One is
        // requested for later.
        replica.replayed(self.recovered.replayed, self.recovered.replayed_bytes);
        if self.is_changed_by_hand {
            replica.wants_snapshot();
        }
        Ok(Continued {
            replica,
            tree: self.tree,
            log: self.log,
            snapshots: self.snapshots,
            files: Some(Box::new(MemberFiles {
                epochs,
                committed: self.committed,
                ensemble: self.ensemble,
                config: files,
                reconfig: config.reconfig_enabled,
            })),
            identity,
            // A member whose empty database is not trusted waits for a leader's.
            is_first: self.recovered.fresh && self.recovered.last_zxid >= Zxid::ZERO,
            damage: self.recovered.damaged,
            renews: false,
        })
    }
}

/// The path of the same file, valid from any current directory. A symbolic link to a file beside it
/// is kept.
fn in_full(file: &Path) -> PathBuf {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (dir.canonicalize(), file.file_name()) {
        (Ok(dir), Some(name)) => dir.join(name),
        _ => file.to_owned(),
    }
}

/// Logs the results of the recovery.
fn report(recovered: &Recovered, mismatches: u64) {
    for warning in &recovered.warnings {
        warn!("{warning}");
    }
    if mismatches > 0 {
        error!(
            "the tree's digest differs from the one on the disk after {mismatches} transactions"
        );
    }
    if let Some(Torn { path, offset, last }) = &recovered.truncated {
        // No client got an answer for this transaction, so nothing is lost.
        info!(
            "{}: a record that was being written when the machine or the process stopped begins at offset {offset}, \
             after transaction {last}: it was never acknowledged, and is left out",
            path.display()
        );
    }
    if recovered.damaged.is_some() {
        // The module that decides what such a member does also logs it.
        return;
    }
    let mode = match &recovered.mode {
        Recovery::Verified => "everything that was durable once is there".to_owned(),
        Recovery::Weaker { log } => format!(
            "weaker mode: log {} has no sidecar, so a start cannot distinguish damage at its end from an incomplete record",
            log.display()
        ),
    };
    info!(
        "recovered to zxid {}, {} transactions replayed; {mode}",
        recovered.last_zxid, recovered.replayed
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_path_that_means_the_same_everywhere() {
        let file = in_full(Path::new("Cargo.toml"));
        assert!(file.is_absolute() && file.ends_with("Cargo.toml"), "{file:?}");
        assert!(file.exists());
        assert_eq!(in_full(Path::new("src/../Cargo.toml")), file);
        // A file that is a symbolic link stays in its place, and so do the files beside it.
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&file, dir.path().join("zoo.cfg")).unwrap();
        let link = in_full(&dir.path().join("zoo.cfg"));
        assert_eq!(link, dir.path().canonicalize().unwrap().join("zoo.cfg"));
    }
}
