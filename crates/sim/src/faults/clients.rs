//! Faults of clients and of their connections.

use std::time::Duration;

use crate::world::{Happening, World};

impl World {
    /// Breaks a client's connection. Its two ends notice that at different times.
    pub(super) fn break_client(&mut self, client: usize) -> Option<()> {
        let id = self.party_connection(client)?;
        for side in 0..2 {
            let after = self.random.ms(0, 500);
            self.after(after, Happening::Reset { connection: id, side });
        }
        Some(())
    }

    /// A client is silent for a while.
    pub(super) fn silence_client(&mut self, client: usize, time: Duration) {
        self.party_falls_silent(client);
        self.after(time, Happening::ClientSpeaks { client });
    }

    /// Loses the answers to a client for a while; its requests too, if `both`.
    pub(super) fn cut_client(&mut self, client: usize, both: bool, time: Duration) -> Option<()> {
        let place = self.plan.servers() + client;
        let mut pairs = Vec::new();
        for server in 0..self.servers.len() {
            pairs.push((server, place));
            if both {
                pairs.push((place, server));
            }
        }
        self.cut(pairs, time)
    }

    /// Holds back a client's requests for a while.
    pub(super) fn hold_client(&mut self, client: usize, time: Duration) -> Option<()> {
        let place = self.plan.servers() + client;
        let pairs = (0..self.servers.len()).map(|server| (place, server)).collect();
        self.cut(pairs, time)
    }

    /// A client leaves its connection without closing it.
    pub(super) fn abandon_connection(&mut self, client: usize) -> Option<()> {
        let id = self.party_connection(client)?;
        let place = self.plan.servers() + client;
        let connection = self.net.connections.get_mut(&id)?;
        connection.mute = true;
        let side = connection.line.side(place);
        self.after(Duration::ZERO, Happening::Reset { connection: id, side });
        Some(())
    }
}
