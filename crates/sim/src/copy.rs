//! Whole trees on their way from a leader to a learner, as the bytes of the protocol.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use zebu_jute::Encoder;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::snapshot::{
    SnapshotReader, SnapshotRecord, encode_end, encode_node, encode_tables,
};
use zebu_proto::{Acl, SessionId, Zxid};
use zebu_store::{Received, Recover, SnapshotWriter, Snapshots};
use zebu_tree::{Tree, Walk};
use zebu_zab::LinkId;

use crate::net::Message;
use crate::rebuild::Rebuild;
use crate::server::tree_options;
use crate::world::{Happening, World};

const RECORD_BYTES_MAX: usize = 1 << 20;

/// A copy on its way out.
pub(crate) struct Leaving {
    walk: Walk,
    /// What is to be sent behind it.
    pub(crate) behind: Vec<QuorumPacket>,
}

/// A copy on its way in.
pub(crate) struct Arriving {
    zxid: Zxid,
    reader: SnapshotReader,
    bytes: BytesMut,
    sessions: Vec<(SessionId, i32)>,
    acls: Vec<(i64, Vec<Acl>)>,
    tables_done: bool,
    writer: Option<SnapshotWriter>,
    rebuild: Option<Rebuild>,
    whole: Option<(Received, Tree, Zxid)>,
}

impl Arriving {
    fn new(
        snapshots: &Snapshots,
        zxid: Zxid,
        options: zebu_tree::Options,
    ) -> Result<Self, zebu_store::StoreError> {
        let mut rebuild = Rebuild::new(options);
        rebuild.restart();
        Ok(Self {
            zxid,
            reader: SnapshotReader::new(RECORD_BYTES_MAX),
            bytes: BytesMut::new(),
            sessions: Vec::new(),
            acls: Vec::new(),
            tables_done: false,
            writer: Some(snapshots.begin(zxid)?),
            rebuild: Some(rebuild),
            whole: None,
        })
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The snapshot, the tree, and the transaction up to which it may have traces.
    pub(crate) fn take(self) -> Option<(Received, Tree, Zxid)> {
        self.whole
    }

    /// Takes a piece; true when it is the last.
    fn piece(&mut self, piece: &[u8], extent: Zxid) -> Result<bool, String> {
        self.bytes.extend_from_slice(piece);
        let writer = self.writer.as_mut().ok_or("more than a snapshot")?;
        let rebuild = self.rebuild.as_mut().ok_or("more than a snapshot")?;
        loop {
            let next = self.reader.next(&self.bytes).map_err(|error| error.to_string())?;
            let Some((record, taken)) = next else { break };
            let tables =
                matches!(record, SnapshotRecord::Session { .. } | SnapshotRecord::Acl { .. });
            if !tables && !std::mem::replace(&mut self.tables_done, true) {
                writer.sessions(&self.sessions);
                writer.acls(&self.acls);
            }
            let end = matches!(record, SnapshotRecord::End);
            match record {
                SnapshotRecord::Session { id, timeout_ms } => {
                    rebuild.session(id, timeout_ms);
                    self.sessions.push((id, timeout_ms));
                }
                SnapshotRecord::Acl { id, acl } => {
                    rebuild.acl(id, acl.clone());
                    self.acls.push((id, acl));
                }
                SnapshotRecord::Node { path, data, acl, stat } => {
                    rebuild.node(&path, data, acl, &stat)?;
                    writer.node(&path, data, acl, &stat);
                }
                SnapshotRecord::End => {}
            }
            self.bytes.advance(taken);
            if end {
                break;
            }
        }
        if !self.reader.is_done() {
            writer.flush().map_err(|error| error.to_string())?;
            return Ok(false);
        }
        let (Some(writer), Some(mut rebuild)) = (self.writer.take(), self.rebuild.take()) else {
            return Ok(false);
        };
        rebuild.loaded(self.zxid)?;
        let received = writer.complete(None, Some(self.zxid)).map_err(|error| error.to_string())?;
        self.whole = Some((received, rebuild.finish(), extent));
        Ok(true)
    }
}

impl World {
    /// Sends the tree, while it goes on changing.
    pub(crate) fn send_copy(&mut self, server: usize, link: LinkId) {
        self.reached("whole tree sent");
        self.checks.copying(link.0);
        let Some(process) = &mut self.servers[server].process else { return };
        let number = process.number;
        let tree = &process.tree;
        let zxid = tree.last_zxid();
        let walk = Walk::new(tree);
        let mut bytes = Vec::new();
        let acls: Vec<_> = tree.acl_table().collect();
        let sessions: Vec<_> = tree.sessions().collect();
        encode_tables(&sessions, &acls, &mut Encoder::new(&mut bytes));
        self.send_packet(server, link, QuorumPacket::new(PacketKind::SNAP, zxid));
        let leaving = Leaving { walk, behind: Vec::new() };
        if let Some(process) = &mut self.servers[server].process {
            process.leaving.insert(link, leaving);
        }
        self.send(link.0, server, Message::Piece(bytes.into()));
        let after = Duration::from_micros(self.random.between(0, 2000));
        self.after(after, Happening::CopyStep { server, process: number, link: link.0 });
    }

    pub(crate) fn copy_step(&mut self, server: usize, number: u64, link: u64) {
        let budget = self.random.between(1, 30) as usize;
        let Some(process) = self.process(server, number) else { return };
        let Some(leaving) = process.leaving.get_mut(&LinkId(link)) else { return };
        let mut bytes = Vec::new();
        let done = leaving.walk.step(&process.tree, budget, &mut |path, data, acl, stat| {
            encode_node(path, data, acl, stat, &mut Encoder::new(&mut bytes));
        });
        if done {
            encode_end(&mut Encoder::new(&mut bytes));
        }
        let behind = if done {
            process.leaving.remove(&LinkId(link)).map(|leaving| leaving.behind)
        } else {
            None
        };
        if done {
            let extent = process.tree.last_zxid();
            self.checks.copied(link, extent);
        }
        self.send(link, server, Message::Piece(bytes.into()));
        for packet in behind.into_iter().flatten() {
            self.send_packet(server, LinkId(link), packet);
        }
        if !done {
            let after = self.random.ms(0, 10);
            self.after(after, Happening::CopyStep { server, process: number, link });
        }
    }

    /// A snapshot begins to come; false when there is no room for it.
    pub(crate) fn begin_copy(&mut self, server: usize, link: LinkId, zxid: Zxid) -> bool {
        let options = tree_options(&self.plan);
        let Some(process) = &mut self.servers[server].process else { return false };
        match Arriving::new(&process.snapshots, zxid, options) {
            Ok(arriving) => {
                process.arriving.insert(link, arriving);
                true
            }
            Err(_) => false,
        }
    }

    pub(crate) fn take_piece(&mut self, server: usize, link: LinkId, piece: &Bytes) {
        let extent = self.checks.extent(link.0);
        self.servers[server].disk.set_now(self.now);
        let Some(process) = &mut self.servers[server].process else { return };
        let number = process.number;
        let Some(arriving) = process.arriving.get_mut(&link) else { return };
        let zxid = arriving.zxid;
        match arriving.piece(piece, extent) {
            Ok(false) => {}
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
