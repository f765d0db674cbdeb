//! Whether a member may start with the members its operator gives it.

use std::collections::BTreeSet;

use tracing::warn;
use zebu_zab::config::Membership;

use crate::config::EnsembleConfig;

/// Looks whether a member may start with these members on these data, where they are changed by hand:
/// old and new quorums must have somebody in common, or what was acknowledged may be lost.
///
/// # Errors
/// More than one voter has come or gone since the data were written.
pub fn check_hand_made(ensemble: &EnsembleConfig, before: &Membership) -> anyhow::Result<()> {
    let voters = |config: &Membership| config.voters().map(|id| id.0).collect::<BTreeSet<_>>();
    let (then, now) = (voters(before), voters(&ensemble.members));
    let changed = then.symmetric_difference(&now).count();
    if changed <= 1 {
        return Ok(());
    }
    if ensemble.accept_members {
        warn!("the data are those of an ensemble with voters {then:?}, which was accepted");
        return Ok(());
    }
    anyhow::bail!(
        "{}: the data are those of an ensemble with voters {then:?}, not {now:?}: \
         to change more than one at a time can lose what was acknowledged\n\
         hint: change one server at a time, or use reconfig (reconfigEnabled=true); \
         zebu.acceptMembers=true starts all the same",
        ensemble.origin
    )
}
