//! The state after each committed transaction, with which answers, reads and notifications are
//! compared.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zebu_proto::txn::{Txn, TxnRecord};
use zebu_proto::{EventType, SessionId, Stat, Xid, Zxid};
use zebu_replica::write_reply;
use zebu_tree::{Silent, Tree};

use crate::checks::quotas::Quotas;
use crate::requests::is_tag;

/// A znode as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) stat: Stat,
    /// The names of its children, sorted.
    pub(crate) children: Vec<String>,
}

/// An event that watches may deliver.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) zxid: Zxid,
    pub(crate) kind: EventType,
    pub(crate) path: String,
}

/// The correct answer to the request behind a transaction, and the session that receives it.
pub(crate) struct Reply {
    pub(crate) session: SessionId,
    pub(crate) cxid: i32,
    /// The frame without its length.
    pub(crate) payload: Vec<u8>,
    /// The path and data of the write, if it was a write of one znode.
    pub(crate) wrote: Option<(String, Vec<u8>)>,
}

/// The committed history, applied to a tree.
pub(crate) struct Reference {
    tree: Tree,
    versions: BTreeMap<String, Vec<(Zxid, Option<View>)>>,
    pub(crate) events: Vec<Event>,
    replies: BTreeMap<Zxid, Reply>,
    /// For each request that became a transaction, its zxid.
    requests: BTreeMap<(SessionId, i32), Zxid>,
    /// For each tag, the zxid of its write.
    tags: BTreeMap<Vec<u8>, Zxid>,
    /// Tags of requests that were reported to their programs as never sent.
    unsent: BTreeSet<Vec<u8>>,
    /// Whether clients restart their xids on each connection.
    counts_anew: bool,
    pub(crate) quotas: Quotas,
}

impl Reference {
    pub(crate) fn new(counts_anew: bool, quotas: bool) -> Self {
        let mut reference = Self {
            tree: Tree::new(zebu_tree::Options::default()),
            versions: BTreeMap::new(),
            events: Vec::new(),
            replies: BTreeMap::new(),
            requests: BTreeMap::new(),
            tags: BTreeMap::new(),
            unsent: BTreeSet::new(),
            counts_anew,
            quotas: Quotas::new(quotas),
        };
        reference.note(Zxid::ZERO, "/");
        reference
    }

    /// A program learns that the request with this tag was never sent.
    pub(crate) fn never_sent(&mut self, tag: Vec<u8>) -> Result<(), String> {
        if tag.is_empty() {
            return Ok(());
        }
        if let Some(zxid) = self.tags.get(&tag) {
            return Err(format!("ERR-10: {tag:x?} was never sent, and is in {zxid}"));
        }
        self.unsent.insert(tag);
        Ok(())
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn reply(&self, zxid: Zxid) -> Option<&Reply> {
        self.replies.get(&zxid)
    }

    /// Applies the next committed transaction.
    pub(crate) fn apply(&mut self, zxid: Zxid, bytes: &Bytes) -> Result<(), String> {
        let record = TxnRecord::decode(bytes).map_err(|error| format!("{zxid}: {error}"))?;
        let header = record.header;
        let data = match &record.txn {
            Txn::Create(create) => create.data,
            Txn::SetData { data, .. } => *data,
            _ => None,
        };
        if let Some(tag) = data.filter(|data| self.unsent.contains(*data)) {
            return Err(format!("ERR-10: {tag:x?} is in {zxid}, and was never sent, it was said"));
        }
        if let Some(tag) = data.filter(|data| is_tag(data))
            && let Some(before) = self.tags.insert(tag.to_vec(), zxid)
        {
            return Err(format!(
                "ONCE: what program {} wrote is there twice, {before} and {zxid}",
                tag[1]
            ));
        }
        if header.cxid > 0
            && !self.counts_anew
            && let Some(before) = self.requests.insert((header.session, header.cxid), zxid)
        {
            return Err(format!(
                "ONCE: request {} of {} is carried out twice, as {before} and {zxid}",
                header.cxid, header.session
            ));
        }
        self.quotas.committed(zxid, &record)?;
        let mut paths = Vec::new();
        if !has_failed(&record.txn) {
            changes(&record.txn, &mut paths);
        }
        let applied = self.tree.apply(&record, &mut Silent);
        if !applied.digest_matches {
            return Err(format!("S-10: the digest in {zxid} is not that of the tree after it"));
        }
        let mut payload = Vec::new();
        write_reply(&mut payload, header.op, Xid(header.cxid), zxid, &applied);
        let payload = payload.split_off(4);
        let wrote = match &record.txn {
            Txn::Create(create) => Some((&create.path, create.data)),
            Txn::SetData { path, data, .. } => Some((path, *data)),
            _ => None,
        };
        let wrote = wrote
            .map(|(path, data)| (path.clone().into_owned(), data.unwrap_or_default().to_vec()));
        let reply = Reply { session: header.session, cxid: header.cxid, payload, wrote };
        self.replies.insert(zxid, reply);
        for (kind, path) in paths {
            if kind != EventType::NONE {
                self.events.push(Event { zxid, kind, path: path.clone() });
            }
            self.note(zxid, &path);
            if matches!(kind, EventType::NODE_CREATED | EventType::NODE_DELETED) {
                let parent = parent(&path).to_owned();
                let kind = EventType::NODE_CHILDREN_CHANGED;
                self.events.push(Event { zxid, kind, path: parent.clone() });
                self.note(zxid, &parent);
            }
        }
        Ok(())
    }

    /// Records the state of a path after a transaction.
    fn note(&mut self, zxid: Zxid, path: &str) {
        let view = self.tree.node(path).map(|node| {
            let mut children: Vec<String> = node.children().map(str::to_owned).collect();
            children.sort();
            View { data: node.data().map(<[u8]>::to_vec), stat: node.stat(), children }
        });
        let versions = self.versions.entry(path.to_owned()).or_default();
        if let Some(last) = versions.last_mut()
            && last.0 == zxid
        {
            last.1 = view;
        } else {
            versions.push((zxid, view));
        }
    }

    /// The state of a path after a transaction.
    pub(crate) fn at(&self, path: &str, zxid: Zxid) -> Option<&View> {
        let versions = self.versions.get(path)?;
        let after = versions.partition_point(|(at, _)| *at <= zxid);
        versions[..after].last()?.1.as_ref()
    }

    /// The index of the first event after a transaction.
    pub(crate) fn events_after(&self, zxid: Zxid) -> usize {
        self.events.partition_point(|event| event.zxid <= zxid)
    }
}

pub(crate) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

/// Whether a transaction changes nothing because a part of it has failed.
pub(crate) fn has_failed(txn: &Txn<'_>) -> bool {
    match txn {
        Txn::Multi(ops) => ops.iter().any(|(_, txn)| matches!(txn, Txn::Error(_))),
        Txn::Error(_) => true,
        _ => false,
    }
}

/// The changes of a transaction, in order.
fn changes(txn: &Txn<'_>, out: &mut Vec<(EventType, String)>) {
    let text = |path: &Cow<'_, str>| path.clone().into_owned();
    match txn {
        Txn::Create(create) => out.push((EventType::NODE_CREATED, text(&create.path))),
        Txn::Delete { path } => out.push((EventType::NODE_DELETED, text(path))),
        Txn::SetData { path, .. } => out.push((EventType::NODE_DATA_CHANGED, text(path))),
        Txn::SetAcl { path, .. } => out.push((EventType::NONE, text(path))),
        Txn::CloseSession { paths } => {
            let paths = paths.iter().flatten();
            out.extend(paths.map(|path| (EventType::NODE_DELETED, text(path))));
        }
        Txn::Multi(ops) => ops.iter().for_each(|(_, txn)| changes(txn, out)),
        Txn::CreateSession { .. } | Txn::Check { .. } | Txn::Error(_) => {}
    }
}
