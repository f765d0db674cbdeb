//! What an engine needs of the program that it is a part of.

use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::txn::TxnRecord;
use zebu_proto::{ErrorCode, OpCode, SessionId, Zxid};
use zebu_replica::{Fatal, Input, Now, Origin, Output, Replica, Request};
use zebu_state::Copied;
use zebu_tree::{Applied, Tree};
use zebu_zab::{LinkId, Role, TreeDigest};

use crate::common::{Common, Mode};
use crate::conn::{Conn, Side};
use crate::delivery::Counter;
use crate::journal::{Order, Records};

/// Why an engine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The replica cannot.
    #[error(transparent)]
    Replica(#[from] Fatal),
    /// The replica wants a leader's tree that is not there.
    #[error("the leader's tree is gone")]
    CopyGone,
    /// Something is to be done between servers, where there is one.
    #[error("this server runs alone")]
    Alone,
    /// The log takes no more orders, or has failed.
    #[error(transparent)]
    Log(Box<dyn std::error::Error + Send + Sync>),
}

/// A transaction that was applied.
#[derive(Debug)]
pub struct AppliedTxn<'a> {
    /// Its zxid.
    pub zxid: Zxid,
    /// The tree's zxid before it.
    pub before: Zxid,
    /// Its bytes in the log.
    pub bytes: &'a Bytes,
    /// What is in them.
    pub record: &'a TxnRecord<'a>,
    /// What came of it.
    pub applied: &'a Applied<'a>,
    /// The tree behind it.
    pub tree: &'a Tree,
    /// Who asked, if a client of this server did.
    pub origin: Option<&'a Origin>,
}

/// What an engine needs of the program that it is a part of: the replica, the time, the disk, other servers, and
/// somebody who counts.
///
/// A server implements it with threads, the simulator with events. Methods with a default are told what happened, and
/// may do nothing about it.
pub trait World: Counter<<Self as World>::Side> {
    /// What is kept beside a connection.
    type Side: Side;

    // ---- the time

    /// The time.
    fn now(&self) -> Now;

    /// The time since the server started.
    fn monotonic(&self) -> Duration {
        self.now().monotonic
    }

    /// Until when everything was read that clients have sent; `None` if there are none.
    fn listened(&self) -> Option<Duration> {
        None
    }

    /// The same of other servers.
    fn peers_listened(&self) -> Option<Duration> {
        None
    }

    /// Whether the turn goes on at once. Otherwise it ends here, nothing is locked meanwhile, and the next call of
    /// [`crate::Engine::turn`] goes on with it.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// Whether so many outputs in a row are enough before others may look at the tree.
    fn is_enough(&mut self, outputs: usize) -> bool;

    // ---- the replica

    /// The replica.
    fn replica(&self) -> &Replica;

    /// Steps the replica: [`Replica::step`].
    ///
    /// # Errors
    /// The replica's.
    fn step(
        &mut self,
        now: Now,
        common: &Common<Self::Side>,
        tree: &Tree,
        input: Input,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Fatal>;

    // ---- the disk

    /// Orders something of the log. What is ordered is done in its order, and reported to the inbox.
    ///
    /// # Errors
    /// The log takes no more orders.
    fn order(&mut self, order: Order) -> Result<(), Failed>;

    /// Makes records durable here and now, if nothing else is ordered and the disk is quick: then `records` is empty
    /// afterwards, and the zxid is returned up to which the log is durable.
    ///
    /// # Errors
    /// The disk has failed.
    fn append_now(&mut self, records: &mut Records) -> Result<Option<Zxid>, Failed>;

    /// Begins a snapshot; its end is reported to the inbox.
    fn snapshot(&mut self, common: &Common<Self::Side>);

    // ---- other servers

    /// Sends a packet, at the latest with the next [`World::hand_over`].
    fn send(&mut self, link: LinkId, packet: QuorumPacket);

    /// What was sent so far leaves.
    fn hand_over(&mut self) {}

    /// Does what concerns the network between servers alone.
    ///
    /// # Errors
    /// There is none.
    fn network(&mut self, output: zebu_zab::Output) -> Result<(), Failed>;

    /// Takes the leader's tree that came on a link.
    fn take_copy(&mut self, link: LinkId) -> Option<Box<Copied>>;

    // ---- clients

    /// Serves clients as that, or nobody. A new mode is also told to [`Common::serve`], and where it is none, clients
    /// are closed by [`Common::close_clients`] behind it.
    fn serve(&mut self, common: &Common<Self::Side>, mode: Option<Mode>);

    // ---- what happens

    /// This server did not look at what came for so long.
    fn stood_still(&mut self, _time: Duration) {}

    /// This server did not listen to its clients for so long.
    fn did_not_listen(&mut self, _time: Duration) {}

    /// These inputs are to be stepped through next; ticks and what connections were heard of come with them.
    fn takes(&mut self, _now: Now, _common: &Common<Self::Side>, _inputs: &[Input]) {}

    /// Sessions that were heard of were reported.
    fn touched(&mut self) {}

    /// Some inputs were stepped through, which took so long.
    fn stepped(&mut self, _took: Duration) {}

    /// Outputs are carried out from `began` on; what they come of was `known` since the turn began.
    fn carries_out(&mut self, _known: Duration, _began: Duration) {}

    /// The answers and notifications that were made leave next.
    fn delivers(&mut self) {}

    /// All of them were, but for what was ordered.
    fn carried_out(&mut self) {}

    /// Others may look at the tree.
    fn paused(&mut self) {}

    /// A record is to be appended.
    fn appends(&mut self, _now: Now, _zxid: Zxid, _record: &Bytes) {}

    /// A transaction was applied to the tree; whoever asked for it is answered next.
    fn applied(&mut self, _now: Now, _what: &AppliedTxn<'_>) {}

    /// A read that waited is answered from the tree as it is now.
    fn answers(&mut self, _request: &Request) {}

    /// The answer to a read, behind whose request's header `body` came.
    fn read(&mut self, _op: OpCode, _body: &[u8], _answer: &[u8]) {}

    /// A read that waited was answered, and its connection goes on.
    fn answered(&mut self, _op: OpCode) {}

    /// The answer to a read would have been too long: its client got an error.
    fn too_long(&mut self, _op: OpCode, _now: Duration) {}

    /// A request was answered without a body.
    fn replied(&mut self, _now: Now, _origin: &Origin, _err: ErrorCode) {}

    /// A request gets no answer, and its connection is closed.
    fn abandoned(&mut self, _origin: &Origin) {}

    /// The connection of a request is gone that was to be answered.
    fn nobody_there(&mut self) {}

    /// A client gets its session, while the tree is at a zxid.
    fn accepted(&mut self, _conn: &Conn<Self::Side>, _session: SessionId, _zxid: Zxid) {}

    /// A client is told that its session is over, or that this server begins none.
    fn refused(&mut self, _conn: &Conn<Self::Side>, _denied: bool) {}

    /// Something is asked of the network between servers, or of a member's disk.
    fn asked(&mut self, _now: Now, _output: &zebu_zab::Output) {}

    /// The server has another role; clients are served, or not, behind this.
    fn role(&mut self, _role: Role) {}

    /// This learner's tree differs from the leader's since that transaction, and no client is served behind this; or it
    /// does not differ any more.
    fn doubts(&mut self, _since: Option<TreeDigest>) {}

    /// Clients that only read are served, or no longer.
    fn serves_readers(&mut self, _on: bool) {}

    /// What was in progress when the server was asked to stop is finished; connections between servers are closed.
    fn retired(&mut self) {}

    /// Everything that came is seen to.
    fn turned(&mut self) {}
}
