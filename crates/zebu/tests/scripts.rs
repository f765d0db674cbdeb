//! The scripts in `bin`, called as other programs call them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use zebu_testkit::ports;

/// A folder for a configuration, data and logs, and a port.
struct Place {
    folder: TempDir,
    port: u16,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = ports::free_port();
        let place = Self { folder, port };
        fs::create_dir(place.path("conf")).unwrap();
        let lines = format!(
            "dataDir = {}\nclientPort={port}\nclientPortAddress=127.0.0.1\npreAllocSize=64\n",
            place.path("data").display()
        );
        fs::write(place.path("conf/zoo.cfg"), lines).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a script. Returns exit code, stdout and stderr.
    fn run(&self, script: &str, arguments: &[&str]) -> (i32, String, String) {
        self.run_with(script, arguments, &[])
    }

    fn run_with(
        &self,
        script: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> (i32, String, String) {
        let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin").canonicalize().unwrap();
        let output = Command::new(bin.join(script))
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("ZEBU", env!("CARGO_BIN_EXE_zebu"))
            .env("ZOOCFGDIR", self.path("conf"))
            .env("ZOO_LOG_DIR", self.path("logs"))
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn server(&self, arguments: &[&str]) -> (i32, String) {
        let (code, out, err) = self.run("zkServer.sh", arguments);
        let config = self.path("conf/zoo.cfg").display().to_string();
        assert!(err.starts_with("ZooKeeper JMX enabled by default\nUsing config: "), "{err}");
        assert!(err.contains(&format!("Using config: {config}\n")), "{err}");
        (code, out)
    }

    fn wait_until_serving(&self) {
        // A busy machine needs time.
        for _ in 0..600 {
            if self.server(&["status"]).0 == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("it does not serve: {}", self.log());
    }

    fn log(&self) -> String {
        let logs = fs::read_dir(self.path("logs")).unwrap();
        logs.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Also after a failed test.
        self.run("zkServer.sh", &["stop"]);
    }
}

/// CLI-01, CLI-03.
#[test]
fn a_server_is_started_looked_after_and_stopped() {
    let place = Place::new();
    let pid_file = place.path("data/zookeeper_server.pid");
    let found = format!(
        "Client port found: {}. Client address: 127.0.0.1. Client SSL: false.\n",
        place.port
    );
    let none = format!("{found}Error contacting service. It is probably not running.\n");
    assert_eq!(place.server(&["status"]), (1, none.clone()));
    let nothing = format!(
        "Stopping zookeeper ... no zookeeper to stop (could not find file {})\n",
        pid_file.display()
    );
    assert_eq!(place.server(&["stop"]), (0, nothing));

    assert_eq!(place.server(&["start"]), (0, "Starting zookeeper ... STARTED\n".to_owned()));
    let pid = fs::read_to_string(&pid_file).unwrap();
    let again = format!("Starting zookeeper ... already running as process {pid}.\n");
    assert_eq!(place.server(&["start"]), (1, again));
    place.wait_until_serving();
    assert_eq!(place.server(&["status"]), (0, format!("{found}Mode: standalone\n")));

    let server = format!("127.0.0.1:{}", place.port);
    let (code, out, _) = place.run("zkCli.sh", &["-server", &server, "-q", "ls", "/"]);
    assert_eq!((code, out.as_str()), (0, "[zookeeper]\n"));

    let restarted = "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n";
    assert_eq!(place.server(&["restart"]), (0, restarted.to_owned()));
    assert_ne!(fs::read_to_string(&pid_file).unwrap(), pid);
    assert_eq!(place.server(&["stop"]), (0, "Stopping zookeeper ... STOPPED\n".to_owned()));
    assert!(!pid_file.exists());
    assert_eq!(place.server(&["status"]), (1, none));
}

/// CLI-02, CLI-04 to CLI-06.
#[test]
fn a_server_runs_in_the_foreground_with_settings_from_files() {
    let place = Place::new();
    fs::write(
        place.path("conf/java.env"),
        "SERVER_JVMFLAGS=\"-Dzookeeper.4lw.commands.whitelist=ruok\"\n",
    )
    .unwrap();
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin/zkServer.sh");
    let mut child = Command::new(bin)
        .args(["--config", place.path("conf").to_str().unwrap(), "start-foreground"])
        .env("ZEBU", env!("CARGO_BIN_EXE_zebu"))
        .env("ZOO_LOG_DIR", place.path("logs"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    place.wait_until_serving();
    let word = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .args(["word", &format!("127.0.0.1:{}", place.port), "ruok"])
        .output()
        .unwrap();
    assert_eq!(word.stdout, b"imok");
    // The script has replaced itself by the server, so this stops the server.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.server(&["status"]).0, 1);
}

/// Debian's file `environment` names the directory of the configuration, the full path of
/// `zoo.cfg`, and a JVM. Its settings are in `JAVA_OPTS`.
#[test]
fn the_environment_of_debian_is_read() {
    let place = Place::new();
    let environment = "ZOOMAIN=org.apache.zookeeper.server.quorum.QuorumPeerMain\n\
        ZOOCFGDIR=/etc/zookeeper/elsewhere\nZOOCFG=/etc/zookeeper/conf/zoo.cfg\n\
        JMXLOCALONLY=true\nJAVA_OPTS=\"-Xmx1g -Dzookeeper.4lw.commands.whitelist=ruok\"\n";
    fs::write(place.path("conf/environment"), environment).unwrap();
    fs::write(place.path("conf/java.env"), "SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -Da=b\"\n").unwrap();
    let (code, out) = place.server(&["print-cmd"]);
    let settings = "env SERVER_JVMFLAGS=-Xmx1g\\ -Dzookeeper.4lw.commands.whitelist=ruok\\ -Da=b ";
    let command = format!("server \"{}\"", place.path("conf/zoo.cfg").display());
    assert_eq!(code, 0);
    assert!(out.starts_with(settings) && out.contains(&command), "{out}");
}

#[test]
fn a_server_that_cannot_start_says_where_the_reason_is() {
    let place = Place::new();
    fs::write(
        place.path("conf/zoo.cfg"),
        format!("dataDir={}\nclientPort=nonsense\n", place.path("data").display()),
    )
    .unwrap();
    let (code, out, err) = place.run("zkServer.sh", &["start"]);
    assert_eq!((code, out.as_str()), (1, "Starting zookeeper ... FAILED TO START\n"));
    assert!(err.contains("hint: "), "{err}");
    assert!(place.log().contains("clientPort"), "{}", place.log());
}

/// A reconfiguration moves the members to a separate file and removes the client port from
/// `zoo.cfg`. The scripts find the port in that file, from any working directory.
#[test]
fn a_server_is_looked_after_once_its_members_have_changed() {
    let place = Place::new();
    let [quorum, election, others, other, its] = ports::free().map(|port: u16| port.to_string());
    let client = place.port;
    fs::create_dir_all(place.path("data")).unwrap();
    fs::write(place.path("data/myid"), "1\n").unwrap();
    let lines = format!(
        "dataDir={}\npreAllocSize=64\ntickTime=200\ninitLimit=50\nsyncLimit=25\nadmin.enableServer=false\n\
         standaloneEnabled=false\nreconfigEnabled=true\nskipACL=yes\n\
         server.1=127.0.0.1:{quorum}:{election}:participant;127.0.0.1:{client}\n",
        place.path("data").display()
    );
    fs::write(place.path("conf/zoo.cfg"), lines).unwrap();
    assert_eq!(place.server(&["start"]).0, 0, "{}", place.log());
    place.wait_until_serving();

    let server = format!("127.0.0.1:{client}");
    let joining = format!("server.2=127.0.0.1:{others}:{other}:observer;127.0.0.1:{its}");
    let (code, out, err) =
        place.run("zkCli.sh", &["-server", &server, "-q", "reconfig", "-add", &joining]);
    assert_eq!(code, 0, "{out}{err}");
    let config = fs::read_to_string(place.path("conf/zoo.cfg")).unwrap();
    assert!(!config.contains("server.1="), "{config}");
    let dynamic = config.lines().find_map(|line| line.strip_prefix("dynamicConfigFile="));
    assert!(Path::new(dynamic.unwrap()).is_absolute(), "{config}");

    let found = format!(
        "Client port not found in static config file. Looking in dynamic config file.\n\
         Client port found: {client}. Client address: 127.0.0.1. Client SSL: false.\nMode: leader\n"
    );
    assert_eq!(place.server(&["status"]), (0, found.clone()));
    assert_eq!(place.server(&["restart"]).0, 0, "{}", place.log());
    place.wait_until_serving();
    assert_eq!(place.server(&["status"]), (0, found));
}

#[test]
fn the_client_port_is_found_wherever_it_is() {
    let place = Place::new();
    let status = |lines: &str| {
        let data = place.path("data");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("myid"), "2\n").unwrap();
        fs::write(place.path("conf/zoo.cfg"), format!("dataDir={}\n{lines}", data.display()))
            .unwrap();
        place.server(&["status"]).1
    };
    let dynamic = place.path("conf/zoo.cfg.dynamic");
    fs::write(&dynamic, "server.1=a:1:2;3\nserver.2=b:1:2:participant;[::1]:7\n").unwrap();
    let found = |port, address| {
        format!("Client port found: {port}. Client address: {address}. Client SSL: false.\n")
    };
    assert!(status("server.1=a:1:2;3\nserver.2=b:1:2;4\n").starts_with(&found(4, "localhost")));
    assert!(status("server.2=b:1:2;127.0.0.1:5\n").starts_with(&found(5, "127.0.0.1")));
    let text = status(&format!("dynamicConfigFile={}\n", dynamic.display()));
    assert!(
        text.starts_with(
            "Client port not found in static config file. Looking in dynamic config file.\n"
        ),
        "{text}"
    );
    assert!(text.contains(&found(7, "::1")), "{text}");
    let text = status("secureClientPort=9\n");
    assert!(
        text.contains("Client port found: 9. Client address: localhost. Client SSL: true.\n"),
        "{text}"
    );
    let text = status("");
    assert!(
        text.ends_with(
            "Unable to find either secure or unsecure client port in any configs. Terminating.\n"
        ),
        "{text}"
    );
}

#[test]
fn commands_that_ask_create_no_directories() {
    let place = Place::new();
    for command in ["status", "stop", "print-cmd", "version"] {
        place.server(&[command]);
        for name in ["data", "logs"] {
            assert!(!place.path(name).exists(), "{command} creates {name}");
        }
    }
}

/// Without `dataDir` the pid file is beside the logs, and the reason is said in words.
#[test]
fn a_configuration_without_a_data_directory_is_named() {
    let place = Place::new();
    let pid_file = place.path("logs/zookeeper_server.pid");
    let nothing = format!("(could not find file {})\n", pid_file.display());
    let reasons = [(None, "zoo.cfg"), (Some("clientPort=0\n"), "dataDir")];
    for (lines, reason) in reasons {
        match lines {
            Some(lines) => fs::write(place.path("conf/zoo.cfg"), lines).unwrap(),
            None => fs::remove_file(place.path("conf/zoo.cfg")).unwrap(),
        }
        let (code, out, err) = place.run("zkServer.sh", &["stop"]);
        assert_eq!((code, out.ends_with(&nothing)), (0, true), "{out}");
        assert!(!err.contains("grep"), "{err}");
        let (code, out, err) = place.run("zkServer.sh", &["start"]);
        assert_eq!((code, out.as_str()), (1, "Starting zookeeper ... FAILED TO START\n"));
        assert!(!err.contains("grep") && err.contains("hint: "), "{err}");
        assert!(place.log().contains(reason), "{}", place.log());
        // Like the original's, a failed start leaves its pid file behind.
        fs::remove_file(&pid_file).unwrap();
    }
}

#[test]
fn a_script_is_found_through_links() {
    let place = Place::new();
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin").canonicalize().unwrap();
    let links = ["first", "second"].map(|name| place.path(name));
    std::os::unix::fs::symlink(bin.join("zkServer.sh"), &links[0]).unwrap();
    std::os::unix::fs::symlink("first", &links[1]).unwrap();
    let script = links[1].display().to_string();
    // An absolute path takes the place of the directory.
    let (code, out, err) = place.run(&script, &["version"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("Apache ZooKeeper, version 3.9.5-"), "{out}");
}

#[test]
fn what_is_run_is_printed() {
    let place = Place::new();
    let (code, out) = place.server(&["print-cmd"]);
    let (zebu, config) = (env!("CARGO_BIN_EXE_zebu"), place.path("conf/zoo.cfg"));
    assert_eq!(code, 0);
    assert!(out.starts_with(&format!("\"{zebu}\" server \"{}\" > ", config.display())), "{out}");
    // The user of the script need not know where the settings come from.
    let settings = [("JVMFLAGS", "-Da=b -Dc=d")];
    let (_, out, _) = place.run_with("zkServer.sh", &["print-cmd"], &settings);
    let command = format!("env JVMFLAGS=-Da=b\\ -Dc=d \"{zebu}\" server \"");
    assert!(out.starts_with(&command), "{out}");
    let (code, out) = place.server(&["version"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("Apache ZooKeeper, version 3.9.5-"), "{out}");
    let (code, _, err) = place.run("zkServer.sh", &[]);
    assert_eq!(code, 0);
    assert!(err.contains("zkServer.sh [--config <conf-dir>] {start|start-foreground|stop|version|restart|status|print-cmd}"), "{err}");
    // A configuration is named by its path, or by its name within the directory.
    fs::copy(&config, place.path("conf/other.cfg")).unwrap();
    for name in ["other.cfg", "./conf/other.cfg"] {
        let (_, out, err) = place.run("zkServer.sh", &["print-cmd", name]);
        assert!(out.contains("other.cfg\" > ") && err.contains("other.cfg\n"), "{out}{err}");
    }
    let (code, _, err) = place.run_with("zkServer.sh", &["version"], &[("ZEBU", "/no/where")]);
    assert_eq!(code, 1);
    assert!(err.contains("could not be found"), "{err}");
}

#[test]
fn variables_for_a_jvm_have_no_effect() {
    let place = Place::new();
    let (_, plain) = place.server(&["print-cmd"]);
    let variables = [
        ("JMXPORT", "1099"),
        ("JMXLOCALONLY", "false"),
        ("ZOO_LOG_FILE", "other.log"),
        ("ZK_SERVER_HEAP", "9000"),
        ("ZK_CLIENT_HEAP", "9000"),
        ("JAVA_HOME", "/no/where"),
    ];
    let (code, out, err) = place.run_with("zkServer.sh", &["print-cmd"], &variables);
    assert_eq!((code, out), (0, plain), "{err}");
}

#[test]
fn the_environment_names_zebu_and_no_jvm() {
    let place = Place::new();
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin");
    let script = ". \"$ZOOBINDIR/zkEnv.sh\"; echo \"$ZEBU|$JAVA|$CLASSPATH\"";
    let output = Command::new("bash")
        .args(["-c", script])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("ZOOBINDIR", bin)
        .env("ZOOCFGDIR", place.path("conf"))
        .env("ZEBU", env!("CARGO_BIN_EXE_zebu"))
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shown, format!("{}||\n", env!("CARGO_BIN_EXE_zebu")));
}

#[test]
fn tools_report_an_error_in_one_line() {
    let place = Place::new();
    for script in ["zkTxnLogToolkit.sh", "zkSnapShotToolkit.sh"] {
        let (code, out, err) = place.run(script, &["/no/such/file"]);
        assert_ne!(code, 0, "{script}");
        assert_eq!(out, "", "{script}");
        assert!(err.lines().count() == 1 && err.contains("/no/such/file"), "{script}: {err}");
    }
}

#[test]
fn directories_are_initialized_once() {
    let place = Place::new();
    let data = place.path("data");
    let run = |arguments: &[&str]| {
        let (code, out, _) = place.run("zkServer-initialize.sh", arguments);
        (code, out)
    };
    let text = |name: &str| fs::read_to_string(data.join(name)).unwrap();
    assert_eq!(run(&["--myid=3"]), (0, "Using myid of 3\n".to_owned()));
    assert_eq!((text("myid").as_str(), text("initialize").as_str()), ("3\n", ""));
    fs::write(data.join("version-2/log.1"), "old").unwrap();
    let refused = format!(
        "ZooKeeper data directory already exists at {} (or use --force to force re-initialization)\n",
        data.display()
    );
    assert_eq!(run(&[]), (1, refused));
    assert!(data.join("version-2/log.1").exists());
    let forced = format!(
        "Force enabled, data/txnlog directories will be re-initialized\n\
         No myid provided, be sure to specify it in {}/myid if using non-standalone\n",
        data.display()
    );
    assert_eq!(run(&["--force"]), (0, forced));
    assert!(!data.join("version-2/log.1").exists() && !data.join("myid").exists());
    assert_eq!(
        run(&["--configfile=/no/where"]),
        (1, "Unable to find config file at /no/where\n".to_owned())
    );
    let (code, out) = run(&["--nonsense"]);
    assert_eq!(code, 1);
    assert!(
        out.starts_with("Unknown option: --nonsense\nusage: ") && out.contains("     --myid=#    "),
        "{out}"
    );
}

/// CLI-07.
#[test]
fn old_files_are_cleaned_up() {
    let place = Place::new();
    let (code, out, err) = place.run("zkCleanup.sh", &["-n", "2"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("does not exist") && out.starts_with("Usage:\nPurgeTxnLog dataLogDir"),
        "{out}{err}"
    );
    let dir = place.path("data/version-2");
    fs::create_dir_all(&dir).unwrap();
    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/zookeeper-3.9.5/basic/version-2/snapshot.48");
    for zxid in 1..=4 {
        fs::copy(&snapshot, dir.join(format!("snapshot.{zxid}"))).unwrap();
    }
    let (code, _, err) = place.run("zkCleanup.sh", &["-n", "2"]);
    assert_eq!(code, 1);
    assert!(err.contains("count should be greater than or equal to 3"), "{err}");
    let (code, out, err) = place.run("zkCleanup.sh", &["-n"]);
    assert!(code == 1 && err.is_empty() && out.starts_with("Usage:\n"), "{out}{err}");
    let (code, out, err) = place.run("zkCleanup.sh", &["-n", "3"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("Removing file: ") && out.ends_with("/snapshot.1\n"), "{out}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
}

#[test]
fn logs_and_snapshots_are_shown_under_the_old_names() {
    let place = Place::new();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/zookeeper-3.8.0");
    let (log, snapshot) = (
        format!("{fixtures}/basic/version-2/log.3d"),
        format!("{fixtures}/basic/version-2/snapshot.3c"),
    );
    let (code, out, _) = place.run("zkTxnLogToolkit.sh", &["-d", &log]);
    assert!(code == 0 && out.ends_with("EOF reached after 12 txns.\n"), "{out}");
    let (code, out, _) = place.run("zkSnapShotToolkit.sh", &[&snapshot]);
    assert!(code == 0 && out.ends_with("Last zxid: 0x3c\n"), "{out}");
    let (code, out, _) = place.run("zkSnapShotToolkit.sh", &["-json", &snapshot]);
    assert!(code == 0 && out.starts_with("[1,0,{"), "{out}");
    let (code, out, _) = place.run("zkSnapshotRecursiveSummaryToolkit.sh", &[&snapshot, "/q", "0"]);
    assert_eq!((code, out.as_str()), (0, " /q\n   children: 2\n   data: 13\n\n"));
    let same = ["-l", &snapshot, "-r", &snapshot, "-b", "0", "-n", "0"];
    let (code, out, _) = place.run("zkSnapshotComparer.sh", &same);
    assert!(code == 0 && out.ends_with("All layers compared.\n"), "{out}");
    let (code, out, errors) = place.run("zkSnapshotComparer.sh", &same[..4]);
    assert!(code == 2 && out.is_empty() && errors.contains("--bytes"), "{errors}");
}

#[test]
fn the_scripts_for_windows_call_commands_that_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/windows");
    let mut called = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(text.split_inclusive('\n').all(|line| line.ends_with("\r\n")), "{name}");
        let lines = text.lines().filter_map(|line| line.strip_prefix("%ZEBU% "));
        let commands: Vec<_> = lines.map(|line| line.split(['%', '"']).next().unwrap()).collect();
        match name.as_str() {
            "zkEnv.cmd" => assert!(commands.is_empty()),
            _ => assert!(
                text.contains("call \"%~dp0zkEnv.cmd\"\r\nif errorlevel 1 exit /b 1\r\n"),
                "{name}"
            ),
        }
        called
            .extend(commands.into_iter().map(|command| (name.clone(), command.trim().to_owned())));
    }
    called.sort();
    let expected = [
        ("zkCli.cmd", "shell"),
        ("zkServer.cmd", "server"),
        ("zkSnapShotToolkit.cmd", "snapshot show"),
        ("zkSnapshotComparer.cmd", "snapshot compare"),
        ("zkSnapshotRecursiveSummaryToolkit.cmd", "snapshot summary"),
        ("zkTxnLogToolkit.cmd", "log"),
    ];
    assert!(called.iter().map(|(name, command)| (&**name, &**command)).eq(expected), "{called:?}");
    for (name, command) in called {
        let help = Command::new(env!("CARGO_BIN_EXE_zebu"))
            .args(command.split(' '))
            .arg("--help")
            .output()
            .unwrap();
        assert!(help.status.success(), "{name}: zebu {command} --help: {help:?}");
    }
}
