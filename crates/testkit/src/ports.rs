//! Ports for servers that a test configures before it starts them.
//!
//! A port that the system chooses is of the range from which it also takes the ports of outgoing
//! connections. Between the moment when a test has found such a port free and the start of its
//! server, a connection of any other process can take it. So these ports are below that range, and
//! no two test processes share a block of them.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port of the first block. The kernel's range for outgoing connections begins at 32768.
const FIRST: u16 = 12_000;
/// The ports of a test process.
const BLOCK_PORTS: u16 = 1_000;
/// As many test processes have ports of their own; others share.
const BLOCKS: u16 = 20;

/// A free port.
#[must_use]
pub fn free_port() -> u16 {
    free_ports(1)
}

/// This number of free ports.
#[must_use]
pub fn free<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

/// The first of `count` neighbouring free ports.
///
/// # Panics
/// `count` is not below the number of ports that a test process has.
#[must_use]
pub fn free_ports(count: u16) -> u16 {
    static BLOCK: LazyLock<(u16, Option<File>)> = LazyLock::new(own_block);
    assert!(count < BLOCK_PORTS, "a block has {BLOCK_PORTS} ports: {count}");
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    loop {
        // A returned port may not be in use yet, so it is not returned again for a long time.
        let first = BLOCK.0 + next(count);
        if (first..first + count).all(is_free) {
            return first;
        }
    }
}

/// The place of `count` ports in the block: behind those of the last call, or at the beginning of
/// the block, where the oldest ones are.
fn next(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let place = |end: u16| if end + count > BLOCK_PORTS { 0 } else { end };
    let advance = |end| Some(place(end) + count);
    let end = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance);
    place(end.unwrap_or_else(|end| end))
}

/// The first port of a block that no other test process uses, and the lock on the block.
fn own_block() -> (u16, Option<File>) {
    let first = |block: u16| FIRST + block * BLOCK_PORTS;
    for block in 0..BLOCKS {
        let path = std::env::temp_dir().join(format!("zebu-test-ports-{block}"));
        let Ok(file) = File::create(path) else { continue };
        if file.try_lock().is_ok() {
            return (first(block), Some(file));
        }
    }
    let block = u16::try_from(std::process::id() % u32::from(BLOCKS)).expect("below the number");
    (first(block), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_differ_and_are_below_those_of_outgoing_connections() {
        let ports = free::<20>();
        let held: Vec<_> = ports.map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port))).into();
        assert!(held.iter().all(Result::is_ok), "{held:?}");
        assert!(ports.iter().all(|port| (FIRST..32_768).contains(port)), "{ports:?}");
    }

    #[test]
    fn a_port_comes_again_only_after_most_of_the_others() {
        let mut last_round = std::collections::VecDeque::new();
        for count in [1, 9, 1, 30, 7].into_iter().cycle().take(1_000) {
            let first = next(count);
            for port in first..first + count {
                assert!(port < BLOCK_PORTS && !last_round.contains(&port), "{port} of {count}");
                last_round.push_back(port);
            }
            while last_round.len() > usize::from(BLOCK_PORTS - 100) {
                last_round.pop_front();
            }
        }
    }

    #[test]
    fn neighbours_are_all_free() {
        let first = free_ports(9);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 4)).unwrap();
        let second = free_ports(9);
        assert!(!(second..second + 9).contains(&listener.local_addr().unwrap().port()));
    }
}
