//! HTTP connections: their maximum number, and their time limits.
//!
//! One thread with a runtime of its own serves all connections, so HTTP requests cost the server's
//! clients nothing but the work for the answer. A connection has a task, not a thread.
//!
//! **Limits:** A connection above the maximum closes the oldest one. The header of a request has a
//! maximum size and a deadline. A peer that does not read its answer has a deadline, too.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::STRICT_TRANSPORT_SECURITY;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, timeout};
use tower_service::Service;
use tracing::{debug, info, warn};
use zebu_transport::{HttpPort, HttpStream};

/// The most connections to one listener.
pub const CONNECTIONS_MAX: usize = 64;
/// Maximum bytes of a request's header, and of data that are read ahead.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// The most header lines of a request.
const HEADERS_MAX: usize = 64;
/// Threads for blocking work, such as taking a snapshot.
const BLOCKING_THREADS_MAX: usize = 2;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time limit for a TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(15);
/// Tells browsers to use TLS only, for a day, as the original does.
///
/// Source: `JettyAdminServer.DEFAULT_STS_MAX_AGE`.
const COME_BACK_SECURELY: HeaderValue =
    HeaderValue::from_static("max-age=86400; includeSubDomains");

/// The sender of a request.
#[derive(Clone, Debug)]
pub struct Client {
    /// The address from which the connection comes.
    pub address: SocketAddr,
    /// The subject of the client's certificate, which the server trusts.
    pub subject: Option<Arc<str>>,
}

/// Is called for a connection without TLS.
pub type OnPlain = Arc<dyn Fn() + Send + Sync>;

/// A listener with its content.
pub struct Site {
    /// The listener.
    pub listener: TcpListener,
    /// The content.
    pub router: Router,
    /// Its TLS, if it has any.
    pub tls: Option<Arc<HttpPort>>,
    /// Is called for each connection without TLS to a listener that accepts TLS too.
    pub on_plain: Option<OnPlain>,
    /// The time limit for the header of a request, and for progress while an answer is sent.
    pub idle_timeout: Duration,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("{address} port {port} cannot be listened on: {source}")]
pub struct BindError {
    /// The configured address.
    pub address: String,
    /// The port.
    pub port: u16,
    /// The error of the system.
    pub source: io::Error,
}

/// Listens on an address or a name. `0.0.0.0` and `::` mean all addresses.
///
/// # Errors
/// The port is in use, or the address does not belong to this machine.
pub fn bind(address: &str, port: u16) -> Result<TcpListener, BindError> {
    let attempt = || {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for at in (address, port).to_socket_addrs()? {
            match zebu_transport::listen(at, BACKLOG) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    attempt().map_err(|source| BindError { address: address.to_owned(), port, source })
}

/// The serving thread. Dropping this value ends the thread.
#[derive(Debug)]
pub struct Running {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Serves these sites, and polls `beside` on the same thread.
    ///
    /// # Errors
    /// The system has no thread or no runtime left.
    pub fn start(
        sites: Vec<Site>,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("zebu-admin-job")
            .build()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let thread =
            std::thread::Builder::new().name("zebu-admin".to_owned()).spawn(move || {
                runtime.block_on(async {
                    tokio::spawn(beside);
                    for site in sites {
                        let Site { listener, router, tls, on_plain, idle_timeout } = site;
                        match tokio::net::TcpListener::from_std(listener) {
                            Ok(listener) => {
                                let tls = tls.map(|port| (port, on_plain));
                                tokio::spawn(accept(listener, router, tls, idle_timeout));
                            }
                            Err(error) => warn!("HTTP is not served: {error}"),
                        }
                    }
                    stopped.notified().await;
                });
                // Async tasks end at once. Blocking work notices the stop by itself.
                runtime.shutdown_background();
            })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    tls: Option<(Arc<HttpPort>, Option<OnPlain>)>,
    idle_timeout: Duration,
) {
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!("a connection over HTTP cannot be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = connections.pop_front()
        {
            // New clients are served; a client that keeps many connections loses them.
            oldest.abort();
        }
        let begun = begin(stream, client, tls.clone(), router.clone(), idle_timeout);
        let serving = tokio::spawn(begun);
        connections.push_back(serving.abort_handle());
    }
}

/// Serves a connection, after its handshake if it has TLS.
async fn begin(
    socket: TcpStream,
    address: SocketAddr,
    tls: Option<(Arc<HttpPort>, Option<OnPlain>)>,
    router: Router,
    idle_timeout: Duration,
) {
    let _ = socket.set_nodelay(true);
    let stream = match tls {
        None => socket.into(),
        Some((tls, on_plain)) => {
            match timeout(idle_timeout.min(HANDSHAKE_TIME_MAX), tls.accept(socket)).await {
                Ok(Ok(stream)) => {
                    if let (false, Some(on_plain)) = (stream.is_secure(), on_plain) {
                        on_plain();
                    }
                    stream
                }
                Ok(Err(error)) => {
                    info!("a connection over HTTP from {address} is not served: {error}");
                    return;
                }
                Err(_) => {
                    debug!(
                        "a connection over HTTP from {address} takes too long for its handshake"
                    );
                    return;
                }
            }
        }
    };
    serve(stream, address, router, idle_timeout).await;
}

async fn serve(stream: HttpStream, address: SocketAddr, router: Router, idle_timeout: Duration) {
    let is_secure = stream.is_secure();
    let subject = stream.client().map(|facts| Arc::from(facts.subject.as_str()));
    let client = Client { address, subject };
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(client.clone());
        let answer = router.clone().call(request);
        async move {
            let mut answer = answer.await;
            if let (true, Ok(answer)) = (is_secure, &mut answer) {
                answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, COME_BACK_SECURELY);
            }
            answer
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle_timeout)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(Patient::new(stream, idle_timeout)), service)
        .await;
    if let Err(error) = served {
        debug!("a connection over HTTP from {address} ends: {error}");
    }
}

/// A stream whose peer must read pending data within a time limit.
struct Patient<S> {
    stream: S,
    patience: Duration,
    /// The time until which the peer must read something.
    deadline: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Patient<S> {
    fn new(stream: S, patience: Duration) -> Self {
        let deadline = Box::pin(tokio::time::sleep(patience));
        Self { stream, patience, deadline, waits: false }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.waits = false;
            return progress;
        }
        if !self.waits {
            self.waits = true;
            let until = Instant::now() + self.patience;
            self.deadline.as_mut().reset(until);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, Shutdown, TcpStream as Blocking};

    use axum::routing::get;

    use super::*;

    /// Far longer than the test should take.
    const DEADLINE: Duration = Duration::from_secs(60);

    fn running(idle_timeout: Duration) -> (Running, SocketAddr) {
        let long = || std::future::ready("x".repeat(32 << 20));
        let router = Router::new().route("/", get(|| async { "hello" })).route("/long", get(long));
        let listener = bind("127.0.0.1", 0).unwrap();
        let at = listener.local_addr().unwrap();
        let site = Site { listener, router, tls: None, on_plain: None, idle_timeout };
        (Running::start(vec![site], std::future::pending()).unwrap(), at)
    }

    fn connect(at: SocketAddr) -> Blocking {
        let stream = Blocking::connect(at).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// All bytes until the peer closes the connection, in any way.
    fn rest(stream: &mut Blocking) -> Vec<u8> {
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut some) {
                Ok(0) => return all,
                Ok(read) => all.extend(&some[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("still open"),
                Err(_) => return all,
            }
        }
    }

    fn ask(at: SocketAddr, header: &str) -> String {
        let mut stream = connect(at);
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        String::from_utf8(rest(&mut stream)).unwrap()
    }

    #[test]
    fn a_header_has_a_size_and_a_number_of_lines() {
        let (_running, at) = running(DEADLINE);
        assert!(ask(at, "X: y\r\n").ends_with("\r\n\r\nhello"));
        let long = format!("X: {}\r\n", "y".repeat(HEADER_BYTES_MAX));
        assert!(ask(at, &long).starts_with("HTTP/1.1 431 "));
        let many = "X: y\r\n".repeat(HEADERS_MAX + 1);
        assert!(ask(at, &many).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn a_header_that_does_not_come_ends_its_connection() {
        let (_running, at) = running(Duration::from_millis(200));
        let mut silent = connect(at);
        let mut slow = connect(at);
        slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").unwrap();
        // An idle connection that was used before.
        let mut kept = connect(at);
        kept.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        rest(&mut silent);
        rest(&mut slow);
        assert!(rest(&mut kept).ends_with(b"hello"));
        assert!(ask(at, "").ends_with("hello"));
    }

    #[test]
    fn whoever_takes_no_answer_loses_the_connection() {
        let (_running, at) = running(Duration::from_millis(200));
        let mut stream = connect(at);
        stream.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        // When the peer has closed the connection, data sent to it cause a reset.
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = stream.shutdown(Shutdown::Both);
        assert!(ask(at, "").ends_with("hello"));
    }

    #[test]
    fn whoever_holds_many_connections_keeps_nobody_out() {
        let (_running, at) = running(DEADLINE);
        let mut held: Vec<Blocking> = (0..CONNECTIONS_MAX + 5).map(|_| connect(at)).collect();
        assert!(ask(at, "").ends_with("hello"));
        assert_eq!(rest(&mut held[0]), b"", "the oldest one ends");
        let mut newest = held.pop().unwrap();
        newest.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        assert!(rest(&mut newest).ends_with(b"hello"));
    }

    #[test]
    fn a_port_that_is_taken_is_said_to_be() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind("127.0.0.1", port).unwrap_err().to_string();
        assert!(error.starts_with(&format!("127.0.0.1 port {port} cannot be listened on: ")));
        bind("no such host", 0).unwrap_err();
    }

    #[test]
    fn the_end_closes_the_port() {
        let (running, at) = running(DEADLINE);
        let mut kept = connect(at);
        assert!(ask(at, "").ends_with("hello"));
        drop(running);
        assert_eq!(rest(&mut kept), b"");
        bind("127.0.0.1", at.port()).unwrap();
    }
}
