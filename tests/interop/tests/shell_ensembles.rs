//! Shells with several servers: reconfigurations as in the original's shell, and subtrees copied
//! between ensembles.

use std::fs;
use std::process::Stdio;

use zebu_interop::dump::SUPER;
use zebu_interop::members::{Id, Members};
use zebu_interop::scenario::compare;
use zebu_interop::server::{Kind, Options, PATIENCE, Server};
use zebu_interop::shell::Shell;

/// A transcript without parts that differ between ensembles: the leader, ports, and configuration
/// versions. `members` begins with the leader.
fn settled(transcript: &str, members: [Id; 3]) -> String {
    let mut text = transcript.to_owned();
    for (id, name) in members.into_iter().zip(["L", "A", "B"]) {
        text = text.replace(&format!("server.{id}="), &format!("server.{name}="));
    }
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = match line.split_once("version=") {
            Some((before, _)) => format!("{before}version=V"),
            None => without_port(line),
        };
        // Members are sorted by id, and any member may lead.
        let members = lines.iter().rev().take_while(|line| line.starts_with("server.")).count();
        lines.push(line);
        if lines.last().is_some_and(|line| line.starts_with("server.")) {
            let from = lines.len() - 1 - members;
            lines[from..].sort();
        }
    }
    lines.join("\n")
}

/// A member's line without the quorum and election ports.
fn without_port(line: &str) -> String {
    const HOST: &str = "=SERVER:";
    match line.split_once(HOST) {
        Some((member, rest)) if line.starts_with("server.") => {
            format!("{member}{HOST}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        _ => line.to_owned(),
    }
}

/// Members are removed, added, and replaced, by arguments and by a file. Invalid requests are
/// refused.
fn reconfigured(kind: Kind, shell: Shell) -> String {
    let mut members = Members::start(&[kind; 3], false).expect("an ensemble");
    let leader = members.leader(&[1, 2, 3]).expect("a leader");
    let others: Vec<Id> = (1..=3).filter(|id| *id != leader).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("members.cfg");
    let entry = |members: &mut Members, id, role: &str| members.entry(id, role);
    let all = [leader, others[0], others[1]];
    let voters = all.map(|id| entry(&mut members, id, "participant"));
    let observer = entry(&mut members, others[0], "observer");
    fs::write(&file, voters.join("\n")).expect("a file");
    let (file, first) = (file.display().to_string(), others[0]);
    let (whole, with_observer) =
        (voters.join(","), [&voters[0], &observer, &voters[2]].map(String::as_str).join(","));
    let script = [
        "reconfig -remove 1".to_owned(),
        format!("addauth digest {SUPER}"),
        "config".to_owned(),
        "reconfig".to_owned(),
        format!("reconfig -remove {first}"),
        format!("reconfig -add {}", voters[1]),
        format!("reconfig -members {with_observer}"),
        "config".to_owned(),
        format!("reconfig -file {file}"),
        format!("reconfig -s -members {whole} -remove 1"),
        format!("reconfig -file {file} -members {whole}"),
        format!("reconfig -v 5 -remove {first}"),
        format!("reconfig -v zz -remove {first}"),
        "reconfig -add server.9=nonsense".to_owned(),
        format!("reconfig -remove {},{},{}", all[0], all[1], all[2]),
        "reconfig -remove x".to_owned(),
        "reconfig -remove 77".to_owned(),
        "config".to_owned(),
    ];
    let address = members.server(leader).connect_string();
    let transcript = shell.session(&address, &script.join("\n")).expect("a session");
    settled(&transcript, all)
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn reconfigurations_print_the_same() {
    for kind in [Kind::Java395, Kind::Zebu] {
        let [original, ours] =
            [Shell::Original, Shell::Ours].map(|shell| reconfigured(kind, shell));
        compare(&format!("shell-reconfig-{kind:?}"), &original, &ours);
        assert_eq!(ours.matches("Committed new configuration:").count(), 5, "{ours}");
    }
}

/// The content of a subtree: paths, data and ACLs, in order.
const SUBTREE: [&str; 6] = [
    "ls -R /app",
    "get /app",
    "get /app/config",
    "get -b /app/binary",
    "getAcl /app/config",
    "getAcl /app/config/deep",
];

fn one_shot(server: &str, words: &str) -> String {
    let mut command = Shell::Ours.command(server);
    command.args(["-q"]).args(words.split(' '));
    let output = zebu_interop::run::run(&mut command, PATIENCE).expect("it ends");
    assert!(output.status.success(), "{words}: {}", output.text);
    output.text
}

fn subtree(server: &str) -> String {
    SUBTREE.map(|words| one_shot(server, words)).concat()
}

/// Docs: `docs/shell.md`, "Between two ensembles".
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_subtree_goes_to_another_ensemble() {
    for (from, to) in [(Kind::Java395, Kind::Zebu), (Kind::Zebu, Kind::Java395)] {
        let start = |kind| Server::start(kind, &Options::default()).expect("a server");
        let source = start(from);
        let script = "\
create /app root
create /app/config \"two words\" world:anyone:r,ip:127.0.0.1:cdrwa
create /app/config/deep
create /app/binary
set -b /app/binary AP/+gA==
create -e /app/ephemeral gone";
        let prepared = Shell::Ours.session(&source.connect_string(), script).expect("a session");
        let wanted = subtree(&source.connect_string());
        assert!(
            wanted.contains("/app/config/deep") && wanted.contains("AP/+gA=="),
            "{prepared}{wanted}"
        );
        assert!(!wanted.contains("ephemeral"), "{wanted}");

        // From one shell to another.
        let target = start(to);
        let mut export = Shell::Ours.command(&source.connect_string());
        let mut export = export
            .args(["-q", "export", "/app"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = export.stdout.take().expect("a pipe");
        let mut import = Shell::Ours.command(&target.connect_string());
        let status = import.args(["-q", "import", "-"]).stdin(lines).status().expect("it starts");
        assert!(status.success() && export.wait().expect("it ends").success());
        assert_eq!(subtree(&target.connect_string()), wanted);

        // One shell for both ensembles, with a file.
        let target = start(to);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("app.jsonl").display().to_string();
        let script =
            format!("export /app {file}\nconnect {}\nimport {file}", target.connect_string());
        let moved = Shell::Ours.session(&source.connect_string(), &script).expect("a session");
        assert_eq!(subtree(&target.connect_string()), wanted, "{moved}");

        // In one command.
        let target = start(to);
        let words = format!("cp -r /app zk://{}/app", target.connect_string());
        one_shot(&source.connect_string(), &words);
        assert_eq!(subtree(&target.connect_string()), wanted);
    }
}
