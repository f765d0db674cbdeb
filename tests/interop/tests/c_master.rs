//! The master in C of `examples/c`, in both of its builds, against the original and against our server: its workers
//! come and go, it is killed, and the server is.

mod master_worker;

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use zebu_interop::deps;
use zebu_interop::run::{Program, succeed};
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, PATIENCE, Server};

use crate::master_worker::{AUTH, Member, says};

fn compile(folder: &Path, name: &str, words: &[&str]) -> std::path::PathBuf {
    let program = folder.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program);
    gcc.arg(deps::repository().join("examples/c/master.c")).args(words);
    succeed(&mut gcc, PATIENCE).expect("it compiles");
    program
}

fn start(program: &Path, server: &Server) -> Result<Program> {
    Program::start(Command::new(program).arg(server.connect_string()).env("ZK_AUTH", AUTH))
}

/// MWK-42 to MWK-46, MWK-51.
fn story(program: &Path, server: &mut Server) -> Result<String> {
    let text = std::cell::RefCell::new(String::new());
    let first = start(program, server)?;
    says(&first, "leading")?;
    let second = start(program, server)?;
    says(&second, "standing by")?;
    let client = Member::join(server, &text)?;
    // It waits for a worker.
    let mut all = vec![client.submit("early")?];
    let w1 = Member::join(server, &text)?.work_as("w1")?;
    says(&first, "task-0000000000 goes to w1")?;
    all.push(client.submit("next")?);
    w1.is_assigned("w1", &all)?;
    // What a worker leaves goes to another.
    w1.leave()?;
    says(&first, "w1 is gone")?;
    let w2 = Member::join(server, &text)?.work_as("w2")?;
    w2.is_assigned("w2", &all)?;
    client.is_gone("/assign/w1")?;
    // The server is killed and comes back: everybody goes on.
    server.kill()?;
    server.launch()?;
    client.is_connected()?;
    all.push(client.submit("after the server")?);
    w2.is_assigned("w2", &all)?;
    // The master is killed, and the other one takes over what is there.
    drop(first);
    all.push(client.submit("orphan")?);
    says(&second, "leading")?;
    w2.is_assigned("w2", &all)?;
    Ok(text.into_inner())
}

/// SYS-32.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_master_in_c_with_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "master", &["-DTHREADED", "-lzookeeper_mt", "-lpthread"]);
    let options = Options::default().config("tickTime", 200);
    same("c-master-threads", &options, |server| story(&program, server));
}

/// SYS-32.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_master_in_c_without_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "master", &["-l:libzookeeper_st.so.2"]);
    let options = Options::default().config("tickTime", 200);
    same("c-master-no-threads", &options, |server| story(&program, server));
}
