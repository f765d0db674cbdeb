//! P-13 and S-12: servers that keep to the protocol never report a violation, and the transactions
//! that wait to be applied continue the applied ones without a gap.

use zebu_zab::Leave;
use zebu_zab::history::follows;

use crate::server::Server;

/// Whether a role ended for a reason that only a broken protocol gives, or more lost disks than a plan takes.
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

/// What some leaders do on purpose.
#[derive(Clone, Copy, Default)]
pub(crate) struct Allowed {
    /// They leave something out of a synchronization.
    pub(crate) holes: bool,
    /// They lose what learners ask for.
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
