//! What `cargo xtask dist` makes and what is in `deploy`, judged by the programs that read it.
//!
//! The program in the packages is `ZEBU_BIN`, or the debug build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// systemd's own judgement of the unit's sandbox goes from 0, tight, to 100, none.
const EXPOSURE_MAX: &str = "20";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let built = || target.unwrap_or_else(|| repository().join("target")).join("debug/zebu");
    let program = std::env::var_os("ZEBU_BIN").map_or_else(built, PathBuf::from);
    assert!(program.exists(), "{} is missing\nhint: cargo build -p zebu", program.display());
    program
}

/// Runs a program to its end and returns what it says on both outputs.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text.concat());
    text.concat()
}

fn dist(out: &Path, only: &str, version: &str) {
    let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
    dist.args(["dist", "--only", only, "--version", version, "--out"]).arg(out);
    succeed(dist.arg("--program").arg(program()));
}

/// What all tests look at, made once.
fn made() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        // The archives of another run.
        let _ = fs::remove_dir_all(&folder);
        dist(&folder, "tar,deb,image,bill", "0.1.0");
        folder
    })
}

fn file(folder: &Path, ends: &str) -> PathBuf {
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.to_str().unwrap().ends_with(ends)).expect(ends)
}

#[test]
#[ignore = "needs systemd-analyze"]
fn systemd_takes_the_unit_and_calls_its_sandbox_tight() {
    let unit = repository().join("deploy/systemd/zookeeper.service");
    let unit = fs::read_to_string(unit).unwrap();
    // Where the program is on this machine, which has no package of ours.
    let installed = "/usr/share/zookeeper/bin/zkServer.sh";
    assert!(unit.contains(&format!("ExecStart={installed} ")), "{unit}");
    let script = repository().join("bin/zkServer.sh");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zookeeper.service");
    fs::write(&path, unit.replace(installed, script.to_str().unwrap())).unwrap();
    let mut verify = Command::new("systemd-analyze");
    assert_eq!(succeed(verify.args(["verify", "--man=no"]).arg(&path)), "");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE_MAX]);
    succeed(security.arg(&path));
}

/// The system calls of systemd's sets, by the name of the set.
fn sets() -> BTreeMap<String, BTreeSet<String>> {
    let text = succeed(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager"]));
    let (mut sets, mut name) = (BTreeMap::<_, BTreeSet<_>>::new(), String::new());
    for line in text.lines() {
        if line.starts_with('@') {
            name = line.trim().to_owned();
        } else if let Some(call) = line.strip_prefix("    ").map(str::trim)
            && !call.starts_with('#')
        {
            sets.entry(name.clone()).or_default().insert(call.to_owned());
        }
    }
    sets
}

fn calls_of(set: &str, sets: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    for call in sets.get(set).into_iter().flatten() {
        if call.starts_with('@') {
            calls.extend(calls_of(call, sets));
        } else {
            calls.insert(call.clone());
        }
    }
    calls
}

/// What the kernel would refuse in the sandbox of the unit shows in no test that runs without
/// systemd.
#[test]
#[ignore = "needs strace and systemd-analyze"]
fn the_server_makes_only_system_calls_that_the_unit_allows() {
    let unit = fs::read_to_string(repository().join("deploy/systemd/zookeeper.service")).unwrap();
    assert!(unit.contains("\nSystemCallFilter=@system-service\nSystemCallFilter=~@privileged\n"));
    let sets = sets();
    let mut allowed = calls_of("@system-service", &sets);
    allowed.extend(calls_of("@default", &sets));
    for call in calls_of("@privileged", &sets) {
        allowed.remove(&call);
    }
    assert!(allowed.contains("fdatasync") && !allowed.contains("mount"), "{allowed:?}");

    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace).arg(program());
    strace.args(["server", "--set", "clientPort=0", "--set", "admin.serverPort=0"]);
    strace.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = strace.spawn().expect("strace is installed");
    let mut greeting = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    let address = greeting.trim().strip_prefix("listening on ").expect("it listens");
    let mut shell = Command::new(program());
    succeed(shell.args(["shell", "-server", address, "-q", "create", "/a", "b"]));
    // The first line is the server's own `execve`.
    let lines = fs::read_to_string(&trace).unwrap();
    let process = lines.split_whitespace().next().unwrap();
    succeed(Command::new("kill").arg(process));
    assert!(server.wait().unwrap().success());

    let lines = fs::read_to_string(&trace).unwrap();
    let call = |line: &str| {
        let call = line.split_whitespace().nth(1)?.split_once('(')?.0.to_owned();
        call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(call)
    };
    let made: BTreeSet<String> = lines.lines().filter_map(call).collect();
    assert!(made.contains("fdatasync") || made.contains("fsync"), "{made:?}");
    let refused: Vec<_> = made.difference(&allowed).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
#[ignore = "needs a built program and binutils"]
fn the_same_program_gives_the_same_archives() {
    let again = tempfile::tempdir().unwrap();
    dist(again.path(), "deb,bill", "0.1.0");
    let sums = [made(), again.path()];
    let sums = sums.map(|folder| fs::read_to_string(folder.join("SHA256SUMS")).unwrap());
    assert_eq!(sums.each_ref().map(|sums| sums.lines().count()), [4, 2], "{sums:?}");
    assert!(sums[1].lines().all(|line| sums[0].contains(line)), "{sums:?}");
    let mut check = Command::new("sha256sum");
    succeed(check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(made()));
    // What is unpacked runs where it is, without a configuration and without an installation.
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(file(made(), ".tar.gz")).args(["--strip-components=1", "-C"]);
    succeed(unpack.arg(again.path()));
    let script = again.path().join("bin/zkServer.sh");
    let said = succeed(Command::new(script).arg("version").env_remove("ZEBU"));
    assert!(said.contains("Apache ZooKeeper, version 3.9.5-"), "{said}");
}

#[test]
#[ignore = "needs lintian"]
fn lintian_finds_nothing_wrong_with_the_package() {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--display-level", ">=warning"]);
    let said = succeed(lintian.arg(file(made(), ".deb")));
    // It says so to root, whom it does not need.
    let said: Vec<&str> = said.lines().filter(|line| !line.contains("root privileges")).collect();
    assert!(said.is_empty(), "{said:?}");
}

/// In a view of this machine's own file system that ends with the test.
#[test]
#[ignore = "needs root and Debian's package of zookeeper"]
fn the_package_takes_over_from_debians_serves_is_upgraded_and_removed() {
    let (next, view) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    dist(next.path(), "deb", "0.1.1");
    let port = zebu_testkit::ports::free_port();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages");
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]);
    apart.arg("sh").arg(scripts.join("view.sh")).arg(view.path());
    apart.arg(scripts.join("debian.sh"));
    apart.args([file(made(), ".deb"), file(next.path(), ".deb")]);
    let said = succeed(apart.arg(port.to_string()));
    assert!(said.contains("\nthe story is over\n"), "{said}");
}

/// The expressions of the dashboard as well, as rules that record them.
#[test]
#[ignore = "needs promtool"]
fn promtool_takes_rules_and_dashboard_and_runs_the_tests_of_the_rules() {
    let promtool = |words: &[&str], path: &Path| {
        succeed(Command::new("promtool").args(words).arg(path));
    };
    let folder = repository().join("deploy/prometheus");
    promtool(&["check", "config"], &folder.join("prometheus.yml"));
    promtool(&["check", "rules"], &folder.join("zookeeper.rules.yml"));
    promtool(&["test", "rules"], &folder.join("zookeeper.rules.test.yml"));
    let dashboard = fs::read_to_string(repository().join("deploy/grafana/zookeeper.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (index, target) in targets.enumerate() {
        let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
        rules += &format!("      - record: dashboard:{index}\n        expr: '{expression}'\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dashboard.yml");
    fs::write(&path, rules).unwrap();
    promtool(&["check", "rules"], &path);
}

/// Two programs of others read the image; it runs with a read-only root, as the user that it names.
#[test]
#[ignore = "needs root, skopeo and umoci"]
fn the_image_is_read_by_others_and_runs_with_a_read_only_root() {
    let folder = tempfile::tempdir().unwrap();
    let (layout, bundle) = (folder.path().join("layout"), folder.path().join("bundle"));
    let mut copy = Command::new("skopeo");
    copy.args(["--insecure-policy", "copy"]);
    copy.arg(format!(
        "oci-archive:{}",
        file(made(), &format!("{}.tar", std::env::consts::ARCH)).display()
    ));
    succeed(copy.arg(format!("oci:{}:zebu", layout.display())));
    let mut unpack = Command::new("umoci");
    unpack.args(["unpack", "--image"]).arg(format!("{}:zebu", layout.display()));
    succeed(unpack.arg(&bundle));

    let config = fs::read_to_string(bundle.join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let process = &config["process"];
    let texts = |value: &serde_json::Value| -> Vec<String> {
        let values = value.as_array().unwrap().iter();
        values.map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages");
    let story = fs::read_to_string(scripts.join("container.sh")).unwrap();
    let port = zebu_testkit::ports::free_port();
    let command = texts(&process["args"]);
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh"]);
    apart.arg(scripts.join("image.sh")).arg(bundle.join("rootfs"));
    apart.arg(process["user"]["uid"].to_string());
    // The image's entry point, and in place of its command a story around it.
    apart.arg(&command[0]).args(["bash", "-c", &story, "story", &port.to_string()]);
    apart.args(&command[1..]);
    apart.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    for variable in texts(&process["env"]).iter().filter(|text| !text.starts_with("PATH=")) {
        let (name, value) = variable.split_once('=').unwrap();
        apart.env(name, value);
    }
    let inside = texts(&process["env"]).into_iter().find(|text| text.starts_with("PATH=")).unwrap();
    apart.env("INSIDE", inside);
    apart.env("ZOO_SERVERS", format!("server.1=localhost:2888:3888;{port}"));
    apart.env("ZOO_ADMINSERVER_ENABLED", "false");
    let said = succeed(&mut apart);
    assert!(said.contains("\nthe container has ended\n"), "{said}");
}
