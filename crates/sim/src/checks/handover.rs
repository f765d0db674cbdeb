//! After a leader has stopped or is paused, another server leads soon, if there is no other fault.
//!
//! A leader that is asked to hand over is succeeded by the named server.
//!
//! A leader that is asked to stop leaves no proposal uncommitted. Another server leads before an
//! election would have waited for the vote of the stopped one. The end of a paused leader is
//! detected within the time for which a leader may be silent.

use std::time::Duration;

use zebu_proto::ServerId;
use zebu_zab::Role;

/// How soon another server leads when a leader has handed over: an election that waits for somebody takes 200 ms more.
const GAP_MAX: Duration = Duration::from_millis(190);

/// How soon another server leads when a leader is paused.
const PAUSED_MAX: Duration = Duration::from_secs(1);

/// What is watched of leaders that go or are paused, where nothing else goes wrong.
pub(crate) struct Handover {
    watches: bool,
    /// Who was asked to stop while it led.
    asked: Option<usize>,
    /// Since when the ensemble lacks a leader, and how soon it must have another one.
    gone: Option<(Duration, Duration)>,
    /// The server that a leader has handed over to.
    heir: Option<ServerId>,
    /// Who is paused although it leads.
    paused: Option<usize>,
}

impl Handover {
    pub(crate) fn new(watches: bool) -> Self {
        Self { watches, asked: None, gone: None, heir: None, paused: None }
    }

    /// A server is asked to stop.
    pub(crate) fn asked(&mut self, server: usize, leads: bool) {
        if self.watches && leads {
            (self.asked, self.gone, self.heir) = (Some(server), None, None);
        }
    }

    /// A server may stop; it has logged so many transactions that it has not delivered.
    pub(crate) fn retired(
        &mut self,
        server: usize,
        now: Duration,
        pending: usize,
    ) -> Option<String> {
        if self.asked != Some(server) {
            return None;
        }
        self.gone = Some((now, GAP_MAX));
        (pending > 0).then(|| {
            format!(
                "liveness: leader {server} hands over, and {pending} transactions are not committed"
            )
        })
    }

    /// A leader has handed over to a server.
    pub(crate) fn handed_over(&mut self, heir: ServerId, now: Duration) {
        if self.watches {
            (self.heir, self.gone) = (Some(heir), Some((now, GAP_MAX)));
        }
    }

    /// A server is paused.
    pub(crate) fn paused(&mut self, server: usize, leads: bool, now: Duration) {
        if self.watches && leads {
            (self.paused, self.gone) = (Some(server), Some((now, PAUSED_MAX)));
        }
    }

    /// A server goes on.
    pub(crate) fn resumed(&mut self, server: usize) -> Option<String> {
        let was_awaited = self.paused.take_if(|paused| *paused == server).is_some();
        let is_missed = was_awaited && self.gone.take().is_some();
        is_missed
            .then(|| format!("liveness: leader {server} was paused, and nobody else led meanwhile"))
    }

    /// A server has another role.
    pub(crate) fn role(&mut self, server: ServerId, role: Role, now: Duration) -> Option<String> {
        let (gone, max) = self.gone.filter(|_| matches!(role, Role::Leading(_)))?;
        (self.asked, self.gone) = (None, None);
        let gap = now - gone;
        if let Some(heir) = self.heir.take().filter(|heir| *heir != server) {
            return Some(format!("liveness: server {heir:?} was to lead, and {server:?} leads"));
        }
        (gap > max).then(|| format!("liveness: a leader is gone, and nobody led for {gap:?}"))
    }
}
