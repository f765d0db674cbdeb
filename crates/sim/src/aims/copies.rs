//! Snapshot transfers that take longer than `initLimit`, although they make progress.

use std::time::Duration;

use zebu_testkit::Random;

use super::{SECOND, Script};
use crate::plan::{Fault, Left, Plan, Target};

/// Each step of a snapshot transfer is shorter than `initLimit`, which is ten ticks; the whole
/// transfer is longer. Learners need the transfer one at a time, or so many of them need it that
/// the leader has no quorum without them.
pub(super) fn slow_copies(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = *random.pick(&[0, 1, 2]);
    plan.masters = random.one_in(2);
    plan.tick = Duration::from_millis(500);
    plan.think = Duration::from_millis(200);
    plan.copy_pause = plan.tick * 7;
    plan.always_copy = true;
    plan.length = SECOND * 150;
    let mut at = SECOND * 20;
    while at < plan.length {
        let target = match random.below(4) {
            0 => Target::Leader,
            _ => Target::Server(random.below(plan.servers() as u64) as usize),
        };
        let away = random.ms(100, 4_000);
        let fault = match random.below(6) {
            0 => Fault::PowerCutAll(random.below(8), Left::Some(random.next()), away),
            1 => Fault::Wipe(target, away),
            2 => Fault::Pause(target, plan.tick * random.between(1, 6) as u32),
            _ => Fault::Kill(target, random.below(8), away),
        };
        script.at(at, fault);
        at += random.ms(10_000, 60_000);
    }
}
