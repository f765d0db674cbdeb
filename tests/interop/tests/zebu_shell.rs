//! `zebu shell` and the original's command line: the same input gives the same output, against the
//! same kind of server.

use std::fs;
use std::time::Duration;

use zebu_interop::deps;
use zebu_interop::run::{Program, run};
use zebu_interop::scenario::compare;
use zebu_interop::server::{Kind, Options, PATIENCE, Server};
use zebu_interop::shell::{CONNECTED, Shell, said, shown};

fn options() -> Options {
    Options::default().config("extendedTypesEnabled", true).config("reconfigEnabled", true)
}

fn script(name: &str) -> String {
    fs::read_to_string(deps::client("java-cli").join(name)).expect("a script")
}

/// Runs a script in both shells, each with a fresh server, for each kind of server.
fn alike(name: &str, script: &str) {
    for kind in [Kind::Java395, Kind::Zebu] {
        let [original, ours] = [Shell::Original, Shell::Ours].map(|shell| {
            let server = Server::start(kind, &options()).expect("a server");
            shell
                .session(&server.connect_string(), script)
                .unwrap_or_else(|error| panic!("{name} with {shell:?}: {error:#}"))
        });
        compare(&format!("{name}-{kind:?}"), &original, &ours);
    }
}

/// CLI-08 to CLI-18, ERR-03.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn every_command_prints_the_same() {
    // The original has no `help`, and prints its version.
    let ours_alone = |line: &&str| *line != "help" && *line != "version";
    let script: Vec<_> = script("commands.txt").lines().map(str::to_owned).collect();
    let mut script: Vec<&str> = script.iter().map(String::as_str).filter(ours_alone).collect();
    // The script ends without a session, which is an error in Zebu's shell. Both end with these
    // exit codes.
    script.extend(["connect", "whoami"]);
    alike("shell-commands", &script.join("\n"));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn rare_forms_print_the_same() {
    alike("shell-forms", &script("forms.txt"));
}

/// Wrong arguments, unusual spacing and quoting, options in every order.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn odd_forms_print_the_same() {
    alike("shell-odd", &script("odd.txt"));
}

/// CLI-10, WAT-06.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn watches_print_the_same() {
    alike("shell-watches", &script("watches.txt"));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn single_commands_and_their_exit_codes_are_the_same() {
    let commands: [&[&str]; 9] = [
        &["create", "/a", "some data"],
        &["get", "-s", "/a"],
        &["get", "/none"],
        &["set", "-v", "5", "/a", "x"],
        &["ls", "-R", "/"],
        &["nonsense"],
        &["ls"],
        &["deleteall", "/a"],
        &["-waitforconnection", "-timeout", "60000", "stat", "/"],
    ];
    for kind in [Kind::Java395, Kind::Zebu] {
        let [original, ours] = [Shell::Original, Shell::Ours].map(|shell| {
            let server = Server::start(kind, &options()).expect("a server");
            let mut transcript = String::new();
            for words in commands {
                let mut command = shell.command(&server.connect_string());
                let program = Program::start_apart(command.args(words)).expect("it starts");
                let output = program.finish(Duration::from_secs(120)).expect("it ends");
                let (shown, said) = (shown(&output.text), said(&output.errors));
                // Zebu's session ends with a transaction, the original's by its timeout. A program
                // for one command may end before its other thread has printed that it is connected.
                let is_kept = |line: &&str| {
                    !line.is_empty() && !line.starts_with("pZxid = ") && *line != CONNECTED
                };
                let shown = shown.lines().filter(is_kept).collect::<Vec<_>>().join("\n");
                transcript.push_str(&format!("> {words:?}\n{shown}\n{said}\n{}\n", output.status));
            }
            transcript
        });
        compare(&format!("shell-single-{kind:?}"), &original, &ours);
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn what_is_ours_alone_works_with_the_originals_server() {
    let server = Server::start(Kind::Java395, &options()).expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("export.jsonl").display().to_string();
    let lines = [
        "create /a root",
        "create /a/b \"two words\"",
        "create /a/b/c",
        "tree /a",
        "du /a",
        "find /a -empty",
        "grep words",
        "cp -r /a /copy",
        &format!("export /a {file}"),
        &format!("import {file} /again"),
        "ls -R /again",
        "ls -R /copy",
        "deleteall /again",
        "watch -t 0 /",
    ];
    let mut program = Program::start_apart(Shell::Ours.command(&server.connect_string()).arg("-q"))
        .expect("it starts");
    for line in lines {
        program.say(line).expect("it listens");
    }
    let output = program.finish(PATIENCE).expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", output.errors);
    let expected = [
        "/a",
        "└── b",
        "    └── c",
        "",
        "3 znodes, 13 B",
        "13\t3\t/a",
        "9\t2\t/a/b",
        "/a/b/c",
        "/a/b:two words",
        "/again",
        "/again/b",
        "/again/b/c",
        "/copy",
        "/copy/b",
        "/copy/b/c",
    ];
    let expected: String = expected.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(output.text, expected);
    let ended = run(
        Shell::Ours.command(&server.connect_string()).args(["-q", "--json", "ls", "/"]),
        PATIENCE,
    )
    .expect("it runs");
    assert!(ended.text.contains("\"children\":[\"a\",\"copy\",\"zookeeper\"]"), "{}", ended.text);
}
