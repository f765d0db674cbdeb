//! A server that runs under a tool.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, Story};
use crate::profile::{Atomics, Profile};
use crate::tool::{Counts, Tool};

/// How long a start, an end or a report may take.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

/// A process that does not outlive its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it has ended, unless something failed
        let _ = self.0.wait();
    }
}

/// Runs a server under a tool while a client tells a story.
pub(crate) fn count(
    zebu: &Path,
    atomics: &Atomics,
    tool: Tool,
    story: Option<&Story>,
    requests: usize,
) -> Result<(Counts, Profile)> {
    tool.check()?;
    let dir = tempfile::tempdir()?;
    let report = dir.path().join("report");
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let config = dir.path().join("zoo.cfg");
    let text = format!(
        "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
        dir.path().join("data").display()
    );
    fs::write(&config, text)?;
    let mut command: Command = tool.command(&report);
    command.arg(zebu).arg("server").arg(&config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Running(command.spawn().with_context(|| format!("{command:?}"))?);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut client = wait_for("a server that serves", || {
        ensure!(server.0.try_wait()?.is_none(), "the server has ended");
        Ok(Client::connect(address).ok())
    })?;
    if let Some(story) = story {
        client.tell(story, requests)?;
    }
    let pid = Pid::from_raw(i32::try_from(server.0.id())?).context("a process has an id")?;
    kill_process(pid, Signal::TERM)?;
    wait_for("the end of the server", || Ok(server.0.try_wait()?))?;
    wait_for("the report", || {
        Ok(tool.parse(&fs::read_to_string(&report).unwrap_or_default(), zebu, atomics))
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
