//! Decides whether a server may start with the members in its configuration.

use std::collections::BTreeSet;

use tracing::warn;
use zebu_proto::Epoch;
use zebu_store::{EpochFile, EpochFiles};
use zebu_zab::config::Membership;

use crate::config::{Config, EnsembleConfig};
use crate::error::StartError;

/// Checks whether a member may start with these members and these data after a manual change: old
/// and new quorums must have a common server, or acknowledged writes may be lost.
///
/// Returns whether the voters differ. If they do, the data must record the new voters once this
/// member serves with them, so that the next manual change is compared with them.
///
/// # Errors
/// More than one voter was added or removed since the data were written.
pub fn check_hand_made(
    config: &Config,
    ensemble: &EnsembleConfig,
    before: &Membership,
) -> Result<bool, StartError> {
    let (then, now) = (voters(before), voters(&ensemble.members));
    let changed = then.symmetric_difference(&now).count();
    if changed <= 1 {
        return Ok(changed > 0);
    }
    if config.data.accept_members {
        warn!(
            "starting although the data belong to an ensemble with voters {then:?}, because zebu.acceptMembers is set"
        );
        return Ok(true);
    }
    Err(StartError::OtherVoters { origin: ensemble.origin.to_string(), then, now })
}

/// Checks whether a server may start standalone with these data: a member configured without its
/// ensemble would acknowledge writes that the other members never receive.
///
/// # Errors
/// The data belong to an ensemble with other voters.
pub fn check_alone(
    config: &Config,
    epochs: &EpochFiles,
    before: Option<&Membership>,
) -> Result<(), StartError> {
    let then = before.map(voters).unwrap_or_default();
    if then.len() > 1 {
        if config.data.accept_members {
            warn!(
                "starting alone on the data of an ensemble with voters {then:?}, because zebu.acceptMembers is set"
            );
            return Ok(());
        }
        let file = config.file.as_deref().unwrap_or(&config.data.dir);
        return Err(StartError::WithoutEnsemble { file: file.to_owned(), then });
    }
    let my_id = config.data.dir.join("myid");
    if let Ok(Some(epoch)) = epochs.read(EpochFile::Current)
        && epoch > Epoch(0)
        && my_id.exists()
    {
        warn!(
            "{} and an epoch of {:x} say that these are the data of a member of an ensemble, \
             but this server runs alone: the configuration names no other servers",
            my_id.display(),
            epoch.0
        );
    }
    Ok(())
}

fn voters(config: &Membership) -> BTreeSet<i64> {
    config.voters().map(|id| id.0).collect()
}
