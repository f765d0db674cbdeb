//! Connections of servers that have not introduced themselves: a few from each address, so that one
//! address cannot keep the others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Maximum number of silent connections from one address: enough for a few servers there with one
/// or two each.
const SILENT_PER_ADDRESS: usize = 32;

/// The number of silent connections of each address.
#[derive(Clone, Debug, Default)]
pub(super) struct Strangers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A silent connection. It counts until this value is dropped.
#[derive(Debug)]
pub(super) struct Stranger {
    all: Strangers,
    address: IpAddr,
}

impl Strangers {
    /// Counts one more connection from an address; `None` if too many from there are silent.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Stranger> {
        // The same host, whether it is written as IPv4 or as IPv6.
        let address = address.to_canonical();
        let mut silent = self.0.lock();
        let count = silent.entry(address).or_default();
        if *count >= SILENT_PER_ADDRESS {
            return None;
        }
        *count += 1;
        drop(silent);
        Some(Stranger { all: self.clone(), address })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut silent = self.all.0.lock();
        if let Some(count) = silent.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                silent.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_room_again_when_its_connections_have_said_who_they_are() {
        let strangers = Strangers::default();
        let [one, same, other] =
            ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"].map(|it| it.parse::<IpAddr>().unwrap());
        let mut silent: Vec<Stranger> =
            (0..SILENT_PER_ADDRESS).map(|_| strangers.admit(one).unwrap()).collect();
        assert!(strangers.admit(one).is_none() && strangers.admit(same).is_none());
        assert!(strangers.admit(other).is_some());
        silent.pop();
        let again = strangers.admit(same).unwrap();
        assert!(strangers.admit(one).is_none());
        drop((again, silent));
        assert!(strangers.0.lock().is_empty());
    }
}
