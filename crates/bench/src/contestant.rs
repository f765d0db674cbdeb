//! The servers that a comparison starts, asks and stops: Zebu, the original, and the echo server.
//!
//! Both real servers get the same configuration file and a data directory on the same disk. Both
//! call fsync.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;

use crate::cleanup::{self, GuardedProcess};
use crate::client::Client;
use crate::echo::{EchoServer, Logged};
use crate::process::Process;

/// The pause between two attempts to connect to a starting server.
const RETRY: Duration = Duration::from_millis(2);
/// The exit code of a Java virtual machine after SIGTERM.
const JAVA_TERMINATED: i32 = 143;
/// The time limit for one attempt.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The time limit from the signal to a server's end.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Longer than any answer to a four-letter word.
const STATUS_BYTES_MAX: u64 = 64 << 10;
/// Lines of a server's log that an error message shows.
const LOG_LINES: usize = 15;
/// The length of the queue for new connections: more than are ever opened at a time, so the server
/// refuses none. The original's default is 50.
pub(crate) const BACKLOG: usize = 1024;
/// Lets a server tell what it has logged.
pub(crate) const LOGGED: &str = "4lw.commands.whitelist=srvr,mntr";
/// The original's main class.
const JAVA_MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// Log settings for the original, at INFO as in its releases, for each log library that its
/// classpath may contain. Without them, logback prints every request at DEBUG, which slows the
/// server down.
const LOGBACK: &str = r#"<configuration>
  <appender name="CONSOLE" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="CONSOLE" /></root>
</configuration>
"#;
const LOG4J: &str = "log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n
";

/// Any free port of this machine.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A server that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    /// `zebu server`.
    Zebu {
        /// The executable.
        program: PathBuf,
    },
    /// `zebu server` of an earlier state.
    Previous {
        /// The executable.
        program: PathBuf,
    },
    /// The original.
    Java {
        /// The `java` executable.
        java: PathBuf,
        /// Its classpath.
        classpath: String,
        /// Options of the virtual machine.
        options: Vec<String>,
    },
    /// The echo server, inside this process.
    Echo,
    /// The echo server that makes writes durable, inside this process.
    Durable,
}

impl Contestant {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Zebu { .. } => "zebu",
            Self::Previous { .. } => "previous",
            Self::Java { .. } => "java",
            Self::Echo => "echo",
            Self::Durable => "durable",
        }
    }

    /// Whether the server only answers, as an upper bound, and is no real server.
    pub(crate) fn is_bound(&self) -> bool {
        matches!(self, Self::Echo | Self::Durable)
    }

    /// The command that starts it, for the record.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Zebu { program } | Self::Previous { program } => {
                format!("{} server zoo.cfg", program.display())
            }
            Self::Java { java, classpath, options } => {
                let options = options.join(" ");
                format!("{} {options} -cp {classpath} {JAVA_MAIN} zoo.cfg", java.display())
            }
            Self::Echo | Self::Durable => "in this process".to_owned(),
        }
    }

    /// Starts the server without waiting for it. `dir` may contain data of an earlier start.
    pub(crate) fn start(&self, dir: &Path, extra: &[String]) -> anyhow::Result<Running> {
        let address = match self {
            Self::Echo | Self::Durable => ANY,
            _ => TcpListener::bind(ANY).context("find a free port")?.local_addr()?,
        };
        self.start_at(address, dir, extra)
    }

    /// The same, with a given client port.
    pub(crate) fn start_at(
        &self,
        address: SocketAddr,
        dir: &Path,
        extra: &[String],
    ) -> anyhow::Result<Running> {
        let data = dir.join("data");
        fs::create_dir_all(&data).with_context(|| format!("create {}", data.display()))?;
        if self.is_bound() {
            let echo = match self {
                Self::Durable => EchoServer::durable(address, &data)?,
                _ => EchoServer::start(address)?,
            };
            let address = echo.address();
            return Ok(Running {
                address,
                child: None,
                _guard: None,
                echo: Some(echo),
                jcmd: None,
                log: PathBuf::new(),
                data,
                started: Instant::now(),
            });
        }
        let config = dir.join("zoo.cfg");
        write(&config, &configuration(&data, address, extra))?;
        let log = dir.join("server.log");
        let out = File::options().create(true).append(true).open(&log)?;
        let (mut command, jcmd) = match self {
            Self::Java { java, classpath, options } => {
                write(&dir.join("logback.xml"), LOGBACK)?;
                write(&dir.join("log4j.properties"), LOG4J)?;
                let mut command = Command::new(java);
                command
                    .args(options)
                    .arg("-cp")
                    .arg(format!("{}:{classpath}", dir.display()))
                    .arg(JAVA_MAIN)
                    .arg(&config);
                let jcmd = match java.parent() {
                    Some(bin) if bin != Path::new("") => bin.join("jcmd"),
                    _ => PathBuf::from("jcmd"),
                };
                (command, Some(jcmd))
            }
            Self::Zebu { program } | Self::Previous { program } => {
                let mut command = Command::new(program);
                command.arg("server").arg(&config);
                (command, None)
            }
            Self::Echo | Self::Durable => unreachable!("handled above"),
        };
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).current_dir(dir);
        let started = Instant::now();
        let child = command.spawn().with_context(|| {
            let program = Path::new(command.get_program()).display();
            match self {
                Self::Java { .. } => format!(
                    "start {program}\nhint: a Java runtime is needed for the Java server; --java names one; \
                     --servers zebu leaves it out"
                ),
                _ => format!("start {program}"),
            }
        })?;
        let guard = Some(GuardedProcess::new(child.id()));
        Ok(Running {
            address,
            child: Some(child),
            _guard: guard,
            echo: None,
            jcmd,
            log,
            data,
            started,
        })
    }
}

/// The configuration for both servers.
fn configuration(data: &Path, address: SocketAddr, extra: &[String]) -> String {
    let mut text = format!(
        "tickTime=2000\n\
         dataDir={}\n\
         clientPort={}\n\
         clientPortAddress={}\n\
         maxClientCnxns=0\n\
         clientPortListenBacklog={BACKLOG}\n\
         preAllocSize=65536\n",
        data.display(),
        address.port(),
        address.ip(),
    );
    if !extra.iter().any(|line| line.starts_with("admin.enableServer=")) {
        text.push_str("admin.enableServer=false\n");
    }
    for line in extra {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// A started server. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    child: Option<Child>,
    _guard: Option<GuardedProcess>,
    echo: Option<EchoServer>,
    jcmd: Option<PathBuf>,
    log: PathBuf,
    /// Its `dataDir`.
    pub(crate) data: PathBuf,
    /// When it was started.
    started: Instant,
}

impl Running {
    /// The process, unless the server is in this one.
    pub(crate) fn process(&self) -> Option<Process> {
        self.child.as_ref().map(|child| Process(child.id()))
    }

    /// The number of ends of one connection that count against this process's limit of open files.
    pub(crate) fn ends(&self) -> u64 {
        if self.child.is_none() { 2 } else { 1 }
    }

    /// Waits until the server answers a read of `path` successfully. Returns the time since its
    /// start.
    pub(crate) fn wait_for(&mut self, path: &str, limit: Duration) -> anyhow::Result<Duration> {
        loop {
            let attempt = Client::connect(self.address, ATTEMPT)
                .and_then(|mut client| Ok((client.exists(path)?, client)));
            let elapsed = self.started.elapsed();
            if let Ok((true, client)) = attempt {
                let _ = client.close(); // the answer has been seen; the session expires otherwise
                return Ok(elapsed);
            }
            if let Some(status) = self.exited()? {
                bail!("the server ended before it answered: {status}\n{}", self.log_tail());
            }
            if elapsed > limit {
                bail!("no answer about {path} after {limit:?}\n{}", self.log_tail());
            }
            thread::sleep(RETRY);
        }
    }

    /// The answer to a four-letter word.
    fn says(&self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, ATTEMPT).ok()?;
        stream.set_read_timeout(Some(ATTEMPT)).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut text = String::new();
        stream.take(STATUS_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// The version that the server reports.
    pub(crate) fn version(&self) -> Option<String> {
        let says = self.says("srvr")?;
        let (_, version) = says.lines().next()?.split_once("version: ")?;
        Some(version.to_owned())
    }

    /// Whether it reports that it is the leader; `None` while it does not serve.
    pub(crate) fn leads(&self) -> Option<bool> {
        let says = self.says("srvr")?;
        let mode = says.lines().find_map(|line| line.strip_prefix("Mode: "))?;
        Some(mode == "leader")
    }

    /// What a standalone server or a leader has logged since its start. A real server has to be
    /// configured with [`LOGGED`].
    pub(crate) fn logged(&self) -> Option<Logged> {
        match &self.echo {
            Some(echo) => echo.logged(),
            None => logged(&self.says("srvr")?, &self.says("mntr")?),
        }
    }

    /// Sends a signal to its process.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(Process(id)) = self.process() {
            cleanup::signal(id, signal);
        }
    }

    fn exited(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => child.try_wait().context("look after the server's process"),
            None => Ok(None),
        }
    }

    /// The last lines the server printed.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
        format!("last lines of its log:\n  {tail}")
    }

    /// Stops the server and waits for its end. Returns the time that this took.
    ///
    /// # Errors
    /// The server has failed before, or does not end.
    pub(crate) fn stop(mut self) -> anyhow::Result<Duration> {
        if let Some(status) = self.exited()?
            && !status.success()
            && status.code() != Some(JAVA_TERMINATED)
        {
            bail!("the server failed while it was measured: {status}\n{}", self.log_tail());
        }
        let start = Instant::now();
        let Some(mut child) = self.child.take() else { return Ok(Duration::ZERO) };
        cleanup::signal(child.id(), Signal::TERM);
        while start.elapsed() < STOP_LIMIT {
            if child.try_wait()?.is_some() {
                return Ok(start.elapsed());
            }
            thread::sleep(RETRY);
        }
        child.kill()?;
        child.wait()?;
        bail!("the server did not end within {STOP_LIMIT:?} of SIGTERM and was killed");
    }

    /// Whether it has a heap of which it uses only a part.
    pub(crate) fn has_heap(&self) -> bool {
        self.jcmd.is_some()
    }

    /// Used bytes of the Java heap after a full collection. `None` for other servers, and without
    /// `jcmd` beside `java`.
    pub(crate) fn live_heap(&self) -> Option<u64> {
        let process = self.process()?;
        let ask = |what: &str| {
            let mut command = Command::new(self.jcmd.as_ref()?);
            let output = command.arg(process.0.to_string()).arg(what).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        ask("GC.run")?;
        heap_used(&ask("GC.heap_info")?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill(); // it may have ended by itself
            let _ = child.wait();
        }
    }
}

/// The transactions and syncs of a server by its answers to `srvr` and `mntr`.
fn logged(srvr: &str, mntr: &str) -> Option<Logged> {
    let zxid = srvr.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?;
    // The upper half of a zxid is the epoch, which stays.
    let records = u64::from_str_radix(zxid, 16).ok()? & u64::from(u32::MAX);
    let syncs = mntr.lines().find_map(|line| line.strip_prefix("zk_cnt_fsynctime\t"))?;
    Some(Logged { records, syncs: syncs.trim().parse().ok()? })
}

/// The first `used N K` of `GC.heap_info`: that of the heap.
fn heap_used(info: &str) -> Option<u64> {
    let (_, after) = info.split_once("used ")?;
    let digits = after.split_once('K')?.0;
    digits.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The classpath from an argument. A directory stands for all jars in it.
pub(crate) fn classpath(given: &str) -> anyhow::Result<String> {
    let dir = Path::new(given);
    if !dir.is_dir() {
        return Ok(given.to_owned());
    }
    let mut jars = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jar") {
            jars.push(std::path::absolute(path)?.display().to_string());
        }
    }
    jars.sort();
    if jars.is_empty() {
        bail!("no jars in {}\nhint: cargo xtask deps downloads them", dir.display());
    }
    Ok(jars.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_use_is_read_from_what_the_virtual_machine_prints() {
        let info = "7:\n garbage-first heap   total 262144K, used 23552K [0x00000000e0000000)\n  \
                    region size 1024K, 2 young (2048K)\n Metaspace       used 9126K";
        assert_eq!(heap_used(info), Some(23_552 * 1024));
        assert_eq!(heap_used("no such process"), None);
    }

    #[test]
    fn what_was_logged_is_read_from_the_words() {
        let srvr =
            "Zookeeper version: 3.9.5\nConnections: 1\nZxid: 0x20000000a\nMode: standalone\n";
        let mntr = "zk_sum_fsynctime\t7\nzk_cnt_fsynctime\t4\n";
        assert_eq!(logged(srvr, mntr), Some(Logged { records: 10, syncs: 4 }));
        assert_eq!(
            logged(srvr, "mntr is not executed because it is not in the whitelist.\n"),
            None
        );
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut running = Contestant::Zebu { program: "/bin/echo".into() }
            .start(dir.path(), &[])
            .expect("echo is everywhere");
        let error = running.wait_for("/", Duration::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains("ended before it answered"), "{error}");
        assert!(error.contains("zoo.cfg"), "{error}");
    }

    #[test]
    fn a_server_that_failed_while_it_was_measured_is_reported_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut running = Contestant::Zebu { program: "/bin/false".into() }
            .start(dir.path(), &[])
            .expect("false is everywhere");
        while running.exited().unwrap().is_none() {
            thread::sleep(RETRY);
        }
        let error = running.stop().unwrap_err().to_string();
        assert!(error.contains("failed while it was measured: exit status: 1"), "{error}");
        assert!(error.contains("its log"), "{error}");
    }

    #[test]
    fn a_directory_without_jars_says_how_to_get_them() {
        let dir = tempfile::tempdir().unwrap();
        let error = classpath(dir.path().to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("cargo xtask deps"), "{error}");
        fs::write(dir.path().join("b.jar"), "").unwrap();
        fs::write(dir.path().join("a.jar"), "").unwrap();
        let found = classpath(dir.path().to_str().unwrap()).unwrap();
        let names: Vec<&str> = found.split(':').filter_map(|jar| jar.rsplit('/').next()).collect();
        assert_eq!(names, ["a.jar", "b.jar"]);
    }
}
