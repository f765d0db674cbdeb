//! Which server is tried next.

use std::net::SocketAddr;

use crate::random::Random;

/// The servers of one session, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Servers {
    order: Vec<SocketAddr>,
    next: usize,
    /// The one tried last; never tried twice in a row when there is another.
    last: Option<SocketAddr>,
}

impl Servers {
    /// Begins a new round over these servers, in random order.
    ///
    /// Nothing changes but the order when `found` is empty: servers once known stay candidates while
    /// the names cannot be resolved.
    pub(crate) fn begin_round(&mut self, mut found: Vec<SocketAddr>, random: &mut Random) {
        if !found.is_empty() {
            found.sort_unstable();
            found.dedup();
            self.order = found;
        }
        self.next = 0;
        random.shuffle(&mut self.order);
        if self.order.len() > 1 && self.order.first().copied() == self.last {
            self.order.rotate_left(1);
        }
    }

    /// The next server of this round, or `None` at its end.
    pub(crate) fn next(&mut self) -> Option<SocketAddr> {
        let server = *self.order.get(self.next)?;
        self.next += 1;
        self.last = Some(server);
        Some(server)
    }

    /// The server after `server` in the order that is not `current`, if there is one.
    pub(crate) fn after(&self, server: SocketAddr, current: SocketAddr) -> Option<SocketAddr> {
        let at = self.order.iter().position(|other| *other == server)?;
        let others = self.order[at + 1..].iter().chain(&self.order[..=at]);
        others.copied().find(|other| *other != current)
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn round(servers: &mut Servers) -> Vec<u16> {
        std::iter::from_fn(|| servers.next()).map(|server| server.port()).collect()
    }

    #[test]
    fn a_round_tries_each_server_once() {
        let mut random = Random::new(1);
        let mut servers = Servers::default();
        servers.begin_round(vec![server(1), server(2), server(3), server(2)], &mut random);
        let mut tried = round(&mut servers);
        tried.sort_unstable();
        assert_eq!(tried, [1, 2, 3]);
    }

    #[test]
    fn the_order_is_random_and_no_server_is_tried_twice_in_a_row() {
        let mut firsts = [0; 3];
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut servers = Servers::default();
            servers.begin_round(vec![server(0), server(1), server(2)], &mut random);
            let first_round = round(&mut servers);
            firsts[usize::from(first_round[0])] += 1;
            servers.begin_round(Vec::new(), &mut random);
            assert_ne!(round(&mut servers)[0], first_round[2]);
        }
        assert!(firsts.iter().all(|count| *count > 60), "{firsts:?}");
    }
}
