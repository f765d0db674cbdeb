//! Watches: a notification comes before any answer that shows its cause (WAT-14), none is lost
//! while its connection lives, and none comes without a watch. Watches that are restored after a
//! reconnection report the changes that were missed (WAT-19).
//!
//! Stores the expectations of one client's connection, from its answers and the committed events.

use std::collections::{BTreeSet, VecDeque};

use zebu_proto::{EventType, Zxid};

use crate::checks::reference::{Event, Reference};

/// The kinds of watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// On a znode's data. One event removes it.
    Data,
    /// On a znode that does not exist. One event removes it.
    Exist,
    /// On the names of children. One event removes it.
    Child,
    Persistent,
    Recursive,
}

/// A watch.
pub(crate) type Watch = (String, Kind);

/// A notification that must arrive.
struct Expected {
    event: Event,
    /// The watches that the notification removes.
    spends: Vec<Watch>,
}

/// The watches of one client.
#[derive(Default)]
pub(crate) struct Watches {
    active: BTreeSet<Watch>,
    /// Watches of the last connection, to be set again.
    lost: BTreeSet<Watch>,
    /// Notifications that arrived while the client sets its watches again.
    missed: Vec<(EventType, String)>,
    /// The index of the last committed event that was handled.
    cursor: usize,
    expected: VecDeque<Expected>,
    /// The number of notifications.
    pub(crate) notified: u64,
}

/// Whether an event at `at` concerns a watch on `path`.
pub(crate) fn concerns(kind: Kind, path: &str, event: EventType, at: &str) -> bool {
    let here = path == at;
    let children = event == EventType::NODE_CHILDREN_CHANGED;
    match kind {
        Kind::Data | Kind::Exist => here && !children,
        Kind::Child => here && (children || event == EventType::NODE_DELETED),
        Kind::Persistent => here,
        Kind::Recursive => {
            let below =
                path == "/" || at.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
            !children && (here || below)
        }
    }
}

fn matches((path, kind): &Watch, event: &Event) -> bool {
    concerns(*kind, path, event.kind, &event.path)
}

impl Watches {
    /// Handles every event up to `zxid`, which the server has shown.
    fn advance(&mut self, reference: &Reference, zxid: Zxid) {
        while let Some(event) = reference.events.get(self.cursor)
            && event.zxid <= zxid
        {
            self.cursor += 1;
            let hit: Vec<Watch> =
                self.active.iter().filter(|watch| matches(watch, event)).cloned().collect();
            if hit.is_empty() {
                continue;
            }
            let once = |(_, kind): &Watch| !matches!(kind, Kind::Persistent | Kind::Recursive);
            let spends: Vec<Watch> = hit.into_iter().filter(once).collect();
            for watch in &spends {
                self.active.remove(watch);
            }
            self.expected.push_back(Expected { event: event.clone(), spends });
        }
    }

    /// An answer arrived that shows everything up to `zxid`.
    pub(crate) fn answered(&mut self, reference: &Reference, zxid: Zxid) -> Result<(), String> {
        self.advance(reference, zxid);
        match self.expected.front() {
            None => Ok(()),
            Some(Expected { event, .. }) => Err(format!(
                "WAT-14: an answer at {zxid} comes without the notification of {event:?}"
            )),
        }
    }

    /// A notification arrived.
    pub(crate) fn notified(
        &mut self,
        reference: &Reference,
        zxid: Zxid,
        kind: EventType,
        path: &str,
    ) -> Result<(), String> {
        self.notified += 1;
        if zxid == Zxid(-1) {
            self.missed.push((kind, path.to_owned()));
            let spent = |(at, watch): &Watch| {
                at == path
                    && match watch {
                        Kind::Data => {
                            matches!(kind, EventType::NODE_DATA_CHANGED | EventType::NODE_DELETED)
                        }
                        Kind::Exist => kind == EventType::NODE_CREATED,
                        Kind::Child => matches!(
                            kind,
                            EventType::NODE_CHILDREN_CHANGED | EventType::NODE_DELETED
                        ),
                        _ => false,
                    }
            };
            let before = self.lost.len();
            // Two watches on one znode receive two notifications of its deletion.
            if let Some(watch) = self.lost.iter().find(|watch| spent(watch)).cloned() {
                self.lost.remove(&watch);
            }
            return if self.lost.len() < before {
                Ok(())
            } else {
                Err(format!("WAT-19: nobody waits for {kind:?} of {path}"))
            };
        }
        self.advance(reference, zxid);
        let expected = self.expected.pop_front();
        let Some(Expected { event, .. }) = &expected else {
            return Err(format!("WAT-01: nobody waits for {kind:?} of {path} at {zxid}"));
        };
        if (event.zxid, event.kind, &*event.path) != (zxid, kind, path) {
            return Err(format!("WAT-15: {kind:?} of {path} at {zxid} comes instead of {event:?}"));
        }
        Ok(())
    }

    /// A read has left a watch.
    pub(crate) fn add(&mut self, reference: &Reference, path: &str, kind: Kind, zxid: Zxid) {
        if self.active.is_empty() {
            self.cursor = reference.events_after(zxid);
        }
        self.active.insert((path.to_owned(), kind));
    }

    /// The connection has ended, and with it all watches and all packets on the way.
    pub(crate) fn lose(&mut self) {
        self.lost.append(&mut self.active);
        for expected in std::mem::take(&mut self.expected) {
            self.lost.extend(expected.spends);
        }
        self.missed.clear();
    }

    /// The session has ended.
    pub(crate) fn clear(&mut self) {
        *self = Self { notified: self.notified, ..Self::default() };
    }

    /// The watches that the client must set again.
    pub(crate) fn lost(&self) -> &BTreeSet<Watch> {
        &self.lost
    }

    /// The server has set the watches again. Every missed event up to `zxid` must have been
    /// notified.
    pub(crate) fn set_again(
        &mut self,
        reference: &Reference,
        asked: &BTreeSet<Watch>,
        relative: Zxid,
        zxid: Zxid,
    ) -> Result<(), String> {
        let mut due = Vec::new();
        let mut kept = BTreeSet::new();
        for watch in asked {
            let (path, kind) = watch;
            let view = reference.at(path, zxid);
            let event = match (kind, view) {
                (Kind::Persistent | Kind::Recursive, _) | (Kind::Exist, None) => None,
                (Kind::Exist, Some(_)) => Some(EventType::NODE_CREATED),
                (Kind::Data | Kind::Child, None) => Some(EventType::NODE_DELETED),
                (Kind::Data, Some(view)) => {
                    (view.stat.mzxid > relative).then_some(EventType::NODE_DATA_CHANGED)
                }
                (Kind::Child, Some(view)) => {
                    (view.stat.pzxid > relative).then_some(EventType::NODE_CHILDREN_CHANGED)
                }
            };
            match event {
                Some(event) => due.push((event, path.clone())),
                None => drop(kept.insert(watch.clone())),
            }
        }
        let order = |(kind, path): &(EventType, String)| (path.clone(), kind.0);
        let mut told = std::mem::take(&mut self.missed);
        due.sort_by_key(order);
        told.sort_by_key(order);
        if due != told {
            return Err(format!(
                "WAT-19: {told:?} was told when watches were set again at {zxid}, not {due:?}"
            ));
        }
        self.lost.clear();
        self.cursor = reference.events_after(zxid);
        self.active.extend(kept);
        Ok(())
    }
}
