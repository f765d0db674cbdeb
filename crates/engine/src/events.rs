//! The events of a turn, for metrics, logs and checks. The engine waits for no answer to them.

use std::time::Duration;

use bytes::Bytes;
use zebu_proto::txn::TxnRecord;
use zebu_proto::{ErrorCode, EventType, OpCode, SessionId, Xid, Zxid};
use zebu_replica::{Input, Now, Origin, Request};
use zebu_tree::{Applied, Tree};
use zebu_zab::{Role, TreeDigest};

use crate::answers::Answers;
use crate::common::Common;
use crate::conn::Conn;

/// An applied transaction.
#[derive(Debug)]
pub struct AppliedTxn<'a> {
    /// Its zxid.
    pub zxid: Zxid,
    /// The tree's zxid before this transaction.
    pub before: Zxid,
    /// The record's bytes in the log.
    pub bytes: &'a Bytes,
    /// The decoded record.
    pub record: &'a TxnRecord<'a>,
    /// The result of applying it.
    pub applied: &'a Applied<'a>,
    /// The tree after this transaction.
    pub tree: &'a Tree,
    /// The request, if it came from a client of this server.
    pub origin: Option<&'a Origin>,
}

/// Consecutive answers for one connection.
#[derive(Debug)]
pub struct Delivered<'r, S> {
    /// The connection.
    pub conn: &'r Conn<S>,
    /// The time at which the requests were received.
    pub received: Duration,
    /// The time at which the execution of the turn's effects began.
    pub began: Duration,
    /// The time at which it ended.
    pub now: Duration,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number and sizes of the answers.
    pub answers: Answers,
    /// The last request answered.
    pub last: (OpCode, Xid, Zxid),
}

/// Listens to the events of a turn. `S`: the data kept with each connection.
///
/// The engine reports an event on the thread of the turn, and goes on in the same way whatever the
/// listener does with it. The default methods ignore the events, at no cost. What the engine needs
/// is in [`crate::World`].
pub trait TurnEvents<S> {
    // ---- the inputs of a turn

    /// A turn begins late: this server did not handle its inputs for this long. Sessions and peers
    /// get this time back. For a warning in the log.
    fn stood_still(&mut self, _time: Duration) {}

    /// A turn begins, and this server did not read from its clients for this long. Sessions get
    /// this time back. For a warning in the log.
    fn did_not_listen(&mut self, _time: Duration) {}

    /// A turn has taken these inputs from the inbox, and steps through them next. The tick and the
    /// signs of life are not among them. For the metrics of requests and of syncs.
    fn takes(&mut self, _now: Now, _common: &Common<S>, _inputs: &[Input]) {}

    /// The signs of life of all sessions were collected, about five times a second. For facts that
    /// only have to be that recent.
    fn touched(&mut self) {}

    /// The replica has stepped through some inputs, which took this long. Their outputs are carried
    /// out next. For the replica's counters, which have their new values before a client has its
    /// answer.
    fn stepped(&mut self, _took: Duration) {}

    /// All inputs of the turn are carried out. For facts that others wait for, and for totals.
    fn turned(&mut self) {}

    // ---- carrying out outputs

    /// Outputs are carried out from `began` on. `known`: when the turn began. For durations.
    fn carries_out(&mut self, _known: Duration, _began: Duration) {}

    /// The clients' tasks are woken next, for the answers and notifications so far. For metrics
    /// that must contain a request before its client has the answer.
    fn delivers(&mut self) {}

    /// All outputs were carried out and delivered, except the records, which are handed to the log
    /// next. For durations, and for lines in the log that may take long.
    fn carried_out(&mut self) {}

    /// The turn pauses between two outputs, after [`crate::World::is_enough`], and the tree is
    /// unlocked. What is finished is delivered next.
    fn paused(&mut self) {}

    // ---- transactions

    /// A record is handed to the log at the latest at the end of these outputs. For the metrics of
    /// proposals, and for checks.
    fn appends(&mut self, _now: Now, _zxid: Zxid, _record: &Bytes) {}

    /// A transaction was applied, under the tree's lock. Its client is answered next. For the
    /// metrics of writes, the audit log, and checks.
    fn applied(&mut self, _now: Now, _what: &AppliedTxn<'_>) {}

    // ---- answers

    /// A waiting read is answered next, from the current tree.
    fn answers(&mut self, _request: &Request) {}

    /// A waiting read has this answer, which is in the outbox. `body`: the request without its
    /// header. For the bytes that clients read.
    fn read(&mut self, _op: OpCode, _body: &[u8], _answer: &[u8]) {}

    /// A waiting read was answered, and its connection stays open. For the numbers of operations.
    fn answered(&mut self, _op: OpCode) {}

    /// The answer to a read was too long, so the client got an error. For a warning in the log.
    fn too_long(&mut self, _op: OpCode, _now: Duration) {}

    /// A request is answered next, without a body. For the audit log, and the numbers of
    /// operations.
    fn replied(&mut self, _now: Now, _origin: &Origin, _err: ErrorCode) {}

    /// A request gets no answer, and its connection is closed next. For the audit log.
    fn abandoned(&mut self, _origin: &Origin) {}

    /// There is an answer, and its connection is gone.
    fn nobody_there(&mut self) {}

    /// Answers for one connection are in its outbox, and its task is woken next. For latencies, and
    /// the numbers of packets.
    fn delivered(&mut self, _row: &Delivered<'_, S>) {}

    /// A notification is in an outbox. `bytes`: the size of its frame. The next transaction is
    /// applied after the last notification of this one. For the numbers of watch events.
    fn notified(&mut self, _conn: &Conn<S>, _event: EventType, _path: &str, _bytes: usize) {}

    // ---- sessions

    /// A client gets its session, and the answer is in the outbox. `zxid`: the tree's zxid.
    fn accepted(&mut self, _conn: &Conn<S>, _session: SessionId, _zxid: Zxid) {}

    /// A client is refused, and the answer is in the outbox. `denied`: this server creates no
    /// session; otherwise the client's session has expired.
    fn refused(&mut self, _conn: &Conn<S>, _denied: bool) {}

    // ---- the ensemble

    /// An output for other servers, or for the member's files, is carried out next. For the metrics
    /// of replication.
    fn asked(&mut self, _now: Now, _output: &zebu_zab::Output) {}

    /// The server has a new role. Clients are served or disconnected after this.
    fn role(&mut self, _role: Role) {}

    /// This learner's tree has differed from the leader's since that transaction, and no client is
    /// served from now on. `None`: the trees agree again. For an error in the log, and evidence.
    fn doubts(&mut self, _since: Option<TreeDigest>) {}

    /// Read-only clients are served from now on, or no longer.
    fn serves_readers(&mut self, _on: bool) {}
}
