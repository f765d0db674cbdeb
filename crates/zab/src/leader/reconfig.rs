//! A leader's part in a reconfiguration: whose acknowledgements count meanwhile, and who leads
//! afterwards.
//!
//! Transactions proposed from a reconfiguration on and before its commit need quorums of both
//! configurations, even if they commit later. Source: `quorum-reconfig.md` §6, `Leader.propose`,
//! `Leader.tryToCommit`, `Leader.getDesignatedLeader`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::quorum::{Activate, PacketKind, QuorumPacket};
use zebu_proto::{ServerId, Zxid};

use super::state::Broadcast;
use super::{Follow, Leader, State};
use crate::config::Membership;
use crate::ctx::Ctx;
use crate::history::Txn;
use crate::io::Output;
use crate::leave::Leave;
use crate::links::Links;
use crate::quorums::Quorums;
use crate::reconfig::leader_stays;

/// The quorums that transactions need.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// Each from its first zxid on, ascending.
    by_zxid: VecDeque<(Zxid, Quorums)>,
    /// The uncommitted reconfiguration.
    pending: Option<(Zxid, Arc<Membership>)>,
}

impl Needed {
    /// From `zxid` on, the current `quorums` are needed.
    pub(super) fn begin(&mut self, zxid: Zxid, quorums: &Quorums) {
        let before = self.by_zxid.back().map(|(from, _)| *from);
        assert!(before.is_none_or(|before| before <= zxid), "{zxid} after {before:?}");
        self.by_zxid.push_back((zxid, quorums.clone()));
    }

    /// Asserts what holds between any two steps of a leader that serves.
    pub(super) fn check(&self, end: Zxid, proposed: Zxid) {
        let by_zxid = self.by_zxid.iter().map(|(from, _)| *from);
        assert!(by_zxid.is_sorted(), "quorums are in the order in which they count");
        assert!(!self.by_zxid.is_empty(), "a leader knows whose quorums it needs");
        if let Some(pending) = self.pending() {
            assert!(pending > end, "the reconfiguration {pending} is committed, and waits");
            assert!(pending <= proposed, "the reconfiguration {pending} is not proposed");
            let (_, quorums) = self.by_zxid.back().expect("there is a first");
            assert!(quorums.is_joint(), "the reconfiguration {pending} binds one side only");
        }
    }

    /// The quorums needed after `end`, and the first zxid for which they may differ.
    pub(super) fn after(&mut self, end: Zxid) -> Option<(&Quorums, Zxid)> {
        while self.by_zxid.get(1).is_some_and(|(from, _)| from.0 <= end.0 + 1) {
            self.by_zxid.pop_front();
        }
        let until = self.by_zxid.get(1).map_or(Zxid(i64::MAX), |(from, _)| *from);
        self.by_zxid.front().map(|(_, quorums)| (quorums, until))
    }

    /// The zxid of the uncommitted reconfiguration.
    pub(super) fn pending(&self) -> Option<Zxid> {
        self.pending.as_ref().map(|(zxid, _)| *zxid)
    }
}

/// The designated leader of the new configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successor {
    server: ServerId,
    zxid: Zxid,
    /// When this leader stops waiting for the others to leave.
    until: Duration,
}

impl Successor {
    pub(super) fn until(&self) -> Duration {
        self.until
    }
}

impl Leader {
    /// A transaction, perhaps a reconfiguration, is about to be proposed.
    pub(super) fn prepare(&mut self, ctx: &mut Ctx<'_>, txn: &Txn) {
        if !ctx.options.reconfig {
            return;
        }
        let Some(config) = Membership::in_txn(&txn.record) else { return };
        let State::Broadcast(Broadcast { needed, .. }) = &mut self.state else {
            unreachable!("only an established leader proposes")
        };
        assert!(needed.pending.is_none(), "one reconfiguration at a time");
        let config = Arc::new(config);
        needed.pending = Some((txn.zxid, config.clone()));
        ctx.config_proposed(config);
        needed.begin(txn.zxid, ctx.quorums);
    }

    /// Whether a quorum of a configuration follows this leader.
    pub(crate) fn reaches(&self, now: Duration, me: ServerId, config: &Membership) -> bool {
        let follows = |server| {
            let mut links = self.links.values().filter(|link| link.server == server);
            links.any(|link| link.is_registered() && !link.observer && link.own.alive_until >= now)
        };
        config.has_quorum(|server| server == me || follows(server))
    }

    /// Whether proposals made under the previous configuration wait for a quorum that no longer
    /// exists: servers that lost their vote acknowledge nothing. A new leader would not need them.
    pub(super) fn waits_in_vain(&mut self, ctx: &Ctx<'_>) -> bool {
        if self.proposed <= self.end {
            return false;
        }
        let State::Broadcast(broadcast) = &mut self.state else { return false };
        let Some((quorums, _)) = broadcast.needed.after(self.end) else { return false };
        let is_over = quorums.last_seen().version() <= ctx.quorums.committed().version();
        if !quorums.is_joint() || !is_over {
            return false;
        }
        let before = quorums.committed().clone();
        !self.reaches(ctx.now, ctx.options.me, &before)
    }

    /// The committed reconfiguration comes into force.
    pub(super) fn activate(&mut self, ctx: &mut Ctx<'_>, txn: &Txn) {
        let State::Broadcast(broadcast) = &mut self.state else { return };
        let Some((zxid, config)) = broadcast.needed.pending.take() else { return };
        assert_eq!(zxid, txn.zxid, "another reconfiguration is committed than was proposed");
        assert_eq!(
            zxid, self.end,
            "nothing is committed with a reconfiguration but what is before"
        );
        let me = ctx.options.me;
        let before = ctx.quorums.committed().clone();
        ctx.config_committed(config.clone());
        broadcast.needed.begin(Zxid(self.proposed.0 + 1), ctx.quorums);
        let leader = if leader_stays(me, &before, &config) {
            me
        } else {
            Self::best_candidate(&self.links, me, txn.zxid, &config)
        };
        for (id, link) in self.links.registered() {
            let (kind, txn_data) = if link.observer {
                (PacketKind::INFORMANDACTIVATE, txn.record.clone())
            } else {
                (PacketKind::COMMITANDACTIVATE, bytes::Bytes::new())
            };
            let data = Activate { leader, txn: txn_data }.to_data();
            ctx.out.push(Output::Send(id, QuorumPacket::with_data(kind, txn.zxid, data)));
        }
        if leader != me {
            let until = ctx.now + ctx.options.sync_time();
            broadcast.successor = Some(Successor { server: leader, zxid: txn.zxid, until });
        } else if before.member(me) != config.member(me) && !leader_stays(me, &before, &config) {
            // No other server can lead: learners find this one at its new address.
            ctx.out.push(Output::Unlisten);
            ctx.out.push(Output::Listen);
        }
    }

    /// The new voter that has acknowledged most.
    fn best_candidate(
        links: &Links<Follow>,
        me: ServerId,
        zxid: Zxid,
        config: &Membership,
    ) -> ServerId {
        let candidates = links.values().filter(|link| {
            config.is_voter(link.server)
                && !link.observer
                && link.server != me
                && link.own.acked >= zxid
        });
        let best = candidates.max_by_key(|link| (link.own.acked, std::cmp::Reverse(link.server)));
        best.map_or(me, |link| link.server)
    }

    /// Ends the role when too few followers are left.
    pub(super) fn retire(&self, ctx: &mut Ctx<'_>) -> Result<(), Leave> {
        let successor = self.state.broadcast().and_then(|broadcast| broadcast.successor);
        let Some(Successor { server, zxid, until }) = successor else { return Ok(()) };
        let links = self.links.values().filter(|link| !link.observer && link.is_registered());
        let mut left: BTreeSet<ServerId> = links.map(|link| link.server).collect();
        left.insert(ctx.options.me);
        if until > ctx.now && ctx.quorums.all_have_quorum(&left) {
            return Ok(());
        }
        ctx.appoint(server, zxid);
        Err(Leave::Succeeded(server))
    }

    /// A quorum has this leader's history and the configuration proposed in it, so that
    /// configuration is committed. Returns whether this server still leads.
    pub(super) fn complete(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let State::Broadcast(broadcast) = &mut self.state else {
            unreachable!("only an established leader completes a configuration")
        };
        let config = ctx.quorums.last_seen().clone();
        let before = ctx.quorums.committed().clone();
        ctx.config_committed(config.clone());
        broadcast.needed.begin(Zxid::new(self.epoch, 0), ctx.quorums);
        let me = ctx.options.me;
        let here = before.member(me).zip(config.member(me));
        let moves = here.is_some_and(|(before, after)| !before.shares_quorum_address(after));
        config.is_voter(me) && !moves
    }
}
