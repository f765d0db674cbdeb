//! How long the session certainly lives on, as far as a client can know.

use std::time::Duration;

use crate::Client;
use crate::shared::Shared;

impl Shared {
    /// The remaining time of the session, see [`Client::session_left`].
    fn session_left(&self) -> Duration {
        let (is_over, timeout) = {
            let status = self.status.borrow();
            (status.state.is_over(), status.timeout)
        };
        match self.proven() {
            Some(proven) if !is_over => (proven + timeout).saturating_sub(self.now()),
            _ => Duration::ZERO,
        }
    }
}

impl Client {
    /// The minimum time for which the servers keep this session if they receive nothing more from
    /// this client.
    ///
    /// The client counts from the moment at which it sent the newest request or heartbeat that a
    /// server has answered. While connected, the value is between a third of the session timeout
    /// and the whole timeout. It falls to zero while no server answers. Before the session is
    /// established, and after its end, it is zero.
    ///
    /// It is an estimate. A follower that has just been cut off from its leader answers heartbeats
    /// for up to `syncLimit`, but the leader does not receive them. The clock also stops while the
    /// machine is suspended. So a program that must never act beside another owner sends a fencing
    /// token with each action: the `czxid` of the lock's znode.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use std::time::Duration;
    ///
    /// // Is there time for a step of a second?
    /// assert!(client.session_left() > Duration::from_secs(1));
    /// client.close().await?;
    /// assert_eq!(client.session_left(), Duration::ZERO);
    /// # Ok(()) });
    /// ```
    pub fn session_left(&self) -> Duration {
        self.shared().session_left()
    }

    /// Waits until [`Client::session_left`] is zero. From then on, the servers may have ended the
    /// session, and another client may hold its locks.
    ///
    /// The application learns this before other clients do, and without a server. So it can stop
    /// acting as a leader even without a network.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # let closing = client.clone();
    /// # tokio::spawn(async move { closing.close().await });
    /// async fn lead() {
    ///     // Work that only the leader may do.
    /// #   std::future::pending::<()>().await;
    /// }
    ///
    /// tokio::select! {
    ///     () = lead() => {}
    ///     () = client.session_in_doubt() => println!("somebody else may lead now"),
    /// }
    /// # Ok(()) });
    /// ```
    pub async fn session_in_doubt(&self) {
        let shared = self.shared().clone();
        let waiting = self.thread().spawn(async move {
            let mut status = shared.status.subscribe();
            loop {
                let left = shared.session_left();
                if left.is_zero() {
                    return;
                }
                // Whichever comes first. Meanwhile the lease may have been extended, or the session
                // may have ended.
                let _ = tokio::time::timeout(left, status.changed()).await;
            }
        });
        // The thread ends when no caller waits any more.
        let waiting = Waiting(waiting);
        waiting.over().await;
    }
}

struct Waiting(tokio::task::JoinHandle<()>);

impl Waiting {
    async fn over(mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.abort();
    }
}
