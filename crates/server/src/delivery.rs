//! Answers and notifications on their way into outboxes: counted, and their connections woken, once for a row.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zebu_proto::{Acl, EventType, OpCode, Perms, Xid, Zxid};
use zebu_replica::{ConnId, Origin, frame, gate};
use zebu_tree::{Events, WatcherId};

use crate::conn::{Conn, Outbox};
use crate::counting::{Answers, count_event};
use crate::load::Several;
use crate::shared::Shared;

/// So many connections that only get notifications are woken together: theirs leave while others' are still made.
const WOKEN_TOGETHER: usize = 256;

/// Which latencies an answer counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Those of reads.
    Read,
    /// Those of writes.
    Write,
    /// None of these: it asked for neither, or got neither.
    Neither,
}

/// What is delivered in one turn of the replica's thread.
#[derive(Debug, Default)]
pub struct Delivery {
    rows: Vec<Row>,
    /// How many of the last of them are there for notifications only.
    notified: usize,
}

/// What one connection gets in a row.
#[derive(Debug)]
struct Row {
    conn: Arc<Conn>,
    /// When the requests came that are answered.
    received: Option<Duration>,
    /// Requests of it that are done with.
    done: u32,
    /// Reads among them.
    queued_reads: u32,
    left: Several,
    reads: u64,
    writes: u64,
    answers: Answers,
    /// What was answered last.
    last: (OpCode, Xid, Zxid),
}

impl Row {
    fn new(conn: Arc<Conn>, received: Option<Duration>) -> Self {
        Self {
            conn,
            received,
            done: 0,
            queued_reads: 0,
            left: Several::default(),
            reads: 0,
            writes: 0,
            answers: Answers::default(),
            last: (OpCode::PING, Xid(-1), Zxid::ZERO),
        }
    }

    /// Counts what is in it and wakes its connection; the effects it belongs to `began` at a time, and `now` is now.
    fn end(self, shared: &Shared, began: Duration, now: Duration) {
        let Self { conn, received, done, queued_reads, left, reads, writes, answers, last } = self;
        if let Some(received) = received {
            let metrics = &shared.metrics;
            let latency = now.saturating_sub(received).as_millis() as u64;
            let latency_ms = i64::try_from(latency).unwrap_or(i64::MAX);
            let took = now.saturating_sub(began).as_millis() as i64;
            metrics.readlatency.add_many(latency_ms, reads);
            metrics.read_final_proc_time_ms.add_many(took, reads);
            metrics.updatelatency.add_many(latency_ms, writes);
            metrics.write_final_proc_time_ms.add_many(took, writes);
            answers.record(&shared.stats, metrics, latency_ms);
            if answers.count() > 0 {
                let (op, xid, zxid) = last;
                let now_ms = now.as_millis() as u64;
                conn.stats.answered(answers.count(), op, xid.0, zxid.0, now_ms, latency);
                conn.stats.sent.fetch_add(answers.count(), Ordering::Relaxed);
            }
        }
        if done > 0 {
            shared.load.left(left);
            if queued_reads > 0 {
                conn.queued_reads.fetch_sub(queued_reads, Ordering::AcqRel);
            }
            // Only now its requests count as answered: what its task answers by itself from here on comes
            // behind the answers that are in its outbox.
            conn.in_flight.fetch_sub(done, Ordering::AcqRel);
        }
        conn.wake();
    }
}

impl Delivery {
    /// Answers a request: `put` puts the answer into the outbox of its connection and says how many bytes that were.
    /// False when the connection is gone.
    pub fn answer(
        &mut self,
        shared: &Shared,
        origin: &Origin,
        kind: Kind,
        zxid: Zxid,
        put: impl FnOnce(&mut Outbox) -> usize,
    ) -> bool {
        let Some(row) = self.done(shared, origin) else {
            shared.metrics.stale_replies.add(1);
            return false;
        };
        let bytes = put(&mut row.conn.outbox.lock());
        row.answers.add(bytes);
        row.last = (origin.op, origin.xid, zxid);
        match kind {
            Kind::Read => row.reads += 1,
            Kind::Write => row.writes += 1,
            Kind::Neither => {}
        }
        true
    }

    /// Gives a request up, and its connection with it.
    pub fn abandon(&mut self, shared: &Shared, origin: &Origin) {
        if let Some(row) = self.done(shared, origin) {
            row.conn.outbox.lock().close();
        }
    }

    /// Remembers to wake the connection's task.
    pub fn touch(&mut self, conn: Arc<Conn>) {
        if self.rows.last().is_none_or(|last| !Arc::ptr_eq(&last.conn, &conn)) {
            self.rows.push(Row::new(conn, None));
        }
    }

    /// The same, for a notification.
    fn notify(&mut self, conn: Arc<Conn>) {
        let before = self.rows.len();
        self.touch(conn);
        self.notified += self.rows.len() - before;
        if self.notified == WOKEN_TOGETHER {
            self.notified = 0;
            for row in self.rows.drain(before + 1 - WOKEN_TOGETHER..) {
                row.conn.wake();
            }
        }
    }

    /// Counts everything, and wakes the tasks of all connections that have something to send, or to go on with. The
    /// effects that this belongs to `began` at a time.
    pub fn end(&mut self, shared: &Shared, began: Duration) {
        if self.rows.is_empty() {
            return;
        }
        let now = shared.clock.monotonic();
        self.notified = 0;
        self.rows.drain(..).for_each(|row| row.end(shared, began, now));
    }

    /// A request is done with, answered or not; the row of its connection, if that is still there.
    fn done(&mut self, shared: &Shared, origin: &Origin) -> Option<&mut Row> {
        let Some(row) = self.row(shared, origin.conn, origin.received) else {
            let mut one = Several::default();
            shared.load.leave(origin.bytes, &mut one);
            shared.load.left(one);
            return None;
        };
        shared.load.leave(origin.bytes, &mut row.left);
        row.done += 1;
        row.queued_reads += u32::from(gate::is_read(origin.op));
        Some(row)
    }

    /// Where the answer to a request goes that was `received` at a time.
    fn row(&mut self, shared: &Shared, id: ConnId, received: Duration) -> Option<&mut Row> {
        let last = self.rows.last().filter(|last| last.conn.id == id);
        let fits = last.is_some_and(|last| last.received.is_none_or(|other| other == received));
        if !fits {
            let conn = match last {
                Some(last) => last.conn.clone(),
                None => shared.conn(id)?,
            };
            self.rows.push(Row::new(conn, None));
        }
        self.notified = 0;
        let row = self.rows.last_mut()?;
        row.received = Some(received);
        Some(row)
    }
}

/// Puts notifications into the outboxes, in front of every answer that could show their cause.
pub struct Notifier<'d> {
    shared: &'d Shared,
    delivery: &'d mut Delivery,
    /// The event being delivered, and to how many connections it went so far.
    event: Option<EventType>,
    path: String,
    connections: i64,
}

impl<'d> Notifier<'d> {
    /// Notifications that are a part of `delivery`.
    pub fn new(shared: &'d Shared, delivery: &'d mut Delivery) -> Self {
        Self { shared, delivery, event: None, path: String::new(), connections: 0 }
    }

    fn count(&mut self, event: EventType, path: &str) {
        if self.event != Some(event) || self.path != path {
            self.finish();
            self.event = Some(event);
            self.path.clear();
            self.path.push_str(path);
        }
        self.connections += 1;
    }

    fn finish(&mut self) {
        if let Some(event) = self.event.take() {
            count_event(&self.shared.metrics, event, self.connections);
            self.connections = 0;
        }
    }
}

impl Drop for Notifier<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Events for Notifier<'_> {
    fn notify(&mut self, watcher: WatcherId, event: EventType, path: &str, zxid: Zxid) {
        let Some(conn) = self.shared.conns.by_watcher(watcher) else { return };
        let bytes = conn.outbox.lock().put(|out| frame::notification(out, event, path, zxid));
        conn.stats.sent.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.watch_bytes.add(bytes as u64);
        self.shared.stats.packets_sent.add(1);
        self.count(event, path);
        self.delivery.notify(conn);
    }

    fn may_read(&mut self, watcher: WatcherId, acl: &[Acl]) -> bool {
        let shared = self.shared;
        shared
            .conns
            .by_watcher(watcher)
            .is_some_and(|conn| conn.with_ids(|ids| shared.schemes.permits(acl, Perms::READ, ids)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn conn(number: u64) -> Arc<Conn> {
        let peer = ([127, 0, 0, 1], 1).into();
        Arc::new(Conn::new(ConnId(number), peer, [].into(), 0, 0, Outbox::new(0)))
    }

    fn is_woken(conn: &Conn) -> bool {
        pin!(conn.wake.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn those_of_many_who_are_notified_first_do_not_wait_for_the_last() {
        let mut delivery = Delivery::default();
        let answered = conn(0);
        delivery.touch(answered.clone());
        let all: Vec<_> = (1..=2 * WOKEN_TOGETHER as u64 + 1).map(conn).collect();
        for conn in &all {
            delivery.notify(conn.clone());
        }
        let (woken, waiting) = all.split_at(2 * WOKEN_TOGETHER);
        assert!(woken.iter().all(|conn| is_woken(conn)));
        // Who is answered waits for the end of all that belongs to it.
        assert!(!is_woken(&waiting[0]) && !is_woken(&answered));
        assert_eq!(delivery.rows.len(), 2);
    }
}
