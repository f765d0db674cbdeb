//! A server that runs under a tool.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, Role, Story};
use crate::profile::{Atomics, Profile};
use crate::tool::{Counts, Tool};

/// The time limit for a start, an end or a report.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

/// A process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it has ended, unless something failed
        let _ = self.0.wait();
    }
}

/// The counted server, and the other members of its ensemble.
struct Servers {
    counted: Running,
    client: Client,
    _others: Vec<Running>,
}

/// A file system in memory, on which a sync takes no time.
const MEMORY: &str = "/dev/shm";

/// The directory of a count. The data of a standalone server are in memory where there is such a
/// file system: on a slow disk, it gives the sync of a lone write to another thread, and its costs
/// are higher. A member always does so.
fn directory(role: Role) -> std::io::Result<tempfile::TempDir> {
    match role {
        Role::Alone => tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir()),
        Role::Leader | Role::Follower => tempfile::tempdir(),
    }
}

/// Runs a server under a tool while a client runs a story.
pub(crate) fn count(
    zebu: &Path,
    atomics: &Atomics,
    tool: Tool,
    role: Role,
    story: Option<&Story>,
    requests: usize,
) -> Result<(Counts, Profile)> {
    tool.check()?;
    let dir = directory(role)?;
    let report = dir.path().join("report");
    let mut servers = start(zebu, tool, role, dir.path(), &report)?;
    if let Some(story) = story {
        servers.client.tell(story, requests)?;
    }
    let Servers { counted, .. } = &mut servers;
    let pid = Pid::from_raw(i32::try_from(counted.0.id())?).context("a process has an id")?;
    kill_process(pid, Signal::TERM)?;
    wait_for("the end of the server", || Ok(counted.0.try_wait()?))?;
    wait_for("the report", || {
        Ok(tool.parse(&fs::read_to_string(&report).unwrap_or_default(), zebu, atomics))
    })
}

/// Starts the servers that a role needs.
///
/// Among members with equal histories, the one with the highest id leads. So the first two that
/// start decide the leader, and the third one follows.
fn start(zebu: &Path, tool: Tool, role: Role, dir: &Path, report: &Path) -> Result<Servers> {
    let counted = tool.command(report);
    let (order, of_counted): (&[usize], usize) = match role {
        Role::Alone => (&[1], 1),
        Role::Leader => (&[3, 1, 2], 3),
        Role::Follower => (&[3, 2, 1], 1),
    };
    let configs = configure(dir, order.len())?;
    let mut counted = Some(counted);
    let (mut mine, mut others) = (None, Vec::new());
    for (at, &id) in order.iter().enumerate() {
        let (config, address) = &configs[id - 1];
        let mut command = match counted.take_if(|_| id == of_counted) {
            Some(mut tool) => {
                tool.arg(zebu);
                tool
            }
            None => Command::new(zebu),
        };
        command.arg("server").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Running(command.spawn().with_context(|| format!("{command:?}"))?);
        if id == of_counted {
            mine = Some(server)
        } else {
            others.push(server)
        }
        // The first of several members waits for the second.
        if at > 0 || order.len() == 1 {
            let is_mine = id == of_counted;
            let server = if is_mine { mine.as_mut() } else { others.last_mut() };
            let server = server.context("it was started")?;
            wait_until_it_serves(server, *address)?;
        }
    }
    let mut counted = mine.context("it was started")?;
    let client = wait_until_it_serves(&mut counted, configs[of_counted - 1].1)?;
    Ok(Servers { counted, client, _others: others })
}

/// The configuration and the client's address of each of `count` servers.
fn configure(dir: &Path, count: usize) -> Result<Vec<(PathBuf, SocketAddr)>> {
    // All ports are bound at the same time, so that they differ.
    let listeners: Vec<TcpListener> = (0..3 * count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()?;
    let ports: Vec<u16> =
        listeners.iter().map(|it| Ok(it.local_addr()?.port())).collect::<Result<_>>()?;
    let mut members = String::new();
    for id in 1..=count {
        let (quorum, election) = (ports[3 * id - 2], ports[3 * id - 1]);
        members.push_str(&format!("server.{id}=127.0.0.1:{quorum}:{election}\n"));
    }
    let mut configs = Vec::new();
    for id in 1..=count {
        let data = dir.join(format!("data-{id}"));
        fs::create_dir_all(&data)?;
        let port = ports[3 * id - 3];
        let mut text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            data.display()
        );
        if count > 1 {
            fs::write(data.join("myid"), id.to_string())?;
            // The counted server is slow; the others must not give it up for that.
            text.push_str("tickTime=5000\ninitLimit=20\nsyncLimit=20\n");
            text.push_str(&members);
        }
        let config = dir.join(format!("zoo-{id}.cfg"));
        fs::write(&config, text)?;
        configs.push((config, SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    }
    Ok(configs)
}

fn wait_until_it_serves(server: &mut Running, address: SocketAddr) -> Result<Client> {
    wait_for("a server that serves", || {
        ensure!(server.0.try_wait()?.is_none(), "a server has ended");
        Ok(Client::connect(address).ok())
    })
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        if let Some(found) = look()? {
            return Ok(found);
        }
        sleep(PAUSE);
    }
    bail!("waited in vain for {what}")
}
