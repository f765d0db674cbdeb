//! Progress: a sound quorum, whose members run undisturbed and reach each other for long enough, is led
//! and commits, whatever is wrong with everybody else. And nobody talks without end about who leads.

use std::time::Duration;

use zebu_proto::Zxid;
use zebu_zab::config::Membership;

use crate::members::{id, machine};
use crate::plan::Plan;
use crate::world::World;

/// How often it is looked at.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// How many messages about elections there may be in that time: five times what is seen.
const BALLOTS_MAX: u64 = 1000;

/// What is known of one smallest quorum.
struct Quorum {
    members: Vec<usize>,
    /// Since when it has been sound, and which processes it had then.
    sound: Option<(Duration, Vec<(u64, u64)>)>,
}

/// All that is watched.
pub(crate) struct Progress {
    quorums: Vec<Quorum>,
    /// When somebody led last.
    led: Duration,
    /// The oldest transaction that its leader has not seen committed, and since when.
    waits: Option<(Zxid, Duration)>,
    /// Connections that broke since the last look.
    broken: Vec<(usize, usize)>,
    /// What long enough is.
    patience: Duration,
}

impl Progress {
    /// Watches the quorums of members that never change.
    pub(crate) fn new(plan: &Plan, members: &Membership) -> Self {
        let voters: Vec<usize> = members.voters().map(machine).collect();
        let is_quorum = |set: &[usize]| members.has_quorum(|voter| set.contains(&machine(voter)));
        let mut quorums = Vec::new();
        let subsets = if plan.reconfig { 0 } else { 1_u32 << voters.len() };
        for subset in 0..subsets {
            let chosen = |(at, _): &(usize, &usize)| subset >> at & 1 == 1;
            let set: Vec<usize> =
                voters.iter().enumerate().filter(chosen).map(|(_, voter)| *voter).collect();
            let without = |left: usize| {
                let rest: Vec<usize> = set.iter().copied().filter(|it| *it != left).collect();
                is_quorum(&rest)
            };
            if is_quorum(&set) && !set.iter().any(|left| without(*left)) {
                quorums.push(Quorum { members: set, sound: None });
            }
        }
        let patience = plan.tick * 40 + Duration::from_secs(20);
        Self { quorums, led: Duration::ZERO, waits: None, broken: Vec::new(), patience }
    }

    /// Connections between two machines break.
    pub(crate) fn broke(&mut self, a: usize, b: usize) {
        self.broken.push((a, b));
    }
}

impl World {
    /// Whether nothing is wrong with a machine, as far as its place in the ensemble goes.
    fn is_sound(&self, server: usize) -> bool {
        let it = &self.servers[server];
        it.process.is_some() && it.paused.is_none() && it.disk_factor == 1 && !it.disk.is_full()
    }

    /// Looks whether those who can do what an ensemble is for do it.
    pub(crate) fn look_at_progress(&mut self) {
        let now = self.now;
        let ballots = std::mem::take(&mut self.net.ballots);
        if ballots > BALLOTS_MAX {
            self.checks.found(format!("{ballots} messages about elections within {INTERVAL:?}"));
        }
        let leader = self.servers.iter().position(|server| server.leads().is_some());
        let waits = leader.and_then(|leader| {
            let peer = self.servers[leader].peer()?;
            peer.history().pending().next().map(|txn| txn.zxid)
        });
        // Nobody knows what a server that has lost its data would have said.
        let disturbed = self.net.slow > 1 || self.checks.has_lost_data();
        let mut progress = std::mem::take(&mut self.checks.progress).expect("it is put back");
        if leader.is_some() {
            progress.led = now;
        }
        if waits != progress.waits.map(|(zxid, _)| zxid) {
            progress.waits = waits.map(|zxid| (zxid, now));
        }
        let broken = std::mem::take(&mut progress.broken);
        let mut found = None;
        for quorum in &mut progress.quorums {
            let members = &quorum.members;
            let reach = |a: &usize, b: &usize| self.net.reaches(*a, *b);
            let connected = members.iter().all(|a| members.iter().all(|b| a == b || reach(a, b)));
            let broke = broken.iter().any(|(a, b)| members.contains(a) && members.contains(b));
            let sound = members.iter().all(|member| self.is_sound(*member));
            if disturbed || broke || !connected || !sound {
                quorum.sound = None;
                continue;
            }
            let processes: Vec<(u64, u64)> = members
                .iter()
                .map(|member| (self.servers[*member].number, self.servers[*member].pauses))
                .collect();
            let since = match quorum.sound.take() {
                Some((since, before)) if before == processes => since,
                _ => now,
            };
            quorum.sound = Some((since, processes));
            let long = |last: Duration| since.max(last) + progress.patience <= now;
            let names: Vec<i64> = members.iter().map(|member| id(*member).0).collect();
            if long(progress.led) {
                found =
                    Some(format!("progress: the servers {names:?} are sound, and nobody leads"));
            }
            if let Some((zxid, at)) = progress.waits.filter(|(_, at)| long(*at)) {
                found = Some(format!(
                    "progress: the servers {names:?} are sound, and {zxid} waits since {at:?}"
                ));
            }
        }
        self.checks.progress = Some(progress);
        if let Some(found) = found {
            let status = self.status();
            self.checks.found(format!("{found}\n{status}"));
        }
    }
}
