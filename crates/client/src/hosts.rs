//! Where servers are.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

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

    /// How far away one of them is: in each round, servers of a smaller rank are tried before all others. By default
    /// all are equal. [`Connector::prefer`](crate::Connector::prefer) overrules this.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// use std::net::SocketAddr;
    /// use zebu_client::{Connector, HostProvider, Servers};
    ///
    /// /// One that is near, and others for when it fails.
    /// struct Near(SocketAddr, Vec<SocketAddr>);
    ///
    /// impl HostProvider for Near {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async { Ok([&[self.0], &self.1[..]].concat()) })
    ///     }
    ///
    ///     fn rank(&self, server: SocketAddr) -> u32 {
    ///         u32::from(server != self.0)
    ///     }
    /// }
    ///
    /// let far = "127.0.0.1:1".parse()?;
    /// let client = Connector::new().connect_to(Near(server.address(), vec![far])).await?;
    /// assert_eq!(client.server(), Some(server.address()));
    /// # Ok(()) });
    /// ```
    fn rank(&self, server: SocketAddr) -> u32 {
        let _all_are_equal = server;
        0
    }
}

/// How far away a server is.
pub(crate) type Rank = dyn Fn(SocketAddr) -> u32 + Send + Sync;

/// Somebody's servers, in somebody else's order.
pub(crate) struct Ranked<H> {
    pub(crate) hosts: H,
    pub(crate) rank: Arc<Rank>,
}

impl<H: HostProvider> HostProvider for Ranked<H> {
    fn servers(&self) -> Servers<'_> {
        self.hosts.servers()
    }

    fn rank(&self, server: SocketAddr) -> u32 {
        (self.rank)(server)
    }
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
