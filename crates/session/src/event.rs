//! What goes into a session and what comes out of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::reply::PASSWORD_BYTES;
use zebu_proto::{ErrorCode, EventType, SessionId, WatcherType, Zxid};

use crate::{Candidate, Frame, Registration, Series, WatcherId};

/// A request: a number the caller chooses, each greater than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One attempt to connect, and the connection that came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

/// What lets a client go on with a session: keep it secret, whoever has it owns the session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The session.
    pub id: SessionId,
    /// What proves that it is ours.
    pub password: [u8; PASSWORD_BYTES],
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a session is configured with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The session timeout to ask for; the server may settle on another.
    pub timeout: Duration,
    /// Whether a server without a quorum will do for a while.
    pub read_only: bool,
    /// Whether watches move along to the next connection; else they are over with theirs.
    pub restore_watches: bool,
    /// Whether the client proves with SASL who it is, at the beginning of each connection.
    pub sasl: bool,
    /// A session to go on with.
    pub resume: Option<Ticket>,
    /// How long a request waits for a connection before it fails, unsent.
    pub connection_wait: Duration,
    /// How long a request may go unanswered, counted from when it was made; `None`: as long as its connection stands.
    pub request_timeout: Option<Duration>,
    /// How long servers are looked for before the session is given up; `None`: for ever.
    pub give_up: Option<Duration>,
    /// Largest request that is sent; larger ones make servers close the connection.
    pub request_bytes_max: usize,
    /// Most requests that may be unanswered.
    pub pending_max: usize,
    /// Decides the order of servers and the delays.
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

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What its answer will be known by.
    pub id: RequestId,
    /// Its bytes.
    pub frame: Frame,
    /// What else it does to the session's watches when it succeeds.
    pub effect: Effect,
    /// Where it belongs to a series: it is not sent once an earlier one of them may not have been executed.
    pub series: Option<Series>,
}

/// What a request that succeeds does to the session's watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    #[default]
    None,
    /// It leaves one.
    Watch(Registration),
    /// It removes those of a kind; whoever waits for them is told so.
    Unwatch {
        /// Where, as the server calls it.
        path: Arc<str>,
        /// Which.
        kind: WatcherType,
    },
}

/// What a server says of itself when asked for its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It has a quorum.
    ReadWrite,
    /// It has none, cannot be reached, or does not say.
    Other,
}

/// What a server asks a client that proves with SASL who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Nothing yet: clients begin.
    First,
    /// This token. Servers without SASL send none.
    Token(Option<Bytes>),
}

/// What a client says to a [`Challenge`].
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// Send this token, which may be empty.
    Token(Vec<u8>),
    /// Each side has proved itself.
    Done,
    /// The server does not prove itself, or the client cannot: the session is over.
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

/// Everything that can happen to a session.
#[derive(Debug)]
pub enum Input {
    /// Time has passed. Also starts a new session.
    Tick,
    /// The names of the servers were resolved; empty when they could not be.
    Resolved(Vec<Candidate>),
    /// A connection stands.
    Connected(Attempt),
    /// A connection did not come about, or is gone.
    Disconnected(Attempt),
    /// A frame came, without its length.
    Frame(Attempt, Bytes),
    /// Somebody has a request.
    Submit(Submission),
    /// A request need not be sent if it was not yet.
    Withdraw(RequestId),
    /// Credentials for this and all later connections; answered like a request.
    Authenticate {
        /// What the answer will be known by.
        id: RequestId,
        /// The scheme.
        scheme: String,
        /// The credentials, in the scheme's own form.
        auth: Vec<u8>,
    },
    /// Nobody waits for these events any more.
    Unwatch(WatcherId),
    /// What is to be said to the [`Challenge`] of an attempt. To give the attempt up for another, as where whoever issues
    /// tickets cannot be reached, report [`Input::Disconnected`].
    Proof(Attempt, Proof),
    /// A server was asked whether it has a quorum.
    Probed(SocketAddr, Probe),
    /// The session shall end, after everything submitted so far; answered like a request.
    Close(RequestId),
}

/// Everything a session can ask for, to be done in the order given.
///
/// Every [`Input::Submit`], [`Input::Authenticate`] and [`Input::Close`] comes out exactly once, as an
/// [`Output::Done`].
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Find out the servers' addresses; report [`Input::Resolved`].
    Resolve,
    /// Connect to a server; report [`Input::Connected`] or [`Input::Disconnected`]. There is at most one
    /// connection: this one replaces an earlier attempt.
    Connect(Attempt, SocketAddr),
    /// Close the connection, or stop trying.
    Disconnect(Attempt),
    /// Send these bytes, which are whole frames.
    Send(Vec<u8>),
    /// Ask a server, on a connection of its own, whether it has a quorum; report [`Input::Probed`].
    Probe(SocketAddr),
    /// Say what SASL answers; report [`Input::Proof`]. [`Challenge::First`] begins an exchange, the others go on with it.
    Prove(Attempt, Challenge),
    /// The session's state has changed.
    State(State),
    /// A request is finished.
    Done(RequestId, Result<Answer, Failure>),
    /// Somebody's watch has fired.
    Event {
        /// Whose.
        watcher: WatcherId,
        /// What happened.
        kind: EventType,
        /// Where, as the server calls it.
        path: Bytes,
        /// The transaction that did it, where the server says so.
        zxid: Option<Zxid>,
        /// Whether the watch is over with this.
        last: bool,
    },
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The newest transaction of the server when it answered; of a write, its own.
    pub zxid: Zxid,
    /// What went wrong.
    pub err: ErrorCode,
    /// The bytes behind the header.
    pub body: Bytes,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was sent, and the connection went away before the answer came: it may have been executed.
    Lost,
    /// It was not sent: there was no connection in time.
    NoConnection,
    /// It was not answered in time.
    TimedOut {
        /// Whether it was sent, so that it may have been executed.
        is_sent: bool,
    },
    /// It was not sent: it was withdrawn.
    Withdrawn,
    /// It was not sent: servers would close the connection over so many bytes.
    TooLarge,
    /// It was not sent: too many are unanswered.
    TooMany,
    /// It was not sent: an earlier request of its series was lost, or not sent.
    Broken,
    /// It was not sent: the session is over.
    Over(Ending),
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It was closed.
    Closed,
    /// The servers no longer know it.
    Expired,
    /// The servers refused its credentials, or want some first.
    AuthFailed,
    /// No server was reached for so long that it was given up. The servers may still know it.
    GivenUp,
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// There was no connection yet.
    Connecting,
    /// It lives on a server with a quorum.
    Connected,
    /// It lives on a server that answers reads only, and may be behind.
    ConnectedReadOnly,
    /// The connection was lost; another is looked for. Others may have seen the session end.
    Disconnected,
    /// It is over.
    Over(Ending),
}
