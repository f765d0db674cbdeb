//! S-13: the committed configuration never gets older, and is never behind one that was seen. One
//! version is one list of members. No server commits a configuration that the ensemble has not
//! committed. A leader has at most one change in progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use zebu_proto::{Epoch, ServerId, Zxid};
use zebu_zab::ConfigChange;
use zebu_zab::config::{Membership, Verifier};

use crate::checks::durability::Durability;
use crate::checks::joint::Joint;
use crate::checks::order::Order;
use crate::members::{machine, txn_of};
use crate::server::Server;

#[derive(Clone, Copy, Default)]
struct Track {
    committed: Zxid,
    last_seen: Zxid,
    /// The version in the server's files.
    saved: Zxid,
}

/// All configurations that were proposed or committed.
pub(crate) struct Configs {
    /// The initial configuration.
    first: Arc<Membership>,
    /// Proposed and committed configurations, by version.
    known: BTreeMap<Zxid, Arc<Membership>>,
    servers: Vec<Track>,
    /// The pending reconfiguration of each leader, by its epoch.
    under_way: BTreeMap<Epoch, Zxid>,
}

impl Configs {
    pub(crate) fn new(first: Membership, servers: usize) -> Self {
        Self {
            first: Arc::new(first),
            known: BTreeMap::new(),
            servers: vec![Track::default(); servers],
            under_way: BTreeMap::new(),
        }
    }

    /// The configuration with this version.
    pub(crate) fn of(&self, version: Zxid) -> &Arc<Membership> {
        self.known.get(&version).unwrap_or(&self.first)
    }

    /// Checks quorums for a leader of `epoch`: the `counting` configurations, and the newest
    /// configuration that earlier epochs committed. The error is the version of the first
    /// configuration in which the servers for which `has` holds are no quorum.
    pub(crate) fn have_quorums(
        &self,
        counting: &[Zxid],
        order: &Order,
        epoch: Epoch,
        mut has: impl FnMut(usize) -> bool,
    ) -> Result<(), Zxid> {
        let newest = self.newest_below(order, epoch).version();
        let mut versions = counting.iter().copied().chain([newest]);
        versions.find(|version| !is_quorum(self.of(*version), &mut has)).map_or(Ok(()), Err)
    }

    /// The newest committed configuration.
    pub(crate) fn newest(&self, order: &Order) -> &Arc<Membership> {
        self.newest_below(order, Epoch(u32::MAX))
    }

    /// The newest committed configuration of the epochs below `epoch`.
    pub(crate) fn newest_below(&self, order: &Order, epoch: Epoch) -> &Arc<Membership> {
        let earlier = self.known.iter().rev().filter(|(version, _)| version.epoch() < epoch);
        let is_committed = |config: &Membership| {
            txn_of(config).is_some_and(|it| order.is_committed(it) || order.is_said(it))
        };
        let mut committed = earlier.filter(|(_, config)| is_committed(config));
        committed.next().map_or(&self.first, |(_, config)| config)
    }

    /// The version of the newest committed configuration.
    pub(crate) fn newest_version(&self, order: &Order) -> Zxid {
        let agreed = || self.known.keys().rev().find(|version| version.counter() == 0);
        match self.newest(order).version() {
            Zxid::ZERO => agreed().copied().unwrap_or_default(),
            version => version,
        }
    }

    fn meet(&mut self, server: usize, config: &Arc<Membership>) -> Result<(), String> {
        if config.version() == Zxid::ZERO {
            return Ok(());
        }
        let known = self.known.entry(config.version()).or_insert_with(|| config.clone());
        if !known.has_same_members(config) {
            return Err(format!(
                "S-13: server {server} has {config} as {}, others {known}",
                config.version()
            ));
        }
        Ok(())
    }

    /// A leader proposes a reconfiguration.
    pub(crate) fn proposed(
        &mut self,
        server: usize,
        config: Membership,
        order: &Order,
    ) -> Result<(), String> {
        let version = config.version();
        self.meet(server, &Arc::new(config))?;
        let before = self.under_way.insert(version.epoch(), version);
        match before {
            Some(before) if !order.is_committed(before) && !order.is_said(before) => {
                Err(format!("S-13: server {server} proposes {version} while {before} is under way"))
            }
            _ => Ok(()),
        }
    }

    /// A server starts with this committed configuration.
    pub(crate) fn started(&mut self, server: usize, committed: &Membership) -> Result<(), String> {
        let track = &mut self.servers[server];
        let version = committed.version();
        if version < track.saved {
            let saved = track.saved;
            return Err(format!(
                "S-13: server {server} comes back with {version} in force, it had {saved}"
            ));
        }
        *track = Track { committed: version, last_seen: version, saved: version };
        Ok(())
    }

    /// An operator has replaced a server's configuration file.
    pub(crate) fn rewritten(&mut self, server: usize) {
        self.servers[server] = Track::default();
    }

    /// A server has written a change of its configuration files.
    pub(crate) fn saved(&mut self, server: usize, change: &ConfigChange) {
        if let ConfigChange::Committed(config) = change {
            self.servers[server].saved = config.version();
        }
    }

    pub(crate) fn check(
        &mut self,
        server: usize,
        it: &Server,
        order: &Order,
        joint: &Joint,
        durability: &Durability,
    ) -> Result<(), String> {
        let Some(quorums) = it.peer().map(zebu_zab::Peer::quorums) else { return Ok(()) };
        let (committed, last_seen) = (quorums.committed(), quorums.last_seen());
        let before = self.servers[server];
        let now =
            Track { committed: committed.version(), last_seen: last_seen.version(), ..before };
        if now.committed != before.committed {
            self.meet(server, committed)?;
            if let Some(zxid) = txn_of(committed)
                && !order.is_committed(zxid)
                && let Err(why) = joint.committed(zxid, order, self, durability)
            {
                return Err(format!("S-13: server {server} has {zxid} in force: {why}"));
            }
        }
        if now.last_seen != before.last_seen {
            self.meet(server, last_seen)?;
        }
        if now.committed < before.committed {
            return Err(format!(
                "S-13: server {server} goes back from {} to {}",
                before.committed, now.committed
            ));
        }
        if now.last_seen < now.committed {
            return Err(format!(
                "S-13: server {server} has seen {}, and {} is in force",
                now.last_seen, now.committed
            ));
        }
        self.servers[server] = now;
        Ok(())
    }
}

/// Whether the servers for which `has` holds are a quorum of `config`.
pub(crate) fn is_quorum(config: &Membership, mut has: impl FnMut(usize) -> bool) -> bool {
    if let Verifier::Hierarchical(groups) = config.verifier() {
        let mut weights = Vec::new();
        for (_, members) in groups.groups() {
            let (mut whole, mut found) = (0, 0);
            for member in members {
                whole += groups.weight(*member);
                found += if has(machine(*member)) { groups.weight(*member) } else { 0 };
            }
            weights.extend((whole > 0).then_some((whole, found)));
        }
        let won = weights.iter().filter(|(whole, found)| found * 2 > *whole).count();
        return won * 2 > weights.len();
    }
    let voters: Vec<ServerId> = config.voters().collect();
    let found = voters.iter().filter(|voter| has(machine(**voter))).count();
    found * 2 > voters.len()
}
