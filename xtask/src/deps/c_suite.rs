//! The original's C client from its source, with TLS and SASL, which Debian's library does not
//! have, and its own tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::steps::run;

/// A description of the build. A change causes a new build.
pub(super) const WANTED: &str = "zktest and cli of Debian's source, with TLS and SASL, 3";

/// Debian's name of the source.
const SOURCE: &str = "zookeeper";
/// The path of the C client within the source.
const CLIENT: &str = "zookeeper-client/zookeeper-client-c";
/// Defined where the tests are linked to the original's library: leaves a test out.
const RACE: &str = "WITHOUT_THE_RACE_OF_THE_ORIGINAL";

/// Fetches the source through apt into this folder, and builds it there. `jute`: the jars with the
/// compiler of records.
pub(super) fn build(path: &Path, jute: &Path) -> Result<()> {
    fetch(path)?;
    let source = path.join("source");
    fs::create_dir(&source)?;
    let mut unpack = Command::new("tar");
    unpack.arg("xzf").arg(archive(path)?).args(["--strip-components=1", "-C"]).arg(&source);
    run(unpack)?;
    let client = source.join(CLIENT);

    let generated = client.join("generated");
    fs::create_dir_all(&generated)?;
    let mut compiler = Command::new("java");
    compiler.arg("-cp").arg(format!("{}/*", jute.display())).current_dir(&generated);
    compiler.args(["org.apache.jute.compiler.generated.Rcc", "-l", "c"]);
    compiler.arg(source.join("zookeeper-jute/src/main/resources/zookeeper.jute"));
    run(compiler)?;

    // The list for cmake lacks a file that the list for make has.
    let all = "tests/TestClient.cc tests/TestSASLAuth.cc";
    change(&client.join("CMakeLists.txt"), "tests/TestClient.cc", all)?;
    // The certificates are below the directory of the run.
    for name in ["TestClient.cc", "TestReadOnlyClient.cc"] {
        change(&client.join("tests").join(name), "/tmp/certs/", "certs/")?;
    }
    // The original's library has a race here. A watcher sends a request while another thread is in
    // `zookeeper_close`, and the request fails with `ZMARSHALLINGERROR`, which the test does not
    // expect. A busy machine shows it with both servers. In our library the request fails with
    // `ZCLOSING`.
    let hanging = "CPPUNIT_TEST(testHangingClient);";
    let guarded = format!("\n#ifndef {RACE}\n    {hanging}\n#endif\n");
    change(&client.join("tests/TestClient.cc"), hanging, &guarded)?;
    // The tests start their server with this script.
    fs::write(client.join("tests/zkServer.sh"), "#!/bin/sh\nexec \"$ZKTEST_SERVER\" \"$@\"\n")?;

    // Replaces a function that OpenSSL 3 lacks, and adds an include that newer compilers need.
    change(&client.join("src/zookeeper.c"), "FIPS_mode()", "0")?;
    let (util, with_time) = ("#include \"Util.h\"", "#include <time.h>\n#include \"Util.h\"");
    change(&client.join("tests/Util.cc"), util, with_time)?;

    let made = path.join("build");
    let mut configure = Command::new("cmake");
    configure.args(["-Wno-dev", "-DWITH_OPENSSL=ON", "-DWITH_CYRUS_SASL=ON"]);
    configure.arg("-DCMAKE_C_FLAGS=-w").arg(format!("-DCMAKE_CXX_FLAGS=-w -D{RACE}"));
    configure.arg("-S").arg(&client).arg("-B").arg(&made);
    run(configure)?;
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&made).args(["--target", "zktest", "cli"]);
    run(build)
}

/// Downloads the source package from the system's package source.
fn fetch(path: &Path) -> Result<()> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    // Handles both formats of apt's source files.
    let (name, text) = match read("/etc/apt/sources.list.d/debian.sources") {
        text if text.is_empty() => {
            ("source.list", read("/etc/apt/sources.list").replace("deb ", "deb-src "))
        }
        text => ("source.sources", text.replace("Types: deb", "Types: deb-src")),
    };
    let (lists, list) = (path.join("lists"), path.join(name));
    fs::create_dir_all(lists.join("partial"))?;
    fs::write(&list, text)?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.arg("-qq").current_dir(path);
        apt.arg("-o").arg(format!("Dir::Etc::SourceList={}", list.display()));
        apt.args(["-o", "Dir::Etc::SourceParts=-"]);
        apt.arg("-o").arg(format!("Dir::State::Lists={}", lists.display()));
        apt
    };
    let mut update = apt();
    update.arg("update");
    run(update)?;
    let mut source = apt();
    source.args(["source", "--download-only", SOURCE]);
    run(source)?;
    Ok(fs::remove_dir_all(lists)?)
}

/// The original's archive among the downloaded files.
fn archive(path: &Path) -> Result<PathBuf> {
    let is_it = |found: &PathBuf| found.to_string_lossy().ends_with(".orig.tar.gz");
    let mut found = fs::read_dir(path)?.filter_map(|entry| Some(entry.ok()?.path()));
    found.find(is_it).context("the source package has no archive of the original")
}

fn change(path: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read_to_string(path)?;
    ensure!(text.contains(from), "{} no longer has {from}", path.display());
    Ok(fs::write(path, text.replace(from, to))?)
}
