//! R-1 and P-4: a committed transaction is on the disks of a quorum. A transaction proposed during
//! a change of the members is on the disks of quorums of both configurations.

use std::collections::BTreeMap;

use zebu_proto::Zxid;

use crate::checks::configs::{Configs, is_quorum};
use crate::checks::durability::Durability;
use crate::checks::order::Order;

/// The configurations that a transaction needs quorums of: the previous one, and the pending one if
/// there is one.
#[derive(Clone, Copy)]
struct Needed {
    committed: Zxid,
    under_way: Option<Zxid>,
}

/// The configurations whose quorums each transaction needs.
#[derive(Default)]
pub(crate) struct Joint {
    /// For each transaction, the newest reconfiguration in the history that ends with it.
    newest: BTreeMap<Zxid, Zxid>,
    needed: BTreeMap<Zxid, Needed>,
}

impl Joint {
    /// The configurations that count for a history that ends with `end`: the newest committed one
    /// in the history, and all later ones.
    pub(crate) fn counting(&self, order: &Order, end: Zxid) -> Vec<Zxid> {
        let mut counting = Vec::new();
        let mut at = end;
        loop {
            let newest = self.newest.get(&at).copied().unwrap_or_default();
            counting.push(newest);
            if newest == Zxid::ZERO || order.is_committed(newest) || order.is_said(newest) {
                return counting;
            }
            at = order.before(newest);
        }
    }

    /// A leader proposes a transaction, perhaps a reconfiguration.
    pub(crate) fn proposed(
        &mut self,
        order: &Order,
        zxid: Zxid,
        changes: bool,
    ) -> Result<(), String> {
        let before = self.newest.get(&order.before(zxid)).copied().unwrap_or_default();
        self.newest.insert(zxid, if changes { zxid } else { before });
        let needed = match self.counting(order, zxid)[..] {
            [committed] => Needed { committed, under_way: None },
            [under_way, committed] => Needed { committed, under_way: Some(under_way) },
            ref all => return Err(format!("R-1: {zxid} is proposed with {all:?} under way")),
        };
        self.needed.insert(zxid, needed);
        Ok(())
    }

    /// A transaction counts as committed.
    pub(crate) fn committed(
        &self,
        zxid: Zxid,
        order: &Order,
        configs: &Configs,
        durability: &Durability,
    ) -> Result<(), String> {
        // A wiped server has acknowledged transactions that it does not have any more.
        if zxid <= order.last() || durability.any_wiped() {
            return Ok(());
        }
        let Some(needed) = self.needed.get(&zxid) else { return Ok(()) };
        for version in [Some(needed.committed), needed.under_way].into_iter().flatten() {
            let config = configs.of(version);
            if !is_quorum(config, |voter| order.has(durability.flushed_by(voter), zxid)) {
                let rule = if needed.under_way.is_some() { "R-1" } else { "P-4" };
                return Err(format!(
                    "{rule}: {zxid} is committed, which no quorum of the members of {version} has"
                ));
            }
        }
        Ok(())
    }
}
