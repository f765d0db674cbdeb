//! Warnings about requests that take too long, with the time of each phase.

use std::time::Duration;

use tracing::warn;
use zebu_engine::AppliedTxn;
use zebu_engine::conns::Conns;
use zebu_proto::SessionId;
use zebu_proto::txn::Txn;
use zebu_replica::Origin;

use crate::clients::conn::Side;
use crate::counting::phases::{Times, Told};

/// Maximum number of slow requests that one turn remembers in detail.
const SLOW_KEPT_MAX: usize = 1024;

/// A request that has taken too long.
pub(super) struct Slow {
    pub(super) origin: Origin,
    /// The path of a write of one znode.
    pub(super) path: Option<String>,
    /// The durations of a write's phases before its transaction was applied.
    pub(super) times: Option<Times>,
}

impl Slow {
    /// A write that is applied now, too late.
    #[cold]
    pub(super) fn new(origin: &Origin, what: &AppliedTxn<'_>, times: Times) -> Self {
        let path = match &what.record.txn {
            Txn::Create(create) => Some(create.path.to_string()),
            Txn::Delete { path } | Txn::SetData { path, .. } | Txn::SetAcl { path, .. } => {
                Some(path.to_string())
            }
            _ => None,
        };
        Self { origin: *origin, path, times: Some(times) }
    }
}

/// The slow requests of one turn.
#[derive(Default)]
pub(super) struct SlowRequests {
    kept: Vec<Slow>,
    /// Requests that arrived before this time are slow if they are answered now. `None`: no request
    /// is slow.
    since: Option<Duration>,
}

impl SlowRequests {
    /// From now on, requests that arrived before `since` are slow.
    pub(super) fn are_since(&mut self, since: Option<Duration>) {
        self.since = since;
    }

    /// Whether a request that arrived at this time and is answered now is slow.
    pub(super) fn has(&self, received: Duration) -> bool {
        self.since.is_some_and(|since| received <= since)
    }

    /// Whether there are slow requests that no warning mentions yet.
    pub(super) fn are_untold(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Stores a slow request.
    #[cold]
    pub(super) fn remember(&mut self, slow: impl FnOnce() -> Slow) {
        if self.kept.len() < SLOW_KEPT_MAX {
            self.kept.push(slow());
        }
    }

    /// Logs warnings about the stored requests, which are answered `now`. Their transactions were
    /// applied, and their reads executed, from `began` on.
    #[cold]
    pub(super) fn tell(
        &mut self,
        conns: &Conns<Side>,
        told: &mut Told,
        now: Duration,
        began: Duration,
    ) {
        for Slow { origin, path, times } in std::mem::take(&mut self.kept) {
            let Some(untold) = told.may(now) else { continue };
            let conn = conns.get(origin.conn);
            let session = conn.as_ref().and_then(|conn| conn.session()).unwrap_or(SessionId::NONE);
            let peer = conn.map_or_else(
                || "a client that has left".to_owned(),
                |conn| conn.side.peer.to_string(),
            );
            let took = now.saturating_sub(origin.received).as_millis();
            let op = origin.op.name();
            let path = path.unwrap_or_default();
            let before = match &times {
                Some(times) => times.to_string(),
                None => format!(
                    "behind other requests {} ms",
                    began.saturating_sub(origin.received).as_millis()
                ),
            };
            let apply = now.saturating_sub(began).as_millis();
            let others = match untold {
                0 => String::new(),
                count => format!("; {count} other slow requests were not logged"),
            };
            warn!(
                %session,
                connection = %peer,
                "slow request: {op} {path:?} of session {session} from {peer} took {took} ms: {before}, \
                 apply {apply} ms{others}"
            );
        }
    }
}
