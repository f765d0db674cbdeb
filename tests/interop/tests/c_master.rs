//! The master in C of `examples/c`, in both of its builds, against the original and against our server: its workers
//! come and go, it is killed, and the server is.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zebu_client::blocking::Client;
use zebu_client::{Acls, Connector, CreateMode, Retry};
use zebu_interop::deps;
use zebu_interop::run::{Program, succeed};
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, PATIENCE, Server};

const AUTH: &str = "amy:secret";

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

fn says(program: &Program, line: &str) -> Result<()> {
    program.wait_for(PATIENCE, |text| text.lines().any(|found| found == line))
}

/// A worker, or a client of the system, as long as its session.
struct Member<'a> {
    client: Client,
    story: &'a std::cell::RefCell<String>,
}

impl<'a> Member<'a> {
    fn join(server: &Server, story: &'a std::cell::RefCell<String>) -> Result<Self> {
        let connector = Connector::new().session_timeout(Duration::from_secs(20));
        let connector = connector.authenticate("digest", AUTH);
        Ok(Self { client: Client::open(connector, &server.connect_string())?, story })
    }

    fn create(&self, path: &str, data: &str, mode: CreateMode) -> Result<String> {
        Ok(self.client.create(path, data, mode, &Acls::creator())?.path)
    }

    /// MWK-34: its place first, so that whoever sees it may assign to it.
    fn work_as(self, name: &str) -> Result<Self> {
        self.create(&format!("/assign/{name}"), "", CreateMode::Persistent)?;
        self.create(&format!("/workers/{name}"), "", CreateMode::Ephemeral)?;
        Ok(self)
    }

    /// A task that waits for a worker, as the znode's name and what is to be done.
    fn submit<'b>(&self, command: &'b str) -> Result<(String, &'b str)> {
        let path = self.create("/tasks/task-", command, CreateMode::PersistentSequential)?;
        writeln!(self.story.borrow_mut(), "{command} is {path}")?;
        Ok((path.trim_start_matches("/tasks/").to_owned(), command))
    }

    /// Waits until exactly this is there, and nothing below /tasks.
    fn is_assigned(&self, worker: &str, tasks: &[(String, &str)]) -> Result<()> {
        let place = format!("/assign/{worker}");
        let start = Instant::now();
        loop {
            // The server may have been away.
            let read = || async {
                let client = self.client.asynchronous();
                let (names, waiting) = (client.get_children(&place), client.get_children("/tasks"));
                Ok((names.await?.0, waiting.await?.0))
            };
            let (mut names, waiting) = self.client.wait(Retry::default().reads(read))?;
            names.sort();
            if waiting.is_empty() && names.iter().eq(tasks.iter().map(|(name, _)| name)) {
                break;
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "never: {tasks:?} at {worker}, but {names:?}, {waiting:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        for (name, command) in tasks {
            let (data, _) = self.client.get_data(&format!("{place}/{name}"))?;
            ensure!(data == *command, "{name} is {data:?}");
            writeln!(self.story.borrow_mut(), "{worker} has {name}: {command}")?;
        }
        Ok(())
    }

    fn is_gone(&self, path: &str) -> Result<()> {
        let start = Instant::now();
        while self.client.exists(path)?.is_some() {
            ensure!(start.elapsed() < PATIENCE, "{path} stays");
            std::thread::sleep(Duration::from_millis(20));
        }
        writeln!(self.story.borrow_mut(), "{path} is gone")?;
        Ok(())
    }
}

/// MWK-42 to MWK-46, MWK-51.
fn story(program: &Path, server: &mut Server, restarts: bool) -> Result<String> {
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
    w1.client.close()?;
    says(&first, "w1 is gone")?;
    let w2 = Member::join(server, &text)?.work_as("w2")?;
    w2.is_assigned("w2", &all)?;
    client.is_gone("/assign/w1")?;
    // The server is killed and comes back: everybody goes on, with threads. Without them, the C client of 3.8.0
    // sometimes sends no pings on its next connection with the original.
    if restarts {
        server.kill()?;
        server.launch()?;
        let is_there = || client.client.asynchronous().exists("/tasks");
        client.client.wait(Retry::default().reads(is_there))?;
    }
    all.push(client.submit("after the server")?);
    w2.is_assigned("w2", &all)?;
    // The master is killed, and the other one takes over what is there.
    drop(first);
    all.push(client.submit("orphan")?);
    says(&second, "leading")?;
    w2.is_assigned("w2", &all)?;
    Ok(text.into_inner())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_master_in_c_with_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "master", &["-DTHREADED", "-lzookeeper_mt", "-lpthread"]);
    let options = Options::default().config("tickTime", 200);
    same("c-master-threads", &options, |server| story(&program, server, true));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_master_in_c_without_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "master", &["-l:libzookeeper_st.so.2"]);
    let options = Options::default().config("tickTime", 200);
    same("c-master-no-threads", &options, |server| story(&program, server, false));
}
