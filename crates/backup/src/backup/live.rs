//! Gets a snapshot from a remote server: `GET /commands/snapshot` of its HTTP server.

use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};
use zebu_credentials::Dialer;
use zebu_proto::Causes;
use zebu_proto::Zxid;
use zebu_store::snapshot::decompressed;
use zebu_store::snapshot::read::{Sections, read_snapshot};
use zebu_store::{Compression, Nothing};

use crate::error::{BackupError, Result};
use crate::identity;
use crate::manifest::SnapEntry;
use crate::repository::{Repository, Staged};
use crate::source::RECORD_BYTES_MAX;

/// The default port of the HTTP server.
const PORT: u16 = 8080;
/// The longest silence of a server.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The time limit for the first byte: the server writes the whole snapshot before it sends it.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(30 * 60);
/// The length of the shown part of an answer that is not a snapshot.
const SHOWN_BYTES_MAX: usize = 300;

/// The address of a server's HTTP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
    is_secure: bool,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Why a server has sent no snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server takes too long.
    #[error("{0}")]
    Silent(&'static str),
    /// The connection failed, or the TLS handshake.
    #[error("{what}: {source}")]
    Connection {
        /// The part that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The address needs TLS, and there is no TLS configuration.
    #[error(
        "the address needs TLS, and no TLS settings are given\nhint: --client-configuration names a file with zookeeper.client.secure=true and \
         zookeeper.ssl.trustStore.location"
    )]
    TlsUnconfigured,
    /// The server's name cannot be in a certificate.
    #[error("{0}")]
    Name(#[from] InvalidDnsNameError),
    /// The answer is not HTTP, or is incomplete.
    #[error("{}", Causes(.0))]
    Http(#[from] hyper::Error),
    /// The request cannot be made.
    #[error("{0}")]
    Request(#[from] hyper::http::Error),
    /// The server has refused the request.
    #[error("{0}")]
    Refused(String),
    /// The answer does not come from the command `snapshot`.
    #[error("the answer has no header last_zxid, so it is not that of a server")]
    NoZxid,
    /// The answer is not a list of files.
    #[error("the server's list of files cannot be understood")]
    List,
    /// The received data cannot be stored.
    #[error(transparent)]
    Kept(Box<BackupError>),
}

/// A received snapshot that is not yet part of a backup.
#[derive(Debug)]
pub struct Received {
    /// Its entry, with the hash.
    pub entry: SnapEntry,
    /// The facts in its sections.
    pub sections: Sections,
    /// Its content.
    pub staged: Staged,
}

impl Received {
    /// The last transaction of which the snapshot may contain effects, if that is not its own zxid.
    pub fn traces(&self) -> Option<Zxid> {
        let digest = self.sections.digest.map(|(zxid, ..)| zxid);
        [self.sections.last_zxid, digest]
            .into_iter()
            .flatten()
            .max()
            .filter(|zxid| *zxid > self.entry.zxid)
    }
}

/// Reads the header `Authorization` from a file, such as `digest root:secret`.
///
/// # Errors
/// The file cannot be read, or has another content.
pub fn read_authorization(path: &Path) -> Result<HeaderValue> {
    let (scheme, credential) = identity::read(path)?;
    let mut value = HeaderValue::from_str(&format!("{scheme} {credential}")).map_err(|error| {
        let what = format!("not the value of a header: {error}");
        BackupError::Credential { path: path.to_owned(), what }
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why a text is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    /// It has another form.
    #[error("{0:?} is no address such as http://host:8080")]
    Form(String),
    /// Its port is no number of a port.
    #[error("{0:?} is no port")]
    Port(String),
}

/// Parses `http://host:port`, `https://host:port`, `host:port` or `host`.
///
/// # Errors
/// [`AddressFault`].
pub fn parse_server(text: &str) -> Result<Address, AddressFault> {
    let secure = text.strip_prefix("https://");
    let rest = secure.or(text.strip_prefix("http://")).unwrap_or(text).trim_end_matches('/');
    if rest.contains("://") || rest.contains('/') || rest.is_empty() {
        return Err(AddressFault::Form(text.to_owned()));
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().map_err(|_| AddressFault::Port(port.to_owned()))?)
        }
        _ => (rest, PORT),
    };
    let host = host.trim_matches(['[', ']']).to_owned();
    Ok(Address { host, port, is_secure: secure.is_some() })
}

/// Requests a snapshot from a server, and checks it completely. `dialer`: the TLS settings for an
/// address that needs TLS.
///
/// # Errors
/// The server does not answer, refuses, or sends something else than a complete snapshot.
pub fn receive(
    address: &Address,
    dialer: &Dialer,
    authorization: Option<HeaderValue>,
    repository: &Repository,
    now_ms: i64,
) -> Result<Received> {
    let failed = |source| BackupError::Server { address: address.to_string(), source };
    let runtime = runtime().map_err(failed)?;
    let (zxid, staged) =
        runtime.block_on(download(address, dialer, authorization, repository)).map_err(failed)?;
    check(address, zxid, staged, now_ms)
}

async fn download(
    address: &Address,
    dialer: &Dialer,
    authorization: Option<HeaderValue>,
    repository: &Repository,
) -> Result<(Zxid, Staged), ServerError> {
    let kept = |error| ServerError::Kept(Box::new(error));
    let mut answer = ask(address, dialer, authorization, "/commands/snapshot").await?;
    if answer.head.status != StatusCode::OK {
        return Err(answer.refused().await);
    }
    let zxid = zxid_of(&answer.head)?;
    let mut staged = repository.stage().map_err(kept)?;
    while let Some(data) = answer.next().await? {
        staged.write_all(&data).map_err(kept)?;
    }
    Ok((zxid, staged))
}

/// An answer whose body is read while it arrives.
pub(super) struct Answer {
    pub(super) head: Parts,
    body: Incoming,
    /// The connection is open while this value exists.
    _sender: SendRequest<Empty<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
}

impl Answer {
    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ServerError> {
        while let Some(frame) =
            within(SILENCE_MAX, self.body.frame(), "the server is silent").await?
        {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The server's error message.
    pub(super) async fn refused(&mut self) -> ServerError {
        let mut text = Vec::new();
        while text.len() < SHOWN_BYTES_MAX
            && let Ok(Some(data)) = self.next().await
        {
            text.extend_from_slice(&data);
        }
        text.truncate(SHOWN_BYTES_MAX);
        ServerError::Refused(format!("{}{}", refusal(self.head.status), said(&text)))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Requests a page from a server, over a new connection.
pub(super) async fn ask(
    address: &Address,
    dialer: &Dialer,
    authorization: Option<HeaderValue>,
    path: &str,
) -> Result<Answer, ServerError> {
    let no = |what| move |source| ServerError::Connection { what, source };
    let stream = TcpStream::connect((address.host.as_str(), address.port));
    let stream = within(SILENCE_MAX, stream, "no connection in time").await?;
    let stream = stream.map_err(no("no connection"))?;
    let (mut sender, driver) = if address.is_secure {
        let config = dialer.config().ok_or(ServerError::TlsUnconfigured)?;
        let name = ServerName::try_from(address.host.clone())?;
        let handshake = TlsConnector::from(config).connect(name, stream);
        let stream = within(SILENCE_MAX, handshake, "no TLS in time").await?;
        let stream = stream.map_err(no("no TLS"))?;
        let chain = stream.get_ref().1.peer_certificates();
        dialer.check(chain).await.map_err(no("no TLS"))?;
        speak(stream).await?
    } else {
        speak(stream).await?
    };
    let mut request = Request::get(path).header(HOST, address.to_string());
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?);
    let answer = within(FIRST_BYTE_MAX, answer, "no answer in time").await??;
    let (head, body) = answer.into_parts();
    Ok(Answer { head, body, _sender: sender, driver })
}

/// The runtime for the connections of one run.
pub(super) fn runtime() -> Result<Runtime, ServerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| ServerError::Connection { what: "no runtime", source })
}

/// The result of a future, within a time limit.
async fn within<T>(
    most: Duration,
    awaited: impl Future<Output = T>,
    late: &'static str,
) -> Result<T, ServerError> {
    timeout(most, awaited).await.map_err(|_| ServerError::Silent(late))
}

/// Starts HTTP on a connection, with the task that drives it.
async fn speak<S>(
    stream: S,
) -> hyper::Result<(SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    Ok((sender, tokio::spawn(connection)))
}

fn zxid_of(head: &Parts) -> Result<Zxid, ServerError> {
    let header = head.headers.get("last_zxid").and_then(|value| value.to_str().ok());
    let digits = header.and_then(|value| value.strip_prefix("0x"));
    let zxid =
        digits.and_then(|digits| i64::from_str_radix(digits, 16).ok()).filter(|zxid| *zxid >= 0);
    zxid.map(Zxid).ok_or(ServerError::NoZxid)
}

/// The meaning of a status, and a remedy.
fn refusal(status: StatusCode) -> String {
    let hint = match status.as_u16() {
        401 | 403 => {
            "\nhint: --auth-file names a file with the credentials for the server, as in: digest root:secret"
        }
        429 => "\nhint: the server sends one snapshot in admin.rateLimiterIntervalInMS (5 minutes)",
        503 => "\nhint: set admin.snapshot.enabled=true on the server",
        404 => "\nhint: ZooKeeper has this command since 3.9.0",
        _ => "",
    };
    format!("the server answers {status}{hint}")
}

fn said(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { text } else { format!("\nit says: {text}") }
}

/// Reads the received data, and checks all checksums.
fn check(address: &Address, zxid: Zxid, staged: Staged, seen_ms: i64) -> Result<Received> {
    let failed = |source| BackupError::Sent { address: address.to_string(), source };
    let mut begin = [0; 8];
    let read = io::Read::read(&mut staged.content()?, &mut begin);
    let read = read.map_err(|error| failed(error.into()))?;
    let compression = compression_of(&begin[..read]);
    let source = decompressed(staged.content()?, compression);
    let sections = read_snapshot(source, RECORD_BYTES_MAX, true, &mut Nothing).map_err(failed)?;
    let (znodes, bytes, sha) = (sections.nodes, staged.bytes(), staged.sha());
    let entry = SnapEntry { zxid, compression, znodes, seen_ms, bytes, sha };
    Ok(Received { entry, sections, staged })
}

/// Detects the compression from the first bytes of a file.
fn compression_of(begin: &[u8]) -> Compression {
    match begin {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', ..] => Compression::Snappy,
        _ => Compression::None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    const FIXTURES: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/zookeeper-3.8.0");

    /// Lets the client receive `answer`. Returns its result, and the request that the server
    /// received.
    fn received(answer: Vec<u8>, authorization: Option<&str>) -> (Result<Received>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address { host: "127.0.0.1".to_owned(), port, is_secure: false };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                asked.push(byte[0]);
            }
            // The client may close before it has read everything.
            let _ = stream.write_all(&answer);
            String::from_utf8(asked).unwrap()
        });
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::create(dir.path()).unwrap();
        let authorization = authorization.map(|text| HeaderValue::from_str(text).unwrap());
        let received = receive(&address, &Dialer::plain(), authorization, &repository, 1000);
        (received, server.join().unwrap())
    }

    fn answer(head: &str, body: &[u8]) -> Vec<u8> {
        [format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes(), body]
            .concat()
    }

    fn failure(received: Result<Received>) -> String {
        format!("{:#}", received.unwrap_err())
    }

    #[test]
    fn a_whole_snapshot_is_taken_compressed_or_not() {
        for (name, compression) in [
            ("basic/version-2/snapshot.3c", Compression::None),
            ("compressed-gz/version-2/snapshot.48.gz", Compression::Gzip),
            ("compressed-snappy/version-2/snapshot.48.snappy", Compression::Snappy),
        ] {
            let file = std::fs::read(format!("{FIXTURES}/{name}")).unwrap();
            let (received, asked) =
                received(answer("200 OK\r\nlast_zxid: 0x3c", &file), Some("digest root:secret"));
            let received = received.unwrap();
            assert!(asked.starts_with("GET /commands/snapshot HTTP/1.1\r\n"), "{asked}");
            assert!(asked.contains("authorization: digest root:secret\r\n"), "{asked}");
            assert_eq!(
                (received.entry.zxid, received.entry.compression),
                (Zxid(0x3c), compression)
            );
            assert_eq!(received.entry.bytes, file.len() as u64);
            // The compressed ones are of 0x48.
            let traces = (compression != Compression::None).then_some(Zxid(0x48));
            assert_eq!(received.traces(), traces);
        }
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let file = std::fs::read(format!("{FIXTURES}/basic/version-2/snapshot.3c")).unwrap();
        let whole = answer("200 OK\r\nlast_zxid: 0x3c", &file);
        let cut = whole[..whole.len() - 100].to_vec();
        assert!(failure(received(cut, None).0).contains("snapshot of 127.0.0.1"), "cut off");
        let mut flipped = whole.clone();
        flipped[500] ^= 1;
        assert!(failure(received(flipped, None).0).contains("is no snapshot"), "flipped");
        let short = answer("200 OK\r\nlast_zxid: 0x3c", &file[..2000]);
        assert!(failure(received(short, None).0).contains("is no snapshot"), "short");
        let nameless = answer("200 OK", &file);
        assert!(failure(received(nameless, None).0).contains("no header last_zxid"), "nameless");
        failure(received(b"SSH-2.0\r\n".to_vec(), None).0);
        failure(received(Vec::new(), None).0);
    }

    #[test]
    fn a_refusal_says_what_helps() {
        let said = failure(received(answer("401 Unauthorized", b"{ \"error\": null }"), None).0);
        assert!(said.contains("401 Unauthorized") && said.contains("--auth-file"), "{said}");
        let said = failure(received(answer("429 Too Many Requests", b""), None).0);
        assert!(said.contains("rateLimiterIntervalInMS"), "{said}");
    }

    #[test]
    fn addresses_are_read() {
        let of = |text| parse_server(text);
        let at = |host: &str, port| Ok(Address { host: host.to_owned(), port, is_secure: false });
        let secure = Address { host: "zk1".to_owned(), port: 8081, is_secure: true };
        assert_eq!(of("https://zk1:8081/"), Ok(secure));
        assert_eq!(of("http://zk1:8081"), at("zk1", 8081));
        assert_eq!(of("zk1/"), at("zk1", 8080));
        assert_eq!(of("http://[::1]:9"), at("::1", 9));
        assert_eq!(of("[::1]"), at("::1", 8080));
        for wrong in ["ftp://zk1:8080", "", "http://", "zk1:port", "zk1/commands"] {
            of(wrong).unwrap_err();
        }
    }
}
