//! The test puts secrets into every place that accepts one, and searches all output of the server
//! for them.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use zebu_testkit::connection::{Connection, Hello, Incoming, Welcome};
use zebu_testkit::wire::{Writer, create, hex, op};

/// Far longer than any step should take.
const DEADLINE: Duration = Duration::from_secs(60);

/// The beginning of every secret, and of every part of one.
const MARK: &str = "Pl4nt";

/// The four-letter words.
const WORDS: [&str; 18] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "ruok", "stmk", "srst", "srvr", "stat",
    "wchc", "wchp", "wchs", "mntr", "isro", "hash",
];

fn zebu(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(arguments).current_dir(dir).env_clear().stdin(Stdio::null());
    // The most verbose log level.
    command.env("RUST_LOG", "trace").env("NO_COLOR", "1");
    command
}

/// The texts to search.
#[derive(Default)]
struct Heard(Vec<(String, Vec<u8>)>);

impl Heard {
    fn add(&mut self, what: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((what.into(), bytes.into()));
    }

    fn add_output(&mut self, what: &str, output: Output) {
        self.add(format!("stdout of {what}"), output.stdout);
        self.add(format!("stderr of {what}"), output.stderr);
    }

    /// Checks that no text contains a secret.
    fn holds_none_of(&self, secrets: &[(&str, Vec<u8>)]) {
        for (what, bytes) in &self.0 {
            for (which, secret) in secrets {
                let found = bytes.windows(secret.len()).any(|it| it == secret.as_slice());
                assert!(!found, "{what} shows {which}:\n{}", String::from_utf8_lossy(bytes));
            }
        }
    }

    fn text(&self, what: &str) -> String {
        let piece = self.0.iter().find(|(name, _)| name == what);
        let (_, bytes) = piece.unwrap_or_else(|| panic!("nothing was heard of {what}"));
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// A running server whose output goes to files.
struct Running {
    child: Child,
    client_port: u16,
    admin_port: u16,
    metrics_port: u16,
}

/// The number after a text in a growing file.
fn number_after(file: &Path, text: &str) -> u16 {
    let until = std::time::Instant::now() + DEADLINE;
    loop {
        let all = fs::read_to_string(file).unwrap_or_default();
        if let Some(at) = all.find(text) {
            let rest = &all[at + text.len()..];
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            if rest.len() > digits.len() {
                return digits.parse().unwrap();
            }
        }
        assert!(std::time::Instant::now() < until, "in vain: {text}: {all}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Running {
    fn start(dir: &Path) -> Self {
        let file = |name| fs::File::create(dir.join(name)).unwrap();
        let mut command = zebu(dir, &["server", "zoo.cfg", "--set", "clientPort=0"]);
        let command = command.stdout(file("stdout")).stderr(file("stderr"));
        let child = command.spawn().unwrap();
        let log = dir.join("stderr");
        Self {
            child,
            client_port: number_after(&dir.join("stdout"), "listening on 127.0.0.1:"),
            admin_port: number_after(&log, "commands are served over HTTP on port "),
            metrics_port: number_after(&log, "metrics are served over HTTP on port "),
        }
    }

    fn connect(&self, port: u16) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    fn ask(&self, port: u16, text: &str) -> Vec<u8> {
        let mut stream = self.connect(port);
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    fn get(&self, port: u16, path: &str, header: &str) -> Vec<u8> {
        self.ask(port, &format!("GET {path} HTTP/1.0\r\n{header}\r\n"))
    }

    /// A session, and the answer to its connect request.
    fn session(&self) -> (Connection, Welcome) {
        self.hello(&Hello::default())
    }

    fn hello(&self, hello: &Hello) -> (Connection, Welcome) {
        let mut connection = Connection::local(self.client_port).unwrap();
        connection.send(&hello.bytes()).unwrap();
        let answer = connection.frame().unwrap();
        (connection, Welcome::parse(&answer).unwrap())
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a failed test leaves the process running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn auth(connection: &mut Connection, scheme: &str, data: &str) -> Incoming {
    let request = Writer::request(-4, op::AUTH).int(0).string(scheme).string(data);
    connection.send(request.bytes()).unwrap();
    connection.receive().unwrap()
}

/// Creates a znode with the ACL of the client's own ids.
fn create_mine(connection: &mut Connection) -> Incoming {
    let body = create("/mine", b"data", &[(31, "auth", "")], 0);
    connection.send(Writer::request(1, op::CREATE).raw(body.bytes()).bytes()).unwrap();
    connection.receive().unwrap()
}

/// Configuration lines that all contain secrets.
fn settings(dir: &Path) -> String {
    fs::write(dir.join("session"), format!("{MARK}-session-0123456789abcdef0123456789")).unwrap();
    fs::write(dir.join("keystore"), format!("{MARK}-keystore\n")).unwrap();
    fs::write(
        dir.join("jaas.conf"),
        format!(
            "Server {{\n org.apache.zookeeper.server.auth.DigestLoginModule required\n \
             user_super=\"{MARK}-super\"\n user_amy=\"{MARK}-amy\";\n}};\n"
        ),
    )
    .unwrap();
    let mut lines = format!(
        "dataDir=data\nclientPort=2181\nclientPortAddress=127.0.0.1\n4lw.commands.whitelist=*\n\
         admin.serverAddress=127.0.0.1\nadmin.serverPort=0\nadmin.rateLimiterIntervalInMS=0\n\
         metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=0\n\
         DigestAuthenticationProvider.superDigest=super:{MARK}superdigest=\n\
         SASLAuthenticationProvider.superPassword={MARK}-superpassword\n\
         zebu.sessionSecretFile=session\n\
         authProvider.1=unix:desk:{}\n\
         authProvider.2=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
         java.security.auth.login.config=jaas.conf\n",
        dir.join("desk.sock").display()
    );
    for name in ["ssl", "ssl.quorum"] {
        for store in ["keyStore", "trustStore"] {
            writeln!(lines, "{name}.{store}.password={MARK}-{name}-{store}").unwrap();
        }
    }
    lines
}

/// A broken authentication program, which repeats the question in its answer.
fn program(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut question = [0; 1024];
            let count = stream.read(&mut question).unwrap_or(0);
            let _ = stream.write_all(&question[..count]);
        }
    });
}

#[test]
fn nothing_that_is_said_holds_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("zoo.cfg"), settings(dir)).unwrap();
    program(&dir.join("desk.sock"));
    let mut heard = Heard::default();
    let check = zebu(dir, &["server", "--check", "zoo.cfg"]).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    heard.add_output("--check", check);
    // Typing errors that only cause warnings, a commented-out line, and an entry on two lines.
    let more = format!(
        "ssl.keystore.password={MARK}-slip\nDigestAuthenticationProvider.superdigest=super:{MARK}\n\
         # ssl.trustStore.password={MARK}-comment\n\
         SASLAuthenticationProvider.superPassword=\\\n {MARK}-two\n"
    );
    fs::write(dir.join("zoo.cfg"), settings(dir) + &more).unwrap();

    let running = Running::start(dir);
    let (mut client, Welcome { session, password, timeout_ms }) = running.session();
    let answered = auth(&mut client, "digest", &format!("amy:{MARK}-client"));
    assert!(matches!(answered, Incoming::Frame(_)), "{answered:?}");
    let answered = create_mine(&mut client);
    assert!(matches!(answered, Incoming::Frame(_)), "{answered:?}");
    // Refused by a program that repeats the question, and because of an unknown scheme.
    for scheme in ["desk", "nothing"] {
        let (mut other, _) = running.session();
        auth(&mut other, scheme, &format!("amy:{MARK}-{scheme}"));
    }
    // An invalid SASL token.
    let (mut other, _) = running.session();
    let token = format!("username=\"amy\",response=\"{MARK}\"");
    other.send(Writer::request(3, op::SASL).string(&token).bytes()).unwrap();
    other.receive().unwrap();
    // A resumed session.
    running.hello(&Hello::renewal(timeout_ms, session, &password));

    for word in WORDS {
        // A log mask applies to one of them.
        let mask = if word == "stmk" { "\0\0\0\0\0\0\0\0" } else { "" };
        heard.add(word, running.ask(running.client_port, &format!("{word}{mask}")));
    }
    let list = running.get(running.admin_port, "/commands", "");
    let list = String::from_utf8_lossy(&list).into_owned();
    let commands: Vec<&str> =
        list.split("href=\"").skip(1).filter_map(|link| link.split('"').next()).collect();
    assert!(commands.len() > 20, "{list}");
    let header = format!("Authorization: digest root:{MARK}-http\r\n");
    for path in commands {
        // A snapshot contains the tree, so it contains ids.
        if !path.ends_with("/snapshot") {
            let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
            heard.add(path.clone(), running.get(running.admin_port, &path, &header));
        }
    }
    let header = format!("Authorization: desk root:{MARK}-http\r\n");
    heard.add("a refusal", running.get(running.admin_port, "/commands/snapshot", &header));
    heard.add("metrics", running.get(running.metrics_port, "/metrics", ""));
    let pid = running.child.id();
    for file in ["cmdline", "environ", "comm"] {
        heard.add(file, fs::read(format!("/proc/{pid}/{file}")).unwrap());
    }
    running.end();
    for file in ["stdout", "stderr"] {
        heard.add(file, fs::read(dir.join(file)).unwrap());
    }
    // The secret was received at all.
    assert!(heard.text("conf").contains("dataDir="), "{}", heard.text("conf"));
    assert!(heard.text("stderr").contains("TRACE"), "{}", heard.text("stderr"));
    assert!(heard.text("stderr").contains("fails to authenticate"), "{}", heard.text("stderr"));
    assert!(heard.text("metrics").contains("znode_count"), "{}", heard.text("metrics"));
    heard.holds_none_of(&[
        ("a planted secret", MARK.into()),
        // `echo -n Pl4nt | base64`, without its end, which depends on the text after it.
        ("a planted secret in Base64", "UGw0bn".into()),
        ("the password of a session", password.clone()),
        ("the password of a session in hex", hex(&password).into()),
        ("the password of a session as bytes", format!("{password:?}")[1..].into()),
    ]);
}

#[test]
fn no_fault_of_a_configuration_shows_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let good = settings(dir);
    let jaas = |file: &str, text: &str| {
        fs::write(dir.join(file), text).unwrap();
        format!("{good}java.security.auth.login.config={file}\n")
    };
    let tls = |store: &str| {
        format!(
            "{good}secureClientPort=2281\nssl.keyStore.location={store}\nssl.trustStore.location={store}\n"
        )
    };
    fs::write(dir.join("store.p12"), b"no store at all").unwrap();
    fs::write(
        dir.join("store.pem"),
        format!(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n{MARK}\n-----END ENCRYPTED PRIVATE KEY-----\n"
        ),
    )
    .unwrap();
    fs::write(dir.join("short"), format!("{MARK}-short")).unwrap();
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let mut heard = Heard::default();
    for (what, text) in [
        ("a store that is missing", tls("missing.p12")),
        ("a store that is none", tls("store.p12")),
        ("a key that is none", tls("store.pem")),
        ("a session secret that is short", format!("{good}zebu.sessionSecretFile=short\n")),
        (
            "an open quote",
            jaas("broken1.conf", &format!("Server {{ {module} user_amy=\"{MARK}; }};")),
        ),
        (
            "no end",
            jaas(
                "broken2.conf",
                &format!("Server {{ {module} user_amy=\"{MARK}\" user_bob={MARK}"),
            ),
        ),
        (
            "no equals",
            jaas("broken3.conf", &format!("Server {{ {module} user_amy \"{MARK}\"; }};")),
        ),
        ("no module", jaas("broken4.conf", &format!("Server {{ user_amy=\"{MARK}\"; }};"))),
        ("a slip", format!("{good}DigestAuthenticationProvider.superDigst=super:{MARK}\n")),
        ("another slip", format!("{good}ssl.keystore.password={MARK}\n")),
        ("a third slip", format!("{good}ssl.keyStore.passwort={MARK}\n")),
    ] {
        // Key stores are opened only at a start.
        let is_start = text.contains("secureClientPort");
        fs::write(dir.join("zoo.cfg"), text).unwrap();
        let mut command = zebu(dir, &["server", "zoo.cfg"]);
        if !is_start {
            command.arg("--check");
        }
        let output = command.output().unwrap();
        assert!(matches!(output.status.code(), Some(1..=3)), "{what}: {:?}", output.status);
        heard.add_output(what, output);
    }
    // On the command line and in the environment, only the operator can protect a secret.
    fs::write(dir.join("zoo.cfg"), &good).unwrap();
    let set = format!("ssl.keyStore.password={MARK}");
    let define = format!("-Dzookeeper.ssl.trustStore.password={MARK}");
    let mut command = zebu(dir, &["server", "--check", "zoo.cfg", &define, "--set", &set]);
    let flags =
        format!("-Dzookeeper.ssl.quorum.keyStore.password={MARK} -Xmx1g -Dmy.password={MARK}");
    heard.add_output("arguments", command.env("JVMFLAGS", flags).output().unwrap());
    heard.holds_none_of(&[("a planted secret", MARK.into())]);
}
