//! The watches of a session: which watchers get which event, and how watches are restored.

use std::collections::BTreeMap;
use std::sync::Arc;

use zebu_jute::Encode;
use zebu_proto::{EventType, OpCode, WatcherType, Zxid};

use crate::Frame;

/// Identifies a watcher: chosen by the caller, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatcherId(pub u64);

/// What a watch waits for, and whether it is one-shot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchKind {
    /// One-shot: a change of the znode's data, or its deletion; set by getData.
    Data,
    /// Like [`WatchKind::Data`], and the znode's creation; set by exists.
    Exist,
    /// One-shot: a change of the child list, or the znode's deletion; set by getChildren.
    Child,
    /// Persistent: all events of the znode and its child list.
    Persistent,
    /// Persistent: all events of the znode and its descendants, except for child lists.
    Recursive,
}

impl WatchKind {
    /// Whether the watch ends with its first event.
    pub fn is_one_shot(self) -> bool {
        matches!(self, Self::Data | Self::Exist | Self::Child)
    }

    fn removal(self) -> WatcherType {
        match self {
            Self::Data | Self::Exist => WatcherType::Data,
            Self::Child => WatcherType::Children,
            Self::Persistent => WatcherType::Persistent,
            Self::Recursive => WatcherType::PersistentRecursive,
        }
    }
}

/// A watch that a successful request sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The watcher.
    pub watcher: WatcherId,
    /// The kind of watch.
    pub kind: WatchKind,
    /// The server's path.
    pub path: Arc<str>,
}

/// Maximum path characters in one setWatches request: far below any server's frame limit.
const RESTORE_BYTES_MAX: usize = 128 * 1024;

const KINDS: usize = 5;
const _: () = assert!(WatchKind::Recursive as usize + 1 == KINDS, "a table for each kind");

/// Above this many watchers, the check is skipped.
const CHECKED_MAX: usize = 256;

type Table = BTreeMap<Arc<str>, Vec<WatcherId>>;

#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// One table for each kind.
    tables: [Table; KINDS],
    /// The kind and path of each watcher. Invariant: `by_id` has the pairs of the tables.
    by_id: BTreeMap<WatcherId, (WatchKind, Arc<str>)>,
}

impl Watches {
    pub(crate) fn register(&mut self, registration: Registration) {
        let Registration { watcher, kind, path } = registration;
        let before = self.by_id.insert(watcher, (kind, path.clone()));
        assert!(before.is_none(), "watcher registered twice: {watcher:?}");
        self.tables[kind as usize].entry(path).or_default().push(watcher);
        self.check();
    }

    /// Asserts that both sides have the same pairs: in debug builds, as long as they are few.
    fn check(&self) {
        if cfg!(debug_assertions) && self.by_id.len() <= CHECKED_MAX {
            for (watcher, (kind, path)) in &self.by_id {
                let watchers = self.tables[*kind as usize].get(path);
                let is_there = watchers.is_some_and(|watchers| watchers.contains(watcher));
                assert!(is_there, "{watcher:?} is not told of {path}");
            }
            let watchers = || self.tables.iter().flat_map(Table::values);
            assert!(watchers().all(|watchers| !watchers.is_empty()), "a path of nobody");
            let count: usize = watchers().map(Vec::len).sum();
            assert_eq!(count, self.by_id.len(), "who is told of something is known");
        }
    }

    /// Collects the watchers of an event, and whether their watches end with it; ended ones are
    /// removed.
    pub(crate) fn fire(&mut self, event: EventType, path: &str, told: &mut Vec<(WatcherId, bool)>) {
        use WatchKind::{Child, Data, Exist, Persistent, Recursive};
        let consumed: &[WatchKind] = match event {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => &[Data, Exist],
            EventType::NODE_DELETED => &[Data, Exist, Child],
            EventType::NODE_CHILDREN_CHANGED => &[Child],
            _ => &[],
        };
        for kind in consumed {
            for watcher in self.tables[*kind as usize].remove(path).unwrap_or_default() {
                self.by_id.remove(&watcher);
                told.push((watcher, true));
            }
        }
        self.check();
        if let Some(watchers) = self.tables[Persistent as usize].get(path) {
            told.extend(watchers.iter().map(|watcher| (*watcher, false)));
        }
        let recursive = &self.tables[Recursive as usize];
        if recursive.is_empty() || event == EventType::NODE_CHILDREN_CHANGED {
            return;
        }
        for ancestor in ancestors(path) {
            if let Some(watchers) = recursive.get(ancestor) {
                told.extend(watchers.iter().map(|watcher| (*watcher, false)));
            }
        }
    }

    /// Removes a watcher. Returns the request that removes the watch from the server, if no other
    /// watcher needs it.
    pub(crate) fn remove(&mut self, watcher: WatcherId) -> Option<Removal> {
        let (kind, path) = self.by_id.remove(&watcher)?;
        let table = &mut self.tables[kind as usize];
        let watchers = table.get_mut(&path)?;
        watchers.retain(|other| *other != watcher);
        if !watchers.is_empty() {
            return None;
        }
        table.remove(&path);
        self.check();
        let has = |kind: WatchKind| self.tables[kind as usize].contains_key(&path);
        use WatchKind::{Child, Data, Exist, Persistent, Recursive};
        if ![Data, Exist, Child, Persistent, Recursive].into_iter().any(has) {
            return Some(Removal { path, kind: WatcherType::Any });
        }
        // The server has one data watch for both kinds, and servers before 3.9 have one mode for
        // each path: removing a one-shot watch would remove a persistent one too.
        let shared = match kind {
            Data => has(Exist),
            Exist => has(Data),
            Child | Persistent | Recursive => false,
        };
        let shadowed = kind.is_one_shot() && (has(Persistent) || has(Recursive));
        (!shared && !shadowed).then(|| Removal { path, kind: kind.removal() })
    }

    /// Removes all watchers of a path after the server was asked to remove their watches.
    pub(crate) fn remove_all(
        &mut self,
        path: &str,
        removed: WatcherType,
    ) -> Vec<(WatcherId, WatchKind)> {
        use WatchKind::{Child, Data, Exist, Persistent, Recursive};
        let kinds: &[WatchKind] = match removed {
            WatcherType::Children => &[Child],
            WatcherType::Data => &[Data, Exist],
            WatcherType::Any => &[Data, Exist, Child, Persistent, Recursive],
            WatcherType::Persistent => &[Persistent],
            WatcherType::PersistentRecursive => &[Recursive],
        };
        let mut told = Vec::new();
        for kind in kinds {
            for watcher in self.tables[*kind as usize].remove(path).unwrap_or_default() {
                self.by_id.remove(&watcher);
                told.push((watcher, *kind));
            }
        }
        self.check();
        told
    }

    /// The requests that restore all watches at a server. It sends events for changes after `seen`,
    /// and sets the other watches again.
    pub(crate) fn restore(&self, seen: Zxid) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut batch: [Vec<&str>; KINDS] = Default::default();
        let mut bytes = 0;
        for (kind, table) in self.tables.iter().enumerate() {
            for path in table.keys() {
                if bytes + path.len() > RESTORE_BYTES_MAX && bytes > 0 {
                    frames.push(set_watches(seen, &std::mem::take(&mut batch)));
                    bytes = 0;
                }
                bytes += path.len();
                batch[kind].push(path);
            }
        }
        if bytes > 0 {
            frames.push(set_watches(seen, &batch));
        }
        frames
    }

    /// Removes and returns all watchers.
    pub(crate) fn clear(
        &mut self,
    ) -> impl Iterator<Item = (WatcherId, WatchKind, Arc<str>)> + use<> {
        let Self { by_id, .. } = std::mem::take(self);
        by_id.into_iter().map(|(watcher, (kind, path))| (watcher, kind, path))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// A watch that the server can remove.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) path: Arc<str>,
    pub(crate) kind: WatcherType,
}

impl Removal {
    pub(crate) fn frame(&self) -> Frame {
        Frame::new(OpCode::REMOVE_WATCHES, |out| {
            out.text(&self.path);
            out.int(self.kind.to_wire());
        })
    }
}

/// The request for one batch. Servers before 3.6 know neither persistent watches nor their opcode.
fn set_watches(seen: Zxid, batch: &[Vec<&str>; KINDS]) -> Frame {
    let [.., persistent, recursive] = batch;
    let lists = if persistent.is_empty() && recursive.is_empty() { 3 } else { KINDS };
    let op = if lists == 3 { OpCode::SET_WATCHES } else { OpCode::SET_WATCHES2 };
    Frame::new(op, |out| {
        seen.encode(out);
        batch[..lists].iter().for_each(|paths| out.vector(Some(paths)));
    })
}

/// A path and its ancestors, up to the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/') {
        Some(0) if path.len() > 1 => Some("/"),
        Some(at) if at > 0 => Some(&path[..at]),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use zebu_jute::Decoder;
    use zebu_proto::request::{PersistentWatches, SetWatches};

    use super::*;

    fn watches(entries: &[(u64, WatchKind, &str)]) -> Watches {
        let mut watches = Watches::default();
        for (id, kind, path) in entries {
            let (watcher, kind, path) = (WatcherId(*id), *kind, (*path).into());
            watches.register(Registration { watcher, kind, path });
        }
        watches
    }

    fn fired(watches: &mut Watches, event: EventType, path: &str) -> Vec<(u64, bool)> {
        let mut told = Vec::new();
        watches.fire(event, path, &mut told);
        told.into_iter().map(|(watcher, last)| (watcher.0, last)).collect()
    }

    #[test]
    fn who_is_told_of_what() {
        use WatchKind::{Child, Data, Exist, Persistent, Recursive};
        let all = |path| {
            watches(&[
                (1, Data, path),
                (2, Exist, path),
                (3, Child, path),
                (4, Persistent, path),
                (5, Recursive, path),
                (6, Recursive, "/"),
                (7, Recursive, "/a/bc"),
            ])
        };
        let told = |event| fired(&mut all("/a/b"), event, "/a/b");
        // One-shot watches are told for the last time.
        let rest = [(4, false), (5, false), (6, false)];
        assert_eq!(told(EventType::NODE_CREATED), [&[(1, true), (2, true)][..], &rest].concat());
        assert_eq!(told(EventType::NODE_DATA_CHANGED), told(EventType::NODE_CREATED));
        assert_eq!(
            told(EventType::NODE_DELETED),
            [&[(1, true), (2, true), (3, true)][..], &rest].concat()
        );
        assert_eq!(told(EventType::NODE_CHILDREN_CHANGED), [(3, true), (4, false)]);
        // What happens below a znode concerns recursive watches only.
        let mut below = all("/a/b");
        assert_eq!(fired(&mut below, EventType::NODE_CREATED, "/a/b/c"), [(5, false), (6, false)]);
    }

    #[test]
    fn a_one_shot_watch_is_told_once() {
        let mut watches = watches(&[(1, WatchKind::Data, "/a")]);
        assert_eq!(fired(&mut watches, EventType::NODE_DATA_CHANGED, "/a"), [(1, true)]);
        assert_eq!(fired(&mut watches, EventType::NODE_DATA_CHANGED, "/a"), []);
        assert_eq!(watches.len(), 0);
    }

    #[test]
    fn removing_on_request_takes_the_kinds_that_were_named() {
        use WatchKind::{Child, Data, Exist, Persistent, Recursive};
        let removed = |kind| {
            let all = [Data, Exist, Child, Persistent, Recursive];
            let entries: Vec<_> = (1..).zip(all).map(|(id, kind)| (id, kind, "/a")).collect();
            let mut watches = watches(&entries);
            let told = watches.remove_all("/a", kind);
            assert_eq!(watches.len() + told.len(), 5);
            told.into_iter().map(|(watcher, _)| watcher.0).collect::<Vec<_>>()
        };
        assert_eq!(removed(WatcherType::Data), [1, 2]);
        assert_eq!(removed(WatcherType::Children), [3]);
        assert_eq!(removed(WatcherType::Persistent), [4]);
        assert_eq!(removed(WatcherType::PersistentRecursive), [5]);
        assert_eq!(removed(WatcherType::Any), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_the_server_is_told_to_forget() {
        use WatchKind::{Child, Data, Exist, Persistent, Recursive};
        let removal = |entries: &[(u64, WatchKind, &str)]| {
            watches(entries).remove(WatcherId(1)).map(|removal| removal.kind)
        };
        let any = Some(WatcherType::Any);
        assert_eq!(removal(&[(1, Data, "/a")]), any);
        assert_eq!(removal(&[(1, Recursive, "/a"), (2, Data, "/b")]), any);
        assert_eq!(removal(&[(1, Data, "/a"), (2, Data, "/a")]), None);
        assert_eq!(removal(&[(1, Data, "/a"), (2, Exist, "/a")]), None);
        assert_eq!(removal(&[(1, Data, "/a"), (2, Child, "/a")]), Some(WatcherType::Data));
        assert_eq!(removal(&[(1, Child, "/a"), (2, Data, "/a")]), Some(WatcherType::Children));
        assert_eq!(removal(&[(1, Data, "/a"), (2, Persistent, "/a")]), None);
        assert_eq!(
            removal(&[(1, Persistent, "/a"), (2, Recursive, "/a")]),
            Some(WatcherType::Persistent)
        );
        assert_eq!(
            removal(&[(1, Recursive, "/a"), (2, Data, "/a")]),
            Some(WatcherType::PersistentRecursive)
        );
        assert_eq!(removal(&[(2, Data, "/a")]), None);
    }

    #[test]
    fn restoring_says_everything_once_and_in_small_requests() {
        let mut watches = Watches::default();
        let kinds = [
            WatchKind::Data,
            WatchKind::Exist,
            WatchKind::Child,
            WatchKind::Persistent,
            WatchKind::Recursive,
        ];
        let mut wanted: [Vec<String>; KINDS] = Default::default();
        for id in 0..5000_u64 {
            let kind = kinds[id as usize % KINDS];
            let path = format!("/{}/{id:06}", "long".repeat(25));
            wanted[kind as usize].push(path.clone());
            watches.register(Registration { watcher: WatcherId(id), kind, path: path.into() });
        }
        let mut found: [Vec<String>; KINDS] = Default::default();
        let frames = watches.restore(Zxid(7));
        assert!(frames.len() > 1);
        for frame in frames {
            assert!(frame.length() < 256 * 1024);
            let mut bytes = Vec::new();
            frame.write(zebu_proto::Xid::SET_WATCHES, &mut bytes);
            let mut from = Decoder::new(&bytes[12..]);
            let SetWatches { relative_zxid, data, exist, child } =
                zebu_jute::Decode::decode(&mut from).unwrap();
            assert_eq!(relative_zxid, Zxid(7));
            for (kind, paths) in [data, exist, child].into_iter().enumerate() {
                found[kind].extend(paths.into_iter().map(std::borrow::Cow::into_owned));
            }
            if frame.op() == OpCode::SET_WATCHES2 {
                let PersistentWatches { persistent, recursive } =
                    zebu_jute::Decode::decode(&mut from).unwrap();
                for (kind, paths) in [persistent, recursive].into_iter().enumerate() {
                    found[3 + kind]
                        .extend(paths.into_iter().map(|path| path.unwrap().into_owned()));
                }
            }
            assert_eq!(from.remaining(), 0);
        }
        assert_eq!(found, wanted);
        assert_eq!(Watches::default().restore(Zxid(7)), []);
    }

    #[test]
    fn ancestors_end_at_the_root() {
        assert_eq!(ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(ancestors("/").collect::<Vec<_>>(), ["/"]);
    }
}
