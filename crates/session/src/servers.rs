//! Chooses the next server to try.

use std::net::SocketAddr;

use crate::random::Random;

/// A server to which the client may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidate {
    /// Its address.
    pub address: SocketAddr,
    /// Its distance: in each round, servers of lower rank are tried first.
    pub rank: u32,
}

/// With the lowest rank.
impl From<SocketAddr> for Candidate {
    fn from(address: SocketAddr) -> Self {
        Self { address, rank: 0 }
    }
}

/// A session's servers, in the order of attempts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Servers {
    order: Vec<Candidate>,
    next: usize,
    /// The server tried last. It is not tried twice in a row if another one has the same rank.
    last: Option<SocketAddr>,
}

impl Servers {
    /// Starts a new round: by rank, and in random order within a rank.
    ///
    /// If `found` is empty, only the order changes: known servers remain candidates while names
    /// cannot be resolved.
    pub(crate) fn begin_round(&mut self, mut found: Vec<Candidate>, random: &mut Random) {
        if !found.is_empty() {
            found.sort_unstable();
            found.dedup_by_key(|candidate| candidate.address);
            self.order = found;
        }
        self.next = 0;
        random.shuffle(&mut self.order);
        self.order.sort_by_key(|candidate| candidate.rank);
        let nearest = self.order.first().map(|candidate| (candidate.address, candidate.rank));
        if let Some((first, rank)) = nearest
            && Some(first) == self.last
        {
            let equals = self.order.partition_point(|candidate| candidate.rank == rank);
            self.order[..equals].rotate_left(1);
        }
        assert!(
            self.order.is_sorted_by_key(|candidate| candidate.rank),
            "a nearer one comes later"
        );
    }

    /// The next server of this round, or `None` at its end.
    pub(crate) fn next(&mut self) -> Option<SocketAddr> {
        let server = self.order.get(self.next)?.address;
        self.next += 1;
        assert!(self.next <= self.order.len(), "a round has ended twice");
        self.last = Some(server);
        Some(server)
    }

    /// The server after `server` in the order that is not `current`, if there is one.
    pub(crate) fn after(&self, server: SocketAddr, current: SocketAddr) -> Option<SocketAddr> {
        let at = self.order.iter().position(|other| other.address == server)?;
        let others = self.order[at + 1..].iter().chain(&self.order[..=at]);
        others.map(|other| other.address).find(|other| *other != current)
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(port: u16, rank: u32) -> Candidate {
        Candidate { address: ([127, 0, 0, 1], port).into(), rank }
    }

    fn server(port: u16) -> Candidate {
        ranked(port, 0)
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
    fn those_that_are_near_are_tried_first() {
        let mut firsts = [0; 2];
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut servers = Servers::default();
            let all = vec![ranked(9, 2), ranked(0, 1), ranked(1, 1), ranked(9, 3), ranked(8, 7)];
            servers.begin_round(all, &mut random);
            let order = round(&mut servers);
            firsts[usize::from(order[0])] += 1;
            assert_eq!(order[2..], [9, 8]);
        }
        assert!(firsts.iter().all(|count| *count > 20), "{firsts:?}");
    }

    #[test]
    fn the_only_one_that_is_near_is_tried_first_again() {
        let mut random = Random::new(1);
        let mut servers = Servers::default();
        servers.begin_round(vec![ranked(2, 1), ranked(1, 0)], &mut random);
        assert_eq!(servers.next().unwrap().port(), 1);
        servers.begin_round(Vec::new(), &mut random);
        assert_eq!(round(&mut servers), [1, 2]);
    }

    /// SES-05.
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
