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

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn tests_of_others_have_a_server() -> Result<()> {
    let classes = tempfile::tempdir()?;
    let libraries =
        format!("{}/*:{}", deps::installed("suite-junit").display(), deps::classpath_395());
    let mut compile = Command::new("javac");
    compile.args(["--release", "11", "-cp", &libraries, "-d"]).arg(classes.path());
    compile.args(sources(&deps::repository().join("deploy/junit/src/main/java/org/zebu/junit"))?);
    compile.args(sources(&deps::client("junit"))?);
    succeed(&mut compile, PATIENCE)?;
    let mut launch = Command::new("java");
    launch.args(["-cp", &format!("{}:{libraries}", classes.path().display())]);
    launch.args(["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner"]);
    launch.args(["--fail-if-no-tests", "--scan-classpath"]).arg(classes.path());
    let told = succeed(launch.env("ZEBU_BIN", deps::zebu()), 3 * PATIENCE)?;
    assert!(told.contains("5 tests successful"), "{told}");
    Ok(())
}
