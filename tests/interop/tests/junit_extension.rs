//! The JUnit extension that starts Zebu for tests, used as its users use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use zebu_interop::deps;
use zebu_interop::run::succeed;
use zebu_interop::server::PATIENCE;

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Runs Maven in a project, offline, with the repository that `cargo xtask deps` has filled.
fn maven(project: &Path, phase: &str) -> Result<String> {
    let repository = deps::installed("maven-junit");
    let mut maven = Command::new("mvn");
    maven.args(["--offline", "--batch-mode", "-Dstyle.color=never", phase]);
    maven.arg(format!("-Dmaven.repo.local={}", repository.display()));
    maven.current_dir(project).env("ZEBU_BIN", deps::zebu());
    succeed(&mut maven, 6 * PATIENCE)
}

/// The artifact is installed as its page says, and a project outside this repository depends on it.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_project_of_others_depends_on_the_extension() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (ours, outside) = (folder.path().join("ours"), folder.path().join("outside"));
    let copy = |from: &Path, to: &Path| -> Result<()> {
        fs::create_dir_all(to)?;
        for file in sources(from)?.iter().filter(|file| file.is_file()) {
            fs::copy(file, to.join(file.file_name().expect("a file has a name")))?;
        }
        Ok(())
    };
    let junit = deps::repository().join("deploy/junit");
    copy(&junit, &ours)?;
    let java = "src/main/java/org/zebu/junit";
    copy(&junit.join(java), &ours.join(java))?;
    maven(&ours, "install")?;
    copy(&deps::client("junit"), &outside.join("src/test/java"))?;
    fs::rename(outside.join("src/test/java/pom.xml"), outside.join("pom.xml"))?;
    let told = maven(&outside, "test")?;
    assert!(told.contains("Tests run: 5, Failures: 0, Errors: 0, Skipped: 0"), "{told}");
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn tests_of_others_have_a_server() -> Result<()> {
    let classes = tempfile::tempdir()?;
    let libraries =
        format!("{}/*:{}", deps::installed("suite-junit").display(), deps::classpath_395());
    let mut compile = Command::new("javac");
    compile.args(["--release", "11", "-cp", &libraries, "-d"]).arg(classes.path());
    compile.args(sources(&deps::repository().join("deploy/junit/src/main/java/org/zebu/junit"))?);
    compile.arg(deps::client("junit").join("ExtensionTest.java"));
    succeed(&mut compile, PATIENCE)?;
    let mut launch = Command::new("java");
    launch.args(["-cp", &format!("{}:{libraries}", classes.path().display())]);
    launch.args(["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner"]);
    launch.args(["--fail-if-no-tests", "--scan-classpath"]).arg(classes.path());
    let told = succeed(launch.env("ZEBU_BIN", deps::zebu()), 3 * PATIENCE)?;
    assert!(told.contains("5 tests successful"), "{told}");
    Ok(())
}
