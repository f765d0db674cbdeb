//! The complete state that a super user can read from a server, as text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zebu_testkit::wire::{Reader, Writer, op};

use crate::raw::Session;
use crate::server::{Options, PATIENCE, Server};

/// The credentials whose digest [`with_super`] configures.
pub const SUPER: &str = "super:interop";

/// Number of znodes requested at once.
const AT_ONCE: usize = 100;

/// Gives [`SUPER`] all permissions.
#[must_use]
pub fn with_super(options: Options) -> Options {
    // base64(sha1("super:interop")), from the original's DigestAuthenticationProvider.
    options.property(
        "zookeeper.DigestAuthenticationProvider.superDigest",
        "super:/49OUaS/Rm5CIudE7EhYoMwy+PY=",
    )
}

/// All znodes: path, data, ACL, stat; one line each, sorted by path.
///
/// # Errors
/// The server does not answer.
pub fn tree(address: SocketAddr) -> Result<String> {
    tree_within(address, PATIENCE)
}

/// As above, with this maximum time for each answer.
///
/// # Errors
/// The server does not answer.
pub fn tree_within(address: SocketAddr, patience: Duration) -> Result<String> {
    let mut session = Session::open_within(address, 60_000, patience)?;
    session.auth("digest", SUPER)?;
    let mut lines = BTreeMap::new();
    let mut todo = vec!["/".to_owned()];
    while !todo.is_empty() {
        let paths = todo.split_off(todo.len().saturating_sub(AT_ONCE));
        let of = |path: &String| {
            let read = Writer::new().string(path).bool(false);
            let acl = (op::GET_ACL, Writer::new().string(path));
            [(op::GET_DATA, read.clone()), acl, (op::GET_CHILDREN2, read)]
        };
        let requests: Vec<(i32, Writer)> = paths.iter().flat_map(of).collect();
        let bodies = session.expect_all(&requests)?;
        for (path, bodies) in paths.into_iter().zip(bodies.chunks(3)) {
            let mut reader = Reader::new(&bodies[0]);
            let data = reader.optional_buffer()?.map(|bytes| BASE64_STANDARD.encode(bytes));
            let stat = reader.stat()?;
            reader.end()?;
            let acl = Reader::new(&bodies[1]).acl()?;
            for name in Reader::new(&bodies[2]).vector(Reader::optional_string)? {
                let name = name.context("null child")?;
                todo.push(format!("{}/{name}", path.trim_end_matches('/')));
            }
            lines.insert(path, format!("data={data:?} acl={acl:?} {stat:?}"));
        }
    }
    session.close()?;
    let mut text = String::new();
    for (path, line) in lines {
        writeln!(text, "{path} {line}")?;
    }
    Ok(text)
}

/// Ids of the sessions that the server tracks, and the ephemerals of each, from its `dump` word.
///
/// The answer may be as old as one tick. So the word is sent again until it lists the expected
/// number of sessions.
///
/// # Errors
/// The server does not answer, or does not list its sessions.
pub fn sessions(server: &Server) -> Result<String> {
    let start = Instant::now();
    loop {
        let count: usize = server.monitor("zk_global_sessions")?.parse()?;
        let text = server.four_letter_word("dump")?;
        let (sessions, rest) = text.split_once("ephemeral nodes dump:").context("dump")?;
        let is_id = |line: &&str| line.starts_with("0x");
        let mut ids: Vec<&str> = sessions.lines().map(str::trim).filter(is_id).collect();
        if ids.len() == count {
            ids.sort_unstable();
            return Ok(format!("sessions {ids:?}\nephemerals {:?}\n", owners(rest)));
        }
        ensure!(start.elapsed() < PATIENCE, "{count} sessions, but {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The ephemerals of each session, sorted, from the second part of a dump.
fn owners(rest: &str) -> Vec<(String, Vec<String>)> {
    let ephemerals = rest.split("Connections dump:").next().unwrap_or_default();
    let mut owners: Vec<(String, Vec<String>)> = Vec::new();
    for line in ephemerals.lines().map(str::trim) {
        if line.starts_with("0x") {
            owners.push((line.to_owned(), Vec::new()));
        } else if let (true, Some((_, paths))) = (line.starts_with('/'), owners.last_mut()) {
            paths.push(line.to_owned());
        }
    }
    for (_, paths) in &mut owners {
        paths.sort();
    }
    owners.sort();
    owners
}
