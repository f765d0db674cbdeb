//! Counts the requests of a member that waited for a commit: its own writes, writes of other
//! servers, and reads behind writes. A read with no request in front of it is answered elsewhere,
//! and does not count.
//!
//! Source: `CommitProcessor`.

use std::time::Duration;

use zebu_replica::{Origin, Request};

use crate::counting::replication::ms;
use crate::metrics::{Metrics, Repeated};

/// The effects of one turn.
#[derive(Debug)]
pub struct CommitStage<'m> {
    metrics: &'m Metrics,
    own: Repeated<'m>,
    local: Repeated<'m>,
    server: Repeated<'m>,
    waited: Repeated<'m>,
    /// The time at which these transactions were known to be committed.
    known: Duration,
    /// The time at which their processing began.
    began: Duration,
    writes: i64,
    reads: i64,
}

impl<'m> CommitStage<'m> {
    /// The effects of transactions that were `known` to be committed at that time, and whose
    /// processing `began` at the other.
    pub fn new(metrics: &'m Metrics, known: Duration, began: Duration) -> Self {
        Self {
            metrics,
            own: metrics.write_commitproc_time_ms.gather(),
            local: metrics.local_write_committed_time_ms.gather(),
            server: metrics.server_write_committed_time_ms.gather(),
            waited: metrics.read_commitproc_time_ms.gather(),
            known,
            began,
            writes: 0,
            reads: 0,
        }
    }

    /// A write is applied, of a client of this server or of another server. A leader counts all
    /// writes as its own.
    pub fn applied(&mut self, origin: Option<&Origin>, leads: bool) {
        self.writes += 1;
        let committed = self.since(self.known);
        if let Some(origin) = origin {
            self.own.add(self.since(origin.received));
        }
        if leads || origin.is_some() {
            self.local.add(committed);
        } else {
            self.server.add(committed);
        }
    }

    /// A read that waited for a write is answered.
    pub fn answered(&mut self, request: &Request) {
        self.reads += 1;
        self.waited.add(self.since(request.received));
    }

    /// The duration of the turn.
    pub fn ended(self, took: Duration) {
        let metrics = self.metrics;
        if self.writes + self.reads == 0 {
            return;
        }
        metrics.commit_commit_proc_req_queued.add(self.writes);
        metrics.read_commit_proc_issued.add(self.reads);
        metrics.commit_process_time.add(ms(took));
        if self.writes > 0 {
            metrics.write_commit_proc_issued.add(self.writes);
            metrics.write_batch_time_in_commit_processor.add(ms(took));
        }
    }

    fn since(&self, then: Duration) -> i64 {
        ms(self.began.saturating_sub(then))
    }
}
