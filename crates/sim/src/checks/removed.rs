//! whom a candidate counts on has a vote: when it gives its history to others, a quorum of those
//! who vote has promised to follow nobody earlier. Who was removed is none of them.

use std::collections::BTreeSet;

use zebu_proto::{Epoch, Zxid};

use crate::checks::configs::Configs;
use crate::checks::durability::Durability;
use crate::checks::order::Order;

/// The candidates that were looked at.
#[derive(Default)]
pub(crate) struct Removed(BTreeSet<(Epoch, usize)>);

impl Removed {
    /// A candidate has its history adopted; `counting` are the versions that count for it.
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
        match configs.without_quorum(counting, order, epoch, has) {
            None => Ok(()),
            Some(version) => Err(format!(
                "R-3: server {server} is chosen for epoch {} without a quorum of the members of {version}",
                epoch.0
            )),
        }
    }
}
