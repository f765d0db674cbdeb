//! Aimed plans: schedules that random faults seldom produce. Each has its own probability.
//!
//! Each aim is an example of a way in which ensembles have lost data. It fixes only what is
//! essential; random plans decide everything else.

use std::time::Duration;

mod movers;

use zebu_testkit::Random;

use crate::plan::{
    Acks, Change, Fault, Leads, Left, Meant, Moves, Plan, Planned, Side, Target, When,
};

mod copies;
mod disks;
mod leaders;

const SECOND: Duration = Duration::from_secs(1);

/// The situation that a plan aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// A leader logs transactions alone, and later returns to an ensemble that has gone on without
    /// it.
    LoneLeader,
    /// Only one server hears a candidate, twice, and then both disappear: a promise exists that the
    /// others never heard of.
    BrokenPromises,
    /// A server receives a snapshot transfer, becomes the leader, and synchronizes others from its
    /// memory.
    CopyThenLead,
    /// A leader is paused while another leads, and has clients all the time.
    StaleLeader,
    /// A server returns with an empty disk while the only server with the whole history is away.
    EmptyVoter,
    /// Voters leave a candidate, and its observers stay.
    LoyalObservers,
    /// A synchronization breaks at any of its packets.
    BrokenSync,
    /// A candidate sends its history as a snapshot while its own snapshot is being written, and
    /// fails.
    SlowSnapshot,
    /// Members join, leave and change roles, among faults of all kinds.
    ChangingMembers,
    /// A server, most often the leader, fails at a step of a reconfiguration.
    BrokenChange,
    /// One half of the machines replaces the other half, and some of those machines are away.
    Halves,
    /// Machines are far from each other, observers learn from followers, and snapshot transfers are
    /// slow.
    Regions,
    /// Files rot, and servers return with older data.
    BadDisks,
    /// Sessions are local to their servers until they create an ephemeral znode.
    LocalSessions,
    /// Links fail in part or in one direction for a long time, and leaders fail meanwhile.
    BadLinks,
    /// Followers acknowledge as those of the original do, and quorums have groups and weights.
    OtherKinds,
    /// Sessions become read-only for a while, on servers without a leader.
    Readers,
    /// Programs cancel requests after a timeout, while disks and networks are slow.
    Impatience,
    /// Reconfigurations change groups, weights and ports, of one member or of all.
    Groups,
    /// Members change while disks are lost, rot, or are rolled back.
    ChangingDisks,
    /// Leaders have faults that leaders of the original have.
    OtherLeaders,
    /// Snapshot transfers take longer than `initLimit`.
    SlowCopies,
    /// Clients move to another server while their requests are still on the way.
    Movers,
    /// Learners of the original's kind connect while a reconfiguration is pending.
    PendingChange,
    /// Disks, most often the leader's, hang for a long time.
    HungDisks,
    /// Strangers claim to be members, with epochs of their own.
    Strangers,
    /// Members restart with a promise that no leader has asked for.
    LaterEpochs,
    /// Some servers are members only in some configuration files.
    OtherLists,
    /// Servers, most often leaders, are asked to stop.
    Retirements,
    /// Servers restart with the data of another ensemble.
    OtherEnsembles,
    /// Leaders are paused, either so long that another server must lead at once, or so briefly that
    /// none may.
    SilentLeaders,
    /// Disks are full for a while.
    FullDisks,
    /// Followers have slow disks, and a quorum stays quick.
    SlowDisks,
    /// Files of running servers rot.
    RotBeneath,
    /// Records rot at all servers, different ones at each.
    RotEverywhere,
}

/// All aims.
pub const AIMS: [Aim; 35] = [
    Aim::LoneLeader,
    Aim::BrokenPromises,
    Aim::CopyThenLead,
    Aim::StaleLeader,
    Aim::EmptyVoter,
    Aim::LoyalObservers,
    Aim::BrokenSync,
    Aim::SlowSnapshot,
    Aim::ChangingMembers,
    Aim::BrokenChange,
    Aim::Halves,
    Aim::Regions,
    Aim::BadDisks,
    Aim::LocalSessions,
    Aim::BadLinks,
    Aim::OtherKinds,
    Aim::Readers,
    Aim::Impatience,
    Aim::Groups,
    Aim::ChangingDisks,
    Aim::OtherLeaders,
    Aim::SlowCopies,
    Aim::Movers,
    Aim::PendingChange,
    Aim::HungDisks,
    Aim::Strangers,
    Aim::LaterEpochs,
    Aim::OtherLists,
    Aim::Retirements,
    Aim::OtherEnsembles,
    Aim::SilentLeaders,
    Aim::FullDisks,
    Aim::SlowDisks,
    Aim::RotBeneath,
    Aim::RotEverywhere,
];

/// The planned faults, in any order.
struct Script(Vec<Planned>);

impl Script {
    fn at(&mut self, at: Duration, fault: Fault) {
        self.0.push(Planned { at, fault });
    }
}

impl Aim {
    /// Changes `plan` into one that aims at this situation.
    pub(crate) fn take(self, plan: &mut Plan, random: &mut Random) {
        let mut script = Script(Vec::new());
        // Enough requests that something happens, and few enough that the run stays small.
        plan.think = Duration::from_millis(*random.pick(&[100, 500, 1500]));
        plan.first_counter = 1;
        plan.always_copy = random.one_in(6);
        match self {
            Self::LoneLeader => lone_leader(plan, random, &mut script),
            Self::BrokenPromises => broken_promises(plan, random, &mut script),
            Self::CopyThenLead => copy_then_lead(plan, random, &mut script),
            Self::StaleLeader => stale_leader(plan, random, &mut script),
            Self::EmptyVoter => empty_voter(plan, random, &mut script),
            Self::LoyalObservers => loyal_observers(plan, random, &mut script),
            Self::BrokenSync => broken_sync(plan, random, &mut script),
            Self::SlowSnapshot => slow_snapshot(plan, random, &mut script),
            Self::ChangingMembers => changing_members(plan, random, &mut script),
            Self::BrokenChange => broken_change(plan, random, &mut script),
            Self::Halves => halves(plan, random, &mut script),
            Self::Regions => regions(plan, random, &mut script),
            Self::BadDisks => bad_disks(plan, random, &mut script),
            Self::LocalSessions => local_sessions(plan, random, &mut script),
            Self::BadLinks => bad_links(plan, random, &mut script),
            Self::OtherKinds => other_kinds(plan, random, &mut script),
            Self::Readers => readers(plan, random, &mut script),
            Self::Impatience => impatience(plan, random, &mut script),
            Self::Groups => groups(plan, random, &mut script),
            Self::ChangingDisks => changing_disks(plan, random, &mut script),
            Self::OtherLeaders => other_leaders(plan, random, &mut script),
            Self::SlowCopies => copies::slow_copies(plan, random, &mut script),
            Self::Movers => movers::movers(plan, random, &mut script),
            Self::PendingChange => leaders::pending_change(plan, random, &mut script),
            Self::HungDisks => leaders::hung_disks(plan, random, &mut script),
            Self::Strangers => leaders::strangers(plan, random, &mut script),
            Self::LaterEpochs => leaders::later_epochs(plan, random, &mut script),
            Self::OtherLists => leaders::other_lists(plan, random, &mut script),
            Self::Retirements => leaders::retirements(plan, random, &mut script),
            Self::OtherEnsembles => leaders::other_ensembles(plan, random, &mut script),
            Self::SilentLeaders => leaders::silent_leaders(plan, random, &mut script),
            Self::FullDisks => disks::full_disks(plan, random, &mut script),
            Self::SlowDisks => disks::slow_disks(plan, random, &mut script),
            Self::RotBeneath => disks::rot_beneath(plan, random, &mut script),
            Self::RotEverywhere => disks::rot_everywhere(plan, random, &mut script),
        }
        script.0.sort_by_key(|planned| planned.at);
        script.0.retain(|planned| planned.at < plan.length);
        plan.faults = script.0;
    }
}

/// The number of consecutive seeds that use the same form of their aim.
const FORM_SEEDS: u64 = 64;
/// The number of forms of an aim. An aim with fewer forms uses its first form for the others.
const FORMS: u64 = 4;

/// The form of its aim that `plan` uses.
fn form(plan: &Plan) -> u64 {
    plan.seed / FORM_SEEDS % FORMS
}

/// The `number`-th seed among those that use this form.
#[must_use]
pub fn form_seed(form: u64, number: u64) -> u64 {
    (number / FORM_SEEDS * FORMS + form) * FORM_SEEDS + number % FORM_SEEDS
}

/// Whether `plan` uses the second form of its aim, as every fourth plan does.
fn other_form(plan: &Plan) -> bool {
    form(plan) == 2
}

/// The leader loses contact with the others for a while. Then it is killed, and restarts before or
/// after the others have gone on without it.
fn lone_leader(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = 0;
    plan.always_copy = !random.one_in(4);
    plan.snapshot_every = *random.pick(&[10, 1000, 1000]);
    plan.tick = Duration::from_millis(*random.pick(&[500, 1000]));
    plan.think = Duration::from_millis(100);
    let mut at = SECOND * 5;
    while at < plan.length {
        let severed = !random.one_in(3);
        let alone = if severed {
            // The leader's proposals are lost on the way, and it notices soon.
            let alone = random.ms(100, 350);
            script.at(at, Fault::Sever(Target::Leader, Side::Servers, alone));
            alone
        } else {
            let alone = plan.tick.mul_f64(0.2) + random.ms(0, plan.tick.as_millis() as u64 * 3);
            script.at(at, Fault::PauseOthers(Target::Leader, alone));
            alone
        };
        let left = *random.pick(&[Left::All, Left::Nothing, Left::Some(random.clone().next())]);
        // A server that dials before the others can be reached has to wait.
        let back = alone.mul_f64(0.1) + random.ms(300, 2500);
        let end = at + alone.mul_f64(0.9);
        if !random.one_in(4) {
            // The next leader has nothing to propose for a while.
            for client in 0..plan.clients + plan.sessions {
                let silent = random.ms(3_000, 8_000);
                script.at(end, Fault::ClientSilent(client, silent));
            }
        }
        script.at(
            end,
            if random.one_in(2) {
                Fault::PowerCut(Target::Leader, 0, left, back)
            } else {
                Fault::Kill(Target::Leader, random.below(6), back)
            },
        );
        // Transactions that the old leader has kept to itself show after a restart.
        at += alone + plan.tick * 8 + random.ms(4_000, 8_000);
        if random.one_in(2) {
            script.at(at, Fault::PowerCutAll(0, Left::All, random.ms(50, 500)));
            at += plan.tick * 4 + random.ms(2_000, 5_000);
        }
    }
}

/// Only one server, the confidant, hears the epoch of a candidate, more than once. Then both are
/// away for a while.
fn broken_promises(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 5;
    plan.observers = 0;
    let long = plan.tick * 12;
    plan.length = SECOND * 20 + long * 8;
    let (away, confidant, candidate) = (0, 1, 4);
    let mut at = SECOND * 6;
    while at < plan.length {
        // One server is cut off, so every quorum contains the confidant.
        let tries = random.between(2, 3) as u32;
        let begun = at;
        for _ in 0..tries {
            let heard = Fault::Sever(Target::There, Side::AllBut(confidant), random.ms(100, 600));
            script.at(at, Fault::Ambush(When::FollowerInfo, 1, Box::new(heard)));
            for server in 2..5 {
                script.at(at, Fault::Kill(Target::Server(server), 0, random.ms(10, 60)));
            }
            at += random.ms(1_200, 2_500);
        }
        let absent = Fault::CutOff(Target::Server(away), Side::Servers, true, at - begun);
        script.at(begun, absent);
        let gone = Fault::CutOff(Target::Server(confidant), Side::Servers, true, long);
        script.at(at, gone);
        script.at(at, Fault::Kill(Target::Server(candidate), 0, long));
        for server in 2..4 {
            script.at(at, Fault::Kill(Target::Server(server), 0, random.ms(10, 60)));
        }
        at += long * 2 + random.ms(0, 4000);
    }
}

fn copy_then_lead(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = 1;
    plan.memory_txns = 500;
    plan.log_share = *random.pick(&[None, Some(0.01)]);
    plan.snapshot_every = *random.pick(&[5, 10]);
    plan.always_copy = false;
    let away = plan.tick * 8;
    plan.length = SECOND * 20 + away * 12;
    let mut at = SECOND * 6;
    // With equal histories, the last voter is elected.
    let (behind, observer) = (2, 3);
    while at < plan.length {
        // The observer is cut off until the end.
        let all = away * 5;
        script.at(at, Fault::CutOff(Target::Server(observer), Side::Servers, true, all));
        at += random.ms(500, 4000);
        script.at(at, Fault::CutOff(Target::Server(behind), Side::Servers, true, away));
        // The others restart, and so lose their transactions in memory, when this server returns.
        let back = at + away;
        for server in 0..2 {
            let down = random.ms(10, 100);
            script.at(back - down, Fault::Kill(Target::Server(server), 0, down));
        }
        at = back + random.ms(3_000, 9_000);
        // This server has received a snapshot transfer, and leads next.
        for server in 0..2 {
            let down = random.ms(100, 400);
            script.at(at, Fault::Kill(Target::Server(server), 0, down));
        }
        at += all;
    }
}

fn stale_leader(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.tick = Duration::from_millis(500);
    plan.think = Duration::from_millis(*random.pick(&[1500, 2500]));
    plan.voters = 3;
    plan.observers = 0;
    plan.clients = 5;
    // Mostly `sync` and reads: a write before them would delay them.
    plan.syncs = 85;
    let mut at = SECOND * 5;
    while at < plan.length {
        let stands = if random.one_in(3) {
            // The learners' patience is as long as the leader's, and they have heard from it
            // shortly before it stops.
            plan.tick * 4 + random.ms(0, plan.tick.as_millis() as u64)
        } else {
            plan.tick * 8 + random.ms(0, 3000)
        };
        script.at(
            at,
            match random.below(3) {
                0 => Fault::CutOff(Target::Leader, Side::Servers, random.one_in(2), stands),
                _ => Fault::Pause(Target::Leader, stands),
            },
        );
        at += stands + random.ms(3_000, 8_000);
    }
}

/// One server is behind. The server with the whole history goes away, and the third returns with an
/// empty disk.
fn empty_voter(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = 0;
    plan.autocreate = form(plan) == 3;
    if other_form(plan) {
        return empty_leader(plan, random, script);
    }
    let mut at = SECOND * 6;
    while at < plan.length {
        let behind = random.below(3) as usize;
        let (one, other) = ((behind + 1) % 3, (behind + 2) % 3);
        let cut = random.ms(1_000, 8_000);
        script.at(at, Fault::CutOff(Target::Server(behind), Side::Servers, true, cut));
        let end = at + cut - random.ms(0, 800);
        script.at(end, Fault::PowerCut(Target::Server(one), 0, Left::All, plan.tick * 8));
        script.at(end + random.ms(0, 10), Fault::Wipe(Target::Server(other), random.ms(10, 900)));
        at = end + plan.tick * 8 + random.ms(5_000, 12_000);
    }
}

/// The first leader returns with an empty disk. It meets a server that has voted for it and has not
/// heard from it since, while the server with the whole history is away.
fn empty_leader(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.tick = Duration::from_millis(*random.pick(&[1000, 2000]));
    // With equal histories, the last voter is elected.
    let leader = 2;
    let (one, other) = *random.pick(&[(0, 1), (1, 0)]);
    let at = SECOND * 2 + random.ms(0, 2_000);
    script.at(random.ms(0, 300), Fault::Cut(vec![(leader, other)], at));
    script.at(at + SECOND, Fault::Wipe(Target::Server(leader), random.ms(10, 200)));
    let away = plan.tick * 10;
    script.at(at + SECOND + random.ms(300, 900), Fault::Kill(Target::Server(one), 0, away));
}

fn loyal_observers(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = 2;
    let mut at = SECOND * 6;
    while at < plan.length {
        let when = *random.pick(&[When::LeaderInfo, When::LeaderInfo, When::NewLeader]);
        let away = plan.tick * 4 + random.ms(0, 4000);
        let leave = Fault::CutOff(Target::Here, Side::Voters, true, away);
        script.at(at, Fault::Ambush(when, random.below(2) as u32, Box::new(leave)));
        script.at(at, Fault::Kill(Target::Leader, 0, random.ms(50, 2000)));
        at += away + plan.tick * 8 + random.ms(0, 4000);
    }
}

/// One end of a synchronization fails at one of its packets, and the other servers continue.
fn broken_sync(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    let mut at = SECOND * 5;
    while at < plan.length {
        let away = random.ms(50, plan.tick.as_millis() as u64 * 8);
        let end = *random.pick(&[Target::Here, Target::There]);
        let left = Left::Some(random.next());
        let fault = match random.below(4) {
            0 => Fault::Kill(end, random.below(8), away),
            1 => Fault::PowerCut(end, random.below(8), left, away),
            2 => Fault::CutOff(end, Side::Servers, random.one_in(2), away),
            _ => Fault::Pause(end, away),
        };
        let when = *random.pick(&When::ALL);
        script.at(at, Fault::Ambush(when, random.below(6) as u32, Box::new(fault)));
        if random.one_in(2) {
            let target = *random.pick(&[Target::Leader, Target::Other(0), Target::Other(1)]);
            script.at(at, Fault::Kill(target, 0, random.ms(50, 6_000)));
        }
        at += random.ms(500, 9_000);
    }
}

/// The leader has logged more than the others while its snapshot is being written. It becomes a
/// candidate again and sends a snapshot transfer, and is cut off before the learner has received
/// the transfer.
fn slow_snapshot(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = 0;
    plan.memory_txns = 2;
    plan.log_share = None;
    plan.always_copy = false;
    plan.snapshot_every = *random.pick(&[4, 8, 12]);
    plan.tick = Duration::from_millis(500);
    plan.snapshot_pause = plan.tick * *random.pick(&[1, 2, 4]);
    plan.think = Duration::from_millis(100);
    plan.length = SECOND * 10 + plan.tick * 120;
    let mut at = SECOND * 6;
    while at < plan.length {
        // One follower falls behind, and then the leader is alone. Only the follower that is behind
        // returns to it.
        let behind = random.ms(1_500, 4_000);
        let alone = plan.tick * 7;
        script.at(at, Fault::CutOff(Target::Other(0), Side::Servers, true, behind + alone));
        at += behind;
        let other = alone + plan.tick * 6;
        script.at(at, Fault::CutOff(Target::Other(1), Side::Servers, true, other));
        at += alone;
        let away = plan.tick * 9 + random.ms(0, 4000);
        let leave = Fault::CutOff(Target::Here, Side::Servers, true, away);
        script.at(at - plan.tick, Fault::Ambush(When::Snap, 0, Box::new(leave)));
        // Clients are silent until the old leader returns, so that it gets a truncation and not a
        // snapshot transfer.
        for client in 0..plan.clients + plan.sessions {
            script.at(at - plan.tick * 2, Fault::ClientSilent(client, away + plan.tick * 14));
        }
        at += away + plan.tick * 20 + random.ms(0, 3000);
    }
}

/// The server that a change is about: any server, or the leader.
fn somebody(plan: &Plan, random: &mut Random) -> Target {
    match random.below(4) {
        0 => Target::Leader,
        1 => Target::Other(random.below(plan.servers() as u64) as usize),
        _ => Target::Server(random.below(plan.servers() as u64) as usize),
    }
}

/// A random change of the members.
fn some_change(plan: &Plan, random: &mut Random) -> Change {
    let meant = match random.below(8) {
        0 | 1 => Meant::Newest,
        2 => Meant::Older,
        _ => Meant::Any,
    };
    let whole = random.one_in(4);
    let mut change = Change {
        joining: Vec::new(),
        leaving: Vec::new(),
        moves: Moves::default(),
        groups: None,
        whole,
        meant,
    };
    let who = somebody(plan, random);
    match random.below(8) {
        0..3 => change.joining.push((who, true)),
        3 => change.joining.push((who, false)),
        4 | 5 => change.leaving.push(who),
        6 => {
            change.joining.push((who, true));
            change.moves.quorum = true;
        }
        _ => {
            for machine in 0..plan.servers() {
                match random.below(5) {
                    0 | 1 => change.joining.push((Target::Server(machine), true)),
                    2 => change.joining.push((Target::Server(machine), false)),
                    3 => change.leaving.push(Target::Server(machine)),
                    _ => {}
                }
            }
        }
    }
    change
}

fn changing_members(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.reconfig = true;
    plan.voters = *random.pick(&[1, 2, 3, 3, 5]);
    plan.observers = *random.pick(&[0, 0, 1]);
    plan.spares = random.between(1, 3) as usize;
    script.0 = plan.draw_faults(random);
    let mut at = SECOND * 4;
    while at < plan.length {
        script.at(at, Fault::Change(some_change(plan, random)));
        at += random.ms(1_000, 12_000);
    }
}

fn broken_change(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.reconfig = true;
    if other_form(plan) {
        return copied_change(plan, random, script);
    }
    plan.voters = *random.pick(&[2, 3, 3, 4]);
    plan.observers = 0;
    plan.spares = random.between(1, 2) as usize;
    plan.tick = Duration::from_millis(*random.pick(&[500, 1000]));
    let mut at = SECOND * 6;
    while at < plan.length {
        let away = random.ms(50, plan.tick.as_millis() as u64 * 10);
        let end = *random.pick(&[Target::Here, Target::There]);
        let left = Left::Some(random.next());
        let fault = match random.below(5) {
            0 => Fault::Kill(end, random.below(12), away),
            1 => Fault::PowerCut(end, random.below(12), left, away),
            2 => Fault::CutOff(end, Side::Servers, random.one_in(2), away),
            3 => Fault::PowerCutAll(random.below(12), left, away),
            _ => Fault::Pause(end, away),
        };
        let when = *random.pick(&[
            When::Change,
            When::Change,
            When::Ack,
            When::Activate,
            When::Activate,
            When::NewLeader,
            When::UpToDate,
        ]);
        script.at(at, Fault::Ambush(when, random.below(4) as u32, Box::new(fault)));
        let mut change = some_change(plan, random);
        change.meant = Meant::Any;
        script.at(at, Fault::Change(change));
        at += plan.tick * 4 + random.ms(1_000, 12_000);
    }
}

/// A candidate has a change that is not committed, and sends it within a snapshot transfer. Then
/// the candidate is cut off, together with the servers that are to join.
fn copied_change(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = 0;
    plan.spares = 2;
    plan.always_copy = true;
    plan.tick = Duration::from_millis(500);
    plan.think = Duration::from_millis(100);
    let spares = [3, 4];
    let change = |join: bool| {
        let spares = || spares.iter().map(|spare| Target::Server(*spare));
        let joining = if join { spares().map(|it| (it, true)).collect() } else { Vec::new() };
        let leaving = if join { Vec::new() } else { spares().collect() };
        let (moves, whole, meant) = (Moves::default(), false, Meant::Any);
        Fault::Change(Change { joining, leaving, moves, groups: None, whole, meant })
    };
    let mut at = SECOND * 6;
    while at < plan.length {
        let away = plan.tick * 12 + random.ms(0, 3_000);
        // The joining servers follow as observers, so they receive the proposed change.
        let gone = Fault::Kill(Target::Here, random.below(8), random.ms(10, 300));
        script.at(at, Fault::Ambush(When::Change, random.below(3) as u32, Box::new(gone)));
        script.at(at, change(true));
        let begun = at + plan.tick;
        for spare in spares {
            let cut = Fault::CutOff(Target::Server(spare), Side::Servers, true, away);
            script.at(begun, Fault::Ambush(When::NewLeader, 0, Box::new(cut)));
        }
        let left = Fault::Sever(Target::Here, Side::Servers, away);
        script.at(begun, Fault::Ambush(When::NewLeader, random.below(2) as u32, Box::new(left)));
        at = begun + away + plan.tick * 12;
        script.at(at, change(false));
        at += SECOND * 4;
    }
}

/// The old and the new members have one server in common, or none.
fn halves(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.reconfig = true;
    plan.voters = 3;
    plan.observers = 0;
    plan.spares = *random.pick(&[2, 3]);
    plan.tick = Duration::from_millis(*random.pick(&[500, 1000]));
    let machines = plan.servers();
    let new = machines - 3;
    let mut at = SECOND * 6;
    let mut there = false;
    while at < plan.length {
        // The next voters are members before, so they have most of the history.
        let (from, to) = if there { (new..machines, 0..3) } else { (0..3, new..machines) };
        let comes = |votes| to.clone().map(|at| (Target::Server(at), votes)).collect();
        let goes = from.clone().filter(|at| !to.contains(at)).map(Target::Server).collect();
        let change = Change {
            joining: comes(true),
            leaving: goes,
            moves: Moves::default(),
            groups: None,
            whole: random.one_in(2),
            meant: Meant::Any,
        };
        let gone = random.ms(100, plan.tick.as_millis() as u64 * 14);
        let away: Vec<usize> = if random.one_in(2) { from.clone() } else { to.clone() }.collect();
        let some = *random.pick(&[1, 2, 2, 3]);
        for machine in away.iter().take(some) {
            let target = Target::Server(*machine);
            let left = Left::Some(random.next());
            let fault = match random.below(3) {
                0 => Fault::CutOff(target, Side::Servers, true, gone),
                1 => Fault::PowerCut(target, random.below(12), left, gone),
                _ => Fault::Pause(target, gone),
            };
            if random.one_in(3) {
                script.at(at + random.ms(0, 200), fault);
            } else {
                let when = *random.pick(&[When::Change, When::Change, When::Activate]);
                script.at(at, Fault::Ambush(when, random.below(3) as u32, Box::new(fault)));
            }
        }
        script.at(at, Fault::Change(change));
        there = !there;
        at += gone + plan.tick * 6 + random.ms(1_000, 8_000);
    }
}

fn regions(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.observers = random.between(1, 3) as usize;
    plan.regions = random.between(2, 3) as usize;
    // Near enough that a client can create a session within its timeout.
    plan.distance = random.ms(5, 20);
    plan.masters = random.one_in(2);
    plan.always_copy = random.one_in(2);
    plan.copy_pause = Duration::from_millis(*random.pick(&[10, 300]));
    plan.think = Duration::from_millis(100);
    script.0 = plan.draw_faults(random);
}

fn bad_disks(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.observers = *random.pick(&[0, 1]);
    script.0 = plan.draw_faults(random);
    // Few faults: the ensemble needs quiet times in which every server gets the whole history.
    script.0.retain(|_| random.one_in(3));
    let mut at = SECOND * 4;
    while at < plan.length {
        let target = somebody(plan, random);
        let back = random.ms(10, 6_000);
        script.at(
            at,
            match random.below(3) {
                0 => Fault::Rot(target, random.next(), back),
                1 => {
                    Fault::RollBack(Target::Server(random.below(plan.voters as u64) as usize), back)
                }
                _ => Fault::BackUp(Target::Server(random.below(plan.voters as u64) as usize)),
            },
        );
        at += random.ms(1_000, 7_000);
    }
}

fn local_sessions(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.local_sessions = true;
    plan.observers = *random.pick(&[0, 1, 2]);
    plan.masters = random.one_in(2);
    plan.clients = random.between(2, 5) as usize;
    script.0 = plan.draw_faults(random);
}

/// One server, or a few pairs of servers, are partly unreachable for so long that the others could
/// continue without them.
fn bad_links(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    if form(plan) == 3 {
        return unheard(plan, random, script);
    }
    plan.voters = *random.pick(&[3, 5, 5]);
    plan.observers = *random.pick(&[0, 0, 1]);
    plan.tick = Duration::from_millis(500);
    let long = plan.tick * 60 + SECOND * 30;
    plan.length = SECOND * 20 + (long + SECOND * 10) * 3;
    let servers = plan.members();
    let mut at = SECOND * 4;
    while at < plan.length {
        let one = random.below(servers as u64) as usize;
        let friend = (one + 1 + random.below(servers as u64 - 1) as usize) % servers;
        let ways = random.below(3);
        let mut pairs = Vec::new();
        for other in (0..servers).filter(|other| *other != one) {
            if other == friend || random.one_in(4) {
                continue;
            }
            if ways != 1 {
                pairs.push((one, other));
            }
            if ways != 0 {
                pairs.push((other, one));
            }
        }
        if random.one_in(3) {
            let (a, b) = (random.below(servers as u64), random.below(servers as u64));
            pairs.extend((a != b).then_some((a as usize, b as usize)));
        }
        let lasts = long + random.ms(0, 10_000);
        if random.one_in(3) {
            // One server has transactions that no other has, so its history is the best.
            let alone = Fault::PauseOthers(Target::Server(one), random.ms(200, 2_000));
            script.at(at.saturating_sub(SECOND), alone);
        }
        script.at(at, Fault::Cut(pairs, lasts));
        for _ in 0..random.between(1, 3) {
            let target = *random.pick(&[Target::Leader, Target::Server(one), Target::Other(0)]);
            let when = at + random.ms(0, 6_000);
            script.at(when, Fault::Kill(target, random.below(6), random.ms(10, 3_000)));
        }
        at += lasts + random.ms(2_000, 8_000);
    }
    if other_form(plan) {
        // In some plans the members change meanwhile.
        plan.reconfig = true;
        plan.spares = random.between(1, 2) as usize;
        let mut at = SECOND * 3;
        while at < plan.length {
            script.at(at, Fault::Change(some_change(plan, random)));
            at += random.ms(5_000, 40_000);
        }
    }
}

/// The third form: the server with the best history hears all others, but only one hears it. Two of
/// the others do not hear each other.
fn unheard(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 5;
    plan.observers = 0;
    plan.tick = Duration::from_millis(500);
    let long = plan.tick * 60 + SECOND * 30;
    plan.length = SECOND * 20 + (long + SECOND * 10) * 3;
    let mut at = SECOND * 6;
    while at < plan.length {
        let mut servers: Vec<usize> = (0..plan.voters).collect();
        let mut draw = |_| servers.swap_remove(random.below(servers.len() as u64) as usize);
        let [best, friend, a, b, c] = std::array::from_fn(&mut draw);
        let mut pairs: Vec<_> = [a, b, c].map(|other| (best, other)).into();
        pairs.push((a, b));
        if random.one_in(2) {
            pairs.push((b, a));
        }
        let alone = Fault::PauseOthers(Target::Server(best), random.ms(200, 2_000));
        script.at(at - SECOND, alone);
        let lasts = long + random.ms(0, 10_000);
        script.at(at, Fault::Cut(pairs, lasts));
        let target = *random.pick(&[Target::Leader, Target::Server(friend)]);
        script.at(at + random.ms(0, 3_000), Fault::Kill(target, 0, random.ms(10, 3_000)));
        at += lasts + random.ms(2_000, 8_000);
    }
}

fn other_kinds(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.observers = *random.pick(&[0, 1]);
    plan.always_copy = random.one_in(8);
    let kinds = [Acks::Late, Acks::Early, Acks::Early, Acks::Again];
    plan.acks = (0..plan.members()).map(|_| *random.pick(&kinds)).collect();
    if random.one_in(2) {
        plan.voters = *random.pick(&[5, 6]);
        plan.groups = (0..plan.voters)
            .map(|voter| (voter as u64 % 3, random.between(u64::from(voter < 3), 2)))
            .collect();
    }
    script.0 = plan.draw_faults(random);
    let mut at = SECOND * 4;
    while at < plan.length {
        let when = *random.pick(&[When::AckNewLeader, When::UpToDate, When::Ack, When::NewLeader]);
        let end = *random.pick(&[Target::Here, Target::There]);
        let away = random.ms(20, plan.tick.as_millis() as u64 * 4);
        let fault = match random.below(3) {
            0 => Fault::Kill(end, random.below(8), away),
            1 => Fault::PowerCut(end, random.below(8), Left::Some(random.next()), away),
            _ => Fault::CutOff(end, Side::Servers, random.one_in(2), away),
        };
        script.at(at, Fault::Ambush(when, random.below(4) as u32, Box::new(fault)));
        at += random.ms(2_000, 9_000);
    }
}

/// The ensemble loses its quorum again and again, for so long that sessions try other servers.
fn readers(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.read_only = true;
    // Only the server that created a reader's session knows the session.
    plan.local_sessions = !random.one_in(4);
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.observers = *random.pick(&[0, 0, 1]);
    plan.sessions = random.between(2, 4) as usize;
    plan.clients = random.between(1, 2) as usize;
    plan.tick = Duration::from_millis(*random.pick(&[500, 1000]));
    plan.think = Duration::from_millis(100);
    script.0 = plan.draw_faults(random);
    script.0.retain(|_| random.one_in(3));
    let mut at = SECOND * 6;
    while at < plan.length {
        let away = plan.tick * 8 + random.ms(2_000, 25_000);
        let apart = random.one_in(2);
        for server in 0..plan.members() {
            let target = Target::Server(server);
            match random.below(if apart { 2 } else { 6 }) {
                0 | 1 => script.at(at, Fault::CutOff(target, Side::Servers, true, away)),
                2 => {
                    let left = Left::Some(random.next());
                    script.at(at, Fault::PowerCut(target, random.below(8), left, away));
                }
                3 => {
                    script.at(at + random.ms(0, 5_000), Fault::Kill(target, 0, random.ms(50, 900)))
                }
                _ => {}
            }
        }
        at += away + random.ms(2_000, 15_000);
    }
}

fn impatience(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.impatient = true;
    plan.sessions = random.between(2, 4) as usize;
    plan.clients = random.between(1, 2) as usize;
    plan.think = Duration::from_millis(*random.pick(&[20, 100]));
    script.0 = plan.draw_faults(random);
    let mut at = SECOND * 4;
    while at < plan.length {
        let slow = random.ms(500, 8_000);
        let party = plan.clients + random.below(plan.sessions as u64) as usize;
        script.at(
            at,
            match random.below(5) {
                0 => Fault::SlowNetwork(random.between(5, 200) as u32, slow),
                1 => Fault::SlowDisk(Target::Leader, random.between(20, 300) as u32, slow),
                2 => Fault::Pause(Target::Leader, slow),
                3 => Fault::ClientCut(party, random.one_in(2), slow),
                _ => Fault::ClientSilent(party, slow),
            },
        );
        at += random.ms(500, 6_000);
    }
}

/// Members, most often the leader, change their ports, groups and weights, and fail meanwhile.
fn groups(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.reconfig = true;
    plan.voters = *random.pick(&[3, 5, 6]);
    plan.observers = *random.pick(&[0, 0, 1]);
    plan.spares = random.between(0, 2) as usize;
    plan.tick = Duration::from_millis(*random.pick(&[500, 1000]));
    if random.one_in(2) {
        plan.groups = (0..plan.voters)
            .map(|voter| (voter as u64 % 3, random.between(u64::from(voter < 3), 2)))
            .collect();
    }
    script.0 = plan.draw_faults(random);
    script.0.retain(|_| random.one_in(2));
    let mut at = SECOND * 4;
    while at < plan.length {
        let mut change = some_change(plan, random);
        if random.one_in(2) {
            change.whole = true;
            change.groups = random.one_in(2).then(|| random.next());
        }
        if random.one_in(2) {
            let who = somebody(plan, random);
            change.joining.push((who, !random.one_in(4)));
            let [quorum, election, client] = [(); 3].map(|()| random.one_in(2));
            change.moves = Moves { quorum, election, client };
        }
        if random.one_in(3) {
            let away = random.ms(50, plan.tick.as_millis() as u64 * 10);
            let end = *random.pick(&[Target::Here, Target::There]);
            let fault = match random.below(3) {
                0 => Fault::Kill(end, random.below(12), away),
                1 => Fault::PowerCut(end, random.below(12), Left::Some(random.next()), away),
                _ => Fault::CutOff(end, Side::Servers, random.one_in(2), away),
            };
            let when = *random.pick(&[When::Change, When::Activate, When::NewLeader]);
            script.at(at, Fault::Ambush(when, random.below(3) as u32, Box::new(fault)));
        }
        script.at(at, Fault::Change(change));
        at += random.ms(2_000, 14_000);
    }
}

fn changing_disks(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.reconfig = true;
    plan.voters = *random.pick(&[3, 3, 4, 5]);
    plan.observers = *random.pick(&[0, 1]);
    plan.spares = random.between(0, 2) as usize;
    script.0 = plan.draw_faults(random);
    // Few faults: the ensemble needs quiet times in which every server gets the whole history.
    script.0.retain(|_| random.one_in(3));
    let mut at = SECOND * 5;
    while at < plan.length {
        let target = Target::Server(random.below(plan.servers() as u64) as usize);
        let back = random.ms(10, 6_000);
        let fault = match random.below(6) {
            0 => Fault::Rot(target, random.next(), back),
            1 => Fault::RollBack(target, back),
            2 => Fault::Wipe(target, back),
            3 => Fault::BackUp(target),
            _ => Fault::Change(some_change(plan, random)),
        };
        script.at(at, fault);
        at += random.ms(500, 6_000);
    }
}

fn other_leaders(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.observers = *random.pick(&[0, 1]);
    plan.always_copy = random.one_in(8);
    plan.think = Duration::from_millis(100);
    let kinds = [Leads::Well, Leads::Again, Leads::Again, Leads::Holes];
    plan.leads = (0..plan.members()).map(|_| *random.pick(&kinds)).collect();
    let acks = [Acks::Late, Acks::Early, Acks::Again];
    plan.acks = (0..plan.members()).map(|_| *random.pick(&acks)).collect();
    script.0 = plan.draw_faults(random);
    script.0.retain(|_| random.one_in(2));
    let mut at = SECOND * 4;
    while at < plan.length {
        let away = random.ms(20, plan.tick.as_millis() as u64 * 6);
        let target = *random.pick(&[Target::Leader, Target::Other(0), Target::Other(1)]);
        let fault = match random.below(4) {
            0 => Fault::Kill(target, random.below(8), away),
            1 => Fault::PowerCut(target, random.below(8), Left::Some(random.next()), away),
            2 => Fault::CutOff(target, Side::Servers, random.one_in(2), away),
            _ => Fault::Pause(target, away),
        };
        script.at(at, fault);
        at += random.ms(1_000, 8_000);
    }
}
