//! The client against a server in this process, with a network in between that can be cut.

mod access;
mod errors;
mod leases;
mod losses;
mod order;
mod proxy;
mod read_only;
mod sessions;
mod stress;
mod watches;

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in"));
}

use std::time::Duration;

use zebu_client::{Client, Connector, SessionEvents, SessionState};

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens")
}

/// Settings under which sessions can be short, and long.
const QUICK: &[&str] = &["tickTime=100", "maxSessionTimeout=60000"];

/// A client that has authenticated, with a session of this length.
async fn connect(servers: impl ToString, timeout: Duration) -> Client {
    let connector = Connector::new().session_timeout(timeout).authenticate("digest", "amy:secret");
    soon(connector.connect(&servers.to_string())).await.expect("it connects")
}

/// Waits until the session has come into this state.
async fn reach(events: &mut SessionEvents, wanted: SessionState) {
    while let Some(state) = soon(events.next()).await {
        if state == wanted {
            return;
        }
    }
    panic!("the session never was {wanted}");
}
