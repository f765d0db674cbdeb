//! All client connections, in reusable slots.
//!
//! A [`ConnId`] combines the slot with a generation, so it is never used twice. The slot alone is
//! small enough to identify the connection in the watch table.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use zebu_replica::ConnId;
use zebu_tree::WatcherId;

use crate::conn::{Conn, Side};
use crate::sync::{RwLock, RwLockReadGuard};

/// Limits on the number of connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnLimits {
    /// Per client address.
    pub per_address: Option<u32>,
    /// In total.
    pub total: Option<u32>,
}

/// All connections, by id.
#[derive(Debug)]
pub struct Conns<S>(RwLock<Table<S>>);

#[derive(Debug)]
struct Table<S> {
    slots: Vec<Slot<S>>,
    /// Slots that have no connection and no watches of an earlier one.
    free: Vec<u32>,
    per_address: BTreeMap<IpAddr, u32>,
    count: usize,
}

impl<S> Table<S> {
    /// Asserts that the counts agree; in debug builds by visiting every slot.
    fn check(&self) {
        assert!(self.count + self.free.len() <= self.slots.len(), "a slot is free and taken");
        assert!(self.per_address.len() <= self.count, "an address without a connection");
        if cfg!(debug_assertions) && self.slots.len() <= CHECKED_MAX {
            let taken = self.slots.iter().filter(|slot| slot.conn.is_some()).count();
            assert_eq!(taken, self.count, "how many connections there are");
            let by_address: usize = self.per_address.values().map(|count| *count as usize).sum();
            assert_eq!(by_address, self.count, "how many connections the addresses have");
        }
    }
}

/// Above this many slots, the check does not visit every slot.
const CHECKED_MAX: usize = 256;

#[derive(Debug)]
struct Slot<S> {
    generation: u32,
    conn: Option<Arc<Conn<S>>>,
}

/// A read-locked view of the current connections.
pub struct ConnsView<'c, S>(RwLockReadGuard<'c, Table<S>>);

impl<S: Side> ConnsView<'_, S> {
    /// Whether a connection with this id exists.
    pub fn has(&self, id: ConnId) -> bool {
        let slot = self.0.slots.get(watcher(id).0 as usize);
        slot.and_then(|slot| slot.conn.as_ref()).is_some_and(|conn| conn.id == id)
    }
}

/// The id of a connection in the watch table: its slot.
pub fn watcher(id: ConnId) -> WatcherId {
    WatcherId(id.0 as u32)
}

fn id(slot: u32, generation: u32) -> ConnId {
    ConnId(u64::from(generation) << 32 | u64::from(slot))
}

impl<S> Default for Conns<S> {
    fn default() -> Self {
        Self(RwLock::new(Table {
            slots: Vec::new(),
            free: Vec::new(),
            per_address: BTreeMap::new(),
            count: 0,
        }))
    }
}

impl<S: Side> Conns<S> {
    /// Adds a connection that `make` builds from its id. `None` if a limit is reached.
    pub fn enter(
        &self,
        address: IpAddr,
        limits: ConnLimits,
        make: impl FnOnce(ConnId) -> Conn<S>,
    ) -> Option<Arc<Conn<S>>> {
        let mut table = self.0.write();
        let table = &mut *table;
        let next = table.free.pop().or_else(|| {
            let slot = u32::try_from(table.slots.len()).ok().filter(|id| *id < WatcherId::MAX)?;
            table.slots.push(Slot { generation: 0, conn: None });
            Some(slot)
        })?;
        let count = table.per_address.get(&address).copied().unwrap_or(0);
        if limits.total.is_some_and(|most| table.count >= most as usize)
            || limits.per_address.is_some_and(|most| count >= most)
        {
            table.free.push(next);
            return None;
        }
        let slot = &mut table.slots[next as usize];
        assert!(slot.conn.is_none(), "a slot is of two connections");
        slot.generation = slot.generation.wrapping_add(1);
        let conn = Arc::new(make(id(next, slot.generation)));
        slot.conn = Some(conn.clone());
        table.per_address.insert(address, count + 1);
        table.count += 1;
        table.check();
        Some(conn)
    }

    /// The connection with this id, if it still exists.
    pub fn get(&self, id: ConnId) -> Option<Arc<Conn<S>>> {
        let conn = self.by_watcher(watcher(id))?;
        (conn.id == id).then_some(conn)
    }

    /// The connection that `watcher` identifies in the watch table, if it still exists.
    pub fn by_watcher(&self, watcher: WatcherId) -> Option<Arc<Conn<S>>> {
        self.0.read().slots.get(watcher.0 as usize)?.conn.clone()
    }

    /// An upper bound (exclusive) of the watcher ids in use.
    pub fn slots(&self) -> u32 {
        self.0.read().slots.len() as u32
    }

    /// Locks the table for several look-ups. Lock nothing else while holding the view.
    pub fn view(&self) -> ConnsView<'_, S> {
        ConnsView(self.0.read())
    }

    /// The number of connections.
    pub fn count(&self) -> usize {
        self.0.read().count
    }

    /// All connections.
    pub fn all(&self) -> Vec<Arc<Conn<S>>> {
        let mut all = Vec::new();
        self.each(|conn| all.push(conn.clone()));
        all
    }

    /// Calls `look` with each connection.
    pub fn each(&self, mut look: impl FnMut(&Arc<Conn<S>>)) {
        self.0.read().slots.iter().filter_map(|slot| slot.conn.as_ref()).for_each(&mut look);
    }

    /// Removes a connection. Its slot stays taken until [`Conns::free`].
    pub fn leave(&self, conn: &Conn<S>) {
        let mut table = self.0.write();
        let table = &mut *table;
        let Some(slot) = table.slots.get_mut(watcher(conn.id).0 as usize) else { return };
        if slot.conn.take_if(|there| there.id == conn.id).is_none() {
            return;
        }
        assert!(table.count > 0, "a connection leaves where none is");
        table.count -= 1;
        let address = conn.address;
        if let Some(count) = table.per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                table.per_address.remove(&address);
            }
        }
        table.check();
    }

    /// Frees the slot of a removed connection, once its watches are removed too.
    pub fn free(&self, conn: &Conn<S>) {
        let mut table = self.0.write();
        let number = watcher(conn.id).0;
        let slot = table.slots.get(number as usize);
        assert!(slot.is_some_and(|slot| slot.conn.is_none()), "the slot {number} is taken");
        debug_assert!(!table.free.contains(&number), "the slot {number} is free already");
        table.free.push(number);
        table.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Outbox;

    #[derive(Debug)]
    struct Nobody;

    impl Side for Nobody {
        fn wake(&self) {}
    }

    fn enter(
        conns: &Conns<Nobody>,
        address: [u8; 4],
        limits: ConnLimits,
    ) -> Option<Arc<Conn<Nobody>>> {
        conns.enter(address.into(), limits, |id| {
            Conn::new(id, address.into(), [].into(), Outbox::new(0), Nobody)
        })
    }

    #[test]
    fn a_slot_is_used_again_under_another_number() {
        let conns = Conns::default();
        let first = enter(&conns, [1, 1, 1, 1], ConnLimits::default()).unwrap();
        conns.leave(&first);
        assert!(conns.get(first.id).is_none());
        let second = enter(&conns, [1, 1, 1, 1], ConnLimits::default()).unwrap();
        assert_ne!(watcher(first.id), watcher(second.id), "watches may be left");
        conns.free(&first);
        let third = enter(&conns, [1, 1, 1, 1], ConnLimits::default()).unwrap();
        assert_eq!(watcher(first.id), watcher(third.id));
        assert_ne!(first.id, third.id);
        assert!(conns.get(first.id).is_none());
        assert!(Arc::ptr_eq(&conns.get(third.id).unwrap(), &third));
        conns.leave(&first);
        assert_eq!(conns.count(), 2, "who has left cannot leave again");
    }

    #[test]
    fn limits_hold_by_address_and_in_all() {
        let conns = Conns::default();
        let limits = ConnLimits { per_address: Some(2), total: Some(3) };
        let first = enter(&conns, [1, 1, 1, 1], limits).unwrap();
        enter(&conns, [1, 1, 1, 1], limits).unwrap();
        assert!(enter(&conns, [1, 1, 1, 1], limits).is_none());
        enter(&conns, [2, 2, 2, 2], limits).unwrap();
        assert!(enter(&conns, [3, 3, 3, 3], limits).is_none());
        conns.leave(&first);
        conns.free(&first);
        enter(&conns, [1, 1, 1, 1], limits).unwrap();
        assert_eq!(conns.all().len(), 3);
    }
}
