//! The error codes of the protocol.

use std::fmt;

/// The result of a request; 0 is OK. Unknown values survive a round trip.
///
/// Source: `KeeperException.Code`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i32);

zebu_jute::number!(ErrorCode: i32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// All codes that have a name, [`ErrorCode::OK`] first.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The code's name, as the original spells it, or `None` for a value it does not know.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The request succeeded.
    OK = 0,
    /// Something failed inside the server.
    SYSTEM_ERROR = -1,
    /// An operation of a multi that was not tried because an earlier one failed.
    RUNTIME_INCONSISTENCY = -2,
    /// The server's data are inconsistent.
    DATA_INCONSISTENCY = -3,
    /// Client side: the connection was lost while the request was pending.
    CONNECTION_LOSS = -4,
    /// The request could not be decoded.
    MARSHALLING_ERROR = -5,
    /// The server does not support or does not allow this operation.
    UNIMPLEMENTED = -6,
    /// Client side: no answer in time.
    OPERATION_TIMEOUT = -7,
    /// An argument no server would accept.
    BAD_ARGUMENTS = -8,
    /// The session is not known here.
    UNKNOWN_SESSION = -12,
    /// No quorum of the new configuration is connected and up to date.
    NEW_CONFIG_NO_QUORUM = -13,
    /// Another reconfiguration is under way.
    RECONFIG_IN_PROGRESS = -14,
    /// The znode, or the parent of one to create, does not exist.
    NO_NODE = -101,
    /// The client's ids lack the permission.
    NO_AUTH = -102,
    /// The expected version is not the current one.
    BAD_VERSION = -103,
    /// Ephemeral znodes cannot have children.
    NO_CHILDREN_FOR_EPHEMERALS = -108,
    /// The znode exists already.
    NODE_EXISTS = -110,
    /// The znode has children.
    NOT_EMPTY = -111,
    /// The session has expired.
    SESSION_EXPIRED = -112,
    /// Client side: the callback is not valid.
    INVALID_CALLBACK = -113,
    /// The ACL is empty or has an invalid entry.
    INVALID_ACL = -114,
    /// The credentials were refused.
    AUTH_FAILED = -115,
    /// The session has moved to another server; never reaches a client.
    SESSION_MOVED = -118,
    /// A write on a read-only server.
    NOT_READ_ONLY = -119,
    /// A local session cannot own ephemerals.
    EPHEMERAL_ON_LOCAL_SESSION = -120,
    /// No such watch is set on the path.
    NO_WATCHER = -121,
    /// Client side: no answer in time.
    REQUEST_TIMEOUT = -122,
    /// `reconfigEnabled` is not set.
    RECONFIG_DISABLED = -123,
    /// The server requires the client to authenticate first.
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124,
    /// A hard quota would be exceeded.
    QUOTA_EXCEEDED = -125,
    /// The request waited too long in the server's queue and was not executed.
    THROTTLED_OP = -127,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
