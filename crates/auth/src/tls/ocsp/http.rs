//! The part of HTTP that a responder needs: one request and one answer for each connection.

use std::fmt;

use super::{ResponderFault, UrlFault};

/// Maximum bytes of an answer, head and body.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of a responder's address.
const URL_BYTES_MAX: usize = 1024;

/// The address of a responder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    url: String,
    host: String,
    port: u16,
    /// The path, from the first slash.
    path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Place {
    /// Parses the address of a responder.
    ///
    /// # Errors
    /// The fault, worded to follow "its responder such and such".
    pub(super) fn parse(url: &str) -> Result<Self, UrlFault> {
        const NONE: UrlFault = UrlFault::Malformed;
        if url.len() > URL_BYTES_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NONE);
        }
        let (scheme, rest) = url.split_once("://").ok_or(NONE)?;
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(UrlFault::Scheme);
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| NONE)?),
            _ => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['@', '?', '#']) {
            return Err(NONE);
        }
        let (url, host, path) = (url.to_owned(), host.to_owned(), path.to_owned());
        Ok(Self { url, host, port, path })
    }

    /// The host and the port to connect to.
    pub fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// The bytes of the HTTP request.
    pub fn request(&self, body: &[u8]) -> Vec<u8> {
        let Self { host, port, path, .. } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let mut bytes = format!(
            "POST {path} HTTP/1.0\r\nHost: {host}:{port}\r\nContent-Type: application/ocsp-request\r\n\
             Accept: application/ocsp-response\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

/// The body of an answer; `None` if more bytes are needed. `is_over`: the connection has ended.
///
/// # Errors
/// The bytes are no answer that is accepted.
pub fn body(bytes: &[u8], is_over: bool) -> Result<Option<&[u8]>, ResponderFault> {
    const BROKEN: ResponderFault = ResponderFault::NotHttp;
    if bytes.len() > ANSWER_BYTES_MAX {
        return Err(ResponderFault::TooLong);
    }
    let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if is_over { Err(BROKEN) } else { Ok(None) };
    };
    let (head, body) = (&bytes[..at], &bytes[at + 4..]);
    let head = std::str::from_utf8(head).map_err(|_| BROKEN)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let mut words = status.split(' ');
    if !words.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err(BROKEN);
    }
    match words.next() {
        Some("200") => {}
        Some(other) if other.len() == 3 && other.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(other.parse().map_or(BROKEN, ResponderFault::HttpStatus));
        }
        _ => return Err(BROKEN),
    }
    let mut length = None;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { return Err(BROKEN) };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>().map_err(|_| BROKEN)?);
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(ResponderFault::InPieces);
        }
    }
    match length {
        Some(length) if length > ANSWER_BYTES_MAX => Err(ResponderFault::TooLong),
        Some(length) if body.len() >= length => Ok(Some(&body[..length])),
        Some(_) if is_over => Err(ResponderFault::Short),
        None if is_over => Ok(Some(body)),
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_responders_are_read() {
        let place = Place::parse("http://ocsp.example.org/a?b").unwrap();
        assert_eq!(place.address(), ("ocsp.example.org", 80));
        assert_eq!(place.to_string(), "http://ocsp.example.org/a?b");
        let place = Place::parse("HTTP://[::1]:8888").unwrap();
        assert_eq!(place.address(), ("::1", 8888));
        let request = place.request(b"body");
        assert!(request.starts_with(b"POST / HTTP/1.0\r\nHost: [::1]:8888\r\n"));
        assert!(request.ends_with(b"Content-Length: 4\r\nConnection: close\r\n\r\nbody"));
        for wrong in
            ["", "ocsp", "https://a/", "http://", "http://a:b/", "http://a\r\nX: y/", "http://u@h/"]
        {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_whole_or_refused() {
        let answer = b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabcd";
        assert_eq!(body(answer, false), Ok(Some(&b"abc"[..])));
        for end in 0..answer.len() - 1 {
            assert_eq!(body(&answer[..end], false), Ok(None), "{end}");
            assert!(body(&answer[..end], true).is_err(), "{end}");
        }
        let open = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nabc";
        assert_eq!(body(open, false), Ok(None));
        assert_eq!(body(open, true), Ok(Some(&b"abc"[..])));
        let cases: [(&[u8], &str); 6] = [
            (b"HTTP/1.0 404 Not Found\r\n\r\n", "answers with HTTP status 404"),
            (b"HTTP/1.0 302 Found\r\nLocation: x\r\n\r\n", "answers with HTTP status 302"),
            (b"SSH-2.0-x\r\n\r\n", "sends no answer of HTTP"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "in pieces"),
            (b"HTTP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n", "above 65536 bytes"),
            (&[b'a'; ANSWER_BYTES_MAX + 1], "above 65536 bytes"),
        ];
        for (bytes, why) in cases {
            let error = body(bytes, true).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
