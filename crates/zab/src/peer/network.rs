//! A member's inputs from the network: connections of the election network, links to a leader and
//! to learners, packets, and the oracle's answer.

use std::time::Duration;

use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{Identity, ServerId, Zxid};

use super::{Part, Peer};
use crate::election::Ballot;
use crate::faults;
use crate::identity;
use crate::io::{Compared, Configs, LinkId, Output};
use crate::leave::Leave;
use crate::links::Progress;
use crate::mesh;

/// Maximum number of known servers; beyond it, non-members are ignored.
const ACQUAINTANCES_MAX: usize = 512;

impl Peer {
    /// A connection of the election network was opened or closed.
    pub(super) fn meet(
        &mut self,
        now: Duration,
        input: mesh::Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        if self.retired {
            if let mesh::Input::Accepted { wire, .. } | mesh::Input::Dialled { wire, .. } = input {
                out.push(Output::Mesh(mesh::Output::Close(wire)));
            }
            return Ok(());
        }
        if let mesh::Input::Accepted { wire, peer } = input
            && !self.may_take_part(peer)
        {
            out.push(Output::Mesh(mesh::Output::Close(wire)));
            return Ok(());
        }
        let (mut done, absent) = (Vec::new(), self.mesh.absent().len());
        self.mesh.step(input, &mut done);
        out.extend(done.into_iter().map(Output::Mesh));
        if self.mesh.absent().len() > absent {
            // It may be the last server whose vote was awaited.
            self.reconsider(now, out)?;
        }
        Ok(())
    }

    /// A notification arrived on a connection of the election network.
    pub(super) fn heard(
        &mut self,
        now: Duration,
        wire: mesh::WireId,
        ballot: Ballot,
        said: Configs,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let Some(from) = self.mesh.peer(wire) else { return Ok(()) };
        if let Some(theirs) = said.ensemble
            && identity::differ(self.identity, Identity::Settled(theirs))
        {
            if let (Part::Looking(_), Some(own)) = (&self.part, self.identity.settled()) {
                self.left = Leave::OtherEnsemble { server: from, theirs, own };
            }
            out.push(Output::OtherEnsemble { server: from, theirs });
            out.push(Output::Mesh(mesh::Output::Close(wire)));
            return self.meet(now, mesh::Input::Closed(wire), out);
        }
        self.election.lists(from, said.committed.clone(), &self.quorums);
        if self.adopt(now, from, &ballot, said, out) {
            return Ok(());
        }
        self.hear(now, from, ballot, out)
    }

    /// A learner has connected.
    pub(super) fn accepted(&mut self, now: Duration, link: LinkId, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader, _) => leader.accepted(&mut ctx, link),
            Part::Learning(learner, _) => match learner.relay_mut() {
                Some(relay) => relay.accepted(&ctx, link),
                None => ctx.out.push(Output::Close(link)),
            },
            Part::Settling(_) | Part::Looking(_) => ctx.out.push(Output::Close(link)),
        }
    }

    /// The connection requested with [`Output::Connect`] is open.
    pub(super) fn connected(&mut self, now: Duration, link: LinkId, out: &mut Vec<Output>) {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Learning(learner, _) => learner.connected(&mut ctx, link),
            _ => ctx.out.push(Output::Close(link)),
        }
    }

    pub(super) fn connect_failed(
        &mut self,
        now: Duration,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        match self.split(now, out) {
            (Part::Learning(learner, _), mut ctx) => learner.connect_failed(&mut ctx),
            _ => Ok(()),
        }
    }

    /// A packet from the leader or a learner has arrived.
    pub(super) fn packet(
        &mut self,
        now: Duration,
        link: LinkId,
        packet: QuorumPacket,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader, _) => leader.packet(&mut ctx, link, packet)?,
            Part::Learning(learner, _) if learner.is_link(link) => {
                learner.packet(&mut ctx, packet)?;
                if learner.serving().is_some() {
                    self.election.established(self.epochs.current.0.into());
                }
            }
            Part::Learning(learner, _) => {
                if let Some(relay) = learner.relay_mut() {
                    relay.packet(&mut ctx, link, packet);
                }
            }
            Part::Settling(_) | Part::Looking(_) => {}
        }
        Ok(())
    }

    /// The leader's snapshot has arrived.
    pub(super) fn copied(
        &mut self,
        now: Duration,
        link: LinkId,
        zxid: Zxid,
        out: &mut Vec<Output>,
    ) {
        let (part, mut ctx) = self.split(now, out);
        if let Part::Learning(learner, _) = part
            && learner.is_link(link)
        {
            learner.copied(&mut ctx, link, zxid);
        }
    }

    /// The digests of this server's tree and of the leader's were compared.
    pub(super) fn compared(&mut self, now: Duration, compared: Compared, out: &mut Vec<Output>) {
        if let (Part::Learning(learner, _), mut ctx) = self.split(now, out) {
            let change = ctx.doubt.compared(now, compared, ctx.options);
            learner.doubts(&mut ctx, change);
        }
    }

    /// Bytes of a large packet or snapshot move on a connection.
    pub(super) fn moves(&mut self, now: Duration, link: LinkId, out: &mut Vec<Output>) {
        match self.split(now, out) {
            (Part::Leading(leader, _), ctx) => leader.moves(&ctx, link),
            (Part::Learning(learner, _), mut ctx) => learner.moves(&mut ctx, link),
            (Part::Settling(_) | Part::Looking(_), _) => {}
        }
    }

    pub(super) fn link_down(
        &mut self,
        now: Duration,
        link: LinkId,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader, _) => leader.link_lost(&mut ctx, link),
            Part::Learning(learner, _) if learner.is_link(link) => {
                Err(Leave::LinkClosed(learner.leader()))
            }
            Part::Learning(learner, _) => {
                if let Some(relay) = learner.relay_mut() {
                    relay.link_down(link);
                }
                Ok(())
            }
            Part::Settling(_) | Part::Looking(_) => Ok(()),
        }
    }

    /// The oracle's answer: whether this server may continue alone.
    pub(super) fn oracle(
        &mut self,
        now: Duration,
        allows_alone: bool,
        out: &mut Vec<Output>,
    ) -> Result<(), Leave> {
        self.quorums.set_oracle(allows_alone);
        self.reconsider(now, out)?;
        match self.split(now, out) {
            (Part::Leading(leader, _), mut ctx) => leader.go_on_alone(&mut ctx),
            _ => Ok(()),
        }
    }

    /// Continues the synchronization of a learner.
    pub(super) fn advance(
        &mut self,
        now: Duration,
        link: LinkId,
        by: Progress,
        out: &mut Vec<Output>,
    ) {
        let (part, mut ctx) = self.split(now, out);
        match part {
            Part::Leading(leader, _) => leader.advance(&mut ctx, link, by),
            Part::Learning(learner, _) => {
                if let Some(relay) = learner.relay_mut() {
                    relay.advance(&mut ctx, link, by);
                }
            }
            Part::Settling(_) | Part::Looking(_) => {}
        }
    }

    /// Whether to listen to a server that has introduced itself: a member, or a server that may
    /// become one. Other members' configurations may already contain it.
    pub(super) fn may_take_part(&self, server: ServerId) -> bool {
        if faults::other_lists_refused() {
            return self.quorums.is_member(server);
        }
        self.quorums.is_member(server)
            || self.mesh.knows(server)
            || self.mesh.acquaintances() < ACQUAINTANCES_MAX
    }
}
