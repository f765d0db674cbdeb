//! The time up to which this server has read everything that had arrived.
//!
//! A thread without a processor reads no sockets, nor does a stopped process. Meanwhile the packets
//! of clients and other servers wait in the sockets. That silence is the fault of this server. So
//! each thread or runtime that reads sockets records the time regularly. While these records are
//! late, no session expires and no peer is disconnected. A busy replica does not count: other
//! threads read the sockets meanwhile.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::shared::Clock;

/// Time between two records.
const INTERVAL: Duration = Duration::from_millis(200);

/// The records of all threads that read sockets of one kind.
#[derive(Debug, Default)]
pub struct Listening(Mutex<Vec<Arc<AtomicU64>>>);

impl Listening {
    /// Records the time as long as it is polled, on the runtime that reads. It does so also without
    /// anything to read, because a connection may arrive at any moment.
    pub fn note(&self, clock: Clock) -> impl Future<Output = ()> + use<> {
        // No connection has arrived before.
        let begun = clock.monotonic().as_millis() as u64;
        let note = Arc::new(AtomicU64::new(begun));
        self.0.lock().push(note.clone());
        async move {
            loop {
                // Everything that had arrived when the time was read has been read when this task
                // gets its next turn.
                let now = clock.monotonic().as_millis() as u64;
                tokio::time::sleep(INTERVAL).await;
                note.store(now, Ordering::Relaxed);
            }
        }
    }

    /// The time up to which all threads have listened; `None` if there are none.
    pub fn until(&self) -> Option<Duration> {
        let notes = self.0.lock();
        let oldest = notes.iter().map(|note| note.load(Ordering::Relaxed)).min();
        oldest.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_to_listen_has_heard_everything_before() {
        let listening = Listening::default();
        assert_eq!(listening.until(), None);
        let clock = Clock::start();
        let before = clock.monotonic();
        let note = listening.note(clock);
        assert!(listening.until().unwrap() + Duration::from_millis(1) > before);
        listening.0.lock().push(Arc::new(AtomicU64::new(0)));
        assert_eq!(listening.until(), Some(Duration::ZERO), "the oldest counts");
        drop(note);
    }
}
