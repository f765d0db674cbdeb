//! only voters support a candidate. When the candidate sends its history to others, a quorum
//! of the voters has promised to follow no earlier leader. A removed server is not one of them.

use std::collections::BTreeSet;

use zebu_proto::{Epoch, Zxid};

use crate::checks::configs::Configs;
use crate::checks::durability::Durability;
use crate::checks::order::Order;

/// The candidates that this check has seen.
#[derive(Default)]
pub(crate) struct Removed(BTreeSet<(Epoch, usize)>);

impl Removed {
    /// A candidate's history is adopted. `counting` are the versions of the configurations that
    /// count.
    pub(crate) fn leads(
        &mut self,
        server: usize,
        epoch: Epoch,
        counting: &[Zxid],
        order: &Order,
        configs: &Configs,
        durability: &Durability,
    ) -> Result<(), String> {
        if durability.any_wiped() || !self.0.insert((epoch, server)) {
            return Ok(());
        }
        let has = |voter| durability.has_promised(voter, epoch);
        configs.have_quorums(counting, order, epoch, has).map_err(|version| {
            let what = format!("server {server} is chosen for epoch {}", epoch.0);
            format!("R-3: {what} without a quorum of the members of {version}")
        })
    }
}
