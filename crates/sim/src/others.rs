//! Servers of other kinds: messages of the original's releases that Zebu servers do not send.
//!
//! A follower may acknowledge early, late or twice (`quorum-protocol.md` §7.2). A leader may
//! propose an error in place of its last proposal (B-27), or omit transactions that its memory
//! lacks from a synchronization (ZOOKEEPER-2846, ZOOKEEPER-4925). It may lose requests of a
//! learner. Its learners continue, or leave it.

use std::time::Duration;

use bytes::Bytes;
use zebu_jute::Encoder;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::txn::{Txn, TxnHeader, TxnRecord};
use zebu_proto::{ErrorCode, OpCode, SessionId, Zxid};
use zebu_zab::LinkId;

use crate::plan::{Acks, Leads};
use crate::world::World;

/// The most transactions that a follower acknowledges once more.
const AGAIN_MAX: usize = 20;

/// The error proposal of the original for a request that it cannot read, with a zxid that is in use
/// already.
fn error_at(zxid: Zxid) -> Bytes {
    let (session, cxid) = (SessionId(0x0100_0000_0000_0001), 1);
    let header = TxnHeader { session, cxid, zxid, time_ms: 0, op: OpCode::ERROR };
    let txn = Txn::Error(ErrorCode::MARSHALLING_ERROR);
    let mut bytes = Vec::new();
    TxnRecord { header, txn, digest: None }.encode(&mut Encoder::new(&mut bytes));
    bytes.into()
}

impl World {
    /// Sends a packet in the way of the server's kind.
    pub(crate) fn send_packet(&mut self, server: usize, link: LinkId, packet: QuorumPacket) {
        if packet.kind == PacketKind::ACK && packet.zxid.counter() == 0 {
            return self.acknowledge(server, link, packet);
        }
        let (kind, zxid) = (packet.kind, packet.zxid);
        match self.plan.leads.get(server).copied() {
            Some(Leads::Holes) if self.is_left_out(server, link, &packet) => return,
            Some(Leads::Again) => {
                self.send_one(server, link, packet);
                return self.propose_again(server, link, kind, zxid);
            }
            _ => {}
        }
        self.send_one(server, link, packet);
    }

    /// Acknowledges NEWLEADER, together with the further acknowledgements that other kinds of
    /// servers send.
    fn acknowledge(&mut self, server: usize, link: LinkId, packet: QuorumPacket) {
        let acks = self.plan.acks.get(server).copied().unwrap_or(Acks::Late);
        let Some(process) = &mut self.servers[server].process else { return };
        let first = process.proven.replace(link) != Some(link);
        let peer = process.replica.peer().expect("a member");
        let (history, flushed) = (peer.history(), peer.history().flushed());
        let txns: Vec<Zxid> = match (acks, first) {
            // A server acknowledges what its log has.
            _ if peer.is_unlogged() => Vec::new(),
            (Acks::Early, true) => history.pending().map(|txn| txn.zxid).collect(),
            (Acks::Again, false) => history.all().map(|txn| txn.zxid).collect(),
            _ => Vec::new(),
        };
        let newest = txns.len().saturating_sub(AGAIN_MAX);
        let extra = txns[newest..].iter().filter(|zxid| **zxid <= flushed);
        let mut packets: Vec<QuorumPacket> =
            extra.map(|zxid| QuorumPacket::new(PacketKind::ACK, *zxid)).collect();
        if !packets.is_empty() {
            self.reached("acknowledged as others do");
        }
        packets.insert(if first { packets.len() } else { 0 }, packet);
        for packet in packets {
            self.send_one(server, link, packet);
        }
    }

    /// A pseudo-random number for a transaction. It is the same at every call.
    fn lot(&self, zxid: Zxid, salt: u64) -> u64 {
        let mixed = (zxid.0 as u64 ^ self.plan.seed << 20 ^ salt << 44).wrapping_add(1);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    }

    /// Whether a leader with a hole in its memory omits this packet. It never omits its last
    /// transaction, nor two in a row, because a learner could not notice that.
    fn is_left_out(&mut self, server: usize, link: LinkId, packet: &QuorumPacket) -> bool {
        let zxid = packet.zxid;
        let lot = self.lot(zxid, link.0);
        let healing = self.healing;
        let Some(process) = &mut self.servers[server].process else { return false };
        match packet.kind {
            PacketKind::COMMIT => process.left_out.remove(&(link, zxid)),
            PacketKind::PROPOSAL => {
                let last = process.replica.peer().map_or(Zxid::ZERO, |peer| peer.history().last());
                let goes_on = zxid < last && zxid.epoch() == last.epoch();
                let out = !healing && goes_on && zxid.0 % 2 == 0 && lot.is_multiple_of(16);
                if out {
                    process.left_out.insert((link, zxid));
                    self.reached("left out of a synchronization");
                }
                out
            }
            _ => false,
        }
    }

    /// Whether a leader loses this request of a learner.
    pub(crate) fn is_lost(&mut self, server: usize, link: u64, packet: &QuorumPacket) -> bool {
        let loses = self.plan.leads.get(server) == Some(&Leads::Loses);
        // The loss shows when a later request overtakes the lost one, so clients must send more
        // afterwards.
        let lost = loses
            && self.now + Duration::from_secs(20) < self.plan.length
            && packet.kind == PacketKind::REQUEST
            && self.lot(Zxid(self.now.as_micros() as i64), link).is_multiple_of(256);
        if lost {
            self.reached("request lost");
        }
        lost
    }

    /// A leader proposes an error with a transaction's zxid to all learners or to none: after the
    /// proposal, or at the commit.
    fn propose_again(&mut self, server: usize, link: LinkId, kind: PacketKind, zxid: Zxid) {
        let leads = self.servers[server].leads() == Some(zxid.epoch());
        let lot = self.lot(zxid, 0);
        let when = if lot.is_multiple_of(2) { PacketKind::PROPOSAL } else { PacketKind::COMMIT };
        if leads && kind == when && (lot / 2).is_multiple_of(8) {
            self.reached("proposed once more as an error");
            let again = QuorumPacket::with_data(PacketKind::PROPOSAL, zxid, error_at(zxid));
            self.send_one(server, link, again);
        }
    }
}
