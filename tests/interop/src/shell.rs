//! A shell, the original's or Zebu's, and the part of its output that both must agree on.

use std::process::Command;

use anyhow::Result;

use crate::deps;
use crate::normalise::text;
use crate::run::Program;
use crate::server::{Kind, PATIENCE, java};

/// The line in which a shell reports its connection.
pub const CONNECTED: &str = "WatchedEvent state:SyncConnected type:None path:null zxid: -1";

/// The kind of shell.
#[derive(Clone, Copy, Debug)]
pub enum Shell {
    /// `zkCli` of 3.9.5.
    Original,
    /// `zebu shell`.
    Ours,
}

impl Shell {
    /// Starts a shell connected to this address.
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

    /// Feeds it a script, as [`Program::play`] does. Returns its output and exit status.
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

/// The output without parts that depend on the run. Notifications appear at any place among the
/// lines of the commands, so they are collected separately. The order in which a subtree is deleted
/// depends on the server's order of children.
pub fn shown(output: &str) -> String {
    let output = text(output);
    let (watches, main): (Vec<&str>, Vec<&str>) = output
        .lines()
        .filter(|line| !line.is_empty() && *line != "WATCHER::")
        // The original may end before it prints this.
        .filter(|line| !line.starts_with("WatchedEvent state:Closed"))
        .partition(|line| line.starts_with("WatchedEvent "));
    let watches = watches.into_iter().map(|line| match line.split_once(" zxid: ") {
        Some((event, _)) if line.contains("type:NodeDeleted") => event,
        _ => line,
    });
    let watches: Vec<&str> = watches.collect();
    format!("{}\n---- watches\n{}\n", main.join("\n"), watches.join("\n"))
}

/// The output on stderr as far as both must agree. Removed are Zebu's hints, the usage of commands
/// with mutually exclusive options, the original's class names, and each shell's list of all
/// commands.
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

/// The lines of one command of the original's command line, sorted.
///
/// A thread of its own prints that the client is connected: before or after the answer, or not at
/// all if the program ends first. So these lines are left out.
pub fn lines_in_any_order(output: &str) -> String {
    let is_kept = |line: &&str| {
        !line.is_empty() && *line != "WATCHER::" && !line.contains("state:SyncConnected")
    };
    let mut lines: Vec<&str> = output.lines().filter(is_kept).collect();
    lines.sort_unstable();
    lines.join("\n")
}
