//! The condition for an answer of the echo server: none, a sync of its own log, or a quorum of its
//! ensemble.

use std::io;
use std::path::Path;

use mio::{Registry, Waker};

use super::journal::Journal;
use super::quorum::{Follower, Leader};

/// Tells what was asked for earlier from what was later: answers wait for the ticket that their requests have.
pub(super) type Ticket = u64;

/// What requests that change something go through before they are answered.
#[derive(Debug)]
pub(super) enum Order {
    /// Nothing: they are answered at once.
    Free,
    /// The log.
    Alone(Alone),
    /// The logs of a quorum; this server decides on the order.
    Leading(Leader),
    /// The same; another server decides.
    Following(Follower),
}

impl Order {
    /// One more request.
    pub(super) fn add(&mut self, request: &[u8]) {
        match self {
            Self::Free => {}
            Self::Alone(alone) => alone.journal.add(request),
            Self::Leading(leader) => leader.add(request),
            Self::Following(follower) => follower.add(request),
        }
    }

    /// What the answer to a request that is added now waits for; `None`: nothing.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Free => None,
            Self::Alone(alone) => Some(alone.begun + 1),
            Self::Leading(leader) => Some(leader.ticket()),
            Self::Following(follower) => Some(follower.ticket()),
        }
    }

    /// Something may have come on one of the links to other servers, or can be sent there.
    pub(super) fn ready(&mut self, link: usize) {
        match self {
            Self::Free | Self::Alone(_) => {}
            Self::Leading(leader) => leader.ready(link),
            Self::Following(follower) => follower.ready(),
        }
    }

    /// Does what can be done now, to be called again until there is nothing: whose answers may be sent by now.
    ///
    /// # Errors
    /// The disk or the other servers failed.
    pub(super) fn turn(&mut self) -> io::Result<Option<Ticket>> {
        match self {
            Self::Free => Ok(None),
            Self::Alone(alone) => alone.turn(),
            Self::Leading(leader) => leader.turn(),
            Self::Following(follower) => follower.turn(),
        }
    }
}

/// A log of its own. A ticket is a sync.
#[derive(Debug)]
pub(super) struct Alone {
    journal: Journal,
    begun: Ticket,
}

impl Alone {
    /// With a log in `dir`; `registry` has the events of the caller's thread, who is woken when a sync is over.
    ///
    /// # Errors
    /// The file cannot be made or filled.
    pub(super) fn new(dir: &Path, registry: &Registry) -> anyhow::Result<Self> {
        let journal = Journal::new(dir, Waker::new(registry, super::SYNCED)?)?;
        Ok(Self { journal, begun: 0 })
    }

    fn turn(&mut self) -> io::Result<Option<Ticket>> {
        let is_over = if self.journal.is_busy() {
            self.journal.is_done()?
        } else if self.journal.waiting() == 0 {
            return Ok(None);
        } else {
            self.begun += 1;
            self.journal.sync()?
        };
        Ok(is_over.then_some(self.begun))
    }
}
