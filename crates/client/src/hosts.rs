//! Where servers are.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::lookup_host;
use zebu_proto::HostPort;

/// The servers a client may use at the moment, as [`HostProvider::servers`] promises them.
pub type Servers<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Knows where the servers of an ensemble are.
///
/// It is asked before every round of attempts to connect, so a client follows names that change their
/// addresses, and an ensemble that moves. All servers must belong to one ensemble. The client tries them in
/// random order.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::with_server(async |server| {
/// use zebu_client::{Connector, HostProvider, Servers};
///
/// /// Asks somebody who knows.
/// struct Directory(std::net::SocketAddr);
///
/// impl HostProvider for Directory {
///     fn servers(&self) -> Servers<'_> {
///         Box::pin(async { Ok(vec![self.0]) })
///     }
/// }
///
/// let client = Connector::new().connect_to(Directory(server.address())).await?;
/// assert_eq!(client.server(), Some(server.address()));
/// # Ok(()) });
/// ```
pub trait HostProvider: Send + Sync + 'static {
    /// The servers' addresses now. An error or an empty list leaves the client with those it knew.
    fn servers(&self) -> Servers<'_>;
}

/// Names from a connect string, resolved again each time; every address of a name is a server.
#[derive(Debug)]
pub(crate) struct Names(pub(crate) Vec<HostPort>);

impl HostProvider for Names {
    fn servers(&self) -> Servers<'_> {
        Box::pin(async {
            let mut found = Vec::new();
            let mut failure = None;
            for HostPort { host, port } in &self.0 {
                match lookup_host((host.as_str(), *port)).await {
                    Ok(addresses) => found.extend(addresses),
                    Err(error) => failure = Some(error),
                }
            }
            match failure {
                Some(error) if found.is_empty() => Err(error),
                _ => Ok(found),
            }
        })
    }
}
