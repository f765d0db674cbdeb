//! Limits the failed authentications of an address.
//!
//! This module has no clock: the caller passes the time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Maximum number of remembered addresses.
const ADDRESSES_MAX: usize = 10_000;
/// The period for which an address has its number of attempts.
const SPAN: Duration = Duration::from_secs(60);
/// Leading bits of an IPv6 address that count: addresses with the same leading bits are one
/// network.
const NETWORK_BITS: u32 = 64;

/// Counts failures of each address, and forgets them over time.
#[derive(Debug)]
pub struct Failures {
    /// The share of [`SPAN`] that one failure uses; `None`: no limit.
    cost: Option<Duration>,
    /// When all failures of an address are forgotten. At most [`ADDRESSES_MAX`].
    until: BTreeMap<IpAddr, Duration>,
}

impl Failures {
    /// An address may fail this often in a minute; 0: without a limit.
    pub fn new(per_minute: u32) -> Self {
        Self { cost: (per_minute > 0).then(|| SPAN / per_minute), until: BTreeMap::new() }
    }

    /// Whether an address may try again.
    pub fn may_try(&self, now: Duration, peer: IpAddr) -> bool {
        let Some(cost) = self.cost else { return true };
        self.until.get(&network(peer)).is_none_or(|until| *until + cost <= now + SPAN)
    }

    /// An address has failed. Returns whether it may not try again for a while.
    pub fn failed(&mut self, now: Duration, peer: IpAddr) -> bool {
        let Some(cost) = self.cost else { return false };
        let peer = network(peer);
        let is_known = self.until.contains_key(&peer);
        if !is_known && self.until.len() >= ADDRESSES_MAX {
            self.forget(now);
        }
        let until = self.until.entry(peer).or_insert(now);
        // Attempts that began at the same time may fail later, so the stored number has a limit.
        *until = ((*until).max(now) + cost).min(now + SPAN);
        assert!(self.until.len() <= ADDRESSES_MAX);
        !self.may_try(now, peer)
    }

    /// Makes room: removes addresses without remembered failures, or else the address with the
    /// fewest failures.
    fn forget(&mut self, now: Duration) {
        self.until.retain(|_, until| *until > now);
        if self.until.len() >= ADDRESSES_MAX {
            let least = self.until.iter().min_by_key(|(_, until)| **until).map(|(peer, _)| *peer);
            least.and_then(|peer| self.until.remove(&peer));
        }
    }
}

fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => {
            let mask = u128::MAX << (128 - NETWORK_BITS);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const S: Duration = Duration::from_secs(1);

    #[test]
    fn an_address_may_fail_so_often_and_again_after_a_while() {
        let mut failures = Failures::new(3);
        let told: Vec<bool> = (0..3).map(|_| failures.failed(100 * S, HOME)).collect();
        assert_eq!(told, [false, false, true]);
        assert!(!failures.may_try(100 * S, HOME) && !failures.may_try(119 * S, HOME));
        assert!(failures.may_try(100 * S, [10, 0, 0, 1].into()), "others are not concerned");
        assert!(failures.may_try(120 * S, HOME));
        assert!(failures.failed(120 * S, HOME), "one at a time now");
        assert!(failures.may_try(140 * S, HOME));
        // After a minute without a failure, an address has its full number of attempts again.
        assert!(!failures.failed(240 * S, HOME) && !failures.failed(240 * S, HOME));
        // Failures of simultaneous attempts are forgotten no later than others.
        for _ in 0..100 {
            failures.failed(500 * S, HOME);
        }
        assert!(failures.may_try(520 * S, HOME));
    }

    #[test]
    fn without_a_limit_nobody_is_turned_away() {
        let mut failures = Failures::new(0);
        assert!((0..1000).all(|_| !failures.failed(S, HOME) && failures.may_try(S, HOME)));
        assert!(failures.until.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let mut failures = Failures::new(1);
        failures.failed(S, "2001:db8::1".parse().unwrap());
        assert!(!failures.may_try(S, "2001:db8::2".parse().unwrap()));
        assert!(failures.may_try(S, "2001:db8:0:1::1".parse().unwrap()));
        failures.failed(S, "::ffff:127.0.0.1".parse().unwrap());
        assert!(!failures.may_try(S, HOME));
    }

    #[test]
    fn those_that_have_failed_most_are_remembered() {
        let mut failures = Failures::new(2);
        for _ in 0..2 {
            failures.failed(S, HOME);
        }
        for n in 0..ADDRESSES_MAX as u32 * 2 {
            failures.failed(S, IpAddr::from((n + (10 << 24)).to_be_bytes()));
        }
        assert_eq!(failures.until.len(), ADDRESSES_MAX);
        assert!(!failures.may_try(S, HOME));
    }
}
