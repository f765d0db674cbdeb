//! The states of a session.

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use zebu_proto::EnsembleId;
use zebu_session::{Ending, State, Ticket};

use crate::mailbox::Mailbox;

/// The states of a session, and their changes.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::SessionState;
///
/// assert_eq!(client.state(), SessionState::Connected);
/// client.close().await?;
/// assert_eq!(client.state(), SessionState::Closed);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// There was no connection yet; the client looks for a server.
    Connecting,
    /// The session is connected to a server with a quorum.
    Connected,
    /// The server has no quorum: writes fail; reads work, but may be out of date by any length of
    /// time. The client looks for a better server.
    ConnectedReadOnly,
    /// The connection was lost, and the client looks for another one. Meanwhile, the servers may
    /// have ended the session: a leader must stop until the state is [`SessionState::Connected`]
    /// again.
    Disconnected,
    /// The servers have ended the session: its ephemerals and watches are gone.
    Expired,
    /// The servers refused the credentials, or require some; the session cannot be used.
    AuthFailed,
    /// The program has closed the session.
    Closed,
    /// The client reached no server for the time after which it gives the session up, see
    /// [`Connector::give_up_after`](crate::Connector::give_up_after).
    GivenUp,
    /// A server belongs to another ensemble than the session: the connect string names servers of
    /// two ensembles. See [`Connector::ensemble`](crate::Connector::ensemble).
    OtherEnsemble {
        /// The ensemble that the session belongs to.
        own: EnsembleId,
        /// The ensemble of the server that was reached.
        other: EnsembleId,
    },
}

impl SessionState {
    /// Whether the session is over for good.
    ///
    /// ```
    /// use zebu_client::SessionState;
    /// assert!(SessionState::Expired.is_over());
    /// assert!(!SessionState::Disconnected.is_over());
    /// ```
    pub fn is_over(self) -> bool {
        self.ending().is_some()
    }

    /// Why the session has ended.
    pub(crate) fn ending(self) -> Option<Ending> {
        match self {
            Self::Expired => Some(Ending::Expired),
            Self::AuthFailed => Some(Ending::AuthFailed),
            Self::Closed => Some(Ending::Closed),
            Self::GivenUp => Some(Ending::GivenUp),
            Self::OtherEnsemble { own, other } => Some(Ending::OtherEnsemble { own, other }),
            Self::Connecting | Self::Connected | Self::ConnectedReadOnly | Self::Disconnected => {
                None
            }
        }
    }
}

impl From<State> for SessionState {
    fn from(state: State) -> Self {
        match state {
            State::Connecting => Self::Connecting,
            State::Connected => Self::Connected,
            State::ConnectedReadOnly => Self::ConnectedReadOnly,
            State::Disconnected => Self::Disconnected,
            State::Over(Ending::Closed) => Self::Closed,
            State::Over(Ending::Expired) => Self::Expired,
            State::Over(Ending::AuthFailed) => Self::AuthFailed,
            State::Over(Ending::GivenUp) => Self::GivenUp,
            State::Over(Ending::OtherEnsemble { own, other }) => Self::OtherEnsemble { own, other },
        }
    }
}

/// The names that the original's tools print.
impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "Connecting",
            Self::Connected => "SyncConnected",
            Self::ConnectedReadOnly => "ConnectedReadOnly",
            Self::Disconnected => "Disconnected",
            Self::Expired => "Expired",
            Self::AuthFailed => "AuthFailed",
            Self::Closed => "Closed",
            Self::GivenUp => "GivenUp",
            Self::OtherEnsemble { .. } => "OtherEnsemble",
        })
    }
}

/// The state of a session at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) state: SessionState,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) timeout: Duration,
    pub(crate) ensemble: Option<EnsembleId>,
    pub(crate) server: Option<SocketAddr>,
}

/// The writer's end of a stream of states. The stream ends when the last writer is dropped.
#[derive(Debug)]
pub(crate) struct Announcer(pub(crate) Mailbox<SessionState>);

impl Drop for Announcer {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// All changes of a session's state, as a stream that ends with the session.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::SessionState;
///
/// let mut events = client.session_events();
/// client.close().await?;
/// assert_eq!(events.next().await, Some(SessionState::Closed));
/// assert_eq!(events.next().await, None);
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct SessionEvents {
    states: Mailbox<SessionState>,
}

impl SessionEvents {
    pub(crate) fn new(states: Mailbox<SessionState>) -> Self {
        Self { states }
    }

    /// Waits for the next change. Nothing is lost when the future is dropped.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut events = client.session_events();
    /// client.close().await?;
    /// while let Some(state) = events.next().await {
    ///     println!("{state}");
    /// }
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Option<SessionState> {
        poll_fn(|cx| self.states.poll_take(cx)).await
    }
}

impl Stream for SessionEvents {
    type Item = SessionState;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionState>> {
        self.states.poll_take(cx)
    }
}
