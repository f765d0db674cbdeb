//! What a server brings into its ensemble: its settings and what its disk says.

use std::sync::Arc;

use anyhow::Context as _;
use tracing::warn;
use zebu_state::Found;
use zebu_store::{EpochFiles, Recovered};
use zebu_zab::config::{Membership, Role};
use zebu_zab::election::Patience;
use zebu_zab::history::Memory;
use zebu_zab::{ObserverOptions, Options, Peer, SyncsMax};

use crate::config::{Config, EnsembleConfig};

/// This server's part in its ensemble, before it has heard of anybody; the configurations are those
/// that its data and its files have.
///
/// # Errors
/// When the epochs on the disk cannot be.
pub fn peer(
    config: &Config,
    ensemble: &EnsembleConfig,
    epochs: &EpochFiles,
    recovered: &Recovered,
    in_data: Option<Membership>,
    in_files: Option<Membership>,
) -> anyhow::Result<Peer> {
    let loaded = epochs.load(recovered.last_zxid);
    let loaded = loaded.context("the epochs of this server cannot be used")?;
    if loaded.logged > loaded.current {
        warn!(
            "a synchronization was interrupted: there are transactions of epoch {:x}, and no leader was followed after \
             that of epoch {:x}",
            loaded.logged.0, loaded.current.0
        );
    }
    if let Some(damage) = &recovered.damaged {
        warn!("{damage}: this server neither votes nor serves until a leader has repaired it");
    }
    let found = Found {
        recovered,
        epochs: loaded,
        committed: Arc::new(ensemble.members.clone()),
        proposed: ensemble.proposed.clone(),
        in_data,
        in_files,
        reconfig: config.reconfig_enabled,
    };
    if found.has_forgotten() {
        warn!(
            "there are no data, but the ensemble has agreed on its configuration already (version {:x}): \
             this server neither votes nor serves until a leader has brought it up to date",
            ensemble.members.version().0
        );
    }
    if let Some(known) = found.hand_made() {
        warn!(
            "{}: this server knows a configuration that the ensemble has agreed on (version {:x}), which counts as well: \
             change the members by reconfig, not here",
            ensemble.origin,
            known.version().0
        );
    }
    Ok(Peer::new(options(config, ensemble), found.start()))
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

/// What the part that agrees with others is configured with.
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
        ..Options::new(ensemble.me)
    }
}
