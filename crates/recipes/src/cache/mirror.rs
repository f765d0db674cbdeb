//! The state of a cache, and the reads it needs: a pure core without requests.
//!
//! Only answers change the state; this makes it exact. An event, a listed child and a doubt only
//! add a path to the queue of reads. Answers for one path come in the order of the reads, so the
//! last one, requested after the last event, is current.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use zebu_client::Stat;

use crate::path;

use super::{Change, Znode};

/// The depth of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// The znode itself.
    Node,
    /// The znode and its children.
    Children,
    /// The znode and everything below it.
    Tree,
}

/// The limits of a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) nodes_max: usize,
    /// Maximum bytes of paths and data together.
    pub(super) bytes_max: usize,
}

/// The znodes exceed the limits of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// A read that the driver must make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) path: String,
    /// Whether to read the list of children, too.
    pub(super) lists: bool,
}

/// The result of a read.
#[derive(Debug)]
pub(super) enum Found {
    /// The znode, and the names of its children if they were requested.
    There(Znode, Vec<String>),
    /// No znode, or a znode that the client may not read.
    Gone,
}

#[derive(Debug)]
struct Kept {
    znode: Arc<Znode>,
    /// The last walk that has seen this znode.
    walk: u64,
}

#[derive(Debug)]
pub(super) struct Mirror {
    root: String,
    depth: Depth,
    limits: Limits,
    znodes: BTreeMap<String, Kept>,
    /// Bytes of the paths and data in `znodes`.
    bytes: usize,
    /// Grows whenever everything is read again.
    walk: u64,
    /// Paths to read, in order. Each path is also in `wanted`, and only once in this queue.
    queue: VecDeque<String>,
    /// Whether to read the children of a queued path.
    wanted: BTreeMap<String, bool>,
    /// Number of reads in flight.
    reading: usize,
    /// Whether events of changes arrive.
    is_heard: bool,
    is_current: bool,
}

impl Mirror {
    pub(super) fn new(root: &str, depth: Depth, limits: Limits) -> Self {
        let root = root.to_owned();
        let (znodes, queue, wanted) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        let (bytes, walk, reading) = (0, 0, 0);
        Self {
            root,
            depth,
            limits,
            znodes,
            bytes,
            walk,
            queue,
            wanted,
            reading,
            is_heard: false,
            is_current: false,
        }
    }

    /// Reads everything again. The reads in flight are forgotten: the driver must not report their
    /// answers.
    pub(super) fn restart(&mut self) {
        self.walk += 1;
        self.reading = 0;
        self.queue.clear();
        self.wanted.clear();
        self.is_heard = true;
        self.is_current = false;
        self.want(self.root.clone(), self.depth != Depth::Node);
    }

    /// Records that no events arrive until [`Mirror::restart`].
    pub(super) fn suspend(&mut self) {
        self.is_heard = false;
        self.is_current = false;
    }

    /// Records an event of a znode, which must be read again.
    pub(super) fn touch(&mut self, path: &str) -> Result<(), TooLarge> {
        if self.is_in_scope(path) {
            self.want(path.to_owned(), false);
        }
        self.check()
    }

    /// The next read that the driver must make.
    pub(super) fn next_read(&mut self) -> Option<Read> {
        let path = self.queue.pop_front()?;
        let lists = self.wanted.remove(&path).unwrap_or_default();
        self.reading += 1;
        Some(Read { path, lists })
    }

    /// Handles the answer to a read. Appends the resulting changes to `changes`.
    pub(super) fn answer(
        &mut self,
        read: &Read,
        found: Found,
        changes: &mut Vec<Change>,
    ) -> Result<(), TooLarge> {
        self.reading -= 1;
        match found {
            Found::There(znode, children) => {
                self.put(znode, changes);
                for name in children {
                    let child = path::join(&read.path, &name);
                    self.want(child, self.depth == Depth::Tree);
                }
            }
            Found::Gone => self.remove(&read.path, changes),
        }
        self.settle(changes);
        self.check()
    }

    pub(super) fn is_current(&self) -> bool {
        self.is_current
    }

    pub(super) fn get(&self, path: &str) -> Option<&Arc<Znode>> {
        self.znodes.get(path).map(|kept| &kept.znode)
    }

    /// All znodes by path, so parents first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Znode>> {
        self.znodes.values().map(|kept| &kept.znode)
    }

    pub(super) fn len(&self) -> usize {
        self.znodes.len()
    }

    /// The children of a znode, by name.
    pub(super) fn children(&self, parent: &str) -> Vec<Arc<Znode>> {
        let prefix = path::join(parent, "");
        let mut found = Vec::new();
        let mut from = prefix.clone();
        while let Some((at, kept)) = self.znodes.range(from..).next() {
            let Some(below) = at.strip_prefix(&prefix) else { break };
            from = match below.split_once('/') {
                // Skips the descendants of a child in one step, because there may be many.
                Some((child, _)) => behind(&format!("{prefix}{child}")),
                None => {
                    if !below.is_empty() {
                        found.push(kept.znode.clone());
                    }
                    format!("{at}\0")
                }
            };
        }
        found
    }

    fn is_in_scope(&self, path: &str) -> bool {
        if path == self.root {
            return true;
        }
        let Some(below) = path.strip_prefix(&path::join(&self.root, "")) else { return false };
        match self.depth {
            Depth::Node => false,
            Depth::Children => !below.contains('/'),
            Depth::Tree => true,
        }
    }

    fn want(&mut self, path: String, lists: bool) {
        match self.wanted.get_mut(&path) {
            Some(queued) => *queued |= lists,
            None => {
                self.queue.push_back(path.clone());
                self.wanted.insert(path, lists);
            }
        }
    }

    fn put(&mut self, znode: Znode, changes: &mut Vec<Change>) {
        let path = znode.path.clone();
        let znode = Arc::new(znode);
        self.bytes += size(&znode);
        let kept = Kept { znode: znode.clone(), walk: self.walk };
        let Some(Kept { znode: before, .. }) = self.znodes.insert(path, kept) else {
            changes.push(Change::Created(znode));
            return;
        };
        self.bytes -= size(&before);
        if before.stat.czxid != znode.stat.czxid {
            changes.push(Change::Deleted(before));
            changes.push(Change::Created(znode));
        } else if before.stat.mzxid != znode.stat.mzxid {
            changes.push(Change::Written { before, now: znode });
        }
    }

    /// Removes a znode and everything below it. A znode that is not in the cache has no descendants
    /// there either.
    fn remove(&mut self, path: &str, changes: &mut Vec<Change>) {
        let below = self.znodes.range(path::join(path, "")..).map(|(at, _)| at);
        let inside = path::join(path, "");
        let mut gone: Vec<String> =
            below.take_while(|at| at.starts_with(&inside)).cloned().collect();
        gone.reverse();
        gone.push(path.to_owned());
        for path in gone {
            if let Some(Kept { znode, .. }) = self.znodes.remove(&path) {
                self.bytes -= size(&znode);
                changes.push(Change::Deleted(znode));
            }
        }
    }

    /// Ends a walk when no read is left: znodes that this walk has not seen are read once more.
    /// After that the cache is current.
    fn settle(&mut self, changes: &mut Vec<Change>) {
        if self.is_current || !self.is_heard || self.reading > 0 || !self.queue.is_empty() {
            return;
        }
        let unseen = self.znodes.iter().filter(|(_, kept)| kept.walk != self.walk);
        let unseen: Vec<String> = unseen.map(|(path, _)| path.clone()).collect();
        if unseen.is_empty() {
            self.is_current = true;
            changes.push(Change::Current);
        }
        for path in unseen {
            self.want(path, false);
        }
    }

    fn check(&self) -> Result<(), TooLarge> {
        let is_too_large = self.znodes.len() > self.limits.nodes_max
            || self.wanted.len() > self.limits.nodes_max
            || self.bytes > self.limits.bytes_max;
        if is_too_large { Err(TooLarge) } else { Ok(()) }
    }
}

/// The first path after a znode and all its descendants in the order of paths.
fn behind(path: &str) -> String {
    // `0` is the character after the slash.
    format!("{path}0")
}

fn size(znode: &Znode) -> usize {
    // The path is stored twice: as the key and in the znode.
    2 * znode.path.len() + znode.data.len() + size_of::<Stat>()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zebu_client::Zxid;

    use super::*;

    const LIMITS: Limits = Limits { nodes_max: 100, bytes_max: 10_000 };

    /// A small tree of znodes in place of a server: path, czxid, mzxid.
    type Server<'a> = &'a [(&'a str, i64, i64)];

    fn answer(server: Server<'_>, read: &Read) -> Found {
        let Some((_, created, written)) = server.iter().find(|(path, ..)| *path == read.path)
        else {
            return Found::Gone;
        };
        let stat = Stat {
            czxid: Zxid(*created),
            mzxid: Zxid(*written),
            ctime: 0,
            mtime: 0,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 0,
            data_length: 0,
            num_children: 0,
            pzxid: Zxid(0),
        };
        let prefix = path::join(&read.path, "");
        let children = server
            .iter()
            .filter_map(|(path, ..)| path.strip_prefix(&prefix))
            .filter(|name| !name.is_empty() && !name.contains('/') && read.lists)
            .map(str::to_owned)
            .collect();
        Found::There(Znode { path: read.path.clone(), data: Bytes::new(), stat }, children)
    }

    fn text(changes: &[Change]) -> String {
        let words: Vec<String> = changes
            .iter()
            .map(|change| match change {
                Change::Created(znode) => format!("+{}", znode.path),
                Change::Written { now, .. } => format!("={}", now.path),
                Change::Deleted(znode) => format!("-{}", znode.path),
                Change::Current => "current".to_owned(),
                Change::Suspended => "suspended".to_owned(),
                Change::Reset => "reset".to_owned(),
            })
            .collect();
        words.join(" ")
    }

    /// Reads until no read is wanted. Returns the changes.
    fn run(mirror: &mut Mirror, server: Server<'_>) -> String {
        let mut changes = Vec::new();
        while let Some(read) = mirror.next_read() {
            mirror.answer(&read, answer(server, &read), &mut changes).unwrap();
        }
        text(&changes)
    }

    fn mirror(root: &str, depth: Depth) -> Mirror {
        let mut mirror = Mirror::new(root, depth, LIMITS);
        mirror.restart();
        mirror
    }

    const TREE: Server<'static> = &[
        ("/", 0, 0),
        ("/a", 1, 1),
        ("/a/b", 2, 2),
        ("/a/b/c", 3, 3),
        ("/a/b.d", 4, 4),
        ("/a/b0", 5, 5),
        ("/ab", 6, 6),
    ];

    #[test]
    fn a_cache_looks_as_far_as_it_should() {
        for (root, depth, expected) in [
            ("/a", Depth::Node, "+/a current"),
            ("/a", Depth::Children, "+/a +/a/b +/a/b.d +/a/b0 current"),
            ("/a", Depth::Tree, "+/a +/a/b +/a/b.d +/a/b0 +/a/b/c current"),
            ("/", Depth::Children, "+/ +/a +/ab current"),
            ("/none", Depth::Tree, "current"),
        ] {
            assert_eq!(run(&mut mirror(root, depth), TREE), expected);
        }
    }

    #[test]
    fn events_are_read_in_their_scope() {
        for (depth, expected) in [
            (Depth::Node, "=/a"),
            (Depth::Children, "=/a =/a/b"),
            (Depth::Tree, "=/a =/a/b =/a/b/c"),
        ] {
            let mut mirror = mirror("/a", depth);
            run(&mut mirror, TREE);
            for path in ["/a", "/a/b", "/a/b/c", "/ab", "/"] {
                mirror.touch(path).unwrap();
                mirror.touch(path).unwrap();
            }
            let now: Vec<_> = TREE.iter().map(|&(path, created, _)| (path, created, 9)).collect();
            assert_eq!(run(&mut mirror, &now), expected);
        }
    }

    /// A znode that is deleted and created again between two reads is reported as two changes.
    #[test]
    fn another_znode_of_the_same_path_is_another_znode() {
        let mut mirror = mirror("/a", Depth::Tree);
        run(&mut mirror, &[("/a", 1, 1)]);
        mirror.touch("/a").unwrap();
        assert_eq!(run(&mut mirror, &[("/a", 7, 7)]), "-/a +/a");
    }

    /// A znode that was deleted while no events arrived is found missing, and reported before the
    /// walk ends.
    #[test]
    fn what_was_missed_is_made_up_for() {
        let mut mirror = mirror("/a", Depth::Tree);
        run(&mut mirror, TREE);
        mirror.suspend();
        assert!(!mirror.is_current());
        mirror.restart();
        let now: Server<'_> = &[("/a", 1, 1), ("/a/b", 2, 8), ("/a/new", 9, 9)];
        let expected = "=/a/b +/a/new -/a/b.d -/a/b/c -/a/b0 current";
        assert_eq!(run(&mut mirror, now), expected);
        assert!(mirror.is_current());
        assert_eq!(mirror.len(), 3);
    }

    /// An event for a path that is being read causes another read: the answer may be older than the
    /// event.
    #[test]
    fn an_event_beside_a_read_is_read_again() {
        let mut mirror = mirror("/a", Depth::Node);
        run(&mut mirror, TREE);
        mirror.touch("/a").unwrap();
        let read = mirror.next_read().unwrap();
        mirror.touch("/a").unwrap();
        let mut changes = Vec::new();
        mirror.answer(&read, answer(&[("/a", 1, 5)], &read), &mut changes).unwrap();
        assert_eq!(text(&changes), "=/a");
        assert_eq!(run(&mut mirror, &[]), "-/a");
    }

    /// Answers from before the connection was lost do not make the cache current.
    #[test]
    fn nothing_is_current_while_nothing_is_heard() {
        let mut mirror = mirror("/a", Depth::Node);
        let read = mirror.next_read().unwrap();
        mirror.suspend();
        let mut changes = Vec::new();
        mirror.answer(&read, answer(TREE, &read), &mut changes).unwrap();
        assert_eq!(text(&changes), "+/a");
        assert!(!mirror.is_current());
    }

    #[test]
    fn with_a_znode_everything_below_it_is_gone() {
        let mut mirror = mirror("/a", Depth::Tree);
        run(&mut mirror, TREE);
        mirror.touch("/a/b").unwrap();
        assert_eq!(run(&mut mirror, &[("/a", 1, 1)]), "-/a/b/c -/a/b");
        assert_eq!(mirror.len(), 3);
    }

    #[test]
    fn children_are_found_among_names_that_begin_alike() {
        let mut mirror = mirror("/", Depth::Tree);
        run(&mut mirror, TREE);
        let names = |parent: &str| -> Vec<String> {
            mirror.children(parent).iter().map(|znode| znode.path.clone()).collect()
        };
        assert_eq!(names("/"), ["/a", "/ab"]);
        assert_eq!(names("/a"), ["/a/b", "/a/b.d", "/a/b0"]);
        assert_eq!(names("/a/b"), ["/a/b/c"]);
        assert_eq!(names("/a/b/c"), [""; 0]);
    }

    #[test]
    fn a_cache_keeps_no_more_than_it_may() {
        for limits in [Limits { nodes_max: 3, ..LIMITS }, Limits { bytes_max: 300, ..LIMITS }] {
            let mut mirror = Mirror::new("/", Depth::Tree, limits);
            mirror.restart();
            let mut found = Ok(());
            while let Some(read) = mirror.next_read() {
                found = mirror.answer(&read, answer(TREE, &read), &mut Vec::new());
                if found.is_err() {
                    break;
                }
            }
            assert_eq!(found, Err(TooLarge));
        }
        // Deleted znodes do not count towards the limit.
        let mut mirror = Mirror::new("/a", Depth::Tree, Limits { bytes_max: 1200, ..LIMITS });
        mirror.restart();
        for _ in 0..20 {
            run(&mut mirror, TREE);
            mirror.touch("/a").unwrap();
            run(&mut mirror, &[]);
            mirror.restart();
        }
        assert_eq!(mirror.bytes, 0);
    }
}
