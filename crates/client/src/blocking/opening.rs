//! Other ways to open a blocking session: from a host provider, or without waiting.

use crate::blocking::Client;
use crate::{Connector, HostProvider, Result};

impl Client {
    /// Opens a session with the servers of a [`HostProvider`], and waits until
    /// it is established.
    ///
    /// # Panics
    /// Inside of a tokio runtime.
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
        Self::opened(connector, async |connector| connector.connect_to(hosts).await)
    }

    /// Opens a session without waiting. Requests and [`Client::connected`] wait for a connection.
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
        Ok(Self { client: connector.start(connect_string)? })
    }

    /// As [`Client::start`], with the servers of a [`HostProvider`].
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
        Ok(Self { client: connector.start_with(hosts)? })
    }

    /// Waits on the session's own thread until the session is open.
    pub(super) fn opened(
        connector: Connector,
        open: impl AsyncFnOnce(Connector) -> Result<crate::Client>,
    ) -> Result<Self> {
        let (thread, connector) = connector.with_thread()?;
        Ok(Self { client: thread.wait(open(connector))? })
    }
}
