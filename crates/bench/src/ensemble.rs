//! Servers of one kind that form an ensemble on this machine: three voters, and observers.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;

use crate::compare::{Bout, START_LIMIT};
use crate::contestant::{LOGGED, Running};
pub(crate) use crate::echo::MEMBERS;
use crate::echo::{EchoServer, Logged};
use crate::process::Process;
use crate::suite::{ROOT, client_of};

/// The interval of checks for the leader.
const LOOK: Duration = Duration::from_millis(10);
/// How long a starting server may refuse requests.
const PATIENCE: Duration = Duration::from_secs(20);
/// The range of ports: below those of outgoing connections, so that a restarted server finds its
/// own port free.
const PORTS: std::ops::Range<u16> = 13_000..29_000;

/// The servers. Dropping it ends them.
pub(crate) struct Ensemble<'a> {
    bout: &'a Bout<'a>,
    /// Client ports.
    addresses: Vec<SocketAddr>,
    lines: Vec<String>,
    members: Vec<Option<Running>>,
}

impl<'a> Ensemble<'a> {
    /// Starts three voters and waits until they serve.
    pub(crate) fn start(bout: &'a Bout<'a>) -> anyhow::Result<Self> {
        Self::start_with(bout, 0)
    }

    /// Starts three voters and this number of observers, and waits until they serve.
    pub(crate) fn start_with(bout: &'a Bout<'a>, observers: usize) -> anyhow::Result<Self> {
        assert!(!bout.contestant.is_bound(), "suites of ensembles do not suit it");
        rustix::fs::sync(); // what others wrote is not to be paid for by this server's fsync
        let count = MEMBERS + observers;
        let ports = free_ports(3 * count)?;
        let address = |index: usize| (Ipv4Addr::LOCALHOST, ports[3 * index]).into();
        let mut lines = vec![
            format!("tickTime={}", bout.args.tick),
            format!("syncLimit={}", bout.args.sync_limit),
            // A transfer of the whole tree may be necessary.
            "initLimit=600".to_owned(),
        ];
        for index in 0..count {
            let (quorum, election) = (ports[3 * index + 1], ports[3 * index + 2]);
            let role = if index < MEMBERS { "" } else { ":observer" };
            lines.push(format!("server.{}=127.0.0.1:{quorum}:{election}{role}", index + 1));
        }
        lines.push(LOGGED.to_owned());
        lines.extend_from_slice(&bout.args.extra);
        let addresses = (0..count).map(address).collect();
        let members = (0..count).map(|_| None).collect();
        let mut ensemble = Self { bout, addresses, lines, members };
        for index in 0..count {
            let data = ensemble.directory(index).join("data");
            fs::create_dir_all(&data).with_context(|| format!("create {}", data.display()))?;
            fs::write(data.join("myid"), format!("{}\n", index + 1))?;
            ensemble.launch(index)?;
        }
        ensemble.wait_for_all()?;
        for &address in &ensemble.addresses {
            // A server that has just begun to serve may still close connections.
            retried(|| client_of(address)?.ensure(ROOT)).with_context(|| format!("{address}"))?;
        }
        Ok(ensemble)
    }

    /// The directory of a server.
    pub(crate) fn directory(&self, index: usize) -> PathBuf {
        self.bout.dir.join(format!("server-{}", index + 1))
    }

    /// The client addresses.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The running processes.
    pub(crate) fn processes(&self) -> Vec<Process> {
        self.members.iter().flatten().filter_map(Running::process).collect()
    }

    /// Starts a stopped server without waiting.
    pub(crate) fn launch(&mut self, index: usize) -> anyhow::Result<()> {
        let (address, dir) = (self.addresses[index], self.directory(index));
        self.members[index] = Some(self.bout.contestant.start_at(address, &dir, &self.lines)?);
        Ok(())
    }

    /// A running server.
    pub(crate) fn member(&mut self, index: usize) -> anyhow::Result<&mut Running> {
        self.members[index].as_mut().with_context(|| format!("server {} is stopped", index + 1))
    }

    /// Waits until a server serves clients as a member.
    pub(crate) fn wait_for(&mut self, index: usize) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let member = self.member(index)?;
            if member.leads().is_some() {
                return Ok(());
            }
            if start.elapsed() > START_LIMIT {
                bail!("server {} does not serve\n{}", index + 1, member.log_tail());
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until all servers serve clients.
    pub(crate) fn wait_for_all(&mut self) -> anyhow::Result<()> {
        (0..self.members.len()).try_for_each(|index| self.wait_for(index))
    }

    /// The leader, as soon as only one server claims to lead. A server that was paused may claim it
    /// for a while.
    pub(crate) fn leader(&self) -> anyhow::Result<usize> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            let leads = |it: &Option<Running>| it.as_ref().and_then(Running::leads) == Some(true);
            let led = |(index, member)| leads(member).then_some(index);
            let leaders: Vec<usize> = self.members.iter().enumerate().filter_map(led).collect();
            if let [leader] = leaders[..] {
                return Ok(leader);
            }
            thread::sleep(LOOK);
        }
        bail!("no server leads")
    }

    /// The addresses of all servers but one.
    pub(crate) fn others(&self, index: usize) -> Vec<SocketAddr> {
        let others = self.addresses.iter().enumerate().filter(|(other, _)| *other != index);
        others.map(|(_, address)| *address).collect()
    }

    /// Kills a server.
    pub(crate) fn kill(&mut self, index: usize) {
        self.members[index] = None;
    }

    /// Pauses or resumes a server.
    pub(crate) fn pause(&mut self, index: usize, is_paused: bool) -> anyhow::Result<()> {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        self.member(index)?.signal(signal);
        Ok(())
    }

    /// Asks a server to stop, without waiting for its end.
    pub(crate) fn ask_to_stop(&mut self, index: usize) -> anyhow::Result<()> {
        self.member(index)?.signal(Signal::TERM);
        Ok(())
    }

    /// Stops a server.
    pub(crate) fn stop_one(&mut self, index: usize) -> anyhow::Result<()> {
        match self.members[index].take() {
            Some(member) => member.stop().map(|_| ()),
            None => Ok(()),
        }
    }

    /// Deletes the data of a stopped server, except for its id.
    pub(crate) fn wipe(&self, index: usize) -> anyhow::Result<()> {
        let history = self.directory(index).join("data/version-2");
        fs::remove_dir_all(&history).with_context(|| format!("remove {}", history.display()))
    }

    /// Stops all servers, the leader last.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let leader = self.leader()?;
        for index in (0..self.members.len()).filter(|index| *index != leader).chain([leader]) {
            self.stop_one(index)?;
        }
        Ok(())
    }
}

/// Three servers of any kind.
pub(crate) enum Members<'a> {
    /// Real ones.
    Real(Ensemble<'a>),
    /// Servers inside this process that only make writes durable.
    Bound([EchoServer; MEMBERS]),
}

impl<'a> Members<'a> {
    /// Starts them and waits until they serve.
    pub(crate) fn start(bout: &'a Bout<'a>) -> anyhow::Result<Self> {
        if !bout.contestant.is_bound() {
            return Ok(Self::Real(Ensemble::start(bout)?));
        }
        rustix::fs::sync(); // as for the others
        let dirs = [1, 2, 3].map(|number| bout.dir.join(format!("server-{number}")));
        Ok(Self::Bound(EchoServer::ensemble((Ipv4Addr::LOCALHOST, 0).into(), &dirs)?))
    }

    /// Where clients connect.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Real(ensemble) => ensemble.addresses().to_vec(),
            Self::Bound(servers) => servers.each_ref().map(EchoServer::address).to_vec(),
        }
    }

    /// The leader.
    pub(crate) fn leader(&self) -> anyhow::Result<Leader<'_>> {
        match self {
            Self::Real(ensemble) => {
                let leader = ensemble.members[ensemble.leader()?].as_ref();
                Ok(Leader::Real(leader.context("the leader is stopped")?))
            }
            Self::Bound([leader, ..]) => Ok(Leader::Bound(leader)),
        }
    }

    /// The processes, unless they are this one.
    pub(crate) fn processes(&self) -> Vec<Process> {
        match self {
            Self::Real(ensemble) => ensemble.processes(),
            Self::Bound(_) => Vec::new(),
        }
    }

    /// Ends them in order.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Real(ensemble) => ensemble.stop(),
            Self::Bound(servers) => {
                // At the same time, because a remaining server would miss the others.
                for server in &servers {
                    server.ask_to_stop();
                }
                Ok(())
            }
        }
    }
}

/// The leader of three servers.
pub(crate) enum Leader<'m> {
    Real(&'m Running),
    Bound(&'m EchoServer),
}

impl Leader<'_> {
    /// What it has logged since its start.
    pub(crate) fn logged(&self) -> Option<Logged> {
        match self {
            Self::Real(server) => server.logged(),
            Self::Bound(server) => server.logged(),
        }
    }
}

/// Repeats `attempt` for a while until it succeeds.
pub(crate) fn retried(mut attempt: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            Err(_) => thread::sleep(LOOK),
            Ok(()) => return Ok(()),
        }
    }
}

/// Free ports.
pub(crate) fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let offset = u16::try_from(std::process::id() % 8_000).expect("below 8,000");
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let ports: Vec<u16> = PORTS.skip(usize::from(offset)).filter(is_free).take(count).collect();
    ensure!(ports.len() == count, "no {count} free ports");
    Ok(ports)
}
