//! The original's C client, from Debian's `libzookeeper-mt-dev`.

use std::process::Command;

use zebu_interop::deps;
use zebu_interop::normalise::text;
use zebu_interop::run::succeed;
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, PATIENCE};

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn c_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("scenario");
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-DTHREADED", "-o"]).arg(&program);
    gcc.arg(deps::client("c/scenario.c")).args(["-lzookeeper_mt", "-lpthread"]);
    succeed(&mut gcc, PATIENCE).expect("the scenario compiles");

    let options = Options::default().config("extendedTypesEnabled", true);
    same("c-client", &options, |server| {
        let output = succeed(Command::new(&program).arg(server.connect_string()), 3 * PATIENCE)?;
        Ok(text(&output))
    });
}
