//! An ensemble whose members change at run time.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_testkit::connection::Reply;
use zebu_testkit::wire::{Reader, Writer, op};

use crate::dump::SUPER;
use crate::ensemble::options;
use crate::network::Place;
use crate::raw::Session;
use crate::server::{Kind, Options, PATIENCE, Server, free_port, free_ports};

/// The znode that shows the configuration.
const CONFIG: &str = "/zookeeper/config";

/// The id of a server.
pub type Id = u8;

/// The quorum and election address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    quorum: u16,
    election: u16,
}

/// Servers by id.
pub struct Members {
    servers: BTreeMap<Id, Server>,
    ports: BTreeMap<Id, Ports>,
    options: Options,
    /// Each server has its own address, so all of them can use the same ports.
    apart: bool,
}

impl Members {
    /// Servers of these kinds with the ids 1, 2 and so on, all voters. With `alone`, a single
    /// server is an ensemble.
    ///
    /// # Errors
    /// A server does not start.
    pub fn start(kinds: &[Kind], alone: bool) -> Result<Self> {
        Self::start_with(kinds, options().config("standaloneEnabled", !alone), false)
    }

    /// As above, with further options. With `apart`, each server has its own address.
    ///
    /// # Errors
    /// A server does not start.
    pub fn start_with(kinds: &[Kind], options: Options, apart: bool) -> Result<Self> {
        let options = options.config("reconfigEnabled", "true").keep_config();
        let (servers, ports) = (BTreeMap::new(), BTreeMap::new());
        let mut members = Self { servers, ports, options, apart };
        let ids: Vec<Id> = (1..).take(kinds.len()).collect();
        for id in &ids {
            members.choose_ports(*id);
        }
        let lines: Vec<(Id, &str)> = ids.iter().map(|id| (*id, "participant")).collect();
        for (id, kind) in ids.iter().zip(kinds) {
            members.prepare(*id, *kind, &lines)?;
        }
        for id in &ids {
            members.server(*id).spawn()?;
        }
        for id in &ids {
            members.server(*id).wait_until_serving()?;
        }
        Ok(members)
    }

    /// Gives a server other quorum and election ports. The other members learn them by a
    /// reconfiguration.
    pub fn choose_ports(&mut self, id: Id) {
        let quorum = free_ports(2);
        self.ports.insert(id, Ports { quorum, election: quorum + 1 });
    }

    fn host(&self, id: Id) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, if self.apart { 10 + id } else { 1 })
    }

    fn prepare(&mut self, id: Id, kind: Kind, lines: &[(Id, &str)]) -> Result<()> {
        let mut options = self.options.clone();
        for (member, role) in lines {
            let Ports { quorum, election } = self.ports[member];
            let line = format!("{}:{quorum}:{election}:{role}", self.host(*member));
            options = options.config(&format!("server.{member}"), line);
        }
        let place = Place { host: self.host(id), namespace: None };
        let server = Server::prepare_at(place, kind, &options, |data| {
            Ok(fs::write(data.join("myid"), format!("{id}\n"))?)
        })?;
        self.servers.insert(id, server);
        Ok(())
    }

    /// Adds a line to the configuration of servers that join from now on.
    pub fn configure(&mut self, key: &str, value: &str) {
        self.options = self.options.clone().config(key, value);
    }

    /// Starts one more server as an observer, with the `others` in its list.
    ///
    /// # Errors
    /// It does not start.
    pub fn join(&mut self, id: Id, kind: Kind, others: &[Id]) -> Result<()> {
        self.join_as(id, kind, others, "observer")
    }

    /// As above, with another role.
    ///
    /// # Errors
    /// It does not start.
    pub fn join_as(&mut self, id: Id, kind: Kind, others: &[Id], role: &str) -> Result<()> {
        self.choose_ports(id);
        let mut lines: Vec<(Id, &str)> = others.iter().map(|id| (*id, "participant")).collect();
        lines.push((id, role));
        self.prepare(id, kind, &lines)?;
        self.server(id).spawn()?;
        self.server(id).wait_until_serving()
    }

    /// The server with this id.
    ///
    /// # Panics
    /// There is none.
    pub fn server(&mut self, id: Id) -> &mut Server {
        self.servers.get_mut(&id).expect("a server")
    }

    /// The server's line for a reconfiguration.
    pub fn entry(&mut self, id: Id, role: &str) -> String {
        let Ports { quorum, election } = self.ports[&id];
        let client = self.server(id).port();
        let host = self.host(id);
        format!("server.{id}={host}:{quorum}:{election}:{role};{host}:{client}")
    }

    /// The same with other quorum and election ports.
    pub fn entry_at(&mut self, id: Id, hosts: &[Ipv4Addr], role: &str) -> String {
        let Ports { quorum, election } = self.ports[&id];
        let address = |host: &Ipv4Addr| format!("{host}:{quorum}:{election}");
        let addresses: Vec<String> = hosts.iter().map(address).collect();
        let (host, client) = (self.host(id), self.server(id).port());
        format!("server.{id}={}:{role};{host}:{client}", addresses.join("|"))
    }

    /// A configuration without ports and without its version.
    pub fn without_ports(&self, config: &str) -> String {
        let is_member = |line: &&str| !line.starts_with("version=");
        let mut text: String =
            config.lines().filter(is_member).flat_map(|line| [line, "\n"]).collect();
        for (id, Ports { quorum, election }) in &self.ports {
            let client = self.servers.get(id).map_or(0, Server::port);
            let names = [(*quorum, "quorum"), (*election, "election"), (client, "client")];
            for (port, name) in names {
                text = text.replace(&format!(":{port}"), &format!(":{name}-{id}"));
            }
        }
        text
    }

    /// Waits until a server has a configuration in its file, and returns it.
    ///
    /// # Errors
    /// It never has.
    pub fn dynamic_file(&mut self, id: Id, config: &str) -> Result<String> {
        let (_, version) = config.rsplit_once("version=").context("no version")?;
        let name = format!("{}.dynamic.{version}", self.server(id).config().display());
        let start = Instant::now();
        loop {
            match fs::read_to_string(&name) {
                Ok(text) if !text.is_empty() => return Ok(text),
                said => ensure!(start.elapsed() < PATIENCE, "{name}: {said:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The same with another client port. The server is expected to move to that port.
    pub fn moved_entry(&mut self, id: Id, role: &str) -> String {
        self.server(id).moved(free_port());
        self.entry(id, role)
    }

    /// Sends a reconfiguration to a server, and returns the answer.
    ///
    /// # Errors
    /// There is no answer.
    pub fn ask(
        &mut self,
        at: Id,
        joining: Option<&str>,
        leaving: Option<&str>,
        members: Option<&str>,
        version: i64,
    ) -> Result<Reply> {
        let mut session = Session::open(self.server(at).address(), 60_000)?;
        session.auth("digest", SUPER)?;
        let body = [joining, leaving, members]
            .into_iter()
            .fold(Writer::new(), Writer::optional_string)
            .long(version);
        session.call(op::RECONFIG, body)
    }

    /// Adds, changes and removes members, and returns the new configuration.
    ///
    /// # Errors
    /// The reconfiguration is refused, or there is no leader in time.
    pub fn change(&mut self, at: Id, joining: &[String], leaving: &[Id]) -> Result<String> {
        let joining = joining.join(",");
        let leaving: Vec<String> = leaving.iter().map(Id::to_string).collect();
        let leaving = leaving.join(",");
        let some = |list: String| (!list.is_empty()).then_some(list);
        self.insist(at, some(joining).as_deref(), some(leaving).as_deref(), None)
    }

    /// Replaces all members, named as by [`Members::entry`], and returns the new configuration.
    ///
    /// # Errors
    /// As for [`Members::change`].
    pub fn replace(&mut self, at: Id, members: &[String]) -> Result<String> {
        self.insist(at, None, None, Some(&members.join(",")))
    }

    /// Sends a reconfiguration until a leader accepts it.
    fn insist(
        &mut self,
        at: Id,
        joining: Option<&str>,
        leaving: Option<&str>,
        members: Option<&str>,
    ) -> Result<String> {
        let start = Instant::now();
        loop {
            let reply = self.ask(at, joining, leaving, members, -1);
            match reply {
                Ok(reply) if reply.err == 0 => {
                    let text = Reader::new(&reply.body).buffer()?.to_vec();
                    return Ok(String::from_utf8(text)?);
                }
                // The leader does not know its followers yet, or it has just changed.
                Ok(Reply { err: -13 | -14, .. }) | Err(_) if start.elapsed() < PATIENCE => {}
                Ok(reply) => bail!("reconfiguration: error {}", reply.err),
                Err(error) => return Err(error),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The configuration that a server shows.
    ///
    /// # Errors
    /// It does not serve clients.
    pub fn shown(&mut self, at: Id) -> Result<String> {
        let mut session = Session::open(self.server(at).address(), 60_000)?;
        session.expect(op::SYNC, Writer::new().string("/"))?;
        let body = session.expect(op::GET_DATA, Writer::new().string(CONFIG).bool(false))?;
        let text = Reader::new(&body).buffer()?.to_vec();
        session.close()?;
        Ok(String::from_utf8(text)?)
    }

    /// Waits until all these servers serve clients and show this configuration.
    ///
    /// # Errors
    /// A server never does.
    pub fn expect(&mut self, ids: &[Id], config: &str) -> Result<()> {
        for id in ids {
            let start = Instant::now();
            loop {
                match self.shown(*id) {
                    Ok(shown) if shown == config => break,
                    shown if start.elapsed() > PATIENCE => {
                        let log = self.server(*id).log();
                        bail!("server {id}: {shown:?} instead of {config:?}\n{log}");
                    }
                    _ => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        }
        Ok(())
    }

    /// Waits until one of these servers is the leader.
    ///
    /// # Errors
    /// None becomes the leader.
    pub fn leader(&mut self, ids: &[Id]) -> Result<Id> {
        let start = Instant::now();
        loop {
            for id in ids {
                if self.mode(*id).is_ok_and(|mode| mode == "leader") {
                    return Ok(*id);
                }
            }
            ensure!(start.elapsed() < PATIENCE, "nobody leads");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The role that a server reports.
    ///
    /// # Errors
    /// It does not serve clients.
    pub fn mode(&mut self, id: Id) -> Result<String> {
        let text = self.server(id).ask("srvr", Duration::from_secs(1))?;
        let mode = text.lines().find_map(|line| line.strip_prefix("Mode: "));
        Ok(mode.context("no mode")?.to_owned())
    }

    /// Waits until a server reports this role.
    ///
    /// # Errors
    /// It never does.
    pub fn expect_mode(&mut self, id: Id, mode: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            let found = self.mode(id);
            if found.as_ref().is_ok_and(|found| found == mode) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!("server {id} is {found:?}, not {mode}\n{}", self.server(id).log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Creates a znode at each of these servers, and checks that each server shows all of them.
    ///
    /// # Errors
    /// A server does not.
    pub fn write(&mut self, ids: &[Id], name: &str) -> Result<()> {
        for id in ids {
            let start = Instant::now();
            let path = format!("/{name}-{id}");
            loop {
                let created = Session::open(self.server(*id).address(), 60_000)
                    .and_then(|mut session| session.create(&path, b"", 0));
                match created {
                    Ok(_) => break,
                    Err(error) if error.to_string().contains("-110") => break,
                    Err(error) if start.elapsed() > PATIENCE => return Err(error.context(path)),
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        }
        for id in ids {
            let mut session = Session::open(self.server(*id).address(), 60_000)?;
            session.expect(op::SYNC, Writer::new().string("/"))?;
            for other in ids {
                let path = format!("/{name}-{other}");
                session
                    .expect(op::EXISTS, Writer::new().string(&path).bool(false))
                    .with_context(|| format!("{path} at server {id}"))?;
            }
            session.close()?;
        }
        Ok(())
    }
}
