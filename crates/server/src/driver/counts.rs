//! Counts the effects of a turn.

use std::time::Duration;

use zebu_engine::{AppliedTxn, Common};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{ErrorCode, OpCode};
use zebu_replica::{Input, Now};

use super::effects::Effects;
use super::slow::Slow;
use crate::clients::conn::Side;
use crate::counting::digests::Comparison;
use crate::counting::phases::Times;
use crate::counting::requests::{Ops, count_event, gather_written};
use crate::metrics::{Gather, Metrics, Repeated};
use crate::traced;

/// The counts of one turn's effects. Equal effects are counted together.
pub(super) struct Counts<'m> {
    metrics: &'m Metrics,
    pub(super) ops: Ops<'m>,
    pub(super) written: Gather<'m>,
    pub(super) read: Gather<'m>,
    pub(super) propagation: Repeated<'m>,
    pub(super) proposals: u64,
    pub(super) commits: u64,
}

impl<'m> Counts<'m> {
    /// Without any effect yet.
    pub(super) fn new(metrics: &'m Metrics) -> Self {
        Self {
            metrics,
            ops: Ops::new(metrics),
            written: metrics.write_per_namespace.gather(),
            read: metrics.read_per_namespace.gather(),
            propagation: metrics.propagation_latency.gather(),
            proposals: 0,
            commits: 0,
        }
    }

    /// Adds the collected counts to the metrics.
    pub(super) fn record(&mut self) {
        self.ops.record();
        self.written.record();
        self.read.record();
        self.propagation.record();
        for (counter, count) in [
            (&self.metrics.proposal_count, &mut self.proposals),
            (&self.metrics.commit_count, &mut self.commits),
        ] {
            let count = std::mem::take(count);
            if count > 0 {
                counter.add(count);
            }
        }
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.record();
    }
}

impl Effects<'_> {
    /// All connections that were notified of one event are known.
    pub(super) fn end_event(&mut self) {
        if let Some(event) = self.event.take() {
            count_event(&self.shared.metrics, event, self.connections);
            traced::event(&self.shared.clients.trace_mask, event, &self.path, self.connections);
            self.connections = 0;
        }
    }

    /// Counts the inputs that the engine is about to handle.
    pub(super) fn count_inputs(&mut self, now: Now, common: &Common<Side>, inputs: &[Input]) {
        traced::inputs(&self.shared.clients.trace_mask, inputs);
        let metrics = &self.shared.metrics;
        // With a limit, the replica itself detects closed connections when it takes a request.
        let throttle = &self.shared.config.throttle;
        let look_for_stale = throttle.requests_max.is_none() && throttle.stale_by_connection;
        let (mut asked, mut stale) = (0, 0);
        let mut waits = metrics.prep_processor_queue_time_ms.gather();
        let conns = common.conns.view();
        for input in inputs {
            match input {
                Input::Flushed(zxid) | Input::Zab(zebu_zab::Input::Flushed(zxid)) => {
                    self.parts.batches.synced(*zxid, now.monotonic);
                }
                Input::Connect(_) => asked += 1,
                Input::Request(request) => {
                    asked += 1;
                    let waited = now.monotonic.saturating_sub(request.received);
                    waits.add(waited.as_millis() as i64);
                    let cleans_up = request.op == OpCode::CLOSE_SESSION;
                    if look_for_stale && !cleans_up && !conns.has(request.conn) {
                        stale += 1;
                    }
                }
                _ => {}
            }
        }
        drop(conns);
        if let Some(audit) = &mut self.parts.audit {
            for input in inputs {
                if let Input::Request(request) = input {
                    audit.takes(request);
                }
            }
        }
        if asked > 0 {
            metrics.prep_processor_request_queued.add(asked);
            metrics.prep_processor_queue_size.add(asked as i64);
        }
        if stale > 0 {
            metrics.stale_requests.add(stale);
        }
        self.asked = asked;
        self.took = Duration::ZERO;
        if let Some(member) = &mut self.parts.member {
            for input in inputs {
                if let Input::Zab(input) = input {
                    member.hears(now, input);
                }
            }
        }
    }

    /// Counts a transaction that was applied to the tree.
    pub(super) fn count_applied(&mut self, now: Now, what: &AppliedTxn<'_>) {
        self.end_event();
        let TxnRecord { header, txn, .. } = what.record;
        traced::applied(&self.shared.clients.trace_mask, header.session, what.zxid, txn);
        let leads = self.parts.leading.is_some();
        let counts = &mut self.counts;
        counts.commits += u64::from(leads);
        if let Some(member) = &mut self.parts.member {
            member.applied(now, what.zxid);
            if let Some(stage) = &mut self.stage {
                stage.applied(what.origin, leads);
            }
        }
        if let Some(audit) = &mut self.parts.audit {
            audit.applied(now, what);
        }
        let is_forwarded = self.parts.member.is_some() && !leads;
        let batch = self.parts.batches.applies(what.zxid);
        if let (Some(origin), Some(batch)) = (what.origin, batch) {
            let (received, began) = (origin.received, self.began);
            self.phases.add(batch, received, began, is_forwarded);
            if self.slow.has(received) {
                let times = Times::new(batch, received, began, is_forwarded);
                self.slow.remember(|| Slow::new(origin, what, times));
            }
        }
        let counts = &mut self.counts;
        let AppliedTxn { record, applied, .. } = what;
        counts.propagation.add(now.wall_ms.saturating_sub(record.header.time_ms).max(0));
        if applied.digest_compared {
            let comparison = Comparison {
                zxid: what.zxid,
                matches: applied.digest_matches,
                tree: what.tree.digest(),
                expected: record.digest.map(|digest| digest.tree),
            };
            let mismatches = &self.shared.metrics.digest_mismatches_count;
            self.parts.digests.compared(now.monotonic, mismatches, comparison);
            if self.parts.member.is_some() {
                self.parts.recent.add(comparison, what.bytes);
            }
        }
        if applied.err == ErrorCode::OK {
            gather_written(&record.txn, &mut counts.written);
        }
        counts.ops.add(what.origin.map_or(record.header.op, |origin| origin.op));
    }
}
