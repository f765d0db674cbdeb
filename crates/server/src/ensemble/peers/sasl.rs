//! SASL between servers: who dials proves a password, and so does who answers.
//!
//! Both sides work on the bytes that came and leave those behind the exchange, as they belong to what is spoken next. Who
//! calls them bounds their time. Sources: `SaslQuorumAuthServer`, `SaslQuorumAuthLearner`, `QuorumAuth`.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tracing::info;
use zebu_auth::digest_md5::{
    Client, Failure, MESSAGE_BYTES_MAX, NONCE_BYTES, QUORUM, Server, Step,
};
use zebu_jute::Encode as _;
use zebu_proto::quorum::{AuthPacket, AuthStatus, is_auth_packet};

use crate::config::PeerSaslConfig;

/// Tokens of one side after which the other gives up, as in the original.
const ROUNDS_MAX: usize = 5;

/// Why two servers do not come together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SaslFault {
    /// The dialler says something else.
    #[error("it does not authenticate, and quorum.auth.serverRequireSasl asks for it")]
    Absent,
    /// A token is not good.
    #[error("SASL fails: {0}")]
    Failed(#[from] Failure),
    /// The dialler acts as another one than whose password it knows.
    #[error("SASL fails: it is {0:?} and wants to act as another one")]
    Other(String),
    /// The one that was dialled has refused.
    #[error("it refuses the password of this server (quorum.auth.learner.saslLoginContext)")]
    Refused,
    /// What comes is no step of an exchange.
    #[error("SASL fails: {0}")]
    Packet(&'static str),
}

impl From<SaslFault> for io::Error {
    fn from(fault: SaslFault) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, fault)
    }
}

/// Authenticates this server to one that it has dialled. What came behind the exchange is left in `received`.
///
/// # Errors
/// [`SaslFault`] as what the error holds; the connection ends.
pub(super) async fn prove(
    sasl: &PeerSaslConfig,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    received: &mut BytesMut,
) -> io::Result<()> {
    let mut client = Client::new(QUORUM, sasl.user.clone(), sasl.password.clone(), random()?);
    send(to, AuthStatus::IN_PROGRESS, Client::INITIAL).await?;
    for _ in 0..=ROUNDS_MAX {
        let AuthPacket { status, token } = receive(from, received).await?;
        let token = token.unwrap_or_default();
        match status {
            AuthStatus::IN_PROGRESS | AuthStatus::SUCCESS => {}
            AuthStatus::ERROR => return Err(SaslFault::Refused.into()),
            _ => return Err(SaslFault::Packet("a status that there is not").into()),
        }
        match (client.step(&token).map_err(SaslFault::from)?, status) {
            (Some(answer), AuthStatus::IN_PROGRESS) => send(to, status, &answer).await?,
            (None, AuthStatus::SUCCESS) => return Ok(()),
            // It takes this server for authenticated before it has proved itself, or the other way round.
            _ => return Err(SaslFault::Packet("the two sides do not end together").into()),
        }
    }
    Err(SaslFault::Packet("too many tokens").into())
}

/// Hears whether the dialler authenticates, and who it is. What is not of the exchange stays in `received`.
///
/// # Errors
/// [`SaslFault`] as what the error holds, where SASL is required; the connection ends.
pub(super) async fn examine(
    sasl: &PeerSaslConfig,
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
    let mut server = Server::new(QUORUM, random()?);
    let mut rounds = 0;
    let fault = loop {
        let token = receive(from, received).await?.token.unwrap_or_default();
        rounds += 1;
        if rounds > ROUNDS_MAX {
            break SaslFault::Packet("too many tokens");
        }
        match server.step(&token, |user| sasl.servers.password(user).cloned()) {
            Ok(Step::Challenge(token)) => send(to, AuthStatus::IN_PROGRESS, &token).await?,
            Ok(Step::Done { token, who }) if who.is_itself() => {
                return send(to, AuthStatus::SUCCESS, &token).await;
            }
            Ok(Step::Done { who, .. }) => break SaslFault::Other(who.user),
            Err(failure) => break failure.into(),
        }
    };
    send(to, AuthStatus::ERROR, &[]).await?;
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
    token: &[u8],
) -> io::Result<()> {
    let packet = AuthPacket { status, token: Some(Bytes::copy_from_slice(token)) };
    to.write_all(&packet.to_bytes()).await?;
    to.flush().await
}

async fn receive(
    from: &mut (impl AsyncRead + Unpin),
    received: &mut BytesMut,
) -> io::Result<AuthPacket> {
    loop {
        let packet = AuthPacket::decode(received, MESSAGE_BYTES_MAX)
            .map_err(|_| SaslFault::Packet("what comes is no packet of it, or too long"))?;
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
    use zebu_auth::Secret;
    use zebu_auth::jaas::DigestLogin;

    use super::*;

    fn sasl(password: &str, is_required: bool) -> PeerSaslConfig {
        let servers = [("zk".to_owned(), Secret::from("right"))].into();
        PeerSaslConfig {
            user: "zk".to_owned(),
            password: Secret::from(password),
            servers: DigestLogin { users: servers, ..DigestLogin::default() },
            authenticates: true,
            is_required,
        }
    }

    /// What each side makes of the other, and what is left behind the exchange.
    async fn meet(password: &str, is_required: bool) -> [Result<Vec<u8>, String>; 2] {
        let (dialler, listener) = tokio::io::duplex(64);
        let (mut dialler_from, mut dialler_to) = tokio::io::split(dialler);
        let (mut listener_from, mut listener_to) = tokio::io::split(listener);
        let (own, other) = (sasl(password, false), sasl("-", is_required));
        let dials = async move {
            let mut received = BytesMut::new();
            prove(&own, &mut dialler_from, &mut dialler_to, &mut received).await?;
            dialler_to.write_all(b"behind").await?;
            dialler_to.shutdown().await?;
            io::Result::Ok(received.to_vec())
        };
        let listens = async move {
            let mut received = BytesMut::new();
            examine(&other, &mut listener_from, &mut listener_to, &mut received).await?;
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
            let taken = examine(&sasl("-", is_required), &mut from, &mut to, &mut received).await;
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
            let heard = examine(&sasl("-", false), &mut from, &mut Vec::new(), &mut received).await;
            heard.unwrap_err();
        }
    }

    /// A server that says it is content, and proves nothing, is not believed.
    #[tokio::test]
    async fn a_server_that_proves_nothing_is_not_believed() {
        for status in [AuthStatus::SUCCESS, AuthStatus::IN_PROGRESS, AuthStatus(7)] {
            let said = AuthPacket { status, token: Some(Bytes::new()) }.to_bytes();
            let (mut from, mut received) = (&said[..], BytesMut::new());
            prove(&sasl("right", false), &mut from, &mut Vec::new(), &mut received)
                .await
                .unwrap_err();
        }
    }
}
