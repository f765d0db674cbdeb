//! Hosts and ports of servers as written by users. This module resolves no names.

use std::net::IpAddr;

use crate::HostPort;

impl HostPort {
    /// The address of `host` and `port`.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Parses `host:port`, with an IPv6 literal in brackets; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        match split(text)?.as_slice() {
            [host, port] => Some(Self::new(*host, port.parse().ok()?)),
            _ => None,
        }
    }

    /// The host as an address, if it is a literal.
    pub fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Whether the host is a wildcard address, to which nobody can connect.
    pub fn is_wildcard(&self) -> bool {
        self.literal().is_some_and(|address| address.is_unspecified())
    }

    /// Whether both are the same address, without resolving names: literals are compared by value,
    /// names without regard to case.
    pub fn same_place(&self, other: &Self) -> bool {
        self.port == other.port && same_host(&self.host, &other.host)
    }
}

/// Whether two hosts are equal, without resolving names.
pub fn same_host(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || matches!((a.parse::<IpAddr>(), b.parse::<IpAddr>()), (Ok(a), Ok(b)) if a == b)
}

/// Splits a text at its colons, except for those of a bracketed IPv6 literal at its start, whose
/// brackets are removed. Trailing empty parts are dropped. `None` if a bracket is not closed, or
/// followed by anything but a colon.
/// Source: `ConfigUtils.getHostAndPort`.
pub fn split(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = Some(text);
    if let Some(bracketed) = text.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']')?;
        parts.push(host);
        rest = match after {
            "" => None,
            after => Some(after.strip_prefix(':').filter(|rest| !rest.is_empty())?),
        };
    }
    parts.extend(rest.into_iter().flat_map(|rest| rest.split(':')));
    while parts.len() > 1 && parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_colons_have_brackets() {
        for text in ["a:1", "127.0.0.1:23021", "[::1]:2888", "[2001:db8::1]:65535", ":7"] {
            assert_eq!(HostPort::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(HostPort::parse("[::1]:2888"), Some(HostPort::new("::1", 2888)));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in
            ["", "a", "a:", "a:b", "a:1:2", "a:70000", "a:-1", "[::1", "[::1]", "[::1]:", "[::1]x1"]
        {
            assert_eq!(HostPort::parse(text), None, "{text}");
        }
    }

    #[test]
    fn literals_are_compared_by_value_and_names_without_case() {
        let same =
            |a: &str, b: &str| HostPort::parse(a).unwrap().same_place(&HostPort::parse(b).unwrap());
        assert!(same("[::1]:1", "[0:0:0:0:0:0:0:1]:1"));
        assert!(same("Zoo.example:1", "zoo.EXAMPLE:1"));
        assert!(!same("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!same("localhost:1", "127.0.0.1:1"));
        assert!(HostPort::new("0.0.0.0", 1).is_wildcard() && HostPort::new("::", 1).is_wildcard());
        assert!(!HostPort::new("127.0.0.1", 1).is_wildcard());
    }
}
