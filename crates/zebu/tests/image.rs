//! The entry point of the container image: the configuration that it makes of environment
//! variables.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A container's directories.
struct Container {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl Container {
    fn new(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["conf", "data", "programs"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { variables: variables.collect(), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Runs the entry point with this command. Returns exit code, stdout and stderr.
    fn run(&self, command: &[&str]) -> (i32, String, String) {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/image/docker-entrypoint.sh");
        let path = std::env::var("PATH").unwrap();
        let output = Command::new(script)
            .args(command)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("programs").display()))
            .env("ZOO_CONF_DIR", self.path("conf"))
            .env("ZOO_DATA_DIR", self.path("data"))
            .env("ZEBU_BITNAMI_DIR", self.path("bitnami"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// The lines of `zoo.cfg`, which the server accepts.
    fn configuration(&self) -> BTreeMap<String, String> {
        let config = self.path("conf/zoo.cfg");
        let check = [env!("CARGO_BIN_EXE_zebu"), "server", "--check", config.to_str().unwrap()];
        let (code, _, stderr) = self.run(&check);
        assert_eq!(code, 0, "{stderr}");
        assert!(!stderr.contains("WARN"), "{stderr}");
        let text = fs::read_to_string(&config).unwrap();
        let lines = text.lines().map(|line| line.split_once('=').expect("key=value"));
        lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// The message if it does not start.
    #[track_caller]
    fn refusal(&self) -> String {
        let (code, _, stderr) = self.run(&["true"]);
        assert_eq!(code, 2, "{stderr}");
        stderr
    }

    fn member(&self) -> String {
        fs::read_to_string(self.path("data/myid")).unwrap().trim().to_owned()
    }
}

/// The lines that the official image writes without any variable.
#[test]
fn without_variables_it_is_as_the_official_image() {
    let container = Container::new(&[]);
    let data = container.path("data").display().to_string();
    let expected = [
        ("dataDir", data.as_str()),
        ("tickTime", "2000"),
        ("initLimit", "5"),
        ("syncLimit", "2"),
        ("autopurge.snapRetainCount", "3"),
        ("autopurge.purgeInterval", "0"),
        ("maxClientCnxns", "60"),
        ("admin.enableServer", "true"),
        ("admin.serverAddress", "0.0.0.0"),
        ("server.1", "localhost:2888:3888;2181"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(container.configuration(), BTreeMap::from(expected));
    assert_eq!(container.member(), "1");
}

#[test]
fn the_official_variables_are_lines_of_the_configuration() {
    let container = Container::new(&[
        ("ZOO_MY_ID", "2"),
        ("ZOO_SERVERS", "server.1=zoo1:2888:3888;2181 server.2=zoo2:2888:3888;2182"),
        ("ZOO_TICK_TIME", "1000"),
        ("ZOO_STANDALONE_ENABLED", "false"),
        ("ZOO_ADMINSERVER_ENABLED", "false"),
        ("ZOO_4LW_COMMANDS_WHITELIST", "srvr,mntr"),
        ("ZOO_CFG_EXTRA", "snapCount=5000 preAllocSize=100"),
        // Variables of Kubernetes, and of users who come from a JVM.
        ("ZOO_SERVICE_HOST", "10.0.0.1"),
        ("ZOO_PORT_2181_TCP_ADDR", "10.0.0.1"),
        ("ZOO_HEAP_SIZE", "512"),
    ]);
    let lines = container.configuration();
    let value = |key: &str| lines.get(key).map(String::as_str);
    assert_eq!(value("server.2"), Some("zoo2:2888:3888;2182"));
    assert_eq!(value("tickTime"), Some("1000"));
    assert_eq!(value("standaloneEnabled"), Some("false"));
    assert_eq!(value("admin.enableServer"), Some("false"));
    assert_eq!(value("4lw.commands.whitelist"), Some("srvr,mntr"));
    assert_eq!((value("snapCount"), value("preAllocSize")), (Some("5000"), Some("100")));
    assert_eq!(container.member(), "2");
    let (_, _, stderr) = container.run(&["true"]);
    assert!(stderr.contains("ZOO_HEAP_SIZE has no effect"), "{stderr}");
}

#[test]
fn bitnamis_variables_are_known_as_well() {
    let container = Container::new(&[
        ("ALLOW_ANONYMOUS_LOGIN", "yes"),
        ("ZOO_SERVER_ID", "7"),
        ("ZOO_PORT_NUMBER", "12181"),
        (
            "ZOO_SERVERS",
            "a:2888:3888::3, [fd00::7]:2888:3888:observer::7;c:2888:3888:participant::9",
        ),
        ("ZOO_MAX_CNXNS", "100"),
        ("ZOO_AUTOPURGE_INTERVAL", "4"),
        ("ZOO_ENABLE_PROMETHEUS_METRICS", "yes"),
        ("ZOO_CFG_snapCount", "1234"),
        ("ZOO_CFG_zebu_preAllocAdaptive", "true"),
    ]);
    let lines = container.configuration();
    let value = |key: &str| lines.get(key).map(String::as_str);
    assert_eq!(value("server.3"), Some("a:2888:3888;12181"));
    assert_eq!(value("server.7"), Some("[fd00::7]:2888:3888:observer;12181"));
    assert_eq!(value("server.9"), Some("c:2888:3888:participant;12181"));
    assert_eq!(value("clientPort"), Some("12181"));
    assert_eq!((value("initLimit"), value("syncLimit")), (Some("10"), Some("5")));
    assert_eq!(value("4lw.commands.whitelist"), Some("srvr, mntr"));
    assert_eq!(value("admin.enableServer"), Some("false"));
    assert_eq!(value("autopurge.purgeInterval"), Some("4"));
    assert_eq!(value("metricsProvider.httpPort"), Some("7000"));
    assert_eq!(value("snapCount"), Some("1234"));
    assert_eq!(value("zebu.preAllocAdaptive"), Some("true"));
    assert_eq!(container.member(), "7");
}

/// As in Bitnami's image, whose users rely on it.
#[test]
fn with_bitnamis_variables_nobody_comes_in_without_a_password_by_accident() {
    let refused = Container::new(&[("ZOO_SERVER_ID", "1")]).refusal();
    assert!(refused.contains("ALLOW_EMPTY_PASSWORD"), "{refused}");
}

#[test]
fn users_and_passwords_come_from_files_into_a_file_that_only_the_server_reads() {
    let container = Container::new(&[("ZOO_ENABLE_AUTH", "yes"), ("ZOO_SERVER_USERS", "amy,bob")]);
    fs::write(container.path("secret"), "a\"b\\c, second\n").unwrap();
    let secret = container.path("secret").display().to_string();
    let container = container.with("ZOO_SERVER_PASSWORDS_FILE", secret);
    assert_eq!(container.configuration()["sessionRequireClientSASLAuth"], "true");
    let file = container.path("conf/zoo_jaas.conf");
    let logins = fs::read_to_string(&file).unwrap();
    assert!(logins.contains("    user_amy=\"a\\\"b\\\\c\"\n    user_bob=\"second\"\n"), "{logins}");
    for file in [file, container.path("conf/zoo.cfg")] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // The server and the shell find the file.
    let (_, stdout, _) = container.run(&["printenv", "SERVER_JVMFLAGS", "CLIENT_JVMFLAGS"]);
    assert_eq!(stdout.matches("-Djava.security.auth.login.config=").count(), 2, "{stdout}");

    let missing = Container::new(&[("ZOO_SERVER_PASSWORDS_FILE", "/no/where")]).refusal();
    assert!(missing.starts_with("error: ZOO_SERVER_PASSWORDS_FILE: /no/where cannot be read"));
    let odd =
        [("ZOO_ENABLE_AUTH", "yes"), ("ZOO_SERVER_USERS", "a b"), ("ZOO_SERVER_PASSWORDS", "x")];
    let odd = Container::new(&odd).refusal();
    assert!(odd.contains("there are 2 users and 1 passwords"), "{odd}");
}

#[test]
fn stores_are_named_by_variables_that_end_with_file() {
    let container = Container::new(&[
        ("ALLOW_EMPTY_PASSWORD", "yes"),
        ("ZOO_TLS_CLIENT_ENABLE", "true"),
        ("ZOO_TLS_CLIENT_KEYSTORE_FILE", "/certs/key.jks"),
        ("ZOO_TLS_CLIENT_TRUSTSTORE_FILE", "/certs/trust.jks"),
        ("ZOO_TLS_CLIENT_KEYSTORE_PASSWORD", "secret"),
    ]);
    assert_eq!(container.run(&["true"]).0, 0);
    let text = fs::read_to_string(container.path("conf/zoo.cfg")).unwrap();
    assert!(text.contains("secureClientPort=3181\nssl.clientAuth=need\n"), "{text}");
    assert!(text.contains("ssl.keyStore.location=/certs/key.jks\nssl.keyStore.password=secret\n"));
    assert!(text.contains("ssl.trustStore.location=/certs/trust.jks\n"), "{text}");
    assert!(!text.contains("clientPort=2181"), "{text}");
}

#[test]
fn what_is_there_already_is_kept() {
    let container = Container::new(&[("ZOO_TICK_TIME", "1")]);
    fs::write(container.path("conf/zoo.cfg"), "mine\n").unwrap();
    fs::write(container.path("data/myid"), "4\n").unwrap();
    assert_eq!(container.run(&["true"]).0, 0);
    assert_eq!(fs::read_to_string(container.path("conf/zoo.cfg")).unwrap(), "mine\n");
    assert_eq!(container.member(), "4");
}

/// The volume of another member, as after a stateful set was scaled down and up again.
#[test]
fn the_volume_of_another_member_is_refused_by_name() {
    let container = Container::new(&[("ZOO_MY_ID", "3")]);
    fs::write(container.path("data/myid"), "2\n").unwrap();
    let refused = container.refusal();
    assert!(refused.contains("has the data of member 2, and this is member 3"), "{refused}");
}

/// A container on a host with this name. Its number is taken from the name.
fn named(name: &str) -> Container {
    let container = Container::new(&[("ZEBU_ID_FROM_HOSTNAME", "yes")]);
    let program = container.path("programs/hostname");
    fs::write(&program, format!("#!/bin/sh\necho {name}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    container
}

#[test]
fn a_pods_number_becomes_the_members_number() {
    for (name, member) in [("zebu-0", "1"), ("my-zebu-09", "10")] {
        let container = named(name);
        assert_eq!(container.run(&["true"]).0, 0);
        assert_eq!(container.member(), member);
    }
    assert!(named("zebu").refusal().contains("does not end with a number"));
}

/// The variables of the plain Kubernetes manifests (generated from the Helm chart), in the pod with
/// this number.
fn pod(number: u32) -> Container {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes/zebu.yaml");
    let text = fs::read_to_string(path).unwrap();
    let container = named(&format!("zebu-{number}"));
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "env:").skip(1);
    let mut found = container;
    while let Some(name) = lines.next().and_then(|line| line.strip_prefix("- name: ")) {
        let value = lines.find(|line| !line.starts_with('#')).unwrap();
        let value = value.strip_prefix("value: ").expect("a value");
        found = found.with(name, value.trim_matches('"'));
        while let Some(next) = lines.clone().next().filter(|line| line.starts_with('#')) {
            assert_eq!(lines.next(), Some(next));
        }
    }
    found
}

/// Each pod of the stateful set is the member that all pods list under its name.
#[test]
fn pods_of_the_manifests_are_members_of_one_ensemble() {
    let configurations = [0, 1, 2].map(|number| {
        let container = pod(number);
        let mut lines = container.configuration();
        assert_eq!(container.member(), (number + 1).to_string());
        lines.remove("dataDir");
        lines
    });
    assert_eq!(configurations[0], configurations[1]);
    assert_eq!(configurations[0], configurations[2]);
    let lines = &configurations[0];
    for member in 1..=3 {
        let host = format!("zebu-{}.zebu-headless.default.svc.cluster.local", member - 1);
        assert_eq!(lines[&format!("server.{member}")], format!("{host}:2888:3888;2181"));
    }
    // The pages that the probes and Prometheus read.
    assert_eq!(lines["admin.enableServer"], "true");
    assert_eq!((&*lines["admin.serverAddress"], &*lines["admin.serverPort"]), ("0.0.0.0", "8080"));
    assert_eq!(lines["metricsProvider.httpPort"], "7000");
    assert_eq!(lines["standaloneEnabled"], "false");
}

#[test]
fn slips_are_refused() {
    for (variable, value, reason) in [
        ("ZOO_TICKTIME", "2000", "ZOO_TICKTIME is not a variable of this image"),
        ("ZOO_ENABLE_AUTH", "maybe", "ZOO_ENABLE_AUTH: 'maybe' is neither yes nor no"),
        ("ZOO_TICK_TIME", "1\nadmin.x=y", "the value of tickTime has more than one line"),
        ("ZOO_SERVERS", "zoo1 zoo2", "ZOO_SERVERS: 'zoo1' is not a member"),
        ("ZOO_LOG_LEVEL", "LOUD", "ZOO_LOG_LEVEL: 'LOUD' is not a level"),
    ] {
        let container = Container::new(&[(variable, value), ("ALLOW_EMPTY_PASSWORD", "yes")]);
        let refused = container.refusal();
        assert!(refused.contains(&format!("error: {reason}\n")), "{refused}");
        assert!(!container.path("conf/zoo.cfg.new").exists());
    }
}
