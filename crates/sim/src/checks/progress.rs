//! Progress: if a quorum of sound members runs undisturbed and connected for long enough, it has a
//! leader and commits, whatever the faults of the other members. Elections do not continue without
//! end.
//!
//! A leader with a sound quorum that has followed it does not step down; a pause of all members is
//! no reason.
//!
//! While members change, a sound quorum is a quorum of the committed configuration, as far as any
//! member knows it, and of each configuration that is proposed in a member's history.

use std::collections::BTreeMap;
use std::time::Duration;

use zebu_proto::Zxid;
use zebu_zab::Role;
use zebu_zab::config::Membership;

use crate::members::{id, machine};
use crate::plan::Plan;
use crate::world::World;

/// The interval of the check.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// The most election messages within an interval: five times the observed maximum.
const BALLOTS_MAX: u64 = 1000;

/// A set of machines, one bit for each.
type Set = usize;

fn members(set: Set) -> impl Iterator<Item = usize> + Clone {
    (0..Set::BITS as usize).filter(move |machine| set >> machine & 1 == 1)
}

/// The state of one machine, as of the last check.
#[derive(Clone, Default)]
struct Machine {
    /// The number of the process, and the number of its pauses.
    process: (u64, u64),
    /// Since when the process has been sound.
    sound: Option<Duration>,
    /// Since when the machine reaches each of the others.
    reaches: Vec<Option<Duration>>,
    /// The versions of its committed and of its newest configuration.
    configs: [Zxid; 2],
    /// Since when the machine has been sound, apart from pauses of all machines.
    steady: Option<Duration>,
    /// Its role, and since when it has led in this epoch or followed this leader.
    role: Option<Role>,
    serves: Option<Duration>,
    /// Whether the machine is paused together with all others; and whether it was paused alone
    /// since the last check.
    stands_still: bool,
    stood_alone: bool,
}

/// The state of the check.
pub(crate) struct Progress {
    machines: Vec<Machine>,
    /// For each configuration version, its configurations and which sets are quorums of them. The
    /// files of operators have several configurations of one version while the files are edited.
    quorums: BTreeMap<Zxid, Vec<(Membership, Vec<bool>)>>,
    /// Since when each set has been a quorum of all configurations that count for it.
    since: Vec<Option<Duration>>,
    /// When there was last a leader.
    led: Duration,
    /// The oldest transaction that the leader has not committed, and since when it waits.
    waits: Option<(Zxid, Duration)>,
    /// Pairs of machines whose connections broke since the last check.
    broken: Vec<(usize, usize)>,
    /// The time within which a sound quorum must have a leader.
    patience: Duration,
    /// Leaders that have lost their quorum since the last check, and when.
    deserted: Vec<(usize, Duration)>,
    /// The time that a quorum needs to form again.
    settles: Duration,
}

impl Progress {
    pub(crate) fn new(plan: &Plan) -> Self {
        let servers = plan.servers();
        let machine = Machine { reaches: vec![None; servers], ..Machine::default() };
        Self {
            machines: vec![machine; servers],
            quorums: BTreeMap::new(),
            since: vec![None; 1 << servers],
            led: Duration::ZERO,
            waits: None,
            broken: Vec::new(),
            patience: plan.tick * 40 + Duration::from_secs(20),
            deserted: Vec::new(),
            settles: plan.tick * 15 + Duration::from_secs(5),
        }
    }

    /// The connections between two machines break.
    pub(crate) fn broke(&mut self, a: usize, b: usize) {
        self.broken.push((a, b));
    }

    /// A machine is paused, together with all others or alone.
    pub(crate) fn stands_still(&mut self, server: usize, with_all: bool) {
        self.machines[server].stands_still |= with_all;
        self.machines[server].stood_alone |= !with_all;
    }

    /// A leader has lost its quorum.
    pub(crate) fn deserted(&mut self, server: usize, now: Duration) {
        self.deserted.push((server, now));
    }

    /// A leader that has stepped down for lack of a quorum, although it had one.
    fn wrongly_deserted(&mut self, newest: Zxid) -> Option<(usize, Set)> {
        let sets = 1..self.since.len();
        for (leader, at) in std::mem::take(&mut self.deserted) {
            let begun = at.saturating_sub(self.settles);
            let whole = |set: &Set| {
                let early = |since: Option<Duration>| since.is_some_and(|since| since <= begun);
                let steady = |it: usize| {
                    let machine = &self.machines[it];
                    early(machine.steady) && early(machine.serves)
                };
                let reaches =
                    |it: usize| members(*set).all(|to| early(self.machines[it].reaches[to]));
                *set >> leader & 1 == 1
                    && members(*set).all(|it| steady(it) && reaches(it))
                    && self.is_quorum(*set, newest)
            };
            if let Some(set) = sets.clone().find(whole) {
                return Some((leader, set));
            }
        }
        None
    }

    fn meet(&mut self, config: &Membership) -> Zxid {
        let known = self.quorums.entry(config.version()).or_default();
        if !known.iter().any(|(other, _)| other == config) {
            let is_quorum = |set: Set| config.has_quorum(|voter| set >> machine(voter) & 1 == 1);
            known.push((config.clone(), (0..self.since.len()).map(is_quorum).collect()));
        }
        config.version()
    }

    /// Whether a set is a quorum of the committed configuration and of each configuration proposed
    /// at one of its members.
    fn is_quorum(&self, set: Set, newest: Zxid) -> bool {
        let configs = members(set).map(|machine| self.machines[machine].configs);
        let known = configs.clone().map(|[committed, _]| committed).max().unwrap_or_default();
        let proposed = configs.map(|[_, seen]| seen).filter(|seen| *seen > known);
        let mut counting = proposed.chain([known, newest]);
        let of_all = |configs: &Vec<(_, Vec<bool>)>| configs.iter().all(|(_, sets)| sets[set]);
        counting.all(|version| self.quorums.get(&version).is_some_and(of_all))
    }

    /// Since when a set has been sound, connected and a quorum.
    fn sound_since(&mut self, set: Set, newest: Zxid, now: Duration) -> Option<Duration> {
        let mut since = Duration::ZERO;
        for machine in members(set) {
            let machine = &self.machines[machine];
            since = since.max(machine.sound?);
            for other in members(set) {
                since = since.max(machine.reaches[other]?);
            }
        }
        if !self.is_quorum(set, newest) {
            self.since[set] = None;
            return None;
        }
        Some(since.max(*self.since[set].get_or_insert(now)))
    }
}

impl World {
    /// Whether a machine runs with a quick disk that has room.
    fn is_sound(&self, server: usize) -> bool {
        let it = &self.servers[server];
        it.peer().is_some() && it.paused.is_none() && it.disk_factor == 1 && !it.disk.is_full()
    }

    /// Updates the states of the machines.
    fn look_at_machines(&self, progress: &mut Progress) {
        let now = self.now;
        // A slow network may have recovered since the last check, while its last messages are still
        // on the way. A server that has lost its data may hold up the others.
        let arrived = self.net.slow_until.is_none_or(|until| until + INTERVAL < now);
        let disturbed = self.net.slow > 1 || !arrived || self.checks.has_lost_data();
        let broken = std::mem::take(&mut progress.broken);
        for (at, server) in self.servers.iter().enumerate() {
            let process = (server.number, server.pauses);
            let sound = !disturbed && self.is_sound(at);
            if let Some(quorums) = server.peer().map(zebu_zab::Peer::quorums) {
                let configs = [quorums.committed(), quorums.last_seen()];
                progress.machines[at].configs = configs.map(|config| progress.meet(config));
            }
            let it = &mut progress.machines[at];
            let before = it.sound.filter(|_| it.process == process);
            it.sound = sound.then_some(before.unwrap_or(now));
            let runs = it.process.0 == server.number && !std::mem::take(&mut it.stood_alone);
            let still = sound || server.paused.is_some() && it.stands_still && !disturbed;
            it.steady = (runs && still).then_some(it.steady.unwrap_or(now));
            it.stands_still &= server.paused.is_some();
            it.process = process;
            for (other, reaches) in it.reaches.iter_mut().enumerate() {
                let is_between =
                    |(a, b): &(usize, usize)| [(*a, *b), (*b, *a)].contains(&(at, other));
                let whole = self.net.ways.reaches(at, other) && !broken.iter().any(is_between);
                *reaches = whole.then_some(reaches.unwrap_or(now));
            }
        }
    }

    /// Checks that a sound quorum has a leader and commits.
    pub(crate) fn look_at_progress(&mut self) {
        let now = self.now;
        let ballots = std::mem::take(&mut self.net.ballots);
        if ballots > BALLOTS_MAX {
            self.checks
                .found(format!("progress: {ballots} messages about elections within {INTERVAL:?}"));
        }
        let leader = self.servers.iter().position(|server| server.leads().is_some());
        let waits = leader.and_then(|leader| {
            let peer = self.servers[leader].peer()?;
            peer.history().pending().next().map(|txn| txn.zxid)
        });
        let mut progress = std::mem::take(&mut self.checks.progress).expect("it is put back");
        if leader.is_some() {
            progress.led = now;
        }
        if waits != progress.waits.map(|(zxid, _)| zxid) {
            progress.waits = waits.map(|zxid| (zxid, now));
        }
        self.look_at_machines(&mut progress);
        let newest = self.checks.configs.newest(&self.checks.order).clone();
        let newest = progress.meet(&newest);
        // A leader that stepped down since the last check may have done so wrongly, too.
        let wrongly = progress.wrongly_deserted(newest);
        for (machine, server) in progress.machines.iter_mut().zip(&self.servers) {
            let role = server.role();
            let serves = matches!(role, Role::Following(_) | Role::Leading(_));
            let before = machine.serves.filter(|_| machine.role == Some(role));
            machine.serves = serves.then_some(before.unwrap_or(now));
            machine.role = Some(role);
        }
        // During reconfigurations, leaders hand over. Followers leave a leader that omits
        // transactions or loses requests.
        let expected = self.plan.reconfig || self.checks.holes || self.checks.losses;
        if let Some((leader, set)) = wrongly.filter(|_| !expected) {
            let names: Vec<i64> = members(set).map(|member| id(member).0).collect();
            self.checks.found(format!(
                "progress: server {leader} misses its quorum, and the servers {names:?} are there"
            ));
        }
        let (mut found, mut sound_for_long) = (None, false);
        for set in 1..progress.since.len() {
            let Some(since) = progress.sound_since(set, newest, now) else { continue };
            let long = |last: Duration| since.max(last) + progress.patience <= now;
            if self.plan.reconfig && long(since) {
                sound_for_long = true;
            }
            let names: Vec<i64> = members(set).map(|member| id(member).0).collect();
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
        if sound_for_long {
            self.reached("look at a sound quorum of changing members");
        }
        if let Some(found) = found {
            let status = self.status();
            self.checks.found(format!("{found}\n{status}"));
        }
    }
}
