//! What a change of the configuration means for a member, whatever its role.
//!
//! A configuration is proposed before it is in force: from then on both count, until it is committed
//! or taken back with the transaction it came with. Whoever is not told who leads the new one looks
//! for a leader. Source: `quorum-reconfig.md` §3 and §6, `QuorumPeer.processReconfig`.

use std::sync::Arc;

use zebu_proto::{ServerId, Zxid};

use crate::config::Membership;
use crate::ctx::Ctx;
use crate::io::{ConfigChange, Output};

/// Whom to follow, or to become, without an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appointed {
    pub(crate) leader: ServerId,
    /// The reconfiguration's place in the order.
    pub(crate) zxid: Zxid,
}

impl Ctx<'_> {
    /// A configuration is proposed, and counts from now on.
    pub(crate) fn config_proposed(&mut self, config: Arc<Membership>) {
        if self.options.reconfig && self.quorums.propose(config.clone()) {
            self.out.push(Output::Config(ConfigChange::Proposed(config)));
        }
    }

    /// Another server says that a configuration is proposed: who is to vote in it is heard. Whether that
    /// is news.
    pub(crate) fn config_heard(&mut self, config: Arc<Membership>) -> bool {
        let is_new = self.options.reconfig && self.quorums.hear(config.clone());
        if is_new {
            self.out.push(Output::Config(ConfigChange::Heard(Some(config))));
        }
        is_new
    }

    /// A quorum has promised to acknowledge nothing but this server's history, and none of them has a
    /// better one: what is proposed elsewhere only can never have been committed.
    pub(crate) fn forget_hearsay(&mut self) {
        if self.quorums.forget_hearsay() {
            self.out.push(Output::Config(ConfigChange::Heard(None)));
        }
    }

    /// A leader's history takes the place of this server's, and with it what the leader knows to be
    /// proposed: what is proposed here only has gone with the transaction it came with.
    ///
    /// A quorum has promised the leader to acknowledge nothing else, and its history is the best of
    /// theirs: what it does not know can never have been committed.
    pub(crate) fn config_adopted(&mut self, config: Arc<Membership>) {
        if !self.options.reconfig {
            return;
        }
        if self.options.credulous {
            return self.config_replaced(Some(config));
        }
        // What the leader has proposed since is on its way in the history already.
        let pending = self.history.pending().filter_map(|txn| Membership::in_txn(&txn.record));
        let config = match pending.last() {
            Some(pending) if pending.version() > config.version() => Arc::new(pending),
            _ => config,
        };
        self.forget_hearsay();
        self.config_replaced(Some(config));
    }

    /// The disk holds another history than before: what is proposed is what that has, which ends in a
    /// tree with this configuration.
    pub(crate) fn config_found(&mut self, in_tree: Option<Arc<Membership>>) {
        if !self.options.reconfig {
            return;
        }
        let logged = self.history.all().filter_map(|txn| Membership::in_txn(&txn.record));
        // What was agreed on with an epoch is in no transaction.
        let agreed = self.quorums.last_seen();
        let agreed = Some(agreed.clone()).filter(|config| config.version().counter() == 0);
        let found = logged.map(Arc::new).chain(in_tree).chain(agreed);
        let newest = found.max_by_key(|config| config.version());
        self.config_replaced(newest);
    }

    /// What is proposed is this, and what was before is not.
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

    /// A configuration is in force; returns the one it replaces if there is more to it than another
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

    /// When this role has ended, this server goes over to `leader` without an election.
    pub(crate) fn appoint(&mut self, leader: ServerId, zxid: Zxid) {
        *self.appointed = Some(Appointed { leader, zxid });
    }
}

/// Whether a leader goes on leading when one configuration takes another's place: with a vote in
/// both, and where its learners can still find it.
pub(crate) fn leader_stays(leader: ServerId, before: &Membership, after: &Membership) -> bool {
    let votes = before.is_voter(leader) && after.is_voter(leader);
    votes
        && (before.member(leader).zip(after.member(leader)))
            .is_some_and(|(before, after)| before.shares_quorum_address(after))
}
