//! The `ip` scheme: the client's address, or its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zebu_proto::Id;

use super::{AuthProvider, Claim, Verdict};

/// The `ip` scheme.
pub struct Ip;

/// An address in the original's notation: IPv6 as eight groups, not shortened.
pub fn text(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => {
            let groups = v6.segments().map(|group| format!("{group:x}"));
            groups.join(":")
        }
    }
}

/// Parses an address of an ACL entry. Zones and IPv4 inside IPv6 are not allowed.
fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        if text.contains('.') {
            return None;
        }
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Parses a network of an ACL entry: an address and the number of leading bits that count.
fn network(expression: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (expression, None),
    };
    let address = parse(address)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
    Some((address, bits))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl AuthProvider for Ip {
    fn scheme(&self) -> &str {
        "ip"
    }

    fn authenticate(&self, claim: &Claim<'_>) -> Verdict {
        Ok(vec![Id::new("ip", text(claim.peer))])
    }

    fn is_authenticated(&self) -> bool {
        false
    }

    fn is_valid(&self, id: &str) -> bool {
        network(id).is_some()
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        let (Some(address), Some((network, length))) = (parse(id), network(expression)) else {
            return false;
        };
        address.is_ipv4() == network.is_ipv4()
            && (length == 0 || (bits(address) ^ bits(network)) >> (128 - length) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_match_by_their_leading_bits() {
        for (id, expression, expected) in [
            ("10.11.12.13", "10.11.12.0/24", true),
            ("10.11.13.13", "10.11.12.0/24", false),
            ("10.11.12.13", "10.11.12.13", true),
            ("192.168.0.1", "0.0.0.0/0", true),
            ("127.0.0.1", "127.0.0.1/32", true),
            ("0:0:0:0:0:0:0:1", "::1", true),
            ("2001:db8:0:0:0:0:0:1", "2001:db8::/32", true),
            ("2001:db9:0:0:0:0:0:1", "2001:db8::/32", false),
            ("127.0.0.1", "::/0", false),
            ("127.0.0.1", "nonsense", false),
        ] {
            assert_eq!(Ip.matches(id, expression), expected, "{id} in {expression}");
        }
    }

    #[test]
    fn addresses_are_written_like_the_original_writes_them() {
        assert_eq!(text("::1".parse().unwrap()), "0:0:0:0:0:0:0:1");
        assert_eq!(text("::ffff:127.0.0.1".parse().unwrap()), "127.0.0.1");
    }

    #[test]
    fn impossible_networks_are_refused() {
        for bad in [
            "",
            "10.0.0",
            "10.0.0.0.0",
            "10.0.0.256",
            "10.0.0.0/33",
            "10.0.0.0/",
            "::1%lo",
            "::ffff:10.0.0.1",
            "::/129",
            "a.b.c.d",
        ] {
            assert!(!Ip.is_valid(bad), "{bad}");
        }
    }
}
