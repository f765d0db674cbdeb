//! a leader is established by a quorum of the newest agreed members, and of the members of an
//! unfinished change that it has found. These servers have its history, and so they know of the
//! change.

use zebu_proto::{Epoch, Zxid};

use crate::checks::configs::Configs;
use crate::checks::durability::Durability;
use crate::checks::order::Order;

/// A leader is established. `counting` are the versions of the configurations that count for its
/// history.
pub(crate) fn established(
    server: usize,
    epoch: Epoch,
    counting: &[Zxid],
    order: &Order,
    configs: &Configs,
    durability: &Durability,
) -> Result<(), String> {
    if durability.any_wiped() {
        return Ok(());
    }
    let has = |voter| durability.has_adopted(voter, epoch);
    configs.have_quorums(counting, order, epoch, has).map_err(|version| {
        let epoch = epoch.0;
        format!(
            "R-2: server {server} leads epoch {epoch} without a quorum of the members of {version}"
        )
    })
}
