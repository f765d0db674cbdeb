//! Faults of processes and machines: they end, they stand still, and they are asked to stop.

use std::time::Duration;

use zebu_proto::ServerId;
use zebu_replica::{Input, NotHandedOver};
use zebu_store::vfs::Crash;

use crate::plan::Target;
use crate::server::id_of;
use crate::world::{Happening, World};

/// How long a server that is asked to stop may finish what is in progress.
const RETIRE_TIME: Duration = Duration::from_secs(2);

impl World {
    /// Kills a running process in the middle of its disk's work, after `calls` calls.
    pub(super) fn kill_running(
        &mut self,
        target: Target,
        calls: u64,
        back: Duration,
    ) -> Option<()> {
        let server = self.aim(target)?;
        self.servers[server].process.as_ref()?;
        self.kill(server, calls, back);
        Some(())
    }

    /// All machines lose their power, and start again at different times.
    pub(super) fn power_cut_all(&mut self, calls: u64, crash: Crash, back: Duration) {
        for server in 0..self.servers.len() {
            let spread = self.random.ms(0, 1500);
            self.power_cut(server, calls, crash, back + spread);
        }
    }

    /// Pauses a process, and reports the pause to the check of handovers.
    pub(super) fn pause_one(&mut self, target: Target, time: Duration) -> Option<()> {
        let server = self.aim(target)?;
        let leads = self.servers[server].leads().is_some();
        self.pause(server, time, false)?;
        if !self.plan.undisturbed {
            self.checks.handover.paused(server, leads, self.now);
        }
        Some(())
    }

    /// Pauses the processes of all servers but one.
    pub(super) fn pause_others(&mut self, target: Target, time: Duration) -> Option<()> {
        let server = self.aim(target)?;
        for other in (0..self.servers.len()).filter(|other| *other != server) {
            self.pause(other, time, false);
        }
        Some(())
    }

    /// Pauses all processes.
    pub(super) fn pause_all(&mut self, time: Duration) {
        for server in 0..self.servers.len() {
            self.pause(server, time, true);
        }
    }

    /// Asks a server to stop.
    pub(super) fn retire(&mut self, target: Target, back: Duration) -> Option<()> {
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
        Some(())
    }

    /// Asks the leader to hand over.
    pub(super) fn hand_over(&mut self, to: Option<usize>) -> Option<()> {
        let server = self.aim(Target::Leader)?;
        let number = self.servers[server].number;
        let by = self.servers[server].clock(self.now).monotonic + RETIRE_TIME;
        self.servers[server].process.as_ref()?;
        let to = to.map(id_of);
        self.input(server, number, Input::HandOver { to, by });
        Some(())
    }

    pub(crate) fn power_cut(&mut self, server: usize, calls: u64, crash: Crash, back: Duration) {
        self.net.dark.insert(server);
        self.drop_all(server, false);
        self.interrupt(server, calls);
        let it = &mut self.servers[server];
        it.end_process();
        let before = it.disk.unreadable_sectors();
        it.disk = it.disk.crash(crash);
        let is_spoilt = before < it.disk.unreadable_sectors();
        let process = it.number;
        if is_spoilt {
            self.reached("sector spoilt by a power cut");
        }
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

    /// A server that was paused or deaf takes part again: another one must lead if it led.
    pub(crate) fn is_missed(&mut self, server: usize) {
        let found = self.checks.handover.resumed(server);
        found.into_iter().for_each(|what| self.checks.found(what));
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

    /// The process of a server that was asked to stop ends.
    pub(crate) fn ends(&mut self, server: usize, number: u64, back: Duration) {
        if self.process(server, number).is_some() {
            self.kill(server, 0, back);
        }
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
}
