//! P-13 and S-12: among servers that keep to the protocol nobody ever breaks it, and what waits to be
//! applied goes on without a gap from what is.

use zebu_zab::history::follows;

use crate::server::Server;

/// Reasons to leave a role that only a broken protocol gives.
const NEVER: [&str; 6] = [
    "the leader commits what it has not proposed",
    "the leader speaks out of turn",
    "the leader changes its epoch",
    "the leader does not say how to synchronize",
    "the leader does not tell its epoch",
    "the leader has lost a request",
];

/// The same, unless some leaders do that.
const GAP: &str = "the leader leaves a gap";

/// `holes` says whether some leaders leave something out.
pub(crate) fn check(server: usize, it: &Server, holes: bool) -> Result<(), String> {
    let Some(peer) = it.peer() else { return Ok(()) };
    let left = peer.left();
    if NEVER.contains(&left) || left == GAP && !holes {
        return Err(format!("P-13: server {server}: {left}"));
    }
    let history = peer.history();
    let mut last = history.delivered();
    for txn in history.pending() {
        if !follows(last, txn.zxid) {
            return Err(format!("S-12: server {server} has {} behind {last} pending", txn.zxid));
        }
        last = txn.zxid;
    }
    Ok(())
}
