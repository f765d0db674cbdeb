//! Connections that the program makes instead of the client.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// The two directions of a connection. Every stream of bytes implements this trait.
///
/// ```
/// use zebu_client::Connection;
///
/// let (one_end, _other_end) = tokio::io::duplex(1024);
/// let connection: Box<dyn Connection> = Box::new(one_end);
/// # drop(connection);
/// ```
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Connection for T {}

/// The future of a connection, see [`Transport::dial`].
///
/// ```
/// use zebu_client::Dialed;
///
/// let refused: Dialed<'_> = Box::pin(async { Err(std::io::ErrorKind::ConnectionRefused.into()) });
/// # drop(refused);
/// ```
pub type Dialed<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send + 'a>>;

/// Makes connections to servers instead of the system's TCP: through a proxy, over another kind of
/// socket, or over a simulated network.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::with_server(async |server| {
/// # let address = server.address().to_string();
/// use std::net::SocketAddr;
/// use zebu_client::{Connection, Connector, Dialed, Transport};
///
/// /// Sends small packets together.
/// struct Patient;
///
/// impl Transport for Patient {
///     fn dial(&self, server: SocketAddr) -> Dialed<'_> {
///         Box::pin(async move {
///             let stream = tokio::net::TcpStream::connect(server).await?;
///             stream.set_nodelay(false)?;
///             Ok(Box::new(stream) as Box<dyn Connection>)
///         })
///     }
/// }
///
/// let client = Connector::new().transport(Patient).connect(&address).await?;
/// assert!(client.exists("/").await?.is_some());
/// # Ok(()) });
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Connects to a server. The future is polled on the session's thread, and dropped when the
    /// client gives the attempt up.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use zebu_client::{Dialed, Transport};
    ///
    /// /// A network that is down.
    /// struct Down;
    ///
    /// impl Transport for Down {
    ///     fn dial(&self, _server: SocketAddr) -> Dialed<'_> {
    ///         Box::pin(async { Err(std::io::ErrorKind::NetworkDown.into()) })
    ///     }
    /// }
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let server = "127.0.0.1:2181".parse().expect("an address");
    /// assert!(Down.dial(server).await.is_err());
    /// # });
    /// ```
    fn dial(&self, server: SocketAddr) -> Dialed<'_>;
}
