//! Workers and clients for masters of `examples` in other languages, and the output of the masters.

use std::cell::RefCell;
use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zebu_client::blocking::Client;
use zebu_client::{Acls, Connector, CreateMode, Retry};
use zebu_interop::run::Program;
use zebu_interop::server::{PATIENCE, Server};

/// Owner of the znodes.
pub const AUTH: &str = "amy:secret";

/// Waits until a master has printed this line.
pub fn says(program: &Program, line: &str) -> Result<()> {
    program.wait_for(PATIENCE, |text| text.lines().any(|found| found == line))
}

/// A worker or a client of the system. It exists as long as its session.
pub struct Member<'a> {
    client: Client,
    story: &'a RefCell<String>,
}

impl<'a> Member<'a> {
    pub fn join(server: &Server, story: &'a RefCell<String>) -> Result<Self> {
        let connector = Connector::new().session_timeout(Duration::from_secs(20));
        let connector = connector.authenticate("digest", AUTH);
        Ok(Self { client: Client::open(connector, &server.connect_string())?, story })
    }

    pub fn create(&self, path: &str, data: &str, mode: CreateMode) -> Result<String> {
        Ok(self.client.create(path, data, mode, &Acls::creator())?.path)
    }

    /// Waits until the server answers; it may have been restarted.
    pub fn is_connected(&self) -> Result<()> {
        let ask = || self.client.asynchronous().exists("/tasks");
        self.client.wait(Retry::default().reads(ask))?;
        Ok(())
    }

    /// Closes its session, which deletes its ephemeral znodes.
    pub fn leave(self) -> Result<()> {
        Ok(self.client.close()?)
    }

    /// MWK-34: first the znode for its tasks, so that a master that sees the worker can assign
    /// tasks to it.
    pub fn work_as(self, name: &str) -> Result<Self> {
        self.create(&format!("/assign/{name}"), "", CreateMode::Persistent)?;
        self.create(&format!("/workers/{name}"), "", CreateMode::Ephemeral)?;
        Ok(self)
    }

    /// A task that waits for a worker: the name of its znode, and the work.
    pub fn submit<'b>(&self, command: &'b str) -> Result<(String, &'b str)> {
        let path = self.create("/tasks/task-", command, CreateMode::PersistentSequential)?;
        writeln!(self.story.borrow_mut(), "{command} is {path}")?;
        Ok((path.trim_start_matches("/tasks/").to_owned(), command))
    }

    /// Waits until exactly these znodes exist, and none below /tasks.
    pub fn is_assigned(&self, worker: &str, tasks: &[(String, &str)]) -> Result<()> {
        let place = format!("/assign/{worker}");
        let start = Instant::now();
        loop {
            // The server may have been restarted.
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

    pub fn is_gone(&self, path: &str) -> Result<()> {
        let start = Instant::now();
        while self.client.exists(path)?.is_some() {
            ensure!(start.elapsed() < PATIENCE, "{path} stays");
            std::thread::sleep(Duration::from_millis(20));
        }
        writeln!(self.story.borrow_mut(), "{path} is gone")?;
        Ok(())
    }
}
