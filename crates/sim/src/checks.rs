//! The properties that must hold: one file for each, and the events that they get.

pub(crate) mod configs;
pub(crate) mod durability;
mod ensembles;
pub(crate) mod expiry;
pub(crate) mod handover;
pub(crate) mod joint;
pub(crate) mod leaders;
mod leadership;
pub(crate) mod legality;
pub(crate) mod order;
pub(crate) mod progress;
pub(crate) mod promises;
pub(crate) mod quotas;
pub(crate) mod reads;
pub(crate) mod reference;
mod refines;
pub(crate) mod removed;
pub(crate) mod sessions;
pub(crate) mod staleness;
pub(crate) mod state;
pub(crate) mod succession;
pub(crate) mod watches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::{Epoch, SessionId, Zxid};
use zebu_replica::{Input, Output};
use zebu_state::membership;
use zebu_store::Recovered;
use zebu_tree::Tree;
use zebu_zab::config::Membership;
use zebu_zab::election::State;
use zebu_zab::{ConfigChange, EpochKind, Epochs, Leave, Role};

use crate::checks::configs::is_quorum;
use crate::disk::Disk;
use crate::members;
use crate::names::name_of;
use crate::plan::{Leads, Plan};
use crate::server::{Backup, Server};
use crate::world::World;

/// Violations of a run, one of each check, that outlive a panic of the run.
pub(crate) type Noted = Arc<Mutex<BTreeMap<&'static str, String>>>;

/// All checks of a run.
pub(crate) struct Checks {
    pub(crate) now: Duration,
    /// The violated properties.
    pub(crate) broken: Vec<String>,
    /// The violations that do not end the run, by check.
    noted: Noted,
    pub(crate) order: order::Order,
    pub(crate) leaders: leaders::Leaders,
    pub(crate) leadership: leadership::Leadership,
    pub(crate) configs: configs::Configs,
    joint: joint::Joint,
    removed: removed::Removed,
    /// `None` while the check runs.
    pub(crate) progress: Option<progress::Progress>,
    pub(crate) durability: durability::Durability,
    pub(crate) state: state::States,
    pub(crate) expiry: expiry::Expiry,
    pub(crate) reads: reads::Reads,
    pub(crate) sessions: sessions::Sessions,
    pub(crate) staleness: staleness::Staleness,
    pub(crate) reference: reference::Reference,
    pub(crate) handover: handover::Handover,
    pub(crate) ensembles: ensembles::Ensembles,
    refines: refines::Refines,
    /// Since when there are no faults and all servers serve.
    pub(crate) calm_since: Option<Duration>,
    /// By connection, the last transaction of which a sent snapshot may contain effects.
    extents: BTreeMap<u64, Zxid>,
    /// By connection, the last committed transaction when a snapshot was sent.
    sent: BTreeMap<u64, Zxid>,
    /// By connection, the zxid that a read-only server shows to its client.
    shown: BTreeMap<u64, Zxid>,
    /// Whether results of the disk are lost, because the process ends.
    silent: bool,
    /// Whether bytes or trees change by themselves, so that most checks do not apply.
    lenient: bool,
    /// Whether only the model's verdict counts.
    only_model: bool,
    /// Whether violations are noted and do not end the run.
    goes_on: bool,
    /// The epoch that each server leads.
    leads: Vec<Option<zebu_proto::Epoch>>,
    /// Whether each server was a leader or a candidate after its last step.
    stood: Vec<bool>,
    /// Whether each server left its last leadership because another server leads after a
    /// reconfiguration.
    handed: Vec<bool>,
    /// The servers whose disks have rotted.
    rotten: Vec<bool>,
    /// The servers whose histories end with transactions that no disk has.
    unlogged: Vec<bool>,
    /// By server: the zxids of its snapshots, and the last transactions of which these may contain
    /// effects.
    snapshots: Vec<BTreeMap<Zxid, Zxid>>,
    voters: usize,
    reconfig: bool,
    /// Whether some leaders omit transactions from a synchronization.
    holes: bool,
    /// Whether some leaders lose requests of learners.
    losses: bool,
    local_sessions: bool,
}

impl Checks {
    pub(crate) fn new(plan: &Plan) -> Self {
        let servers = plan.servers();
        let first = members::first(plan);
        let refines = refines::Refines::new(plan, first.clone());
        Self {
            now: Duration::ZERO,
            broken: Vec::new(),
            noted: Noted::default(),
            goes_on: plan.goes_on,
            order: order::Order::new(servers),
            leaders: leaders::Leaders::default(),
            leadership: leadership::Leadership::new(plan),
            progress: Some(progress::Progress::new(plan)),
            configs: configs::Configs::new(first, servers),
            joint: joint::Joint::default(),
            removed: removed::Removed::default(),
            durability: durability::Durability::new(servers),
            state: state::States::new(servers),
            expiry: expiry::Expiry::new(servers, plan.tick),
            reads: reads::Reads::default(),
            sessions: sessions::Sessions::new(plan.counts_anew),
            staleness: staleness::Staleness::new(plan),
            reference: reference::Reference::new(plan.counts_anew, plan.quotas),
            handover: handover::Handover::new(plan.hands_over),
            ensembles: ensembles::Ensembles::new(servers),
            refines,
            calm_since: None,
            extents: BTreeMap::new(),
            sent: BTreeMap::new(),
            shown: BTreeMap::new(),
            silent: false,
            lenient: plan.flip_every.is_some() || plan.diverges,
            only_model: plan.only_model,
            leads: vec![None; servers],
            stood: vec![false; servers],
            handed: vec![false; servers],
            rotten: vec![false; servers],
            unlogged: vec![false; servers],
            snapshots: vec![BTreeMap::new(); servers],
            voters: plan.voters,
            reconfig: plan.reconfig,
            holes: plan.leads.contains(&Leads::Holes),
            losses: plan.leads.contains(&Leads::Loses),
            local_sessions: plan.local_sessions,
        }
    }

    /// What a run that continues after violations has found so far, also if it panics later.
    pub(crate) fn noted(&self) -> Noted {
        Noted::clone(&self.noted)
    }

    /// Reports a violation of a property that holds whatever goes wrong.
    pub(crate) fn insist(&mut self, what: String) {
        let what = format!("at {:.3} s: {what}", self.now.as_secs_f64());
        if self.goes_on {
            self.noted.lock().entry(name_of(&what)).or_insert(what);
        } else {
            self.broken.push(what);
        }
    }

    pub(crate) fn found(&mut self, what: String) {
        if !self.lenient && !self.only_model {
            self.insist(what);
        }
    }

    /// Passes a step of a server to the model of the protocol.
    fn refine(&mut self, step: impl FnOnce(&mut refines::Refines, &order::Order) -> refines::Held) {
        if let Err(what) = step(&mut self.refines, &self.order) {
            self.refines.stop();
            match self.only_model {
                true => self.insist(what),
                false => self.found(what),
            }
        }
    }

    fn hold(&mut self, result: Result<(), String>) {
        if let Err(what) = result {
            self.found(what);
        }
    }

    /// From now on, the results of a server's disk are lost, or no longer.
    pub(crate) fn silent(&mut self, silent: bool) {
        self.silent = silent;
    }

    /// Checks the invariants of the model. Returns the number of its actions.
    pub(crate) fn check_model(&mut self) -> u64 {
        self.refine(|model, _| model.check());
        self.refines.actions
    }

    // ---- a server starts

    pub(crate) fn recovered(
        &mut self,
        server: usize,
        recovered: &Recovered,
        epochs: Epochs,
        committed: &Membership,
        tree: &Tree,
        mismatches: u64,
    ) {
        let held = self.configs.started(server, committed);
        self.hold(held);
        let last = recovered.last_zxid.max(Zxid::ZERO);
        if recovered.damaged.is_some() && self.rotten[server] {
            self.refines.replaced(server);
            self.durability.damaged(server);
            self.order.wiped(server);
            self.state.wiped(server);
        } else if let Some(damage) = &recovered.damaged {
            self.found(format!("F2: server {server} finds damage after a crash only: {damage:?}"));
        }
        if recovered.damaged.is_none() && self.durability.repaired(server) {
            self.refines.replaced(server);
        }
        if std::mem::take(&mut self.unlogged[server]) {
            self.refines.replaced(server);
        }
        self.loads(server, last);
        let held = self.durability.recovered(server, last, epochs, &self.order);
        self.hold(held);
        let held = self.order.recovered(server, last);
        self.hold(held);
        let held = self.state.recovered(server, last, tree, mismatches);
        self.hold(held);
        self.refine(|model, order| model.recovered(server, last, epochs, tree.last_zxid(), order));
        self.expiry.restarted(server);
        self.leads[server] = None;
        self.stood[server] = false;
        self.handed[server] = false;
    }

    /// A server starts, and says whether it has lost its data.
    pub(crate) fn counts_for_nothing(&mut self, server: usize, is_empty: bool) {
        self.refines.lost(server, is_empty);
    }

    pub(crate) fn wiped(&mut self, server: usize) {
        self.refines.replaced(server);
        self.durability.wiped(server);
        self.order.wiped(server);
        self.state.wiped(server);
    }

    /// Whether a server may lose its disk: all others still have everything that they ever had. It
    /// does not suffice that others have the committed transactions, because a server that has lost
    /// everything does not count.
    pub(crate) fn may_wipe(&self, server: usize) -> bool {
        let mut others = self.rotten.iter().enumerate();
        !self.durability.any_wiped() && others.all(|(other, rotten)| other == server || !rotten)
    }

    /// Whether a server may return with older data unnoticed: all other voters have everything that
    /// it has.
    pub(crate) fn may_roll_back(&self, server: usize) -> bool {
        let is_sound = !self.rotten.contains(&true);
        let newest = self.configs.newest(&self.order);
        let votes = |other: usize| {
            if self.reconfig { newest.is_voter(members::id(other)) } else { other < self.voters }
        };
        is_sound && self.durability.may_roll_back(server, votes, &self.order)
    }

    /// Whether a server has a durable transaction.
    pub(crate) fn has_transactions(&self, server: usize) -> bool {
        self.durability.flushed_by(server) > Zxid::new(Epoch(1), 0)
    }

    pub(crate) fn rolled_back(&mut self, server: usize, backup: &Backup) {
        let (from, to) = backup.fuzzy;
        self.refines.replaced(server);
        self.durability.rolled_back(server, backup.lost);
        self.order.wiped(server);
        self.state.fuzzy(server, from, to);
        self.configs.rewritten(server);
    }

    /// Records the facts about a copy of a server's data.
    pub(crate) fn back_up(&self, server: usize, disk: Disk, version: Zxid) -> Backup {
        let (fuzzy, lost) = (self.state.fuzzy_of(server), self.durability.is_wiped(server));
        Backup { disk, fuzzy, lost, version }
    }

    /// Whether a server has lost data and has not recovered them.
    pub(crate) fn has_lost_data(&self) -> bool {
        self.durability.any_wiped() || self.rotten.contains(&true)
    }

    /// Whether a server has lost everything and has not recovered.
    pub(crate) fn has_lost_everything(&self) -> bool {
        self.durability.any_wiped()
    }

    pub(crate) fn is_rotten(&self, server: usize) -> bool {
        self.rotten[server]
    }

    /// A part of a server's disk has rotted. The server must notice.
    pub(crate) fn rotted(&mut self, server: usize) {
        self.rotten[server] = true;
    }

    /// No start of this server needs the damaged part any more.
    pub(crate) fn repaired(&mut self, server: usize) {
        self.rotten[server] = false;
    }

    // ---- the log

    /// A server has decided to log a transaction.
    pub(crate) fn append(&mut self, server: usize, it: &Server, zxid: Zxid, record: &Bytes) {
        if it.process.as_ref().is_some_and(|process| process.only_reads) {
            // A server in this state orders nothing, and no leader synchronizes it.
            self.found(format!("B-22: server {server} logs {zxid} while it serves readers only"));
        }
        // The server may give up its epoch in the next step.
        let led = self.leaders.of(zxid.epoch()) == Some(server);
        let is_new = !self.order.knows(zxid);
        let held = self.order.append(server, led, zxid, record);
        self.hold(held);
        let change = if is_new { Membership::in_txn(record) } else { None };
        self.refine(|model, _| model.append(server, zxid, record, change.as_ref()));
        if is_new && self.order.knows(zxid) {
            let held = self.joint.proposed(&self.order, zxid, change.is_some());
            self.hold(held);
            if let Some(config) = change {
                let held = self.configs.proposed(server, config, &self.order);
                self.hold(held);
            }
        }
        if it.peer().is_some_and(|peer| peer.leads().is_some()) {
            self.expiry.proposed(server, record, self.now);
        }
    }

    /// A server has decided on outputs, and may carry them out later.
    pub(crate) fn decided(&mut self, server: usize, it: &Server, outputs: &[Output]) {
        if it.peer().is_none_or(|peer| peer.leads().is_none()) {
            return;
        }
        for output in outputs {
            if let Output::Append { zxid, record } = output {
                if let Some(process) = &it.process {
                    self.reference.quotas.decided(*zxid, &process.tree());
                }
                let held = self.expiry.decided(server, record, self.now, self.calm_since);
                self.hold(held);
            }
        }
    }

    pub(crate) fn flushed(&mut self, server: usize, zxid: Zxid) {
        if !self.silent {
            self.refine(|model, _| model.flushed(server, zxid));
            self.durability.flushed(server, zxid);
        }
    }

    pub(crate) fn epoch_saved(&mut self, server: usize, kind: EpochKind, epoch: zebu_proto::Epoch) {
        if !self.silent {
            self.refine(|model, _| model.epoch_saved(server, kind, epoch));
            let held = self.durability.epoch_saved(server, kind, epoch);
            self.hold(held);
        }
    }

    /// A server asks its disk to store an epoch.
    pub(crate) fn saves_epoch(
        &mut self,
        server: usize,
        it: &Server,
        kind: EpochKind,
        epoch: Epoch,
    ) {
        self.refine(|model, _| model.saves_epoch(server, it, kind, epoch));
    }

    /// A server has written a change of its configuration files.
    pub(crate) fn config_saved(&mut self, server: usize, change: &ConfigChange) {
        if !self.silent {
            self.configs.saved(server, change);
        }
    }

    /// A leader truncates a server's log.
    pub(crate) fn truncate(&mut self, server: usize, zxid: Zxid) {
        self.refines.replaces(server, zxid);
        let lost = self.order.lost_by_cut(server, zxid);
        self.may_lose(server, lost);
        self.durability.replace(server, zxid);
    }

    /// P-11: a server may lose a committed transaction only if a quorum of others has it. A quorum
    /// of others may have committed a transaction that this server logged, before it heard of the
    /// commit.
    fn may_lose(&mut self, server: usize, lost: Option<Zxid>) {
        let Some(lost) = lost else { return };
        let has = |voter| voter != server && self.durability.flushed_by(voter) >= lost;
        if !is_quorum(self.configs.newest(&self.order), has) {
            self.found(format!(
                "P-11: server {server} is made to lose {lost}, committed, which no quorum of others has"
            ));
        }
    }

    pub(crate) fn truncated(&mut self, server: usize, end: Option<Zxid>, tree: &Tree) {
        if self.silent {
            return;
        }
        let was_unlogged = std::mem::take(&mut self.unlogged[server]);
        match end.filter(|_| was_unlogged) {
            Some(end) => {
                self.refines.forgets(server, end, &self.order);
                self.loads(server, end);
            }
            None => self.refine(|model, _| model.truncated(server, end)),
        }
        match end {
            Some(zxid) => {
                self.order.cut(server, zxid);
                self.durability.cut(server, zxid);
                let held = self.state.compare(server, tree);
                self.hold(held);
            }
            None => {
                self.order.wiped(server);
                self.durability.lost(server);
                self.state.wiped(server);
            }
        }
    }

    /// A server begins to install a snapshot.
    pub(crate) fn restores(&mut self, server: usize, zxid: Zxid, extent: Zxid) {
        self.refines.replaces(server, zxid);
        self.state.installs(server, zxid, extent);
        self.durability.replace(server, zxid);
    }

    pub(crate) fn restored(
        &mut self,
        server: usize,
        link: u64,
        zxid: Zxid,
        extent: Zxid,
        tree: &Tree,
    ) {
        self.refine(|model, _| model.restored(server, zxid));
        self.unlogged[server] &= self.silent;
        // An installed snapshot counts even if its report is lost.
        self.rotten[server] = false;
        self.state.fuzzy(server, zxid, extent);
        let votes = self.configs.newest(&self.order).is_voter(members::id(server));
        let lost = self.order.restored(server, zxid);
        let committed = self.sent.get(&link).copied().unwrap_or_default();
        match lost {
            // The transaction was committed before the snapshot was sent, and the server votes:
            // another server may have relied on it.
            Some(lost) if lost <= committed && votes => self.found(format!(
                "P-11: a copy at {zxid} makes server {server} lose {lost}, committed"
            )),
            lost => self.may_lose(server, lost),
        }
        self.durability.restored(server, zxid, self.silent);
        if !self.silent {
            let held = self.state.compare(server, tree);
            self.hold(held);
        }
    }

    /// A fuzzy snapshot was sent: it may contain effects of transactions up to `extent`.
    pub(crate) fn copied(&mut self, link: u64, extent: Zxid) {
        self.extents.insert(link, extent);
    }

    /// A server begins to send a snapshot.
    pub(crate) fn copying(&mut self, link: u64) {
        self.sent.insert(link, self.order.last());
    }

    /// A read-only server serves a client from a tree as of `zxid`.
    pub(crate) fn shows(&mut self, conn: u64, zxid: Zxid) {
        self.shown.insert(conn, zxid);
    }

    /// Whether the client of this connection sees only committed data. A server without a leader
    /// cannot know whether the end of its log is committed.
    pub(crate) fn shows_committed(&self, conn: u64) -> bool {
        self.shown.get(&conn).is_none_or(|zxid| self.order.is_committed(*zxid))
    }

    pub(crate) fn extent(&self, link: u64) -> Zxid {
        self.extents.get(&link).copied().unwrap_or_default()
    }

    // ---- what servers do

    pub(crate) fn input(&mut self, server: usize, it: &Server, input: &Input) {
        self.expiry.input(server, it, input, self.now);
    }

    /// An observer without a log takes transactions into its history.
    fn take_unlogged(&mut self, server: usize, last: Zxid) {
        self.unlogged[server] = true;
        for zxid in self.order.between(self.order.logged(server), last) {
            let record = self.order.record(zxid);
            let held = self.order.append(server, false, zxid, &record);
            self.hold(held);
            self.refine(|model, _| model.append(server, zxid, &record, None));
            // The model has no servers without a log.
            self.refine(|model, _| model.flushed(server, zxid));
        }
    }

    /// A server has loaded its state up to `last`, with a snapshot that may contain later
    /// transactions, if no log has those.
    fn loads(&mut self, server: usize, last: Zxid) {
        let extents = self.snapshots[server].range(..=last).map(|(_, extent)| *extent);
        if let Some(extent) = extents.max().filter(|extent| *extent > last) {
            self.state.fuzzy(server, last, extent);
        }
    }

    /// Whether a server's history ends with transactions that no disk has.
    pub(crate) fn is_unlogged(&self, server: usize) -> bool {
        self.unlogged[server]
    }

    /// A snapshot on a server's disk is complete.
    pub(crate) fn snapshot_taken(&mut self, server: usize, zxid: Zxid, extent: Zxid) {
        self.snapshots[server].insert(zxid, extent);
    }

    pub(crate) fn stepped(&mut self, server: usize, it: &Server) {
        if let Some(peer) = it.peer().filter(|peer| peer.is_unlogged()) {
            self.take_unlogged(server, peer.history().last());
        }
        let allowed = legality::Allowed { holes: self.holes, losses: self.losses };
        let held = legality::check(server, it, allowed);
        self.hold(held);
        let held = self.leadership.stepped(server, it, self.now);
        self.hold(held);
        let held = self.durability.check(server, it);
        self.hold(held);
        let mut leads = it.peer().and_then(zebu_zab::Peer::leads);
        let stands = it.peer().is_some_and(|peer| peer.state() == State::Leading);
        let stood = std::mem::replace(&mut self.stood[server], stands);
        let handed = it.peer().is_some_and(|peer| peer.left() == Leave::ConfigHasOtherLeader);
        let first = !std::mem::replace(&mut self.handed[server], handed);
        if let Some(peer) = it.peer().filter(|_| handed && stood && (first || !stands)) {
            // A server that completes a reconfiguration after which another server leads is a
            // leader for this moment only.
            leads = Some(peer.epochs().current);
        }
        if stood && !stands && it.peer().is_some_and(|peer| peer.left() == Leave::QuorumLost) {
            self.progress.iter_mut().for_each(|progress| progress.deserted(server, self.now));
        }
        if let Some(epoch) = leads
            && self.leads[server] != leads
        {
            // A quorum has adopted its history, which counts from now on.
            self.refine(|model, _| model.established(server, epoch));
            let held = self.leaders.established(server, epoch);
            self.hold(held);
            let held = self.durability.leads(server, epoch);
            self.hold(held);
            let counting = self.joint.counting(&self.order, self.order.logged(server));
            let (configs, durability) = (&self.configs, &self.durability);
            let held =
                succession::established(server, epoch, &counting, &self.order, configs, durability);
            self.hold(held);
            let held = self.order.established(server, epoch);
            self.hold(held);
            self.take_committed();
            self.durability.counted(server, self.order.logged(server));
        }
        self.leads[server] = leads;
        let held = self.configs.check(server, it, &self.order, &self.joint, &self.durability);
        self.hold(held);
    }

    pub(crate) fn send(&mut self, server: usize, it: &Server, packet: &QuorumPacket) {
        self.refine(|model, _| model.send(server, packet));
        let is_unlogged = it.peer().is_some_and(zebu_zab::Peer::is_unlogged);
        let held = self.durability.send(server, packet, is_unlogged);
        self.hold(held);
        let epoch = packet.epoch();
        let peer = it.peer();
        // A candidate announces its history, too.
        let leads = peer.and_then(zebu_zab::Peer::leads) == Some(epoch);
        let activates =
            matches!(packet.kind, PacketKind::COMMITANDACTIVATE | PacketKind::INFORMANDACTIVATE);
        let led = activates && self.leaders.of(epoch) == Some(server);
        if order::is_commit(packet.kind) && (leads || led) {
            self.committing(packet.zxid);
            self.order.agreed(packet.zxid);
        }
        let stands = peer.is_some_and(|peer| peer.state() == State::Leading);
        if packet.kind == PacketKind::NEWLEADER && stands {
            let counting = self.joint.counting(&self.order, self.order.logged(server));
            let (order, configs, durability) = (&self.order, &self.configs, &self.durability);
            let held = self.removed.leads(server, epoch, &counting, order, configs, durability);
            self.hold(held);
        }
        self.order.sent(packet);
    }

    /// A server sends a packet to another server on this connection.
    pub(crate) fn tells_server(
        &mut self,
        link: u64,
        server: usize,
        other: usize,
        packet: &QuorumPacket,
    ) {
        match packet.kind {
            PacketKind::LEADERINFO => self.refines.tells_epoch(link, server, packet.epoch()),
            PacketKind::ACKEPOCH => {
                self.refine(|model, _| model.promises(link, server, packet));
            }
            PacketKind::DIFF | PacketKind::TRUNC | PacketKind::SNAP => {
                self.refine(|model, _| model.syncs(server, other));
            }
            _ => {}
        }
    }

    /// A leader commits a transaction.
    fn committing(&mut self, zxid: Zxid) {
        let (order, configs, durability) = (&self.order, &self.configs, &self.durability);
        let held = self.joint.committed(zxid, order, configs, durability);
        self.hold(held);
    }

    /// A learner sends or receives a packet on this connection.
    pub(crate) fn asks(&mut self, link: u64, packet: &QuorumPacket) {
        self.sessions.question(link, packet);
    }

    pub(crate) fn tells(&mut self, link: u64, packet: &QuorumPacket) {
        let held = self.sessions.answer(link, packet);
        self.hold(held);
    }

    pub(crate) fn receive(&mut self, server: usize, packet: &QuorumPacket) {
        self.durability.receive(server, packet);
    }

    pub(crate) fn role(&mut self, server: usize, role: Role, now: Duration) {
        self.refine(|model, _| model.role(server, role));
        self.expiry.role(server, role, now);
    }

    /// A server has applied a transaction.
    pub(crate) fn applied(
        &mut self,
        server: usize,
        before: Zxid,
        record: &Bytes,
        tree: &Tree,
        candidate: bool,
    ) {
        let zxid = tree.last_zxid();
        let led = self.leaders.of(zxid.epoch()) == Some(server);
        // For a snapshot transfer, a candidate delivers its own history before a quorum has agreed
        // to it.
        if led && !candidate {
            self.committing(zxid);
            self.refine(|model, _| model.commits(server, zxid));
        }
        self.refine(|model, _| model.applied(server, zxid, candidate));
        let held = self.order.applied(server, before, zxid, record, led, candidate);
        self.hold(held);
        self.take_committed();
        if !self.unlogged[server] {
            self.durability.counted(server, zxid);
        }
        let held = self.state.applied(server, zxid, record, tree);
        self.hold(held);
    }

    /// Applies newly committed transactions to the reference.
    fn take_committed(&mut self) {
        for zxid in self.order.take_new() {
            let record = self.order.record(zxid);
            let held = self.reference.apply(zxid, &record);
            self.hold(held);
            let held = self.sessions.committed(zxid, &record);
            self.hold(held);
            self.staleness.committed(zxid, self.now);
        }
    }

    /// The state with which answers are compared, and the check that counts them.
    pub(crate) fn told(&mut self) -> (reads::Told<'_>, &mut reads::Reads) {
        let Self { order, reference, configs, joint, durability, local_sessions, .. } = self;
        let local_sessions = *local_sessions;
        let told = reads::Told { order, reference, configs, joint, durability, local_sessions };
        (told, &mut self.reads)
    }

    /// A client has its session. `greeting`: the session was confirmed in this very step.
    pub(crate) fn attached(
        &mut self,
        server: usize,
        session: SessionId,
        timeout_ms: i32,
        greeting: bool,
    ) {
        self.expiry.attached(session, timeout_ms);
        if greeting {
            self.expiry.frames(server, session, self.now);
        }
    }
}

impl World {
    /// At the end, every tree must equal the tree of the committed transactions.
    pub(crate) fn compare_trees(&mut self) {
        for server in 0..self.servers.len() {
            let Some(process) = &self.servers[server].process else { continue };
            // This checks the clients' watches too. A panic counts as a violated property.
            process.tree().check();
            let reference = &self.checks.reference;
            let may_differ = |path: &str| reference.quotas.may_differ(path);
            let held = state::same(&process.tree(), reference.tree(), may_differ);
            if let Err(what) = held {
                self.checks.found(format!("S-10: server {server} at the end: {what}"));
            }
            let shown = membership::in_data(&process.tree());
            let version = self.checks.configs.newest_version(&self.checks.order);
            if shown.as_ref().is_none_or(|shown| shown.version() != version) {
                self.checks.found(format!(
                    "S-13: server {server} at the end shows {shown:?} instead of {version}"
                ));
            }
        }
    }
}
