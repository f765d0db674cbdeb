//! Logs clients that this server refuses while it does not serve: one line when the period begins,
//! and one line with the number of clients when it ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{debug, info};

/// The number of refused clients since the server last served.
#[derive(Debug, Default)]
pub struct Refused(AtomicU64);

impl Refused {
    /// Counts a refused client. Returns true for the first one.
    fn count(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Ends the period. Returns the number of refused clients.
    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Logs the first refused client.
    pub fn say(&self, peer: SocketAddr) {
        if self.count() {
            info!(
                connection = %peer,
                "this server does not serve: it closes the connection from {peer}, and all others until it serves"
            );
        } else {
            debug!("this server does not serve: it closes the connection from {peer}");
        }
    }

    /// The server serves clients again.
    pub fn end(&self) {
        match self.take() {
            0 => {}
            count => info!("connections closed while this server served no clients: {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_time_is_told_and_all_are_counted() {
        let refused = Refused::default();
        assert_eq!(refused.take(), 0);
        let told = |count| (0..count).filter(|_| refused.count()).count();
        assert_eq!((told(5), refused.take()), (1, 5));
        assert_eq!((told(2), refused.take()), (1, 2));
        assert_eq!(refused.take(), 0);
    }
}
