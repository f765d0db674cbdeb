//! The operations of the protocol.

use std::fmt;

/// The operation of a request or logged transaction. Unknown values survive a round trip.
///
/// Source: `ZooDefs.OpCode`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpCode(pub i32);

zebu_jute::number!(OpCode: i32);

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl OpCode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The operation's name, as the original spells it; `unknown` for any other value.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    _ => "unknown",
                }
            }
        }
    };
}

opcodes! {
    /// Creates a znode; answered with its path.
    CREATE = 1, "create";
    /// Deletes a znode.
    DELETE = 2, "delete";
    /// Reads the stat of a znode; may set a watch, also on its creation.
    EXISTS = 3, "exists";
    /// Reads data and stat.
    GET_DATA = 4, "getData";
    /// Replaces the data.
    SET_DATA = 5, "setData";
    /// Reads the ACL and stat.
    GET_ACL = 6, "getACL";
    /// Replaces the ACL.
    SET_ACL = 7, "setACL";
    /// Reads the names of the children.
    GET_CHILDREN = 8, "getChildren";
    /// Waits until the server has applied all transactions committed so far.
    SYNC = 9, "sync";
    /// Keeps the session alive.
    PING = 11, "ping";
    /// Reads the names of the children and the stat.
    GET_CHILDREN2 = 12, "getChildren2";
    /// Checks a version; only within a multi.
    CHECK = 13, "check";
    /// Executes several writes as one transaction.
    MULTI = 14, "multi";
    /// Creates a znode; answered with its path and stat.
    CREATE2 = 15, "create2";
    /// Changes the members of the ensemble.
    RECONFIG = 16, "reconfig";
    /// Checks whether a watch is set.
    CHECK_WATCHES = 17, "checkWatches";
    /// Removes watches.
    REMOVE_WATCHES = 18, "removeWatches";
    /// Creates a container znode.
    CREATE_CONTAINER = 19, "createContainer";
    /// Deletes a container or TTL znode. Only the server itself sends it.
    DELETE_CONTAINER = 20, "deleteContainer";
    /// Creates a TTL znode.
    CREATE_TTL = 21, "createTTL";
    /// Executes several reads in one request.
    MULTI_READ = 22, "multiRead";
    /// Sends credentials for the connection.
    AUTH = 100, "auth";
    /// Sets watches again after a reconnection.
    SET_WATCHES = 101, "setWatches";
    /// Sends a SASL token.
    SASL = 102, "sasl";
    /// Lists the session's ephemerals.
    GET_EPHEMERALS = 103, "getEphemerals";
    /// Counts the descendants.
    GET_ALL_CHILDREN_NUMBER = 104, "getAllChildrenNumber";
    /// Sets watches again, including persistent ones.
    SET_WATCHES2 = 105, "setWatches2";
    /// Sets a persistent watch.
    ADD_WATCH = 106, "addWatch";
    /// Reads the connection's credentials.
    WHO_AM_I = 107, "whoAmI";
    /// Creates a session; only within the servers.
    CREATE_SESSION = -10, "createSession";
    /// Ends a session.
    CLOSE_SESSION = -11, "closeSession";
    /// A failed request in the log, and the end of a multi.
    ERROR = -1, "error";
}

impl OpCode {
    /// Whether the operation changes the tree or the sessions, and so takes a zxid.
    pub fn is_write(self) -> bool {
        matches!(
            self,
            Self::CREATE
                | Self::CREATE2
                | Self::CREATE_CONTAINER
                | Self::CREATE_TTL
                | Self::DELETE
                | Self::DELETE_CONTAINER
                | Self::SET_DATA
                | Self::SET_ACL
                | Self::MULTI
                | Self::CHECK
                | Self::RECONFIG
                | Self::CREATE_SESSION
                | Self::CLOSE_SESSION
        )
    }

    /// The first release of ZooKeeper, major and minor number, whose servers know the operation.
    /// Releases before 3.4 are not told apart.
    ///
    /// Source: `ZooDefs.OpCode` of the releases.
    pub fn since(self) -> (u16, u16) {
        match self {
            Self::CREATE2
            | Self::RECONFIG
            | Self::CHECK_WATCHES
            | Self::REMOVE_WATCHES
            | Self::CREATE_CONTAINER
            | Self::CREATE_TTL => (3, 5),
            Self::MULTI_READ
            | Self::GET_EPHEMERALS
            | Self::GET_ALL_CHILDREN_NUMBER
            | Self::SET_WATCHES2
            | Self::ADD_WATCH => (3, 6),
            Self::WHO_AM_I => (3, 7),
            _ => (3, 4),
        }
    }
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}
