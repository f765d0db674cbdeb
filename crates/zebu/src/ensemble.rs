//! `zebu ensemble`: an ensemble on this machine, to try things out.
//!
//! Each member is a process of its own, so a user can kill, pause and inspect it like a real
//! server.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Time until all members must serve.
const START_TIME: Duration = Duration::from_secs(60);

/// Time a member has to end when it is asked to.
const STOP_TIME: Duration = Duration::from_secs(20);

/// Between two looks at the members.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Distance from a member's client port to its port for learners, and from there to that for
/// elections.
const PORTS_APART: u16 = 100;

/// Arguments of `zebu ensemble`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    about = "Run a whole ensemble on this machine, to try things out",
    long_about = "Run a whole ensemble on this machine, to try things out.\n\n\
        Each member is a process of its own with its zoo.cfg, data and log in a folder of the data directory. All of them \
        listen on 127.0.0.1 only. Ctrl-C ends them; the next start goes on with the same data.",
    after_long_help = "\
Examples:
  zebu ensemble
      three servers, clients on ports 2181 to 2183, data in ./zebu-ensemble
  zebu ensemble --servers 5 --base-port 12000 --data-dir /tmp/five
      five servers, clients on ports 12000 to 12004

Exit codes: 0 stopped as asked, 1 anything else."
)]
pub struct EnsembleArgs {
    /// How many servers
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u16).range(2..=i64::from(PORTS_APART) - 1))]
    pub servers: u16,

    /// Where the servers keep everything
    #[arg(long, value_name = "DIR", default_value = "zebu-ensemble")]
    pub data_dir: PathBuf,

    /// Client port of the first server; the next servers use the next ports. Quorum and election
    /// ports are 100 and 200 above the client port
    #[arg(long, value_name = "PORT", default_value_t = 2181)]
    pub base_port: u16,
}

/// Runs an ensemble until SIGINT or SIGTERM.
pub fn run(args: &EnsembleArgs) -> ExitCode {
    match try_run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(args: &EnsembleArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut ensemble = Ensemble::prepare(args)?;
        ensemble.start()?;
        let result = tokio::select! {
            // Ctrl-C in a terminal ends the servers, too: that they end is no news then.
            biased;
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            result = ensemble.watch() => result,
        };
        let stopped = ensemble.stop().await;
        result.and(stopped)
    })
}

/// One server.
struct Member {
    id: u16,
    dir: PathBuf,
    client: SocketAddr,
    /// `None` before it is started and after its end.
    child: Option<Child>,
}

impl Member {
    fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    /// The mode that the server reports; `None` while it does not serve.
    fn mode(&self) -> Option<String> {
        let patience = Duration::from_millis(500);
        let mut stream = TcpStream::connect_timeout(&self.client, patience).ok()?;
        stream.set_read_timeout(Some(patience)).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(ToOwned::to_owned)
    }

    /// How the process ended; reported once.
    fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let status = child.try_wait()?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }

    /// The last lines of its log.
    fn last_words(&self) -> String {
        let bytes = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

struct Ensemble {
    members: Vec<Member>,
    data_dir: PathBuf,
}

impl Ensemble {
    /// Writes the configurations.
    fn prepare(args: &EnsembleArgs) -> anyhow::Result<Self> {
        let count = args.servers;
        let (first, last) =
            (args.base_port, u32::from(args.base_port) + u32::from(2 * PORTS_APART + count) - 1);
        ensure!(
            first > 0 && last <= u32::from(u16::MAX),
            "--base-port {first}: ports up to {last} are needed"
        );
        let data_dir = std::path::absolute(&args.data_dir)?;
        fs::create_dir_all(&data_dir).with_context(|| data_dir.display().to_string())?;
        let there = (1..PORTS_APART).filter(|id| data_dir.join(id.to_string()).exists()).count();
        ensure!(
            there == 0 || there == usize::from(count),
            "{} has an ensemble of {there} servers, not of {count}\n\
             hint: --servers {there}, or another --data-dir",
            data_dir.display()
        );
        let mut servers = String::new();
        for id in 1..=count {
            let client = first + id - 1;
            let (learners, elections) = (client + PORTS_APART, client + 2 * PORTS_APART);
            writeln!(servers, "server.{id}=127.0.0.1:{learners}:{elections};127.0.0.1:{client}")?;
            for port in [client, learners, elections] {
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
                    format!("port {port} of 127.0.0.1 cannot be used\nhint: another --base-port")
                })?;
            }
        }
        let member = |id: u16| -> anyhow::Result<Member> {
            let dir = data_dir.join(id.to_string());
            let client = SocketAddr::from((Ipv4Addr::LOCALHOST, first + id - 1));
            fs::create_dir_all(dir.join("data"))?;
            fs::write(dir.join("data/myid"), format!("{id}\n"))?;
            fs::write(dir.join("zoo.cfg"), configuration(&dir, &servers))?;
            Ok(Member { id, dir, client, child: None })
        };
        let members = (1..=count).map(member).collect::<anyhow::Result<_>>();
        let members = members.with_context(|| data_dir.display().to_string())?;
        Ok(Self { members, data_dir })
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("where this program is")?;
        for member in &mut self.members {
            let log = member.log();
            let open = || File::options().create(true).append(true).open(&log);
            let log = open().with_context(|| log.display().to_string())?;
            let child = Command::new(&program)
                .arg("server")
                .arg(member.dir.join("zoo.cfg"))
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
                .context("a server cannot be started")?;
            member.child = Some(child);
        }
        Ok(())
    }

    /// Reports when the ensemble is ready, and each server that ends later. Returns when no server
    /// is left.
    async fn watch(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            for member in &mut self.members {
                if let Some(status) = member.ended()? {
                    bail!("server {} ended: {status}\n{}", member.id, member.last_words());
                }
            }
            let modes: Option<Vec<String>> = self.members.iter().map(Member::mode).collect();
            if let Some(modes) = modes {
                say(&self.greeting(&modes));
                break;
            }
            ensure!(
                start.elapsed() < START_TIME,
                "the servers do not serve\nhint: see {}",
                self.members[0].log().display()
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
        while self.members.iter().any(|member| member.child.is_some()) {
            for member in &mut self.members {
                if let Some(status) = member.ended()? {
                    say(&format!("server {} ended: {status}\n", member.id));
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!("all servers have ended")
    }

    fn greeting(&self, modes: &[String]) -> String {
        let addresses: Vec<String> =
            self.members.iter().map(|member| member.client.to_string()).collect();
        let addresses = addresses.join(",");
        let mut text = format!("listening on {addresses}\ndata in {}\n", self.data_dir.display());
        for (member, mode) in self.members.iter().zip(modes) {
            let Member { id, client, child, .. } = member;
            let process = child.as_ref().map_or(0, Child::id);
            let log = member.log();
            let _ = writeln!(
                text,
                "server {id}: {mode} on {client}, process {process}, log {}",
                log.display()
            );
        }
        let leader = modes.iter().position(|mode| mode == "leader");
        let leader = leader.and_then(|index| self.members[index].child.as_ref());
        let _ = writeln!(text, "try it: zebu shell -server {addresses}");
        if let Some(leader) = leader {
            let _ = writeln!(text, "then: kill -9 {}, and the other servers continue", leader.id());
        }
        text.push_str("Ctrl-C ends it\n");
        text
    }

    /// Asks all servers to end, and waits for them.
    async fn stop(&mut self) -> anyhow::Result<()> {
        for child in self.members.iter().filter_map(|member| member.child.as_ref()) {
            for signal in [Signal::TERM, Signal::CONT] {
                // It may have ended already: Ctrl-C in a terminal reaches the servers, too.
                let _ = kill_process(Pid::from_child(child), signal);
            }
        }
        let start = Instant::now();
        let mut failed = Vec::new();
        while self.members.iter().any(|member| member.child.is_some()) {
            for member in &mut self.members {
                match member.ended()? {
                    Some(status) if !status.success() => {
                        failed.push(format!("server {}: {status}", member.id));
                    }
                    _ => {}
                }
            }
            if start.elapsed() > STOP_TIME {
                // What is left is killed when it is dropped.
                bail!("not all servers end when they are asked to");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        ensure!(failed.is_empty(), "did not end as asked: {}", failed.join(", "));
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A member's `zoo.cfg`, with short limits, so that it detects the end of another member quickly.
fn configuration(dir: &Path, servers: &str) -> String {
    format!(
        "dataDir={}\ntickTime=500\ninitLimit=20\nsyncLimit=4\nmaxSessionTimeout=40000\n\
         4lw.commands.whitelist=*\nadmin.serverPort=0\n{servers}",
        dir.join("data").display()
    )
}

fn say(text: &str) {
    // Nobody may be reading it.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
