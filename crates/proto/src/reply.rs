//! Messages from servers: the header and body of every answer, and notifications.

use std::borrow::Cow;

use zebu_jute::{Encode, Encoder, record};

use crate::request::ENSEMBLE;
use crate::{EnsembleId, ErrorCode, SessionId, Xid, Zxid};

/// Bytes of a session password.
pub const PASSWORD_BYTES: usize = 16;

record! {
    /// Prefixes every answer a server sends. Source: `zookeeper.jute`, `proto.ReplyHeader`.
    fixed ReplyHeader {
        /// Echo of the request's xid; negative for notifications (−1), pings (−2) and auth (−4).
        xid: Xid,
        /// Last zxid this server had applied when it answered.
        zxid: Zxid,
        /// The error code.
        err: ErrorCode,
    }
}

/// Answer to a connect request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Negotiated session timeout, in milliseconds; 0 when the session is refused.
    pub timeout_ms: i32,
    /// The session, or 0.
    pub session_id: SessionId,
    /// The password that proves ownership of the session.
    pub password: [u8; PASSWORD_BYTES],
    /// Whether this server is read-only; `None` for clients that did not send the flag.
    pub read_only: Option<bool>,
    /// The id of the server's ensemble, for clients that have asked for it; servers of the original
    /// tell none.
    pub ensemble: Option<EnsembleId>,
}

impl ConnectResponse {
    /// Tells the client that its session has expired.
    pub fn refused(read_only: Option<bool>) -> Self {
        Self {
            timeout_ms: 0,
            session_id: SessionId::NONE,
            password: [0; PASSWORD_BYTES],
            read_only,
            ensemble: None,
        }
    }
}

impl Encode for ConnectResponse {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.int(0);
        out.int(self.timeout_ms);
        self.session_id.encode(out);
        out.buffer(Some(&self.password));
        if let Some(read_only) = self.read_only {
            out.boolean(read_only);
            if let Some(id) = self.ensemble {
                out.int(ENSEMBLE);
                id.encode(out);
            }
        }
    }
}

record! {
    /// Body of a notification.
    WatcherEvent<'a> {
        /// See [`EventType`].
        kind: EventType,
        /// See [`KeeperState`].
        state: KeeperState,
        /// The znode.
        path: Cow<'a, str>,
    }
}

/// The kind of change of a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventType(pub i32);

zebu_jute::number!(EventType: i32, KeeperState: i32);

impl EventType {
    /// A change of the session's state.
    pub const NONE: Self = Self(-1);
    /// The znode was created.
    pub const NODE_CREATED: Self = Self(1);
    /// The znode was deleted.
    pub const NODE_DELETED: Self = Self(2);
    /// Its data were set.
    pub const NODE_DATA_CHANGED: Self = Self(3);
    /// A child was created or deleted.
    pub const NODE_CHILDREN_CHANGED: Self = Self(4);
    /// Client side: a data watch was removed.
    pub const DATA_WATCH_REMOVED: Self = Self(5);
    /// Client side: a child watch was removed.
    pub const CHILD_WATCH_REMOVED: Self = Self(6);
    /// Client side: a persistent watch was removed.
    pub const PERSISTENT_WATCH_REMOVED: Self = Self(7);

    /// The name the original's tools print, or `None` for an event it does not know.
    /// Source: `Watcher.Event.EventType`.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NONE => "None",
            Self::NODE_CREATED => "NodeCreated",
            Self::NODE_DELETED => "NodeDeleted",
            Self::NODE_DATA_CHANGED => "NodeDataChanged",
            Self::NODE_CHILDREN_CHANGED => "NodeChildrenChanged",
            Self::DATA_WATCH_REMOVED => "DataWatchRemoved",
            Self::CHILD_WATCH_REMOVED => "ChildWatchRemoved",
            Self::PERSISTENT_WATCH_REMOVED => "PersistentWatchRemoved",
            _ => return None,
        })
    }
}

/// The state of the session in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeeperState(pub i32);

impl KeeperState {
    /// Connected; servers send no other state.
    pub const SYNC_CONNECTED: Self = Self(3);
}

/// The watches that checkWatches and removeWatches refer to.
/// Source: `Watcher.WatcherType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatcherType {
    /// One-shot child watches.
    Children,
    /// One-shot data and exists watches.
    Data,
    /// All of them.
    Any,
    /// Persistent ones.
    Persistent,
    /// Persistent recursive ones.
    PersistentRecursive,
}

impl WatcherType {
    /// The type behind a number on the wire.
    pub fn from_wire(kind: i32) -> Option<Self> {
        Some(match kind {
            1 => Self::Children,
            2 => Self::Data,
            3 => Self::Any,
            4 => Self::Persistent,
            5 => Self::PersistentRecursive,
            _ => return None,
        })
    }
}
