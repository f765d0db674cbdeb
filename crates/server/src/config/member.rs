//! `server.N=...` lines: enough of them to tell a standalone server from an ensemble and to find the client port.

/// A parsed `server.N` value.
///
/// Source: `QuorumPeer.QuorumServer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// N.
    pub id: i64,
    /// Follows without a vote.
    pub is_observer: bool,
    /// Where it serves clients, if the line says so.
    pub client: Option<ClientAddress>,
}

/// `[host:]port` of a member's client part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    /// `None` is every address.
    pub host: Option<String>,
    /// The port.
    pub port: u16,
}

/// What a member line looks like.
const FORM: &str = "expected host:port:port[:participant|observer][;[host:]port]";

/// Parses `server.<id>=<value>`.
///
/// # Errors
/// A text that says what was expected.
pub fn parse(id: &str, value: &str) -> Result<Member, String> {
    let id = id.parse().map_err(|_| format!("server id {id} is not a number"))?;
    let mut parts = value.split(';').map(str::trim);
    let servers = parts.next().unwrap_or_default();
    let client = match parts.next() {
        None | Some("") => None,
        Some(text) => Some(client_address(text).ok_or_else(|| FORM.to_owned())?),
    };
    // The second part is the TLS port of newer versions: checked, not used.
    for secure in parts {
        client_address(secure).ok_or_else(|| FORM.to_owned())?;
    }
    let mut is_observer = false;
    for address in servers.split('|').map(str::trim) {
        let fields = split_host(address).ok_or_else(|| FORM.to_owned())?;
        let (ports, kind) = match fields.as_slice() {
            [_, quorum, election] => ([quorum, election], None),
            [_, quorum, election, kind] => ([quorum, election], Some(*kind)),
            _ => return Err(FORM.to_owned()),
        };
        if ports.iter().any(|port| port.parse::<u16>().is_err()) {
            return Err(FORM.to_owned());
        }
        match kind {
            None => {}
            Some(kind) if kind.eq_ignore_ascii_case("participant") => is_observer = false,
            Some(kind) if kind.eq_ignore_ascii_case("observer") => is_observer = true,
            Some(kind) => return Err(format!("Unrecognised peertype: {kind}")),
        }
    }
    Ok(Member { id, is_observer, client })
}

fn client_address(text: &str) -> Option<ClientAddress> {
    let fields = split_host(text)?;
    let (host, port) = match fields.as_slice() {
        [port] => (None, port),
        [host, port] => (Some((*host).to_owned()).filter(|host| !host.is_empty()), port),
        _ => return None,
    };
    Some(ClientAddress { host, port: port.parse().ok()? })
}

/// Splits at colons, except those of an IPv6 address in brackets, which loses the brackets.
fn split_host(text: &str) -> Option<Vec<&str>> {
    let Some(bracketed) = text.strip_prefix('[') else { return Some(text.split(':').collect()) };
    let (host, rest) = bracketed.split_once(']')?;
    let mut fields = vec![host];
    if !rest.is_empty() {
        fields.extend(rest.strip_prefix(':')?.split(':'));
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, is_observer: bool, client: Option<(Option<&str>, u16)>) {
        let client =
            client.map(|(host, port)| ClientAddress { host: host.map(str::to_owned), port });
        assert_eq!(parse("1", value), Ok(Member { id: 1, is_observer, client }), "{value}");
    }

    #[test]
    fn the_usual_forms() {
        check("localhost:2888:3888", false, None);
        check("localhost:2888:3888;2181", false, Some((None, 2181)));
        check("localhost:2888:3888:participant;0.0.0.0:2181", false, Some((Some("0.0.0.0"), 2181)));
        check("localhost:2888:3888:OBSERVER;2181", true, Some((None, 2181)));
        check("[::1]:2888:3888;[2001:db8::1]:2181", false, Some((Some("2001:db8::1"), 2181)));
        check("a:1:2|b:3:4;2181", false, Some((None, 2181)));
        check("a:1:2;2181;2281", false, Some((None, 2181)));
    }

    #[test]
    fn bad_ones_say_what_was_expected() {
        for value in [
            "",
            "a",
            "a:1",
            "a:1:b",
            "a:1:2:3:4",
            "a:1:2;x",
            "a:1:2;b:c:1",
            "[::1:2888:3888",
            "a:1:70000",
        ] {
            assert!(parse("1", value).is_err(), "{value}");
        }
        assert_eq!(parse("1", "a:1:2:voter").unwrap_err(), "Unrecognised peertype: voter");
        assert_eq!(parse("x", "a:1:2").unwrap_err(), "server id x is not a number");
    }
}
