//! Difficulties of a leader: learners of the original's kind, its own disk, strangers, late
//! promises, and lists of members that differ.

use std::time::Duration;

use zebu_testkit::Random;

use super::{SECOND, Script};
use crate::plan::{Change, Fault, Left, Meant, Moves, Plan, Side, Target, When};

/// The factor by which a hanging disk is slower.
const HANGS: u32 = 1_000_000;

/// An operator replaces two of three members. The disks of the new members hang, so the change
/// stays pending while the old members restart. Then the links between the two removed members and
/// all others are cut.
pub(super) fn pending_change(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.reconfig = true;
    plan.credulous = true;
    plan.voters = 3;
    plan.observers = 0;
    plan.spares = 2;
    plan.tick = Duration::from_millis(*random.pick(&[1000, 2000]));
    plan.think = Duration::from_millis(100);
    plan.length = SECOND * 180;
    let (old, new) = ([0, 1], [3, 4]);
    let mut there = false;
    let mut at = SECOND * 24;
    while at < plan.length {
        let (come, go) = if there { (old, new) } else { (new, old) };
        let change = Change {
            joining: come.map(|server| (Target::Server(server), true)).into(),
            leaving: go.map(Target::Server).into(),
            moves: Moves::default(),
            groups: None,
            whole: false,
            meant: Meant::Any,
        };
        let waits = random.ms(2_000, plan.tick.as_millis() as u64 * 4);
        for server in come {
            script.at(at, Fault::SlowDisk(Target::Server(server), HANGS, waits));
        }
        script.at(at + Duration::from_millis(50), Fault::Change(change));
        let mut soon = at + random.ms(100, 600);
        for server in go {
            script.at(soon, Fault::Kill(Target::Server(server), 0, random.ms(10, 200)));
            soon += random.ms(100, 900);
        }
        let apart: Vec<(usize, usize)> = go
            .iter()
            .flat_map(|a| [come[0], come[1], 2].map(|b| [(*a, b), (b, *a)]))
            .flatten()
            .collect();
        let cut_at = soon + random.ms(0, 1_500);
        let lasts = plan.tick * 8 + random.ms(0, 5_000);
        script.at(cut_at, Fault::Cut(apart, lasts));
        if random.one_in(3) {
            script.at(cut_at + random.ms(0, 900), Fault::Kill(Target::Server(2), 0, SECOND));
        }
        at = cut_at + lasts + plan.tick * 10 + random.ms(0, 8_000);
        there = !there;
    }
}

/// A disk, usually the leader's, hangs for longer than `syncLimit`, while all other servers
/// continue. A leader whose disk hangs must hand over.
pub(super) fn hung_disks(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.observers = *random.pick(&[0, 0, 1]);
    plan.tick = Duration::from_millis(500);
    plan.think = Duration::from_millis(100);
    plan.length = SECOND * 150;
    let mut at = SECOND * 6;
    while at < plan.length {
        let target = match random.below(4) {
            0 => Target::Server(random.below(plan.servers() as u64) as usize),
            _ => Target::Leader,
        };
        if random.one_in(4) {
            // The next leader's own epoch is not durable yet when all others have adopted its
            // history.
            let hangs = Fault::SlowDisk(Target::There, HANGS, random.ms(500, 3_000));
            script.at(at, Fault::Ambush(When::AckEpoch, 0, Box::new(hangs)));
            script.at(at, Fault::Kill(Target::Leader, 0, random.ms(10, 60)));
            at += plan.tick * 20 + random.ms(1_000, 8_000);
            continue;
        }
        let hangs = plan.tick * 8 + random.ms(0, 25_000);
        script.at(at, Fault::SlowDisk(target, HANGS, hangs));
        // Learners restart meanwhile, and their old connections may stay open.
        for _ in 0..random.below(3) {
            let soon = at + random.ms(0, 4_000);
            let other = Target::Other(random.below(5) as usize);
            let away = random.ms(20, 1_500);
            let fault = match random.below(3) {
                0 => Fault::Kill(other, random.below(6), away),
                1 => Fault::PowerCut(other, random.below(6), Left::Some(random.next()), away),
                _ => Fault::CutOff(other, Side::Servers, random.one_in(2), away),
            };
            script.at(soon, fault);
        }
        at += hangs + plan.tick * 10 + random.ms(1_000, 8_000);
    }
}

/// Strangers tell the leader that they are one of its learners. Nothing else goes wrong.
pub(super) fn strangers(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = *random.pick(&[0, 1]);
    plan.undisturbed = true;
    plan.length = SECOND * 60;
    let mut at = SECOND * 12;
    while at < plan.length {
        let claims = random.below(plan.members() as u64 + 2) as usize;
        let epoch = match random.below(4) {
            0 => u32::MAX,
            1 => i32::MAX as u32 - 1,
            2 => 1 << random.between(1, 30),
            _ => random.between(0, 60) as u32,
        };
        let more = random.below(3) as u32;
        script.at(at, Fault::Stranger(claims, epoch, random.one_in(4), more));
        at += random.ms(50, 1_500);
    }
}

/// Voters restart with a later promise than any leader has asked for, as after a flipped bit, or
/// with the data of another ensemble. An observer with such a promise stays outside until the next
/// election, as in the original, so observers are left out here.
pub(super) fn later_epochs(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 5]);
    plan.observers = *random.pick(&[0, 1, 2]);
    plan.tick = Duration::from_millis(500);
    plan.length = SECOND * 120;
    let mut at = SECOND * 10;
    while at < plan.length {
        let target = Target::Server(random.below(plan.voters as u64) as usize);
        let more = *random.pick(&[1, 2, 40, 4_000]);
        script.at(at, Fault::Promise(target, more, random.ms(50, 3_000)));
        at += SECOND * 8 + random.ms(0, 10_000);
    }
}

/// Some servers are members only in their own configuration files.
pub(super) fn other_lists(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = *random.pick(&[0, 1]);
    plan.spares = 1;
    plan.spares_vote = random.one_in(2);
    // Never the first server, whose list is the list of the ensemble. Never two servers: with the
    // longer list they could elect a leader without it.
    plan.edited = *random.pick(&[None, Some(1), Some(2)]);
    plan.masters = random.one_in(3);
    script.0 = plan.draw_faults(random);
    script.0.retain(|_| random.one_in(3));
    if plan.edited.is_some() {
        // Both servers without the longer list are needed for a quorum, unless one of them leads.
        // If one of them loses its data, the ensemble waits for the operator's next step.
        script.0.retain(|planned| !matches!(planned.fault, Fault::Wipe(..)));
    }
}

/// Servers are asked to stop and started again, as in a rolling restart, and leaders are asked to
/// hand over. In half of the plans nothing else happens.
pub(super) fn retirements(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.observers = *random.pick(&[0, 0, 1]);
    plan.masters = random.one_in(3);
    plan.think = Duration::from_millis(*random.pick(&[20, 50, 100]));
    plan.length = SECOND * 90;
    plan.hands_over = random.one_in(2);
    if !plan.hands_over {
        script.0 = plan.draw_faults(random);
        script.0.retain(|_| random.one_in(2));
    }
    let mut at = SECOND * 12;
    while at < plan.length {
        let target = match random.below(3) {
            0 => Target::Other(random.below(5) as usize),
            _ => Target::Leader,
        };
        let back = random.ms(1_000, 3_000);
        script.at(at, Fault::Retire(target, back));
        // The next server stops when this one is up to date again.
        at += back + plan.tick * 4 + random.ms(2_000, 6_000);
        let to = random.below(plan.voters as u64 + 1) as usize;
        script.at(at, Fault::HandOver((to < plan.voters).then_some(to)));
        at += plan.tick * 2 + random.ms(1_000, 3_000);
    }
}

/// Servers restart with the data of another ensemble, as after a wrong list of members or a
/// restored copy, while leaders are killed.
pub(super) fn other_ensembles(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 5]);
    plan.observers = *random.pick(&[0, 1, 2]);
    plan.masters = random.one_in(2);
    plan.tick = Duration::from_millis(500);
    plan.length = SECOND * 120;
    plan.credulous = false;
    let mut at = SECOND * 10;
    while at < plan.length {
        let time = random.ms(3_000, 12_000);
        let target = Target::Server(random.below(plan.members() as u64) as usize);
        script.at(at, Fault::Stray(target, time));
        // The stray server contacts each new leader.
        for _ in 0..random.between(0, 3) {
            let during = at + random.ms(500, time.as_millis() as u64);
            script.at(during, Fault::Kill(Target::Leader, 0, random.ms(100, 2_000)));
        }
        at += time + SECOND * 6 + random.ms(0, 4_000);
    }
}

/// Leaders are paused or hear nobody, and nothing else goes wrong. Then another server must lead
/// soon; a short pause must change nothing.
pub(super) fn silent_leaders(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.observers = *random.pick(&[0, 0, 1]);
    plan.tick = Duration::from_millis(*random.pick(&[1000, 2000]));
    plan.think = Duration::from_millis(100);
    plan.leader_silence = Some(Duration::from_millis(600));
    plan.hands_over = true;
    plan.undisturbed = random.one_in(3);
    plan.length = SECOND * 170;
    let mut at = SECOND * 20;
    // The end of a plan ends all faults, so the last one begins early enough to have its effect.
    while at + SECOND * 5 < plan.length {
        if plan.undisturbed {
            let target = match random.below(3) {
                0 => Target::Other(random.below(5) as usize),
                _ => Target::Leader,
            };
            script.at(at, Fault::Pause(target, random.ms(50, 450)));
            at += random.ms(500, 5_000);
        } else {
            // Shorter than `syncLimit`, because that limit would end the leadership as well. A
            // silence counts for a minute.
            let time = random.ms(2_500, 4_500);
            let fault = match random.one_in(2) {
                true => Fault::Pause(Target::Leader, time),
                false => Fault::Deafen(Target::Leader, time),
            };
            script.at(at, fault);
            at += SECOND * 70 + random.ms(0, 5_000);
        }
    }
}
