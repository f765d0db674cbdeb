//! The beginning of each connection between servers.
//!
//! Every accepted connection of the election port or of a quorum port passes through this module
//! before it is used. So does every outgoing connection before its first byte. Where configured,
//! TLS starts first, and SASL follows. A peer that expects another protocol gets an error message
//! of its own, and costs only its connection.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::time::Instant;
use zebu_auth::certificate::Facts;
use zebu_auth::tls::verify_hostname;
use zebu_proto::quorum::is_auth_packet;
use zebu_proto::{HostPort, ServerId};
use zebu_transport::{PeerError, PeerReader, PeerStream, PeerWriter};

use super::sasl::{self, SaslFault};
use super::sockets::Tuning;
use super::{Net, sockets};

/// The protocol that a peer expects and this server does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Expects {
    /// The first bytes are a TLS handshake.
    #[error("it begins TLS (sslQuorum), which is not switched on here")]
    Tls,
    /// The first bytes are a SASL exchange.
    #[error("it begins SASL (quorum.auth.enableSasl), which is not switched on here")]
    Sasl,
}

/// The connecting server has not introduced itself in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has not introduced itself in time")]
pub(super) struct Late;

/// The certificate does not belong to the server that its holder claims to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Impostor {
    /// The other server has presented no certificate.
    #[error("server {0} has presented no certificate, and zebu.quorum.identity requires one")]
    WithoutCertificate(i64),
    /// The other server is not a member.
    #[error(
        "server {0} is not in the list of members, and zebu.quorum.identity permits members only"
    )]
    Unknown(i64),
    /// The certificate is for another host.
    #[error("it claims to be server {0}: {1}")]
    OfAnother(i64, zebu_auth::tls::HostnameError),
}

/// The protocol that these bytes belong to: the first ones of a connection, or the first ones after
/// its first message.
pub(super) fn expects(first: &[u8]) -> Option<Expects> {
    match first {
        // A handshake record of any version. No id of a server, and no packet of this protocol,
        // begins like that.
        [0x16, 3, ..] => Some(Expects::Tls),
        _ if is_auth_packet(first) == Some(true) => Some(Expects::Sasl),
        _ => None,
    }
}

/// Turns an accepted connection into a stream, after its first bytes have shown its protocol.
///
/// # Errors
/// The errors that [`misfit`] describes; the connection is closed.
pub(super) async fn open(net: &Net, socket: TcpStream) -> io::Result<PeerStream> {
    match &net.tls {
        Some(tls) => Ok(tls.accept(socket, &net.hosts()).await?),
        None => {
            check(&socket, net.sasl.is_some()).await?;
            PeerStream::plain(socket)
        }
    }
}

/// Waits for the introduction of the connecting server, at most until `due`. Everything before has
/// this one deadline.
///
/// # Errors
/// The error contains [`Late`], or is that of `known`.
pub(super) async fn in_time<T>(
    due: Instant,
    known: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, Late);
    tokio::time::timeout_at(due, known).await.map_err(late)?
}

/// Connects to a server at one of these addresses. Also returns the host that has accepted.
///
/// # Errors
/// As above, and those of [`sockets::dial`].
pub(super) async fn reach(
    net: &Net,
    addresses: &[HostPort],
    patience: Duration,
    tuning: Tuning,
) -> io::Result<(PeerStream, String)> {
    let reached = async {
        let (socket, at) = sockets::dial(addresses, net.pace(), patience).await?;
        sockets::tune(&socket, tuning);
        match &net.tls {
            Some(tls) => Ok((tls.connect(socket, &at.host).await?, at.host)),
            None => Ok((PeerStream::plain(socket)?, at.host)),
        }
    };
    tokio::time::timeout(patience, reached).await.map_err(|_| io::ErrorKind::TimedOut)?
}

/// Both directions of a connection, and the received bytes.
pub(super) struct Halves {
    pub(super) from: PeerReader,
    pub(super) to: PeerWriter,
    pub(super) received: BytesMut,
}

impl From<PeerStream> for Halves {
    fn from(stream: PeerStream) -> Self {
        let (from, to) = stream.into_split();
        Self { from, to, received: BytesMut::new() }
    }
}

impl Halves {
    /// Authenticates the connecting server with SASL, if SASL is enabled.
    ///
    /// # Errors
    /// SASL is required, and the other server is not authenticated; the connection is closed.
    pub(super) async fn examine(&mut self, net: &Net) -> io::Result<()> {
        let Some(sasl) = &net.sasl else { return Ok(()) };
        let hosts = net.hosts();
        sasl::examine(sasl, &hosts, &mut self.from, &mut self.to, &mut self.received).await
    }

    /// Authenticates this server with SASL, if that is configured. `host`: the host that it has
    /// connected to.
    ///
    /// # Errors
    /// The other server refuses this server, does not prove its identity, disconnects, or is silent
    /// for too long.
    pub(super) async fn prove(
        &mut self,
        net: &Net,
        host: &str,
        patience: Duration,
    ) -> io::Result<()> {
        let Some(sasl) = net.sasl.as_ref().filter(|sasl| sasl.authenticates) else {
            return Ok(());
        };
        let said = sasl::prove(sasl, host, &mut self.from, &mut self.to, &mut self.received);
        tokio::time::timeout(patience, said).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

/// Examines the first bytes of a connection without consuming them.
async fn check(socket: &TcpStream, has_sasl: bool) -> io::Result<()> {
    let mut first = [0; 8];
    let count = socket.peek(&mut first).await?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let expects = expects(&first[..count]).filter(|expects| !has_sasl || *expects != Expects::Sasl);
    expects.map_or(Ok(()), |expects| Err(io::Error::other(expects)))
}

/// Checks that a certificate belongs to the server that its holder claims to be, if the check is
/// enabled.
///
/// # Errors
/// The error contains [`Impostor`].
pub(super) fn vouch(net: &Net, server: ServerId, certificate: Option<&Facts>) -> io::Result<()> {
    if !net.config.tls.as_ref().is_some_and(|tls| tls.binds_ids) {
        return Ok(());
    }
    let hosts = net.members.lock().hosts(|member| member.id == server);
    is_of(server, &hosts, certificate)
        .map_err(|impostor| io::Error::new(io::ErrorKind::PermissionDenied, impostor))
}

fn is_of(server: ServerId, hosts: &[String], certificate: Option<&Facts>) -> Result<(), Impostor> {
    let facts = certificate.ok_or(Impostor::WithoutCertificate(server.0))?;
    if hosts.is_empty() {
        return Err(Impostor::Unknown(server.0));
    }
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    verify_hostname(facts, &hosts).map_err(|error| Impostor::OfAnother(server.0, error))
}

/// Why a connection ended, if its peer expected another protocol or is not accepted as a member.
pub(super) fn misfit(error: &io::Error) -> Option<String> {
    let cause = error.get_ref()?;
    let expects = cause.downcast_ref::<Expects>().map(Expects::to_string);
    let refused = || cause.downcast_ref::<PeerError>().map(PeerError::to_string);
    let impostor = || cause.downcast_ref::<Impostor>().map(Impostor::to_string);
    let sasl = || cause.downcast_ref::<SaslFault>().map(SaslFault::to_string);
    let late = || cause.downcast_ref::<Late>().map(Late::to_string);
    expects.or_else(refused).or_else(impostor).or_else(sasl).or_else(late)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use zebu_auth::store::{PasswordSource, StoreFile};
    use zebu_proto::quorum::InitialMessage;

    use super::*;

    /// Recorded connections of servers with SASL are refused with a specific error: on the election
    /// port after the first message, on the quorum port at once.
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
    fn a_certificate_is_that_of_one_server() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures/server.pem");
        let store = StoreFile { path: path.into(), password: PasswordSource::None };
        let facts = Facts::of(&store.trusted().unwrap()[0]).unwrap();
        let verdict = |hosts: &[&str], facts| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            is_of(ServerId(3), &hosts, facts).map_err(|impostor| impostor.to_string())
        };
        let said = |words: &str| Err(words.to_owned());
        assert_eq!(verdict(&["zk1.example.org"], Some(&facts)), Ok(()));
        assert_eq!(verdict(&["10.0.0.1", "127.0.0.1"], Some(&facts)), Ok(()));
        assert_eq!(
            verdict(&["zk2.example.org"], Some(&facts)),
            said(
                "it claims to be server 3: the certificate is for zk1.example.org, *.wild.example.org, localhost, \
                 127.0.0.1, ::1 and not for zk2.example.org"
            )
        );
        assert_eq!(
            verdict(&[], Some(&facts)),
            said(
                "server 3 is not in the list of members, and zebu.quorum.identity permits members only"
            )
        );
        assert_eq!(
            verdict(&["zk1.example.org"], None),
            said("server 3 has presented no certificate, and zebu.quorum.identity requires one")
        );
    }

    #[test]
    fn protected_connections_are_known_by_their_first_bytes() {
        // A ClientHello of TLS 1.2 or 1.3, and the first packet of a SASL client.
        assert_eq!(expects(&[0x16, 3, 1, 2, 0, 1, 0, 1]), Some(Expects::Tls));
        assert_eq!(expects(&[0x5f, 0x24, 0x35, 1, 0x35, 1, 0xed, 0xcc]), Some(Expects::Sasl));
        // The election's protocol versions, a bare id, and FOLLOWERINFO.
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
