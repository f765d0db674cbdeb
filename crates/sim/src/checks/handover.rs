//! Handing over: a leader that is asked to stop leaves nothing behind that is proposed and not committed, and where
//! nothing else goes wrong another server leads before an election would have waited for the vote of the one that is gone.

use std::time::Duration;

use zebu_zab::Role;

/// How soon another one leads: an election that waits for somebody takes 200 ms more than that.
const GAP_MAX: Duration = Duration::from_millis(190);

/// What is watched of leaders that are asked to stop, where nothing else goes wrong.
pub(crate) struct Handover {
    watches: bool,
    /// Who was asked while it led.
    asked: Option<usize>,
    /// When it was gone.
    gone: Option<Duration>,
}

impl Handover {
    pub(crate) fn new(watches: bool) -> Self {
        Self { watches, asked: None, gone: None }
    }

    /// A server is asked to stop.
    pub(crate) fn asked(&mut self, server: usize, leads: bool) {
        if self.watches && leads {
            (self.asked, self.gone) = (Some(server), None);
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
        self.gone = Some(now);
        (pending > 0).then(|| {
            format!(
                "liveness: leader {server} hands over, and {pending} transactions are not committed"
            )
        })
    }

    /// A server has another role.
    pub(crate) fn role(&mut self, role: Role, now: Duration) -> Option<String> {
        let gone = self.gone.filter(|_| matches!(role, Role::Leading(_)))?;
        (self.asked, self.gone) = (None, None);
        let gap = now - gone;
        (gap > GAP_MAX)
            .then(|| format!("liveness: a leader has handed over, and nobody led for {gap:?}"))
    }
}
