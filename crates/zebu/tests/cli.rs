//! The binary as its operator sees it: output, messages and exit codes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use zebu_testkit::connection::{Connection, Hello, Welcome};
use zebu_testkit::wire::{Writer, op};

/// Far longer than any step should take.
const DEADLINE: Duration = Duration::from_secs(60);

/// The binary in its own directory, without the tests' environment.
fn zebu(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(arguments).current_dir(dir).env_clear().stdin(Stdio::null());
    // Tests listen only on ports that they choose.
    command.env("SERVER_JVMFLAGS", "-Dzookeeper.admin.enableServer=false");
    command
}

/// Runs the binary until it ends.
fn output(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    finished(zebu(dir, arguments).output().unwrap())
}

fn finished(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// ACL-09: as printed by the original's generator. Users copy these lines into configurations.
#[test]
fn digests_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, _) = output(dir.path(), &["digest", "amy:secret", "super:asdf"]);
    let expected = "amy:secret->amy:Iq0onHjzb4KyxPAp8YWOIC8zzwY=\nsuper:asdf->super:T+4Qoey4ZZ8Fnni1Yl2GZtbH2W4=\n";
    assert_eq!((code, stdout.as_str()), (Some(0), expected));
    assert_eq!(output(dir.path(), &["digest", "amy"]).0, Some(1));
}

/// The exit codes of `zebu doctor`, and its JSON: for CI.
#[test]
fn doctor_says_by_its_exit_code_what_it_has_found() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let [port, quorum, election] = zebu_testkit::ports::free();
    let lines = format!(
        "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
        data.display()
    );
    fs::write(dir.path().join("zoo.cfg"), &lines).unwrap();
    let doctor = |arguments: &[&str]| {
        let arguments = [&["doctor", "--json"], arguments].concat();
        let (code, stdout, stderr) = output(dir.path(), &arguments);
        let json: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_default();
        (code, json, stderr)
    };
    // Logs on the device of the snapshots: a warning.
    let only = ["--only", "configuration,directories"];
    let (code, json, stderr) = doctor(&[&only[..], &["zoo.cfg"]].concat());
    assert_eq!((code, &json["errors"]), (Some(0), &serde_json::json!(0)), "{json:#} {stderr}");
    let strict = [&only[..], &["--strict", "zoo.cfg"]].concat();
    let warns = json["warnings"].as_u64().unwrap() > 0;
    assert_eq!(doctor(&strict).0, Some(i32::from(warns)), "{json:#}");
    // All checks are made, or say why they cannot be made. Each finding that is more than news has
    // a remedy.
    let members = format!(
        "{lines}initLimit=5\nsyncLimit=2\nserver.1=127.0.0.1:{quorum}:{election}\nserver.2=127.0.0.1:1:2\n"
    );
    fs::write(dir.path().join("members.cfg"), members).unwrap();
    fs::write(data.join("myid"), "1\n").unwrap();
    let (code, json, stderr) = doctor(&["--timeout", "2000", "members.cfg"]);
    assert_eq!(code, Some(1), "no member answers: {json:#} {stderr}");
    let names = |list: &str, of: &dyn Fn(&serde_json::Value) -> serde_json::Value| {
        json[list].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let mut all = names("checked", &|it| it.clone());
    all.extend(names("skipped", &|it| it["check"].clone()));
    assert_eq!(all.len(), 13, "{json:#}");
    assert!(names("skipped", &|it| it["why"].clone()).iter().all(|why| *why != ""), "{json:#}");
    let findings = json["findings"].as_array().unwrap();
    let bare = findings.iter().find(|it| it["severity"] != "info" && it["remedy"] == "");
    assert!(bare.is_none(), "{bare:?}");
    assert!(findings.iter().any(|it| it["check"] == "peers" && it["severity"] == "error"));
    // A configuration that no server starts with, and arguments that do not exist.
    fs::write(dir.path().join("bad.cfg"), "clientPort=x\n").unwrap();
    assert_eq!(doctor(&["bad.cfg"]).0, Some(1));
    assert_eq!(doctor(&["--only", "moon", "zoo.cfg"]).0, Some(2));
}

/// The exit codes that scripts rely on.
#[test]
fn verify_says_by_its_exit_code_what_it_has_found() {
    let dir = tempfile::tempdir().unwrap();
    let fixture =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/zookeeper-3.9.5/basic");
    let (code, stdout, stderr) = output(dir.path(), &["verify", "directories", fixture]);
    assert_eq!(
        (code, stdout.lines().last(), &*stderr),
        (Some(0), Some("verified"), ""),
        "{stdout}"
    );
    let copy = dir.path().join("version-2");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(format!("{fixture}/version-2")).unwrap() {
        let file = file.unwrap();
        let mut bytes = fs::read(file.path()).unwrap();
        if file.file_name().to_string_lossy().starts_with("log.") {
            bytes[100] ^= 1;
        }
        fs::write(copy.join(file.file_name()), bytes).unwrap();
    }
    let (code, stdout, _) = output(dir.path(), &["verify", "directories", "--json", "."]);
    assert_eq!(code, Some(1));
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&json["verdict"], &json["findings"][0]["kind"]),
        (&"wrong".into(), &"damage".into())
    );
    assert_eq!(output(dir.path(), &["verify", "directories", "nowhere"]).0, Some(3));
    assert_eq!(output(dir.path(), &["verify", "directories"]).0, Some(2));
}

/// A pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// As with `| head`: no message, because the reader has seen enough.
#[test]
fn output_that_nobody_reads_ends_a_tool_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let log = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/zookeeper-3.9.5/basic/version-2/log.49");
    let mut command = zebu(dir.path(), &["log", log.to_str().unwrap()]);
    let (code, _, stderr) = finished(command.stdout(unread()).output().unwrap());
    assert_eq!((code, stderr.as_str()), (Some(141), ""));
}

/// A server that has reported its address.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    greeting: [String; 3],
}

impl Running {
    fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::spawn(&mut zebu(dir, arguments))
    }

    fn spawn(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let greeting = [(); 3].map(|()| {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        });
        let this = Self { child, stdout, greeting };
        assert!(this.greeting[0].starts_with("listening on "), "{:?}", this.greeting);
        this
    }

    fn port(&self) -> u16 {
        let digits = self.greeting[0].rsplit(':').next().unwrap();
        let digits = digits.strip_prefix("listening on port ").unwrap_or(digits);
        digits.split(' ').next().unwrap().parse().unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// The answer to a four-letter word, as far as it arrives.
    fn word(&self, word: &str) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(word.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// Opens a session, which exists when this returns.
    fn session(&self) -> Connection {
        self.shake(&Hello::default()).0
    }

    /// The answer to a connect request.
    fn shake(&self, hello: &Hello) -> (Connection, Welcome) {
        let mut connection = Connection::local(self.port()).unwrap();
        connection.send(&hello.bytes()).unwrap();
        let answer = connection.frame().unwrap();
        (connection, Welcome::parse(&answer).unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends a signal and waits for the end. Returns exit code, the remaining stdout, and stderr.
    fn end(mut self, signal: Signal) -> (Option<i32>, String, String) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
        let mut stderr: ChildStderr = self.child.stderr.take().unwrap();
        let (mut rest, mut log) = (String::new(), String::new());
        self.stdout.read_to_string(&mut rest).unwrap();
        stderr.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), rest, log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a failed test leaves the process running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn without_a_configuration_it_serves_on_loopback_and_stops_when_asked() {
    let dir = dir();
    // As in the README, except for the port, which may be in use.
    let running = Running::start(dir.path(), &["server", "--set", "clientPort=0"]);
    let port = running.port();
    assert_eq!(
        running.greeting,
        [
            format!("listening on 127.0.0.1:{port}"),
            "data in ./zebu-data".to_owned(),
            format!("try it: zebu word 127.0.0.1:{port} srvr"),
        ]
    );
    assert!(running.word("srvr").contains("Mode: standalone"));
    let client = running.session();
    let (code, rest, log) = running.end(Signal::TERM);
    assert_eq!((code, rest.as_str()), (Some(0), ""), "{log}");
    assert!(lines(&log).last().unwrap().ends_with("stopped"), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    drop(client);

    let again = Running::start(dir.path(), &["server", "--set", "clientPort=0"]);
    assert!(again.word("srvr").contains("\nZxid: 0x1\n"), "the session is still known");
    assert_eq!(again.end(Signal::INT).0, Some(0), "Ctrl-C is fine too");
}

/// The bits of the mask are those of `ZooTrace`: 2 is for requests, 8 for pings.
#[test]
fn the_trace_mask_selects_the_lines_of_the_request_trace() {
    let dir = dir();
    let log = "zebu.log.level=info,zebu_trace=trace";
    let words = "4lw.commands.whitelist=stmk,gtmk";
    let settings = ["server", "--set", "clientPort=0", "--set", log, "--set", words];
    let running = Running::start(dir.path(), &settings);
    let mut client = running.session();
    let mut send = |request: Writer| {
        client.send(request.bytes()).unwrap();
        client.frame().unwrap();
    };
    send(Writer::request(1, op::EXISTS).string("/one\n").bool(false));
    send(Writer::request(2, op::PING));
    assert_eq!(running.word("stmk\0\0\0\0\0\0\0\x08"), "8");
    send(Writer::request(3, op::EXISTS).string("/two").bool(false));
    send(Writer::request(4, op::PING));
    let (_, _, log) = running.end(Signal::TERM);
    let traced: Vec<&str> =
        lines(&log).into_iter().filter(|it| it.contains("zebu_trace")).collect();
    let wanted =
        ["session 0x", "request exists \"/one\\n\" of session 0x", "request ping of session 0x"];
    assert_eq!(traced.len(), wanted.len(), "{log}");
    for (line, wanted) in traced.iter().zip(wanted) {
        assert!(line.contains("TRACE") && line.contains(wanted), "{line}");
    }
    assert!(traced[2].ends_with("xid 4"), "{log}");
}

/// CFG-14. The mask applies there, too: requests are in the file, pings are not.
#[test]
fn the_request_trace_goes_to_the_file_of_the_day_where_one_is_named() {
    let dir = dir();
    let settings = ["server", "--set", "clientPort=0", "--set", "traceFile=traced"];
    let running = Running::start(dir.path(), &settings);
    let mut client = running.session();
    for request in
        [Writer::request(1, op::PING), Writer::request(2, op::EXISTS).string("/one").bool(false)]
    {
        client.send(request.bytes()).unwrap();
        client.frame().unwrap();
    }
    let (_, _, log) = running.end(Signal::TERM);
    assert!(!log.contains("zebu_trace"), "{log}");
    let names = fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("traced.")).collect();
    // There are two if a day ended meanwhile.
    names.sort();
    let texts = names.iter().map(|name| fs::read_to_string(dir.path().join(name)).unwrap());
    let text: String = texts.collect();
    assert!(text.contains("request exists \"/one\" of session 0x"), "{text}");
    assert!(!text.contains("ping"), "{text}");
    assert!(text.lines().all(|line| line.contains(" zebu_trace: ")), "{text}");
    assert!(names.iter().all(|name| name.split('.').count() == 4), "{names:?}");
}

#[test]
fn with_a_zoo_cfg_it_does_as_that_says() {
    let dir = dir();
    fs::write(
        dir.path().join("zoo.cfg"),
        "tickTime=2000\ndataDir=./data\nclientPort=2181\nclientPortAddress=127.0.0.1\n\
         4lw.commands.whitelist=conf, ruok\nnosuchkey=1\n",
    )
    .unwrap();
    let running = Running::start(dir.path(), &["server", "zoo.cfg", "--set", "clientPort=0"]);
    assert_eq!(running.greeting[1], "data in ./data");
    let conf = running.word("conf");
    assert!(conf.contains("tickTime=2000\n") && conf.contains("dataDir=./data/version-2\n"));
    let (code, _, log) = running.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(log.contains("WARN") && log.contains("zoo.cfg:6: nosuchkey"), "{log}");
}

#[test]
fn the_arguments_of_the_originals_main_class_work() {
    let dir = dir();
    let running = Running::start(dir.path(), &["server", "0", "data", "300", "7"]);
    assert!(running.greeting[0].ends_with("of all addresses"), "{:?}", running.greeting);
    let (code, ..) = running.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(dir.path().join("data/version-2").is_dir());
}

#[test]
fn check_says_what_would_hold_and_does_nothing() {
    let dir = dir();
    fs::write(dir.path().join("zoo.cfg"), "dataDir=./data\nclientPort=2181\nsnapCount=7\n")
        .unwrap();
    let mut command = zebu(
        dir.path(),
        &[
            "server",
            "--check",
            "zoo.cfg",
            "-Djute.maxbuffer=4000000",
            "-D",
            "zookeeper.snapCount=8",
            "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:hidden",
            "--set",
            "tickTime=123",
        ],
    );
    command.env("SERVER_JVMFLAGS", "-Xmx1g -Dzookeeper.skipACL=yes -Dzookeeper.maxCnxns=1");
    command.env("JVMFLAGS", "-Dzookeeper.maxCnxns=2");
    let (code, report, log) = finished(command.output().unwrap());
    assert_eq!((code, log.as_str()), (Some(0), ""));
    for (setting, origin) in [
        ("snapCount=7", "# zoo.cfg:3"),
        ("jute.maxbuffer=4000000", "# -D"),
        ("tickTime=123", "# --set"),
        ("skipACL=yes", "# SERVER_JVMFLAGS"),
        ("maxCnxns=2", "# JVMFLAGS"),
    ] {
        let lines = lines(&report);
        let at = lines.iter().position(|line| *line == setting);
        let at = at.unwrap_or_else(|| panic!("{setting}: {report}"));
        assert!(lines[at - 1].starts_with(origin), "{setting}: {}", lines[at - 1]);
    }
    assert!(report.contains("-Xmx1g") && !report.contains("hidden"), "{report}");
    assert!(!dir.path().join("data").exists());
}

#[test]
fn faults_of_the_configuration_name_file_and_line_and_end_with_2() {
    let dir = dir();
    for (text, expected) in [
        ("dataDir=d\nclientPort=1\ntickTime=abc\n", "zoo.cfg:3: tickTime=abc"),
        ("clientPort=1\n", "dataDir is not set"),
        ("dataDir=d\nclientPort=1\nsecureClientPort=2\n", "zoo.cfg:3: TLS is switched on and"),
        ("dataDir=d\nclientPort=1\nstandaloneEnabled=maybe\n", "zoo.cfg:3: Invalid option"),
    ] {
        fs::write(dir.path().join("zoo.cfg"), text).unwrap();
        for arguments in [&["server", "zoo.cfg"][..], &["server", "--check", "zoo.cfg"]] {
            let (code, report, log) = output(dir.path(), arguments);
            assert_eq!((code, report.as_str()), (Some(2), ""), "{text}");
            assert!(log.starts_with("error: ") && log.contains(expected), "{log}");
        }
    }
    fs::write(dir.path().join("zoo.cfg"), "dataDir=d\nclientPort=1\n\ntickTme=3\n").unwrap();
    let (code, _, log) = output(dir.path(), &["server", "--check", "zoo.cfg"]);
    assert_eq!(code, Some(2));
    assert!(log.contains("zoo.cfg:4: tickTme") && log.contains("tickTime?"), "{log}");
    for wrong in [
        &["server", "missing.cfg"][..],
        &["server", "1", "2", "3", "4", "5"],
        &["server", "--nonsense"],
        &["server", "-Dnothing", "--set", "nothing"],
        &["nonsense"],
        &[],
    ] {
        let (code, report, log) = output(dir.path(), wrong);
        assert_eq!((code, report.as_str()), (Some(2), ""), "{wrong:?}");
        assert!(!log.is_empty());
    }
}

#[test]
fn directories_that_cannot_be_used_end_it_with_3() {
    let dir = dir();
    fs::write(dir.path().join("file"), "").unwrap();
    fs::create_dir_all(dir.path().join("swapped/version-2")).unwrap();
    fs::write(dir.path().join("swapped/version-2/log.1"), "").unwrap();
    for arguments in [
        &["--set", "dataDir=file"][..],
        &["--set", "dataDir=missing", "-Dzookeeper.datadir.autocreate=false"],
        &["--set", "dataDir=swapped", "--set", "dataLogDir=elsewhere"],
    ] {
        let all = [&["server", "--set", "clientPort=0"], arguments].concat();
        let (code, report, log) = output(dir.path(), &all);
        assert_eq!((code, report.as_str()), (Some(3), ""), "{arguments:?}: {log}");
    }
    assert!(!dir.path().join("missing").exists());

    let running = Running::start(dir.path(), &["server", "--set", "clientPort=0"]);
    let (code, _, log) = output(dir.path(), &["server", "--set", "clientPort=0"]);
    assert_eq!(code, Some(3));
    assert!(log.contains("another server is using this directory"), "{log}");
    assert_eq!(running.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_port_that_others_have_ends_it_with_1() {
    let dir = dir();
    let running = Running::start(dir.path(), &["server", "--set", "clientPort=0"]);
    let port = format!("clientPort={}", running.port());
    let (code, _, log) = output(dir.path(), &["server", "--set", &port, "--set", "dataDir=other"]);
    assert_eq!(code, Some(1));
    assert!(log.contains(&format!("cannot listen for clients on 127.0.0.1:{}", running.port())));
    assert_eq!(running.end(Signal::TERM).0, Some(0));
}

#[test]
fn an_admin_server_that_has_no_port_ends_it_with_4() {
    let dir = dir();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("admin.serverPort={}", taken.local_addr().unwrap().port());
    let arguments =
        ["server", "--set", "clientPort=0", "--set", "admin.enableServer=true", "--set", &port];
    let (code, _, log) = output(dir.path(), &arguments);
    assert_eq!(code, Some(4), "{log}");
    assert!(log.contains("the admin server cannot be started: 127.0.0.1 port "), "{log}");
}

#[test]
fn a_first_snapshot_that_cannot_be_written_ends_it_with_10() {
    let dir = dir();
    // The name that the first snapshot needs is already in use.
    fs::create_dir_all(dir.path().join("zebu-data/version-2/snapshot.0")).unwrap();
    let (code, _, log) = output(dir.path(), &["server", "--set", "clientPort=0"]);
    assert_eq!(code, Some(10), "{log}");
}

#[test]
fn a_member_without_server_lines_runs_alone_with_a_warning() {
    let dir = dir();
    let data = dir.path().join("zebu-data");
    fs::create_dir_all(data.join("version-2")).unwrap();
    fs::write(data.join("myid"), "1\n").unwrap();
    fs::write(data.join("version-2/currentEpoch"), "3").unwrap();
    let running = Running::start(dir.path(), &["server", "--set", "clientPort=0"]);
    assert!(running.word("srvr").contains("Mode: standalone"));
    let (code, _, log) = running.end(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
    let told = lines(&log).into_iter().find(|line| line.contains("WARN"));
    assert!(told.is_some_and(|line| line.contains("myid") && line.contains("epoch of 3")), "{log}");
}

#[test]
fn slow_syncs_are_said_aloud_above_the_threshold() {
    for (threshold, said) in [("0", true), ("100000", false)] {
        let dir = dir();
        let setting = format!("-Dfsync.warningthresholdms={threshold}");
        let running = Running::start(dir.path(), &["server", "--set", "clientPort=0", &setting]);
        running.session();
        let (_, _, log) = running.end(Signal::TERM);
        assert_eq!(log.contains("fsync of the transaction log took"), said, "{log}");
    }
}

#[test]
fn each_start_says_what_it_cut_and_in_which_mode_it_recovered() {
    for of_the_original in [false, true] {
        let dir = dir();
        let start = || Running::start(dir.path(), &["server", "0", "data"]);
        let running = start();
        running.session();
        let (.., said) = running.end(Signal::KILL);
        assert!(said.contains("everything that was durable once is there"), "{said}");
        assert!(!said.contains("begins at offset"), "{said}");

        // As if the process had been killed while it wrote a second record.
        let path = dir.path().join("data/version-2/log.1");
        let mut content = fs::read(&path).unwrap();
        let end = 1 + content.iter().rposition(|byte| *byte != 0).unwrap();
        content[end..end + 14].copy_from_slice(b"\0\0\0\0\x01\x02\x03\x04\0\0\0\x5axy");
        fs::write(&path, content).unwrap();
        if of_the_original {
            fs::remove_file(path.with_file_name("durable.1")).unwrap();
        }
        let (.., said) = start().end(Signal::TERM);
        let at = format!(
            "log.1: a record that was being written when the machine or the process stopped begins at offset {end}"
        );
        assert!(said.contains(&at), "{said}");
        let weaker = said.contains("weaker mode: log ");
        assert_eq!(weaker, of_the_original, "{said}");
    }
}

/// The limit of descriptors is so low that connections can use all of them.
#[test]
fn a_flood_of_connections_ends_nothing() {
    let dir = dir();
    for limit in [40, 100] {
        let mut command = Command::new("/bin/sh");
        let script = format!("ulimit -n {limit}; exec \"$0\" server --set clientPort=0");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_zebu")]);
        let running = Running::spawn(command.current_dir(dir.path()).stdin(Stdio::null()));
        let flood: Vec<TcpStream> = (0..3 * limit).map(|_| running.connect()).collect();
        drop(flood);
        while !running.word("srvr").contains("Mode: standalone") {
            std::thread::yield_now();
        }
        running.session();
        let (code, _, log) = running.end(Signal::TERM);
        assert_eq!(code, Some(0), "{log}");
    }
}

#[test]
fn the_help_shows_how_it_is_used() {
    let dir = dir();
    let (code, help, _) = output(dir.path(), &["server", "--help"]);
    assert_eq!(code, Some(0));
    assert!(help.contains("zebu server /etc/zookeeper/conf/zoo.cfg"), "{help}");
    let (code, version, _) = output(dir.path(), &["--version"]);
    assert_eq!((code, version), (Some(0), format!("zebu {}\n", env!("CARGO_PKG_VERSION"))));
}

/// A stopped process receives nothing. When it continues, the bytes that its clients sent meanwhile
/// count, and the clients have their full timeouts from then on.
#[test]
fn sessions_outlive_a_process_that_stood_still() {
    let dir = dir();
    let mut arguments = vec!["server"];
    let settings = ["tickTime=500", "clientPort=0", "4lw.commands.whitelist=*", "dataDir=data"];
    settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
    let server = Running::start(dir.path(), &arguments);
    let timeout_ms = 8_000;
    // One client waits for an answer, and another one has just lost its connection.
    let (mut waiting, _) = server.shake(&Hello::timeout(timeout_ms));
    let (lost, welcome) = server.shake(&Hello::timeout(timeout_ms));
    drop(lost);
    server.signal(Signal::STOP);
    zebu_testkit::program::wait_until_paused(server.child.id()).unwrap();
    waiting.send(Writer::request(-2, op::PING).bytes()).unwrap();
    // Both sessions would have expired by now.
    std::thread::sleep(Duration::from_millis(9_500));
    server.signal(Signal::CONT);
    // Before it answers this, the server has checked its sessions.
    assert!(server.word("dump").contains("Session Sets"));
    let renewal = Hello::renewal(timeout_ms, welcome.session, &welcome.password);
    let (_, again) = server.shake(&renewal);
    assert_eq!(again, welcome, "timeout, id and password");
    waiting.frame().unwrap();
    let (status, _, log) = server.end(Signal::TERM);
    assert_eq!(status, Some(0), "{log}");
    // If a process is stopped during a turn of its replica, the replica notices the pause, and the
    // other threads do, too.
    let noticed = ["this server stood still for", "this server did not listen to its clients for"];
    assert!(noticed.iter().any(|line| log.contains(line)), "{log}");
}
