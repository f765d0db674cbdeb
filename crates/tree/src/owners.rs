//! Ownership: sessions, ephemerals, containers and TTL znodes.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::{Owner, SessionId};

/// Registries of znode ids.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// Timeouts, in milliseconds.
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    pub(crate) ephemerals: BTreeMap<SessionId, Ephemerals>,
    pub(crate) ephemerals_count: usize,
    pub(crate) containers: BTreeSet<u32>,
    pub(crate) ttls: BTreeSet<u32>,
}

/// The ephemerals of one session.
#[derive(Debug, Default)]
pub(crate) struct Ephemerals {
    pub(crate) ids: BTreeSet<u32>,
    /// Total length of their paths in bytes.
    pub(crate) path_bytes: usize,
}

impl Owners {
    /// Adds a znode. `path_bytes`: the length of its path.
    pub(crate) fn add(&mut self, id: u32, owner: Owner, path_bytes: usize) {
        match owner {
            Owner::Persistent => {}
            Owner::Session(session) => {
                let owned = self.ephemerals.entry(session).or_default();
                debug_assert!(!owned.ids.contains(&id), "{id} is {session}'s already");
                if owned.ids.insert(id) {
                    owned.path_bytes += path_bytes;
                    self.ephemerals_count += 1;
                }
            }
            Owner::Container => {
                self.containers.insert(id);
            }
            Owner::Ttl(_) => {
                self.ttls.insert(id);
            }
        }
    }

    /// Removes a znode that was added with the same arguments.
    pub(crate) fn remove(&mut self, id: u32, owner: Owner, path_bytes: usize) {
        match owner {
            Owner::Persistent => {}
            Owner::Session(session) => {
                let Some(owned) = self.ephemerals.get_mut(&session) else { return };
                if owned.ids.remove(&id) {
                    owned.path_bytes -= path_bytes;
                    self.ephemerals_count -= 1;
                }
                if owned.ids.is_empty() {
                    self.ephemerals.remove(&session);
                }
            }
            Owner::Container => {
                self.containers.remove(&id);
            }
            Owner::Ttl(_) => {
                self.ttls.remove(&id);
            }
        }
    }
}
