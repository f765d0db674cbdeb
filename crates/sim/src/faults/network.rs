//! Faults of the network: cut links, broken connections and slowness.

use std::time::Duration;

use crate::plan::{Fault, Side, Target};
use crate::world::{Happening, World};

impl World {
    /// Breaks all connections between two servers.
    pub(super) fn break_connections(&mut self, a: usize, b: usize) {
        self.break_between(a, b);
        if let Some(progress) = &mut self.checks.progress {
            progress.broke(a, b);
        }
    }

    /// For each pair, lets nothing pass from the first place to the second for a while.
    pub(super) fn cut(&mut self, pairs: Vec<(usize, usize)>, time: Duration) -> Option<()> {
        if pairs.is_empty() {
            return None;
        }
        for (a, b) in &pairs {
            self.net.ways.block(*a, *b);
        }
        self.after(time, Happening::Unblock(pairs));
        Some(())
    }

    /// Lets nothing pass from a server to the other side for a while; nor back, if `back`.
    pub(super) fn cut_off(
        &mut self,
        target: Target,
        side: Side,
        back: bool,
        time: Duration,
    ) -> Option<()> {
        let server = self.aim(target)?;
        let mut pairs = Vec::new();
        for other in self.side(server, side) {
            pairs.push((server, other));
            if back {
                pairs.push((other, server));
            }
        }
        self.cut(pairs, time)
    }

    /// Lets nothing pass from the other servers to this one for a while.
    pub(super) fn deafen(&mut self, target: Target, time: Duration) -> Option<()> {
        let server = self.aim(target)?;
        let leads = self.servers[server].leads().is_some();
        let others = (0..self.servers.len()).filter(|other| *other != server);
        let pairs = others.map(|other| (other, server)).collect();
        self.checks.handover.deafened(server, leads, self.now);
        self.after(time, Happening::Hears(server));
        self.cut(pairs, time)
    }

    /// Lets nothing pass from a server to the other side for a while. Soon the connections between
    /// them break.
    pub(super) fn sever(&mut self, target: Target, side: Side, time: Duration) -> Option<()> {
        let server = self.aim(target)?;
        for other in self.side(server, side) {
            let broken = Happening::Ambush(Fault::Break(server, other));
            self.after(Duration::from_millis(40), broken);
        }
        self.cut_off(Target::Server(server), side, false, time)
    }

    /// Makes the whole network slower for a while.
    pub(super) fn slow_network(&mut self, factor: u32, time: Duration) {
        self.net.slow = factor;
        self.after(time, Happening::NetworkBack);
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

    /// Reports cut links to the progress check, because they may be whole again at its next run.
    pub(super) fn note_cuts(&mut self) {
        let Some(progress) = &mut self.checks.progress else { return };
        for a in 0..self.servers.len() {
            for b in (0..self.servers.len()).filter(|b| !self.net.ways.reaches(a, *b)) {
                progress.broke(a, b);
            }
        }
    }

    pub(crate) fn unblock(&mut self, pairs: &[(usize, usize)]) {
        for (a, b) in pairs {
            self.net.ways.unblock(*a, *b);
        }
        self.release_all();
    }
}
