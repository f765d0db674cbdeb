//! The client against a server in this process, through a proxy that can cut the connection.

mod access;
mod chroots;
mod errors;
mod leases;
#[path = "../support/lonely.rs"]
mod lonely;
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

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a result that must arrive.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens")
}

/// Server settings that permit short and long sessions.
const QUICK: &[&str] = &["tickTime=100", "maxSessionTimeout=60000"];

/// An authenticated client with this session timeout.
async fn connect(servers: impl ToString, timeout: Duration) -> Client {
    let connector = Connector::new().session_timeout(timeout).authenticate("digest", "amy:secret");
    soon(connector.connect(&servers.to_string())).await.expect("it connects")
}

/// Waits until the session is in this state.
async fn reach(events: &mut SessionEvents, wanted: SessionState) {
    while let Some(state) = soon(events.next()).await {
        if state == wanted {
            return;
        }
    }
    panic!("the session never was {wanted}");
}
