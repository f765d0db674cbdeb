//! The answers of the echo server: every read succeeds with the last value written, every write
//! succeeds.

use zebu_jute::{Decoder, Encoder};

use super::Echo;
use super::conn::Conn;
use super::replies::Replies;
use crate::wire::{self, op};

impl Echo {
    /// Grants a session; `None` if the frame is no connect request.
    pub(super) fn greet(&mut self, conn: &mut Conn, payload: &[u8]) -> Option<()> {
        let mut from = Decoder::new(payload);
        self.log(payload);
        from.int().ok()?; // protocol version
        from.long().ok()?; // last zxid seen
        let timeout = from.int().ok()?;
        self.sessions += 1;
        let start = conn.out.len();
        let mut to = Encoder::new(&mut conn.out);
        to.int(0); // length
        to.int(0); // protocol version
        to.int(timeout.clamp(4_000, 40_000));
        to.long(self.sessions);
        to.buffer(Some(&[0; 16]));
        to.boolean(false);
        wire::seal(&mut conn.out, start);
        conn.greeted = true;
        Some(())
    }

    /// Answers one request; `None` if the frame is no request.
    #[inline]
    pub(super) fn answer(
        &mut self,
        id: usize,
        conn: &mut Conn,
        payload: &[u8],
        notified: &mut Vec<usize>,
    ) -> Option<()> {
        let mut from = Decoder::new(payload);
        let xid = from.int().ok()?;
        let kind = from.int().ok()?;
        if !matches!(kind, op::GET_DATA | op::EXISTS | op::GET_CHILDREN | op::PING | op::SYNC) {
            self.log(payload);
        }
        match kind {
            op::GET_DATA => {
                self.watch(id, from)?;
                self.replies.get.put(&mut conn.out, xid);
            }
            op::EXISTS => {
                self.watch(id, from)?;
                self.replies.stat.put(&mut conn.out, xid);
            }
            op::SET_DATA => {
                let path = from.buffer().ok()??;
                let data = from.buffer().ok()?.unwrap_or_default();
                self.wrote(data.len());
                self.fire(path, id, conn, notified);
                self.replies.stat.put(&mut conn.out, xid);
            }
            op::CREATE => {
                let path = from.buffer().ok()??;
                let data = from.buffer().ok()?.unwrap_or_default();
                self.wrote(data.len());
                let start = conn.out.len();
                self.replies.empty.put(&mut conn.out, xid);
                Encoder::new(&mut conn.out).buffer(Some(path));
                wire::seal(&mut conn.out, start);
            }
            op::MULTI => {
                loop {
                    let (kind, done) = (from.int().ok()?, from.boolean().ok()?);
                    from.int().ok()?; // error: none in a request
                    if done {
                        break;
                    }
                    if kind != op::SET_DATA {
                        return None; // this crate sends no other
                    }
                    let path = from.buffer().ok()??;
                    from.buffer().ok()?; // data
                    from.int().ok()?; // version
                    self.fire(path, id, conn, notified);
                }
                let start = conn.out.len();
                self.replies.empty.put(&mut conn.out, xid);
                let mut to = Encoder::new(&mut conn.out);
                to.int(-1);
                to.boolean(true);
                to.int(-1);
                wire::seal(&mut conn.out, start);
            }
            op::GET_CHILDREN => {
                let start = conn.out.len();
                self.replies.empty.put(&mut conn.out, xid);
                Encoder::new(&mut conn.out).int(0); // no names: it keeps no znodes
                wire::seal(&mut conn.out, start);
            }
            op::CLOSE_SESSION => {
                self.replies.empty.put(&mut conn.out, xid);
                conn.closing = true;
            }
            _ => self.replies.empty.put(&mut conn.out, xid), // delete, ping
        }
        Some(())
    }

    /// Remembers the size of the last value. Reads return a value of this size.
    fn wrote(&mut self, bytes: usize) {
        if self.replies.value_bytes != bytes {
            self.replies = Replies::new(bytes);
        }
    }

    fn watch(&mut self, id: usize, mut request: Decoder<'_>) -> Option<()> {
        let path = request.buffer().ok()??;
        if request.boolean().ok()? {
            let watchers = match self.watches.get_mut(path) {
                Some(watchers) => watchers,
                None => self.watches.entry(path.into()).or_default(),
            };
            watchers.push(id);
        }
        Some(())
    }

    /// Queues the notifications of a change of `path`. `conn` is the connection with the number
    /// `id`.
    fn fire(&mut self, path: &[u8], id: usize, conn: &mut Conn, notified: &mut Vec<usize>) {
        if self.watches.is_empty() {
            return;
        }
        for watcher in self.watches.remove(path).unwrap_or_default() {
            let to = match &mut self.conns[watcher] {
                _ if watcher == id => &mut *conn,
                Some(other) => other,
                None => continue,
            };
            let start = to.out.len();
            self.replies.empty.put(&mut to.out, wire::XID_NOTIFICATION);
            let mut event = Encoder::new(&mut to.out);
            event.int(3); // the data changed
            event.int(3); // connected
            event.buffer(Some(path));
            wire::seal(&mut to.out, start);
            if watcher == id {
                continue; // goes with its answer
            }
            match self.order.ticket() {
                None => notified.push(watcher),
                // The notification waits until the change is durable.
                Some(ticket) if to.hold(ticket) => self.waiting.push_back((ticket, watcher)),
                Some(_) => {}
            }
        }
    }
}
