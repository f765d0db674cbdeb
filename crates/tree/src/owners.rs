//! Who owns what: sessions, their ephemerals, containers and znodes with a time to live.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::{Owner, SessionId};

/// The registries. Znodes are named by their ids.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// Timeouts, in milliseconds.
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    pub(crate) ephemerals: BTreeMap<SessionId, BTreeSet<u32>>,
    pub(crate) ephemerals_count: usize,
    pub(crate) containers: BTreeSet<u32>,
    pub(crate) ttls: BTreeSet<u32>,
}

impl Owners {
    pub(crate) fn add(&mut self, id: u32, owner: Owner) {
        match owner {
            Owner::Persistent => {}
            Owner::Session(session) => {
                if self.ephemerals.entry(session).or_default().insert(id) {
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

    pub(crate) fn remove(&mut self, id: u32, owner: Owner) {
        match owner {
            Owner::Persistent => {}
            Owner::Session(session) => {
                let Some(owned) = self.ephemerals.get_mut(&session) else { return };
                if owned.remove(&id) {
                    self.ephemerals_count -= 1;
                }
                if owned.is_empty() {
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
