//! Paths of children, and names nobody else uses.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use zebu_client::Client;

/// The path of a child.
pub(crate) fn join(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.trim_end_matches('/'))
}

/// The last part of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// A name that nobody else uses: of the session, of this process, and of nobody else.
pub(crate) fn unique(client: &Client) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().hash_one(number);
    format!("{:016x}-{number}-{random:016x}", client.session_id().0)
}
