//! The master-worker system while its processes die.

use std::collections::BTreeSet;

use zebu_client::blocking::Client;
use zebu_client::{Acls, Connector, CreateMode};

use crate::embedded::Server;
use crate::program::{Program, until};

/// A server with short session timeouts.
const QUICK: &[&str] = &["tickTime=200", "maxSessionTimeout=60000"];

struct System {
    server: Server,
}

impl System {
    fn new() -> Self {
        Self { server: Server::start(QUICK) }
    }

    fn run(&self, words: &[&str]) -> Program {
        Program::start("master_worker", &self.server.address().to_string(), words)
    }

    fn master(&self, name: &str) -> Program {
        self.run(&["master", "--name", name])
    }

    fn worker(&self, name: &str) -> Program {
        self.run(&["worker", "--name", name])
    }

    /// Submits without waiting; returns the tasks' names.
    fn submit(&self, commands: &[&str]) -> Vec<String> {
        self.run(&[&["submit", "--no-wait"], commands].concat()).succeed()
    }

    /// Waits for results.
    fn results(&self, tasks: &[String]) -> Vec<String> {
        let words = ["result"].into_iter().chain(tasks.iter().map(String::as_str));
        self.run(&words.collect::<Vec<_>>()).succeed()
    }

    fn client(&self) -> Client {
        let connector = Connector::new().authenticate("digest", "amy:secret");
        Client::open(connector, &self.server.address().to_string()).unwrap()
    }

    fn show(&self) -> String {
        self.run(&["show"]).succeed().join("\n")
    }
}

/// SYS-31, MWK-11, MWK-16, MWK-18, MWK-19, MWK-21, MWK-23, MWK-31, MWK-36, MWK-38, MWK-01, MWK-49
/// to 51: every role, and a task that is submitted before any worker exists.
#[test]
fn tasks_wait_for_a_worker_and_are_executed() {
    let system = System::new();
    assert!(system.show().starts_with("no master\n"));
    let early = system.submit(&["sum 1 2 3"]);
    assert_eq!(early, ["task-0000000000"]);
    let master = system.master("m1");
    master.says("leading in epoch 1");
    assert!(system.show().contains("waiting:\n  task-0000000000: sum 1 2 3"));
    let worker = system.worker("w1");
    assert_eq!(system.results(&early), ["task-0000000000: done: 6"]);
    let lines = system.run(&["submit", "echo hello world", "no such thing"]).succeed();
    assert_eq!(lines[0], "task-0000000001: done: hello world");
    assert!(lines[1].starts_with("task-0000000002: failed: no such command"), "{lines:?}");
    let shown = system.show();
    assert!(shown.starts_with("master: m1 since 20"), "{shown}");
    assert!(shown.contains("workers:\n  w1: Idle\n"), "{shown}");
    // A client does not wait for a task whose result another client has taken.
    let (status, _) = system.run(&["result", "task-0000000001"]).end();
    assert!(!status.success());
    master.stop();
    worker.stop();
}

/// MWK-13, MWK-14, MWK-17, MWK-24, MWK-25, MWK-28, MUL-12, MWK-02, MWK-04: the master dies while it
/// assigns tasks; another one takes over, and no task is lost.
#[test]
fn a_master_dies_and_another_takes_over() {
    let system = System::new();
    let (_w1, _w2) = (system.worker("w1"), system.worker("w2"));
    let first = system.master("m1");
    first.says("leading");
    let second = system.master("m2");
    second.says("standing by for m1");
    let commands: Vec<String> = (0..60).map(|n| format!("sum {n} 1000")).collect();
    let submitting = system.run(
        &["submit", "--no-wait"]
            .into_iter()
            .chain(commands.iter().map(String::as_str))
            .collect::<Vec<_>>(),
    );
    first.says("task-0000000005 goes to");
    first.kill();
    second.says("leading in epoch 2");
    let tasks = submitting.succeed();
    let results = system.results(&tasks);
    let expected: Vec<String> =
        tasks.iter().enumerate().map(|(n, task)| format!("{task}: done: {}", n + 1000)).collect();
    assert_eq!(results, expected);
    // The third candidate takes over without a timeout, because the second one ends cleanly.
    let third = system.master("m3");
    third.says("standing by for m2");
    second.stop();
    third.says("leading in epoch 3");
}

/// MWK-29, SES-18, MWK-05, MWK-30: a worker dies while it executes tasks; its tasks go to another
/// worker.
#[test]
fn a_worker_dies_and_its_tasks_go_to_others() {
    let system = System::new();
    let _master = system.master("m1");
    let dying = system.worker("w1");
    let tasks = system.submit(&["await /go", "await /go", "await /go"]);
    dying.says("task-0000000000 starts");
    dying.kill();
    // There is no worker: the tasks wait, including the assigned ones.
    until("w1 is gone", || !system.show().contains("w1: "));
    let other = system.worker("w2");
    other.says("task-0000000000 starts");
    system.client().create("/go", "", CreateMode::Persistent, &Acls::creator()).unwrap();
    assert_eq!(
        system.results(&tasks),
        tasks.iter().map(|task| format!("{task}: done")).collect::<Vec<_>>()
    );
    until("w1 has no place any more", || !system.show().contains("w1"));
}

/// MWK-20, MWK-35, SES-25, ERR-17, MWK-06: a worker is paused for so long that its session expires.
/// Its task is executed again and has one result; the worker registers again.
#[test]
fn a_worker_that_was_paused_does_no_harm() {
    let system = System::new();
    let master = system.master("m1");
    let slow = system.worker("w1");
    slow.says("is ready");
    let tasks = system.submit(&["await /go"]);
    slow.says("task-0000000000 starts");
    slow.pause();
    let other = system.worker("w2");
    other.says("is ready");
    master.says("task-0000000000 moves from w1 to w2");
    other.says("task-0000000000 starts");
    system.client().create("/go", "", CreateMode::Persistent, &Acls::creator()).unwrap();
    assert_eq!(system.results(&tasks), ["task-0000000000: done"]);
    let before = slow.count();
    slow.go_on();
    slow.says_after(before, "session over");
    slow.says_after(before, "w1 is ready");
    assert!(!slow.lines().iter().any(|line| line.contains("is finished")), "{:?}", slow.lines());
    // The worker works again.
    other.kill();
    let lines = system.run(&["submit", "echo again"]).succeed();
    assert_eq!(lines, ["task-0000000001: done: again"]);
}

/// MUL-11, MWK-40, SES-25, MWK-41, RCP-17: a master is paused, another one takes over, and the
/// first one continues: it steps down.
#[test]
fn a_master_that_was_paused_steps_down() {
    let system = System::new();
    let _worker = system.worker("w1");
    let first = system.master("m1");
    first.says("leading in epoch 1");
    let second = system.master("m2");
    second.says("standing by");
    first.pause();
    second.says("leading in epoch 2");
    let tasks = system.submit(&["echo one", "echo two"]);
    let before = first.count();
    first.go_on();
    first.says_after(before, "standing by for m2");
    assert_eq!(system.results(&tasks).len(), 2);
    assert!(!first.lines()[before..].iter().any(|line| line.contains("goes to")));
    // Then it takes over again.
    second.kill();
    first.says_after(before, "leading in epoch 3");
    assert_eq!(system.run(&["submit", "echo three"]).succeed(), ["task-0000000002: done: three"]);
}

/// SYS-31, MWK-12 to MWK-16: the master over the blocking client and the other master take turns.
/// It takes over the existing tasks, survives a restart of the server, and ends cleanly.
#[test]
fn a_master_without_a_runtime_takes_turns() {
    let mut system = System::new();
    let address = system.server.address().to_string();
    let blocking = |name| Program::start("blocking_master", &address, &["--name", name]);
    let first = system.master("m1");
    first.says("leading in epoch 1");
    let second = blocking("m2");
    second.says("standing by for m1");
    let early = system.submit(&["echo early"]);
    first.kill();
    second.says("leading in epoch 2");
    let worker = system.worker("w1");
    second.says("task-0000000000 goes to w1");
    let third = blocking("m3");
    third.says("standing by for m2");
    assert_eq!(system.results(&early), ["task-0000000000: done: early"]);
    // The tasks of a worker that is gone go to another worker.
    let tasks = system.submit(&["await /go"]);
    second.says("task-0000000001 goes to w1");
    worker.kill();
    let _other = system.worker("w2");
    second.says("task-0000000001 moves from w1 to w2");
    second.says("w1 is discharged");
    let before = second.count();
    system.server.stop();
    second.says("suspended");
    system.server.launch(QUICK);
    second.says_after(before, "leading in epoch 2");
    system.client().create("/go", "", CreateMode::Persistent, &Acls::creator()).unwrap();
    assert_eq!(system.results(&tasks), ["task-0000000001: done"]);
    second.stop();
    third.says("leading in epoch 3");
}

/// MWK-26, MWK-27, MWK-52: an operator deletes the master's znode: the master notices it, and one
/// candidate is elected.
#[test]
fn a_master_whose_znode_was_deleted_runs_again() {
    let system = System::new();
    let master = system.master("m1");
    master.says("leading in epoch 1");
    system.client().delete("/master-worker/master", zebu_client::Version::ANY).unwrap();
    master.says("leading no longer");
    master.says("leading in epoch 2");
}

/// MWK-37, MWK-38, MWK-03: a task outlives its client, and any client can read its result by name.
#[test]
fn a_task_outlives_its_client() {
    let system = System::new();
    let _master = system.master("m1");
    let client = system.run(&["submit", "await /go"]);
    let worker = system.worker("w1");
    worker.says("task-0000000000 starts");
    client.kill();
    system.client().create("/go", "", CreateMode::Persistent, &Acls::creator()).unwrap();
    assert_eq!(system.results(&["task-0000000000".into()]), ["task-0000000000: done"]);
}

/// MWK-39: the servers are away for a while; all programs wait, keep their sessions, and continue.
#[test]
fn everybody_survives_a_restart_of_the_server() {
    let mut system = System::new();
    let master = system.master("m1");
    let worker = system.worker("w1");
    worker.says("is ready");
    let tasks = system.submit(&["await /go", "echo later"]);
    worker.says("starts");
    system.server.stop();
    master.says("suspended");
    system.server.launch(QUICK);
    system.client().create("/go", "", CreateMode::Persistent, &Acls::creator()).unwrap();
    assert_eq!(system.results(&tasks), ["task-0000000000: done", "task-0000000001: done: later"]);
}

/// MWK-22, MWK-32, MWK-33: a task is in one place at a time, whichever process is killed. The test
/// kills all processes repeatedly while tasks are submitted; each task has one result in the end.
#[test]
fn nothing_is_lost_when_everybody_is_killed_again_and_again() {
    let system = System::new();
    let mut masters = vec![system.master("m0"), system.master("m1")];
    let mut workers = vec![system.worker("w0"), system.worker("w1")];
    let mut tasks = Vec::new();
    for round in 2..5 {
        let commands: Vec<String> = (0..10).map(|n| format!("echo {round}-{n}")).collect();
        tasks.extend(system.submit(&commands.iter().map(String::as_str).collect::<Vec<_>>()));
        masters.remove(0).kill();
        workers.remove(0).kill();
        masters.push(system.master(&format!("m{round}")));
        workers.push(system.worker(&format!("w{round}")));
    }
    let results = system.results(&tasks);
    let echoed: BTreeSet<&str> =
        results.iter().map(|line| line.rsplit_once(": ").unwrap().1).collect();
    assert_eq!((results.len(), echoed.len()), (30, 30));
    let (left, _) = system.client().get_children("/master-worker/status").unwrap();
    assert_eq!(left, [""; 0]);
}
