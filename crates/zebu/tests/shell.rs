//! The shell as people see it, through a pseudo-terminal, and as scripts see it, through pipes.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_testkit::program;

/// Far longer than any step should take.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server, and a folder for all files.
struct Server {
    child: Child,
    address: String,
    folder: TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, address) = program::serve(env!("CARGO_BIN_EXE_zebu"), folder.path(), &[]);
        Self { child, address, folder }
    }

    /// The shell, with the server's address.
    fn shell(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.args(["shell", "-server", &self.address]).args(arguments);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        finished(self.shell(arguments).output().unwrap())
    }

    fn pipe(&self, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
        let mut command = self.shell(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        finished(child.wait_with_output().unwrap())
    }
}

/// As with `| head`: no message, because the reader has seen enough.
#[test]
fn output_that_nobody_reads_ends_the_shell_quietly() {
    let server = Server::start();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = server.shell(&["ls", "-R", "/"]);
    let (code, _, stderr) = finished(command.stdout(writer).output().unwrap());
    assert_eq!((code, stderr.as_str()), (Some(141), ""));
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn finished(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A terminal that runs a shell. The test types into it and reads its screen.
struct Terminal {
    keyboard: ChildStdin,
    child: Child,
    screen: Arc<Mutex<String>>,
    /// How much of the screen was read.
    seen: usize,
}

impl Terminal {
    fn open(server: &Server) -> Self {
        // Wide enough that no line is wrapped. It is the shell's controlling terminal, so that
        // Ctrl-C reaches a running command.
        let line = format!(
            "stty cols 200 rows 40; exec {} shell -server {}",
            env!("CARGO_BIN_EXE_zebu"),
            server.address
        );
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        command.current_dir(server.folder.path());
        command.env("TERM", "xterm").env("XDG_STATE_HOME", server.folder.path());
        command.env("EDITOR", "sed -i s/hello/edited/").env_remove("VISUAL").env_remove("NO_COLOR");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("script, of util-linux");
        let keyboard = child.stdin.take().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut reader, shown) = (child.stdout.take().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { keyboard, child, screen, seen: 0 }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until a text appears after the one that was last waited for.
    fn shows(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            let rest = &screen[self.seen..];
            assert!(start.elapsed() < DEADLINE, "{text:?} is not shown, but {rest:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types a line and waits for its output, on its own line, and for the next prompt.
    fn answers(&mut self, line: &str, answer: &str) {
        self.types(&format!("{line}\r"));
        self.shows(&format!("\n{answer}"));
        self.shows("] ");
    }

    fn ends(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < DEADLINE, "it does not end: {}", self.screen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const CTRL_A: &str = "\x01";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_R: &str = "\x12";
const UP: &str = "\x1b[A";
const RIGHT: &str = "\x1b[C";
const DELETE: &str = "\x1b[3~";

/// The editor restores the terminal: bracketed paste is off again.
const LINE_IS_OVER: &str = "\x1b[?2004l";

/// CLI-09, CLI-16.
#[test]
fn lines_are_edited_completed_and_remembered() {
    let server = Server::start();
    let mut terminal = Terminal::open(&server);
    terminal.shows("JLine support is enabled");
    terminal.shows("] ");
    // A command and a path are completed.
    terminal.types("cre\t");
    terminal.shows("create ");
    terminal.answers("/application hello", "Created /application");
    terminal.types("get /app\t");
    terminal.shows("get /application");
    terminal.answers("", "hello");
    // Two candidates are listed.
    terminal.answers("create /applause x", "Created /applause");
    terminal.types("ls /a\t\t");
    terminal.shows("/applause");
    terminal.shows("/application");
    terminal.types(CTRL_C);
    terminal.shows(LINE_IS_OVER);
    terminal.shows("] ");
    // Earlier lines can be recalled, also by a part of their text.
    terminal.answers(&format!("{UP}{UP}"), "hello");
    terminal.types(&format!("{CTRL_R}hello"));
    terminal.shows("create /application hello");
    terminal.answers("", "\x1b[31mNode already exists: /application");
    // A typing error is corrected within the line.
    terminal.types("gxt /application");
    terminal.types(&format!("{CTRL_A}{RIGHT}{DELETE}e"));
    terminal.answers("", "hello");
    // A discarded line is not executed.
    terminal.types(&format!("nonsense{CTRL_C}"));
    terminal.shows(LINE_IS_OVER);
    terminal.shows("] ");
    terminal.answers("get /application", "hello");
    assert!(!terminal.screen.lock().unwrap().contains("Command not found"));
    terminal.answers("addauth digest me:secret", "");
    terminal.answers("getAllChildrenNumber /", "5");
    terminal.types(CTRL_D);
    assert_eq!(terminal.ends(), Some(0));
    // The next shell has the history, but no secrets.
    let history = fs::read_to_string(server.folder.path().join("zebu/shell_history")).unwrap();
    assert!(history.contains("getAllChildrenNumber /") && !history.contains("secret"), "{history}");
    let mut terminal = Terminal::open(&server);
    terminal.shows("] ");
    terminal.answers(UP, "5");
    // Ctrl-C in an empty line ends the shell.
    terminal.types(CTRL_C);
    assert_eq!(terminal.ends(), Some(0));
}

/// Lines that are typed during a command, or pasted together, are executed one after the other.
#[test]
fn no_line_is_lost() {
    let server = Server::start();
    let mut terminal = Terminal::open(&server);
    terminal.shows("] ");
    terminal.types("create /one\rcreate /two\rcreate /three\r");
    for path in ["/one", "/two", "/three"] {
        terminal.shows(&format!("\nCreated {path}"));
    }
    // As terminals mark pasted text.
    terminal.types("\x1b[200~create /four\rcreate /five \"a\rb\"\x1b[201~\r");
    for path in ["/four", "/five"] {
        terminal.shows(&format!("\nCreated {path}"));
    }
    terminal.types("quit\r");
    assert_eq!(terminal.ends(), Some(0));
    let names = "[five, four, one, three, two, zookeeper]\n";
    assert_eq!(server.run(&["-q", "ls", "/"]).1, names);
    assert_eq!(server.run(&["-q", "get", "/five"]).1, "a\nb\n");
}

/// A single command authenticates without showing the credentials to other users.
#[test]
fn single_commands_authenticate() {
    let server = Server::start();
    let amy = ["-auth", "digest:amy:secret"];
    assert_eq!(
        server.run(&[&amy[..], &["create", "/amys", "x", "auth::cdrwa"]].concat()).0,
        Some(0)
    );
    let (code, _, err) = server.run(&["-q", "get", "/amys"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("Insufficient permission : /amys"), "{err}");
    let mut command = server.shell(&["-q", "get", "/amys"]);
    command.env("ZEBU_AUTH", "digest:amy:secret");
    let (code, out, err) = finished(command.output().unwrap());
    assert_eq!((code, out.as_str()), (Some(0), "x\n"), "{err}");
    fs::write(server.folder.path().join("who"), "# amy\ndigest:amy:secret\n").unwrap();
    let (code, out, err) = server.run(&["-q", "-auth-file", "who", "get", "/amys"]);
    assert_eq!((code, out.as_str()), (Some(0), "x\n"), "{err}");
    let (code, _, err) = server.run(&["-auth", "amy", "get", "/amys"]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("-auth: not SCHEME:CREDENTIALS"), "{err}");
}

/// A user who waits for a connection learns the reason at once, and at the end again.
#[test]
fn a_server_that_refuses_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    // No server listens on port 1.
    let words = ["shell", "-q", "-server", "127.0.0.1:1", "-timeout", "2000", "get", "/"];
    command.args(words).current_dir(folder.path()).stdin(Stdio::null());
    let (code, _, err) = finished(command.output().unwrap());
    assert_eq!(code, Some(1));
    let why = "127.0.0.1:1: Connection refused (os error 111)";
    let expected =
        format!("no connection: {why}\nKeeperErrorCode = ConnectionLoss for /\nhint: {why}\n");
    assert_eq!(err, expected);
}

/// The short help shows the options, too.
#[test]
fn help_shows_the_options() {
    for flag in ["-h", "--help"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_zebu")).args(["shell", flag]).output().unwrap();
        let (code, out, _) = finished(output);
        assert_eq!(code, Some(0));
        for option in ["-server HOST:PORT", "-timeout MS", "-auth-file FILE", "-json"] {
            assert!(out.contains(option), "{flag}: {option} in {out}");
        }
    }
}

#[test]
fn events_are_shown_while_nothing_is_typed() {
    let server = Server::start();
    let mut terminal = Terminal::open(&server);
    terminal.shows("] ");
    terminal.answers("create /watched x", "Created /watched");
    terminal.answers("get -w /watched", "x");
    // A line that is being typed stays intact.
    terminal.types("getAll");
    assert_eq!(server.run(&["set", "/watched", "y"]).0, Some(0));
    terminal.shows("WATCHER::");
    terminal.shows("type:NodeDataChanged path:/watched");
    terminal.shows("getAll");
    terminal.answers("ChildrenNumber /watched", "0");
    // `follow` runs until Ctrl-C, which ends the command and not the shell.
    terminal.types("watch -v /watched\r");
    terminal.shows("following /watched");
    assert_eq!(server.run(&["create", "/watched/child", "new"]).0, Some(0));
    terminal.shows("/watched/child (version 0) new");
    terminal.types(CTRL_C);
    terminal.shows("interrupted");
    terminal.shows("] ");
    terminal.types("quit\r");
    terminal.shows("state:Closed");
    // Nothing was printed after the interrupted command.
    assert_eq!(terminal.ends(), Some(130));
}

#[test]
fn data_are_edited_unless_somebody_else_was_quicker() {
    let server = Server::start();
    let mut terminal = Terminal::open(&server);
    terminal.shows("] ");
    terminal.answers("create /text \"hello world\"", "Created /text");
    terminal.answers("edit /text", "saved as version 1");
    terminal.answers("get /text", "edited world");
    terminal.answers("edit /text", "nothing changed");
    drop(terminal);
    // A slow editor, and another client that changes the znode meanwhile.
    let editor = server.folder.path().join("editor.sh");
    let other = format!(
        "#!/bin/sh\nsed -i s/edited/mine/ \"$1\"\n{} shell -server {} -q set /text theirs\n",
        env!("CARGO_BIN_EXE_zebu"),
        server.address
    );
    fs::write(&editor, other).unwrap();
    let editor = format!("sh {}", editor.display());
    let output = server.shell(&["-q", "edit", "/text"]).env("VISUAL", editor).output().unwrap();
    let (code, _, err) = finished(output);
    assert_eq!(code, Some(1));
    assert!(
        err.starts_with("another client changed /text meanwhile\nhint: your text is in the file "),
        "{err}"
    );
    let kept = err.split("your text is in the file ").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine world");
    fs::remove_file(kept).unwrap();
    assert_eq!(server.run(&["-q", "get", "/text"]).1, "theirs\n");
}

#[test]
fn single_commands_say_what_they_did_by_their_exit_code() {
    let server = Server::start();
    let connecting = format!("Connecting to {}\n", server.address);
    let connected =
        "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null zxid: -1\n";
    let (code, out, err) = server.run(&["create", "/a", "some data"]);
    assert_eq!((code, out), (Some(0), format!("{connecting}{connected}")));
    assert_eq!(err, "Created /a\n");
    let (code, out, _) = server.run(&["get", "/a"]);
    assert_eq!((code, out), (Some(0), format!("{connecting}{connected}some data\n")));
    assert_eq!(server.run(&["-q", "get", "/none"]).0, Some(1));
    assert_eq!(server.run(&["-q", "nonsense"]).0, Some(127));
    let (code, out, err) = server.run(&["-nonsense", "ls", "/"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("no such option: -nonsense\nhint: "), "{err}");
    let (code, out, _) = server.run(&["--json", "get", "/a"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with('{') && out.contains("\"data\":\"some data\""), "{out}");
    // Binary data are written unchanged.
    assert_eq!(server.run(&["-q", "set", "-b", "/a", "/wA="]).0, Some(0));
    assert_eq!(server.shell(&["-q", "get", "/a"]).output().unwrap().stdout, b"\xff\x00\n");
    // The ephemeral znode is deleted with the command's session.
    assert_eq!(server.run(&["create", "-e", "/mine"]).0, Some(0));
    assert_eq!(server.run(&["-q", "ls", "/"]).1, "[a, zookeeper]\n");
}

#[test]
fn many_commands_come_through_a_pipe() {
    let server = Server::start();
    let (code, out, err) = server.pipe(&[], "create /a x\r\n\nget /a\nls /\nnonsense");
    assert_eq!(code, Some(127), "{err}");
    assert!(out.contains("Welcome to ZooKeeper!\nJLine support is disabled\n"), "{out}");
    assert!(out.ends_with("\nx\n[a, zookeeper]\n"), "{out}");
    let (code, out, _) = server.pipe(&["-q"], "create -e /mine\nget /none\nquit\nls /\n");
    // Lines after `quit` are not read. The exit code is that of the command before it.
    assert_eq!((code, out.as_str()), (Some(1), ""));
}

#[test]
fn nobody_waits_for_ever_for_a_server() {
    let folder = tempfile::tempdir().unwrap();
    // No server listens on a port that was just free.
    let port = zebu_testkit::ports::free_port();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.args(["shell", "-q", "-timeout", "300", "-server", &format!("127.0.0.1:{port}")]);
        finished(
            command
                .args(arguments)
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    };
    for arguments in [&["ls", "/"][..], &["-waitforconnection", "ls", "/"]] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(
            err.starts_with("KeeperErrorCode = ConnectionLoss") && err.contains("hint: "),
            "{err}"
        );
    }
    assert!(Path::new(folder.path()).read_dir().unwrap().next().is_none());
}

/// MWK-07 to MWK-10: master, worker and client, each in its own shell.
#[test]
fn masters_workers_and_clients_are_played_by_hand() {
    let server = Server::start();
    let open = || {
        let mut terminal = Terminal::open(&server);
        terminal.shows("type:None path:null");
        terminal.shows("] ");
        terminal
    };
    let told = |kind: &str, path: &str| {
        format!("WatchedEvent state:SyncConnected type:{kind} path:{path}")
    };
    // Errors and hints have colours, so the text of the line starts after an escape sequence.
    let says = |terminal: &mut Terminal, line: &str, answer: &str| {
        terminal.types(&format!("{line}\r"));
        terminal.shows(answer);
        terminal.shows("] ");
    };
    // One process is the master, the other one waits.
    let (mut first, mut master) = (open(), open());
    first.answers("create -e /master \"master1.example.com:2223\"", "Created /master");
    let create = "create -e /master \"master2.example.com:2223\"";
    says(&mut master, create, "Node already exists: /master");
    says(&mut master, "stat /master true", "'stat path [watch]' has been deprecated");
    first.types("quit\r");
    assert_eq!(first.ends(), Some(0));
    master.shows(&told("NodeDeleted", "/master"));
    master.answers("ls /", "[zookeeper]");
    master.answers(create, "Created /master");
    for parent in ["/workers", "/tasks", "/assign"] {
        master.answers(&format!("create {parent} \"\""), &format!("Created {parent}"));
    }
    says(&mut master, "ls /workers true", "'ls path [watch]' has been deprecated");
    says(&mut master, "ls /tasks true", "'ls path [watch]' has been deprecated");
    // A worker registers.
    let mut worker = open();
    let name = "worker1.example.com";
    let place = format!("/assign/{name}");
    worker.answers(
        &format!("create -e /workers/{name} \"{name}:2224\""),
        &format!("Created /workers/{name}"),
    );
    master.shows(&told("NodeChildrenChanged", "/workers"));
    master.answers("ls /workers", &format!("[{name}]"));
    worker.answers(&format!("create {place} \"\""), &format!("Created {place}"));
    worker.answers(&format!("ls -w {place}"), "[]");
    // A client submits a task.
    let mut client = open();
    let task = "task-0000000000";
    client.answers("create -s /tasks/task- \"cmd\"", &format!("Created /tasks/{task}"));
    client.answers(&format!("ls -w /tasks/{task}"), "[]");
    master.shows(&told("NodeChildrenChanged", "/tasks"));
    master.answers("ls /tasks", &format!("[{task}]"));
    master.answers("ls /workers", &format!("[{name}]"));
    master.answers(&format!("create {place}/{task} \"\""), &format!("Created {place}/{task}"));
    // The worker does the task.
    worker.shows(&told("NodeChildrenChanged", &place));
    worker.answers(&format!("ls {place}"), &format!("[{task}]"));
    let status = format!("/tasks/{task}/status");
    worker.answers(&format!("create {status} \"done\""), &format!("Created {status}"));
    client.shows(&told("NodeChildrenChanged", &format!("/tasks/{task}")));
    client.answers(&format!("get {status}"), "done");
}

/// API-26: the client's log goes to stderr on request, separate from the output of commands.
#[test]
fn the_clients_log_is_shown_where_it_is_asked_for() {
    let server = Server::start();
    let address = server.address.as_str();
    let (code, quiet, silence) = server.run(&["-q", "ls", "/"]);
    assert_eq!((code, silence.as_str()), (Some(0), ""));
    let (code, stdout, log) = server.run(&["-q", "-log", "info", "ls", "/"]);
    assert_eq!((code, &stdout), (Some(0), &quiet));
    for line in [
        "client environment: zebu-client ",
        &format!("opening a session with {address}, timeout 30000 ms"),
        &format!("opening a connection to {address}"),
        &format!("connected to {address} from 127.0.0.1:"),
        &format!("established on {address}, negotiated timeout 30000 ms"),
        "session over: Closed",
    ] {
        assert!(log.contains(line), "{line:?} in {log}");
    }
    let (code, _, log) = server.run(&["-q", "-log", "error", "ls", "/"]);
    assert_eq!((code, log.as_str()), (Some(0), ""));
}
