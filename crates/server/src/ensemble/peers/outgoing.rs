//! Collects packets to other servers, so that each link's writer gets its packets together.

use zebu_proto::quorum::QuorumPacket;
use zebu_zab::LinkId;

/// Number of packets at which they are passed on at once.
const FULL: usize = 64;

/// Packets by link, each link's in order.
#[derive(Debug, Default)]
pub struct Outgoing {
    links: Vec<(LinkId, Vec<QuorumPacket>)>,
    packets: usize,
}

impl Outgoing {
    /// Adds a packet. Returns true if all packets should be passed on now.
    pub fn add(&mut self, link: LinkId, packet: QuorumPacket) -> bool {
        assert!(self.packets < FULL, "{} packets were to be passed on", self.packets);
        match self.links.iter_mut().find(|(known, _)| *known == link) {
            Some((_, packets)) => packets.push(packet),
            None => self.links.push((link, vec![packet])),
        }
        self.packets += 1;
        self.packets >= FULL
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        assert_eq!(self.packets == 0, self.links.is_empty(), "every packet is counted");
        self.packets == 0
    }

    /// Removes and returns all packets.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (LinkId, Vec<QuorumPacket>)> {
        self.packets = 0;
        self.links.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::Zxid;
    use zebu_proto::quorum::PacketKind;

    use super::*;

    #[test]
    fn each_link_gets_its_packets_in_order() {
        let mut outgoing = Outgoing::default();
        let packet = |zxid| QuorumPacket::new(PacketKind::COMMIT, Zxid(zxid));
        let sent = [(1, 10), (2, 10), (1, 11), (1, 12), (2, 11)];
        for (link, zxid) in sent {
            assert!(!outgoing.add(LinkId(link), packet(zxid)));
        }
        let taken: Vec<_> = outgoing.take().collect();
        let of_first = vec![packet(10), packet(11), packet(12)];
        let of_second = vec![packet(10), packet(11)];
        assert_eq!(taken, [(LinkId(1), of_first), (LinkId(2), of_second)]);
        assert!(outgoing.is_empty());
        assert_eq!(outgoing.take().count(), 0);
    }

    #[test]
    fn it_is_full_once_and_then_empty() {
        let mut outgoing = Outgoing::default();
        for round in 0..2 {
            let full: Vec<bool> = (0..FULL)
                .map(|n| {
                    outgoing.add(LinkId(n as u64 % 3), QuorumPacket::new(PacketKind::PING, Zxid(0)))
                })
                .collect();
            assert_eq!(full.iter().position(|full| *full), Some(FULL - 1), "round {round}");
            assert_eq!(outgoing.take().map(|(_, packets)| packets.len()).sum::<usize>(), FULL);
        }
    }
}
