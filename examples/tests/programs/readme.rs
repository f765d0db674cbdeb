//! The programs accept the commands in the README.

use std::process::{Command, Stdio};

use crate::program::path;

/// Splits a command into words like a shell, with blanks and quotes only.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(end), c) if end == c => quote = None,
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn its_commands_are_understood() {
    let readme = include_str!("../../README.md");
    let mut running = Vec::new();
    for line in readme.lines() {
        let Some(at) = line.find("cargo run --example ") else { continue };
        let command = line[at..].split('`').next().unwrap();
        let found = words(command);
        let [_, _, _, example, dashes, rest @ ..] = found.as_slice() else {
            panic!("no command: {line}")
        };
        assert_eq!(dashes, "--", "{line}");
        let mut process = Command::new(path(example));
        // This command would start a server.
        let is_help = example == "resource";
        if is_help {
            process.args(rest).arg("--help");
        } else {
            process.args(["--session-timeout-ms", "100"]).args(rest);
        }
        // No server listens there. An invalid command fails earlier, with another message.
        process.env_clear().env("ZK_SERVERS", "127.0.0.1:1").env("ZK_AUTH", "amy:secret");
        let pipes = process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        running.push((line, is_help, pipes.spawn().unwrap()));
    }
    assert!(running.len() > 25, "{}", running.len());
    for (line, is_help, process) in running {
        let output = process.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        if is_help {
            assert_eq!(code, Some(0), "{line}\n{text}");
        } else {
            assert_eq!(code, Some(1), "{line}\n{text}");
            assert!(text.contains("no session with 127.0.0.1:1"), "{line}\n{text}");
        }
    }
}
