//! A shell, the original's or ours, and what of its output the two are to agree on.

use std::process::Command;

use anyhow::Result;

use crate::deps;
use crate::normalise::text;
use crate::run::Program;
use crate::server::{Kind, PATIENCE, java};

/// Whose shell it is.
#[derive(Clone, Copy, Debug)]
pub enum Shell {
    /// `zkCli` of 3.9.5.
    Original,
    /// `zebu shell`.
    Ours,
}

impl Shell {
    /// A shell for the server with this address.
    pub fn command(self, server: &str) -> Command {
        let mut command = match self {
            Self::Original => {
                let mut command = java(Kind::Java395);
                command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
                command.arg("org.apache.zookeeper.ZooKeeperMain");
                command
            }
            Self::Ours => {
                let mut command = Command::new(deps::zebu());
                command.arg("shell");
                command
            }
        };
        command.args(["-server", server]);
        command
    }

    /// Feeds it a script, as [`Program::play`] does: what it prints, and how it ends.
    ///
    /// # Errors
    /// It takes too long.
    pub fn session(self, server: &str, script: &str) -> Result<String> {
        let mut program = Program::start_apart(&mut self.command(server))?;
        program.play(script, PATIENCE)?;
        program.say("quit")?;
        let output = program.finish(PATIENCE)?;
        let (shown, said) = (shown(&output.text), said(&output.errors));
        Ok(format!("{shown}---- stderr\n{said}\n{}\n", output.status))
    }
}

/// What is printed, without what depends on the run. Notifications come when they come, among the lines of the
/// commands: they are put apart. Which znode of a subtree goes first is left to the order in which the server
/// names children.
pub fn shown(output: &str) -> String {
    let output = text(output);
    let (watches, main): (Vec<&str>, Vec<&str>) = output
        .lines()
        .filter(|line| !line.is_empty() && *line != "WATCHER::")
        // The original may have ended before it says so.
        .filter(|line| !line.starts_with("WatchedEvent state:Closed"))
        .partition(|line| line.starts_with("WatchedEvent "));
    let watches = watches.into_iter().map(|line| match line.split_once(" zxid: ") {
        Some((event, _)) if line.contains("type:NodeDeleted") => event,
        _ => line,
    });
    let watches: Vec<&str> = watches.collect();
    format!("{}\n---- watches\n{}\n", main.join("\n"), watches.join("\n"))
}

/// What is said on stderr, where the two are to agree: hints are ours, and the usage of a command whose options
/// exclude each other; the names of Java's classes are the original's. Each has its own list of all commands.
pub fn said(errors: &str) -> String {
    let lines = errors.lines().map(str::trim_end).filter(|line| {
        let ours = line.starts_with("hint: ")
            || line.starts_with("zebu shell -server ")
            || *line == "setquota -n|-b|-N|-B val path"
            || *line == "delquota [-n|-b|-N|-B] path";
        let original = line.starts_with("ZooKeeper -server ")
            || line.starts_with('\t')
            || line.starts_with("KeeperErrorCode = InvalidACL")
            || line.starts_with("org.apache.commons.cli.")
            || line.starts_with("Unrecognized option")
            || line.starts_with("Missing argument");
        !ours && !original && !line.is_empty()
    });
    let lines = lines
        .map(|line| line.replace("Command not found: Command not found ", "Command not found: "));
    lines.collect::<Vec<_>>().join("\n")
}
