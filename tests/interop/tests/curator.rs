//! The masters of `examples/curator`, against the original and against Zebu. Workers come and go,
//! masters are killed and paused, tasks are where a careless master left them, and the server is
//! restarted. Also Curator's own recipes.

mod master_worker;

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use zebu_client::CreateMode;
use zebu_interop::deps;
use zebu_interop::run::{Program, succeed};
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, PATIENCE, Server, java_with};

use crate::master_worker::{AUTH, Member, says};

const SELECTOR: &str = "CuratorMaster";
const LATCH: &str = "CuratorMasterLatch";

/// Maximum time until another master has replaced a killed one.
const SHORT_MS: u32 = 10_000;
/// Longer than the start of a server.
const LONG_MS: u32 = 20_000;

/// Compiles all programs below a folder of the repository.
fn compile(sources: &str) -> tempfile::TempDir {
    let classes = tempfile::tempdir().expect("a folder");
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all,-classfile", "-Werror", "-cp", &deps::classpath_curator(), "-d"]);
    javac.arg(classes.path());
    for entry in fs::read_dir(deps::repository().join(sources)).expect("sources") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "java") {
            javac.arg(path);
        }
    }
    succeed(&mut javac, PATIENCE).expect("it compiles");
    classes
}

fn start(classes: &Path, class: &str, server: &Server, session_ms: u32) -> Result<Program> {
    let classpath = format!("{}:{}", classes.display(), deps::classpath_curator());
    let mut java = java_with(&classpath);
    java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", class, &server.connect_string()]);
    Program::start(java.arg(session_ms.to_string()).env("ZK_AUTH", AUTH))
}

/// The line of a program's output with this text.
fn line(text: &str, wanted: &str) -> Result<usize> {
    text.lines().position(|line| line == wanted).with_context(|| format!("{wanted}?\n{text}"))
}

/// MWK-41, MWK-46 to MWK-51.
fn deaths(classes: &Path, class: &str, server: &Server) -> Result<String> {
    let text = RefCell::new(String::new());
    let first = start(classes, class, server, SHORT_MS)?;
    says(&first, "leading")?;
    says(&first, "new tasks from now on")?;
    let second = start(classes, class, server, SHORT_MS)?;
    says(&second, "in line")?;
    let client = Member::join(server, &text)?;
    // The task waits for a worker.
    let mut all = vec![client.submit("early")?];
    let w1 = Member::join(server, &text)?.work_as("w1")?;
    says(&first, &format!("{} goes to w1", all[0].0))?;
    all.push(client.submit("next")?);
    w1.is_assigned("w1", &all)?;
    // The tasks of a lost worker go to another one.
    w1.leave()?;
    let w2 = Member::join(server, &text)?.work_as("w2")?;
    w2.is_assigned("w2", &all)?;
    client.is_gone("/assign/w1")?;
    // The master is killed, with three unassigned tasks.
    w2.leave()?;
    client.is_gone("/assign/w2")?;
    all.push(client.submit("orphan")?);
    ensure!(!second.text()?.contains("leading"), "{}", second.text()?);
    drop(first);
    says(&second, "leading")?;
    says(&second, "3 left from before")?;
    all.push(client.submit("new")?);
    let w3 = Member::join(server, &text)?.work_as("w3")?;
    w3.is_assigned("w3", &all)?;
    // The tasks submitted before, however long they took.
    let goes = |task: &(String, &str)| format!("{} goes to w3", task.0);
    says(&second, &goes(&all[3]))?;
    let said = second.text()?;
    let barrier = line(&said, "new tasks from now on")?;
    for task in &all[..3] {
        ensure!(line(&said, &goes(task))? < barrier, "{said}");
    }
    ensure!(barrier < line(&said, &goes(&all[3]))?, "{said}");
    // While there is no master, a worker dies, and tasks exist in two places, one of them done.
    second.terminate()?;
    second.finish(PATIENCE)?;
    let put = |path: &str, data: &str| client.create(path, data, CreateMode::Persistent);
    let w4 = Member::join(server, &text)?.work_as("w4")?;
    for path in ["/assign/w3/half", "/tasks/half", "/assign/w4/left", "/tasks/left"] {
        put(path, "whole")?;
    }
    put("/assign/w4/unseen", "whole")?;
    put("/status/over", "done")?;
    put("/tasks/over", "whole")?;
    w4.leave()?;
    let third = start(classes, class, server, SHORT_MS)?;
    says(&third, "2 left from before")?;
    let mut whole: Vec<_> = ["half", "left"].map(|name| (name.to_owned(), "whole")).into();
    whole.append(&mut all);
    whole.push(("unseen".to_owned(), "whole"));
    w3.is_assigned("w3", &whole)?;
    client.is_gone("/assign/w4")?;
    // The same while the master runs.
    put("/tasks/half", "whole")?;
    client.is_gone("/tasks/half")?;
    // A worker without a znode for its tasks gets one.
    w3.leave()?;
    let w5 = Member::join(server, &text)?;
    w5.create("/workers/w5", "", CreateMode::Ephemeral)?;
    client.is_gone("/assign/w3")?;
    w5.is_assigned("w5", &whole)?;
    Ok(text.into_inner())
}

fn masters_die(class: &str) {
    let classes = compile("examples/curator");
    let options = Options::default().config("tickTime", 500);
    same(class, &options, |server| deaths(classes.path(), class, server));
}

/// SYS-33.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn masters_with_a_selector_die() {
    masters_die(SELECTOR);
}

/// SYS-33.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn masters_with_a_latch_die() {
    masters_die(LATCH);
}

/// A master is paused, and another one takes over. The server is killed and restarted.
fn pauses(classes: &Path, class: &str, server: &mut Server) -> Result<String> {
    let text = RefCell::new(String::new());
    let first = start(classes, class, server, SHORT_MS)?;
    says(&first, "new tasks from now on")?;
    let second = start(classes, class, server, LONG_MS)?;
    says(&second, "in line")?;
    first.pause()?;
    says(&second, "new tasks from now on")?;
    first.go_on()?;
    if class == SELECTOR {
        says(&first, "session over")?;
        let output = first.finish(PATIENCE)?;
        ensure!(output.status.success(), "{output:?}");
    } else {
        says(&first, "leading no more")?;
        drop(first);
    }
    let client = Member::join(server, &text)?;
    let w1 = Member::join(server, &text)?.work_as("w1")?;
    let mut all = vec![client.submit("before")?];
    w1.is_assigned("w1", &all)?;
    server.kill()?;
    let suspended = if class == SELECTOR { "suspended" } else { "leading no more" };
    says(&second, suspended)?;
    server.launch()?;
    client.is_connected()?;
    all.push(client.submit("after")?);
    w1.is_assigned("w1", &all)?;
    Ok(text.into_inner())
}

fn masters_pause(class: &str) {
    let classes = compile("examples/curator");
    let options = Options::default().config("tickTime", 1000);
    same(&format!("{class}-pauses"), &options, |server| pauses(classes.path(), class, server));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn masters_with_a_selector_stand_still() {
    masters_pause(SELECTOR);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn masters_with_a_latch_stand_still() {
    masters_pause(LATCH);
}

/// The program checks itself, and its output is compared, too.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn recipes_of_curator() {
    let classes = compile("tests/interop/clients/curator");
    same("curator-recipes", &Options::default(), |server| {
        let classpath = format!("{}:{}", classes.path().display(), deps::classpath_curator());
        let mut java = java_with(&classpath);
        java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "Recipes"]);
        succeed(java.arg(server.connect_string()), PATIENCE)
    });
}
