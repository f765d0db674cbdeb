//! Faults of disks and of the data on them, and of wall clocks.

use std::time::Duration;

use zebu_store::vfs::{Crash, Names, Unsynced};
use zebu_zab::Peer;
use zebu_zab::config::Membership;

use crate::checks::configs::is_quorum;
use crate::disk::Disk;
use crate::plan::{Left, Target};
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
                    _ if seed >> 12 & 1 == 1 => Unsynced::Spoiled(seed),
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

impl World {
    /// Makes a disk slower for a while.
    pub(super) fn slow_disk(&mut self, target: Target, factor: u32, time: Duration) -> Option<()> {
        let server = self.aim(target)?;
        self.servers[server].disk_factor = factor;
        self.after(time, Happening::DiskBack { server, full: false });
        Some(())
    }

    /// Fails one modifying call of a disk, after `calls` others.
    pub(super) fn fail_disk(&mut self, target: Target, calls: u64) -> Option<()> {
        let server = self.aim(target)?;
        self.servers[server].disk.fail_after(calls);
        Some(())
    }

    /// Fills a disk for a while.
    pub(super) fn fill_disk(&mut self, target: Target, time: Duration) -> Option<()> {
        let server = self.aim(target)?;
        self.servers[server].disk.set_full(true);
        self.after(time, Happening::DiskBack { server, full: true });
        Some(())
    }

    pub(crate) fn disk_back(&mut self, server: usize, full: bool) {
        let it = &mut self.servers[server];
        if full {
            it.disk.set_full(false);
        } else {
            it.disk_factor = 1;
        }
    }

    /// Stops a server that the others can do without, and restarts it with an empty disk.
    pub(super) fn wipe(&mut self, target: Target, back: Duration) -> Option<()> {
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
        Some(())
    }

    /// Copies a running server's data.
    pub(super) fn back_up(&mut self, target: Target) -> Option<()> {
        let server = self.aim(target)?;
        let it = &mut self.servers[server];
        it.process.as_ref().filter(|_| !self.checks.is_rotten(server))?;
        let disk = it.disk.crash(Left::All.crash());
        let version = it.process.as_ref()?.said.committed().version();
        it.backup = Some(self.checks.back_up(server, disk, version));
        Some(())
    }

    /// Stops a server, and restarts it with the data of its last copy.
    pub(super) fn roll_back(&mut self, target: Target, back: Duration) -> Option<()> {
        let server = self.aim(target)?;
        let backup = self.servers[server].backup.take()?;
        // A server that has forgotten the newest members could learn them from no other server.
        let newest = self.checks.configs.newest_version(&self.checks.order);
        let is_old = self.plan.reconfig && backup.version != newest;
        if is_old || !self.checks.may_roll_back(server) || !self.is_dispensable(server) {
            return None;
        }
        self.power_cut(server, 0, Left::Nothing.crash(), back);
        self.checks.rolled_back(server, &backup);
        self.servers[server].disk = backup.disk;
        Some(())
    }

    /// Stops a server, and damages a part of its logs or snapshots.
    pub(super) fn rot(&mut self, target: Target, seed: u64, back: Duration) -> Option<()> {
        let server = self.aim(target)?;
        if !self.checks.may_wipe(server) || !self.is_dispensable(server) {
            return None;
        }
        self.power_cut(server, 0, Left::All.crash(), back);
        let what = self.servers[server].disk.rot(seed)?;
        self.tell(|| format!("server {server}: {what}"));
        self.checks.rotted(server);
        Some(())
    }

    /// Damages a part of a running server's logs or snapshots.
    pub(super) fn rot_beneath(&mut self, target: Target, seed: u64) -> Option<()> {
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
        Some(())
    }

    /// Stops all servers, and damages records of their logs. Each record stays intact at one server
    /// that has it.
    pub(super) fn rot_everywhere(&mut self, seed: u64, back: Duration) -> Option<()> {
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
        Some(())
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

    /// Makes a server's wall clock jump.
    pub(super) fn move_clock(&mut self, target: Target, ms: i64) -> Option<()> {
        let server = self.aim(target)?;
        self.servers[server].wall_offset_ms += ms;
        Some(())
    }
}
