//! The promises to a program with a session: watches survive reconnections, and fire before any
//! answer that shows their cause (WAT-14, WAT-19); there are no invented events, and reads never go
//! back in time (ORD).

use std::collections::BTreeMap;

use bytes::Bytes;
use zebu_proto::{EventType, Zxid};
use zebu_session::WatcherId;

use crate::checks::reference::Reference;
use crate::checks::watches::{Kind, concerns};

/// A watch of a program.
pub(crate) struct Held {
    path: String,
    kind: Kind,
    /// The zxid of the answer that left the watch.
    since: Zxid,
    /// The connection over which the program has received all events so far.
    conn: Option<u64>,
    /// The index of the first event that the program has not received. Only for persistent watches.
    cursor: Option<usize>,
}

impl Held {
    pub(crate) fn new(path: String, kind: Kind, since: Zxid, conn: Option<u64>) -> Self {
        Self { path, kind, since, conn, cursor: None }
    }

    fn stays(&self) -> bool {
        matches!(self.kind, Kind::Persistent | Kind::Recursive)
    }

    fn next(&self, reference: &Reference) -> usize {
        self.cursor.unwrap_or_else(|| reference.events_after(self.since))
    }

    /// An event that the program should have received before an answer at `zxid`.
    fn missed(&mut self, reference: &Reference, conn: Option<u64>, zxid: Zxid) -> Option<String> {
        let view = reference.at(&self.path, zxid);
        let changed = match (self.kind, view) {
            (Kind::Exist, view) => view.is_some(),
            (Kind::Data, view) => view.is_none_or(|view| view.stat.mzxid > self.since),
            (Kind::Child, view) => view.is_none_or(|view| view.stat.pzxid > self.since),
            (Kind::Persistent | Kind::Recursive, _) => {
                let end = reference.events_after(zxid);
                let next = self.next(reference);
                self.cursor = Some(next.max(end));
                // Events during a disconnection are not delivered.
                let here = std::mem::replace(&mut self.conn, conn) == conn;
                let due = reference.events[next.min(end)..end]
                    .iter()
                    .find(|event| concerns(self.kind, &self.path, event.kind, &event.path));
                return due.filter(|_| here).map(|event| format!("{event:?}"));
            }
        };
        changed.then(|| format!("{view:?}"))
    }
}

/// All guarantees that a program relies on.
#[derive(Default)]
pub(crate) struct Promises {
    seen: Zxid,
    held: BTreeMap<WatcherId, Held>,
    /// The program may have seen uncommitted data, so nothing is certain about its watches.
    in_doubt: bool,
}

/// An event as the program receives it.
pub(crate) struct Told<'p> {
    pub(crate) watcher: WatcherId,
    pub(crate) kind: EventType,
    pub(crate) path: &'p Bytes,
    pub(crate) zxid: Option<Zxid>,
    pub(crate) last: bool,
}

impl Promises {
    /// The newest zxid that the program knows.
    pub(crate) fn seen(&self) -> Zxid {
        self.seen
    }

    /// A server without a leader has shown data to the program that may never be committed.
    pub(crate) fn doubt(&mut self) {
        self.in_doubt = true;
    }

    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn hold(&mut self, watcher: WatcherId, held: Held) {
        self.held.insert(watcher, held);
    }

    /// An answer arrived.
    pub(crate) fn answered(
        &mut self,
        reference: &Reference,
        conn: Option<u64>,
        zxid: Zxid,
    ) -> Result<(), String> {
        if zxid < self.seen {
            return Err(format!("ORD: an answer at {zxid}, {} was seen before", self.seen));
        }
        self.seen = zxid;
        for held in self.held.values_mut() {
            if let Some(what) = held.missed(reference, conn, zxid).filter(|_| !self.in_doubt) {
                return Err(format!(
                    "WAT-14: an answer at {zxid} comes before the {:?} watch on {}, left at {}, is \
                     told of {what}",
                    held.kind, held.path, held.since
                ));
            }
        }
        Ok(())
    }

    /// An event arrived.
    pub(crate) fn told(
        &mut self,
        reference: &Reference,
        conn: Option<u64>,
        told: &Told<'_>,
    ) -> Result<(), String> {
        let Told { watcher, kind, path, zxid, last } = *told;
        let path = std::str::from_utf8(path).map_err(|error| error.to_string())?;
        let Some(held) = self.held.get_mut(&watcher) else {
            return Err(format!("WAT-01: nobody waits for {kind:?} of {path}"));
        };
        if !concerns(held.kind, &held.path, kind, path) || last == held.stays() {
            let (watch, at) = (held.kind, &held.path);
            return Err(format!("WAT-01: a {watch:?} watch on {at} is told {kind:?} of {path}"));
        }
        let from = held.next(reference);
        let mut events = reference.events[from..].iter();
        match zxid {
            Some(zxid) if zxid < self.seen => {
                return Err(format!("ORD: {kind:?} of {path} at {zxid} behind {}", self.seen));
            }
            zxid if self.in_doubt => self.seen = zxid.unwrap_or(self.seen),
            Some(zxid) => {
                let this = events
                    .position(|event| (event.zxid, event.kind, &*event.path) == (zxid, kind, path));
                let this = this.ok_or_else(|| {
                    format!("WAT-15: {kind:?} of {path} at {zxid}, which did not happen or is over")
                })?;
                let skipped = reference.events[from..from + this]
                    .iter()
                    .find(|event| concerns(held.kind, &held.path, event.kind, &event.path));
                if let Some(skipped) = skipped.filter(|_| held.conn == conn) {
                    return Err(format!("WAT-15: {kind:?} of {path} is told before {skipped:?}"));
                }
                held.cursor = Some(from + this + 1);
                self.seen = zxid;
            }
            // An event that replaces those of a disconnection.
            None if held.conn == conn => {
                return Err(format!("WAT-19: {kind:?} of {path} without its transaction"));
            }
            None => {
                let concern = |at| concerns(held.kind, &held.path, at, path);
                if !events.any(|event| event.path == path && concern(event.kind)) {
                    return Err(format!("WAT-19: {kind:?} of {path} did not happen"));
                }
            }
        }
        if last {
            self.held.remove(&watcher);
        }
        Ok(())
    }
}
