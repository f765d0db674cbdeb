//! What a replica counts of its own doings, for whoever shows it to an operator.

use std::time::Duration;

use zebu_proto::SessionId;

/// Most single values that are kept for whoever asks next; more are not recorded.
const VALUES_MAX: usize = 4096;
/// Most warnings that are kept: a line of the log speaks for many writes.
const QUOTA_WARNINGS_MAX: usize = 16;

/// What happened since the counts were last taken.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connect requests that the connection throttle let pass.
    pub connects: u64,
    /// Connect requests that it refused.
    pub connects_refused: u64,
    /// Connect requests that wanted to renew a session.
    pub renewals: u64,
    /// Tokens missing from the connection throttle's bucket after each connect request that passed.
    pub token_deficits: Vec<u32>,
    /// Sessions that expired.
    pub sessions_expired: u64,
    /// Times the intake found no room for a request.
    pub intake_waits: u64,
    /// How long each request was on its way when it was taken in, in milliseconds.
    pub intake_ms: Vec<u64>,
    /// Requests that were taken in though nobody waits for their answers any more.
    pub stale: u64,
    /// Such requests that were dropped instead.
    pub stale_dropped: u64,
    /// Changes of znodes that were put in flight.
    pub changes_queued: u64,
    /// Changes of znodes that are in flight no more.
    pub changes_removed: u64,
    /// The path of each write that a hard quota refused.
    pub quota_refusals: Vec<String>,
    /// Creates of ephemeral znodes that were refused because the end of their session would not fit into
    /// a record.
    pub ephemerals_refused: u64,
    /// The session of one of them, for a line in the log; at most one in a minute.
    pub session_full: Option<SessionId>,
    /// From when on there may be another line.
    full_told_until: Duration,
    /// How many milliseconds the wall clock is ahead of the time by which znodes age, where that is much
    /// and was not told before.
    pub clock_ahead_ms: Option<i64>,
    /// What is to be said about writes beyond a quota that stops nobody.
    pub quota_warnings: Vec<String>,
}

impl Counts {
    /// Notes a connect request that passed, and what it left of the bucket.
    pub(crate) fn connected(&mut self, deficit: u32) {
        self.connects += 1;
        if self.token_deficits.len() < VALUES_MAX {
            self.token_deficits.push(deficit);
        }
    }

    /// Notes how long a request was on its way.
    pub(crate) fn taken_in(&mut self, after_ms: u64) {
        if self.intake_ms.len() < VALUES_MAX {
            self.intake_ms.push(after_ms);
        }
    }

    /// Notes a write that a hard quota refused.
    pub(crate) fn refused_by_quota(&mut self, path: &str) {
        if self.quota_refusals.len() < VALUES_MAX {
            self.quota_refusals.push(path.to_owned());
        }
    }

    /// Notes an ephemeral znode that was refused.
    pub(crate) fn refused_ephemeral(&mut self, session: SessionId, now: Duration) {
        self.ephemerals_refused += 1;
        if now >= self.full_told_until {
            self.full_told_until = now + Duration::from_secs(60);
            self.session_full = Some(session);
        }
    }

    /// Notes a write that goes beyond a quota and is carried out.
    pub(crate) fn beyond_quota(&mut self, warning: impl FnOnce() -> String) {
        if self.quota_warnings.len() < QUOTA_WARNINGS_MAX {
            self.quota_warnings.push(warning());
        }
    }

    /// Begins again, with the same room.
    pub fn clear(&mut self) {
        let Self {
            mut token_deficits,
            mut intake_ms,
            mut quota_refusals,
            mut quota_warnings,
            full_told_until,
            ..
        } = std::mem::take(self);
        token_deficits.clear();
        intake_ms.clear();
        quota_refusals.clear();
        quota_warnings.clear();
        *self = Self {
            token_deficits,
            intake_ms,
            quota_refusals,
            quota_warnings,
            full_told_until,
            ..Self::default()
        };
    }
}
