//! All watch notifications of the servers in one stream, for programs that display them.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use zebu_proto::{EventType, Zxid};
use zebu_session::Chroot;

use crate::Client;
use crate::mailbox::Mailbox;
use crate::shared::Command;

/// One notification, however many watches it fires.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode};
///
/// let mut notifications = client.notifications();
/// let (_, _, _watch) = client.watch_children("/").await?;
/// client.create("/a", "", CreateMode::Ephemeral, &Acls::creator()).await?;
/// let notification = notifications.next().await.expect("the session lasts");
/// assert_eq!(notification.to_string(), "NodeChildrenChanged /");
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification {
    /// The kind of change.
    pub kind: EventType,
    /// The path of the znode.
    pub path: String,
    /// The zxid of the transaction, if the server sends it.
    pub zxid: Option<Zxid>,
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.name() {
            Some(name) => write!(f, "{name} {}", self.path),
            None => write!(f, "event {} {}", self.kind.0, self.path),
        }
    }
}

/// The notifications of a session, as a stream that ends with it.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// let mut notifications = client.notifications();
/// client.close().await?;
/// assert!(notifications.next().await.is_none());
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct Notifications {
    heard: Mailbox<Notification>,
    /// The root of the client.
    chroot: Arc<Chroot>,
}

impl Notifications {
    /// Waits for the next notification. Dropping the future loses nothing. A program that reads
    /// slowly misses notifications.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut notifications = client.notifications();
    /// let shown = tokio::spawn(async move {
    ///     while let Some(notification) = notifications.next().await {
    ///         println!("{notification}");
    ///     }
    /// });
    /// client.close().await?;
    /// shown.await?;
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Option<Notification> {
        poll_fn(|cx| self.poll_heard(cx)).await
    }

    fn poll_heard(&self, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        let heard = ready!(self.heard.poll_take(cx));
        Poll::Ready(heard.map(|heard| {
            let path = self.chroot.relative(&heard.path).to_owned();
            Notification { path, ..heard }
        }))
    }
}

impl Stream for Notifications {
    type Item = Notification;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        self.poll_heard(cx)
    }
}

impl Client {
    /// Every notification from now on that fires one of the session's watches, each once, also
    /// those of removed watches. Dropped watches are removed nevertheless. A znode that is not
    /// below this client's root has the path that the servers call it.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Version, WatchMode};
    ///
    /// let mut notifications = client.notifications();
    /// let _one = client.watch("/", WatchMode::Persistent).await?;
    /// let _other = client.watch_data("/").await?;
    /// client.set_data("/", "new", Version::ANY).await?;
    /// client.close().await?;
    /// // Two watches, one notification.
    /// assert!(notifications.next().await.is_some());
    /// assert!(notifications.next().await.is_none());
    /// # Ok(()) });
    /// ```
    pub fn notifications(&self) -> Notifications {
        let heard = Mailbox::new();
        self.shared().command(Command::Overhear(heard.clone()));
        Notifications { heard, chroot: self.root().clone() }
    }
}

/// The receivers of all notifications.
#[derive(Default)]
pub(crate) struct Audience {
    all: Vec<Mailbox<Notification>>,
    /// The notifications since [`Audience::begin`].
    told: Option<(EventType, Bytes)>,
}

impl Audience {
    pub(crate) fn add(&mut self, heard: Mailbox<Notification>) {
        self.all.push(heard);
    }

    /// Begins a new notification: later events do not belong to the one before.
    pub(crate) fn begin(&mut self) {
        self.told = None;
    }

    /// Passes on the event of a watch, unless it belongs to the last notification that was passed
    /// on.
    pub(crate) fn tell(
        &mut self,
        kind: EventType,
        path: &Bytes,
        told: impl FnOnce() -> Notification,
    ) {
        if self.all.is_empty() || self.told.as_ref().is_some_and(|(k, p)| *k == kind && p == path) {
            return;
        }
        self.told = Some((kind, path.clone()));
        let notification = told();
        for heard in &self.all {
            let missed = notification.clone();
            heard.put(notification.clone(), || missed);
        }
    }

    pub(crate) fn close(&self) {
        self.all.iter().for_each(Mailbox::close);
    }
}
