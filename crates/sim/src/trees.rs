//! Trees that change in memory, as a fault of the machine or of the code could cause.
//!
//! One member at a time gets different data in one znode, and there is no other fault. Until the
//! fault is detected, reads there may be wrong, so few properties are checked: in the end all trees
//! are equal again, without the wrong data, whichever member was affected, also the leader.

use zebu_proto::txn::{Txn, TxnHeader, TxnRecord};
use zebu_proto::{OpCode, SessionId};
use zebu_testkit::Random;
use zebu_tree::{Silent, Tree, Walk};

use crate::plan::Target;
use crate::server::Server;
use crate::world::World;

/// Data that no client writes.
const WRONG: &[u8] = b"no client has written this";

/// Replaces the data of one znode by wrong ones.
fn change(tree: &mut Tree, random: &mut Random) -> Option<String> {
    let mut znodes = Vec::new();
    Walk::new(tree).step(tree, usize::MAX, &mut |path, _, _, stat| {
        if zebu_tree::digest_counts(path) && path != "/" && path != "/zookeeper" {
            znodes.push((path.to_owned(), *stat));
        }
    });
    if znodes.is_empty() {
        return None;
    }
    let (path, stat) = znodes.swap_remove(random.below(znodes.len() as u64) as usize);
    let header = TxnHeader {
        session: SessionId(0),
        cxid: 0,
        zxid: stat.mzxid,
        time_ms: stat.mtime,
        op: OpCode::SET_DATA,
    };
    let version = stat.version;
    let txn = Txn::SetData { path: path.as_str().into(), data: Some(WRONG), version };
    let last = tree.last_zxid();
    tree.apply(&TxnRecord { header, txn, digest: None }, &mut Silent);
    assert_eq!(tree.last_zxid(), last, "only data change");
    Some(path)
}

fn is_wrong(tree: &Tree) -> Option<String> {
    let mut found = None;
    Walk::new(tree).step(tree, usize::MAX, &mut |path, data, _, _| {
        if data == Some(WRONG) {
            found = Some(path.to_owned());
        }
    });
    found
}

impl World {
    /// Changes a member's tree in memory.
    pub(crate) fn diverge(&mut self, target: Target) -> Option<()> {
        let server = self.aim(target)?;
        let is_another = |it: &Server| {
            it.process.as_ref().is_some_and(|process| is_wrong(&process.tree()).is_some())
        };
        if self.servers.iter().any(is_another) {
            // There was no write since the last tree became wrong. With several wrong trees, no
            // majority may be right.
            return None;
        }
        let process = self.servers[server].process.as_mut()?;
        let path = change(&mut process.common.tree.write(), &mut self.random)?;
        self.tell(|| format!("server {server} has wrong data in {path}"));
        Some(())
    }

    /// Checks that all trees are equal and no tree has wrong data.
    pub(crate) fn look_for_wrong_data(&mut self) {
        for server in 0..self.servers.len() {
            let Some(process) = &self.servers[server].process else { continue };
            if let Some(path) = is_wrong(&process.tree()) {
                let what = format!("S-10: server {server} has wrong data in {path} in the end");
                return self.checks.insist(what);
            }
        }
    }
}
