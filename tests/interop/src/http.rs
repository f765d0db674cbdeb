//! An HTTP client for tests.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use anyhow::{Context as _, Result};

use crate::server::PATIENCE;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header, including the first line.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// The body is not JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("{}\n{}", self.head, self.text()))
    }

    /// A header field, by name without regard to case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends a request to a port on this machine. `header`: further lines, each with its line end.
///
/// # Errors
/// There is no answer.
pub fn ask(port: u16, method: &str, path: &str, header: &str) -> Result<Answer> {
    ask_at((Ipv4Addr::LOCALHOST, port).into(), method, path, header)
}

/// As above, at any address.
///
/// # Errors
/// There is no answer.
pub fn ask_at(at: SocketAddr, method: &str, path: &str, header: &str) -> Result<Answer> {
    send(at, method, path, header, b"")
}

/// Posts a body to a port on this machine.
///
/// # Errors
/// There is no answer.
pub fn post(port: u16, path: &str, header: &str, body: &[u8]) -> Result<Answer> {
    let header = format!("{header}Content-Length: {}\r\n", body.len());
    send((Ipv4Addr::LOCALHOST, port).into(), "POST", path, &header, body)
}

fn send(at: SocketAddr, method: &str, path: &str, header: &str, body: &[u8]) -> Result<Answer> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // With HTTP/1.0 the body ends with the connection and has no chunks.
    write!(stream, "{method} {path} HTTP/1.0\r\n{header}\r\n")?;
    stream.write_all(body)?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    let end = all.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("no header")?;
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Answer { status, head, body: all.split_off(end + 4) })
}

/// Gets a page.
///
/// # Errors
/// There is no answer.
pub fn get(port: u16, path: &str) -> Result<Answer> {
    ask(port, "GET", path, "")
}
