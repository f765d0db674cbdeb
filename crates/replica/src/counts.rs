//! Statistics of a replica for metrics and logs.

use std::time::Duration;

use zebu_proto::SessionId;

/// Maximum number of single values kept until they are collected. Further ones are dropped.
const VALUES_MAX: usize = 4096;
/// Maximum number of warnings kept: one line in the log stands for many writes.
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
    /// Times that a request had to wait because the intake was full.
    pub intake_waits: u64,
    /// Milliseconds between receiving and taking in each request.
    pub intake_ms: Vec<u64>,
    /// Stale requests that were taken in: no client waits for their answers.
    pub stale: u64,
    /// Stale requests that were dropped.
    pub stale_dropped: u64,
    /// Znode changes put in flight.
    pub changes_queued: u64,
    /// Znode changes no longer in flight.
    pub changes_removed: u64,
    /// The path of each write that a hard quota refused.
    pub quota_refusals: Vec<String>,
    /// Ephemeral znodes refused because the closeSession record of their session would become too
    /// long.
    pub ephemerals_refused: u64,
    /// The session of such a refusal, for the log; at most one a minute.
    pub session_full: Option<SessionId>,
    /// Until when no further such line is logged.
    full_told_until: Duration,
    /// How many milliseconds the wall clock is ahead of the clock for ages; `None` if that is
    /// little or was reported before.
    pub clock_ahead_ms: Option<i64>,
    /// Warnings about writes beyond quotas that are not enforced.
    pub quota_warnings: Vec<String>,
}

impl Counts {
    /// Notes an admitted connect request. `deficit`: tokens now missing from the bucket.
    pub(crate) fn connected(&mut self, deficit: u32) {
        self.connects += 1;
        if self.token_deficits.len() < VALUES_MAX {
            self.token_deficits.push(deficit);
        }
    }

    /// Notes the delay before a request was taken in.
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

    /// Notes a write that exceeds a quota but is carried out.
    pub(crate) fn beyond_quota(&mut self, warning: impl FnOnce() -> String) {
        if self.quota_warnings.len() < QUOTA_WARNINGS_MAX {
            self.quota_warnings.push(warning());
        }
    }

    /// Resets all counts and keeps the capacity.
    pub fn clear(&mut self) {
        let Self {
            connects,
            connects_refused,
            renewals,
            token_deficits,
            sessions_expired,
            intake_waits,
            intake_ms,
            stale,
            stale_dropped,
            changes_queued,
            changes_removed,
            quota_refusals,
            ephemerals_refused,
            session_full,
            full_told_until: _,
            clock_ahead_ms,
            quota_warnings,
        } = self;
        for count in [
            connects,
            connects_refused,
            renewals,
            sessions_expired,
            intake_waits,
            stale,
            stale_dropped,
            changes_queued,
            changes_removed,
            ephemerals_refused,
        ] {
            *count = 0;
        }
        token_deficits.clear();
        intake_ms.clear();
        quota_refusals.clear();
        quota_warnings.clear();
        (*session_full, *clock_ahead_ms) = (None, None);
    }
}
