//! Snapshot transfers from a leader to a learner, as the bytes of the protocol.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zebu_proto::Zxid;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_replica::Input;
use zebu_state::{Copied, Receiving, Sending, Step};
use zebu_zab::LinkId;

use crate::net::Message;
use crate::server::tree_options;
use crate::world::{Happening, World};

const RECORD_BYTES_MAX: usize = 1 << 20;

/// A snapshot transfer to a learner.
pub(crate) struct Leaving {
    sending: Sending,
}

/// A snapshot transfer from a leader.
pub(crate) struct Arriving {
    zxid: Zxid,
    bytes: BytesMut,
    receiving: Option<Receiving>,
    /// The whole snapshot, and the last transaction of which it may contain effects.
    whole: Option<(Copied, Zxid)>,
}

impl Arriving {
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Takes a piece. Returns true if it is the last one.
    fn piece(&mut self, piece: &[u8], extent: Zxid) -> Result<bool, String> {
        self.bytes.extend_from_slice(piece);
        let receiving = self.receiving.as_mut().ok_or("more than a snapshot")?;
        let done = receiving.take(&mut self.bytes).map_err(|error| error.to_string())?;
        if !done {
            return Ok(false);
        }
        let receiving = self.receiving.take().ok_or("more than a snapshot")?;
        let copied = receiving.complete().map_err(|error| error.to_string())?;
        self.whole = Some((copied, extent));
        Ok(true)
    }
}

impl World {
    /// Sends the tree, which changes meanwhile.
    pub(crate) fn send_copy(&mut self, server: usize, link: LinkId) {
        self.reached("whole tree sent");
        self.checks.copying(link.0);
        let Some(process) = &mut self.servers[server].process else { return };
        let number = process.number;
        let mut bytes = Vec::new();
        let sending = Sending::begin(&process.tree(), &mut bytes);
        let zxid = sending.zxid();
        self.send_packet(server, link, QuorumPacket::new(PacketKind::SNAP, zxid));
        let leaving = Leaving { sending };
        if let Some(process) = &mut self.servers[server].process {
            process.leaving.insert(link, leaving);
        }
        let bytes = self.flip(bytes);
        self.send(link.0, server, Message::Piece(bytes.into()));
        let after = Duration::from_micros(self.random.between(0, 2000));
        self.after(after, Happening::CopyStep { server, process: number, link: link.0 });
    }

    pub(crate) fn copy_step(&mut self, server: usize, number: u64, link: u64) {
        let budget = self.random.between(1, 30) as usize;
        let Some(process) = self.process(server, number) else { return };
        let common = process.common.clone();
        let Some(leaving) = process.leaving.get_mut(&LinkId(link)) else { return };
        let mut bytes = Vec::new();
        let step = leaving.sending.step(&common.tree.read(), budget, &mut bytes);
        if step == Step::Replaced {
            process.leaving.remove(&LinkId(link));
            return;
        }
        let done = step == Step::Done;
        if done {
            process.leaving.remove(&LinkId(link));
            let extent = process.tree().last_zxid();
            self.checks.copied(link, extent);
        }
        let bytes = self.flip(bytes);
        self.send(link, server, Message::Piece(bytes.into()));
        if done {
            let sent = zebu_zab::Input::CopySent(LinkId(link));
            self.input(server, number, Input::Zab(sent));
        } else {
            self.input(server, number, Input::Zab(zebu_zab::Input::Moves(LinkId(link))));
            let after = self.random.ms(0, self.plan.copy_pause.as_millis() as u64);
            self.after(after, Happening::CopyStep { server, process: number, link });
        }
    }

    /// A snapshot transfer begins. Returns false if the disk has no room for it.
    pub(crate) fn begin_copy(&mut self, server: usize, link: LinkId, zxid: Zxid) -> bool {
        let options = tree_options(&self.plan);
        let Some(process) = &mut self.servers[server].process else { return false };
        let Ok(receiving) = Receiving::begin(&process.snapshots, zxid, options, RECORD_BYTES_MAX)
        else {
            return false;
        };
        let (bytes, receiving) = (BytesMut::new(), Some(receiving));
        process.arriving.insert(link, Arriving { zxid, bytes, receiving, whole: None });
        true
    }

    /// The snapshot that arrived on a link, and the last transaction of which it may contain
    /// effects.
    pub(crate) fn take_copy(&mut self, server: usize, link: LinkId) -> Option<(Copied, Zxid)> {
        let process = self.servers[server].process.as_mut()?;
        process.arriving.remove(&link)?.whole
    }

    pub(crate) fn take_piece(&mut self, server: usize, link: LinkId, piece: &Bytes) {
        let extent = self.checks.extent(link.0);
        self.servers[server].disk.set_now(self.now);
        let Some(process) = &mut self.servers[server].process else { return };
        let number = process.number;
        let Some(arriving) = process.arriving.get_mut(&link) else { return };
        let zxid = arriving.zxid;
        match arriving.piece(piece, extent) {
            Ok(false) => self.input(server, number, Input::Zab(zebu_zab::Input::Moves(link))),
            Ok(true) => {
                let copied = zebu_zab::Input::Copied { link, zxid };
                self.input(server, number, zebu_replica::Input::Zab(copied));
            }
            Err(reason) => {
                self.tell(|| format!("server {server} cannot take a copy: {reason}"));
                process_forget(self, server, link);
                self.close(link.0, server);
                let down = zebu_zab::Input::LinkDown(link);
                self.input(server, number, zebu_replica::Input::Zab(down));
            }
        }
    }
}

fn process_forget(world: &mut World, server: usize, link: LinkId) {
    if let Some(process) = &mut world.servers[server].process {
        process.arriving.remove(&link);
    }
}
