//! A stranger that speaks the protocol between servers, and servers that return with a promise that
//! no server has asked for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::quorum::{EpochAck, LearnerInfo, PacketKind, QuorumPacket};
use zebu_proto::{EnsembleId, Epoch, Identity, Zxid};
use zebu_store::EnsembleFile;
use zebu_store::vfs::read;
use zebu_zab::{Input, LinkId};

use crate::disk::ROOT;
use crate::members;
use crate::plan::Target;
use crate::server::Server;
use crate::world::{Happening, World};

/// The file with a server's promise.
const PROMISE: &str = "/data/version-2/acceptedEpoch";

impl World {
    /// A stranger connects to a leader and claims to be a machine that has promised an epoch. The
    /// stranger ignores all answers.
    pub(crate) fn claim(
        &mut self,
        claims: usize,
        epoch: u32,
        observer: bool,
        more: u32,
    ) -> Option<()> {
        let leader = self.aim(Target::Leader)?;
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
        Some(())
    }

    /// Stops a server, and restarts it as a member of another ensemble with a similar history.
    /// After a while the server returns to its own ensemble.
    pub(crate) fn stray(&mut self, target: Target, time: Duration) -> Option<()> {
        let server = self.aim(target)?;
        let settled = self.checks.ensembles.settled()?;
        let is_alone = self.servers.iter().all(|it| it.home.is_none());
        let knows =
            |it: &Server| it.peer().and_then(|peer| peer.identity().settled()) == Some(settled);
        // A server without an id joins any ensemble, which is not the situation that this fault
        // tests.
        if !is_alone || !(0..self.plan.members()).all(|it| knows(&self.servers[it])) {
            return None;
        }
        self.kill(server, 0, Duration::from_millis(200));
        let disk = &self.servers[server].disk;
        let file = EnsembleFile::new(Arc::new(disk.clone()), Path::new(ROOT));
        let own = read(disk, &file.path()).ok()?;
        let other = EnsembleId(!settled.0);
        file.write(Identity::Settled(other)).ok()?;
        self.servers[server].home = Some(own);
        let next = self.next_id;
        self.checks.ensembles.strays(server, true, next);
        self.tell(|| format!("server {server} belongs to ensemble {other}"));
        self.after(time, Happening::ComesHome(server));
        Some(())
    }

    /// Returns a server to its own ensemble, if it is in another one.
    pub(crate) fn comes_home(&mut self, server: usize) {
        let Some(own) = self.servers[server].home.take() else { return };
        self.kill(server, 0, Duration::from_millis(200));
        let disk = &self.servers[server].disk;
        let file = EnsembleFile::new(Arc::new(disk.clone()), Path::new(ROOT));
        disk.put(&file.path(), &own);
        let next = self.next_id;
        self.checks.ensembles.strays(server, false, next);
        self.tell(|| format!("server {server} has its own data again"));
    }

    /// Stops a server, and restarts it with a later promise than it has given.
    pub(crate) fn promise(&mut self, target: Target, more: u32, back: Duration) -> Option<()> {
        let server = self.aim(target)?;
        self.servers[server].process.as_ref()?;
        let path = Path::new(PROMISE);
        self.kill(server, 0, back);
        let disk = &self.servers[server].disk;
        let promised = read(disk, path).ok().and_then(|text| String::from_utf8(text).ok());
        if let Some(promised) = promised.and_then(|text| text.trim().parse::<u32>().ok()) {
            disk.put(path, (promised + more).to_string().as_bytes());
            let votes = server < self.plan.voters;
            self.checks.leadership.promised(votes);
        }
        Some(())
    }
}
