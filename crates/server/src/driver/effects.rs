//! The effects of one turn: the requests of the engine, and their destinations.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tracing::{info, warn};
use zebu_engine::journal::{Order, Records};
use zebu_engine::{AppliedTxn, Common, Failed, Mode, World};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{ErrorCode, EventType, OpCode, ServerId, SessionId, Zxid};
use zebu_replica::{Input, NotHandedOver, Now, Origin, Replica, Request};
use zebu_state::Copied;
use zebu_zab::{ConfigChange, LinkId, Role, TreeDigest};

use super::Parts;
use super::counts::Counts;
use super::slow::{Slow, SlowRequests};
use crate::clients::conn::{Conn, Side};
use crate::counting::commit_stage::CommitStage;
use crate::counting::phases::Gathered;
use crate::counting::requests::{bytes_read, count_replica};
use crate::disk::journal::Command;
use crate::metrics::Metrics;
use crate::shared::{Disk, Shared};

/// Maximum number of outputs executed under one write lock, so that readers get their turn.
const APPLY_BATCH: usize = 512;

/// One turn: the targets of its effects, and its counters. Equal effects are counted together.
pub(super) struct Effects<'t> {
    pub(super) parts: &'t mut Parts,
    pub(super) shared: &'t Shared,
    pub(super) counts: Counts<'t>,
    pub(super) stage: Option<CommitStage<'t>>,
    /// The time at which the transactions were known to be committed, and the time at which they
    /// are applied.
    pub(super) known: Duration,
    pub(super) began: Duration,
    /// The durations of writes.
    pub(super) phases: Gathered<'t>,
    pub(super) slow: SlowRequests,
    /// The number of requests that were taken, and the time that the replica took for them.
    pub(super) asked: u64,
    pub(super) took: Duration,
    pub(super) refused: Vec<SocketAddr>,
    /// The event being delivered, and the number of connections notified so far.
    pub(super) event: Option<EventType>,
    pub(super) path: String,
    pub(super) connections: i64,
}

impl<'t> Effects<'t> {
    /// The effects of a turn before it begins.
    pub(super) fn new(parts: &'t mut Parts, shared: &'t Shared) -> Self {
        Self {
            parts,
            shared,
            counts: Counts::new(&shared.metrics),
            stage: None,
            known: Duration::ZERO,
            began: Duration::ZERO,
            phases: Gathered::new(&shared.counting.histograms.phases),
            slow: SlowRequests::default(),
            asked: 0,
            took: Duration::ZERO,
            refused: Vec::new(),
            event: None,
            path: String::new(),
            connections: 0,
        }
    }
}

impl World for Effects<'_> {
    type Side = Side;

    fn now(&self) -> Now {
        self.shared.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    fn listened(&self) -> Option<Duration> {
        self.shared.clients.listening.until()
    }

    fn peers_listened(&self) -> Option<Duration> {
        self.shared.ensemble.listening.until()
    }

    fn is_enough(&mut self, outputs: usize) -> bool {
        outputs >= APPLY_BATCH
    }

    fn replica(&self) -> &Replica {
        &self.parts.replica
    }

    fn replica_mut(&mut self) -> &mut Replica {
        &mut self.parts.replica
    }

    fn order(&mut self, order: Order) -> Result<(), Failed> {
        let shared = self.shared;
        match &order {
            Order::Append(records) => queue(&shared.disk, &shared.metrics, records),
            Order::Member(job) if job.remakes() => {
                shared.disk.remaking.fetch_add(1, Ordering::Relaxed);
            }
            Order::Roll | Order::Member(_) => {}
        }
        self.parts
            .log
            .send(Command { order, since: Instant::now() })
            .map_err(|_| Failed::Log("the log thread has ended".into()))
    }

    fn append_now(&mut self, records: &mut Records) -> Result<Option<Zxid>, Failed> {
        let shared = self.shared;
        if shared.disk.log_queue.load(Ordering::Relaxed) != 0 {
            return Ok(None);
        }
        let Some(mut journal) = self.parts.journal.try_lock() else { return Ok(None) };
        if !journal.is_quick() {
            return Ok(None);
        }
        queue(&shared.disk, &shared.metrics, records);
        journal
            .append_now(std::mem::take(records), shared)
            .map_err(|failure| Failed::Log(failure.into()))
    }

    fn snapshot(&mut self, _: &Common<Side>) {
        self.parts.snapshotter.start(&self.parts.shared);
    }

    fn send(&mut self, link: LinkId, packet: QuorumPacket) {
        if self.parts.outgoing.add(link, packet) {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let Parts { peers, outgoing, .. } = &mut *self.parts;
        if let Some(peers) = peers.as_ref().filter(|_| !outgoing.is_empty()) {
            peers.send(outgoing);
        }
    }

    fn network(&mut self, output: zebu_zab::Output) -> Result<(), Failed> {
        let peers = self.parts.peers.clone().ok_or(Failed::Alone)?;
        match output {
            zebu_zab::Output::Config(change) => {
                peers.change(&change);
                if let ConfigChange::Committed(config) = change {
                    self.shared.set_members(config);
                }
            }
            zebu_zab::Output::Identity(identity) => {
                if let Some(id) = identity.settled() {
                    info!("this server belongs to ensemble {id} from now on");
                }
                self.shared.common.set_identity(identity);
            }
            zebu_zab::Output::OtherEnsemble { server, theirs } => {
                peers.other_ensemble(server, theirs);
            }
            zebu_zab::Output::SendCopy(link) => peers.send_copy(link),
            zebu_zab::Output::AbsurdEpoch { server, epoch } => warn!(
                "refusing server {}: it reports accepted epoch {}, far above the epochs of all other servers; \
                 hint: check the file acceptedEpoch in its data directory",
                server.0, epoch.0
            ),
            output => peers.carry_out(output),
        }
        Ok(())
    }

    fn take_copy(&mut self, link: LinkId) -> Option<Box<Copied>> {
        self.parts.peers.as_ref()?.take_copy(link).map(Box::new)
    }

    fn serve(&mut self, _: &Common<Side>, mode: Option<Mode>) {
        self.shared.serve(mode);
        if mode.is_some() {
            self.shared.clients.refused.end();
        }
    }

    fn retired(&mut self) {
        self.shared.ending.retiring.end();
    }

    fn handed_over(&mut self, result: Result<ServerId, NotHandedOver>) {
        self.shared.ending.handing_over.answer(result);
    }

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

    fn doubts(&mut self, since: Option<TreeDigest>) {
        self.doubts_tree(since);
    }

    fn role(&mut self, role: Role) {
        self.has_role(role);
    }

    fn serves_readers(&mut self, on: bool) {
        if on {
            info!("serving read-only clients");
        }
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
}

/// Counts records on their way to the log.
fn queue(disk: &Disk, metrics: &Metrics, records: &Records) {
    metrics.sync_processor_request_queued.add(records.len() as u64);
    disk.log_queue.fetch_add(records.len(), Ordering::Relaxed);
    let bytes: usize = records.iter().map(|(_, record)| record.len()).sum();
    disk.log_queue_bytes.fetch_add(bytes, Ordering::Relaxed);
}
