//! The effects of one turn: the requests of the engine, and their destinations.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracing::{info, warn};
use zebu_engine::journal::{Order, Records};
use zebu_engine::{Common, Failed, Mode, World};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{EventType, ServerId, Zxid};
use zebu_replica::{NotHandedOver, Now, Replica};
use zebu_state::Copied;
use zebu_zab::{ConfigChange, LinkId};

use super::Parts;
use super::counts::Counts;
use super::slow::SlowRequests;
use crate::clients::conn::Side;
use crate::counting::commit_stage::CommitStage;
use crate::counting::phases::Gathered;
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
}

/// Counts records on their way to the log.
fn queue(disk: &Disk, metrics: &Metrics, records: &Records) {
    metrics.sync_processor_request_queued.add(records.len() as u64);
    disk.log_queue.fetch_add(records.len(), Ordering::Relaxed);
    let bytes: usize = records.iter().map(|(_, record)| record.len()).sum();
    disk.log_queue_bytes.fetch_add(bytes, Ordering::Relaxed);
}
