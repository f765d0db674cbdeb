//! The interface between an engine and the program that runs it.

use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::txn::TxnRecord;
use zebu_proto::{ErrorCode, OpCode, ServerId, SessionId, Zxid};
use zebu_replica::{Fatal, Input, NotHandedOver, Now, Origin, Output, Replica, Request};
use zebu_state::Copied;
use zebu_tree::{Applied, Tree};
use zebu_zab::{LinkId, Role, TreeDigest};

use crate::common::{Common, Mode};
use crate::conn::{Conn, Side};
use crate::delivery::Counter;
use crate::journal::{Order, Records};

/// Why an engine cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The replica failed.
    #[error(transparent)]
    Replica(#[from] Fatal),
    /// The leader's snapshot, which the replica wants to install, is missing.
    #[error("the leader's tree is no longer available")]
    CopyGone,
    /// A standalone server was asked to do a member's work.
    #[error("this server runs alone")]
    Alone,
    /// The log accepts no orders, or has failed.
    #[error(transparent)]
    Log(Box<dyn std::error::Error + Send + Sync>),
}

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

/// What an engine needs from the program that runs it: the replica, the time, the disk, other
/// servers, and metrics.
///
/// The server implements it with threads, the simulator with events. Methods with a default body
/// report events, and may ignore them.
pub trait World: Counter<<Self as World>::Side> {
    /// Data kept with each connection.
    type Side: Side;

    // ---- the time

    /// The time.
    fn now(&self) -> Now;

    /// The time since the server started.
    fn monotonic(&self) -> Duration {
        self.now().monotonic
    }

    /// Up to when all bytes received from clients were read; `None` if there are no clients.
    fn listened(&self) -> Option<Duration> {
        None
    }

    /// Up to when all bytes received from other servers were read; `None` if there are none.
    fn peers_listened(&self) -> Option<Duration> {
        None
    }

    /// Whether the turn continues. If not, all locks are released, and the next call of
    /// [`crate::Engine::turn`] continues it.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// Whether to release the tree after this many consecutive outputs.
    fn is_enough(&mut self, _outputs: usize) -> bool {
        false
    }

    // ---- the replica

    /// The replica.
    fn replica(&self) -> &Replica;

    /// The replica, to be stepped.
    fn replica_mut(&mut self) -> &mut Replica;

    /// Steps the replica: [`Replica::step`].
    ///
    /// # Errors
    /// Errors of the replica.
    fn step(
        &mut self,
        now: Now,
        common: &Common<Self::Side>,
        tree: &Tree,
        input: Input,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        self.replica_mut().step(now, tree, &common.schemes, input, outputs)
    }

    // ---- the disk

    /// Queues an order for the log. Orders are done in sequence, and reported to the inbox.
    ///
    /// # Errors
    /// The log accepts no more orders.
    fn order(&mut self, order: Order) -> Result<(), Failed>;

    /// Syncs records at once, if no order is queued and the disk is fast. Then `records` is empty
    /// afterwards, and the zxid up to which the log is durable is returned.
    ///
    /// # Errors
    /// The disk failed.
    fn append_now(&mut self, records: &mut Records) -> Result<Option<Zxid>, Failed>;

    /// Starts a snapshot. Its end is reported to the inbox.
    fn snapshot(&mut self, common: &Common<Self::Side>);

    // ---- other servers

    /// Sends a packet, at the latest at the next [`World::hand_over`].
    fn send(&mut self, link: LinkId, packet: QuorumPacket);

    /// Flushes the packets sent so far.
    fn hand_over(&mut self) {}

    /// Carries out an output that only concerns the network between servers.
    ///
    /// # Errors
    /// This server is standalone.
    fn network(&mut self, output: zebu_zab::Output) -> Result<(), Failed>;

    /// Takes the leader's snapshot that arrived on a link.
    fn take_copy(&mut self, link: LinkId) -> Option<Box<Copied>>;

    // ---- clients

    /// Serves clients in `mode`, or stops serving. The implementation also passes a new mode to
    /// [`Common::serve`]. After `None`, the engine calls [`Common::close_clients`].
    fn serve(&mut self, common: &Common<Self::Side>, mode: Option<Mode>);

    // ---- what happens

    /// This server did not handle its inputs for this long.
    fn stood_still(&mut self, _time: Duration) {}

    /// This server did not read from its clients for this long.
    fn did_not_listen(&mut self, _time: Duration) {}

    /// These inputs are stepped through next. They include the tick and the signs of life.
    fn takes(&mut self, _now: Now, _common: &Common<Self::Side>, _inputs: &[Input]) {}

    /// The signs of life were reported.
    fn touched(&mut self) {}

    /// Inputs were stepped through, which took this long.
    fn stepped(&mut self, _took: Duration) {}

    /// Outputs are carried out from `began` on. `known`: when the turn began.
    fn carries_out(&mut self, _known: Duration, _began: Duration) {}

    /// The answers and notifications are delivered next.
    fn delivers(&mut self) {}

    /// All outputs were carried out, except those queued for the log.
    fn carried_out(&mut self) {}

    /// The turn paused, and the tree is unlocked.
    fn paused(&mut self) {}

    /// A record is to be appended.
    fn appends(&mut self, _now: Now, _zxid: Zxid, _record: &Bytes) {}

    /// A transaction was applied. Its client is answered next.
    fn applied(&mut self, _now: Now, _what: &AppliedTxn<'_>) {}

    /// A waiting read is answered from the current tree.
    fn answers(&mut self, _request: &Request) {}

    /// The answer to a read. `body`: the request without its header.
    fn read(&mut self, _op: OpCode, _body: &[u8], _answer: &[u8]) {}

    /// A waiting read was answered, and its connection stays open.
    fn answered(&mut self, _op: OpCode) {}

    /// The answer to a read was too long, so the client got an error.
    fn too_long(&mut self, _op: OpCode, _now: Duration) {}

    /// A request was answered without a body.
    fn replied(&mut self, _now: Now, _origin: &Origin, _err: ErrorCode) {}

    /// A request gets no answer, and its connection is closed.
    fn abandoned(&mut self, _origin: &Origin) {}

    /// The connection of an answered request is gone.
    fn nobody_there(&mut self) {}

    /// A client gets its session. `zxid`: the tree's zxid.
    fn accepted(&mut self, _conn: &Conn<Self::Side>, _session: SessionId, _zxid: Zxid) {}

    /// A client is told that its session has expired, or that this server creates none.
    fn refused(&mut self, _conn: &Conn<Self::Side>, _denied: bool) {}

    /// An output for the network or the member's files is carried out.
    fn asked(&mut self, _now: Now, _output: &zebu_zab::Output) {}

    /// The server has a new role. Clients are served or disconnected after this.
    fn role(&mut self, _role: Role) {}

    /// This learner's tree has differed from the leader's since that transaction, and no client is
    /// served from now on. `None`: the trees agree again.
    fn doubts(&mut self, _since: Option<TreeDigest>) {}

    /// Read-only clients are served, or no longer.
    fn serves_readers(&mut self, _on: bool) {}

    /// After a stop request, everything in flight is finished, and connections between servers are
    /// closed.
    fn retired(&mut self) {}

    /// The oldest request to let another server lead that has no answer is answered.
    fn handed_over(&mut self, _result: Result<ServerId, NotHandedOver>) {}

    /// All inputs are carried out.
    fn turned(&mut self) {}
}
