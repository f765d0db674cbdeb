//! What a connection from another server begins with.
//!
//! Whatever is accepted on the election port or on a quorum port passes here before any of it is
//! used. This is the place for TLS to take over the socket and for SASL to have its packets; without
//! them, a peer that expects them is told from noise, and costs nothing but its connection.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use zebu_proto::quorum::is_auth_packet;

/// What a peer expects that this server does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Expects {
    /// The first bytes are those of a TLS handshake.
    #[error("it begins TLS (sslQuorum), which is not part of this version")]
    Tls,
    /// The first bytes are those of a SASL exchange.
    #[error("it begins SASL (quorum.auth.enableSasl), which is not part of this version")]
    Sasl,
}

/// What these first bytes of a connection, or of what follows its first message, ask for.
pub(super) fn expects(first: &[u8]) -> Option<Expects> {
    match first {
        // A handshake record of any version: no id of a server and no packet of ours begins so.
        [0x16, 3, ..] => Some(Expects::Tls),
        _ if is_auth_packet(first) == Some(true) => Some(Expects::Sasl),
        _ => None,
    }
}

/// Waits for the first bytes of a connection, which stay where they are.
///
/// # Errors
/// [`Expects`] as what the error holds; the other end is gone, or silent for too long.
pub(super) async fn check(stream: &TcpStream, patience: Duration) -> io::Result<()> {
    let mut first = [0; 8];
    let peeked = tokio::time::timeout(patience, stream.peek(&mut first));
    let count = peeked.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    expects(&first[..count]).map_or(Ok(()), |expects| Err(io::Error::other(expects)))
}

/// Why a connection ended, if its peer expected what this server does not do.
pub(super) fn misfit(error: &io::Error) -> Option<Expects> {
    error.get_ref()?.downcast_ref().copied()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use zebu_proto::quorum::InitialMessage;

    use super::*;

    /// The recorded dials of servers with SASL: they are refused by name, on the election port behind the first
    /// message, on the quorum port at once.
    #[test]
    fn servers_with_sasl_are_known_on_both_ports() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/quorum-captures");
        let text = std::fs::read_to_string(format!("{folder}/10-sasl-digest-md5.txt")).unwrap();
        let (mut elections, mut quorums) = (0, 0);
        for connection in text.split("\n@ ").skip(1) {
            let mut lines = connection.lines();
            let is_election = lines.next().unwrap().contains(" election ");
            let mut said = BytesMut::new();
            while let Some(line) = lines.next() {
                let Some(message) = lines.next().filter(|_| line.starts_with('>')) else {
                    continue;
                };
                let digits =
                    message.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
                said.extend(digits.map(|two| u8::from_str_radix(two, 16).unwrap()));
            }
            if is_election {
                assert_eq!(expects(&said), None);
                InitialMessage::decode(&mut said).unwrap().unwrap();
                elections += 1;
            } else {
                quorums += 1;
            }
            assert_eq!(expects(&said[..8]), Some(Expects::Sasl));
        }
        assert_eq!((elections, quorums), (5, 2));
    }

    #[test]
    fn protected_connections_are_known_by_their_first_bytes() {
        // A ClientHello of TLS 1.2 or 1.3, and the first packet of a SASL client.
        assert_eq!(expects(&[0x16, 3, 1, 2, 0, 1, 0, 1]), Some(Expects::Tls));
        assert_eq!(expects(&[0x5f, 0x24, 0x35, 1, 0x35, 1, 0xed, 0xcc]), Some(Expects::Sasl));
        // The election's protocol versions, an id alone, and FOLLOWERINFO.
        for first in [
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff],
            [0, 0, 0, 0, 0, 0, 0, 22],
            [0, 0, 0, 11, 0, 0, 0, 0],
        ] {
            (1..=8).for_each(|count| assert_eq!(expects(&first[..count]), None));
        }
    }
}
