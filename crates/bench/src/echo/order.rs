//! The condition for an answer of the echo server: none, a sync of its own log, or a quorum of its
//! ensemble.

use std::io;
use std::path::Path;
use std::sync::Arc;

use mio::{Registry, Waker};

use super::journal::{Counts, Journal};
use super::quorum::{Follower, Leader};

/// Numbers writes: an answer waits for the ticket of its request.
pub(super) type Ticket = u64;

/// How writes are ordered and made durable before their answers.
#[derive(Debug)]
pub(super) enum Order {
    /// Not at all: answers are immediate.
    Free,
    /// In this server's log.
    Alone(Alone),
    /// In the logs of a quorum. This server is the leader.
    Leading(Leader),
    /// In the logs of a quorum. Another server is the leader.
    Following(Follower),
}

impl Order {
    /// Adds a request.
    pub(super) fn add(&mut self, request: &[u8]) {
        match self {
            Self::Free => {}
            Self::Alone(alone) => alone.journal.add(request),
            Self::Leading(leader) => leader.add(request),
            Self::Following(follower) => follower.add(request),
        }
    }

    /// The ticket that the answer to the next request waits for; `None` if it need not wait.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Free => None,
            Self::Alone(alone) => Some(alone.begun + 1),
            Self::Leading(leader) => Some(leader.ticket()),
            Self::Following(follower) => Some(follower.ticket()),
        }
    }

    /// What a log of its own has logged; the counts go on.
    pub(super) fn counts(&self) -> Option<Arc<Counts>> {
        match self {
            Self::Alone(alone) => Some(alone.journal.counts()),
            Self::Leading(leader) => Some(leader.counts()),
            Self::Free | Self::Following(_) => None,
        }
    }

    /// A link to another server may have received something, or may have room.
    pub(super) fn ready(&mut self, link: usize) {
        match self {
            Self::Free | Self::Alone(_) => {}
            Self::Leading(leader) => leader.ready(link),
            Self::Following(follower) => follower.ready(),
        }
    }

    /// Takes one step. Returns the newest ticket whose answers may be sent. The caller repeats this
    /// until nothing is left.
    ///
    /// # Errors
    /// The disk or another server failed.
    pub(super) fn turn(&mut self) -> io::Result<Option<Ticket>> {
        match self {
            Self::Free => Ok(None),
            Self::Alone(alone) => alone.turn(),
            Self::Leading(leader) => leader.turn(),
            Self::Following(follower) => follower.turn(),
        }
    }
}

/// A log of its own. Each sync has one ticket.
#[derive(Debug)]
pub(super) struct Alone {
    journal: Journal,
    begun: Ticket,
}

impl Alone {
    /// With a log in `dir`. A complete sync wakes the thread of `registry`.
    ///
    /// # Errors
    /// The file cannot be created or filled.
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
