//! The watchers of a handle. Each is a function and a context, and is called once for an event,
//! even if it was added several times.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use zebu_session::{WatchKind, WatcherId};

use crate::handle::Handle;

/// `watcher_fn`.
pub(crate) type WatcherFn =
    unsafe extern "C" fn(*const Handle, c_int, c_int, *const c_char, *mut c_void);

/// A function of the program that receives events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    pub(crate) call: WatcherFn,
    pub(crate) context: *mut c_void,
}

// SAFETY: this library never reads behind the context. The C client's contract lets it use the
// context on another thread.
unsafe impl Send for Watcher {}

impl Watcher {
    /// Two watchers are equal if function and context are equal.
    pub(crate) fn key(&self) -> (usize, usize) {
        (self.call as usize, self.context as usize)
    }
}

/// A watcher and its watch.
#[derive(Clone, Debug)]
pub(crate) struct Watching {
    pub(crate) watcher: Watcher,
    pub(crate) kind: WatchKind,
    pub(crate) path: Arc<str>,
}

/// The watchers of all watches that are set.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    all: HashMap<WatcherId, Watching>,
    /// By path. Invariant: contains the same watchers as the first map. Checked by
    /// `the_same_watcher_waits_once`.
    places: HashMap<Arc<str>, Vec<WatcherId>>,
}

impl Watchers {
    /// Adds a watcher. Returns whether it is new: the same watcher is added only once for the same
    /// watch.
    pub(crate) fn add(&mut self, id: WatcherId, watching: Watching) -> bool {
        let place = self.places.entry(watching.path.clone()).or_default();
        let is_there = place.iter().filter_map(|id| self.all.get(id)).any(|other| {
            other.kind == watching.kind && other.watcher.key() == watching.watcher.key()
        });
        if !is_there {
            place.push(id);
            self.all.insert(id, watching);
        }
        !is_there
    }

    pub(crate) fn get(&self, id: WatcherId) -> Option<&Watching> {
        self.all.get(&id)
    }

    pub(crate) fn remove(&mut self, id: WatcherId) {
        let Some(Watching { path, .. }) = self.all.remove(&id) else { return };
        if let Some(place) = self.places.get_mut(&path) {
            place.retain(|other| *other != id);
            if place.is_empty() {
                self.places.remove(&path);
            }
        }
    }

    /// The watchers at a path with one of these kinds: all of them, or only `watcher`.
    pub(crate) fn at(
        &self,
        path: &str,
        kinds: &[WatchKind],
        watcher: Option<Watcher>,
    ) -> Vec<WatcherId> {
        let place = self.places.get(path).map_or(&[][..], Vec::as_slice);
        let meant = |id: &&WatcherId| {
            self.all.get(id).is_some_and(|watching| {
                kinds.contains(&watching.kind)
                    && watcher.is_none_or(|watcher| watcher.key() == watching.watcher.key())
            })
        };
        place.iter().filter(meant).copied().collect()
    }

    /// All watchers, each once.
    pub(crate) fn everybody(&self) -> Vec<Watcher> {
        let mut all: Vec<_> =
            self.all.iter().map(|(id, watching)| (*id, watching.watcher)).collect();
        all.sort_unstable_by_key(|(id, watcher)| (watcher.key(), *id));
        all.dedup_by_key(|(_, watcher)| watcher.key());
        // Watchers are called in the order in which they were added.
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, watcher)| watcher).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn nothing(
        _: *const Handle,
        _: c_int,
        _: c_int,
        _: *const c_char,
        _: *mut c_void,
    ) {
    }

    fn watching(context: usize, kind: WatchKind, path: &str) -> Watching {
        let context = std::ptr::without_provenance_mut(context);
        Watching { watcher: Watcher { call: nothing, context }, kind, path: path.into() }
    }

    #[test]
    fn the_same_watcher_waits_once() {
        let mut watchers = Watchers::default();
        let data = WatchKind::Data;
        assert!(watchers.add(WatcherId(1), watching(1, data, "/a")));
        assert!(!watchers.add(WatcherId(2), watching(1, data, "/a")));
        assert!(watchers.add(WatcherId(3), watching(2, data, "/a")));
        assert!(watchers.add(WatcherId(4), watching(1, WatchKind::Child, "/a")));
        assert!(watchers.add(WatcherId(5), watching(1, data, "/b")));
        assert_eq!(watchers.everybody().len(), 2);
        let one = watching(1, data, "").watcher;
        assert_eq!(watchers.at("/a", &[data, WatchKind::Child], None).len(), 3);
        assert_eq!(watchers.at("/a", &[data], Some(one)), [WatcherId(1)]);
        watchers.remove(WatcherId(1));
        assert_eq!(watchers.at("/a", &[data], Some(one)), []);
        for id in 3..6 {
            watchers.remove(WatcherId(id));
        }
        assert!(watchers.all.is_empty() && watchers.places.is_empty());
    }
}
