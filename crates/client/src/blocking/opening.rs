//! Sessions that are opened in another way than from a list of servers, or without waiting.

use tokio::runtime::{Builder, Runtime};

use crate::blocking::{Background, Client};
use crate::{Connector, HostProvider, Result};

impl Client {
    /// Opens a session with servers that somebody else knows, and waits until it stands.
    ///
    /// # Panics
    /// Inside of a tokio runtime, or when no thread can be started.
    ///
    /// # Errors
    /// As [`Connector::connect_to`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// struct One(std::net::SocketAddr);
    ///
    /// impl HostProvider for One {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async { Ok(vec![self.0]) })
    ///     }
    /// }
    ///
    /// let client = Client::open_to(Connector::new(), One(server.address()))?;
    /// assert_eq!(client.server(), Some(server.address()));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open_to(connector: Connector, hosts: impl HostProvider) -> Result<Self> {
        let runtime = runtime();
        let client = runtime.block_on(connector.connect_to(hosts))?;
        Ok(Self::of(client, runtime))
    }

    /// Opens a session without waiting: requests wait for a connection, as do [`Client::connected`].
    ///
    /// # Panics
    /// Inside of a tokio runtime, or when no thread can be started.
    ///
    /// # Errors
    /// As [`Connector::start`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let client = Client::start(Connector::new(), &address)?;
    /// client.connected()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn start(connector: Connector, connect_string: &str) -> Result<Self> {
        let runtime = runtime();
        let client = runtime.block_on(async { connector.start(connect_string) })?;
        Ok(Self::of(client, runtime))
    }

    /// As [`Client::start`], with servers that somebody else knows.
    ///
    /// # Panics
    /// Inside of a tokio runtime, or when no thread can be started.
    ///
    /// # Errors
    /// As [`Connector::start_with`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// struct One(std::net::SocketAddr);
    ///
    /// impl HostProvider for One {
    ///     fn servers(&self) -> Servers<'_> {
    ///         Box::pin(async { Ok(vec![self.0]) })
    ///     }
    /// }
    ///
    /// let client = Client::start_with(Connector::new(), One(server.address()))?;
    /// assert!(client.exists("/")?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn start_with(connector: Connector, hosts: impl HostProvider) -> Result<Self> {
        let runtime = runtime();
        let client = runtime.block_on(async { connector.start_with(hosts) })?;
        Ok(Self::of(client, runtime))
    }

    pub(super) fn of(client: crate::Client, runtime: Runtime) -> Self {
        Self { client, runtime: std::sync::Arc::new(Background(Some(runtime))) }
    }
}

/// One thread that keeps a session alive.
pub(super) fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("zebu-client").enable_all();
    builder.build().expect("a thread can be started")
}
