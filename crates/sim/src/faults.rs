//! Carries out the faults of a plan.

use std::time::Duration;

use zebu_proto::ServerId;
use zebu_proto::quorum::QuorumPacket;
use zebu_replica::{Input, NotHandedOver};
use zebu_store::vfs::{Crash, Names, Unsynced};
use zebu_zab::Peer;
use zebu_zab::config::Membership;

use crate::checks::configs::is_quorum;
use crate::disk::Disk;
use crate::plan::{Fault, Left, Side, Target, When};
use crate::server::id_of;
use crate::world::{Happening, World};

/// How long a server that is asked to stop may finish what is in progress.
const RETIRE_TIME: Duration = Duration::from_secs(2);

impl Left {
    pub(crate) fn crash(self) -> Crash {
        match self {
            Self::Nothing => Crash { content: Unsynced::Lost, names: Names::Lost },
            Self::All => Crash { content: Unsynced::Kept, names: Names::Kept },
            Self::Some(seed) => {
                let content = match seed % 3 {
                    0 => Unsynced::Torn(seed >> 8 & 7),
                    1 => Unsynced::Scattered(seed),
                    _ => Unsynced::Parts(seed),
                };
                let names = match seed >> 16 & 3 {
                    0 => Names::Lost,
                    1 => Names::Kept,
                    _ => Names::Subset(seed >> 20),
                };
                Crash { content, names }
            }
        }
    }
}

/// A fault that waits for a packet.
#[derive(Debug)]
pub(crate) struct Ambush {
    when: When,
    /// The number of matching packets that pass first.
    before: u32,
    fault: Fault,
}

/// Replaces the targets `Here` and `There` of a fault by the two ends of a connection.
fn between(fault: Fault, here: usize, there: usize) -> Fault {
    let end = |target| match target {
        Target::Here => Target::Server(here),
        Target::There => Target::Server(there),
        target => target,
    };
    match fault {
        Fault::Kill(target, calls, back) => Fault::Kill(end(target), calls, back),
        Fault::PowerCut(target, calls, left, back) => {
            Fault::PowerCut(end(target), calls, left, back)
        }
        Fault::CutOff(target, side, both, time) => Fault::CutOff(end(target), side, both, time),
        Fault::Sever(target, side, time) => Fault::Sever(end(target), side, time),
        Fault::Pause(target, time) => Fault::Pause(end(target), time),
        Fault::Retire(target, back) => Fault::Retire(end(target), back),
        Fault::PauseOthers(target, time) => Fault::PauseOthers(end(target), time),
        fault => fault,
    }
}

impl World {
    /// A packet is being sent. If an ambush waits for it, its fault happens right after the packet.
    pub(crate) fn watch(&mut self, here: usize, link: u64, packet: &QuorumPacket) {
        let Some(at) = self.ambushes.iter().position(|ambush| ambush.when.is(packet)) else {
            return;
        };
        if let Some(before) = self.ambushes[at].before.checked_sub(1) {
            self.ambushes[at].before = before;
            return;
        }
        let Some(connection) = self.net.connections.get(&link) else { return };
        let there = connection.ends[1 - connection.side(here)];
        let Ambush { fault, .. } = self.ambushes.remove(at);
        let fault = between(fault, here, there);
        self.after(Duration::ZERO, Happening::Ambush(fault));
    }

    /// Carries out the fault of an ambush.
    pub(crate) fn ambush(&mut self, fault: Fault) {
        if self.healing {
            return;
        }
        let class = fault.class();
        self.tell(|| format!("ambush: {fault:?}"));
        if self.carry_out_fault(fault).is_some() {
            self.reached("ambush");
            *self.outcome.faults.entry(class).or_default() += 1;
        }
    }

    pub(crate) fn aim(&self, target: Target) -> Option<usize> {
        let leader = self.servers.iter().position(|server| server.leads().is_some());
        match target {
            Target::Server(server) => Some(server),
            Target::Leader => leader,
            Target::Other(number) => {
                let others: Vec<usize> =
                    (0..self.servers.len()).filter(|server| Some(*server) != leader).collect();
                Some(others[number % others.len()])
            }
            // Only the fault of an ambush has these targets.
            Target::Here | Target::There => None,
        }
    }

    /// The other servers that a fault affects.
    fn side(&self, server: usize, side: Side) -> Vec<usize> {
        let servers = match side {
            Side::Voters => self.plan.voters,
            Side::Servers | Side::AllBut(_) => self.servers.len(),
        };
        let meant = |other: &usize| *other != server && side != Side::AllBut(*other);
        (0..servers).filter(meant).collect()
    }

    /// Carries out a planned fault.
    pub(crate) fn fault(&mut self, number: usize) {
        if self.healing {
            return;
        }
        let fault = self.plan.faults[number].fault.clone();
        let class = fault.class();
        self.tell(|| format!("fault {number}: {fault:?}"));
        if self.carry_out_fault(fault).is_some() {
            *self.outcome.faults.entry(class).or_default() += 1;
        }
        self.note_cuts();
    }

    /// Reports cut links to the progress check, because they may be whole again at its next run.
    fn note_cuts(&mut self) {
        let Some(progress) = &mut self.checks.progress else { return };
        for a in 0..self.servers.len() {
            for b in (0..self.servers.len()).filter(|b| !self.net.reaches(a, *b)) {
                progress.broke(a, b);
            }
        }
    }

    pub(crate) fn carry_out_fault(&mut self, fault: Fault) -> Option<()> {
        match fault {
            Fault::Kill(target, calls, back) => {
                let server = self.aim(target)?;
                self.servers[server].process.as_ref()?;
                self.kill(server, calls, back);
            }
            Fault::PowerCut(target, calls, left, back) => {
                let server = self.aim(target)?;
                self.power_cut(server, calls, left.crash(), back);
            }
            Fault::PowerCutAll(calls, left, back) => {
                for server in 0..self.servers.len() {
                    let spread = self.random.ms(0, 1500);
                    self.power_cut(server, calls, left.crash(), back + spread);
                }
            }
            Fault::Break(a, b) => {
                self.break_between(a, b);
                if let Some(progress) = &mut self.checks.progress {
                    progress.broke(a, b);
                }
            }
            Fault::Cut(pairs, time) => {
                if pairs.is_empty() {
                    return None;
                }
                for (a, b) in &pairs {
                    self.net.block(*a, *b);
                }
                self.after(time, Happening::Unblock(pairs));
            }
            Fault::CutOff(target, side, back, time) => {
                let server = self.aim(target)?;
                let mut pairs = Vec::new();
                for other in self.side(server, side) {
                    pairs.push((server, other));
                    if back {
                        pairs.push((other, server));
                    }
                }
                return self.carry_out_fault(Fault::Cut(pairs, time));
            }
            Fault::Deafen(target, time) => {
                let server = self.aim(target)?;
                let leads = self.servers[server].leads().is_some();
                let others = (0..self.servers.len()).filter(|other| *other != server);
                let pairs = others.map(|other| (other, server)).collect();
                self.checks.handover.deafened(server, leads, self.now);
                self.after(time, Happening::Hears(server));
                return self.carry_out_fault(Fault::Cut(pairs, time));
            }
            Fault::Sever(target, side, time) => {
                let server = self.aim(target)?;
                for other in self.side(server, side) {
                    let broken = Happening::Ambush(Fault::Break(server, other));
                    self.after(Duration::from_millis(40), broken);
                }
                let server = Target::Server(server);
                return self.carry_out_fault(Fault::CutOff(server, side, false, time));
            }
            Fault::Ambush(when, before, fault) => {
                self.ambushes.push(Ambush { when, before, fault: *fault });
                return None;
            }
            Fault::PauseOthers(target, time) => {
                let server = self.aim(target)?;
                for other in (0..self.servers.len()).filter(|other| *other != server) {
                    self.pause(other, time, false);
                }
            }
            Fault::Pause(target, time) => {
                let server = self.aim(target)?;
                let leads = self.servers[server].leads().is_some();
                self.pause(server, time, false)?;
                if !self.plan.undisturbed {
                    self.checks.handover.paused(server, leads, self.now);
                }
            }
            Fault::PauseAll(time) => {
                for server in 0..self.servers.len() {
                    self.pause(server, time, true);
                }
            }
            Fault::SlowDisk(target, factor, time) => {
                let server = self.aim(target)?;
                self.servers[server].disk_factor = factor;
                self.after(time, Happening::DiskBack { server, full: false });
            }
            Fault::DiskError(target, calls) => {
                let server = self.aim(target)?;
                self.servers[server].disk.fail_after(calls);
            }
            Fault::DiskFull(target, time) => {
                let server = self.aim(target)?;
                self.servers[server].disk.set_full(true);
                self.after(time, Happening::DiskBack { server, full: true });
            }
            Fault::ClockJump(target, ms) => {
                let server = self.aim(target)?;
                self.servers[server].wall_offset_ms += ms;
            }
            Fault::Wipe(target, back) => {
                let server = self.aim(target)?;
                if !self.checks.may_wipe(server)
                    || !self.is_dispensable(server)
                    || !self.others_can_tell(server)
                    || !self.others_have_trees(server)
                {
                    return None;
                }
                self.power_cut(server, 0, Left::Nothing.crash(), back);
                self.servers[server].disk = Disk::new();
                self.checks.wiped(server);
                if self.plan.reconfig {
                    self.readmit(server);
                } else {
                    self.write_first_file(server);
                }
            }
            Fault::BackUp(target) => {
                let server = self.aim(target)?;
                let it = &mut self.servers[server];
                it.process.as_ref().filter(|_| !self.checks.is_rotten(server))?;
                let disk = it.disk.crash(Left::All.crash());
                let version = it.process.as_ref()?.said.committed().version();
                it.backup = Some(self.checks.back_up(server, disk, version));
            }
            Fault::RollBack(target, back) => {
                let server = self.aim(target)?;
                let backup = self.servers[server].backup.take()?;
                // A server that has forgotten the newest members could learn them from no other
                // server.
                let newest = self.checks.configs.newest_version(&self.checks.order);
                let is_old = self.plan.reconfig && backup.version != newest;
                if is_old || !self.checks.may_roll_back(server) || !self.is_dispensable(server) {
                    return None;
                }
                self.power_cut(server, 0, Left::Nothing.crash(), back);
                self.checks.rolled_back(server, &backup);
                self.servers[server].disk = backup.disk;
            }
            Fault::Rot(target, seed, back) => {
                let server = self.aim(target)?;
                if !self.checks.may_wipe(server) || !self.is_dispensable(server) {
                    return None;
                }
                self.power_cut(server, 0, Left::All.crash(), back);
                let what = self.servers[server].disk.rot(seed)?;
                self.tell(|| format!("server {server}: {what}"));
                self.checks.rotted(server);
            }
            Fault::RotEverywhere(seed, back) => {
                if self.checks.has_lost_everything() {
                    return None;
                }
                // One of these may need a leader's snapshot: the others suffice for a leader.
                let dispensable: Vec<usize> = (0..self.servers.len())
                    .filter(|it| self.checks.may_wipe(*it) && self.is_dispensable(*it))
                    .collect();
                for server in 0..self.servers.len() {
                    let spread = self.random.ms(0, 5_000);
                    self.power_cut(server, 0, Left::All.crash(), back + spread);
                }
                self.damage_everywhere(seed)?;
                self.damage_one_twice(seed, dispensable);
            }
            Fault::RotBeneath(target, seed) => {
                let server = self.aim(target)?;
                if !self.checks.may_wipe(server)
                    || self.checks.is_rotten(server)
                    || !self.is_dispensable(server)
                {
                    return None;
                }
                self.servers[server].process.as_ref()?;
                let what = self.servers[server].disk.rot_beneath(seed)?;
                self.tell(|| format!("server {server}: {what}"));
                self.checks.rotted(server);
            }
            Fault::ClientBreak(client) => {
                let id = self.party_connection(client)?;
                for side in 0..2 {
                    let after = self.random.ms(0, 500);
                    self.after(after, Happening::Reset { connection: id, side });
                }
            }
            Fault::ClientSilent(client, time) => {
                self.party_falls_silent(client);
                self.after(time, Happening::ClientSpeaks { client });
            }
            Fault::ClientCut(client, both, time) => {
                let place = self.plan.servers() + client;
                let mut pairs = Vec::new();
                for server in 0..self.servers.len() {
                    pairs.push((server, place));
                    if both {
                        pairs.push((place, server));
                    }
                }
                for (a, b) in &pairs {
                    self.net.block(*a, *b);
                }
                self.after(time, Happening::Unblock(pairs));
            }
            Fault::ClientHeld(client, time) => {
                let place = self.plan.servers() + client;
                let pairs: Vec<_> = (0..self.servers.len()).map(|server| (place, server)).collect();
                for (a, b) in &pairs {
                    self.net.block(*a, *b);
                }
                self.after(time, Happening::Unblock(pairs));
            }
            Fault::ClientLeaves(client) => {
                let id = self.party_connection(client)?;
                let place = self.plan.servers() + client;
                let connection = self.net.connections.get_mut(&id)?;
                connection.mute = true;
                let side = connection.side(place);
                self.after(Duration::ZERO, Happening::Reset { connection: id, side });
            }
            Fault::Change(change) => self.want(change),
            Fault::Stranger(claims, epoch, observer, more) => {
                let leader = self.aim(Target::Leader)?;
                self.claim(leader, claims, epoch, observer, more);
            }
            Fault::Diverge(target) => {
                let server = self.aim(target)?;
                return self.diverge(server);
            }
            Fault::Promise(target, more, back) => {
                let server = self.aim(target)?;
                self.servers[server].process.as_ref()?;
                self.promise(server, more, back);
            }
            Fault::Stray(target, time) => {
                let server = self.aim(target)?;
                return self.stray(server, time);
            }
            Fault::Retire(target, back) => {
                let server = self.aim(target)?;
                let leads = self.servers[server].leads().is_some();
                let number = self.servers[server].number;
                let by = self.servers[server].clock(self.now).monotonic + RETIRE_TIME;
                let process = self.servers[server].process.as_mut()?;
                if process.comes_back.replace(back).is_some() {
                    return None;
                }
                self.checks.handover.asked(server, leads);
                self.input(server, number, Input::Retire { by });
            }
            Fault::HandOver(to) => {
                let server = self.aim(Target::Leader)?;
                let number = self.servers[server].number;
                let by = self.servers[server].clock(self.now).monotonic + RETIRE_TIME;
                self.servers[server].process.as_ref()?;
                let to = to.map(id_of);
                self.input(server, number, Input::HandOver { to, by });
            }
            Fault::SlowNetwork(factor, time) => {
                self.net.slow = factor;
                self.after(time, Happening::NetworkBack);
            }
        }
        Some(())
    }

    /// Whether an empty server can learn from every other voter that the ensemble has a history. A
    /// server may take its empty disk for a new one, so no other voter may be empty.
    fn others_can_tell(&self, server: usize) -> bool {
        let mut others = (0..self.plan.voters).filter(|other| *other != server);
        !self.plan.autocreate || others.all(|other| self.checks.has_transactions(other))
    }

    /// Whether no other member waits for a leader's tree because its own was wrong. The election of
    /// that leader may need the wiped server.
    fn others_have_trees(&self, server: usize) -> bool {
        let mut others = self.servers.iter().enumerate().filter(|(other, _)| *other != server);
        others.all(|(_, it)| it.peer().is_none_or(Peer::has_history))
    }

    /// Whether the others can do without a server for ever, with any pending reconfiguration.
    fn is_dispensable(&self, server: usize) -> bool {
        if !self.plan.reconfig {
            return true;
        }
        let newest = self.checks.configs.newest(&self.checks.order);
        let without = |config: &Membership| is_quorum(config, |voter| voter != server);
        let others = self.servers.iter().all(|it| {
            it.peer().is_some_and(|peer| {
                let quorums = peer.quorums();
                without(quorums.last_seen()) && without(quorums.committed())
            })
        });
        // A requested reconfiguration may need any server once it is in force.
        let asked = self.asked_change.is_some();
        !asked && others && without(newest)
    }

    pub(crate) fn power_cut(&mut self, server: usize, calls: u64, crash: Crash, back: Duration) {
        self.net.dark.insert(server);
        self.drop_all(server, false);
        self.interrupt(server, calls);
        let it = &mut self.servers[server];
        it.end_process();
        it.disk = it.disk.crash(crash);
        let process = it.number;
        self.after(back, Happening::Boot { server, process });
    }

    /// Kills a process in the middle of its disk's work, after `calls` calls.
    pub(crate) fn kill(&mut self, server: usize, calls: u64, back: Duration) {
        self.drop_all(server, true);
        self.interrupt(server, calls);
        let it = &mut self.servers[server];
        it.end_process();
        it.disk.resume();
        let process = it.number;
        self.after(back, Happening::Boot { server, process });
    }

    /// A server that was asked to stop is ready.
    pub(crate) fn retired(&mut self, server: usize, number: u64) {
        let Some(process) = self.process(server, number) else { return };
        let back = process.comes_back.expect("it was asked to stop");
        let pending = process.replica.peer().map_or(0, |peer| peer.history().pending().len());
        self.reached("retired");
        let found = self.checks.handover.retired(server, self.now, pending);
        found.into_iter().for_each(|what| self.checks.found(what));
        // The connections of its clients take a while to end.
        let after = self.random.ms(1, 500);
        self.after(after, Happening::Ends { server, process: number, back });
    }

    /// A leader answers the request to hand over.
    pub(crate) fn handed_over(&mut self, server: usize, result: Result<ServerId, NotHandedOver>) {
        let now = self.now;
        self.tell(|| format!("server {server} was asked to hand over: {result:?}"));
        if let Ok(heir) = result {
            self.reached("handed over");
            self.checks.handover.handed_over(heir, now);
        }
    }

    /// The process of a server that was asked to stop ends.
    pub(crate) fn ends(&mut self, server: usize, number: u64, back: Duration) {
        if self.process(server, number).is_some() {
            self.kill(server, 0, back);
        }
    }

    /// An operator restarts a server.
    pub(crate) fn restart(&mut self, server: usize) {
        let back = self.random.ms(100, 1000);
        self.kill(server, 0, back);
    }

    /// Pauses a process, alone or together with all others.
    fn pause(&mut self, server: usize, time: Duration, with_all: bool) -> Option<()> {
        let it = &mut self.servers[server];
        it.process.as_ref()?;
        if it.paused.is_some() {
            return None;
        }
        it.pauses += 1;
        let pause = it.pauses;
        it.paused = Some(pause);
        it.stops_to_read(self.now);
        let mut progress = self.checks.progress.iter_mut();
        progress.by_ref().for_each(|progress| progress.stands_still(server, with_all));
        self.after(time, Happening::Resume { server, pause });
        Some(())
    }

    /// A server that was paused or deaf takes part again: another one must lead if it led.
    pub(crate) fn is_missed(&mut self, server: usize) {
        let found = self.checks.handover.resumed(server);
        found.into_iter().for_each(|what| self.checks.found(what));
    }

    pub(crate) fn resume(&mut self, server: usize, pause: u64) {
        let it = &mut self.servers[server];
        if it.paused != Some(pause) {
            return;
        }
        it.paused = None;
        it.begins_to_read(self.now);
        self.checks.staleness.resumed(server, self.now);
        self.is_missed(server);
        let it = &mut self.servers[server];
        let mut missed = std::mem::take(&mut it.missed);
        if self.random.one_in(2) {
            // The process may read its sockets before it looks at its clock. It accepts a
            // connection before it reads from it.
            let is_network = |happening: &Happening| {
                matches!(
                    happening,
                    Happening::Tell { .. }
                        | Happening::Arrive { .. }
                        | Happening::Release { .. }
                        | Happening::Reset { .. }
                )
            };
            missed.sort_by_key(|happening| !is_network(happening));
        }
        for happening in missed {
            self.happen(happening);
        }
    }

    pub(crate) fn unblock(&mut self, pairs: &[(usize, usize)]) {
        for (a, b) in pairs {
            self.net.unblock(*a, *b);
        }
        self.release_all();
    }

    pub(crate) fn disk_back(&mut self, server: usize, full: bool) {
        let it = &mut self.servers[server];
        if full {
            it.disk.set_full(false);
        } else {
            it.disk_factor = 1;
        }
    }

    /// Ends all faults.
    ///
    /// The two sides may not have noticed the links that are cut now. Held messages arrive now, or
    /// their connections end.
    pub(crate) fn heal(&mut self) {
        self.note_cuts();
        self.tell(|| "everything is well from now on".to_owned());
        self.healing = true;
        self.ambushes.clear();
        self.wanted.clear();
        self.net.slow = 1;
        self.net.clear_blocks();
        self.release_all();
        for server in 0..self.servers.len() {
            self.comes_home(server);
            self.disk_back(server, true);
            self.disk_back(server, false);
            self.servers[server].disk.fail_after(u64::MAX);
            if let Some(pause) = self.servers[server].paused {
                self.resume(server, pause);
            }
        }
        for party in 0..self.clients.len() + self.apps.len() + self.guests.len() {
            self.party_speaks(party);
        }
    }
}
