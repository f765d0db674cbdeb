//! Watches: values that the caller awaits, and drops when it no longer needs them.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use zebu_proto::{ErrorCode, EventType, Zxid};
use zebu_session::{Failure, WatcherId};

use crate::mailbox::Mailbox;
use crate::shared::{Command, Shared};
use crate::{Error, Result, SessionState};

/// What happened to a znode.
///
/// ```
/// assert_eq!(zebu_client::EventKind::Created.to_string(), "NodeCreated");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// It was created.
    Created,
    /// It was deleted, by a client or with the session that owned it.
    Deleted,
    /// Its data were set, perhaps to what they were.
    DataChanged,
    /// A child was created or deleted. What children hold is their own affair.
    ChildrenChanged,
    /// The watch is over without having fired: somebody removed it with
    /// [`Client::remove_watches`](crate::Client::remove_watches), or its connection is gone after
    /// [`Connector::forget_watches`](crate::Connector::forget_watches).
    WatchRemoved,
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "NodeCreated",
            Self::Deleted => "NodeDeleted",
            Self::DataChanged => "NodeDataChanged",
            Self::ChildrenChanged => "NodeChildrenChanged",
            Self::WatchRemoved => "WatchRemoved",
        })
    }
}

/// A change that a watch was waiting for.
///
/// It says that something changed, not to what: read it. One event may stand for several changes.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, EventKind};
///
/// let (absent, watch) = client.watch_exists("/ready").await?;
/// assert!(absent.is_none());
/// client.create("/ready", "", CreateMode::Ephemeral, &Acls::creator()).await?;
/// let event = watch.await?;
/// assert_eq!((event.kind, &*event.path), (EventKind::Created, "/ready"));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// To which znode.
    pub path: String,
    /// In which transaction, where the server says so: before 3.9 it does not, nor for changes that
    /// happened while there was no connection.
    pub zxid: Option<Zxid>,
}

impl Event {
    /// `None` for an event of a kind nobody knows.
    pub(crate) fn new(kind: EventType, path: &str, zxid: Option<Zxid>) -> Option<Self> {
        let kind = match kind {
            EventType::NODE_CREATED => EventKind::Created,
            EventType::NODE_DELETED => EventKind::Deleted,
            EventType::NODE_DATA_CHANGED => EventKind::DataChanged,
            EventType::NODE_CHILDREN_CHANGED => EventKind::ChildrenChanged,
            EventType::DATA_WATCH_REMOVED
            | EventType::CHILD_WATCH_REMOVED
            | EventType::PERSISTENT_WATCH_REMOVED => EventKind::WatchRemoved,
            _ => return None,
        };
        Some(Self { kind, path: path.to_owned(), zxid })
    }
}

/// What a persistent watch has to say.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, Notice, WatchMode};
///
/// let mut watch = client.watch("/", WatchMode::Recursive).await?;
/// client.create("/a", "", CreateMode::Ephemeral, &Acls::creator()).await?;
/// match watch.next().await? {
///     Notice::Event(event) => assert_eq!(event.path, "/a"),
///     Notice::Disconnected => {} // whatever rests on being up to date rests now
///     Notice::Missed => {}       // read everything again
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Something changed.
    Event(Event),
    /// The connection was lost: changes are not heard of for now.
    Disconnected,
    /// Changes may have been missed: while there was no connection, or because the events were not
    /// taken in time. What matters must be read again; the watch goes on.
    Missed,
}

/// What a watch that fires once has to say.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{SessionState, Signal, Version};
///
/// let (_data, _stat, mut watch) = client.watch_data("/").await?;
/// client.set_data("/", "new", Version::ANY).await?;
/// match watch.next().await? {
///     Signal::Event(event) => assert_eq!(event.path, "/"),
///     Signal::Session(SessionState::Connected) => {} // all is well again, the watch still stands
///     Signal::Session(_) => {}                       // whatever rests on hearing of changes rests now
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It has fired, and is over.
    Event(Event),
    /// The session's state is another. While there is no connection nothing is heard of changes; a session that is
    /// over takes the watch along.
    Session(SessionState),
}

/// Tells the session that nobody waits any more.
#[derive(Debug)]
struct Guard {
    watcher: WatcherId,
    shared: Arc<Shared>,
    /// It has fired for the last time: there is nothing to remove.
    is_over: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.command(Command::Unwatch(self.watcher));
        }
    }
}

/// A watch that fires once: await it for the [`Event`].
///
/// It stands from the moment its read was answered; no change after what was read escapes it. It survives
/// the loss of a connection: a change meanwhile is reported by the next server. One hole is the protocol's:
/// a znode that [`Client::watch_exists`](crate::Client::watch_exists) found absent, and that was created and
/// deleted again while there was no connection, is not reported.
///
/// Dropping it removes the watch. Awaiting `&mut watch` keeps it. Who has to know when nothing can be heard uses
/// [`Watch::next`], which tells of the session, too.
///
/// # Errors
/// Awaiting it fails when the session is over.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, Version};
///
/// client.create("/config", "1", CreateMode::Persistent, &Acls::creator()).await?;
/// let (data, _, changed) = client.watch_data("/config").await?;
/// assert_eq!(data, "1");
/// client.set_data("/config", "2", Version::ANY).await?;
/// changed.await?;
/// // Reading again, and watching again, shows the newest state whatever happened in between.
/// let (data, _, _changed) = client.watch_data("/config").await?;
/// assert_eq!(data, "2");
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct Watch {
    signals: Mailbox<Signal>,
    guard: Guard,
}

impl Watch {
    pub(crate) fn new(watcher: WatcherId, signals: Mailbox<Signal>, shared: Arc<Shared>) -> Self {
        Self { signals, guard: Guard { watcher, shared, is_over: false } }
    }

    /// Waits for what comes next: a change of the session's state, or the event, which is the last. Nothing is lost
    /// when the future is dropped.
    ///
    /// Who is slow is not told of every change of the state, but always of the last, and that there was a
    /// [`SessionState::Disconnected`] since it last looked.
    ///
    /// # Errors
    /// The session is over, which was told before, or the watch has fired.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{ErrorKind, SessionState, Signal};
    ///
    /// let (_data, _stat, mut watch) = client.watch_data("/").await?;
    /// client.close().await?;
    /// assert_eq!(watch.next().await?, Signal::Session(SessionState::Closed));
    /// assert_eq!(watch.next().await.unwrap_err().kind(), ErrorKind::SessionOver);
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Signal> {
        poll_fn(|cx| self.poll_signal(cx)).await
    }

    fn poll_signal(&mut self, cx: &mut Context<'_>) -> Poll<Result<Signal>> {
        let signal = ready!(self.signals.poll_take(cx));
        // What comes after a state is still awaited.
        self.guard.is_over = !matches!(signal, Some(Signal::Session(_)));
        Poll::Ready(signal.ok_or_else(|| over(&self.guard.shared)))
    }
}

impl Future for Watch {
    type Output = Result<Event>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Event>> {
        loop {
            if let Signal::Event(event) = ready!(self.poll_signal(cx))? {
                return Poll::Ready(Ok(event));
            }
        }
    }
}

/// A watch that fires at every change: on one znode and its child list, or on a whole subtree.
///
/// Dropping it removes the watch.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, EventKind, Notice, Version, WatchMode};
///
/// let mut watch = client.watch("/job", WatchMode::Persistent).await?;
/// client.create("/job", "1", CreateMode::Persistent, &Acls::creator()).await?;
/// client.set_data("/job", "2", Version::ANY).await?;
/// client.delete("/job", Version::ANY).await?;
/// for expected in [EventKind::Created, EventKind::DataChanged, EventKind::Deleted] {
///     let Notice::Event(event) = watch.next().await? else { continue };
///     assert_eq!(event.kind, expected);
/// }
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct PersistentWatch {
    notices: Mailbox<Notice>,
    guard: Guard,
}

impl PersistentWatch {
    pub(crate) fn new(watcher: WatcherId, notices: Mailbox<Notice>, shared: Arc<Shared>) -> Self {
        Self { notices, guard: Guard { watcher, shared, is_over: false } }
    }

    /// Waits for what comes next. Nothing is lost when the future is dropped.
    ///
    /// It is a [`Stream`] too, which ends with the session.
    ///
    /// # Errors
    /// The session is over, or the watch was removed.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{ErrorKind, WatchMode};
    ///
    /// let mut watch = client.watch("/", WatchMode::Persistent).await?;
    /// client.close().await?;
    /// let error = watch.next().await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::SessionOver);
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Notice> {
        let notice = poll_fn(|cx| self.notices.poll_take(cx)).await;
        notice.ok_or_else(|| over(&self.guard.shared))
    }
}

impl Stream for PersistentWatch {
    type Item = Notice;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        self.notices.poll_take(cx)
    }
}

/// Why there are no more events.
fn over(shared: &Shared) -> Error {
    match shared.ending() {
        Some(ending) => Error::failed(Failure::Over(ending), ""),
        None => Error::answered(ErrorCode::NO_WATCHER, ""),
    }
}
