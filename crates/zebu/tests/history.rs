//! `zebu history`, `backup` and `restore` on the files of a Zebu server, while it runs and
//! afterwards.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use zebu_testkit::program;

/// A server that takes a snapshot and rolls its log every few transactions.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(dir: &Path) -> Self {
        Self::start_with(dir, "zebu-data")
    }

    fn start_with(dir: &Path, data_dir: &str) -> Self {
        let settings = ["snapCount=8", &format!("dataDir={data_dir}")];
        let (child, address) = program::serve(env!("CARGO_BIN_EXE_zebu"), dir, &settings);
        Self { child, address }
    }

    /// Runs a shell command in its own session. Returns the last line that it prints.
    fn shell(&self, dir: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.args(["shell", "-server", &self.address]).args(arguments).current_dir(dir);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().last().unwrap_or_default().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn history(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    zebu(dir, &[&["history", "--dir", "zebu-data"], arguments].concat())
}

fn zebu(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(arguments).current_dir(dir);
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn logs(dir: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(dir.join("zebu-data/version-2")).unwrap();
    let mut logs: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    logs.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log."));
    logs.sort_by_key(|path| {
        i64::from_str_radix(path.extension().unwrap().to_str().unwrap(), 16).unwrap()
    });
    logs
}

#[test]
fn the_history_of_a_server_that_runs_and_of_one_that_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = Server::start(dir);
    server.shell(dir, &["create", "/app", "v0"]);
    server.shell(dir, &["create", "-e", "/app/lock", "mine"]);
    for version in 1..=12 {
        server.shell(dir, &["set", "/app", &format!("v{version}")]);
    }
    server.shell(dir, &["delete", "/app"]);
    server.shell(dir, &["create", "/app", "again"]);

    let (code, running, stderr) = history(dir, &["/app", "--json", "--children"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("error"), "{stderr}");
    let told: Vec<Value> =
        running.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of =
        |path: &str| -> Vec<&Value> { told.iter().filter(|event| event["path"] == path).collect() };
    let app = of("/app");
    let changes: Vec<&str> = app.iter().map(|event| event["change"].as_str().unwrap()).collect();
    let mut expected = vec!["created"];
    expected.extend(["data set"; 12]);
    expected.extend(["deleted", "created"]);
    assert_eq!(changes, expected);
    for (version, event) in app[1..13].iter().enumerate() {
        assert_eq!(event["version"], version as i64 + 1);
        assert_eq!(event["data"]["begin"], format!("v{}", version + 1));
    }
    assert_eq!(app[13]["cause"], "by a request");
    let mut sessions: Vec<&str> =
        app.iter().map(|event| event["session"].as_str().unwrap()).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 15, "each has come from a session of its own");
    let lock = of("/app/lock");
    assert_eq!(lock[0]["owner"], lock[0]["session"]);
    assert_eq!(lock[1]["cause"], "because its session ended");
    assert_eq!(lock[1]["session"], lock[0]["session"]);
    assert!(logs(dir).len() > 2, "{:?}", logs(dir));

    drop(server);
    let (code, killed, stderr) = history(dir, &["/app", "--json", "--children"]);
    assert_eq!((code, killed), (Some(0), running), "{stderr}");

    // A changed byte in the middle of a log: all other records are shown, and the damage is an
    // error.
    let damaged = &logs(dir)[1];
    let mut bytes = fs::read(damaged).unwrap();
    bytes[40] ^= 1;
    fs::write(damaged, bytes).unwrap();
    let (code, text, stderr) = history(dir, &["/app"]);
    assert_eq!(code, Some(1));
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(stderr.contains(&format!("{name}: damaged at offset 16")), "{stderr}");
    assert!(text.contains("are in none of the logs") && text.contains("\"again\""), "{text}");

    let (code, _, stderr) = history(dir, &["app"]);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("error: app: "), "{stderr}");
}

#[test]
fn what_was_deleted_comes_back_from_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = Server::start(dir);
    server.shell(dir, &["create", "/app", "v0"]);
    server.shell(dir, &["create", "/app/config", "precious"]);
    let create = ["backup", "create", "--dir", "zebu-data", "--to", "saved"];
    let (code, stdout, stderr) = zebu(dir, &create);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    for version in 1..=9 {
        server.shell(dir, &["set", "/app", &format!("v{version}")]);
    }
    server.shell(dir, &["deleteall", "/app"]);
    server.shell(dir, &["create", "/after", "x"]);
    let (code, stdout, stderr) = zebu(dir, &create);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.starts_with("backup 2 of directory zebu-data/version-2: "), "{stdout}");
    let (code, stdout, _) = zebu(dir, &["backup", "verify", "saved", "--all"]);
    assert_eq!((code, stdout.lines().count()), (Some(0), 2), "{stdout}");

    let (_, changes, _) = zebu(dir, &["history", "/app", "--dir", "saved", "--json"]);
    let changes: Vec<Value> =
        changes.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [.., set, deleted] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(
        (set["data"]["begin"].as_str(), deleted["change"].as_str()),
        (Some("v9"), Some("deleted"))
    );
    let zxid = set["zxid"].as_str().unwrap();
    let restore = ["restore", "saved", "--into", "restored", "--to", zxid];
    let (code, stdout, stderr) = zebu(dir, &restore);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.starts_with(&format!("restored up to transaction {zxid} of ")), "{stdout}");
    let (code, _, stderr) = zebu(dir, &restore);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("restored: not empty"), "{stderr}");

    drop(server);
    let restored = Server::start_with(dir, "restored");
    assert_eq!(restored.shell(dir, &["get", "/app/config"]), "precious");
    assert_eq!(restored.shell(dir, &["get", "/app"]), "v9");
    let all = restored.shell(dir, &["ls", "/"]);
    assert!(!all.contains("after"), "{all}");
}

/// Runs a command with a program `ionice` that does this and is the only one in PATH. Returns the
/// exit code, what the command prints on stderr, and the arguments of each call of `ionice`.
#[cfg(target_os = "linux")]
fn with_ionice(dir: &Path, does: Option<&str>, arguments: &[&str]) -> (i32, String, Vec<String>) {
    use std::os::unix::fs::OpenOptionsExt as _;

    let programs = tempfile::tempdir().unwrap();
    let calls = programs.path().join("calls");
    if let Some(does) = does {
        let text = format!("#!/bin/sh\necho \"$*\" >> {}\n{does}\n", calls.display());
        let mut file = fs::OpenOptions::new();
        let file = file.write(true).create_new(true).mode(0o755);
        let mut file = file.open(programs.path().join("ionice")).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(arguments).current_dir(dir).env("PATH", programs.path());
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let own = child.id().to_string();
    let output = child.wait_with_output().unwrap();
    let calls = fs::read_to_string(calls).unwrap_or_default();
    let calls = calls.lines().map(|call| call.replace(&own, "PID")).collect();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap(), calls)
}

#[cfg(target_os = "linux")]
#[test]
fn long_readers_give_way_at_the_disk_unless_a_class_was_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = Server::start(dir);
    server.shell(dir, &["create", "/app", "v0"]);
    let create = ["backup", "create", "--dir", "zebu-data", "--to", "saved"];
    let keep = [&create[..], &["--keep-io-class"]].concat();
    let verify = ["verify", "directories", "zebu-data"];
    let (unchosen, chosen) = ("echo none: prio 0", "echo best-effort: prio 7");
    for (does, arguments, expected) in [
        (unchosen, &create[..], &["-p PID", "-c 3 -p PID"][..]),
        (chosen, &create, &["-p PID"]),
        (unchosen, &keep, &[]),
        (unchosen, &verify, &["-p PID", "-c 3 -p PID"]),
    ] {
        let (code, stderr, calls) = with_ionice(dir, Some(does), arguments);
        assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
        assert_eq!(calls, expected, "{does}, {arguments:?}");
    }
    let refused = "note: this reads with the normal priority of the disk: ionice: ";
    for (does, why) in [(None, "No such file"), (Some("exit 7"), "exit status: 7")] {
        let (code, stderr, _) = with_ionice(dir, does, &create);
        assert_eq!((code, stderr.lines().count()), (0, 1), "{stderr}");
        assert!(stderr.starts_with(refused) && stderr.contains(why), "{stderr}");
    }
}
