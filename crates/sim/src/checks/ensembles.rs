//! PAI-43: members of two ensembles never exchange transactions, and members of one ensemble agree
//! on its id.

use zebu_proto::quorum::PacketKind;
use zebu_proto::{EnsembleId, Identity};

/// To which ensemble each server belongs, as an onlooker knows.
#[derive(Debug)]
pub(crate) struct Ensembles {
    /// Whether a server belongs to another ensemble than the others.
    strays: Vec<bool>,
    /// The first connection that a server can have opened as what it is now.
    since: Vec<u64>,
    /// The id of the one that all began in, once a member knows that it is settled.
    settled: Option<EnsembleId>,
}

impl Ensembles {
    pub(crate) fn new(servers: usize) -> Self {
        Self { strays: vec![false; servers], since: vec![0; servers], settled: None }
    }

    /// The id that the ensemble has settled.
    pub(crate) fn settled(&self) -> Option<EnsembleId> {
        self.settled
    }

    /// A server's data are those of another ensemble now, or its own again; later connections have this number or a
    /// greater one.
    pub(crate) fn strays(&mut self, server: usize, strays: bool, next: u64) {
        (self.strays[server], self.since[server]) = (strays, next);
    }

    /// A server has made durable what it knows of its ensemble's id.
    pub(crate) fn knows(&mut self, server: usize, identity: Identity) -> Option<String> {
        let id = identity.settled().filter(|_| !self.strays[server])?;
        let known = *self.settled.get_or_insert(id);
        (known != id).then(|| format!("PAI-43: server {server} settles {id} beside {known}"))
    }

    /// A packet has come from one server to another over a connection.
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
