//! [`Pending`]: the future of a request that was submitted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use zebu_session::{Answer, Chroot, Ending, Failure, RequestId};

use crate::shared::{Command, Reply, Shared};
use crate::watch::{PersistentWatch, Watch};
use crate::{Error, Result};

/// The facts about a request that its answer is decoded with.
pub(crate) struct Call {
    /// The client's own name for the znode.
    pub(crate) path: Box<str>,
    /// The znodes of each operation, for a request with several operations.
    pub(crate) paths: Vec<Box<str>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) chroot: Arc<Chroot>,
    pub(crate) seat: Seat,
}

/// What a request keeps for its answer.
pub(crate) enum Seat {
    None,
    /// Its watch, until the caller receives it.
    Once(Watch),
    Always(PersistentWatch),
    /// The znode to create, for servers that answer with its path alone.
    Made {
        data_length: i32,
        is_ephemeral: bool,
    },
}

/// Decodes an answer, which may be an error.
pub(crate) type Decode<T> = fn(Call, Answer) -> Result<T>;

/// A submitted request. Awaiting it returns its result.
///
/// The call of the method fixes the place of the request in the order, not the first poll of this
/// future: the servers execute the requests of one client in the order of the calls. A program can
/// make several calls before it awaits them; then the client sends the requests together:
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode};
///
/// let first = client.create("/a", "", CreateMode::Persistent, &Acls::creator());
/// let second = client.create("/a/b", "", CreateMode::Persistent, &Acls::creator());
/// let third = client.get_children("/a");
/// assert_eq!(third.await?.0, ["b"]);
/// first.await?;
/// second.await?;
/// # Ok(()) });
/// ```
///
/// # Cancellation
/// Dropping this future withdraws the request if it was not sent yet, because there is no
/// connection. A sent request is executed, and its result is lost. [`Pending::cancel`] tells the
/// two cases apart. After [`Pending::detach`], the request is executed in any case.
#[must_use = "a request that is dropped may be withdrawn: await it, or `detach` it"]
pub struct Pending<T> {
    state: State<T>,
}

enum State<T> {
    Waiting {
        id: RequestId,
        reply: oneshot::Receiver<Reply>,
        call: Call,
        decode: Decode<T>,
    },
    /// The request failed before it was sent.
    Failed(Error),
    Done,
}

// No field is pinned.
impl<T> Unpin for Pending<T> {}

impl<T> Pending<T> {
    pub(crate) fn new(
        id: RequestId,
        reply: oneshot::Receiver<Reply>,
        call: Call,
        decode: Decode<T>,
    ) -> Self {
        Self { state: State::Waiting { id, reply, call, decode } }
    }

    pub(crate) fn failed(error: Error) -> Self {
        Self { state: State::Failed(error) }
    }

    /// Lets the client execute the request although no task waits for its result.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// client.create("/a", "", CreateMode::Persistent, &Acls::creator()).detach();
    /// assert!(client.exists("/a").await?.is_some());
    /// # Ok(()) });
    /// ```
    pub fn detach(mut self) {
        self.state = State::Done;
    }

    /// Withdraws the request if it was not sent yet.
    ///
    /// If the request was sent, this waits for its result like [`Pending`] itself. So the outcome
    /// is known, unless the connection is lost.
    ///
    /// # Errors
    /// Those of the request; [`ErrorKind::NotExecuted`](crate::ErrorKind::NotExecuted) if it was
    /// withdrawn.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::ErrorKind;
    ///
    /// match client.get_data("/").cancel().await {
    ///     Ok((_data, _stat)) => {} // it had been sent
    ///     Err(error) if error.kind() == ErrorKind::NotExecuted => {}
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) });
    /// ```
    pub async fn cancel(self) -> Result<T> {
        if let State::Waiting { id, call, .. } = &self.state {
            call.shared.command(Command::Withdraw(*id));
        }
        self.await
    }

    fn understand(call: Call, reply: Reply, decode: Decode<T>) -> Result<T> {
        match reply {
            Ok(answer) => decode(call, answer),
            Err(failure) => {
                Err(Error::failed(failure, &call.path).with_missing(|| call.shared.trouble()))
            }
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        if let State::Waiting { reply, .. } = &mut self.state {
            let Poll::Ready(reply) = Pin::new(reply).poll(cx) else { return Poll::Pending };
            let State::Waiting { call, decode, .. } =
                std::mem::replace(&mut self.state, State::Done)
            else {
                unreachable!("it was waiting above");
            };
            // Only a runtime that was shut down drops a request without an answer.
            let reply = reply.unwrap_or(Err(Failure::Over(Ending::Closed)));
            return Poll::Ready(Self::understand(call, reply, decode));
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Failed(error) => Poll::Ready(Err(error)),
            _ => panic!("polled after it was ready"),
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let State::Waiting { id, call, .. } = &self.state {
            call.shared.command(Command::Withdraw(*id));
        }
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match &self.state {
            State::Waiting { id, .. } => format!("waiting for {}", id.0),
            State::Failed(error) => format!("failed: {error}"),
            State::Done => "done".to_owned(),
        };
        f.debug_tuple("Pending").field(&state).finish()
    }
}
