//! A configuration change, as every role handles it.
//!
//! A configuration is proposed before it is committed. From then on both count, until the proposed
//! one is committed, or truncated with its transaction. A server that is not told the leader of the
//! new configuration looks for a leader. Source: `quorum-reconfig.md` §3 and §6,
//! `QuorumPeer.processReconfig`.

use std::sync::Arc;

use zebu_proto::{ServerId, Zxid};

use crate::config::Membership;
use crate::ctx::Ctx;
use crate::io::{ConfigChange, Output};

/// The leader to join, or to become, without an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appointed {
    pub(crate) leader: ServerId,
    /// The zxid of the reconfiguration.
    pub(crate) zxid: Zxid,
}

impl Ctx<'_> {
    /// A configuration is proposed, and counts from now on.
    pub(crate) fn config_proposed(&mut self, config: Arc<Membership>) {
        if self.options.reconfig && self.quorums.propose(config.clone()) {
            self.out.push(Output::Config(ConfigChange::Proposed(config)));
        }
    }

    /// A configuration was learned from an election message: its voters take part in elections.
    /// Returns whether it is new.
    pub(crate) fn config_heard(&mut self, config: Arc<Membership>) -> bool {
        let is_new = self.options.reconfig && self.quorums.hear(config.clone());
        if is_new {
            self.out.push(Output::Config(ConfigChange::Heard(Some(config))));
        }
        is_new
    }

    /// A quorum has promised to acknowledge only this server's history, and none of them has a
    /// better one. So a configuration that is only proposed elsewhere was never committed, and is
    /// dropped.
    pub(crate) fn forget_hearsay(&mut self) {
        if self.quorums.forget_hearsay() {
            self.out.push(Output::Config(ConfigChange::Heard(None)));
        }
    }

    /// A leader's history replaces this server's, including the proposed configuration. One that is
    /// proposed only here was truncated with its transaction.
    ///
    /// A quorum has promised the leader to acknowledge nothing else, and its history is the best of
    /// them. So a configuration unknown to the leader was never committed.
    pub(crate) fn config_adopted(&mut self, config: Arc<Membership>) {
        if !self.options.reconfig {
            return;
        }
        if self.options.credulous {
            return self.config_replaced(Some(config));
        }
        // Later proposals of the leader are already in the pending history.
        let pending = self.history.pending().filter_map(|txn| Membership::in_txn(&txn.record));
        let config = match pending.last() {
            Some(pending) if pending.version() > config.version() => Arc::new(pending),
            _ => config,
        };
        self.forget_hearsay();
        self.config_replaced(Some(config));
    }

    /// The history on disk has changed: the proposed configuration is now the newest one in it.
    /// `in_tree`: the configuration in the tree where the history ends.
    pub(crate) fn config_found(&mut self, in_tree: Option<Arc<Membership>>) {
        if !self.options.reconfig {
            return;
        }
        let logged = self.history.all().filter_map(|txn| Membership::in_txn(&txn.record));
        // A configuration agreed on with an epoch is in no transaction.
        let agreed = self.quorums.last_seen();
        let agreed = Some(agreed.clone()).filter(|config| config.version().counter() == 0);
        let found = logged.map(Arc::new).chain(in_tree).chain(agreed);
        let newest = found.max_by_key(|config| config.version());
        self.config_replaced(newest);
    }

    /// Replaces the proposed configuration.
    fn config_replaced(&mut self, config: Option<Arc<Membership>>) {
        if self.quorums.adopt(config) {
            let change = if self.quorums.is_joint() {
                ConfigChange::Proposed(self.quorums.last_seen().clone())
            } else {
                ConfigChange::Withdrawn
            };
            self.out.push(Output::Config(change));
        }
    }

    /// A configuration is committed. Returns the one it replaces, if they differ in more than the
    /// version.
    pub(crate) fn config_committed(&mut self, config: Arc<Membership>) -> Option<Arc<Membership>> {
        let before = self.quorums.committed().clone();
        if !self.options.reconfig || !self.quorums.commit(config.clone()) {
            return None;
        }
        let differs = !before.is_same_as(&config);
        self.out.push(Output::Config(ConfigChange::Committed(config)));
        *self.members_changed |= differs;
        differs.then_some(before)
    }

    /// Designates `leader`, to be joined without an election after this role.
    pub(crate) fn appoint(&mut self, leader: ServerId, zxid: Zxid) {
        *self.appointed = Some(Appointed { leader, zxid });
    }
}

/// Whether a leader stays leader across a change of configuration: it needs a vote in both, and a
/// quorum address where its learners still reach it.
pub(crate) fn leader_stays(leader: ServerId, before: &Membership, after: &Membership) -> bool {
    let votes = before.is_voter(leader) && after.is_voter(leader);
    votes
        && (before.member(leader).zip(after.member(leader)))
            .is_some_and(|(before, after)| before.shares_quorum_address(after))
}
