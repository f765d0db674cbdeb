//! The interface between an engine and the program that runs it.

use std::time::Duration;

use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{ServerId, Zxid};
use zebu_replica::{Fatal, Input, NotHandedOver, Now, Output, Replica};
use zebu_state::Copied;
use zebu_tree::Tree;
use zebu_zab::LinkId;

use crate::common::{Common, Mode};
use crate::conn::Side;
use crate::events::TurnEvents;
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

/// What an engine needs from the program that runs it: the replica, the time, the disk, and other
/// servers.
///
/// The server implements it with threads, the simulator with simulated events. The engine cannot do
/// its work without these methods; what it only reports is in [`TurnEvents`].
pub trait World: TurnEvents<<Self as World>::Side> {
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

    // ---- the program

    /// After a stop request, everything in flight is finished, and connections between servers are
    /// closed: the program may end. Only a program that asks for it needs this.
    fn retired(&mut self) {}

    /// The oldest request to let another server lead that has no answer is answered. Only a program
    /// that makes such requests needs this.
    fn handed_over(&mut self, _result: Result<ServerId, NotHandedOver>) {}
}
