//! The console in a real browser: headless Chromium from Debian, driven by Node through the
//! browser's pipe.
//!
//! `PICTURES=/some/folder cargo test -p zebu-interop --test console -- --ignored` keeps
//! screenshots.

use std::process::Command;

use anyhow::{Result, ensure};
use zebu_interop::deps;
use zebu_interop::raw::Session;
use zebu_interop::run::succeed;
use zebu_interop::server::Kind::Zebu;
use zebu_interop::server::{Options, PATIENCE, Server, free_port};

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_pure_part_of_the_page() -> Result<()> {
    let mut node = Command::new("node");
    node.arg("--test").arg(deps::client("console/format.test.mjs"));
    succeed(&mut node, PATIENCE).map(drop)
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn an_operator_works_with_the_console() -> Result<()> {
    let port = free_port();
    let options = Options::default()
        .config("admin.enableServer", "true")
        .config("admin.serverPort", port)
        .config("admin.console", "true");
    let server = Server::start(Zebu, &options)?;
    let mut keeper = Session::open(server.address(), 30_000)?;
    keeper.create("/many", b"", 0)?;
    for number in 0..450 {
        keeper.create(&format!("/many/n{number:03}"), b"data", 0)?;
    }
    for (path, data) in [
        ("/zookeeper/quota/many", ""),
        ("/zookeeper/quota/many/zookeeper_limits", "count=902,bytes=-1"),
        ("/zookeeper/quota/many/zookeeper_stats", "count=451,bytes=1800"),
    ] {
        keeper.create(path, data.as_bytes(), 0)?;
    }
    let mut ended = Session::open(server.address(), 30_000)?;
    ended.create("/mine", b"", 1)?;

    let mut node = Command::new("node");
    node.arg(deps::client("console/scenario.mjs"))
        .arg(format!("http://127.0.0.1:{port}/console/"))
        .arg(format!("{:#x}", ended.id));
    if let Some(pictures) = std::env::var_os("PICTURES") {
        node.arg(pictures);
    }
    let said = succeed(&mut node, 2 * PATIENCE)?;
    ensure!(said.trim() == "done", "{said}");
    // The ephemeral znode of the ended session is deleted.
    ensure!(keeper.create("/mine", b"", 0).is_ok(), "/mine is still there");
    Ok(())
}
