//! The settings of a member, and the state that its disk contains.

use std::sync::Arc;

use tracing::warn;
use zebu_proto::{Identity, Zxid};
use zebu_state::Found;
use zebu_store::{EpochFiles, Recovered};
use zebu_zab::config::{Membership, Role};
use zebu_zab::election::Patience;
use zebu_zab::history::Memory;
use zebu_zab::{ObserverOptions, Options, Peer, SyncsMax};

use super::identity;
use crate::config::{Config, EnsembleConfig};
use crate::error::StartError;

/// This server's part in its ensemble before it has contact with other servers. The configurations
/// are those in its data and its files.
///
/// # Errors
/// The epochs on the disk are impossible.
pub fn peer(
    config: &Config,
    ensemble: &EnsembleConfig,
    epochs: &EpochFiles,
    recovered: &Recovered,
    (certain, identity): (Option<Zxid>, Identity),
    (in_data, in_files): (Option<Membership>, Option<Membership>),
) -> Result<Peer, StartError> {
    let loaded = epochs.load(recovered.last_zxid);
    let loaded = loaded.map_err(StartError::Epochs)?;
    if loaded.logged > loaded.current {
        warn!(
            "a synchronization was interrupted: the log has transactions of epoch {:x}, but the last leader that this \
             server completed a synchronization with was that of epoch {:x}",
            loaded.logged.0, loaded.current.0
        );
    }
    if let Some(damage) = &recovered.damaged {
        warn!("{damage}: this server neither votes nor serves until a leader has repaired it");
    }
    let found = Found {
        recovered,
        epochs: loaded,
        certain,
        identity,
        committed: Arc::new(ensemble.members.clone()),
        proposed: ensemble.proposed.clone(),
        in_data,
        in_files,
        reconfig: config.reconfig_enabled,
    };
    if found.has_forgotten() {
        warn!(
            "this server has no data, but an existing ensemble has committed its configuration (version {:x}), so it may \
             have lost its data: this server neither votes nor serves until a leader has brought it up to date",
            ensemble.members.version().0
        );
    }
    if let Some(certain) = found.put_back() {
        warn!(
            "the data end at {}, but this server has already served {certain}: somebody restored an older state, or data \
             were lost. This server neither votes nor serves until a leader has brought it up to date; to start with \
             these data nevertheless, remove the file `committed` beside the logs",
            recovered.last_zxid
        );
    }
    if let Some(known) = found.hand_made() {
        warn!(
            "{}: the ensemble has committed configuration version {:x}, which also applies to this server; hint: change \
             members with reconfig, not in this file",
            ensemble.origin,
            known.version().0
        );
    }
    let options = Options { new_ensemble: Some(identity::new()?), ..options(config, ensemble) };
    Ok(Peer::new(options, found.start()))
}

fn memory(ensemble: &EnsembleConfig) -> Memory {
    let EnsembleConfig { learners, .. } = ensemble;
    let usual = Memory { txns: learners.committed_txns as usize, ..Memory::default() };
    match learners.observer_master_port {
        Some(_) if ensemble.role == Role::Participant => {
            let bytes = usize::try_from(learners.observer_master_bytes).unwrap_or(usize::MAX);
            Memory { bytes, bytes_max: usual.bytes_max.max(bytes), ..usual }
        }
        _ => usual,
    }
}

/// The settings of the part that implements the protocol.
pub fn options(config: &Config, ensemble: &EnsembleConfig) -> Options {
    let EnsembleConfig { election, learners, .. } = ensemble;
    Options {
        tick: config.sessions.tick,
        init_limit: ensemble.init_ticks,
        sync_limit: ensemble.sync_ticks,
        connect_limit: ensemble.connect_ticks,
        connect_pause: ensemble.connect_pause,
        patience: Patience {
            resend_min: election.notify_min,
            resend_max: election.notify_max,
            ..Patience::default()
        },
        memory: memory(ensemble),
        log_share: learners.log_share,
        always_copy: learners.always_snapshot,
        epoch_wait_max: ensemble.epoch_wait_max,
        observer: ObserverOptions {
            masters: learners.observer_master_port.is_some(),
            logs: learners.observers_write,
            connect_pause_max: learners.observer_reconnect_pause,
            look_pause_max: learners.observer_election_pause_max,
        },
        syncs_max: SyncsMax {
            copies: learners.snap_syncs_max as usize,
            diffs: learners.diff_syncs_max as usize,
        },
        seed: std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), ensemble.me.0),
        reconfig: config.reconfig_enabled,
        first_counter: ensemble.first_counter.unwrap_or(1).max(1),
        leader_silence: ensemble.leader_silence,
        ..Options::new(ensemble.me)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use zebu_config::{Sources, Start, load};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The configuration of server 2 of three, with these lines added.
    fn second_of_three(lines: &str) -> Config {
        let file = format!(
            "dataDir=/d\ninitLimit=10\nsyncLimit=5\n\
             server.1=a:1:2;2181\nserver.2=b:1:2;2182\nserver.3=c:1:2\n{lines}"
        );
        let read = |path: &Path| match path.to_str() {
            Some("zoo.cfg") => Ok(file.clone().into_bytes()),
            Some("/d/myid") => Ok(b"2\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let start = Start::File("zoo.cfg".into());
        let sources = Sources {
            start,
            variables: Vec::new(),
            defines: Vec::new(),
            sets: Vec::new(),
            read: &read,
        };
        match load(&sources) {
            Ok(loaded) => loaded.config,
            Err(fault) => panic!("{fault}"),
        }
    }

    #[test]
    fn settings_of_the_ensemble_reach_who_agrees_with_the_others() {
        let with = |lines: &str| {
            let config = second_of_three(lines);
            options(&config, config.ensemble.as_ref().unwrap())
        };
        let set = with(
            "leader.maxTimeToWaitForEpoch=75\nleader.maxConcurrentSnapSyncs=3\n\
             leader.maxConcurrentDiffSyncs=4\nobserver.reconnectDelayMs=5\n\
             observer.election.DelayMs=6\nleaderConnectDelayDuringRetryMs=7\n\
             forceSnapshotSync=true\nsnapshotSizeFactor=0.5\ncommitLogCount=800\n\
             connectToLearnerMasterLimit=9\nsyncEnabled=false\n\
             observerMasterPort=7\nobserverMaster.sizeLimit=8000\nzebu.leaderSilence=0",
        );
        assert_eq!((set.epoch_wait_max, set.leader_silence), (Some(75 * MS), None));
        assert_eq!((set.syncs_max.copies, set.syncs_max.diffs), (3, 4));
        assert!(!set.observer.logs && set.observer.masters);
        assert_eq!(set.memory.bytes, 8000);
        assert_eq!(set.observer.connect_pause_max, 5 * MS);
        assert_eq!(set.observer.look_pause_max, 6 * MS);
        assert_eq!((set.connect_pause, set.connect_limit), (7 * MS, 9));
        assert_eq!((set.always_copy, set.log_share, set.memory.txns), (true, Some(0.5), 800));
        let usual = with("");
        assert!(usual.observer.logs && !usual.observer.masters);
        assert_eq!(usual.memory.bytes, 8 << 20);
        assert_eq!((usual.epoch_wait_max, usual.leader_silence), (None, Some(600 * MS)));
        assert_eq!((usual.syncs_max.copies, usual.syncs_max.diffs), (10, 100));
        assert_eq!(usual.observer.connect_pause_max, Duration::ZERO);
        assert_eq!(usual.observer.look_pause_max, 200 * MS);
    }
}
