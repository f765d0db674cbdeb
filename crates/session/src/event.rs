//! Inputs and outputs of a session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::reply::PASSWORD_BYTES;
use zebu_proto::{EnsembleId, ErrorCode, EventType, SessionId, WatcherType, Zxid};

use crate::{Candidate, Frame, Registration, Series, WatcherId};

/// Identifies a request: chosen by the caller, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Identifies an attempt to connect, and the resulting connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

/// What another client needs to continue a session. Keep it secret: its holder owns the session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The session.
    pub id: SessionId,
    /// The password that proves ownership.
    pub password: [u8; PASSWORD_BYTES],
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Options of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// The requested session timeout; the server may choose another one.
    pub timeout: Duration,
    /// Whether a read-only server is acceptable for a while.
    pub read_only: bool,
    /// Whether watches are restored on the next connection. Otherwise they end with their
    /// connection.
    pub restore_watches: bool,
    /// Whether the client authenticates with SASL at the start of each connection.
    pub sasl: bool,
    /// Whether servers are asked for the id of their ensemble. Those that know no such ids, as all
    /// of the original's, ignore the question.
    pub asks_ensemble: bool,
    /// The ensemble that the servers are to belong to; `None`: that of the first server that tells
    /// its own.
    pub ensemble: Option<EnsembleId>,
    /// The oldest release of the servers, major and minor number. Requests that it does not know
    /// are answered here, because such a server would close the connection.
    pub server_version: (u16, u16),
    /// The session to continue.
    pub resume: Option<Ticket>,
    /// How long an unsent request waits for a connection before it fails.
    pub connection_wait: Duration,
    /// How long a request may stay unanswered, from its submission; `None`: as long as its
    /// connection lives.
    pub request_timeout: Option<Duration>,
    /// How long to look for a server before the session is given up; `None`: forever.
    pub give_up: Option<Duration>,
    /// Maximum size of a request in bytes; servers close the connection on larger ones.
    pub request_bytes_max: usize,
    /// Maximum number of unanswered requests.
    pub pending_max: usize,
    /// Seed for the order of servers and for delays.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        let timeout = Duration::from_secs(10);
        Self {
            timeout,
            read_only: false,
            restore_watches: true,
            sasl: false,
            asks_ensemble: false,
            ensemble: None,
            server_version: (u16::MAX, 0),
            resume: None,
            connection_wait: timeout,
            request_timeout: None,
            give_up: None,
            request_bytes_max: 0xf_ffff,
            pending_max: 1 << 17,
            seed: 0,
        }
    }
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Identifies the answer.
    pub id: RequestId,
    /// Its bytes.
    pub frame: Frame,
    /// How success changes the session's watches.
    pub effect: Effect,
    /// The series of the request, if any. The request is not sent if an earlier one of the series
    /// may not have been executed.
    pub series: Option<Series>,
}

/// How a successful request changes the session's watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Not at all.
    #[default]
    None,
    /// It sets a watch.
    Watch(Registration),
    /// It removes watches of a kind; their watchers are told.
    Unwatch {
        /// The server's path.
        path: Arc<str>,
        /// The kind of watches.
        kind: WatcherType,
    },
}

/// A server's answer to a probe of its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It is connected to a quorum.
    ReadWrite,
    /// It is not, cannot be reached, or does not answer.
    Other,
}

/// What a server sends to a client during SASL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Nothing: the client starts.
    First,
    /// This token; `None` from servers without SASL.
    Token(Option<Bytes>),
}

/// The client's reply to a [`Challenge`].
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// Send this token, which may be empty.
    Token(Vec<u8>),
    /// The exchange is complete.
    Done,
    /// Either side failed to prove its identity: the session ends.
    Failed,
}

/// Without the token.
impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::Done => "Done",
            Self::Failed => "Failed",
        })
    }
}

/// Events that a session reacts to.
#[derive(Debug)]
pub enum Input {
    /// Time passed. The first tick starts the session.
    Tick,
    /// The servers' names were resolved; empty if that failed.
    Resolved(Vec<Candidate>),
    /// A connection is open.
    Connected(Attempt),
    /// A connection failed or ended.
    Disconnected(Attempt),
    /// A frame arrived; without its length prefix.
    Frame(Attempt, Bytes),
    /// A request was submitted.
    Submit(Submission),
    /// A request is no longer needed, if it is still unsent.
    Withdraw(RequestId),
    /// Credentials for this connection and all later ones; answered like a request.
    Authenticate {
        /// Identifies the answer.
        id: RequestId,
        /// The scheme.
        scheme: String,
        /// The credentials, in the scheme's own form.
        auth: Vec<u8>,
    },
    /// A watcher no longer waits for events.
    Unwatch(WatcherId),
    /// The reply to the [`Challenge`] of an attempt. To abandon the attempt, for example because
    /// the ticket server is unreachable, report [`Input::Disconnected`].
    Proof(Attempt, Proof),
    /// The result of a probe.
    Probed(SocketAddr, Probe),
    /// The session should end after everything submitted so far; answered like a request.
    Close(RequestId),
}

/// Effects that a session asks for, to be carried out in the given order.
///
/// Every [`Input::Submit`], [`Input::Authenticate`] and [`Input::Close`] is answered exactly once,
/// with an [`Output::Done`].
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Resolve the servers' names; report [`Input::Resolved`].
    Resolve,
    /// Connect to a server; report [`Input::Connected`] or [`Input::Disconnected`]. This replaces
    /// an earlier attempt: there is at most one connection.
    Connect(Attempt, SocketAddr),
    /// Close the connection, or stop connecting.
    Disconnect(Attempt),
    /// Send these bytes, which are complete frames.
    Send(Vec<u8>),
    /// Ask a server, on a separate connection, whether it has a quorum; report [`Input::Probed`].
    Probe(SocketAddr),
    /// Compute the SASL reply; report [`Input::Proof`]. [`Challenge::First`] starts an exchange,
    /// others continue it.
    Prove(Attempt, Challenge),
    /// The session's state has changed.
    State(State),
    /// A request is finished.
    Done(RequestId, Result<Answer, Failure>),
    /// A watch has fired.
    Event {
        /// Its watcher.
        watcher: WatcherId,
        /// What happened.
        kind: EventType,
        /// The server's path.
        path: Bytes,
        /// The transaction that caused it, if the server reports that.
        zxid: Option<Zxid>,
        /// Whether the watch has ended.
        last: bool,
    },
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The server's last zxid when it answered; for a write, that of the write.
    pub zxid: Zxid,
    /// The error code.
    pub err: ErrorCode,
    /// The bytes after the header.
    pub body: Bytes,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was lost after sending: the request may have been executed.
    Lost,
    /// Not sent: there was no connection in time.
    NoConnection,
    /// It was not answered in time.
    TimedOut {
        /// Whether it was sent, and may have been executed.
        is_sent: bool,
    },
    /// It was not sent: it was withdrawn.
    Withdrawn,
    /// Not sent: servers would close the connection because of its size.
    TooLarge,
    /// Not sent: too many requests are unanswered.
    TooMany,
    /// Not sent: an earlier request of its series was lost or not sent.
    Broken,
    /// Not sent: the session has ended.
    Over(Ending),
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It was closed.
    Closed,
    /// It expired: the servers no longer know it.
    Expired,
    /// The servers refused its credentials, or require some.
    AuthFailed,
    /// No server could be reached for too long. The servers may still know it.
    GivenUp,
    /// A server belongs to another ensemble than the session. The session's own servers may still
    /// know it.
    OtherEnsemble {
        /// The ensemble that the session belongs to.
        own: EnsembleId,
        /// The ensemble of the server that was reached.
        other: EnsembleId,
    },
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection yet.
    Connecting,
    /// Connected to a server with a quorum.
    Connected,
    /// Connected to a read-only server, whose data may be stale.
    ConnectedReadOnly,
    /// The connection was lost, and a new one is being sought. The session may have expired
    /// meanwhile.
    Disconnected,
    /// The session has ended.
    Over(Ending),
}
