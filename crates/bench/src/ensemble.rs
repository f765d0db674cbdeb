//! Three servers of one kind that form an ensemble on this machine.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;

use crate::compare::{Bout, START_LIMIT};
use crate::contestant::Running;
use crate::echo::EchoServer;
pub(crate) use crate::echo::MEMBERS;
use crate::process::Process;
use crate::suite::{ROOT, client_of};

/// The pause between two looks at who serves.
const LOOK: Duration = Duration::from_millis(10);
/// How long a server that has just started may refuse what it is asked.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where ports are looked for: below those that the system gives to outgoing connections, so that a server that
/// is started again finds its own free.
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
    /// Starts all of them and waits until they serve.
    pub(crate) fn start(bout: &'a Bout<'a>) -> anyhow::Result<Self> {
        assert!(!bout.contestant.is_bound(), "suites of ensembles do not suit it");
        rustix::fs::sync(); // what others wrote is not to be paid for by this server's fsync
        let ports = free_ports(3 * MEMBERS)?;
        let address = |index: usize| (Ipv4Addr::LOCALHOST, ports[3 * index]).into();
        let mut lines = vec![
            format!("tickTime={}", bout.args.tick),
            format!("syncLimit={}", bout.args.sync_limit),
            // A whole tree may have to be carried over.
            "initLimit=600".to_owned(),
        ];
        for index in 0..MEMBERS {
            let (quorum, election) = (ports[3 * index + 1], ports[3 * index + 2]);
            lines.push(format!("server.{}=127.0.0.1:{quorum}:{election}", index + 1));
        }
        lines.extend_from_slice(&bout.args.extra);
        let addresses = (0..MEMBERS).map(address).collect();
        let members = (0..MEMBERS).map(|_| None).collect();
        let mut ensemble = Self { bout, addresses, lines, members };
        for index in 0..MEMBERS {
            let data = ensemble.directory(index).join("data");
            fs::create_dir_all(&data).with_context(|| format!("create {}", data.display()))?;
            fs::write(data.join("myid"), format!("{}\n", index + 1))?;
            ensemble.launch(index)?;
        }
        ensemble.wait_for_all()?;
        for &address in &ensemble.addresses {
            // Who serves for the first time may still send clients away.
            retried(|| client_of(address)?.ensure(ROOT)).with_context(|| format!("{address}"))?;
        }
        Ok(ensemble)
    }

    /// Where a server has its files.
    pub(crate) fn directory(&self, index: usize) -> PathBuf {
        self.bout.dir.join(format!("server-{}", index + 1))
    }

    /// Where clients connect.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The processes that run.
    pub(crate) fn processes(&self) -> Vec<Process> {
        self.members.iter().flatten().filter_map(Running::process).collect()
    }

    /// Starts a server that is stopped, without waiting for it.
    pub(crate) fn launch(&mut self, index: usize) -> anyhow::Result<()> {
        let (address, dir) = (self.addresses[index], self.directory(index));
        self.members[index] = Some(self.bout.contestant.start_at(address, &dir, &self.lines)?);
        Ok(())
    }

    /// A server that runs.
    pub(crate) fn member(&mut self, index: usize) -> anyhow::Result<&mut Running> {
        self.members[index].as_mut().with_context(|| format!("server {} is stopped", index + 1))
    }

    /// Waits until a server serves as a member.
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

    /// Waits until all of them do.
    pub(crate) fn wait_for_all(&mut self) -> anyhow::Result<()> {
        (0..MEMBERS).try_for_each(|index| self.wait_for(index))
    }

    /// Whoever leads, once nobody else believes it does: who stood still does so for a while.
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

    /// Everybody but one.
    pub(crate) fn others(&self, index: usize) -> Vec<SocketAddr> {
        let others = self.addresses.iter().enumerate().filter(|(other, _)| *other != index);
        others.map(|(_, address)| *address).collect()
    }

    /// Ends a server at once.
    pub(crate) fn kill(&mut self, index: usize) {
        self.members[index] = None;
    }

    /// Lets a server stand still, or go on.
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

    /// Ends a server in order.
    pub(crate) fn stop_one(&mut self, index: usize) -> anyhow::Result<()> {
        match self.members[index].take() {
            Some(member) => member.stop().map(|_| ()),
            None => Ok(()),
        }
    }

    /// Takes everything from a stopped server but its id.
    pub(crate) fn wipe(&self, index: usize) -> anyhow::Result<()> {
        let history = self.directory(index).join("data/version-2");
        fs::remove_dir_all(&history).with_context(|| format!("remove {}", history.display()))
    }

    /// Ends all of them in order, the leader last.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let leader = self.leader()?;
        for index in (0..MEMBERS).filter(|index| *index != leader).chain([leader]) {
            self.stop_one(index)?;
        }
        Ok(())
    }
}

/// Three servers of whatever kind.
pub(crate) enum Members<'a> {
    /// Real ones.
    Real(Ensemble<'a>),
    /// Those that only make writes durable, inside this process.
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

    /// Their processes, unless they are in this one.
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
                // All at once: whoever is left would miss the others.
                for server in &servers {
                    server.ask_to_stop();
                }
                Ok(())
            }
        }
    }
}

/// Does something until it succeeds, for a while.
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

/// Ports nobody listens on.
pub(crate) fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let offset = u16::try_from(std::process::id() % 8_000).expect("below 8,000");
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let ports: Vec<u16> = PORTS.skip(usize::from(offset)).filter(is_free).take(count).collect();
    ensure!(ports.len() == count, "no {count} free ports");
    Ok(ports)
}
