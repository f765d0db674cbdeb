//! PAI-43: members of two ensembles never exchange transactions, and members of one ensemble agree
//! on its id.

use zebu_proto::quorum::PacketKind;
use zebu_proto::{EnsembleId, Identity};

/// The ensemble that each server belongs to.
#[derive(Debug)]
pub(crate) struct Ensembles {
    /// Whether each server belongs to another ensemble than the others.
    strays: Vec<bool>,
    /// For each server, the first connection that it can have opened since it last changed
    /// ensembles.
    since: Vec<u64>,
    /// The id of the original ensemble, as soon as a member has learned it.
    settled: Option<EnsembleId>,
}

impl Ensembles {
    pub(crate) fn new(servers: usize) -> Self {
        Self { strays: vec![false; servers], since: vec![0; servers], settled: None }
    }

    /// The id that the ensemble has agreed on.
    pub(crate) fn settled(&self) -> Option<EnsembleId> {
        self.settled
    }

    /// A server gets the data of another ensemble, or its own again. Later connections have numbers
    /// from `next` on.
    pub(crate) fn strays(&mut self, server: usize, strays: bool, next: u64) {
        (self.strays[server], self.since[server]) = (strays, next);
    }

    /// A server has stored what it knows of its ensemble's id.
    pub(crate) fn knows(&mut self, server: usize, identity: Identity) -> Option<String> {
        let id = identity.settled().filter(|_| !self.strays[server])?;
        let known = *self.settled.get_or_insert(id);
        (known != id).then(|| format!("PAI-43: server {server} settles {id} beside {known}"))
    }

    /// A packet arrives at a server.
    pub(crate) fn passes(
        &self,
        connection: u64,
        from: usize,
        to: usize,
        kind: PacketKind,
    ) -> Option<String> {
        let is_late = connection < self.since[from].max(self.since[to]);
        let carries = matches!(
            kind,
            PacketKind::PROPOSAL
                | PacketKind::COMMIT
                | PacketKind::COMMITANDACTIVATE
                | PacketKind::INFORM
                | PacketKind::INFORMANDACTIVATE
                | PacketKind::DIFF
                | PacketKind::TRUNC
                | PacketKind::SNAP
                | PacketKind::NEWLEADER
                | PacketKind::REQUEST
        );
        (carries && !is_late && self.strays[from] != self.strays[to]).then(|| {
            format!("PAI-43: {kind} passes from server {from} to {to} of another ensemble")
        })
    }
}
