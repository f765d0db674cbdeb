//! Sessions that move to another server while their requests are still in flight.
//!
//! One direction of a follower's link is cut for a few ticks, or that between an observer and its
//! follower. Meanwhile its clients disconnect and reconnect, at the same server or another one;
//! their last requests are held back until then. In other plans, clients restart the numbers of
//! their requests on each connection, the link is silent for almost as long as the leader permits,
//! or leaders lose requests.

use std::time::Duration;

use zebu_testkit::Random;

use super::{SECOND, Script};
use crate::plan::{Fault, Leads, Plan, Side, Target};

pub(super) fn movers(plan: &mut Plan, random: &mut Random, script: &mut Script) {
    plan.voters = 3;
    plan.observers = 0;
    plan.clients = random.between(4, 6) as usize;
    plan.think = Duration::from_millis(*random.pick(&[50, 100]));
    plan.tick = Duration::from_millis(*random.pick(&[1000, 2000]));
    plan.asks_behind_end = true;
    plan.syncs = 0;
    let mut cut = (plan.tick.mul_f64(1.5), plan.tick.mul_f64(3.5));
    let mut behind = 0;
    match random.below(4) {
        0 => {}
        1 | 2 => {
            (plan.observers, plan.masters) = (2, true);
            behind = plan.voters;
        }
        _ => {
            plan.counts_anew = true;
            plan.tick = Duration::from_millis(3000);
            cut = (Duration::from_millis(10_200), Duration::from_millis(14_500));
        }
    }
    if random.one_in(3) {
        plan.leads = vec![Leads::Loses; plan.members()];
    }
    let mut at = SECOND * 5;
    while at < plan.length {
        let target = if behind > 0 {
            Target::Server(behind + random.below(plan.observers as u64) as usize)
        } else {
            Target::Other(random.below(2) as usize)
        };
        let lasts = random.ms(cut.0.as_millis() as u64, cut.1.as_millis() as u64);
        script.at(at, Fault::CutOff(target, Side::Servers, false, lasts));
        for client in 0..plan.clients {
            // Each client leaves once while a request of it is held back, and perhaps once more.
            for _ in 0..random.between(1, 2) {
                let held = random.ms(50, 300);
                let leaves = at + random.ms(0, lasts.as_millis() as u64 / 2) + held;
                script.at(leaves - held, Fault::ClientHeld(client, held));
                script.at(leaves + Duration::from_millis(2), Fault::ClientLeaves(client));
            }
        }
        at += lasts + random.ms(2_000, 7_000);
    }
}
