//! Replaces the state of a running driver.

use zebu_proto::Zxid;
use zebu_store::Received;
use zebu_tree::Tree;

use super::Driver;
use crate::counting::digests::Digests;
use crate::error::RunError;

impl Driver {
    /// Takes a turn, and then makes an operator's snapshot the state of this standalone server. If
    /// a request is still in progress or the server has stopped, this returns the snapshot.
    ///
    /// No client may be served meanwhile, or there would always be a request in progress.
    ///
    /// # Errors
    /// The disk failed, so the server cannot continue.
    pub fn restore(
        &mut self,
        snapshot: (Tree, Received),
    ) -> Result<Option<(Tree, Received)>, RunError> {
        let shared = self.parts.shared.clone();
        assert!(shared.serving().is_none(), "clients are served meanwhile");
        if !self.over {
            self.turn()?;
        }
        let replica = &mut self.parts.replica;
        if self.over || replica.in_process() > 0 || replica.waiting() > 0 {
            return Ok(Some(snapshot));
        }
        let (mut tree, file) = snapshot;
        self.parts.journal.lock().restore(file)?;
        tree.trust_digests(Zxid::ZERO);
        let before = {
            let mut current = shared.tree().write();
            let before = std::mem::replace(&mut *current, tree);
            replica.restored(&current, shared.clock.now());
            before
        };
        shared.disk.damaged_files.lock().clear();
        self.parts.digests = Digests::default();
        // The old state is freed without a thread waiting for it.
        let dropped = std::thread::Builder::new().name("zebu-old-tree".to_owned());
        let _ = dropped.spawn(move || drop(before));
        Ok(None)
    }
}
