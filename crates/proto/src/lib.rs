//! The vocabulary of ZooKeeper: typed ids, ACLs, stats, opcodes, error codes, and every record of
//! the client protocol, the protocols between servers and the transaction log.
//!
//! Does no I/O and decides nothing: higher layers know which requests are permitted, and what they
//! do.

mod acl;
pub mod address;
pub mod answer;
mod causes;
pub mod connect_string;
mod error_code;
mod identity;
mod ids;
#[cfg(feature = "mutants")]
pub mod mutants;
mod opcode;
mod owner;
pub mod path;
pub mod properties;
pub mod quorum;
pub mod reply;
pub mod request;
mod session;
pub mod snapshot;
mod stat;
mod stream;
pub mod txn;

pub use acl::{Acl, AclRef, ClientInfo, Id, Perms};
pub use causes::Causes;
pub use connect_string::{ConnectString, ConnectStringError, HostPort};
pub use error_code::ErrorCode;
pub use identity::{EnsembleId, Identity, NotAnEnsembleId};
pub use ids::{Epoch, ServerId, SessionId, Version, Xid, Zxid};
pub use opcode::OpCode;
pub use owner::{CONTAINER_OWNER, CreateMode, ExtendedTypes, Owner, TTL_MS_MAX};
pub use reply::{EventType, KeeperState, WatcherType};
pub use session::{compatible_password, same_password};
pub use stat::{STAT_BYTES, STAT_PERSISTED_BYTES, Stat, StatPersisted};

/// The version reported to clients and tools: the release whose behaviour this server has, then its
/// own version. They parse the leading numbers.
pub const VERSION: &str = concat!("3.9.5-zebu-", env!("CARGO_PKG_VERSION"));

/// The build time, in the form that tools expect. It is the date of the version rather than of the
/// build, so that builds are reproducible.
pub const BUILT_ON: &str = "2026-11-21 00:00 UTC";

zebu_jute::number!(Zxid: i64, SessionId: i64, ServerId: i64, Xid: i32, Version: i32);

/// Whether this fault, put in on purpose, is chosen; see the feature `mutants`.
#[cfg(feature = "mutants")]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutants::is_chosen($name)
    };
}

/// Whether this fault, put in on purpose, is chosen; see the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        false
    };
}
