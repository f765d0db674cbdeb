//! Paths of the third-party programs, which `cargo xtask deps` installs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use crate::run::succeed;

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/interop").to_path_buf()
}

/// A folder below `.deps`.
///
/// # Panics
/// It does not exist: the third-party programs are not installed.
pub fn installed(name: &str) -> PathBuf {
    let path = repository().join(".deps").join(name);
    assert!(path.exists(), "{} is missing\nhint: cargo xtask deps", path.display());
    path
}

/// Class path of the 3.9.5 server, its HTTP server and its command line, logging to stderr.
pub fn classpath_395() -> String {
    format!("{}/*:{}/*", installed("zookeeper-3.9.5").display(), installed("http").display())
}

/// Class path of Curator over the client of 3.9.5, logging to stderr.
pub fn classpath_curator() -> String {
    format!("{}/*:{}", installed("curator").display(), classpath_395())
}

/// Class path of Debian's 3.8.0 server and command line, logging to stderr.
///
/// # Panics
/// The package is not installed.
pub fn classpath_380() -> String {
    let jar = "/usr/share/java/zookeeper.jar";
    assert!(Path::new(jar).exists(), "{jar} is missing\nhint: cargo xtask deps");
    // The parts of Netty with which the servers detect TLS between each other.
    let others = ["slf4j-simple", "netty-buffer", "netty-codec", "netty-common", "netty-handler"];
    let others = others.map(|name| format!("/usr/share/java/{name}.jar"));
    format!("{jar}:{}", others.join(":"))
}

/// The class path of ZooKeeper 3.4.14.
///
/// # Panics
/// It is not installed.
pub fn classpath_3414() -> String {
    format!("{}/*", installed("zookeeper-3.4.14").display())
}

/// The Python with kazoo and its test-suite.
pub fn python() -> PathBuf {
    installed("venv").join("bin/python")
}

/// The folder of node's modules.
pub fn node_modules() -> PathBuf {
    installed("node").join("node_modules")
}

/// A Zebu program that drives a third-party client.
pub fn client(name: &str) -> PathBuf {
    repository().join("tests/interop/clients").join(name)
}

/// The zebu binary: `ZEBU_BIN`, or the one that cargo built beside this test.
///
/// # Panics
/// It does not exist.
pub fn zebu() -> PathBuf {
    let path = std::env::var_os("ZEBU_BIN").map_or_else(
        || {
            let exe = std::env::current_exe().expect("a running program has a path");
            exe.ancestors().nth(2).expect("target/debug/deps").join("zebu")
        },
        PathBuf::from,
    );
    assert!(path.exists(), "{} is missing\nhint: cargo build -p zebu, or ZEBU_BIN", path.display());
    path
}

/// Zebu's `libzookeeper_mt` and `libzookeeper_st` with headers and pkg-config files, as `cargo
/// xtask capi` installs them. Built on first use.
///
/// # Panics
/// The build fails.
pub fn our_libraries() -> &'static Path {
    static LIBRARIES: LazyLock<PathBuf> = LazyLock::new(|| {
        let exe = std::env::current_exe().expect("a running program has a path");
        // Each executable has its own folder, because another one may be using its build at the
        // same time.
        let folder = Path::new("tmp/capi").join(exe.file_stem().expect("a file"));
        let into = exe.ancestors().nth(3).expect("target/debug/deps").join(folder);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.current_dir(repository()).args(["xtask", "capi", "--debug", "--into"]).arg(&into);
        succeed(&mut build, Duration::from_secs(1800)).expect("the libraries can be built");
        into
    });
    &LIBRARIES
}

/// A folder with our Python package, from the wheel that maturin builds. Built on first use.
///
/// # Panics
/// The build fails.
pub fn our_python() -> &'static Path {
    static PACKAGE: LazyLock<PathBuf> = LazyLock::new(|| {
        let exe = std::env::current_exe().expect("a running program has a path");
        let target = exe.ancestors().nth(3).expect("target/debug/deps");
        let (wheels, into) = (target.join("tmp/wheels"), target.join("tmp/python"));
        for folder in [&wheels, &into] {
            if folder.exists() {
                std::fs::remove_dir_all(folder).expect("what an earlier run has left");
            }
        }
        let tools = installed("wheel").join("bin");
        let mut build = Command::new(tools.join("maturin"));
        build.args(["build", "--quiet", "--locked", "--interpreter"]).arg(tools.join("python"));
        build.arg("--manifest-path").arg(repository().join("crates/python/Cargo.toml"));
        build.arg("--target-dir").arg(target).arg("--out").arg(&wheels);
        succeed(&mut build, Duration::from_secs(1800)).expect("the wheel can be built");
        let mut wheels = std::fs::read_dir(&wheels).expect("the folder of the wheel");
        let wheel = wheels.next().expect("a wheel").expect("its name").path();
        let mut unpack = Command::new(tools.join("python"));
        unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&into);
        succeed(&mut unpack, Duration::from_secs(60)).expect("a wheel can be unpacked");
        into
    });
    &PACKAGE
}
