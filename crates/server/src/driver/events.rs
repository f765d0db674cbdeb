//! The events of one turn, for the metrics, the audit log and the log.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tracing::{info, warn};
use zebu_engine::{AppliedTxn, Common, Delivered, TurnEvents};
use zebu_proto::{ErrorCode, EventType, OpCode, SessionId, Zxid};
use zebu_replica::{Input, Now, Origin, Request};
use zebu_zab::{Role, TreeDigest};

use super::effects::Effects;
use super::slow::Slow;
use crate::clients::conn::{Conn, Side};
use crate::counting::commit_stage::CommitStage;
use crate::counting::requests::{bytes_read, count_answers, count_replica};
use crate::shared::Shared;

impl TurnEvents<Side> for Effects<'_> {
    fn stood_still(&mut self, time: Duration) {
        warn!("this server stood still for {} ms", time.as_millis());
    }

    fn did_not_listen(&mut self, time: Duration) {
        self.parts.silences.add(time, self.shared.clock.monotonic());
    }

    fn takes(&mut self, now: Now, common: &Common<Side>, inputs: &[Input]) {
        self.count_inputs(now, common, inputs);
    }

    fn touched(&mut self) {
        let probability = self.parts.replica.drop_probability();
        self.shared.counting.drop_probability.store(probability.to_bits(), Ordering::Relaxed);
        self.update_status();
    }

    fn stepped(&mut self, took: Duration) {
        self.took += took;
        let Shared { metrics, counting, clock, .. } = self.shared;
        count_replica(metrics, &counting.quota_warnings, *clock, self.parts.replica.counts());
        // The session is counted before the client learns of it.
        self.count_local_sessions();
    }

    fn turned(&mut self) {
        if self.parts.member.is_some() {
            self.shared.ensemble.caught_up.notify_waiters();
        }
        self.report_sessions();
        if self.asked > 0 {
            self.shared.metrics.prep_process_time.add(self.took.as_millis() as i64);
        }
    }

    fn carries_out(&mut self, known: Duration, began: Duration) {
        (self.known, self.began) = (known, began);
        let most = self.shared.config.logging.slow_request;
        self.slow.are_since(most.and_then(|most| began.checked_sub(most)));
        self.stage = self
            .parts
            .member
            .is_some()
            .then(|| CommitStage::new(&self.shared.metrics, known, began));
    }

    fn delivers(&mut self) {
        self.phases.record();
        // The request is counted before the client gets its answer.
        self.counts.record();
    }

    fn carried_out(&mut self) {
        if let Some(stage) = self.stage.take() {
            stage.ended(self.shared.clock.monotonic().saturating_sub(self.began));
        }
        if let Some(member) = &mut self.parts.member {
            member.carried_out();
        }
        if let Some(audit) = &mut self.parts.audit {
            audit.hand_over();
        }
        if self.slow.are_untold() {
            let now = self.shared.clock.monotonic();
            self.slow.tell(self.shared.conns(), &mut self.parts.told, now, self.began);
        }
        for peer in self.refused.drain(..) {
            info!("refusing to renew the session of {peer}");
        }
    }

    fn appends(&mut self, _: Now, zxid: Zxid, record: &Bytes) {
        self.parts.batches.appends(zxid, self.known, self.began);
        if let Some((_, sizes)) = &mut self.parts.leading {
            sizes.add(record.len());
            self.counts.proposals += 1;
        }
        if let Some(member) = &mut self.parts.member {
            member.logged(zxid, record);
        }
    }

    fn applied(&mut self, now: Now, what: &AppliedTxn<'_>) {
        self.count_applied(now, what);
    }

    fn answers(&mut self, request: &Request) {
        if let Some(stage) = &mut self.stage {
            stage.answered(request);
        }
        if self.slow.has(request.received) {
            self.slow.remember(|| Slow { origin: request.origin(), path: None, times: None });
        }
    }

    fn read(&mut self, op: OpCode, body: &[u8], answer: &[u8]) {
        if let Some((path, bytes)) = bytes_read(op, body, answer) {
            self.counts.read.add(path, bytes);
        }
    }

    fn answered(&mut self, op: OpCode) {
        self.counts.ops.add(op);
    }

    fn too_long(&mut self, op: OpCode, now: Duration) {
        self.shared.clients.too_long.say(op, now);
    }

    fn replied(&mut self, now: Now, origin: &Origin, err: ErrorCode) {
        if let Some(audit) = &mut self.parts.audit {
            audit.replied(now, origin, err);
        }
        match err {
            ErrorCode::THROTTLED_OP => self.shared.metrics.throttled_ops.add(1),
            ErrorCode::OK => self.counts.ops.add(origin.op),
            _ => {}
        }
    }

    fn abandoned(&mut self, origin: &Origin) {
        if let Some(audit) = &mut self.parts.audit {
            audit.abandoned(origin);
        }
    }

    fn nobody_there(&mut self) {
        self.shared.metrics.stale_replies.add(1);
    }

    fn delivered(&mut self, row: &Delivered<'_, Side>) {
        let metrics = &self.shared.metrics;
        let latency = row.now.saturating_sub(row.received).as_millis() as u64;
        let latency_ms = i64::try_from(latency).unwrap_or(i64::MAX);
        let took = row.now.saturating_sub(row.began).as_millis() as i64;
        metrics.readlatency.add_many(latency_ms, row.reads);
        metrics.read_final_proc_time_ms.add_many(took, row.reads);
        metrics.updatelatency.add_many(latency_ms, row.writes);
        let apply = row.now.saturating_sub(row.began);
        self.shared.counting.histograms.phases.apply.add_many(apply, row.writes);
        metrics.write_final_proc_time_ms.add_many(took, row.writes);
        count_answers(&row.answers, &self.shared.counting.stats, metrics, latency_ms);
        let count = row.answers.count;
        if count > 0 {
            let (op, xid, zxid) = row.last;
            let stats = &row.conn.side.stats;
            stats.answered(count, op, xid.0, zxid.0, row.now.as_millis() as u64, latency);
            stats.sent.fetch_add(count, Ordering::Relaxed);
            row.conn.side.answers_at(row.now);
        }
    }

    fn notified(&mut self, conn: &Conn, event: EventType, path: &str, bytes: usize) {
        conn.side.stats.sent.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.watch_bytes.add(bytes as u64);
        self.shared.counting.stats.packets_sent.add(1);
        if self.event != Some(event) || self.path != path {
            self.end_event();
            self.event = Some(event);
            self.path.clear();
            self.path.push_str(path);
        }
        self.connections += 1;
    }

    fn accepted(&mut self, conn: &Conn, _: SessionId, zxid: Zxid) {
        let stats = &conn.side.stats;
        stats.sent.fetch_add(1, Ordering::Relaxed);
        self.shared.counting.stats.packets_sent.add(1);
        if !conn.renews.load(Ordering::Relaxed) {
            let now = self.shared.clock.monotonic();
            let latency = now.saturating_sub(conn.heard()).as_millis() as u64;
            let now_ms = now.as_millis() as u64;
            stats.answered(1, OpCode::CREATE_SESSION, 0, zxid.0, now_ms, latency);
        }
    }

    fn refused(&mut self, conn: &Conn, denied: bool) {
        conn.side.stats.sent.fetch_add(1, Ordering::Relaxed);
        self.shared.counting.stats.packets_sent.add(1);
        if !denied {
            self.refused.push(conn.side.peer);
        }
    }

    fn asked(&mut self, now: Now, output: &zebu_zab::Output) {
        if let Some(member) = &mut self.parts.member {
            member.asked(now, output);
        }
    }

    fn role(&mut self, role: Role) {
        self.has_role(role);
    }

    fn doubts(&mut self, since: Option<TreeDigest>) {
        self.doubts_tree(since);
    }

    fn serves_readers(&mut self, on: bool) {
        if on {
            info!("serving read-only clients");
        }
    }
}
