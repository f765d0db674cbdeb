//! Carries out the faults of a plan, and those that wait for a packet.

mod clients;
mod disks;
mod network;
mod processes;

use std::time::Duration;

use zebu_proto::quorum::QuorumPacket;

use crate::plan::{Fault, Target, When};
use crate::world::{Happening, World};

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
        let there = connection.line.other(here);
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

    /// Carries out a fault. Returns `None` if it cannot happen now.
    pub(crate) fn carry_out_fault(&mut self, fault: Fault) -> Option<()> {
        use Fault as F;
        match fault {
            F::Kill(target, calls, back) => self.kill_running(target, calls, back)?,
            F::PowerCut(target, calls, left, back) => {
                let server = self.aim(target)?;
                self.power_cut(server, calls, left.crash(), back);
            }
            F::PowerCutAll(calls, left, back) => self.power_cut_all(calls, left.crash(), back),
            F::Pause(target, time) => self.pause_one(target, time)?,
            F::PauseOthers(target, time) => self.pause_others(target, time)?,
            F::PauseAll(time) => self.pause_all(time),
            F::Retire(target, back) => self.retire(target, back)?,
            F::HandOver(to) => self.hand_over(to)?,

            F::Break(a, b) => self.break_connections(a, b),
            F::Cut(pairs, time) => self.cut(pairs, time)?,
            F::CutOff(target, side, back, time) => self.cut_off(target, side, back, time)?,
            F::Deafen(target, time) => self.deafen(target, time)?,
            F::Sever(target, side, time) => self.sever(target, side, time)?,
            F::SlowNetwork(factor, time) => self.slow_network(factor, time),

            F::SlowDisk(target, factor, time) => self.slow_disk(target, factor, time)?,
            F::DiskError(target, calls) => self.fail_disk(target, calls)?,
            F::DiskFull(target, time) => self.fill_disk(target, time)?,
            F::ClockJump(target, ms) => self.move_clock(target, ms)?,
            F::Wipe(target, back) => self.wipe(target, back)?,
            F::BackUp(target) => self.back_up(target)?,
            F::RollBack(target, back) => self.roll_back(target, back)?,
            F::Rot(target, seed, back) => self.rot(target, seed, back)?,
            F::RotBeneath(target, seed) => self.rot_beneath(target, seed)?,
            F::RotEverywhere(seed, back) => self.rot_everywhere(seed, back)?,

            F::ClientBreak(client) => self.break_client(client)?,
            F::ClientSilent(client, time) => self.silence_client(client, time),
            F::ClientCut(client, both, time) => self.cut_client(client, both, time)?,
            F::ClientHeld(client, time) => self.hold_client(client, time)?,
            F::ClientLeaves(client) => self.abandon_connection(client)?,

            F::Change(change) => self.want(change),
            F::Stranger(claims, epoch, observer, more) => {
                self.claim(claims, epoch, observer, more)?;
            }
            F::Promise(target, more, back) => self.promise(target, more, back)?,
            F::Stray(target, time) => self.stray(target, time)?,
            F::Diverge(target) => self.diverge(target)?,
            // An ambush is counted when its fault happens.
            F::Ambush(when, before, fault) => {
                self.ambushes.push(Ambush { when, before, fault: *fault });
                return None;
            }
        }
        Some(())
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
        self.net.ways.clear();
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
