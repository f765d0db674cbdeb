//! The programs on ensembles of our servers and of the original's, whose leaders die.

use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::server::Kind;

use crate::program::Program;

/// MWK-39, ORD-13: servers die, among them the leader, and programs die, too. No task is lost or
/// has two results, and no number is given to two programs.
fn programs_survive_the_death_of_a_leader(kind: Kind) {
    let mut ensemble = Ensemble::start(&[kind; 3], &options()).unwrap();
    let addresses: Vec<String> = ensemble.addresses().iter().map(ToString::to_string).collect();
    let servers = addresses.join(",");
    let run = |words: &[&str]| Program::start("master_worker", &servers, words);
    let first = run(&["master", "--name", "m1"]);
    first.says("leading in epoch 1");
    let second = run(&["master", "--name", "m2"]);
    second.says("standing by for m1");
    let _workers = [run(&["worker", "--name", "w1"]), run(&["worker", "--name", "w2"])];
    let submit = |round: &str| {
        let commands: Vec<String> = (0..10).map(|n| format!("echo {round}-{n}")).collect();
        let words = ["submit", "--no-wait"].into_iter().chain(commands.iter().map(String::as_str));
        run(&words.collect::<Vec<_>>())
    };
    let one = submit("one");
    let ids: Vec<Program> =
        (0..2).map(|_| Program::start("ids", &servers, &["--count", "300"])).collect();
    ids[0].says("20");
    let leader = ensemble.leader(None).unwrap();
    ensemble.member(leader).kill().unwrap();
    let two = submit("two");
    let tasks = [one.succeed(), two.succeed()].concat();
    ensemble.leader(Some(leader)).unwrap();
    first.kill();
    second.says("leading in epoch 2");
    let words = ["result"].into_iter().chain(tasks.iter().map(String::as_str));
    let results = run(&words.collect::<Vec<_>>()).succeed();
    let mut echoed: Vec<&str> =
        results.iter().map(|line| line.rsplit_once(' ').unwrap().1).collect();
    echoed.sort_unstable();
    echoed.dedup();
    assert_eq!((results.len(), echoed.len()), (20, 20), "{results:#?}");
    let mut numbers: Vec<String> = ids.into_iter().flat_map(Program::succeed).collect();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 600);
    // The dead server returns, and another leader dies.
    ensemble.member(leader).launch().unwrap();
    let next = ensemble.leader(None).unwrap();
    ensemble.member(next).kill().unwrap();
    let lines = run(&["submit", "echo after all"]).succeed();
    assert!(lines[0].ends_with(": done: after all"), "{lines:?}");
}

/// SES-16, ERR-22, WAT-27.
#[test]
fn programs_survive_the_death_of_our_leader() {
    programs_survive_the_death_of_a_leader(Kind::Zebu);
}

#[test]
#[ignore = "needs the original server: cargo xtask interop"]
fn programs_survive_the_death_of_the_originals_leader() {
    programs_survive_the_death_of_a_leader(Kind::Java395);
}
