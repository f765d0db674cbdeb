//! Third-party clients that write beside ours: kazoo and the original's.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::deps;
use crate::run::Program;
use crate::server::{Kind, PATIENCE, java};

/// Clients in their own processes.
pub struct Outsiders {
    programs: Vec<(&'static str, Program)>,
}

impl Outsiders {
    /// Starts one of each kind and waits until it writes.
    ///
    /// # Errors
    /// A client does not start.
    pub fn start(addresses: &[SocketAddr]) -> Result<Self> {
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let hosts = hosts.join(",");
        let mut kazoo = Command::new(deps::python());
        kazoo.arg(deps::client("kazoo/load.py")).arg(&hosts);
        kazoo.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut original = java(Kind::Java395);
        original.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
        original.arg(deps::client("java-load/Load.java")).arg(&hosts);
        let programs =
            vec![("kazoo", Program::start(&mut kazoo)?), ("java", Program::start(&mut original)?)];
        for (_, program) in &programs {
            program.wait_for(PATIENCE, |text| text.contains("created "))?;
        }
        Ok(Self { programs })
    }

    /// Stops them. Returns the paths of acknowledged creates.
    ///
    /// # Errors
    /// A client lost its session, or reported a failure.
    pub fn finish(self) -> Result<BTreeSet<String>> {
        let mut created = BTreeSet::new();
        for (name, program) in self.programs {
            let output = program.finish(PATIENCE)?;
            let last = output.text.lines().last().unwrap_or_default();
            let told = output.text.lines().filter_map(|line| line.strip_prefix("created "));
            let before = created.len();
            created.extend(told.map(ToOwned::to_owned));
            ensure!(output.status.success() && last == "done", "{name}: {}", end_of(&output.text));
            ensure!(created.len() > before, "{name} was acknowledged nothing");
        }
        Ok(created)
    }

    /// Checks that all of them still run.
    ///
    /// # Errors
    /// A client has ended.
    pub fn go_on(&mut self) -> Result<()> {
        for (name, program) in &mut self.programs {
            let is_there = program.is_running().with_context(|| (*name).to_owned())?;
            ensure!(is_there, "{name} has given up: {}", end_of(&program.text()?));
        }
        Ok(())
    }
}

/// The last lines of its output.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
