//! Disks that are full or slow, or that rot while a server runs.

use std::time::Duration;

use zebu_testkit::Random;

use super::{SECOND, Script};
use crate::plan::{Fault, Left, Plan, Side, Target};

fn somebody(plan: &Plan, random: &mut Random) -> Target {
    match random.below(3) {
        0 => Target::Leader,
        1 => Target::Other(random.below(5) as usize),
        _ => Target::Server(random.below(plan.servers() as u64) as usize),
    }
}

/// Disks fill up at any step of their servers, and have room again later. Meanwhile servers are
/// killed and restarted, among them servers with full disks.
pub(super) fn full_disks(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.tick = Duration::from_millis(*random.pick(&[500, 1000]));
    plan.think = Duration::from_millis(100);
    plan.snapshot_every = *random.pick(&[10, 50]);
    plan.length = SECOND * 150;
    let mut at = SECOND * 4;
    while at < plan.length {
        for _ in 0..random.between(1, 2) {
            let lasts = if random.one_in(3) { random.ms(5, 400) } else { random.ms(400, 25_000) };
            script.at(at + random.ms(0, 900), Fault::DiskFull(somebody(plan, random), lasts));
        }
        for _ in 0..random.below(3) {
            let soon = at + random.ms(0, 8_000);
            let (target, back) = (somebody(plan, random), random.ms(20, 4_000));
            let calls = random.below(8);
            let fault = if random.one_in(2) {
                Fault::Kill(target, calls, back)
            } else {
                Fault::PowerCut(target, calls, Left::Some(random.next()), back)
            };
            script.at(soon, fault);
        }
        at += random.ms(2_000, 20_000);
    }
}

/// Disks of followers are slow or hang, and a quorum stays quick. The leader must not wait for the
/// slow followers, and must not change.
pub(super) fn slow_disks(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 5]);
    plan.observers = *random.pick(&[0, 1]);
    plan.tick = Duration::from_millis(*random.pick(&[500, 1000]));
    plan.think = Duration::from_millis(100);
    plan.hands_over = true;
    plan.swift = true;
    plan.undisturbed = true;
    plan.length = SECOND * 120;
    let mut at = SECOND * 20;
    while at < plan.length {
        let lasts = random.ms(2_000, 20_000);
        // The largest minority: a quorum stays quick.
        let most = (plan.voters as u64 - 1) / 2;
        for number in 0..random.between(1, most) {
            let factor = *random.pick(&[10, 100, 1000, 100_000]);
            script.at(at, Fault::SlowDisk(Target::Other(number as usize), factor, lasts));
        }
        at += lasts + plan.tick * 30 + random.ms(0, 5_000);
    }
}

/// Files of a running server rot. The server detects the damage itself, and is killed some time
/// later.
pub(super) fn rot_beneath(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = *random.pick(&[0, 1]);
    plan.tick = Duration::from_millis(500);
    plan.think = Duration::from_millis(100);
    plan.snapshot_every = *random.pick(&[10, 50, 1000]);
    plan.length = SECOND * 150;
    let mut at = SECOND * 6;
    while at < plan.length {
        let target = Target::Server(random.below(plan.servers() as u64) as usize);
        script.at(at, Fault::RotBeneath(target, random.next()));
        let soon = at + random.ms(0, 40_000);
        let back = random.ms(20, 3_000);
        let fault = match random.below(3) {
            0 => Fault::Kill(target, random.below(6), back),
            1 => Fault::PowerCut(target, random.below(6), Left::Some(random.next()), back),
            _ => Fault::Kill(Target::Leader, random.below(6), back),
        };
        script.at(soon, fault);
        at += random.ms(5_000, 30_000);
    }
}

/// While all servers are stopped, records rot in every log, different ones at each server. Only
/// together do the members have a complete history, so they must recover together. Meanwhile
/// servers are killed, links fail, and answers are wrong.
pub(super) fn rot_everywhere(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = *random.pick(&[3, 3, 5]);
    plan.observers = *random.pick(&[0, 0, 1]);
    plan.spares = 0;
    plan.credulous = false;
    plan.lies = random.one_in(2);
    plan.tick = Duration::from_millis(500);
    plan.think = Duration::from_millis(100);
    plan.snapshot_every = *random.pick(&[10, 50, 1000, 1000]);
    plan.length = SECOND * 200;
    let mut at = SECOND * 10;
    while at < plan.length {
        script.at(at, Fault::RotEverywhere(random.next(), random.ms(50, 1_000)));
        for _ in 0..random.below(3) {
            let soon = at + random.ms(1_000, 12_000);
            let target = Target::Server(random.below(plan.servers() as u64) as usize);
            let back = random.ms(20, 3_000);
            let fault = match random.below(4) {
                0 => Fault::Kill(target, random.below(6), back),
                1 => Fault::PowerCut(target, random.below(6), Left::Some(random.next()), back),
                2 => Fault::Pause(target, random.ms(100, 5_000)),
                _ => Fault::CutOff(target, Side::Servers, true, random.ms(500, 8_000)),
            };
            script.at(soon, fault);
        }
        at += random.ms(30_000, 60_000);
    }
}
