//! Somebody who speaks the protocol between servers and is none of them, and servers that come back with a promise that
//! nobody has asked them for.

use std::path::Path;
use std::time::Duration;

use zebu_proto::quorum::{EpochAck, LearnerInfo, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, Zxid};
use zebu_store::vfs::read;
use zebu_zab::{Input, LinkId};

use crate::members;
use crate::world::{Happening, World};

/// Where a promise is kept.
const PROMISE: &str = "/data/version-2/acceptedEpoch";

impl World {
    /// Somebody connects to a leader, and says that he is a machine that has promised an epoch. Nothing of what he is told
    /// reaches him: he goes on without it.
    pub(crate) fn claim(
        &mut self,
        leader: usize,
        claims: usize,
        epoch: u32,
        observer: bool,
        more: u32,
    ) {
        let process = self.servers[leader].number;
        let link = LinkId(self.next_id);
        self.next_id += 1;
        let info = LearnerInfo::new(members::id(claims), Zxid::ZERO);
        let kind = if observer { PacketKind::OBSERVERINFO } else { PacketKind::FOLLOWERINFO };
        let hello = QuorumPacket::with_data(kind, Zxid::new(Epoch(epoch), 0), info.to_data());
        let ack = EpochAck { current_epoch: Some(Epoch(0)) }.to_data();
        let goes_on = [
            QuorumPacket::with_data(PacketKind::ACKEPOCH, Zxid::ZERO, ack),
            QuorumPacket::new(PacketKind::PING, Zxid::ZERO),
        ];
        let packets = std::iter::once(hello).chain(goes_on.into_iter().take(more as usize));
        let inputs = std::iter::once(Input::Accepted(link))
            .chain(packets.map(|packet| Input::Packet(link, packet)));
        for (number, input) in inputs.enumerate() {
            let after = Duration::from_micros(number as u64);
            self.after(after, Happening::Tell { server: leader, process, input });
        }
    }

    /// A server is stopped and comes back with a later promise than it gave.
    pub(crate) fn promise(&mut self, server: usize, more: u32, back: Duration) {
        let path = Path::new(PROMISE);
        self.kill(server, 0, back);
        let disk = &self.servers[server].disk;
        let promised = read(disk, path).ok().and_then(|text| String::from_utf8(text).ok());
        if let Some(promised) = promised.and_then(|text| text.trim().parse::<u32>().ok()) {
            disk.put(path, (promised + more).to_string().as_bytes());
            let votes = server < self.plan.voters;
            self.checks.leadership.promised(votes);
        }
    }
}
