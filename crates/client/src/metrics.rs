//! Counters of a client's requests, answers and connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Client;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a client since its start, see [`Client::metrics`].
        ///
        /// ```
        /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
        /// # embedded::run(async |client| {
        /// let metrics = client.metrics();
        /// println!("{} of {} requests failed", metrics.failures, metrics.requests);
        /// # Ok(()) });
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
            /// How long the newest answer took, from the moment at which its request was made or
            /// its heartbeat sent. `None` before the first answer.
            pub round_trip: Option<Duration>,
        }

        /// The same values: the driver writes them, and any thread reads them.
        #[derive(Debug, Default)]
        pub(crate) struct Published {
            $($name: AtomicU64,)*
            /// In nanoseconds; zero for none.
            round_trip: AtomicU64,
        }

        impl Published {
            /// Only the driver may call this.
            pub(crate) fn publish(&self, metrics: &Metrics) {
                $(self.$name.store(metrics.$name, Ordering::Relaxed);)*
                self.round_trip.store(metrics.round_trip.map_or(0, nanos), Ordering::Relaxed);
            }

            pub(crate) fn read(&self) -> Metrics {
                let round_trip = self.round_trip.load(Ordering::Relaxed);
                Metrics {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    round_trip: (round_trip > 0).then(|| Duration::from_nanos(round_trip)),
                }
            }
        }
    };
}

counts! {
    /// Requests that the program made, including credentials and the end of the session.
    requests,
    /// Requests that a server has answered, including answers with an error.
    answers,
    /// Requests that failed without an answer: not sent, or lost with their connection.
    failures,
    /// Events that were delivered to watches.
    notifications,
    /// Connections on which the session was established.
    connections,
    /// Connections that were lost.
    connections_lost,
    /// Bytes sent, without what TLS adds.
    bytes_sent,
    /// Bytes received, without what TLS adds.
    bytes_received,
}

impl Metrics {
    /// Requests that wait for a connection or for their answer.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// client.exists("/").await?;
    /// assert_eq!(client.metrics().pending(), 0);
    /// # Ok(()) });
    /// ```
    pub fn pending(&self) -> u64 {
        self.requests.saturating_sub(self.answers + self.failures)
    }
}

/// The time in nanoseconds, at least one, because zero means none.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl Client {
    /// The counters of this session, for the metrics of the application. All clients of a session
    /// share them.
    ///
    /// Reading them costs a few memory accesses and never blocks.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let before = client.metrics();
    /// client.get_data("/").await?;
    /// let after = client.metrics();
    /// assert_eq!(after.requests, before.requests + 1);
    /// assert!(after.answers > before.answers);
    /// assert!(after.round_trip.is_some());
    /// # Ok(()) });
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.shared().metrics()
    }
}
