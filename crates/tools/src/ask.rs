//! One request to one port of a server: a four-letter word, a page over HTTP, or a check that the
//! port is open.
//!
//! Every request has one deadline as a whole, and an answer has a maximum length. So a server that
//! sends a byte at a time, or bytes without end, costs the caller neither more time nor more
//! memory.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use zebu_credentials::{Dialer, Wire};
use zebu_proto::HostPort;

/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Its status.
    pub(crate) status: u16,
    /// The header, without its first line.
    head: String,
    /// The body.
    pub(crate) body: String,
}

impl Page {
    /// A line of the header, whatever the case of its name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// Connects to the first address of the host that answers.
pub(crate) fn connect(at: &HostPort, timeout: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + timeout;
    let mut failure = None;
    for address in (at.host.as_str(), at.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address")))
}

/// Asks a four-letter word.
pub(crate) fn word(
    dialer: &Dialer,
    at: &HostPort,
    word: &str,
    timeout: Duration,
) -> io::Result<String> {
    assert_eq!(word.len(), 4, "{word} does not have four letters");
    exchange(dialer, at, word, timeout).map(lossy)
}

/// Asks for a page.
pub(crate) fn get(
    dialer: &Dialer,
    at: &HostPort,
    path: &str,
    timeout: Duration,
) -> io::Result<Page> {
    ask_page(dialer, at, &format!("GET {path}"), "", timeout)
}

/// Sends a POST request. `headers`: header lines, each with its line end.
pub(crate) fn post(
    dialer: &Dialer,
    at: &HostPort,
    path: &str,
    headers: &str,
    timeout: Duration,
) -> io::Result<Page> {
    ask_page(
        dialer,
        at,
        &format!("POST {path}"),
        &format!("{headers}Content-Length: 0\r\n"),
        timeout,
    )
}

fn ask_page(
    dialer: &Dialer,
    at: &HostPort,
    what: &str,
    headers: &str,
    timeout: Duration,
) -> io::Result<Page> {
    let host = if at.host.contains(':') { format!("[{}]", at.host) } else { at.host.clone() };
    // With this version of HTTP, the end of the connection ends the body, and there are no chunks.
    let request = format!("{what} HTTP/1.0\r\nHost: {host}:{}\r\n{headers}\r\n", at.port);
    page(&exchange(dialer, at, &request, timeout)?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "this is no answer of HTTP"))
}

fn page(answer: &[u8]) -> Option<Page> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let (first, head) = head.split_once("\r\n").unwrap_or((&head, ""));
    let mut words = first.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    let status = words.next()?.parse().ok()?;
    Some(Page { status, head: head.to_owned(), body: lossy(answer[end + 4..].to_vec()) })
}

/// Connects to the first address of the host that answers, and performs the TLS handshake if there
/// is one.
fn enter(dialer: &Dialer, at: &HostPort, timeout: Duration) -> io::Result<Wire> {
    let deadline = Instant::now() + timeout;
    dialer.enter(connect(at, timeout)?, &at.host, deadline)
}

/// Sends the request, and returns all bytes until the connection ends.
pub(crate) fn exchange(
    dialer: &Dialer,
    at: &HostPort,
    request: &str,
    timeout: Duration,
) -> io::Result<Vec<u8>> {
    let mut stream = enter(dialer, at, timeout)?;
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return Ok(answer),
            Ok(read) => answer.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            // A server that closes with unread data resets the connection. The received answer
            // counts.
            Err(_) if !answer.is_empty() => return Ok(answer),
            Err(error) => return Err(error),
        }
        if answer.len() > ANSWER_BYTES_MAX {
            let text = format!("the answer is longer than {ANSWER_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late()) } else { Ok(left) }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::BufRead as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Answers each connection with what `answer` makes of the first bytes, until the listener's
    /// connections end.
    pub(crate) fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> HostPort {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut asked = io::BufReader::new(stream.try_clone().unwrap());
                let asked = asked.fill_buf().unwrap_or_default();
                let answer = answer(&String::from_utf8_lossy(asked));
                stream.write_all(answer.as_bytes()).ok();
            }
        });
        HostPort::new("127.0.0.1", at.port())
    }

    #[test]
    fn words_and_pages_are_asked() {
        let at = serve(|asked| match asked {
            "ruok" => "imok".to_owned(),
            _ => "HTTP/1.1 200 OK\r\nDate: now\r\n\r\n{}".to_owned(),
        });
        let dialer = Dialer::plain();
        assert_eq!(word(&dialer, &at, "ruok", PATIENCE).unwrap(), "imok");
        let page = get(&dialer, &at, "/commands", PATIENCE).unwrap();
        assert_eq!((page.status, page.header("date"), &*page.body), (200, Some("now"), "{}"));
    }

    #[test]
    fn what_is_no_page_is_a_fault() {
        for text in ["", "imok", "HTTP/1.1\r\n\r\n", "HTTP/1.1 x\r\n\r\n"] {
            assert_eq!(page(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_server_that_drips_is_left_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = HostPort::new("127.0.0.1", listener.local_addr().unwrap().port());
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Ends when the asker has gone.
            while stream.write_all(b"x").is_ok() {
                thread::yield_now();
            }
        });
        let failure = word(&Dialer::plain(), &at, "mntr", Duration::from_millis(200)).unwrap_err();
        let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::InvalidData];
        assert!(kinds.contains(&failure.kind()), "{failure}");
        served.join().unwrap();
    }
}
