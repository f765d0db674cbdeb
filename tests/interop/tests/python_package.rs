//! The Python package `zebu`, from the wheel that maturin builds, against the original and against
//! Zebu.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use zebu_interop::deps;
use zebu_interop::normalise::text;
use zebu_interop::run::succeed;
use zebu_interop::scenario::{compare, same};
use zebu_interop::server::{Kind, Options, PATIENCE, Server, free_port};

/// A program that can import the package, and no other installed one.
fn python(program: &str) -> Command {
    let mut python = Command::new(deps::python());
    python.arg("-B").arg(deps::client(program)).env("PYTHONPATH", deps::our_python());
    python
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_package_keeps_its_promises() {
    same("python", &Options::default(), |server| {
        let mut scenario = python("python/scenario.py");
        Ok(text(&succeed(scenario.arg(server.connect_string()), 3 * PATIENCE)?))
    });
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_recipes_of_the_package_keep_their_promises() {
    same("python recipes", &Options::default(), |server| {
        let mut recipes = python("python/recipes.py");
        let told = text(&succeed(recipes.arg(server.connect_string()), 3 * PATIENCE)?);
        compare("python recipes", include_str!("../clients/python/recipes.txt"), &told);
        Ok(told)
    });
}

/// Programs that use kazoo and programs that use the package exclude each other, count together and
/// see each other.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_recipes_of_the_package_work_beside_kazoo() {
    same("python beside kazoo", &Options::default(), |server| {
        let mut beside = python("python/beside_kazoo.py");
        let told = text(&succeed(beside.arg(server.connect_string()), 3 * PATIENCE)?);
        compare("python beside kazoo", include_str!("../clients/python/beside_kazoo.txt"), &told);
        Ok(told)
    });
}

/// The package's types match its code, and programs that use it pass the type checker.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_package_is_typed() -> Result<()> {
    let cache = tempfile::tempdir()?;
    let mut check = Command::new(deps::installed("wheel").join("bin/mypy"));
    check.args(["--strict", "--cache-dir"]).arg(cache.path());
    check.arg(deps::our_python().join("zebu"));
    for program in ["scenario", "secure", "recipes"] {
        check.arg(deps::client(&format!("python/{program}.py")));
    }
    check.env("MYPYPATH", deps::our_python());
    succeed(&mut check, 3 * PATIENCE)?;
    Ok(())
}

fn store(name: &str) -> PathBuf {
    deps::repository().join("crates/auth/tests/fixtures").join(name)
}

fn over_tls(kind: Kind) -> Result<String> {
    let secure = free_port();
    let trust: &Path = &store("trust17.p12");
    let options = Options::default()
        .config("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
        .config("secureClientPort", secure)
        .config("secureClientPortAddress", "127.0.0.1")
        .config("ssl.keyStore.location", store("keytool17.p12").display())
        .config("ssl.keyStore.password", "testpass")
        .config("ssl.trustStore.location", trust.display())
        .config("ssl.trustStore.password", "testpass");
    let _server = Server::start(kind, &options)?;
    let mut program = python("python/secure.py");
    program.arg(format!("localhost:{secure}")).arg(trust).arg(store("keytool.jks"));
    Ok(text(&succeed(&mut program, PATIENCE)?))
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_package_speaks_tls() -> Result<()> {
    compare("python over TLS", &over_tls(Kind::Java395)?, &over_tls(Kind::Zebu)?);
    Ok(())
}
