//! SASL between servers: the connecting server proves its password or presents a Kerberos ticket,
//! and the accepting server proves its identity, too.
//!
//! Both sides read from the received bytes, and leave the bytes after the exchange for the next
//! protocol. The caller limits the time.
//!
//! Sources: `SaslQuorumAuthServer`, `SaslQuorumAuthLearner`, `QuorumAuth`,
//! `SaslQuorumServerCallbackHandler`.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tracing::info;
use zebu_auth::digest_md5::{self, MESSAGE_BYTES_MAX, NONCE_BYTES, QUORUM};
use zebu_auth::gssapi::{self, Acceptor, Context, Initiator, TOKEN_BYTES_MAX, Target};
use zebu_auth::jaas::DigestLogin;
use zebu_auth::kerberos::Principal;
use zebu_auth::secret::Secret;
use zebu_jute::Encode as _;
use zebu_proto::quorum::{AuthPacket, AuthStatus, is_auth_packet};

use crate::config::{PeerLogin, PeerPrincipal, PeerSaslConfig, PeerUsers};
use crate::error::StartError;
use crate::sasl_mechanisms::{acceptor, gss};

/// Number of tokens of one side after which the other side gives up, as in the original.
const ROUNDS_MAX: usize = 5;

/// How this server authenticates to other servers, and other servers to it.
#[derive(Debug)]
pub(super) struct PeerSasl {
    own: Own,
    others: Others,
    /// Its identity towards the servers to which it connects.
    pub(super) authenticates: bool,
    is_required: bool,
}

#[derive(Debug)]
enum Own {
    Digest { user: String, password: Secret },
    Kerberos { initiator: Initiator, servers: PeerPrincipal, turn: Arc<Mutex<()>> },
}

#[derive(Debug)]
enum Others {
    Digest(DigestLogin),
    Kerberos(Acceptor),
}

impl PeerSasl {
    /// SASL as configured, with the Kerberos library if a mechanism needs it.
    ///
    /// # Errors
    /// [`StartError::Kerberos`].
    pub(super) fn new(config: PeerSaslConfig) -> Result<Self, StartError> {
        let PeerSaslConfig { own, others, authenticates, is_required } = config;
        let own = match own {
            PeerLogin::Digest { user, password } => Own::Digest { user, password },
            PeerLogin::Kerberos { login, servers } => {
                let initiator = gss(&login)?.initiator(login.login);
                Own::Kerberos { initiator, servers, turn: Arc::default() }
            }
        };
        let others = match others {
            PeerUsers::Digest(users) => Others::Digest(users),
            PeerUsers::Kerberos(service) => Others::Kerberos(acceptor(gss(&service)?, &service)?),
        };
        Ok(Self { own, others, authenticates, is_required })
    }
}

/// The Kerberos service of a server on this host.
fn target(servers: &PeerPrincipal, dialled: &str) -> Target {
    let PeerPrincipal { service, host, realm } = servers;
    let host = host.clone().unwrap_or_else(|| dialled.to_lowercase());
    match realm {
        Some(realm) => Target::Principal(format!("{service}/{host}@{realm}")),
        None => Target::Service { service: service.clone(), host },
    }
}

/// Why two servers cannot authenticate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SaslFault {
    /// The connecting server does not begin SASL.
    #[error("it does not authenticate, and quorum.auth.serverRequireSasl requires it")]
    Absent,
    /// A token is invalid.
    #[error("SASL fails: {0}")]
    Failed(#[from] digest_md5::Failure),
    /// A Kerberos token is invalid, or there is no ticket.
    #[error("SASL fails: {0}")]
    Kerberos(#[from] gssapi::Failure),
    /// The connecting server has a ticket, but its principal is not that of a server of the
    /// ensemble.
    #[error("SASL fails: {0:?} belongs to no host in the list of members")]
    Stranger(String),
    /// The connecting server asks to act as another user than the authenticated one.
    #[error("SASL fails: {0:?} asks to act as another user")]
    Other(String),
    /// The accepting server has refused.
    #[error(
        "it refuses the password or the ticket of this server (quorum.auth.learner.saslLoginContext)"
    )]
    Refused,
    /// The message does not belong to an exchange.
    #[error("SASL fails: {0}")]
    Packet(&'static str),
}

impl From<SaslFault> for io::Error {
    fn from(fault: SaslFault) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, fault)
    }
}

/// The connecting server's side of one exchange.
enum Dialler {
    Digest(digest_md5::Client),
    Kerberos(Box<gssapi::Client<Context>>, Arc<Mutex<()>>),
}

impl Dialler {
    fn new(own: &Own, host: &str) -> io::Result<Self> {
        match own {
            Own::Digest { user, password } => {
                let (user, password) = (user.clone(), password.clone());
                Ok(Self::Digest(digest_md5::Client::new(QUORUM, user, password, random()?)))
            }
            Own::Kerberos { initiator, servers, turn } => {
                let context = initiator.begin(&target(servers, host));
                let context = context.map_err(|error| SaslFault::Kerberos(error.into()))?;
                let client = Box::new(gssapi::Client::new(context));
                Ok(Self::Kerberos(client, turn.clone()))
            }
        }
    }

    /// The first token.
    async fn begin(self) -> io::Result<(Self, Vec<u8>)> {
        match self {
            Self::Digest(_) => Ok((self, digest_md5::Client::INITIAL.to_vec())),
            // A silent key distribution centre blocks the call, so it runs on a blocking thread,
            // and only one at a time.
            Self::Kerberos(mut client, turn) => {
                let guard = turn.clone().lock_owned().await;
                let begun = tokio::task::spawn_blocking(move || {
                    let token = client.begin();
                    drop(guard);
                    token.map(|token| (client, token))
                });
                let (client, token) =
                    begun.await.map_err(io::Error::other)?.map_err(SaslFault::from)?;
                Ok((Self::Kerberos(client, turn), token))
            }
        }
    }

    /// The answer to a token; `None` at the successful end. No further ticket is needed.
    fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, SaslFault> {
        match self {
            Self::Digest(client) => Ok(client.step(token)?),
            Self::Kerberos(client, _) => Ok(client.step(token)?),
        }
    }
}

/// The accepting server's side of one exchange.
enum Listener<'s> {
    Digest(digest_md5::Server, &'s DigestLogin),
    Kerberos(Box<gssapi::Server<Context>>, &'s [String]),
}

/// The result of a token of the connecting server.
enum Step {
    Challenge(Vec<u8>),
    Done(Option<Vec<u8>>),
}

impl<'s> Listener<'s> {
    /// `hosts`: those of the members.
    fn new(others: &'s Others, hosts: &'s [String]) -> io::Result<Self> {
        Ok(match others {
            Others::Digest(users) => {
                Self::Digest(digest_md5::Server::new(QUORUM, random()?), users)
            }
            Others::Kerberos(acceptor) => {
                Self::Kerberos(Box::new(gssapi::Server::new(acceptor.begin())), hosts)
            }
        })
    }

    fn step(&mut self, token: &[u8]) -> Result<Step, SaslFault> {
        match self {
            Self::Digest(server, users) => {
                match server.step(token, |user| users.password(user).cloned())? {
                    digest_md5::Step::Challenge(token) => Ok(Step::Challenge(token)),
                    digest_md5::Step::Done { token, who } if who.is_itself() => {
                        Ok(Step::Done(Some(token)))
                    }
                    digest_md5::Step::Done { who, .. } => Err(SaslFault::Other(who.user)),
                }
            }
            Self::Kerberos(server, hosts) => match server.step(token)? {
                gssapi::Step::Challenge(token) => Ok(Step::Challenge(token)),
                gssapi::Step::Done(who) if !who.is_itself() => Err(SaslFault::Other(who.user)),
                gssapi::Step::Done(who) => {
                    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
                    match Principal::parse(&who.user) {
                        Ok(name) if name.is_of_ensemble(&hosts, None) => Ok(Step::Done(None)),
                        _ => Err(SaslFault::Stranger(who.user)),
                    }
                }
            },
        }
    }

    /// A longer token is refused.
    fn bytes_max(&self) -> usize {
        match self {
            Self::Digest(..) => MESSAGE_BYTES_MAX,
            Self::Kerberos(..) => TOKEN_BYTES_MAX,
        }
    }
}

/// Authenticates this server to the server at `host`. Bytes after the exchange remain in
/// `received`.
///
/// # Errors
/// The error contains [`SaslFault`]; the connection ends.
pub(super) async fn prove(
    sasl: &PeerSasl,
    host: &str,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    received: &mut BytesMut,
) -> io::Result<()> {
    let bytes_max = match sasl.own {
        Own::Digest { .. } => MESSAGE_BYTES_MAX,
        Own::Kerberos { .. } => TOKEN_BYTES_MAX,
    };
    let (mut dialler, first) = Dialler::new(&sasl.own, host)?.begin().await?;
    send(to, AuthStatus::IN_PROGRESS, Some(&first)).await?;
    for _ in 0..=ROUNDS_MAX {
        let AuthPacket { status, token } = receive(from, received, bytes_max).await?;
        let token = token.unwrap_or_default();
        match status {
            AuthStatus::IN_PROGRESS | AuthStatus::SUCCESS => {}
            AuthStatus::ERROR => return Err(SaslFault::Refused.into()),
            _ => return Err(SaslFault::Packet("an unknown status").into()),
        }
        match (dialler.step(&token)?, status) {
            (Some(answer), AuthStatus::IN_PROGRESS) => send(to, status, Some(&answer)).await?,
            (None, AuthStatus::SUCCESS) => return Ok(()),
            // The other server considers this server authenticated before this server has proved
            // its identity, or the reverse.
            _ => return Err(SaslFault::Packet("only one side has ended the exchange").into()),
        }
    }
    Err(SaslFault::Packet("too many tokens").into())
}

/// Lets the connecting server authenticate, and determines its identity. `hosts`: those of the
/// members. Bytes after the exchange remain in `received`.
///
/// # Errors
/// The error contains [`SaslFault`] if SASL is required; the connection ends.
pub(super) async fn examine(
    sasl: &PeerSasl,
    hosts: &[String],
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    received: &mut BytesMut,
) -> io::Result<()> {
    let begins = loop {
        if let Some(begins) = is_auth_packet(received) {
            break begins;
        }
        fill(from, received).await?;
    };
    if !begins {
        return if sasl.is_required { Err(SaslFault::Absent.into()) } else { Ok(()) };
    }
    let mut listener = Listener::new(&sasl.others, hosts)?;
    let mut rounds = 0;
    let fault = loop {
        let token = receive(from, received, listener.bytes_max()).await?.token.unwrap_or_default();
        rounds += 1;
        if rounds > ROUNDS_MAX {
            break SaslFault::Packet("too many tokens");
        }
        match listener.step(&token) {
            Ok(Step::Challenge(token)) => send(to, AuthStatus::IN_PROGRESS, Some(&token)).await?,
            Ok(Step::Done(token)) => return send(to, AuthStatus::SUCCESS, token.as_deref()).await,
            Err(fault) => break fault,
        }
    };
    send(to, AuthStatus::ERROR, Some(&[])).await?;
    if sasl.is_required {
        return Err(fault.into());
    }
    info!(
        "a server has not authenticated, which quorum.auth.serverRequireSasl does not ask for: {fault}"
    );
    Ok(())
}

fn random() -> io::Result<[u8; NONCE_BYTES]> {
    zebu_auth::random::bytes().ok_or_else(|| io::Error::other("the system gives no random bytes"))
}

async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    status: AuthStatus,
    token: Option<&[u8]>,
) -> io::Result<()> {
    let packet = AuthPacket { status, token: token.map(Bytes::copy_from_slice) };
    to.write_all(&packet.to_bytes()).await?;
    to.flush().await
}

async fn receive(
    from: &mut (impl AsyncRead + Unpin),
    received: &mut BytesMut,
    bytes_max: usize,
) -> io::Result<AuthPacket> {
    loop {
        let packet = AuthPacket::decode(received, bytes_max)
            .map_err(|_| SaslFault::Packet("a packet is invalid or too long"))?;
        match packet {
            Some(packet) => return Ok(packet),
            None => fill(from, received).await?,
        }
    }
}

async fn fill(from: &mut (impl AsyncRead + Unpin), received: &mut BytesMut) -> io::Result<()> {
    match from.read_buf(received).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "zk1";

    /// Source: `SecurityUtils.getServerPrincipal`.
    #[test]
    fn the_host_that_is_dialled_stands_where_it_is_asked_for() {
        let named = |host: Option<&str>, realm: Option<&str>| PeerPrincipal {
            service: "zkquorum".to_owned(),
            host: host.map(str::to_owned),
            realm: realm.map(str::to_owned),
        };
        let service =
            |host: &str| Target::Service { service: "zkquorum".into(), host: host.into() };
        assert_eq!(target(&named(None, None), "ZK1.example.org"), service("zk1.example.org"));
        assert_eq!(target(&named(Some("localhost"), None), "zk1"), service("localhost"));
        let whole = Target::Principal("zkquorum/zk@R".to_owned());
        assert_eq!(target(&named(Some("zk"), Some("R")), "zk1"), whole);
    }

    fn sasl(password: &str, is_required: bool) -> PeerSasl {
        let servers = [("zk".to_owned(), Secret::from("right"))].into();
        PeerSasl {
            own: Own::Digest { user: "zk".to_owned(), password: Secret::from(password) },
            others: Others::Digest(DigestLogin { users: servers, ..DigestLogin::default() }),
            authenticates: true,
            is_required,
        }
    }

    /// The result of each side, and the bytes after the exchange.
    async fn meet(password: &str, is_required: bool) -> [Result<Vec<u8>, String>; 2] {
        let (dialler, listener) = tokio::io::duplex(64);
        let (mut dialler_from, mut dialler_to) = tokio::io::split(dialler);
        let (mut listener_from, mut listener_to) = tokio::io::split(listener);
        let (own, other) = (sasl(password, false), sasl("-", is_required));
        let dials = async move {
            let mut received = BytesMut::new();
            prove(&own, HOST, &mut dialler_from, &mut dialler_to, &mut received).await?;
            dialler_to.write_all(b"behind").await?;
            dialler_to.shutdown().await?;
            io::Result::Ok(received.to_vec())
        };
        let listens = async move {
            let mut received = BytesMut::new();
            examine(&other, &[], &mut listener_from, &mut listener_to, &mut received).await?;
            while listener_from.read_buf(&mut received).await? > 0 {}
            io::Result::Ok(received.to_vec())
        };
        let (dialled, listened) = tokio::join!(dials, listens);
        [dialled, listened].map(|side| side.map_err(|error| error.to_string()))
    }

    #[tokio::test]
    async fn servers_that_know_the_password_come_together() {
        let [dialled, listened] = meet("right", true).await;
        assert_eq!(dialled, Ok(Vec::new()));
        assert_eq!(listened, Ok(b"behind".to_vec()));
    }

    #[tokio::test]
    async fn a_wrong_password_is_refused_and_each_side_says_so() {
        for is_required in [true, false] {
            let [dialled, listened] = meet("wrong", is_required).await;
            assert_eq!(dialled, Err(SaslFault::Refused.to_string()));
            assert_eq!(listened.is_err(), is_required, "{listened:?}");
            assert!(!format!("{listened:?}").contains("wrong"));
        }
    }

    #[tokio::test]
    async fn who_does_not_authenticate_is_taken_only_where_it_need_not() {
        for (is_required, said) in [(true, &[0; 20][..]), (false, &[0; 20]), (false, b"_$5x")] {
            let mut received = BytesMut::new();
            let (mut from, mut to) = (said, Vec::new());
            let taken =
                examine(&sasl("-", is_required), &[], &mut from, &mut to, &mut received).await;
            assert_eq!(taken.is_ok(), !is_required, "{taken:?}");
            assert_eq!((&received[..], &to[..]), (said, &[][..]), "nothing is lost or sent");
        }
    }

    #[tokio::test]
    async fn a_token_that_is_too_long_or_a_stream_that_ends_costs_the_connection() {
        let mut long = zebu_proto::quorum::AUTH_MAGIC.to_be_bytes().to_vec();
        long.extend([0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]);
        for said in [&long[..], &long[..10], &[]] {
            let (mut from, mut received) = (said, BytesMut::new());
            let heard =
                examine(&sasl("-", false), &[], &mut from, &mut Vec::new(), &mut received).await;
            heard.unwrap_err();
        }
    }

    /// A server that reports success without a proof is refused.
    #[tokio::test]
    async fn a_server_that_proves_nothing_is_not_believed() {
        for status in [AuthStatus::SUCCESS, AuthStatus::IN_PROGRESS, AuthStatus(7)] {
            let said = AuthPacket { status, token: Some(Bytes::new()) }.to_bytes();
            let (mut from, mut received) = (&said[..], BytesMut::new());
            prove(&sasl("right", false), HOST, &mut from, &mut Vec::new(), &mut received)
                .await
                .unwrap_err();
        }
    }
}
