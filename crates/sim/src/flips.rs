//! Bytes that change on their way between servers, in a way that TCP's checksum does not detect.
//!
//! A client's request may change, and no server can detect that. So few properties must hold: no
//! process ends, and when the faults stop, all servers serve the same znodes. ACLs and sessions are
//! not part of the digest, so they may differ from then on, as in the original.

use bytes::BytesMut;
use zebu_proto::Zxid;
use zebu_proto::quorum::QuorumPacket;
use zebu_testkit::Random;
use zebu_zab::LinkId;

use crate::links::FIELD_BYTES_MAX;
use crate::plan::{Fault, Plan};
use crate::server::Server;
use crate::world::World;

/// Changes bytes between servers.
pub(crate) struct Flips {
    random: Random,
    /// The mean distance between two changed bytes.
    every: u64,
    /// The number of bytes until the next change.
    left: u64,
}

impl Flips {
    pub(crate) fn new(plan: &Plan) -> Option<Self> {
        let every = plan.flip_every?;
        let mut random = Random::stream(plan.seed, 5);
        let left = random.below(2 * every);
        Some(Self { random, every, left })
    }

    /// Passes bytes on. Returns how many of them have changed.
    fn pass(&mut self, bytes: &mut [u8]) -> u64 {
        let (mut at, mut count) = (0, 0);
        while let Some(byte) = bytes.get_mut(at + self.left as usize) {
            *byte ^= 1 << self.random.below(8);
            at += self.left as usize + 1;
            count += 1;
            self.left = self.random.below(2 * self.every);
        }
        self.left -= (bytes.len() - at) as u64;
        count
    }
}

/// The part of a server's tree that is compared.
fn print(server: &Server) -> Option<(Zxid, i64)> {
    let tree = server.process.as_ref()?.tree();
    Some((tree.last_zxid(), tree.digest()))
}

impl World {
    /// Passes on the bytes that one server sends to another.
    pub(crate) fn flip(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.healing
            && let Some(flips) = &mut self.flips
        {
            let count = flips.pass(&mut bytes);
            if count > 0 {
                *self.outcome.faults.entry("byte changed").or_default() += count;
            }
        }
        bytes
    }

    /// Decodes received bytes, which may not be whole packets any more.
    pub(crate) fn hear_bytes(&mut self, server: usize, number: u64, id: u64, bytes: &[u8]) {
        let link = LinkId(id);
        let Some(process) = self.process(server, number) else { return };
        let mut received: BytesMut = process.received.remove(&link).unwrap_or_default();
        received.extend_from_slice(bytes);
        loop {
            match QuorumPacket::decode(&mut received, FIELD_BYTES_MAX) {
                Ok(Some(packet)) => self.packet(server, number, id, packet),
                Ok(None) => break,
                Err(_) => {
                    self.reached("connection of no use");
                    return self.break_link(server, number, link);
                }
            }
        }
        if let Some(process) = self.process(server, number)
            && !received.is_empty()
        {
            process.received.insert(link, received);
        }
    }

    /// Stops changing bytes. Clients continue until all servers have the same znodes.
    pub(crate) fn converge_after_flips(&mut self) {
        self.heal();
        let limit = self.now + self.patience() * 4;
        while !self.is_one() {
            if self.now >= limit {
                let prints: Vec<_> = self.servers.iter().map(print).collect();
                let what = format!("S-10: trees differ: {prints:?}\n{}", self.status());
                return self.checks.insist(what);
            }
            let second = std::time::Duration::from_secs(1);
            // Clients stop now and then, so that servers can come to rest. A lost answer never
            // arrives, so its client tries another server.
            let time = self.now.as_secs();
            self.busy = time % 8 < 5;
            if time.is_multiple_of(16) {
                for party in 0..self.clients.len() + self.apps.len() {
                    self.carry_out_fault(Fault::ClientBreak(party));
                }
            }
            self.run_until(self.now + second);
        }
    }

    fn is_one(&self) -> bool {
        let first = self.servers.first().and_then(print);
        first.is_some()
            && self.servers.iter().all(|server| server.serves() && print(server) == first)
    }
}
