//! Installs the third-party programs the interop tests use, each once, through its ordinary client.
//!
//! Debian's packages go to the system, everything else below `.deps`. What is there is not touched
//! again; a change of a version below changes the name of a stamp, and with it brings a new
//! installation.

mod c_suite;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::steps::{root, run};

/// Group, name and version of a Maven artifact. A colon and a classifier may follow the version.
type Artifact = (&'static str, &'static str, &'static str);

/// Debian packages: the 3.8.0 server and command line; the C client with and without threads, and
/// its programs; their log library; build tools for the C client; valgrind's instruction counter; a
/// Kerberos key distribution centre; build dependencies of kazoo's Kerberos module; a browser for
/// the console; checkers for the packages in `deploy`; tools that create file
/// systems and shut them down.
const DEBIAN: [&str; 30] = [
    "chromium",
    "zookeeper",
    "libzookeeper-java",
    "libzookeeper-mt-dev",
    "libzookeeper-st2",
    "zookeeper-bin",
    "libslf4j-java",
    "gcc",
    "g++",
    "cmake",
    "make",
    "libc6-dev",
    "libcppunit-dev",
    "libsasl2-dev",
    "libsasl2-modules-gssapi-mit",
    "libssl-dev",
    "strace",
    "valgrind",
    "libgssapi-krb5-2",
    "krb5-kdc",
    "krb5-admin-server",
    "krb5-user",
    "libkrb5-dev",
    "binutils",
    "lintian",
    "prometheus",
    "skopeo",
    "systemd",
    "umoci",
    "xfsprogs",
];

/// Maven: the server and command line of the oracle. The first artifact expects its distribution to
/// provide the others.
const MAVEN: [Artifact; 5] = [
    ("org.apache.zookeeper", "zookeeper", "3.9.5"),
    ("commons-cli", "commons-cli", "1.5.0"),
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("org.slf4j", "slf4j-simple", "2.0.13"),
];

/// Maven: the last release of 3.4, for tests of our clients against old servers.
const OLD: [Artifact; 1] = [("org.apache.zookeeper", "zookeeper", "3.4.14")];

/// Maven: Curator, over the client of the oracle.
const CURATOR: [Artifact; 1] = [("org.apache.curator", "curator-recipes", "5.9.0")];

/// Maven: the oracle's HTTP admin server and Prometheus page, which its package lacks. The
/// Prometheus page of the oracle's own release is not published.
const HTTP: [Artifact; 4] = [
    ("org.apache.zookeeper", "zookeeper-prometheus-metrics", "3.9.4"),
    ("org.eclipse.jetty", "jetty-server", "9.4.58.v20250814"),
    ("org.eclipse.jetty", "jetty-servlet", "9.4.58.v20250814"),
    ("com.fasterxml.jackson.core", "jackson-databind", "2.15.2"),
];

/// Dependencies of [`CURATOR`] and [`HTTP`] in other versions, which are left out.
const ORACLE_HAS: [&str; 2] = ["org.apache.zookeeper", "org.slf4j"];

/// The test runner for [`SUITES`] and for our own extension of JUnit. Older JUnit modules of a
/// suite are left out.
const JUNIT: [Artifact; 1] =
    [("org.junit.platform", "junit-platform-console-standalone", "1.10.2")];

/// Our extension of JUnit, and a project that uses it.
const JUNIT_POMS: [&str; 2] = ["deploy/junit/pom.xml", "tests/interop/clients/junit/pom.xml"];

/// Maven: published test suites by the name of their folder, with libraries that they need but do
/// not name.
const SUITES: [(&str, &[Artifact]); 3] = [
    (
        "suite-curator",
        &[
            ("org.apache.curator", "curator-recipes", "5.9.0"),
            ("org.apache.curator", "curator-test", "5.9.0"),
            ("org.apache.curator", "curator-client", "5.9.0:tests"),
            ("org.apache.curator", "curator-framework", "5.9.0:tests"),
            ("org.apache.curator", "curator-recipes", "5.9.0:tests"),
            ("com.fasterxml.jackson.core", "jackson-databind", "2.16.2"),
            ("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", "2.16.2"),
            ("org.apache.commons", "commons-math", "2.2"),
            ("org.assertj", "assertj-core", "3.25.3"),
            ("org.awaitility", "awaitility", "4.1.1"),
            ("org.mockito", "mockito-core", "4.11.0"),
        ],
    ),
    (
        "suite-kafka",
        &[
            ("org.apache.kafka", "kafka_2.13", "3.9.1"),
            ("org.apache.kafka", "kafka_2.13", "3.9.1:test"),
            ("org.apache.kafka", "kafka-clients", "3.9.1:test"),
            ("org.apache.kafka", "kafka-server-common", "3.9.1:test"),
            ("org.mockito", "mockito-core", "4.11.0"),
        ],
    ),
    (
        "suite-zookeeper",
        &[
            ("org.apache.zookeeper", "zookeeper", "3.9.5"),
            ("org.apache.zookeeper", "zookeeper", "3.9.5:tests"),
            ("commons-cli", "commons-cli", "1.5.0"),
            ("org.apache.commons", "commons-collections4", "4.4"),
            ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
            ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
            ("org.bouncycastle", "bcprov-jdk18on", "1.78"),
            ("org.hamcrest", "hamcrest", "2.2"),
            ("org.mockito", "mockito-core", "4.11.0"),
        ],
    ),
];

/// Maven: applications over ZooKeeper, by the name of their folder.
const DEPENDANTS: [(&str, &[Artifact]); 3] = [
    (
        "dependant-kafka",
        &[
            ("org.apache.kafka", "kafka_2.13", "3.9.1"),
            ("org.apache.kafka", "kafka-tools", "3.9.1"),
        ],
    ),
    ("dependant-hbase", &[("org.apache.hbase", "hbase-server", "2.6.2")]),
    ("dependant-solr", &[("org.apache.solr", "solr-test-framework", "9.8.1")]),
];

/// Python: an independent object store with the interface of Amazon S3.
const MOTO: [&str; 1] = ["moto[server]==5.2.5"];

/// Python: kazoo, whose wheel contains its tests, and the modules that the tests import. pyOpenSSL
/// 25 lacks a call that kazoo's harness makes.
const PYTHON: [&str; 10] = [
    "kazoo==2.11.0",
    "pytest==8.4.2",
    "pytest-timeout==2.4.0",
    "pyjks==20.0.0",
    "pyopenssl==24.2.1",
    "objgraph",
    "gevent",
    "eventlet",
    "pure_sasl==0.6.2",
    "kerberos==1.3.1",
];

/// Python, separate from kazoo: the builder of our own package's wheel, and a type checker for it.
const WHEEL: [&str; 2] = ["maturin==1.9.6", "mypy==1.18.2"];

/// Go: the renderer of the Helm chart, and the checker against the schemas of Kubernetes.
const CHART: [&str; 2] =
    ["helm.sh/helm/v3/cmd/helm@v3.19.0", "sigs.k8s.io/kubectl-validate@v0.0.4"];

const NODE: &str = "node-zookeeper-client@1.1.3";

/// The folder of our Go program over Porcupine, which decides whether histories are linearizable.
/// Its `go.mod` contains the version.
const PORCUPINE: &str = "tests/interop/clients/porcupine";

/// The folder of our Go program over Grafana's published schema of dashboards. Its `go.mod`
/// contains the version.
const GRAFANA: &str = "tests/interop/clients/grafana";

/// The folder of our Rust program over `zookeeper-client` with TLS. Its `Cargo.lock` contains the
/// versions.
const RUST_TLS: &str = "tests/interop/clients/rust-tls";

/// Installs the missing programs.
pub(crate) fn install() -> Result<()> {
    let folder = root().join(".deps");
    fs::create_dir_all(&folder)?;
    debian()?;
    once(&folder, "zookeeper-3.9.5", &format!("{MAVEN:?}"), |path| maven(path, &MAVEN, &[]))?;
    once(&folder, "zookeeper-3.4.14", &format!("{OLD:?}"), |path| maven(path, &OLD, &[]))?;
    let curator = |path: &Path| maven(path, &CURATOR, &ORACLE_HAS);
    once(&folder, "curator", &format!("{CURATOR:?}"), curator)?;
    once(&folder, "http", &format!("{HTTP:?}"), |path| maven(path, &HTTP, &ORACLE_HAS))?;
    once(&folder, "venv", &format!("{PYTHON:?}"), |path| python(path, &PYTHON))?;
    once(&folder, "wheel", &format!("{WHEEL:?}"), |path| python(path, &WHEEL))?;
    once(&folder, "moto", &format!("{MOTO:?}"), |path| python(path, &MOTO))?;
    once(&folder, "suite-junit", &format!("{JUNIT:?}"), |path| maven(path, &JUNIT, &[]))?;
    let poms = JUNIT_POMS.map(|pom| fs::read_to_string(root().join(pom)));
    let poms = poms.into_iter().collect::<Result<Vec<_>, _>>().context("JUNIT_POMS")?;
    once(&folder, "maven-junit", &poms.concat(), maven_repository)?;
    once(&folder, "node", NODE, node)?;
    let program = ["Cargo.toml", "Cargo.lock", "src/main.rs"]
        .map(|name| fs::read_to_string(root().join(RUST_TLS).join(name)));
    let program = program.into_iter().collect::<Result<Vec<_>, _>>().context(RUST_TLS)?;
    once(&folder, "rust-tls", &program.concat(), |path| {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--locked", "--target-dir"]).arg(path);
        cargo.current_dir(root().join(RUST_TLS));
        run(cargo)
    })?;
    let jute = folder.join("zookeeper-3.9.5");
    once(&folder, "c-suite", c_suite::WANTED, |path| c_suite::build(path, &jute))?;
    once(&folder, "porcupine", &go_sources(PORCUPINE)?, |path| go_build(path, PORCUPINE))?;
    once(&folder, "grafana", &go_sources(GRAFANA)?, |path| go_build(path, GRAFANA))
}

/// The text of a Go program of this repository.
fn go_sources(source: &str) -> Result<String> {
    let files = ["go.mod", "go.sum", "main.go"]
        .map(|name| fs::read_to_string(root().join(source).join(name)));
    let files = files.into_iter().collect::<Result<Vec<_>, _>>().context(source.to_owned())?;
    Ok(files.concat())
}

/// Builds a Go program of this repository into `path`, under the name of its folder.
fn go_build(path: &Path, source: &str) -> Result<()> {
    let name = Path::new(source).file_name().context("a folder has a name")?;
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(path.join(name)).arg(".");
    go.current_dir(root().join(source));
    run(go)
}

/// Installs the test suites that run only on request.
pub(crate) fn install_suites() -> Result<()> {
    let folder = root().join(".deps");
    for (name, artifacts) in SUITES {
        let without = ["org.junit.jupiter", "org.junit.platform"];
        let suite = |path: &Path| maven(path, artifacts, &without);
        once(&folder, name, &format!("{artifacts:?}"), suite)?;
    }
    Ok(())
}

/// Installs the applications of [`DEPENDANTS`], which run only on request.
pub(crate) fn install_dependants() -> Result<()> {
    let folder = root().join(".deps");
    for (name, artifacts) in DEPENDANTS {
        once(&folder, name, &format!("{artifacts:?}"), |path| maven(path, artifacts, &[]))?;
    }
    Ok(())
}

/// Installs the checkers of the Helm chart. Returns the folder of the programs.
pub(crate) fn install_chart() -> Result<PathBuf> {
    let folder = root().join(".deps");
    fs::create_dir_all(&folder)?;
    once(&folder, "chart", &format!("{CHART:?}"), |path| {
        for module in CHART {
            let mut go = Command::new("go");
            go.args(["install", module]).env("GOBIN", path);
            run(go)?;
        }
        Ok(())
    })?;
    Ok(folder.join("chart"))
}

/// Runs `make` unless the folder `name` contains the installation that `wanted` describes. Removes
/// incomplete installations.
fn once(
    folder: &Path,
    name: &str,
    wanted: &str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let path = folder.join(name);
    let stamp = folder.join(format!("{name}.stamp"));
    if path.exists() && fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        println!("{name}: present");
        return Ok(());
    }
    println!("{name}: installing");
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir(&path)?;
    make(&path).with_context(|| format!("install {name}"))?;
    Ok(fs::write(stamp, wanted)?)
}

fn debian() -> Result<()> {
    let mut missing: Vec<&str> = DEBIAN.into_iter().filter(|name| !has_package(name)).collect();
    // Any version is good enough.
    if Command::new("javac").arg("-version").output().is_err() {
        missing.push("default-jdk-headless");
    }
    if Command::new("go").arg("version").output().is_err() {
        missing.push("golang-go");
    }
    if missing.is_empty() {
        println!("debian packages: present");
        return Ok(());
    }
    println!("debian packages: installing {}", missing.join(" "));
    apt_install(&missing)
}

fn apt_install(packages: &[&str]) -> Result<()> {
    let mut update = Command::new("apt-get");
    update.args(["update", "-qq"]);
    run(update)?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    run(install)
}

fn has_package(name: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Abbrev}", name]);
    query.output().is_ok_and(|output| output.stdout.starts_with(b"ii"))
}

/// Copies artifacts and their dependencies to `path`, except for some groups.
fn maven(path: &Path, artifacts: &[Artifact], without: &[&str]) -> Result<()> {
    let exclusions: String = without
        .iter()
        .map(|group| {
            format!("<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>")
        })
        .collect();
    let dependencies: String = artifacts
        .iter()
        .map(|(group, artifact, version)| {
            let (version, classifier) = version.split_once(':').unwrap_or((version, ""));
            let classifier = match classifier {
                "" => String::new(),
                name => format!("<classifier>{name}</classifier>"),
            };
            format!(
                "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
                 <version>{version}</version>{classifier}\
                 <exclusions>{exclusions}</exclusions></dependency>"
            )
        })
        .collect();
    let pom = path.join("pom.xml");
    fs::write(
        &pom,
        format!(
            "<project><modelVersion>4.0.0</modelVersion><groupId>zebu</groupId>\
             <artifactId>interop</artifactId><version>1</version><packaging>pom</packaging>\
             <dependencies>{dependencies}</dependencies></project>"
        ),
    )?;
    let mut command = Command::new("mvn");
    command.args(["--quiet", "--batch-mode", "--file"]).arg(pom);
    command.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    command.arg(format!("-DoutputDirectory={}", path.display()));
    run(command)
}

/// Fills a repository of Maven with everything that [`JUNIT_POMS`] need, so that a test can build
/// them offline.
fn maven_repository(path: &Path) -> Result<()> {
    for (pom, phase) in JUNIT_POMS.iter().zip(["install", "test"]) {
        let pom = root().join(pom);
        let project = tempfile::tempdir()?;
        let sources = project.path().join("src/test/java");
        fs::create_dir_all(&sources)?;
        fs::copy(&pom, project.path().join("pom.xml"))?;
        // Without a class, the plugins would not resolve all that they need.
        fs::write(sources.join("Nothing.java"), "class Nothing {}\n")?;
        let mut command = Command::new("mvn");
        command.args(["--quiet", "--batch-mode", "-DskipTests", phase]);
        command.arg(format!("-Dmaven.repo.local={}", path.display()));
        command.current_dir(project.path());
        run(command)?;
    }
    Ok(())
}

fn python(path: &Path, packages: &[&str]) -> Result<()> {
    let venv = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv"]).arg(path);
        run(command)
    };
    // Debian has this part of Python in a separate package.
    venv().or_else(|_| apt_install(&["python3-venv"]).and_then(|()| venv()))?;
    let mut pip = Command::new(path.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    run(pip)
}

fn node(path: &Path) -> Result<()> {
    fs::write(path.join("package.json"), "{\"private\": true}\n")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", NODE]);
    npm.current_dir(path).stdin(Stdio::null());
    run(npm)
}
