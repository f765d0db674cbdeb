//! Ensembles of peers over a small network and disks that fail: safety while there are faults, then
//! convergence after the last fault.

#![expect(clippy::disallowed_methods, reason = "variables select the seeds")]

mod disk;
mod world;

use world::{Faults, World};

#[test]
fn three_servers_elect_a_leader_and_agree() {
    for seed in 0..5 {
        let mut world = World::new(seed, 3, 0, Faults::none());
        world.run_until_serving();
        world.propose_everywhere(20);
        world.settle();
        assert_eq!(world.committed(), 20, "seed {seed}");
    }
}

#[test]
fn one_server_is_an_ensemble() {
    let mut world = World::new(1, 1, 0, Faults::none());
    world.run_until_serving();
    world.propose_everywhere(5);
    world.settle();
    assert_eq!(world.committed(), 5);
}

#[test]
fn observers_learn_everything() {
    let mut world = World::new(3, 3, 2, Faults::none());
    world.run_until_serving();
    world.propose_everywhere(50);
    world.settle();
    assert_eq!(world.committed(), 50);
}

#[test]
fn nothing_committed_is_lost_whatever_fails() {
    let seeds = std::env::var("ZEBU_SEEDS").map_or(60, |seeds| seeds.parse().expect("a number"));
    let first = std::env::var("ZEBU_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let mut committed = 0;
    for seed in first..first + seeds {
        let voters = [3, 3, 5][seed as usize % 3];
        let observers = (seed / 3) as usize % 2;
        let mut world = World::new(seed, voters, observers, Faults::all());
        world.run(300);
        world.settle();
        committed += world.committed();
    }
    assert!(committed > 5 * seeds as usize, "only {committed} transactions in {seeds} seeds");
}

#[test]
fn members_come_and_go() {
    let mut changes = 0;
    for seed in 0..10 {
        let mut world = World::with_spares(seed, 1 + seed as usize % 3, 1, 2, Faults::none());
        world.run(60);
        world.settle();
        changes += world.changes();
    }
    assert!(changes > 30, "only {changes} changes");
}

#[test]
fn nothing_committed_is_lost_whatever_fails_while_members_come_and_go() {
    let seeds = std::env::var("ZEBU_SEEDS").map_or(60, |seeds| seeds.parse().expect("a number"));
    let first = std::env::var("ZEBU_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let mut changes = 0;
    for seed in first..first + seeds {
        let voters = [3, 2, 4][seed as usize % 3];
        let observers = (seed / 3) as usize % 2;
        let mut world = World::with_spares(seed, voters, observers, 2, Faults::all());
        world.run(300);
        world.settle();
        changes += world.changes();
    }
    assert!(changes > 3 * seeds as usize, "only {changes} changes in {seeds} seeds");
}
