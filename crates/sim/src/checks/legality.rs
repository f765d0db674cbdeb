//! P-13 and S-12: servers that keep to the protocol never report a violation, and the transactions
//! that wait to be applied continue the applied ones without a gap.

use zebu_zab::Leave;
use zebu_zab::history::follows;

use crate::server::Server;

/// Whether only a violation of the protocol, or more lost disks than a plan allows, can end a role
/// for this reason.
fn is_illegal(left: Leave, allowed: Allowed) -> bool {
    match left {
        Leave::CommittedUnproposed { .. }
        | Leave::OutOfTurn(_)
        | Leave::Damaged(_)
        | Leave::EpochChanged { .. }
        | Leave::SyncNotTold(_)
        | Leave::IdentityNotTold
        | Leave::EpochNotTold(_)
        | Leave::EpochImpossible(_)
        | Leave::NoDesignatedLeader
        | Leave::WouldForget { .. } => true,
        Leave::Gap { .. } => !allowed.holes,
        Leave::RequestLost => !allowed.losses,
        _ => false,
    }
}

/// The faults that leaders of this plan have on purpose.
#[derive(Clone, Copy, Default)]
pub(crate) struct Allowed {
    /// Leaders omit transactions from a synchronization.
    pub(crate) holes: bool,
    /// Leaders lose requests of learners.
    pub(crate) losses: bool,
}

pub(crate) fn check(server: usize, it: &Server, allowed: Allowed) -> Result<(), String> {
    let Some(peer) = it.peer() else { return Ok(()) };
    let left = peer.left();
    if is_illegal(left, allowed) {
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
