//! Faults as they take effect.

use std::time::Duration;

use zebu_store::vfs::{Crash, Names, Unsynced};

use crate::disk::Disk;
use crate::plan::{Fault, Left, Target};
use crate::world::{Happening, World};

impl Left {
    pub(crate) fn crash(self) -> Crash {
        match self {
            Self::Nothing => Crash { content: Unsynced::Lost, names: Names::Lost },
            Self::All => Crash { content: Unsynced::Kept, names: Names::Kept },
            Self::Some(seed) => {
                let content = match seed % 3 {
                    0 => Unsynced::Torn(seed >> 8 & 7),
                    1 => Unsynced::Scattered(seed),
                    _ => Unsynced::Lost,
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

impl World {
    fn aim(&self, target: Target) -> Option<usize> {
        let leader = self.servers.iter().position(|server| server.leads().is_some());
        match target {
            Target::Server(server) => Some(server),
            Target::Leader => leader,
            Target::Other(number) => {
                let others: Vec<usize> =
                    (0..self.servers.len()).filter(|server| Some(*server) != leader).collect();
                Some(others[number % others.len()])
            }
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
    }

    fn carry_out_fault(&mut self, fault: Fault) -> Option<()> {
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
            Fault::Break(a, b) => self.break_between(a, b),
            Fault::Cut(pairs, time) => {
                if pairs.is_empty() {
                    return None;
                }
                for (a, b) in &pairs {
                    self.net.block(*a, *b);
                }
                self.after(time, Happening::Unblock(pairs));
            }
            Fault::Pause(target, time) => {
                let server = self.aim(target)?;
                self.pause(server, time)?;
            }
            Fault::PauseAll(time) => {
                for server in 0..self.servers.len() {
                    self.pause(server, time);
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
                // What a quorum has promised and acknowledged may be on no disk but these.
                if !self.checks.may_wipe(server, &self.servers) {
                    return None;
                }
                self.power_cut(server, 0, Left::Nothing.crash(), back);
                self.servers[server].disk = Disk::new();
                self.checks.wiped(server);
            }
            Fault::ClientBreak(client) => {
                let id = self.clients[client].connection()?;
                for side in 0..2 {
                    let after = self.random.ms(0, 500);
                    self.after(after, Happening::Reset { connection: id, side });
                }
            }
            Fault::ClientSilent(client, time) => {
                self.clients[client].silent = true;
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
            Fault::SlowNetwork(factor, time) => {
                self.net.slow = factor;
                self.after(time, Happening::NetworkBack);
            }
        }
        Some(())
    }

    fn power_cut(&mut self, server: usize, calls: u64, crash: Crash, back: Duration) {
        self.net.dark.insert(server);
        self.drop_all(server, false);
        self.interrupt(server, calls);
        let it = &mut self.servers[server];
        it.end_process();
        it.disk = it.disk.crash(crash);
        let process = it.number;
        self.after(back, Happening::Boot { server, process });
    }

    /// Ends a process in the middle of what its disk is doing.
    fn kill(&mut self, server: usize, calls: u64, back: Duration) {
        self.drop_all(server, true);
        self.interrupt(server, calls);
        let it = &mut self.servers[server];
        it.end_process();
        it.disk.resume();
        let process = it.number;
        self.after(back, Happening::Boot { server, process });
    }

    fn pause(&mut self, server: usize, time: Duration) -> Option<()> {
        let it = &mut self.servers[server];
        it.process.as_ref()?;
        if it.paused.is_some() {
            return None;
        }
        it.pauses += 1;
        let pause = it.pauses;
        it.paused = Some(pause);
        self.after(time, Happening::Resume { server, pause });
        Some(())
    }

    pub(crate) fn resume(&mut self, server: usize, pause: u64) {
        let it = &mut self.servers[server];
        if it.paused != Some(pause) {
            return;
        }
        it.paused = None;
        for happening in std::mem::take(&mut it.missed) {
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

    /// Nothing goes wrong any more.
    pub(crate) fn heal(&mut self) {
        self.tell(|| "everything is well from now on".to_owned());
        self.healing = true;
        self.net.slow = 1;
        self.net.clear_blocks();
        self.release_all();
        for server in 0..self.servers.len() {
            self.disk_back(server, true);
            self.disk_back(server, false);
            self.servers[server].disk.fail_after(u64::MAX);
            if let Some(pause) = self.servers[server].paused {
                self.resume(server, pause);
            }
        }
        for client in 0..self.clients.len() {
            self.client_speaks(client);
        }
    }
}
