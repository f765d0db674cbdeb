//! Ensembles that grow by edited files: the lists of members differ until the last member has
//! restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::ensemble::options;
use zebu_interop::network::Place;
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{PATIENCE, Server, free_ports};
use zebu_testkit::wire::{Writer, op};

/// Servers by id, their lines in the lists, and the members that each server's list contains.
#[derive(Default)]
struct Servers {
    servers: BTreeMap<u8, Server>,
    lines: BTreeMap<u8, String>,
    lists: BTreeMap<u8, BTreeSet<u8>>,
}

impl Servers {
    /// Adds a server whose list contains all servers with lines so far.
    fn add(&mut self, id: u8, kind: Kind) -> Result<()> {
        let lines = self.lines.iter();
        let options = lines
            .fold(options().keep_config(), |options, (id, line)| {
                options.config(&format!("server.{id}"), line)
            })
            .config(
                "peerType",
                if self.lines[&id].ends_with("observer") { "observer" } else { "participant" },
            );
        let host = std::net::Ipv4Addr::LOCALHOST;
        let mut server =
            Server::prepare_at(Place { host, namespace: None }, kind, &options, |data| {
                Ok(fs::write(data.join("myid"), format!("{id}\n"))?)
            })?;
        server.spawn()?;
        self.servers.insert(id, server);
        self.lists.insert(id, self.lines.keys().copied().collect());
        Ok(())
    }

    fn name(&mut self, id: u8, role: &str) {
        let port = free_ports(2);
        self.lines.insert(id, format!("127.0.0.1:{port}:{}:{role}", port + 1));
    }

    fn serves(&mut self, id: u8) -> Result<()> {
        self.servers.get_mut(&id).expect("a server").wait_until_serving()
    }

    /// The operator adds servers to a server's list, and restarts it.
    fn restart_with(&mut self, id: u8, others: &[u8]) -> Result<()> {
        let server = self.servers.get_mut(&id).expect("a server");
        server.stop()?;
        let mut file = fs::File::options().append(true).open(server.config())?;
        for other in others {
            writeln!(file, "server.{other}={}", self.lines[other])?;
        }
        self.lists.get_mut(&id).expect("a list").extend(others);
        server.spawn()?;
        server.wait_until_serving()
    }

    /// The server that reports that it leads, if any.
    fn leader(&self) -> Option<u8> {
        let mut servers = self.servers.iter();
        let leads = |server: &Server| {
            let words = server.ask("srvr", Duration::from_secs(1));
            words.is_ok_and(|words| words.contains("Mode: leader"))
        };
        servers.find(|(_, server)| leads(server)).map(|(id, _)| *id)
    }

    /// A write at one server is visible at all servers whose lists contain the leader. The others
    /// cannot find the leader and wait, as with the original. A restart may have hit the leader, so
    /// the next one is looked for again.
    fn write(&mut self, at: u8, path: &str) -> Result<()> {
        let address = self.servers[&at].address();
        until(|| {
            let mut session = Session::open(address, 60_000)?;
            if !is_there(&mut session, path)? {
                session.create(path, b"", 0)?;
            }
            session.close()
        })
        .with_context(|| format!("{path} written at server {at}"))?;
        for (id, server) in &self.servers {
            until(|| {
                let leader = self.leader().context("nobody leads")?;
                if !self.lists[id].contains(&leader) {
                    return Ok(());
                }
                let mut session = Session::open(server.address(), 60_000)?;
                ensure!(is_there(&mut session, path)?, "it is not there");
                session.close()
            })
            .with_context(|| format!("{path} read at server {id}"))?;
        }
        Ok(())
    }
}

/// Whether a znode exists now.
fn is_there(session: &mut Session, path: &str) -> Result<bool> {
    session.expect(op::SYNC, Writer::new().string("/"))?;
    Ok(session.call(op::EXISTS, Writer::new().string(path).bool(false))?.err == 0)
}

/// Repeats a step until it succeeds, up to the maximum time.
fn until(mut done: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match done() {
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(50)),
            result => return result,
        }
    }
}

/// Three members become four and an observer: first the new ones start, then the others restart one
/// by one.
fn grow(old: Kind, new: Kind) -> Result<()> {
    let mut all = Servers::default();
    for id in [1, 2, 3] {
        all.name(id, "participant");
    }
    for id in [1, 2, 3] {
        all.add(id, old)?;
    }
    for id in [1, 2, 3] {
        all.serves(id)?;
    }
    all.write(1, "/three")?;
    all.name(4, "participant");
    all.add(4, new)?;
    all.serves(4)?;
    all.write(4, "/four")?;
    all.name(5, "observer");
    all.add(5, new)?;
    all.serves(5)?;
    all.write(5, "/observed")?;
    for id in [1, 2, 3] {
        all.restart_with(id, &[4, 5])?;
        all.serves(4)?;
        all.write(id, &format!("/restarted-{id}"))?;
    }
    // The new voter counts: without one of the others, three of four are left.
    all.servers.remove(&1).expect("a server").kill()?;
    for id in [2, 3, 4, 5] {
        all.serves(id)?;
    }
    all.write(4, "/without")
}

#[test]
fn an_ensemble_grows_by_editing_files() {
    grow(Zebu, Zebu).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn an_ensemble_grows_by_one_of_the_original() {
    grow(Zebu, Java395).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn an_ensemble_of_the_original_grows_by_one_of_ours() {
    grow(Java395, Zebu).unwrap();
}
