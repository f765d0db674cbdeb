//! Installs the third-party programs the interop tests use, each once, through its ordinary client.
//!
//! Debian's packages go to the system, everything else below `.deps`. What is there is not touched again; a
//! change of a version below changes the name of a stamp, and with it brings a new installation.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::steps::{root, run};

/// Debian: the 3.8.0 server and command line, the C client with and without threads, the logger that shows what they say, and what counts
/// the cost of a request.
const DEBIAN: [&str; 9] = [
    "zookeeper",
    "libzookeeper-java",
    "libzookeeper-mt-dev",
    "libzookeeper-st2",
    "libslf4j-java",
    "gcc",
    "libc6-dev",
    "strace",
    "valgrind",
];

/// Maven: the server and command line of the oracle. The later ones are libraries which the first one
/// expects to be provided by its distribution.
const MAVEN: [(&str, &str, &str); 5] = [
    ("org.apache.zookeeper", "zookeeper", "3.9.5"),
    ("commons-cli", "commons-cli", "1.5.0"),
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("org.slf4j", "slf4j-simple", "2.0.13"),
];

/// Maven: Curator, over the client of the oracle.
const CURATOR: [(&str, &str, &str); 1] = [("org.apache.curator", "curator-recipes", "5.9.0")];

/// What [`CURATOR`] would bring in other versions.
const ORACLE_HAS: [&str; 2] = ["org.apache.zookeeper", "org.slf4j"];

/// Python: kazoo, whose wheel contains its tests, and what those import. pyOpenSSL 25 dropped a call that
/// kazoo's harness makes.
const PYTHON: [&str; 9] = [
    "kazoo==2.11.0",
    "pytest==8.4.2",
    "pytest-timeout==2.4.0",
    "pyjks==20.0.0",
    "pyopenssl==24.2.1",
    "objgraph",
    "gevent",
    "eventlet",
    "pure_sasl==0.6.2",
];

const NODE: &str = "node-zookeeper-client@1.1.3";

/// Installs what is missing.
pub(crate) fn install() -> Result<()> {
    let folder = root().join(".deps");
    fs::create_dir_all(&folder)?;
    debian()?;
    once(&folder, "zookeeper-3.9.5", &format!("{MAVEN:?}"), |path| maven(path, &MAVEN, &[]))?;
    let curator = |path: &Path| maven(path, &CURATOR, &ORACLE_HAS);
    once(&folder, "curator", &format!("{CURATOR:?}"), curator)?;
    once(&folder, "venv", &format!("{PYTHON:?}"), python)?;
    once(&folder, "node", NODE, node)
}

/// Runs `make` unless the folder `name` holds what `wanted` describes; half an installation is removed.
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
    // Whichever version is there will do.
    if Command::new("javac").arg("-version").output().is_err() {
        missing.push("default-jdk-headless");
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

/// Copies artifacts and what they depend on, but for some groups, to `path`.
fn maven(path: &Path, artifacts: &[(&str, &str, &str)], without: &[&str]) -> Result<()> {
    let exclusions: String = without
        .iter()
        .map(|group| {
            format!("<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>")
        })
        .collect();
    let dependencies: String = artifacts
        .iter()
        .map(|(group, artifact, version)| {
            format!(
                "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
                 <version>{version}</version><exclusions>{exclusions}</exclusions></dependency>"
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

fn python(path: &Path) -> Result<()> {
    let venv = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv"]).arg(path);
        run(command)
    };
    // Debian keeps this part of its Python in a package of its own.
    venv().or_else(|_| apt_install(&["python3-venv"]).and_then(|()| venv()))?;
    let mut pip = Command::new(path.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(PYTHON);
    run(pip)
}

fn node(path: &Path) -> Result<()> {
    fs::write(path.join("package.json"), "{\"private\": true}\n")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", NODE]);
    npm.current_dir(path).stdin(Stdio::null());
    run(npm)
}
