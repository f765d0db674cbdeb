//! The replica's thread: feeds it what happened and carries out what it asks for.
//!
//! Decides nothing about the protocol. Inputs are taken in batches: all of a batch are validated
//! under one read lock of the tree, and everything it commits is applied under one write lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::RwLockWriteGuard;
use tracing::{error, info};
use zebu_jute::Encode as _;
use zebu_proto::reply::ConnectResponse;
use zebu_proto::txn::TxnRecord;
use zebu_proto::{Acl, ErrorCode, EventType, Perms, Zxid};
use zebu_replica::{
    After, Input, Now, Origin, Output, Reader, Replica, Request, frame, gate, write_reply,
};
use zebu_tree::{Events, Tree, WatcherId};

use crate::conn::Conn;
use crate::conns;
use crate::counting::{count_answers, count_event, count_op};
use crate::journal::Command;
use crate::shared::{Shared, Status};
use crate::snapshotter::Snapshotter;

/// How often sessions that were heard of without the replica are reported to it.
const TOUCH_INTERVAL: Duration = Duration::from_millis(200);

/// Transactions applied under one write lock, so that readers get their turn.
const APPLY_BATCH: usize = 512;

/// Drives a replica until the server stops.
pub struct Engine {
    shared: Arc<Shared>,
    replica: Replica,
    log: Sender<Command>,
    snapshotter: Snapshotter,
    dirty: Vec<Dirty>,
    touched: Duration,
}

/// A connection whose task is to be woken.
struct Dirty {
    conn: Arc<Conn>,
    /// Requests of it that are done with.
    done: u32,
}

impl Engine {
    /// A driver for `replica`, whose log is behind `log`.
    pub fn new(
        shared: Arc<Shared>,
        replica: Replica,
        log: Sender<Command>,
        snapshotter: Snapshotter,
    ) -> Self {
        Self { shared, replica, log, snapshotter, dirty: Vec::new(), touched: Duration::ZERO }
    }

    /// Runs until the inbox has ended.
    pub fn run(mut self) {
        if let Err(failure) = self.drive() {
            error!("{failure:#}");
            self.shared.stop(Err(failure));
        }
    }

    fn drive(&mut self) -> anyhow::Result<()> {
        let shared = self.shared.clone();
        let mut inputs = Vec::new();
        let mut outputs = Vec::new();
        loop {
            let until = self.replica.next_tick().min(self.touched + TOUCH_INTERVAL);
            let wait = until.saturating_sub(shared.clock.monotonic()).max(Duration::from_millis(1));
            if !shared.inbox.take(&mut inputs, wait) {
                return Ok(());
            }
            let now = shared.clock.now();
            if now.monotonic >= self.touched + TOUCH_INTERVAL {
                self.report_touched(now, &mut inputs);
            }
            if now.monotonic >= self.replica.next_tick() {
                // Nobody expires who was heard of just now.
                self.report_touched(now, &mut inputs);
                inputs.push(Input::Tick);
            }
            {
                let tree = shared.tree.read();
                for input in inputs.drain(..) {
                    self.replica.step(now, &tree, &shared.schemes, input, &mut outputs)?;
                }
            }
            self.carry_out(now, &mut outputs)?;
        }
    }

    /// Tells the replica of every session whose connection was heard of since last time.
    fn report_touched(&mut self, now: Now, inputs: &mut Vec<Input>) {
        let since = self.touched;
        self.touched = now.monotonic;
        self.shared.conns.each(|conn| {
            let at = conn.heard();
            // The millisecond of the last report is looked at again.
            if at + Duration::from_millis(1) >= since
                && let Some(session) = conn.session()
            {
                inputs.push(Input::Touched { session, at });
            }
        });
        let sessions = self.replica.sessions();
        let mut status = self.shared.status.lock();
        *status = Status {
            sessions: sessions.iter().map(|(id, s)| (id, s.deadline, s.timeout_ms)).collect(),
            drop_probability: self.replica.drop_probability(),
        };
    }

    fn carry_out(&mut self, now: Now, outputs: &mut Vec<Output>) -> anyhow::Result<()> {
        let shared = self.shared.clone();
        let mut records = Vec::new();
        let mut tree: Option<RwLockWriteGuard<'_, Tree>> = None;
        let mut applied = None;
        let mut batch = 0;
        for output in outputs.drain(..) {
            match output {
                Output::Append { zxid, record } => records.push((zxid, record)),
                Output::Snapshot => {
                    self.append(&mut records)?;
                    self.send(Command::Roll)?;
                    self.snapshotter.start(&shared);
                }
                Output::Apply { zxid, record, origin } => {
                    let tree = tree.get_or_insert_with(|| shared.tree.write());
                    self.apply(now, tree, zxid, &record, origin);
                    applied = Some(zxid);
                }
                Output::Answer(request) => {
                    let tree = tree.get_or_insert_with(|| shared.tree.write());
                    self.answer(now, tree, &request);
                }
                Output::Reply { origin, zxid, err } => {
                    let zxid = zxid.unwrap_or_else(|| match &tree {
                        Some(tree) => tree.last_zxid(),
                        None => shared.tree.read().last_zxid(),
                    });
                    if err == ErrorCode::THROTTLED_OP {
                        shared.metrics.throttled_ops.add(1);
                    }
                    if let Some(conn) = self.done(&origin) {
                        conn.outbox.lock().put(|out| frame::bare_reply(out, origin.xid, zxid, err));
                    }
                }
                Output::Abandon(origin) => {
                    if let Some(conn) = self.done(&origin) {
                        conn.outbox.lock().close();
                    }
                }
                Output::Accept { conn, session, timeout_ms, password } => {
                    if let Some(conn) = shared.conn(conn) {
                        shared.metrics.connection_request_count.add(1);
                        let read_only =
                            conn.says_read_only.load(Ordering::Relaxed).then_some(false);
                        let response = ConnectResponse {
                            timeout_ms,
                            session_id: session,
                            password,
                            read_only,
                        };
                        conn.outbox.lock().put(|out| frame::frame(out, |out| response.encode(out)));
                        conn.set_session(session, timeout_ms);
                        self.touch(conn);
                    }
                }
                Output::Refuse(conn) => {
                    if let Some(conn) = shared.conn(conn) {
                        info!("refusing to renew the session of {}", conn.peer);
                        let read_only =
                            conn.says_read_only.load(Ordering::Relaxed).then_some(false);
                        let response = ConnectResponse::refused(read_only);
                        let mut outbox = conn.outbox.lock();
                        outbox.put(|out| frame::frame(out, |out| response.encode(out)));
                        outbox.close();
                        drop(outbox);
                        self.touch(conn);
                    }
                }
                Output::Disconnect(conn) => {
                    if let Some(conn) = shared.conn(conn) {
                        conn.outbox.lock().close();
                        self.touch(conn);
                    }
                }
            }
            batch += 1;
            if batch % APPLY_BATCH == 0 {
                tree = None;
                self.wake_all();
            }
        }
        drop(tree);
        self.append(&mut records)?;
        self.wake_all();
        if let Some(zxid) = applied {
            let tree = shared.tree.read();
            let input = Input::Applied(zxid);
            self.replica.step(now, &tree, &shared.schemes, input, outputs)?;
        }
        Ok(())
    }

    /// Hands records to the log.
    fn append(&mut self, records: &mut Vec<(Zxid, bytes::Bytes)>) -> anyhow::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        self.shared.metrics.sync_processor_request_queued.add(records.len() as u64);
        self.send(Command::Append(std::mem::take(records)))
    }

    fn send(&self, command: Command) -> anyhow::Result<()> {
        self.log.send(command).map_err(|_| anyhow::anyhow!("the log thread has ended"))
    }

    fn apply(
        &mut self,
        now: Now,
        tree: &mut Tree,
        zxid: Zxid,
        record: &[u8],
        origin: Option<Origin>,
    ) {
        let shared = self.shared.clone();
        let record = TxnRecord::decode(record).expect("the replica made this record");
        let time_ms = record.header.time_ms;
        let mut events = Notifier { engine: self, event: None, connections: 0 };
        let applied = tree.apply(&record, &mut events);
        events.finish();
        let metrics = &shared.metrics;
        metrics.propagation_latency.add(now.wall_ms.saturating_sub(time_ms).max(0));
        if !applied.digest_matches {
            metrics.digest_mismatches_count.add(1);
            error!("the tree's digest after {zxid} is not the one in the transaction");
        }
        let Some(origin) = origin else { return };
        let Origin { xid, op, received, .. } = origin;
        count_op(metrics, op);
        let Some(conn) = self.done(&origin) else { return };
        let bytes = conn.outbox.lock().put(|out| write_reply(out, op, xid, zxid, &applied));
        let latency = now.monotonic.saturating_sub(received).as_millis() as u64;
        metrics.updatelatency.add(latency as i64);
        count_answers(&shared.stats, metrics, 1, bytes, latency as i64);
        let now_ms = now.monotonic.as_millis() as u64;
        conn.stats.answered(1, op, xid.0, zxid.0, now_ms, latency);
    }

    fn answer(&mut self, now: Now, tree: &Tree, request: &Request) {
        let shared = self.shared.clone();
        let Request { session, xid, op, body, ids, received, .. } = request;
        let Some(conn) = self.done(&request.origin()) else { return };
        let reader = Reader {
            schemes: &shared.schemes,
            watcher: conns::watcher(conn.id),
            session: *session,
            ids,
        };
        let bytes = {
            let mut after = After::Keep;
            let mut outbox = conn.outbox.lock();
            let bytes = outbox.put(|out| after = reader.answer(tree, *xid, *op, body, out));
            if after == After::Close {
                outbox.close();
            }
            bytes
        };
        count_op(&shared.metrics, *op);
        let latency = now.monotonic.saturating_sub(*received).as_millis() as u64;
        shared.metrics.readlatency.add(latency as i64);
        count_answers(&shared.stats, &shared.metrics, 1, bytes, latency as i64);
        let now_ms = now.monotonic.as_millis() as u64;
        conn.stats.answered(1, *op, xid.0, tree.last_zxid().0, now_ms, latency);
    }

    /// A request is done with: its answer, if it gets one, goes into the outbox of the connection
    /// returned before anybody is woken. None when the connection is gone.
    fn done(&mut self, origin: &Origin) -> Option<Arc<Conn>> {
        self.shared.load.leave(origin.bytes);
        let Some(conn) = self.shared.conn(origin.conn) else {
            self.shared.metrics.stale_replies.add(1);
            return None;
        };
        conn.stats.sent.fetch_add(1, Ordering::Relaxed);
        if gate::is_read(origin.op) {
            conn.queued_reads.fetch_sub(1, Ordering::AcqRel);
        }
        self.touch(conn.clone());
        self.dirty.last_mut().expect("it was just touched").done += 1;
        Some(conn)
    }

    /// Remembers to wake the connection's task.
    fn touch(&mut self, conn: Arc<Conn>) {
        if self.dirty.last().is_none_or(|last| !Arc::ptr_eq(&last.conn, &conn)) {
            self.dirty.push(Dirty { conn, done: 0 });
        }
    }

    /// Wakes the tasks of all connections that have something to send, or to go on with.
    ///
    /// Only now their requests count as answered: what a task answers by itself from here on comes
    /// behind the answers that are in its outbox.
    fn wake_all(&mut self) {
        for Dirty { conn, done } in self.dirty.drain(..) {
            if done > 0 {
                conn.in_flight.fetch_sub(done, Ordering::AcqRel);
            }
            conn.wake();
        }
    }
}

/// Puts notifications into the outboxes, in front of every answer that could show their cause.
struct Notifier<'e> {
    engine: &'e mut Engine,
    /// The event being delivered, and to how many connections it went so far.
    event: Option<EventType>,
    connections: i64,
}

impl Notifier<'_> {
    fn count(&mut self, event: EventType) {
        if self.event != Some(event) {
            self.finish();
            self.event = Some(event);
        }
        self.connections += 1;
    }

    fn finish(&mut self) {
        if let Some(event) = self.event.take() {
            count_event(&self.engine.shared.metrics, event, self.connections);
            self.connections = 0;
        }
    }
}

impl Events for Notifier<'_> {
    fn notify(&mut self, watcher: WatcherId, event: EventType, path: &str, zxid: Zxid) {
        let Some(conn) = self.engine.shared.conns.by_watcher(watcher) else { return };
        let bytes = conn.outbox.lock().put(|out| frame::notification(out, event, path, zxid));
        conn.stats.sent.fetch_add(1, Ordering::Relaxed);
        self.engine.shared.metrics.watch_bytes.add(bytes as u64);
        self.engine.shared.stats.packets_sent.add(1);
        self.count(event);
        self.engine.touch(conn);
    }

    fn may_read(&mut self, watcher: WatcherId, acl: &[Acl]) -> bool {
        let shared = &self.engine.shared;
        shared
            .conns
            .by_watcher(watcher)
            .is_some_and(|conn| conn.with_ids(|ids| shared.schemes.permits(acl, Perms::READ, ids)))
    }
}
