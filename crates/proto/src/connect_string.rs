//! Connect strings: the servers a client may use, and its chroot.

use std::fmt;
use std::str::FromStr;

use crate::path::{self, PathError};

/// The port of servers without a port in the connect string.
pub const DEFAULT_PORT: u16 = 2181;

/// A server's host and port, as written by users.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    /// The client port.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// `host[:port][,host[:port]...][/chroot]`.
///
/// Spaces around the commas are allowed; the port defaults to [`DEFAULT_PORT`]; IPv6 addresses
/// stand in brackets. Source: `ConnectStringParser`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectString {
    /// At least one.
    pub servers: Vec<HostPort>,
    /// The chroot; `None` for the real root.
    pub chroot: Option<String>,
}

/// Why a connect string is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectStringError {
    /// It names no server.
    #[error("connect string names no server")]
    Empty,
    /// A server without a host.
    #[error("server without a host: {0:?}")]
    Host(String),
    /// An invalid port.
    #[error("port is not a number from 1 to 65535: {0:?}")]
    Port(String),
    /// More than one colon outside of brackets.
    #[error("address needs brackets: {0:?}\nhint: write [::1]:2181")]
    Brackets(String),
    /// The chroot is not a valid path.
    #[error("chroot {chroot:?}: {source}")]
    Chroot {
        /// The chroot.
        chroot: String,
        /// The error in it.
        source: PathError,
    },
}

impl FromStr for ConnectString {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<Self, ConnectStringError> {
        let (servers, chroot) = match text.find('/') {
            Some(at) => (&text[..at], Some(&text[at..])),
            None => (text, None),
        };
        let chroot = chroot.map(str::trim_end).filter(|chroot| *chroot != "/");
        if let Some(chroot) = chroot {
            path::validate(chroot).map_err(|source| ConnectStringError::Chroot {
                chroot: chroot.to_owned(),
                source,
            })?;
        }
        let servers: Vec<HostPort> = servers
            .split(',')
            .map(str::trim)
            .filter(|server| !server.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        if servers.is_empty() {
            return Err(ConnectStringError::Empty);
        }
        Ok(Self { servers, chroot: chroot.map(str::to_owned) })
    }
}

impl FromStr for HostPort {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<Self, ConnectStringError> {
        let bad_host = || ConnectStringError::Host(text.to_owned());
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(bad_host)?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(bad_host()),
            }
        } else {
            match text.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err(ConnectStringError::Brackets(text.to_owned()));
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err(bad_host());
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => return Err(ConnectStringError::Port(port.to_owned())),
                Ok(port) => port,
            },
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.servers.iter().enumerate() {
            write!(f, "{}{server}", if index > 0 { "," } else { "" })?;
        }
        f.write_str(self.chroot.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, ConnectStringError> {
        text.parse::<ConnectString>().map(|parsed| parsed.to_string())
    }

    /// CST-01, CST-04, CST-07.
    #[test]
    fn forms_that_are_understood() {
        for (text, meaning) in [
            ("localhost", "localhost:2181"),
            ("a:1,b:2", "a:1,b:2"),
            ("a:1, b:2 ,c", "a:1,b:2,c:2181"),
            ("127.0.0.1:2181/", "127.0.0.1:2181"),
            ("a:1,b/app/super", "a:1,b:2181/app/super"),
            ("[::1]:2182,[fe80::1]/x", "[::1]:2182,[fe80::1]:2181/x"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(meaning), "{text}");
        }
    }

    #[test]
    fn forms_that_are_refused() {
        assert_eq!(parsed(""), Err(ConnectStringError::Empty));
        assert_eq!(parsed("/chroot"), Err(ConnectStringError::Empty));
        assert!(matches!(parsed("a:0"), Err(ConnectStringError::Port(_))));
        assert!(matches!(parsed("a:99999"), Err(ConnectStringError::Port(_))));
        assert!(matches!(parsed("::1:2181"), Err(ConnectStringError::Brackets(_))));
        assert!(matches!(parsed(":2181"), Err(ConnectStringError::Host(_))));
        assert!(matches!(parsed("[::1"), Err(ConnectStringError::Host(_))));
        assert!(matches!(parsed("a:1/b/"), Err(ConnectStringError::Chroot { .. })));
        assert!(matches!(parsed("a:1//b"), Err(ConnectStringError::Chroot { .. })));
    }
}
