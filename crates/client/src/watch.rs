//! Watches: values that the caller awaits, and drops when it no longer needs them.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use zebu_proto::{ErrorCode, EventType, Zxid};
use zebu_session::{Chroot, Failure, WatcherId};

use crate::mailbox::Mailbox;
use crate::shared::{Command, Shared};
use crate::{Client, Error, Result, SessionState};

/// The kind of change of a znode.
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
    /// Its data were set, possibly to the same value.
    DataChanged,
    /// A child was created or deleted. Changes of a child's data are not reported.
    ChildrenChanged,
    /// The watch has ended without firing: it was removed with
    /// [`Client::remove_watches`](crate::Client::remove_watches), or its connection was lost after
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

/// A change that a watch reports.
///
/// It reports that something has changed, but not the new state: read the znode. One event may
/// stand for several changes.
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
    /// The kind of change.
    pub kind: EventKind,
    /// The path of the znode.
    pub path: String,
    /// The zxid of the transaction, if the server sends it. Servers before 3.9 do not send it. For
    /// changes during a lost connection, no server sends it.
    pub zxid: Option<Zxid>,
}

impl Event {
    /// `None` for an unknown kind of event.
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

/// A report of a persistent watch.
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
    /// A znode has changed.
    Event(Event),
    /// The connection was lost: for now, changes are not reported.
    Disconnected,
    /// Changes may have been missed, because there was no connection, or because the program read
    /// its events too slowly. Read the znodes again; the watch continues.
    Missed,
}

/// A report of a watch that fires once.
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
    /// The watch has fired, and has ended.
    Event(Event),
    /// The session's state has changed. Without a connection, changes are not reported. The end of
    /// the session ends the watch.
    Session(SessionState),
}

/// Tells the session that the watch was dropped.
#[derive(Debug)]
struct Guard {
    watcher: WatcherId,
    shared: Arc<Shared>,
    /// The root of the client that has set the watch.
    chroot: Arc<Chroot>,
    /// Whether the watch has fired for the last time, so nothing must be removed.
    is_over: bool,
}

impl Guard {
    fn new(watcher: WatcherId, client: &Client) -> Self {
        let (shared, chroot) = (client.shared().clone(), client.root().clone());
        Self { watcher, shared, chroot, is_over: false }
    }

    /// The event as its client calls the znode.
    fn relative(&self, event: Event) -> Event {
        let path = self.chroot.relative(&event.path);
        // Most clients have no root of their own.
        if path.len() == event.path.len() {
            return event;
        }
        Event { path: path.to_owned(), ..event }
    }
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
/// The watch begins with the answer to its read, and misses no later change. It survives a lost
/// connection: the next server reports changes of that time. The protocol has one gap: if
/// [`Client::watch_exists`](crate::Client::watch_exists) found no znode, and the znode is created
/// and deleted again without a connection, the watch does not report it.
///
/// Dropping it removes the watch. Awaiting `&mut watch` keeps it. [`Watch::next`] also reports
/// changes of the session's state, such as a lost connection.
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
    pub(crate) fn new(watcher: WatcherId, signals: Mailbox<Signal>, client: &Client) -> Self {
        Self { signals, guard: Guard::new(watcher, client) }
    }

    /// Waits for the next report: a change of the session's state, or the event, which is the last
    /// report. Dropping the future loses nothing.
    ///
    /// A slow program does not get every change of the state. It always gets the last one, and
    /// learns whether there was a [`SessionState::Disconnected`] since its last call.
    ///
    /// # Errors
    /// The session has ended, which was reported before, or the watch has fired.
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
        // Further events follow after a state.
        self.guard.is_over = !matches!(signal, Some(Signal::Session(_)));
        let signal = signal.map(|signal| match signal {
            Signal::Event(event) => Signal::Event(self.guard.relative(event)),
            Signal::Session(state) => Signal::Session(state),
        });
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
    pub(crate) fn new(watcher: WatcherId, notices: Mailbox<Notice>, client: &Client) -> Self {
        Self { notices, guard: Guard::new(watcher, client) }
    }

    fn poll_notice(&self, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        let notice = ready!(self.notices.poll_take(cx));
        Poll::Ready(notice.map(|notice| match notice {
            Notice::Event(event) => Notice::Event(self.guard.relative(event)),
            Notice::Disconnected | Notice::Missed => notice,
        }))
    }

    /// Waits for the next report. Dropping the future loses nothing.
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
        let notice = poll_fn(|cx| self.poll_notice(cx)).await;
        notice.ok_or_else(|| over(&self.guard.shared))
    }
}

impl Stream for PersistentWatch {
    type Item = Notice;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        self.poll_notice(cx)
    }
}

/// The reason why there are no more events.
fn over(shared: &Shared) -> Error {
    match shared.ending() {
        Some(ending) => Error::failed(Failure::Over(ending), ""),
        None => Error::answered(ErrorCode::NO_WATCHER, ""),
    }
}
