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

/// What the model has allowed, or why not.
pub(crate) type Held = Result<(), String>;

/// The members that a history makes count.
#[derive(Debug)]
struct Members {
    first: Membership,
    /// By the zxid of their change.
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
    /// The leadership of its own that it has asked its disk to accept.
    stands: Option<TermId>,
    /// What its disk has accepted of another server; the model hears of it with the promise.
    accepted: u32,
    /// Its disk was replaced while it was down.
    is_replaced: bool,
    /// Where its history ends once a truncation or a copy is done that its disk has begun.
    replacing: Option<Zxid>,
    /// The end of its tree.
    applied: Zxid,
    serves: bool,
}

/// The state of the model, and what is on its way there.
pub(crate) struct Refines {
    state: State,
    rules: Rules<Members>,
    servers: Vec<Track>,
    is_on: bool,
    /// How many actions it has allowed.
    pub(crate) actions: u64,
}

fn key(zxid: Zxid) -> (u32, u32) {
    (zxid.epoch().0, zxid.counter())
}

/// How long a history is up to a transaction.
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
            // Where bytes and trees change by themselves, little can be told.
            is_on: plan.flip_every.is_none() && !plan.diverges,
            actions: 0,
        }
    }

    /// After a step that the model does not know, it says nothing more.
    pub(crate) fn stop(&mut self) {
        self.is_on = false;
    }

    fn act(&mut self, action: Action) -> Held {
        self.actions += 1;
        self.state.next(action, &self.rules).map_err(|refused| format!("model: {refused}"))
    }

    /// The invariants of the model hold.
    pub(crate) fn check(&self) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.state.check(&self.rules).map_err(|it| format!("model: {} ({})", it.name, it.id))
    }

    /// How much of its history a server has up to a transaction.
    fn own(&self, server: usize, zxid: Zxid, what: &str) -> Result<usize, String> {
        length(&self.state.servers[server].history, zxid)
            .ok_or_else(|| format!("model: server {server} {what} {zxid}, which it has not logged"))
    }

    /// The same of its leader's history.
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

    /// A server leaves the leadership that it has a part in.
    fn leaves(&mut self, server: usize) -> Held {
        match self.state.servers[server].role {
            Part::Looking => Ok(()),
            _ => self.act(Action::Timeout { server }),
        }
    }

    /// The leadership of an epoch that a learner takes part in, which learns from `master`: the leader, or a follower.
    fn joined(&self, master: usize, epoch: u32) -> TermId {
        match self.state.servers[master].role {
            Part::Following(id) if id.epoch == epoch => id,
            _ => TermId { epoch, leader: master },
        }
    }

    fn follows(&mut self, server: usize, term: TermId) -> Held {
        if self.state.servers[server].role == Part::Following(term) {
            return Ok(());
        }
        self.leaves(server)?;
        self.act(Action::FollowerProcessNEWEPOCH { server, term })
    }

    /// It has accepted a later epoch, so nobody counts on it.
    fn observes(&mut self, server: usize, term: TermId) -> Held {
        self.leaves(server)?;
        self.act(Action::ObserverProcessNEWEPOCH { server, term })
    }

    // ---- starts

    /// The disk of a server that is down is another one.
    pub(crate) fn replaced(&mut self, server: usize) {
        self.servers[server].is_replaced = true;
    }

    /// A truncation or a copy is under way.
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
        // What the disk had begun may be done.
        if before.replacing == Some(last) {
            match self.own(server, last, "is cut to") {
                Ok(_) => self.truncated(server, Some(last))?,
                Err(_) => self.restored(server, last)?,
            }
        }
        let len = self.own(server, last, "recovers")?;
        if found.1 > self.state.servers[server].current {
            // Its history was whole, and its epoch was on the way to the disk, or follows from its log.
            self.act(Action::Flush { server, len })?;
            self.act(Action::FollowerProcessNEWLEADER { server })?;
        }
        self.act(Action::Restart { server, len })?;
        // What it had accepted, and what it has read, nobody has promised.
        self.act(Action::Promise { server, epoch: found.0.max(before.accepted) })?;
        let it = &self.state.servers[server];
        if (it.accepted, it.current) != found {
            let had = (it.accepted, it.current);
            return Err(format!("model: server {server} recovers epochs {found:?}, not {had:?}"));
        }
        Ok(())
    }

    /// A server that starts has lost its data, as it says, or has data that count.
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
        // It may have left already when its disk hears of what it has decided.
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

    /// A leader has the acknowledgements of a quorum.
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

    /// A truncation is done, or there was nothing to cut to.
    pub(crate) fn truncated(&mut self, server: usize, end: Option<Zxid>) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.servers[server].replacing = None;
        let it = &self.state.servers[server];
        let Some(end) = end else {
            // Only a copy helps.
            let (epochs, role) = ((it.accepted, it.current), it.role);
            self.state.replace_disk(server, epochs, Vec::new(), true);
            self.state.servers[server].role = role;
            return Ok(());
        };
        let len = self.own(server, end, "is cut to")?;
        self.servers[server].applied = self.servers[server].applied.min(end);
        if len == self.state.servers[server].history.len() {
            return Ok(());
        }
        self.act(Action::FollowerTruncates { server, len })
    }

    /// A copy has replaced the history.
    pub(crate) fn restored(&mut self, server: usize, zxid: Zxid) -> Held {
        if !self.is_on {
            return Ok(());
        }
        self.servers[server].replacing = None;
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
                // A candidate says so of its own history, and a follower repeats what it is told.
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A learner says to its leader, or to a follower that passes on what its leader says, what epoch it has. It was
    /// `told` that leader's.
    pub(crate) fn promises(
        &mut self,
        server: usize,
        master: usize,
        packet: &QuorumPacket,
        told: u32,
    ) -> Held {
        if !self.is_on {
            return Ok(());
        }
        let ack = EpochAck::decode(packet.data.as_deref()).ok().and_then(|ack| ack.current_epoch);
        let saved = std::mem::take(&mut self.servers[server].accepted);
        let epoch = self.state.servers[server].accepted.max(saved);
        if ack.is_none() {
            // It was accepted before, and the answer does not count.
            self.act(Action::Promise { server, epoch })?;
        }
        match self.joined(master, told) {
            term if told < epoch && ack.is_none() => self.observes(server, term)?,
            _ => self.follows(server, self.joined(master, epoch))?,
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

    /// A server begins to synchronize another one.
    pub(crate) fn syncs(&mut self, leader: usize, server: usize) -> Held {
        match self.state.servers[leader].role {
            Part::Leading(_) if self.is_on => {
                self.act(Action::LeaderSyncFollower { leader, server })
            }
            // A follower synchronizes observers, and nobody counts on those.
            _ => Ok(()),
        }
    }

    /// A leader commits.
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
        // What is applied before it serves may be truncated again, and nobody sees it.
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
