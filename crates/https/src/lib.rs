//! Requests over HTTP/1.1 and plain TCP or TLS to services beside ZooKeeper: object stores,
//! collectors of logs.
//!
//! Each request has its own connection. [`Https::send`] needs a tokio runtime, and the caller
//! chooses it. [`mod@given`] reads addresses and headers from a configuration.

pub mod given;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::{InvalidUri, Scheme};
pub use hyper::{HeaderMap, StatusCode, Uri};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// There is no connection, or no TLS.
    #[error("no connection")]
    Connect(#[source] io::Error),
    /// The host's name cannot be the name of a certificate.
    #[error("the host's name cannot be in a certificate")]
    Name(#[source] InvalidDnsNameError),
    /// The address has no valid host or path.
    #[error("the address is not one of HTTP")]
    Address(#[source] InvalidUri),
    /// The connection ended, or the answer is not HTTP.
    #[error("no answer")]
    Interrupted(#[source] hyper::Error),
    /// The service takes too long.
    #[error("no answer in time")]
    Late,
}

/// The longest times that a request waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the connection, and again for the TLS handshake.
    pub connect: Duration,
    /// For the head of the answer.
    pub answer: Duration,
}

/// Sends requests.
#[derive(Clone, Debug)]
pub struct Https {
    tls: Arc<ClientConfig>,
    patience: Patience,
}

/// TLS that trusts the certificates that the system trusts.
///
/// # Errors
/// The versions of TLS do not fit the provider, which no build of this project has.
pub fn trust_of_the_system() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(zebu_auth::crypto::provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

impl Https {
    /// `tls` applies to addresses that begin with `https`.
    pub fn new(tls: ClientConfig, patience: Patience) -> Self {
        Self { tls: Arc::new(tls), patience }
    }

    /// Sends a request to the host in its address, and returns the answer as soon as its head has
    /// come.
    ///
    /// # Errors
    /// There is no answer. Each status is an answer.
    pub async fn send<B>(&self, request: Request<B>) -> Result<Response<Incoming>, HttpsError>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Patience { connect, .. } = self.patience;
        let uri = request.uri();
        let is_secure = uri.scheme() == Some(&Scheme::HTTPS);
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let stream = timeout(connect, TcpStream::connect((host.as_str(), port))).await;
        let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = stream.map_err(HttpsError::Connect)?;
        if !is_secure {
            return self.exchange(stream, request).await;
        }
        let name = ServerName::try_from(host).map_err(HttpsError::Name)?;
        let handshake = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream);
        let stream = timeout(connect, handshake).await;
        let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        self.exchange(stream.map_err(HttpsError::Connect)?, request).await
    }

    async fn exchange<S, B>(
        &self,
        stream: S,
        mut request: Request<B>,
    ) -> Result<Response<Incoming>, HttpsError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let uri = request.uri();
        let host = uri.authority().map_or("", |authority| authority.as_str());
        // User names and passwords of an address are no part of it.
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path: Uri = path.parse().map_err(HttpsError::Address)?;
        *request.uri_mut() = path;
        if let Ok(host) = HeaderValue::from_str(&host) {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(HttpsError::Interrupted)?;
        // Ends with the answer's body.
        tokio::spawn(connection);
        let answer = timeout(self.patience.answer, sender.send_request(request)).await;
        answer.map_err(|_| HttpsError::Late)?.map_err(HttpsError::Interrupted)
    }
}
