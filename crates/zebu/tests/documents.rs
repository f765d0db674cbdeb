//! Shell completions and manual pages: every command has them, and the programs that read them
//! report no errors.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

fn zebu(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    assert_eq!(stderr, "", "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that `--help` of this command lists; none for a command without subcommands.
fn commands(above: &[&str]) -> Vec<String> {
    let help = stdout(zebu(above).arg("--help"));
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    // Continuation lines are indented further.
    let names = lines.filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn each_command_and_each_command_below_it_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(stdout(zebu(&["man"]).arg(dir.path())), "");
    let mut expected = BTreeSet::from(["zebu.1".to_owned()]);
    for command in commands(&[]).into_iter().filter(|name| name != "help") {
        for below in commands(&[&command]).into_iter().filter(|name| name != "help") {
            expected.insert(format!("zebu-{command}-{below}.1"));
        }
        expected.insert(format!("zebu-{command}.1"));
    }
    assert!(expected.contains("zebu-server.1"), "{expected:?}");
    assert!(expected.contains("zebu-snapshot-show.1"), "{expected:?}");
    let written = fs::read_dir(dir.path()).unwrap();
    let written = written.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(written.collect::<BTreeSet<_>>(), expected);
    let first = fs::read_to_string(dir.path().join("zebu.1")).unwrap();
    assert_eq!(first, stdout(&mut zebu(&["man"])));
    assert!(first.contains("zebu\\-server(1)"), "the page refers to the others: {first}");
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let output = zebu(&["man"]).arg(&missing).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.starts_with(&format!("error: {}", missing.display())), "{stderr}");
}

#[test]
fn bash_offers_the_commands_and_their_options() {
    let script = stdout(&mut zebu(&["completions", "bash"]));
    let ask = r#"
        COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); source "$1"
        _zebu zebu "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        echo "${COMPREPLY[*]}"
    "#;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zebu");
    fs::write(&path, script).unwrap();
    let offered = |words: &[&str]| {
        let mut bash = Command::new("bash");
        bash.args(["-c", ask, "bash"]).arg(&path).arg("zebu").args(words);
        stdout(&mut bash).trim().to_owned()
    };
    assert_eq!(offered(&["serv"]), "server");
    assert_eq!(offered(&["completions", "z"]), "zsh");
    assert!(offered(&["server", "--che"]).contains("--check"));
}

#[test]
fn each_shell_gets_completions_of_its_own() {
    let mut seen = BTreeSet::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&mut zebu(&["completions", shell]));
        assert!(script.contains("server") && script.contains("completions"), "{shell}");
        assert!(seen.insert(script), "{shell}");
    }
    let output = zebu(&["completions", "tcsh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// As with `| head`: no message, because the reader has seen enough.
#[test]
fn a_page_that_nobody_reads_ends_the_program_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = zebu(&["completions", "bash"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(141), 0));
}
