//! The original's command line, from Debian and from Maven Central.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use zebu_interop::deps;
use zebu_interop::normalise::text;
use zebu_interop::run::{Program, run};
use zebu_interop::scenario::same;
use zebu_interop::server::{Kind, Options, PATIENCE, Server, java};
use zebu_interop::shell::CONNECTED;

fn options() -> Options {
    Options::default().config("extendedTypesEnabled", true).config("reconfigEnabled", true)
}

fn script(name: &str) -> String {
    fs::read_to_string(deps::client("java-cli").join(name)).expect("a script")
}

fn cli(version: Kind, server: &Server) -> std::process::Command {
    let mut command = java(version);
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
    command.args(["org.apache.zookeeper.ZooKeeperMain", "-server", &server.connect_string()]);
    command
}

/// A separate thread prints notifications line by line among the output of commands. So this
/// separates notifications from the output and keeps their order. Blank lines are dropped, because
/// a notification contains two.
fn apart(output: &str) -> String {
    let (watches, main): (Vec<&str>, Vec<&str>) = output
        .lines()
        .filter(|line| !line.is_empty() && *line != "WATCHER::")
        .partition(|line| line.starts_with("WatchedEvent "));
    format!("{}\n---- watches\n{}\n", main.join("\n"), watches.join("\n"))
}

/// Feeds a script to the command line and returns its output.
///
/// A line `# await 15` waits until that many events were printed.
fn session(version: Kind, server: &Server, script: &str) -> Result<String> {
    let mut program = Program::start(&mut cli(version, server))?;
    program.play(script, PATIENCE)?;
    program.say("quit")?;
    let output = program.finish(PATIENCE)?;
    Ok(format!("{}{}\n", apart(&text(&output.text)), output.status))
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn every_command_of_395() {
    let script = script("commands.txt");
    same("cli-395", &options(), |server| session(Kind::Java395, server, &script));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn every_command_of_380() {
    let script = script("commands.txt");
    same("cli-380", &options(), |server| session(Kind::Java380, server, &script));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn watches_of_395() {
    let script = script("watches.txt");
    same("cli-watches-395", &options(), |server| session(Kind::Java395, server, &script));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn watches_of_380() {
    let script = script("watches.txt");
    same("cli-watches-380", &options(), |server| session(Kind::Java380, server, &script));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn single_commands_and_their_exit_codes() {
    let commands: [&[&str]; 8] = [
        &["create", "/a", "data"],
        &["create", "-e", "/eph", "data"],
        &["get", "-s", "/a"],
        &["get", "/eph"],
        &["set", "-v", "5", "/a", "x"],
        &["ls", "-R", "/"],
        &["nonsense"],
        &["deleteall", "/a"],
    ];
    same("cli-single", &options(), |server| {
        let mut transcript = String::new();
        for words in commands {
            let output = run(cli(Kind::Java395, server).args(words), Duration::from_secs(120))?;
            // A program for one command may end before its other thread has printed that it is
            // connected.
            let shown = apart(&text(&output.text)).replace(&format!("{CONNECTED}\n"), "");
            transcript.push_str(&format!("> {words:?}\n{}\n{}\n", shown.trim_end(), output.status));
        }
        Ok(transcript)
    });
}
