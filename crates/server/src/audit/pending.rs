//! Audited requests in progress in the replica, and the results of one turn.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use zebu_engine::AppliedTxn;
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, OpCode, Xid};
use zebu_replica::{ConnId, Now, Origin, Request};

use super::Audit;
use super::event::{Asked, Event, What, operation};

/// The audit data of the thread that runs the replica's turn.
///
/// **Invariant:** every stored request is removed once, so none is stored longer than the request
/// takes. Checked by `every_change_is_told_with_its_user_and_its_result`.
pub struct Pending {
    audit: Arc<Audit>,
    asked: HashMap<ConnId, VecDeque<(Xid, Asked)>>,
    events: Vec<Event>,
}

impl Pending {
    /// No request is in progress.
    pub fn new(audit: Arc<Audit>) -> Self {
        Self { audit, asked: HashMap::new(), events: Vec::new() }
    }

    /// Stores a request.
    pub fn takes(&mut self, request: &Request) {
        if operation(request.op).is_none() {
            return;
        }
        let Request { conn, session, xid, op, body, ids, .. } = request;
        let asked = Asked { session: *session, ids: ids.clone(), op: *op, body: body.clone() };
        self.asked.entry(*conn).or_default().push_back((*xid, asked));
    }

    /// Removes and returns the request.
    fn asked(&mut self, origin: &Origin) -> Option<Asked> {
        operation(origin.op)?;
        let of_conn = self.asked.get_mut(&origin.conn)?;
        assert!(!of_conn.is_empty(), "{:?} is remembered without a request", origin.conn);
        // It is mostly the first one, because requests are answered in order.
        let is_it = |(xid, asked): &(Xid, Asked)| (*xid, asked.op) == (origin.xid, origin.op);
        let at = of_conn.iter().position(is_it)?;
        let (_, asked) = of_conn.remove(at)?;
        if of_conn.is_empty() {
            self.asked.remove(&origin.conn);
        }
        Some(asked)
    }

    /// A transaction was applied.
    pub fn applied(&mut self, now: Now, what: &AppliedTxn<'_>) {
        let record = what.bytes.clone();
        let what = match what.origin {
            Some(origin) => match self.asked(origin) {
                Some(asked) => {
                    let success = what.applied.err == ErrorCode::OK;
                    What::Request { asked, record: Some(record), success }
                }
                None if origin.op == OpCode::CLOSE_SESSION => What::SessionEnded { record },
                None => return,
            },
            None if matches!(what.record.txn, Txn::CloseSession { .. }) => {
                What::SessionEnded { record }
            }
            None => return,
        };
        self.events.push(Event { wall_ms: now.wall_ms, what });
    }

    /// A request was answered without a transaction.
    pub fn replied(&mut self, now: Now, origin: &Origin, err: ErrorCode) {
        if let Some(asked) = self.asked(origin) {
            let success = err == ErrorCode::OK;
            let what = What::Request { asked, record: None, success };
            self.events.push(Event { wall_ms: now.wall_ms, what });
        }
    }

    /// A request gets no answer.
    pub fn abandoned(&mut self, origin: &Origin) {
        self.asked(origin);
    }

    /// Passes on the collected events.
    pub fn hand_over(&mut self) {
        self.audit.queue.add_all(&mut self.events);
    }
}
