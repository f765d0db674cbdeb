//! How a leader lets another server lead: any server once it stops, or a follower that is chosen.
//!
//! An election prefers the server with the most transactions, and the highest id among equals. So a
//! leader that is to be followed by one of its followers proposes a last transaction to that
//! follower alone, and leaves when the follower has logged it. That is a leader that fails while it
//! sends a proposal, which every server of the protocol copes with.

use std::collections::BTreeSet;

use zebu_proto::ServerId;

use super::{Leader, Link, State};
use crate::ctx::Ctx;
use crate::history::Txn;
use crate::leave::Leave;
use crate::links::Stage;
use crate::quorums::Quorums;

/// Why a server cannot hand over leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoHeir {
    /// It does not lead.
    #[error("this server does not lead")]
    NotLeading,
    /// It is the leader that is named.
    #[error("server.{} leads already", .0.0)]
    Leads(ServerId),
    /// No server of the configuration has this id.
    #[error("the configuration has no server.{}", .0.0)]
    Unknown(ServerId),
    /// The server has no vote, so it cannot lead.
    #[error("server.{} is an observer", .0.0)]
    Observer(ServerId),
    /// The server does not follow this leader.
    #[error("server.{} does not follow this leader", .0.0)]
    Absent(ServerId),
    /// The server has just connected.
    #[error("server.{} is not synchronized with this leader", .0.0)]
    Behind(ServerId),
    /// No voter follows.
    #[error("no voter is synchronized with this leader")]
    Nobody,
    /// Other members follow from a change of the members that is in progress.
    #[error("a reconfiguration is in progress")]
    Reconfiguration,
}

impl Leader {
    /// Whether all proposals are committed, and enough followers have them to elect a successor at
    /// once. True also if too few followers are connected: waiting would not help.
    pub(crate) fn may_retire(&self, me: ServerId, quorums: &Quorums) -> bool {
        if self.epoch().is_none() {
            return true;
        }
        if self.proposed.counter() != 0 && self.end < self.proposed {
            return false;
        }
        let followers = || {
            let serving = self.links.values().filter(|link| link.is_serving() && !link.observer);
            serving.filter(|link| link.server != me)
        };
        let can_elect = |servers: &BTreeSet<ServerId>| quorums.all_have_quorum(servers);
        let all = followers().map(|link| link.server).collect();
        let up_to_date = followers().filter(|link| link.own.unacked.is_none());
        can_elect(&up_to_date.map(|link| link.server).collect()) || !can_elect(&all)
    }

    /// The follower that leads next: `to`, or that with the most transactions and the highest id.
    pub(crate) fn heir(
        &self,
        me: ServerId,
        quorums: &Quorums,
        to: Option<ServerId>,
    ) -> Result<ServerId, NoHeir> {
        let State::Broadcast(broadcast) = &self.state else { return Err(NoHeir::NotLeading) };
        if quorums.is_joint() || broadcast.successor.is_some() {
            return Err(NoHeir::Reconfiguration);
        }
        let members = quorums.committed();
        let votes = |server| members.is_voter(server);
        let Some(to) = to else {
            let followers = self.links.values().filter(|link| link.is_serving() && !link.observer);
            let heirs = followers.filter(|link| votes(link.server) && link.server != me);
            let best = heirs.max_by_key(|link| (link.own.acked, link.server));
            return best.map(|link| link.server).ok_or(NoHeir::Nobody);
        };
        if to == me {
            return Err(NoHeir::Leads(me));
        }
        if members.member(to).is_none() {
            return Err(NoHeir::Unknown(to));
        }
        if !votes(to) {
            return Err(NoHeir::Observer(to));
        }
        let of_it = |link: &&Link| link.is_of(to) && !link.observer;
        match self.links.values().filter(of_it).map(|link| &link.stage).next_back() {
            Some(Stage::Broadcast) => Ok(to),
            Some(_) => Err(NoHeir::Behind(to)),
            None => Err(NoHeir::Absent(to)),
        }
    }

    /// Whether everything proposed is committed, and this follower has it.
    pub(crate) fn may_hand_over(&self, heir: ServerId) -> bool {
        let is_committed = self.proposed.counter() == 0 || self.end == self.proposed;
        let has_all = |link: &Link| link.is_serving() && link.own.unacked.is_none();
        is_committed
            && self
                .links
                .values()
                .any(|link| link.server == heir && !link.observer && has_all(link))
    }

    /// Proposes the transaction that only the next leader gets.
    pub(crate) fn hand_over(&mut self, ctx: &mut Ctx<'_>, heir: ServerId, txn: Txn) {
        let zxid = txn.zxid;
        self.propose_to(ctx, txn, |server| server == heir);
        let broadcast = self.state.broadcast_mut().expect("only an established leader proposes");
        broadcast.heir = Some((heir, zxid));
    }

    /// Ends the role when the follower that was to lead next is gone.
    pub(super) fn misses_heir(&self) -> Result<(), Leave> {
        match self.state.broadcast().and_then(|broadcast| broadcast.heir) {
            Some((heir, _)) if !self.has_follower(heir) => Err(Leave::HeirLost(heir)),
            _ => Ok(()),
        }
    }

    fn has_follower(&self, server: ServerId) -> bool {
        self.links.values().any(|link| link.server == server && link.is_serving())
    }
}
