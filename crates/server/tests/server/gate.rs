//! An authentication scheme whose checks can block the replica. Requests that arrive meanwhile
//! wait.

use std::sync::{Arc, Condvar, Mutex};

use zebu_proto::Id;
use zebu_replica::auth::{AuthProvider, Claim, Verdict};
use zebu_testkit::wire::{op, set_data};

use crate::client::Client;
use crate::running::{Running, wait};

/// Whether the replica may continue.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    closed: bool,
    waiting: usize,
}

impl AuthProvider for Gate {
    fn scheme(&self) -> &str {
        "gate"
    }

    fn authenticate(&self, _: &Claim<'_>) -> Verdict {
        Ok(vec![Id::new("gate", "keeper")])
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, _: &str) -> bool {
        true
    }

    fn matches(&self, _: &str, _: &str) -> bool {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.waiting += 1;
        while state.closed {
            state = changed.wait(state).unwrap();
        }
        state.waiting -= 1;
        true
    }
}

impl Gate {
    /// A server with a gate, and the client that can close it.
    pub fn server(settings: &[&str]) -> (Running, Keeper) {
        let gate = Self::default();
        let running = Running::with(settings, vec![Box::new(gate.clone())]);
        let mut client = running.client();
        client.auth("gate", "").unwrap();
        client.create_with("/gate", b"", &[(31, "gate", "keeper")], 0).unwrap();
        (running, Keeper { gate, client })
    }
}

/// Closes and opens a gate.
pub struct Keeper {
    gate: Gate,
    client: Client,
}

impl Keeper {
    /// Blocks the replica in the middle of a write.
    pub fn close(&mut self) {
        self.gate.0.0.lock().unwrap().closed = true;
        self.client.post(op::SET_DATA, &set_data("/gate", b""));
        wait("the replica is held up", || self.gate.0.0.lock().unwrap().waiting > 0);
    }

    /// Lets it continue.
    pub fn open(&mut self) {
        self.gate.0.0.lock().unwrap().closed = false;
        self.gate.0.1.notify_all();
        assert_eq!(self.client.reply().unwrap().err, 0);
    }
}
