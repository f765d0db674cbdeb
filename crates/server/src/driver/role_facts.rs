//! The public facts about this server's role: its status, its lines in the log, and the evidence
//! for a tree that differs.

use std::sync::atomic::Ordering;

use tracing::{error, info, warn};
use zebu_proto::{SessionId, Zxid};
use zebu_replica::Session;
use zebu_zab::{Leave, Peer, Role, TreeDigest};

use super::effects::Effects;
use crate::counting::lacking::who_has_forgotten;
use crate::ensemble::evidence::Incident;
use crate::four_letter::ProposalSizes;
use crate::shared::{Leading, SessionDeadline, Status};

impl Effects<'_> {
    /// The leader's own view.
    pub(super) fn leading(&self) -> Option<Leading> {
        let (since, proposals) = self.parts.leading?;
        let learners = self.parts.replica.peer()?.learners()?;
        let pending_syncs = self.parts.replica.pending_syncs();
        Some(Leading { since, learners, pending_syncs, proposals })
    }

    /// Copies the public facts about this server's role.
    pub(super) fn update_status(&self) {
        let peer = self.parts.replica.peer();
        let observers = peer.and_then(|peer| peer.observers());
        let master = peer.and_then(|peer| peer.master());
        let leader = peer.and_then(|peer| peer.leader());
        let lacks = peer.and_then(Peer::lacks);
        let leading = self.leading();
        let doubted = self.parts.doubted;
        *self.shared.counting.status.lock() =
            Status { leading, observers, master, leader, lacks, doubted };
    }

    /// Stores the evidence that this server's tree differs from its leader's, or from a quorum's.
    pub(super) fn keep_evidence(&mut self, what: String, zxid: Option<Zxid>) {
        let config = &self.shared.config;
        let Some(me) = config.ensemble.as_ref().map(|ensemble| ensemble.me) else { return };
        let leader = self.shared.counting.status.lock().leader;
        let wall_ms = self.shared.clock.now().wall_ms;
        let incident = Incident { me, leader, what, wall_ms, zxid };
        if let Some(evidence) = self.parts.recent.evidence(&incident) {
            self.shared.metrics.tree_doubts_count.add(1);
            *self.shared.disk.differing.lock() = Some(evidence.zxid());
            evidence.keep(config.data.logs());
        }
    }

    pub(super) fn count_local_sessions(&self) {
        let locals = self.parts.replica.sessions().locals();
        self.shared.counting.local_sessions.store(locals, Ordering::Relaxed);
    }

    /// Copies facts that only the replica has, if they are requested.
    pub(super) fn report_sessions(&self) {
        self.count_local_sessions();
        let sessions = self.parts.replica.sessions();
        self.shared.counting.session_list.answer(|| {
            let copy = |(id, session): (SessionId, &Session)| {
                let Session { deadline, local, .. } = *session;
                SessionDeadline { id, deadline, local }
            };
            sessions.iter().map(copy).collect()
        });
    }

    /// This server's tree differs from its leader's since this transaction; `None`: it no longer
    /// does.
    pub(super) fn doubts_tree(&mut self, since: Option<TreeDigest>) {
        self.parts.doubted = since.map(|since| since.zxid);
        self.update_status();
        let Some(TreeDigest { zxid, tree }) = since else {
            *self.shared.disk.differing.lock() = None;
            info!("this server's tree equals the leader's tree again; it serves clients");
            return;
        };
        let what = format!(
            "this server's tree differs from the leader's since {zxid} (its digest is {tree:#x} there): no client is \
             served until a digest agrees, or the leader has sent its whole tree"
        );
        error!(
            "{what}; hint: copy the data directories of this server and of the leader before they change"
        );
        self.keep_evidence(what, Some(zxid));
    }

    /// This server has another role, or no role any more.
    pub(super) fn has_role(&mut self, role: Role) {
        let parts = &mut *self.parts;
        match (&mut parts.member, role) {
            (None, _) => {}
            (Some(member), Role::Looking) => {
                member.looks(parts.replica.peer().map_or(0, Peer::disloyal_supporters));
            }
            (Some(member), role) => member.serves(matches!(role, Role::Leading(_))),
        }
        parts.leading = match role {
            Role::Leading(_) => Some((self.shared.clock.monotonic(), ProposalSizes::default())),
            _ => None,
        };
        if role == Role::Looking {
            parts.doubted = None;
        }
        let why = parts.replica.peer().map_or(Leave::Started, Peer::left);
        if role == Role::Looking {
            match why {
                Leave::TreeDiffers => self.keep_evidence(why.to_string(), None),
                Leave::TreeOutvoted { zxid } => self.keep_evidence(why.to_string(), Some(zxid)),
                _ => {}
            }
        }
        self.update_status();
        match role {
            Role::Looking if matches!(why, Leave::WouldForget { .. }) => {
                let lacks = self.parts.replica.peer().and_then(Peer::lacks);
                let others = lacks.map_or_else(Vec::new, |lacks| who_has_forgotten(&lacks));
                error!("looking for a leader: {why}; {}", others.join("; "));
            }
            Role::Looking if matches!(why, Leave::TreeDiffers | Leave::TreeOutvoted { .. }) => {
                error!("looking for a leader: {why}");
            }
            Role::Looking
                if matches!(why, Leave::MayHaveLost { .. } | Leave::CopyNotProposed { .. }) =>
            {
                warn!("looking for a leader: {why}");
            }
            Role::Looking => info!("looking for a leader: {why}"),
            Role::Leading(epoch) => info!("leading, epoch {:x}", epoch.0),
            Role::Following(leader) => info!("following server {}", leader.0),
            Role::Observing(leader) => info!("observing server {}", leader.0),
        }
    }
}
