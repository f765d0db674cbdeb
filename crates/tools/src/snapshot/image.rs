//! A whole snapshot in memory, in the order of its file.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_store::snapshot::decompressed;
use zebu_store::snapshot::read::read_snapshot;
use zebu_store::{Compression, Recover, Refused, names};

use super::hashed;
use crate::failure::Failure;

/// Maximum bytes of a snapshot's record. Memory is allocated only for bytes that exist.
const RECORD_BYTES_MAX: usize = i32::MAX as usize;

/// The parent of the quotas' usage.
const QUOTA: &str = "/zookeeper/quota";

/// A znode.
#[derive(Debug)]
pub(super) struct Node {
    /// Empty for the root.
    pub(super) path: String,
    pub(super) data: Option<Vec<u8>>,
    pub(super) stat: StatPersisted,
    pub(super) parent: usize,
    /// In the order of the file.
    children: Vec<usize>,
    /// The number of descendants.
    pub(super) descendants: u64,
    /// Bytes of data of the znode and all its descendants.
    pub(super) bytes: u64,
}

impl Node {
    /// The last component of the path; `/` for the root.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or("/", |(_, name)| name)
    }

    pub(super) fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }
}

/// A snapshot.
#[derive(Debug, Default)]
pub(super) struct Image {
    /// The zxid in the file's name; −1 if there is none.
    pub(super) zxid: i64,
    /// Parents come before children, the root first.
    pub(super) nodes: Vec<Node>,
    /// Sessions with their timeouts in milliseconds, in the order of the file.
    sessions: Vec<(SessionId, i32)>,
    by_session: HashMap<SessionId, usize>,
    by_path: HashMap<String, usize>,
    /// The damage of the file. The content was read before the damage.
    damage: Option<String>,
}

impl Image {
    /// Reads a file, compressed or not.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let said = |error: &dyn std::fmt::Display| {
            Failure::new(format_args!("error: {}: {error}", path.display()))
        };
        let file = File::open(path).map_err(|error| said(&error))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let compression = match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("snappy") => Compression::Snappy,
            _ => Compression::None,
        };
        let zxid = names::parse_snapshot(name).map_or(-1, |(zxid, _)| zxid.0);
        let mut image = Self { zxid, ..Self::default() };
        let read =
            read_snapshot(decompressed(file, compression), RECORD_BYTES_MAX, false, &mut image);
        match read {
            // An operator who inspects a damaged snapshot wants to see its readable part.
            Err(error) if !image.nodes.is_empty() => {
                image.damage = Some(format!("{}: {error}", path.display()));
            }
            Err(error) => return Err(said(&error)),
            Ok(_) if image.nodes.is_empty() => return Err(said(&"it has no znodes")),
            Ok(_) => {}
        }
        image.add_up();
        image.use_quotas();
        image.add_up();
        Ok(image)
    }

    /// The error for a damaged file, reported after its content.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        let failure =
            |damage| Failure::new(format_args!("error: {damage}, so no server would load it"));
        self.damage.as_ref().map(failure).map_or(Ok(()), Err)
    }

    /// The znode with this path. `/` and the empty path mean the root.
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.by_path.get(if path == "/" { "" } else { path }).copied()
    }

    /// A znode's children, in the original's order.
    pub(super) fn children(&self, at: usize) -> Vec<usize> {
        let children = &self.nodes[at].children;
        let order = hashed::order(children, |child| hashed::of_text(self.nodes[*child].name()), 8);
        order.into_iter().map(|i| children[i]).collect()
    }

    /// Sessions with their timeouts and the number of their ephemerals, in the original's order.
    pub(super) fn sessions(&self) -> Vec<(SessionId, i32, usize)> {
        let mut ephemerals: HashMap<i64, usize> = HashMap::new();
        for node in &self.nodes {
            *ephemerals.entry(node.stat.ephemeral_owner).or_default() += 1;
        }
        let order = hashed::order(&self.sessions, |(id, _)| hashed::of_long(id.0), 16);
        let of = |i: usize| {
            let (id, timeout_ms) = self.sessions[i];
            (id, timeout_ms, ephemerals.get(&id.0).copied().unwrap_or_default())
        };
        order.into_iter().map(of).collect()
    }

    fn add_up(&mut self) {
        for node in &mut self.nodes {
            node.descendants = 0;
            node.bytes = node.data_bytes() as u64;
        }
        for at in (1..self.nodes.len()).rev() {
            let node = &self.nodes[at];
            let (parent, descendants, bytes) = (node.parent, node.descendants + 1, node.bytes);
            self.nodes[parent].descendants += descendants;
            self.nodes[parent].bytes += bytes;
        }
    }

    /// Computes the usage of quotas, as a server does when it loads a snapshot, and as the
    /// original's tools do.
    fn use_quotas(&mut self) {
        let limited: Vec<String> = self.nodes.iter().filter_map(limited_by).collect();
        for path in limited {
            let used = self.find(&path).map(|at| &self.nodes[at]);
            let (count, bytes) = used.map_or((0, 0), |node| (node.descendants + 1, node.bytes));
            if let Some(at) = self.find(&format!("{QUOTA}{path}/zookeeper_stats")) {
                self.nodes[at].data = Some(format!("count={count},bytes={bytes}").into_bytes());
            }
        }
    }
}

/// The path that the quota znode limits; `None` for other znodes.
fn limited_by(node: &Node) -> Option<String> {
    let below = node.path.strip_prefix(QUOTA)?;
    let path = below.strip_suffix("/zookeeper_limits").filter(|_| node.children.is_empty())?;
    Some(path.to_owned())
}

impl Recover for Image {
    fn restart(&mut self) {
        *self = Self { zxid: self.zxid, ..Self::default() };
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        // The last entry of a session counts.
        let at = *self.by_session.entry(id).or_insert(self.sessions.len());
        match self.sessions.get_mut(at) {
            Some((_, known)) => *known = timeout_ms,
            None => self.sessions.push((id, timeout_ms)),
        }
    }

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        _: i64,
        stat: &StatPersisted,
    ) -> Result<(), Refused> {
        let at = self.nodes.len();
        let parent = match path.rsplit_once('/') {
            None if at == 0 => 0,
            None => return Err(Refused::OutOfPlace("a second root")),
            Some((parent, _)) => {
                *self.by_path.get(parent).ok_or(Refused::OutOfPlace("no parent"))?
            }
        };
        if self.by_path.insert(path.to_owned(), at).is_some() {
            return Err(Refused::OutOfPlace("twice the same znode"));
        }
        if at > 0 {
            self.nodes[parent].children.push(at);
        }
        self.nodes.push(Node {
            path: path.to_owned(),
            data: data.map(<[u8]>::to_vec),
            stat: *stat,
            parent,
            children: Vec::new(),
            descendants: 0,
            bytes: 0,
        });
        Ok(())
    }

    fn digest(&mut self, _: Zxid, _: i32, _: i64) {}

    fn loaded(&mut self, _: Zxid) -> Result<(), Refused> {
        Ok(())
    }

    fn txn(&mut self, _: &[u8]) -> Result<(), Refused> {
        Err(Refused::OutOfPlace("a snapshot has no transactions"))
    }
}
