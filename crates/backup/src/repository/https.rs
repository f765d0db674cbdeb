//! Requests to an object store: HTTP/1.1 over plain TCP or TLS, with one connection for each
//! request.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{Response, Uri};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// A connection that is not there after so long is given up.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A store that has not begun to answer a request after so long is given up.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// Makes clients.
#[derive(Debug)]
pub struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Https { tls: trust_of_the_system()? }))
    }
}

/// TLS that trusts the certificates that the system trusts.
fn trust_of_the_system() -> object_store::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[derive(Debug)]
struct Https {
    tls: Arc<ClientConfig>,
}

#[async_trait]
impl HttpService for Https {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let refused = |error| HttpError::new(HttpErrorKind::Connect, error);
        let uri = request.uri();
        let is_secure = uri.scheme() == Some(&Scheme::HTTPS);
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let stream = timeout(CONNECT_MAX, TcpStream::connect((host.as_str(), port))).await;
        let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = stream.map_err(refused)?;
        if !is_secure {
            return exchange(stream, request).await;
        }
        let name = ServerName::try_from(host)
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let handshake = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream);
        let stream = timeout(CONNECT_MAX, handshake).await;
        let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        exchange(stream.map_err(refused)?, request).await
    }
}

/// Sends a request, and returns the answer as soon as its head has come.
async fn exchange<S>(stream: S, mut request: HttpRequest) -> Result<HttpResponse, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
    let unusable = |error: hyper::http::Error| HttpError::new(HttpErrorKind::Unknown, error);
    let uri = request.uri();
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(host).map_err(|error| unusable(error.into()))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path: Uri =
        path.parse().map_err(|error: hyper::http::uri::InvalidUri| unusable(error.into()))?;
    *request.uri_mut() = path;
    request.headers_mut().entry(HOST).or_insert(host);
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(broken)?;
    // Ends with the answer's body.
    tokio::spawn(connection);
    let late = |_| HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut));
    let answer = timeout(ANSWER_MAX, sender.send_request(request)).await.map_err(late)?;
    let (head, body) = answer.map_err(broken)?.into_parts();
    Ok(Response::from_parts(head, HttpResponseBody::new(body.map_err(broken))))
}
