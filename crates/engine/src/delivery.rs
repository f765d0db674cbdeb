//! Delivers the answers and notifications of one turn of the replica. They are put into the
//! outboxes at once; the tasks of the connections are woken together at the end.

use std::sync::Arc;
use std::time::Duration;

use zebu_proto::{Acl, EventType, OpCode, Perms, Xid, Zxid};
use zebu_replica::{ConnId, Origin, frame, gate};
use zebu_tree::WatcherId;

use crate::answers::Answers;
use crate::common::Common;
use crate::conn::{Conn, Side};
use crate::events::{Delivered, TurnEvents};
use crate::faults;
use crate::load::Several;
use crate::outbox::Outbox;
use crate::sync::atomic::Ordering;

/// Wake the connections after this many that only get notifications, so that the first are sent
/// while later ones are being made.
const WOKEN_TOGETHER: usize = 256;

/// The latency metric for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The latency of reads.
    Read,
    /// The latency of writes.
    Write,
    /// None: the request was neither, or failed.
    Neither,
}

/// Deliveries of one turn of the replica.
#[derive(Debug)]
pub struct Delivery<S> {
    rows: Vec<Row<S>>,
    /// The number of last rows that only have notifications.
    notified: usize,
    late: faults::Late<S>,
}

/// Consecutive deliveries for one connection.
#[derive(Debug)]
struct Row<S> {
    conn: Arc<Conn<S>>,
    /// The time at which the requests were received.
    received: Option<Duration>,
    /// Requests finished, answered or not.
    done: u32,
    /// Reads among them.
    queued_reads: u32,
    left: Several,
    reads: u64,
    writes: u64,
    answers: Answers,
    /// The last request answered.
    last: (OpCode, Xid, Zxid),
}

impl<S: Side> Row<S> {
    fn new(conn: Arc<Conn<S>>, received: Option<Duration>) -> Self {
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

    /// Reports the row and wakes its connection. `began`: when its effects began to be carried out.
    fn end(
        self,
        common: &Common<S>,
        events: &mut impl TurnEvents<S>,
        began: Duration,
        now: Duration,
    ) {
        let Self { conn, received, done, queued_reads, left, reads, writes, answers, last } = self;
        assert_eq!(received.is_some(), done > 0, "a row has a request, or only a notification");
        assert!(queued_reads <= done, "{queued_reads} reads of {done} requests");
        assert!(reads + writes <= u64::from(done), "{reads} reads, {writes} writes of {done}");
        assert!(answers.count <= u64::from(done), "{} answers to {done}", answers.count);
        if let Some(received) = received {
            let row =
                Delivered { conn: &*conn, received, began, now, reads, writes, answers, last };
            events.delivered(&row);
        }
        if done > 0 {
            if !faults::never_leaves() {
                common.load.left(left);
            }
            if queued_reads > 0 {
                let before = conn.queued_reads.fetch_sub(queued_reads, Ordering::AcqRel);
                debug_assert!(before >= queued_reads, "what is answered was asked");
            }
            // The requests count as answered only now, after their answers are in the outbox. So
            // answers the task makes by itself from here on come after them.
            let before = conn.in_flight.fetch_sub(done, Ordering::AcqRel);
            debug_assert!(before >= done, "what is answered was asked");
        }
        conn.wake();
    }
}

impl<S> Default for Delivery<S> {
    fn default() -> Self {
        Self { rows: Vec::new(), notified: 0, late: faults::Late::default() }
    }
}

impl<S: Side> Delivery<S> {
    /// Answers a request. `put` appends the answer to the outbox and returns its size in bytes.
    /// Returns false if the connection is gone.
    pub fn answer(
        &mut self,
        common: &Common<S>,
        origin: &Origin,
        kind: Kind,
        zxid: Zxid,
        put: impl FnOnce(&mut Outbox) -> usize,
    ) -> bool {
        let Some(row) = self.done(common, origin) else { return false };
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

    /// Gives up a request and closes its connection.
    pub fn abandon(&mut self, common: &Common<S>, origin: &Origin) {
        if let Some(row) = self.done(common, origin) {
            row.conn.outbox.lock().close();
        }
    }

    /// Marks the connection's task to be woken.
    pub fn touch(&mut self, conn: Arc<Conn<S>>) {
        if self.rows.last().is_none_or(|last| !Arc::ptr_eq(&last.conn, &conn)) {
            self.rows.push(Row::new(conn, None));
        }
    }

    /// Marks the connection's task to be woken for a notification.
    fn notify(&mut self, conn: Arc<Conn<S>>) {
        let before = self.rows.len();
        self.touch(conn);
        self.notified += self.rows.len() - before;
        if self.notified == WOKEN_TOGETHER {
            self.notified = 0;
            assert!(self.rows.len() >= WOKEN_TOGETHER, "{} rows", self.rows.len());
            for row in self.rows.drain(before + 1 - WOKEN_TOGETHER..) {
                assert_eq!(row.done, 0, "an answer is counted before its connection is woken");
                row.conn.wake();
            }
        }
    }

    /// Reports all deliveries and wakes the tasks of their connections. `began`: when the effects
    /// began to be carried out; `now` is called only if there are deliveries.
    pub fn end<E: TurnEvents<S>>(
        &mut self,
        common: &Common<S>,
        events: &mut E,
        began: Duration,
        now: impl FnOnce(&E) -> Duration,
    ) {
        self.late.release();
        if self.rows.is_empty() {
            return;
        }
        let now = now(events);
        self.notified = 0;
        self.rows.drain(..).for_each(|row| row.end(common, events, began, now));
    }

    /// Finishes a request, answered or not. Returns the row of its connection, if that still
    /// exists.
    fn done(&mut self, common: &Common<S>, origin: &Origin) -> Option<&mut Row<S>> {
        let Some(row) = self.row(common, origin.conn, origin.received) else {
            let mut one = Several::default();
            common.load.leave(origin.bytes, &mut one);
            common.load.left(one);
            return None;
        };
        common.load.leave(origin.bytes, &mut row.left);
        row.done += 1;
        row.queued_reads += u32::from(gate::is_read(origin.op));
        Some(row)
    }

    /// The row for answers to requests of connection `id` that were `received` at a time.
    fn row(&mut self, common: &Common<S>, id: ConnId, received: Duration) -> Option<&mut Row<S>> {
        let last = self.rows.last().filter(|last| last.conn.id == id);
        let fits = last.is_some_and(|last| last.received.is_none_or(|other| other == received));
        if !fits {
            let conn = match last {
                Some(last) => last.conn.clone(),
                None => common.conns.get(id)?,
            };
            self.rows.push(Row::new(conn, None));
        }
        self.notified = 0;
        let row = self.rows.last_mut()?;
        row.received = Some(received);
        Some(row)
    }
}

/// Puts notifications into the outboxes, ahead of any answer that could reveal the change.
pub struct Notifier<'d, S, E> {
    common: &'d Common<S>,
    delivery: &'d mut Delivery<S>,
    events: &'d mut E,
}

impl<'d, S: Side, E: TurnEvents<S>> Notifier<'d, S, E> {
    /// Creates a notifier that adds to `delivery`.
    pub fn new(common: &'d Common<S>, delivery: &'d mut Delivery<S>, events: &'d mut E) -> Self {
        Self { common, delivery, events }
    }
}

impl<S: Side, E: TurnEvents<S>> zebu_tree::Events for Notifier<'_, S, E> {
    fn notify(&mut self, watcher: WatcherId, event: EventType, path: &str, zxid: Zxid) {
        let Some(conn) = self.common.conns.by_watcher(watcher) else { return };
        if self.delivery.late.holds(&conn, event, path, zxid) {
            return;
        }
        let bytes = conn.outbox.lock().put(|out| frame::notification(out, event, path, zxid));
        self.events.notified(&conn, event, path, bytes);
        self.delivery.notify(conn);
    }

    fn may_read(&mut self, watcher: WatcherId, acl: &[Acl]) -> bool {
        let Common { conns, schemes, .. } = self.common;
        conns
            .by_watcher(watcher)
            .is_some_and(|conn| conn.with_ids(|ids| schemes.permits(acl, Perms::READ, ids)))
    }
}

#[cfg(test)]
mod tests {
    use crate::sync::atomic::AtomicBool;

    use super::*;

    #[derive(Debug, Default)]
    struct Woken(AtomicBool);

    impl Side for Woken {
        fn wake(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn conn(number: u64) -> Arc<Conn<Woken>> {
        let address = [127, 0, 0, 1].into();
        let outbox = Outbox::new(0);
        Arc::new(Conn::new(ConnId(number), address, [].into(), outbox, Woken::default()))
    }

    fn is_woken(conn: &Conn<Woken>) -> bool {
        conn.side.0.load(Ordering::Relaxed)
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
        // The client that gets an answer waits for the end of everything that belongs to it.
        assert!(!is_woken(&waiting[0]) && !is_woken(&answered));
        assert_eq!(delivery.rows.len(), 2);
    }
}
