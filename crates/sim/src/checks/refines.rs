//! The steps of the servers are steps that the model of the protocol permits (`docs/model.md`).
//!
//! Observations of the servers become actions of the model, which refuses those that its guards
//! forbid. In the model, a server leaves a leadership when it joins another one; until then nothing
//! depends on it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use bytes::Bytes;
use zebu_model::{Action, Quorums, Role as Part, Rules, Servers, State, TermId, Txn};
use zebu_proto::quorum::{EpochAck, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, Zxid};
use zebu_zab::config::Membership;
use zebu_zab::election::State as Stands;
use zebu_zab::{EpochKind, Epochs, Role};

use crate::checks::configs::is_quorum;
use crate::checks::order::{Order, is_commit};
use crate::plan::Plan;
use crate::server::Server;

/// `Err` says why the model does not allow a step.
pub(crate) type Held = Result<(), String>;

/// The memberships of a history.
#[derive(Debug)]
struct Members {
    first: Membership,
    /// Reconfigurations, by zxid.
    changes: BTreeMap<(u32, u32), Membership>,
}

impl Quorums for Members {
    fn is_quorum(&self, history: &[Txn], committed: usize, servers: Servers) -> bool {
        let has = |voter| servers.contains(voter);
        let changes = |txn: &&Txn| txn.value & 1 == 1;
        let config = |txn: &Txn| self.changes.get(&txn.zxid());
        let (certain, open) = history.split_at(committed.min(history.len()));
        let in_force = certain.iter().rev().find(changes).and_then(config);
        open.iter().filter(changes).filter_map(config).all(|config| is_quorum(config, has))
            && is_quorum(in_force.unwrap_or(&self.first), has)
    }
}

#[derive(Clone, Default)]
struct Track {
    /// The leadership of its own that the server has asked its disk to accept.
    stands: Option<TermId>,
    /// The epoch that the disk has accepted of another leader. The model learns it with the
    /// promise.
    accepted: u32,
    /// Whether the disk was replaced while the server was down.
    is_replaced: bool,
    /// The end of the history after the truncation or snapshot transfer that the disk has begun.
    replacing: Option<Zxid>,
    /// The last transaction that was applied to the tree.
    applied: Zxid,
    serves: bool,
}

/// The state of the model, and steps that the model has not taken yet.
pub(crate) struct Refines {
    state: State,
    rules: Rules<Members>,
    servers: Vec<Track>,
    /// By connection, the leadership that its learner was told and has not answered yet.
    told: BTreeMap<u64, TermId>,
    is_on: bool,
    /// The number of actions so far.
    pub(crate) actions: u64,
}

fn key(zxid: Zxid) -> (u32, u32) {
    (zxid.epoch().0, zxid.counter())
}

/// The length of a history up to a transaction.
fn length(history: &[Txn], zxid: Zxid) -> Option<usize> {
    if zxid == Zxid::ZERO {
        return Some(0);
    }
    history.binary_search_by(|txn| txn.zxid().cmp(&key(zxid))).ok().map(|at| at + 1)
}

impl Refines {
    pub(crate) fn new(plan: &Plan, first: Membership) -> Self {
        let servers = plan.servers();
        Self {
            state: State::init(servers),
            rules: Rules::new(Members { first, changes: BTreeMap::new() }),
            servers: vec![Track::default(); servers],
            told: BTreeMap::new(),
            // The model does not describe changed bytes or trees.
            is_on: plan.flip_every.is_none() && !plan.diverges,
            actions: 0,
        }
    }

    /// Ends the check, after a step that the model does not allow.
    pub(crate) fn stop(&mut self) {
        self.is_on = false;
    }

    fn act(&mut self, action: Action) -> Held {
        self.actions += 1;
        self.state.next(action, &self.rules).map_err(|refused| format!("model: {refused}"))
    }

    /// Checks the invariants of the model.
    pub(crate) fn check(&self) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.state.check(&self.rules).map_err(|it| format!("model: {} ({})", it.name, it.id))
    }

    /// The length of a server's own history up to a transaction.
    fn own(&self, server: usize, zxid: Zxid, what: &str) -> Result<usize, String> {
        length(&self.state.servers[server].history, zxid)
            .ok_or_else(|| format!("model: server {server} {what} {zxid}, which it has not logged"))
    }

    /// The leadership that a server takes part in, and the length of the leader's history up to a
    /// transaction.
    fn led(&self, server: usize, zxid: Zxid, what: &str) -> Result<(TermId, usize), String> {
        let (Part::Leading(id) | Part::Following(id)) = self.state.servers[server].role else {
            return Err(format!("model: server {server} {what} {zxid} without a leader"));
        };
        let term = self.state.term(id).and_then(|term| length(&term.history, zxid));
        let len = term.ok_or_else(|| {
            format!("model: server {server} {what} {zxid}, which is not in its leader's history")
        })?;
        Ok((id, len))
    }

    /// A server leaves its leadership.
    fn leaves(&mut self, server: usize) -> Held {
        match self.state.servers[server].role {
            Part::Looking => Ok(()),
            _ => self.act(Action::Timeout { server }),
        }
    }

    fn follows(&mut self, server: usize, term: TermId) -> Held {
        if self.state.servers[server].role == Part::Following(term) {
            return Ok(());
        }
        self.leaves(server)?;
        self.act(Action::FollowerProcessNEWEPOCH { server, term })
    }

    /// The server has accepted a later epoch, so it observes, and no leader relies on it.
    fn observes(&mut self, server: usize, term: TermId) -> Held {
        self.leaves(server)?;
        self.act(Action::ObserverProcessNEWEPOCH { server, term })
    }

    // ---- starts

    /// A server that is down gets another disk.
    pub(crate) fn replaced(&mut self, server: usize) {
        self.servers[server].is_replaced = true;
    }

    /// A truncation or a snapshot transfer begins.
    pub(crate) fn replaces(&mut self, server: usize, zxid: Zxid) {
        self.servers[server].replacing = Some(zxid);
    }

    pub(crate) fn recovered(
        &mut self,
        server: usize,
        last: Zxid,
        epochs: Epochs,
        tree: Zxid,
        order: &Order,
    ) -> Held {
        if !self.is_on {
            return Ok(());
        }
        let before = std::mem::take(&mut self.servers[server]);
        self.servers[server].applied = tree;
        let found = (epochs.accepted.0, epochs.current.0);
        if before.is_replaced {
            let history = self.chain(last, order);
            self.state.replace_disk(server, found, history, true);
            return Ok(());
        }
        // The disk may have completed the operation that it had begun.
        if before.replacing == Some(last) {
            match self.own(server, last, "is cut to") {
                Ok(_) => self.truncated(server, Some(last))?,
                Err(_) => self.restored(server, last)?,
            }
        }
        let len = self.own(server, last, "recovers")?;
        if found.1 > self.state.servers[server].current {
            // The disk had the whole history, and was about to store the epoch, or the epoch
            // follows from the log.
            self.act(Action::Flush { server, len })?;
            self.act(Action::FollowerProcessNEWLEADER { server })?;
        }
        self.act(Action::Restart { server, len })?;
        // An accepted epoch, or one that the start has read, is not promised yet.
        self.act(Action::Promise { server, epoch: found.0.max(before.accepted) })?;
        let it = &self.state.servers[server];
        if (it.accepted, it.current) != found {
            let had = (it.accepted, it.current);
            return Err(format!("model: server {server} recovers epochs {found:?}, not {had:?}"));
        }
        Ok(())
    }

    /// A server starts, and says whether it has lost its data.
    pub(crate) fn lost(&mut self, server: usize, is_empty: bool) {
        self.state.servers[server].empty = is_empty;
    }

    /// The history that ends with a transaction.
    fn chain(&self, last: Zxid, order: &Order) -> Vec<Txn> {
        let mut history = Vec::new();
        let mut at = last;
        while at != Zxid::ZERO && order.knows(at) {
            history.push(self.txn(at, &order.record(at)));
            at = order.before(at);
        }
        history.reverse();
        history
    }

    fn txn(&self, zxid: Zxid, record: &Bytes) -> Txn {
        let mut hasher = DefaultHasher::new();
        hasher.write(record);
        let (epoch, counter) = key(zxid);
        let changes = self.rules.quorums.changes.contains_key(&(epoch, counter));
        Txn { epoch, counter, value: hasher.finish() << 1 | u64::from(changes) }
    }

    // ---- epochs

    pub(crate) fn saves_epoch(
        &mut self,
        server: usize,
        it: &Server,
        kind: EpochKind,
        epoch: Epoch,
    ) -> Held {
        if !self.is_on {
            return Ok(());
        }
        let stands = it.peer().is_some_and(|peer| peer.state() == Stands::Leading);
        // The server may have left its leadership before its disk reports.
        let leads = self.state.servers[server].role;
        match (kind, leads) {
            (EpochKind::Accepted, _) => {
                let own = TermId { epoch: epoch.0, leader: server };
                self.servers[server].stands = stands.then_some(own);
                Ok(())
            }
            (EpochKind::Current, Part::Leading(id)) if id.epoch == epoch.0 => {
                self.act(Action::LeaderProcessACKEPOCH { leader: server })
            }
            (EpochKind::Current, _) => Ok(()),
        }
    }

    pub(crate) fn epoch_saved(&mut self, server: usize, kind: EpochKind, epoch: Epoch) -> Held {
        if !self.is_on {
            return Ok(());
        }
        match kind {
            EpochKind::Accepted => match self.servers[server].stands.take() {
                Some(term) => {
                    self.leaves(server)?;
                    self.act(Action::LeaderProcessCEPOCH { term })
                }
                None => {
                    self.servers[server].accepted = epoch.0;
                    Ok(())
                }
            },
            EpochKind::Current => self.act(Action::FollowerProcessNEWLEADER { server }),
        }
    }

    /// A quorum has acknowledged a leader.
    pub(crate) fn established(&mut self, server: usize, _: Epoch) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.act(Action::LeaderProcessACKLD { leader: server })
    }

    // ---- the log

    pub(crate) fn append(
        &mut self,
        server: usize,
        zxid: Zxid,
        record: &Bytes,
        change: Option<&Membership>,
    ) -> Held {
        if !self.is_on {
            return Ok(());
        }
        if let Some(change) = change {
            self.rules.quorums.changes.entry(key(zxid)).or_insert_with(|| change.clone());
        }
        let txn = self.txn(zxid, record);
        match self.state.servers[server].role {
            Part::Leading(id) if id.epoch == txn.epoch => {
                self.act(Action::LeaderProcessRequest { leader: server, txn })
            }
            _ => self.act(Action::FollowerProcessPROPOSE { server, txn }),
        }
    }

    pub(crate) fn flushed(&mut self, server: usize, zxid: Zxid) -> Held {
        if !self.is_on {
            return Ok(());
        }
        let len = self.own(server, zxid, "has on its disk")?;
        self.act(Action::Flush { server, len })
    }

    /// A truncation is complete, or was impossible.
    pub(crate) fn truncated(&mut self, server: usize, end: Option<Zxid>) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.servers[server].replacing = None;
        let Some(end) = end else {
            // Only a snapshot transfer helps. Until then the disk keeps what it has.
            self.servers[server].is_replaced = true;
            self.goes_on_with(server, Vec::new(), true);
            return Ok(());
        };
        let len = self.own(server, end, "is cut to")?;
        self.servers[server].applied = self.servers[server].applied.min(end);
        if len == self.state.servers[server].history.len() {
            return Ok(());
        }
        self.act(Action::FollowerTruncates { server, len })
    }

    /// An observer without a log goes back to the state on its disk.
    pub(crate) fn forgets(&mut self, server: usize, end: Zxid, order: &Order) {
        if !self.is_on {
            return;
        }
        self.servers[server].replacing = None;
        self.servers[server].applied = end;
        let history = self.chain(end, order);
        self.goes_on_with(server, history, self.state.servers[server].empty);
    }

    /// A running server has another history, with the same epochs, and keeps its role.
    fn goes_on_with(&mut self, server: usize, history: Vec<Txn>, is_empty: bool) {
        let it = &self.state.servers[server];
        let (epochs, role) = ((it.accepted, it.current), it.role);
        self.state.replace_disk(server, epochs, history, is_empty);
        self.state.servers[server].role = role;
    }

    /// A snapshot transfer has replaced the history.
    pub(crate) fn restored(&mut self, server: usize, zxid: Zxid) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.servers[server].replacing = None;
        self.servers[server].is_replaced = false;
        self.servers[server].applied = zxid;
        let (_, len) = self.led(server, zxid, "is given a copy at")?;
        self.act(Action::FollowerRestores { server, len })
    }

    // ---- between servers

    pub(crate) fn send(&mut self, server: usize, packet: &QuorumPacket) -> Held {
        if !self.is_on {
            return Ok(());
        }
        match packet.kind {
            PacketKind::ACK if packet.zxid.counter() == 0 => {
                let has = self.state.servers[server].current;
                let said = packet.zxid.epoch().0;
                if has >= said {
                    return Ok(());
                }
                Err(format!("model: server {server} acknowledges epoch {said}, and has {has}"))
            }
            PacketKind::ACK => {
                let len = self.own(server, packet.zxid, "acknowledges")?;
                self.act(Action::FollowerSendsACK { server, len })
            }
            kind if is_commit(kind) => match self.state.servers[server].role {
                Part::Leading(id) if self.state.term(id).is_some_and(|term| term.established) => {
                    self.commits(server, packet.zxid)
                }
                // A candidate announces its own history, and a follower forwards.
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A leader tells a learner its epoch, or a follower that forwards for its leader does. The
    /// master may have left that leadership, or may have crashed, when the learner answers.
    pub(crate) fn tells_epoch(&mut self, link: u64, master: usize, epoch: Epoch) {
        if !self.is_on {
            return;
        }
        let epoch = epoch.0;
        let term = match self.state.servers[master].role {
            Part::Following(id) if id.epoch == epoch => id,
            _ => TermId { epoch, leader: master },
        };
        self.told.insert(link, term);
    }

    /// A learner reports its epoch to the server that has told it the leader's.
    pub(crate) fn promises(&mut self, link: u64, server: usize, packet: &QuorumPacket) -> Held {
        if !self.is_on {
            return Ok(());
        }
        let Some(told) = self.told.remove(&link) else {
            return Err(format!("model: server {server} answers, and was told no epoch"));
        };
        let ack = EpochAck::decode(packet.data.as_deref()).ok().and_then(|ack| ack.current_epoch);
        let saved = std::mem::take(&mut self.servers[server].accepted);
        let epoch = self.state.servers[server].accepted.max(saved);
        if ack.is_none() {
            // The disk had accepted this epoch before, and the answer does not count as a promise.
            self.act(Action::Promise { server, epoch })?;
        }
        if told.epoch < epoch && ack.is_none() {
            self.observes(server, told)?;
        } else {
            self.follows(server, TermId { epoch, ..told })?;
        }
        let has = &self.state.servers[server];
        let most = has.current.max(has.last().0);
        match ack {
            Some(current) if current.0 > most => Err(format!(
                "model: server {server} says that it has epoch {}, and has {most}",
                current.0
            )),
            _ => Ok(()),
        }
    }

    /// A server begins to synchronize a learner.
    pub(crate) fn syncs(&mut self, leader: usize, server: usize) -> Held {
        match self.state.servers[leader].role {
            Part::Leading(_) if self.is_on => {
                self.act(Action::LeaderSyncFollower { leader, server })
            }
            // A follower synchronizes observers only, and no leader relies on those.
            _ => Ok(()),
        }
    }

    /// A leader commits a transaction.
    pub(crate) fn commits(&mut self, server: usize, zxid: Zxid) -> Held {
        if !self.is_on {
            return Ok(());
        }
        let (id, len) = self.led(server, zxid, "commits")?;
        if self.state.term(id).is_some_and(|term| len <= term.committed) {
            return Ok(());
        }
        self.act(Action::LeaderProcessACK { leader: server, len })
    }

    // ---- what clients see

    pub(crate) fn applied(&mut self, server: usize, zxid: Zxid, candidate: bool) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.servers[server].applied = zxid;
        // Transactions that are applied before the server serves may be truncated, and no client
        // sees them.
        if candidate || !self.servers[server].serves {
            return Ok(());
        }
        self.delivers(server)
    }

    fn delivers(&mut self, server: usize) -> Held {
        let len = self.own(server, self.servers[server].applied, "delivers")?;
        self.act(Action::FollowerProcessCOMMIT { server, len })
    }

    pub(crate) fn role(&mut self, server: usize, role: Role) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.servers[server].serves = role != Role::Looking;
        if role == Role::Looking { Ok(()) } else { self.delivers(server) }
    }
}
