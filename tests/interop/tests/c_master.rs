//! The master in C of `examples/c`, in both builds, against the original and against Zebu, while
//! workers come and go and the master and the server are killed.

mod master_worker;

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use zebu_interop::deps;
use zebu_interop::run::{Program, succeed};
use zebu_interop::scenario::same;
use zebu_interop::server::{Kind, Options, PATIENCE, Server};

use crate::master_worker::{AUTH, Member, says};

fn compile(folder: &Path, name: &str, words: &[&str]) -> std::path::PathBuf {
    let program = folder.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program);
    gcc.arg(deps::repository().join("examples/c/master.c")).args(words);
    succeed(&mut gcc, PATIENCE).expect("it compiles");
    program
}

const THREADS: [&str; 3] = ["-DTHREADED", "-lzookeeper_mt", "-lpthread"];
const NO_THREADS: [&str; 1] = ["-l:libzookeeper_st.so.2"];

/// A program, and the folder in which it finds the C library.
#[derive(Clone, Copy)]
struct Master<'a> {
    program: &'a Path,
    libraries: Option<&'a Path>,
}

fn start(master: Master<'_>, server: &Server) -> Result<Program> {
    let mut command = Command::new(master.program);
    if let Some(folder) = master.libraries {
        command.env("LD_LIBRARY_PATH", folder);
    }
    Program::start(command.arg(server.connect_string()).env("ZK_AUTH", AUTH))
}

/// MWK-42 to MWK-46, MWK-51.
fn story(master: Master<'_>, server: &mut Server) -> Result<String> {
    let text = std::cell::RefCell::new(String::new());
    let first = start(master, server)?;
    says(&first, "leading")?;
    let second = start(master, server)?;
    says(&second, "standing by")?;
    let client = Member::join(server, &text)?;
    // The task waits for a worker.
    let mut all = vec![client.submit("early")?];
    let w1 = Member::join(server, &text)?.work_as("w1")?;
    says(&first, "task-0000000000 goes to w1")?;
    all.push(client.submit("next")?);
    w1.is_assigned("w1", &all)?;
    // The tasks of a lost worker go to another one.
    w1.leave()?;
    says(&first, "w1 is gone")?;
    let w2 = Member::join(server, &text)?.work_as("w2")?;
    w2.is_assigned("w2", &all)?;
    client.is_gone("/assign/w1")?;
    // The server is killed and restarted, and all processes continue.
    server.kill()?;
    server.launch()?;
    client.is_connected()?;
    all.push(client.submit("after the server")?);
    w2.is_assigned("w2", &all)?;
    // The master is killed, and the second one takes over the existing tasks.
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
    let program = compile(folder.path(), "master", &THREADS);
    let options = Options::default().config("tickTime", 200);
    same("c-master-threads", &options, |server| {
        story(Master { program: &program, libraries: None }, server)
    });
}

/// SYS-32.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_master_in_c_without_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "master", &NO_THREADS);
    let options = Options::default().config("tickTime", 200);
    same("c-master-no-threads", &options, |server| {
        story(Master { program: &program, libraries: None }, server)
    });
}

/// The same programs, unchanged, with Zebu's libraries.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_master_in_c_over_our_libraries() {
    let folder = tempfile::tempdir().expect("a folder");
    let libraries = deps::our_libraries().join("lib");
    for (name, words) in [("threads", &THREADS[..]), ("no threads", &NO_THREADS)] {
        let program = compile(folder.path(), "master", words);
        let options = Options::default().config("tickTime", 200);
        let mut server = Server::start(Kind::Zebu, &options).expect("a server");
        let master = Master { program: &program, libraries: Some(&libraries) };
        story(master, &mut server).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
}
