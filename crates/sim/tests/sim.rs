//! A bounded number of runs, the same each time; `cargo xtask sim` does more of them.

use std::time::Duration;

use zebu_sim::World;
use zebu_sim::plan::{Fault, Left, Plan, Planned, Target, When};
use zebu_sim::run::run;

#[test]
fn a_healthy_ensemble_serves_its_clients() {
    let outcome = World::new(Plan::calm(7)).run();
    assert_eq!(outcome.broken, [] as [&str; 0]);
    assert_eq!(outcome.leaders, 1);
    assert!(outcome.committed > 50, "{outcome:?}");
    assert!(outcome.answered > outcome.committed, "{outcome:?}");
    assert!(outcome.notified > 10, "{outcome:?}");
    // Each server logs each transaction, makes it durable and delivers it.
    assert!(outcome.model_actions > outcome.committed * 3 * 3, "{outcome:?}");
}

#[test]
fn watches_at_an_observer_are_told() {
    let mut plan = Plan { observers: 1, ..Plan::calm(11) };
    let (observer, servers) = (plan.voters, plan.servers());
    let parties = servers..servers + plan.clients + plan.sessions;
    let ways =
        parties.flat_map(|party| (0..observer).flat_map(move |to| [(party, to), (to, party)]));
    let fault = Fault::Cut(ways.collect(), plan.length);
    plan.faults.push(Planned { at: Duration::ZERO, fault });
    let outcome = World::new(plan).run();
    assert_eq!(outcome.broken, [] as [&str; 0]);
    assert!(outcome.notified > 10, "{outcome:?}");
}

/// A follower tells an observer the epoch, and its power fails while the observer saves the epoch.
/// When the observer answers, the follower has started again, and follows nobody yet. The model
/// looked for the leadership only then.
#[test]
fn an_observer_joins_the_leadership_that_its_master_told_it() {
    let second = Duration::from_secs(1);
    for seed in 1..6 {
        let calm = Plan::calm(seed);
        let mut plan = Plan { observers: 1, masters: true, length: second * 60, ..calm };
        let observer = plan.voters;
        let ways = (0..observer).flat_map(|voter| [(observer, voter), (voter, observer)]);
        let power_cut = Fault::PowerCut(Target::Here, 0, Left::All, Duration::from_millis(10));
        let faults = [
            (10, Fault::Cut(ways.collect(), second * 30)),
            // The observer has not saved the epoch of the next leader.
            (12, Fault::Kill(Target::Leader, 0, second)),
            // The follower starts quickly, and needs a while to follow again.
            (30, Fault::SlowNetwork(50, second * 25)),
            (30, Fault::Ambush(When::LeaderInfo, 0, Box::new(power_cut))),
        ];
        plan.faults.extend(faults.map(|(at, fault)| Planned { at: second * at, fault }));
        let outcome = World::new(plan).run();
        assert_eq!(outcome.broken, [] as [&str; 0], "seed {seed}");
        assert_eq!(outcome.faults["power cut"], 1, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn quotas_refuse_what_is_above_a_hard_limit() {
    let length = Duration::from_secs(120);
    let outcome = World::new(Plan { quotas: true, length, ..Plan::calm(12) }).run();
    assert_eq!(outcome.broken, [] as [&str; 0]);
    assert!(outcome.reached["write refused by a quota"] > 5, "{outcome:?}");
    assert!(outcome.committed > 50, "{outcome:?}");
}

#[test]
fn of_nested_quotas_the_deepest_one_refuses() {
    let length = Duration::from_secs(400);
    let plan = Plan { quotas: true, nested_quotas: true, length, ..Plan::calm(12) };
    let outcome = World::new(plan).run();
    assert_eq!(outcome.broken, [] as [&str; 0]);
    assert!(outcome.reached["write refused below two quotas"] > 2, "{outcome:?}");
}

#[test]
fn the_same_seed_does_the_same_twice() {
    for seed in 0..5 {
        let plan = Plan { length: Duration::from_secs(60), ..Plan::new(seed) };
        let (first, second) = (run(&plan), run(&plan));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.committed, second.committed, "seed {seed}");
        let other = run(&Plan { seed: seed + 1000, ..plan });
        assert_ne!(first.trace, other.trace, "seed {seed}");
    }
}

#[test]
fn whatever_fails_nothing_is_lost_and_everything_comes_to_rest() {
    let seeds = std::env::var("ZEBU_SEEDS").map_or(150, |seeds| seeds.parse().expect("a number"));
    let mut faults = 0;
    for seed in 0..seeds {
        let outcome = run(&Plan::new(seed));
        assert_eq!(outcome.broken, [] as [&str; 0], "seed {seed}");
        faults += outcome.faults.values().sum::<u64>();
    }
    assert!(faults > seeds * 20, "only {faults} faults in {seeds} seeds");
}
