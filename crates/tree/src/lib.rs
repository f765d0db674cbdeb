//! The replicated state of one server as a pure data structure: znodes, ACLs, sessions, ephemerals,
//! containers, TTL znodes, quotas, the tree digest, and watches.
//!
//! [`Tree::apply`] applies transactions and never fails. Reads and watch registrations need only a
//! shared reference. A higher layer decides which requests are permitted.
//!
//! **Invariant:** no clock, no socket, no file, no request; the same transactions give the same
//! tree and the same events, whatever the seed of its hash tables.
//! Checked by `clippy.toml` and `tests/model.rs`.

mod acl_table;
mod ahead;
mod apply;
mod arena;
mod check;
mod count;
mod digest;
mod events;
mod faults;
mod index;
mod listing;
mod load;
mod node;
mod owners;
mod payload;
mod quota;
mod record;
mod tree;
mod walk;
mod watches;

pub use apply::{Applied, OpResult, Outcome};
pub use count::Count;
pub use digest::{digest_counts, moved_digest, node_digest};
pub use events::{Events, Silent, WatchLists};
pub use listing::{Change, Listed, Listing};
pub use load::{BadNode, DuplicateNode, Loader};
pub use node::Node;
pub use quota::{Quota, QuotaText, QuotaTextError};
pub use tree::{DIGEST_HISTORY_INTERVAL, DIGEST_HISTORY_MAX, Options, Tree};
pub use walk::Walk;
pub use watches::{WATCH_BYTES_MAX, WatchMode, WatchSummary, WatcherId};
