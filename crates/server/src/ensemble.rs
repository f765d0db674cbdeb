//! What a server brings into its ensemble: its settings and what its disk says.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use tracing::warn;
use zebu_proto::{Epoch, Zxid};
use zebu_store::{EpochFiles, Recovered};
use zebu_zab::config::{Membership, Role};
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
    known: Option<Membership>,
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
    let mut has_database = last >= Zxid::ZERO && recovered.damaged.is_none();
    let members = &ensemble.members;
    if config.reconfig_enabled
        && recovered.fresh
        && loaded.current == Epoch(0)
        && members.version() > Zxid::ZERO
    {
        // It may have acknowledged what it has lost: its vote must not count.
        has_database = false;
        warn!(
            "there are no data, but the ensemble has agreed on its configuration already (version {:x}): \
             this server neither votes nor serves until a leader has brought it up to date",
            members.version().0
        );
    }
    let last_seen = last_seen(config, ensemble, known);
    let recent = recovered
        .recent
        .iter()
        .map(|(zxid, record)| Txn { zxid: *zxid, record: Bytes::copy_from_slice(record) });
    let start = Start {
        epochs: Epochs { accepted: loaded.accepted, current: loaded.current },
        committed: Arc::new(ensemble.members.clone()),
        last_seen: last_seen.map(Arc::new),
        last: last.max(Zxid::ZERO),
        recent: recent.collect(),
        has_database,
    };
    Ok(Peer::new(options(config, ensemble), start))
}

/// The newest configuration this server has heard of besides the one in force.
fn last_seen(
    config: &Config,
    ensemble: &EnsembleConfig,
    known: Option<Membership>,
) -> Option<Membership> {
    let members = &ensemble.members;
    let proposed = ensemble.proposed.clone().filter(|it| it.version() > members.version());
    if !config.reconfig_enabled {
        return proposed;
    }
    let known = known.filter(|it| it.version() > members.version());
    let Some(known) = known
        .filter(|it| proposed.as_ref().is_none_or(|proposed| proposed.version() < it.version()))
    else {
        return proposed;
    };
    // Either a crash came between the data and the file, or somebody has changed the file by hand.
    if members.version() == Zxid::ZERO && !members.has_same_members(&known) {
        warn!(
            "{}: this server knows a configuration that the ensemble has agreed on (version {:x}), which counts as well: \
             change the members by reconfig, not here",
            ensemble.origin,
            known.version().0
        );
    }
    Some(known)
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
