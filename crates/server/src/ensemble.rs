//! What a server brings into its ensemble: its settings and what its disk says.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use tracing::warn;
use zebu_proto::Zxid;
use zebu_store::{EpochFiles, Recovered};
use zebu_tree::Tree;
use zebu_zab::config::Role;
use zebu_zab::election::Patience;
use zebu_zab::history::{Memory, Txn};
use zebu_zab::{Epochs, ObserverOptions, Options, Peer, Start, SyncsMax};

use crate::config::{Config, EnsembleConfig};

/// This server's part in its ensemble, before it has heard of anybody.
///
/// # Errors
/// When the epochs on the disk cannot be.
pub fn peer(
    config: &Config,
    ensemble: &EnsembleConfig,
    epochs: &EpochFiles,
    recovered: &Recovered,
) -> anyhow::Result<Peer> {
    let last = recovered.last_zxid;
    let loaded = epochs.load(last).context("the epochs of this server cannot be used")?;
    if loaded.logged > loaded.current {
        warn!(
            "synchronization with the leader of epoch {:x} was interrupted; the vote names epoch {:x}",
            loaded.logged.0, loaded.current.0
        );
    }
    if let Some(damage) = &recovered.damaged {
        warn!("{damage}: this server neither votes nor serves until a leader has repaired it");
    }
    let has_database = last >= Zxid::ZERO && recovered.damaged.is_none();
    let recent = recovered
        .recent
        .iter()
        .map(|(zxid, record)| Txn { zxid: *zxid, record: Bytes::copy_from_slice(record) });
    let start = Start {
        epochs: Epochs { accepted: loaded.accepted, current: loaded.current },
        committed: Arc::new(ensemble.members.clone()),
        last_seen: None,
        last: last.max(Zxid::ZERO),
        recent: recent.collect(),
        has_database,
    };
    Ok(Peer::new(options(config, ensemble), start))
}

/// Makes the configuration in force visible to clients.
pub fn show_configuration(tree: &mut Tree, config: &Config, now_ms: i64) {
    if let Some(EnsembleConfig { members, .. }) = &config.ensemble {
        let text = members.to_string();
        tree.show_configuration(text.as_bytes(), members.version(), now_ms);
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
        memory: Memory {
            txns: learners.committed_txns as usize,
            bytes: match learners.observer_master_port {
                Some(_) if ensemble.role == Role::Participant => {
                    usize::try_from(learners.observer_master_bytes).unwrap_or(usize::MAX)
                }
                _ => Memory::default().bytes,
            },
        },
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
