//! One server process, Java's or Zebu's, on a free loopback port or in a network namespace.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
pub use zebu_testkit::connection::PATIENCE;
pub use zebu_testkit::ports::{free_port, free_ports};

use crate::deps;
use crate::disk::{Medium, OwnDisk};
use crate::network::Place;
use crate::tamper;

/// Waits for an answer of a client, at most [`PATIENCE`].
///
/// # Errors
/// There is none in time.
pub async fn soon<T>(future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(PATIENCE, future).await.context("it never happened")
}

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Zebu.
    Zebu,
    /// The original, from Maven Central: the reference.
    Java395,
    /// The original, from Debian.
    Java380,
    /// The last release of 3.4, for tests of our clients only.
    Java3414,
}

/// The configuration of a server, beyond the harness' own.
#[derive(Clone, Debug, Default)]
pub struct Options {
    config: Vec<(String, String)>,
    disk: Option<(Medium, u32)>,
    properties: Vec<(String, String)>,
    keeps_config: bool,
    environment: Vec<(String, String)>,
}

impl Options {
    /// Adds a line to `zoo.cfg`. The last line for a key counts.
    #[must_use]
    pub fn config(mut self, key: &str, value: impl ToString) -> Self {
        self.config.push((key.into(), value.to_string()));
        self
    }

    /// Serves the Prometheus page at this port of loopback.
    pub fn metrics(self, port: u16) -> Self {
        let class = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
        self.config("metricsProvider.className", class)
            .config("metricsProvider.httpHost", "127.0.0.1")
            .config("metricsProvider.httpPort", port)
    }

    /// Puts the data directory on its own disk of this many MiB, if this machine permits it.
    #[must_use]
    pub fn disk(mut self, medium: Medium, mebibytes: u32) -> Self {
        self.disk = Some((medium, mebibytes));
        self
    }

    /// As above, in memory.
    #[must_use]
    pub fn small_disk(self, mebibytes: u32) -> Self {
        self.disk(Medium::Memory, mebibytes)
    }

    /// Adds a system property, given as `-Dkey=value`.
    #[must_use]
    pub fn property(mut self, key: &str, value: impl ToString) -> Self {
        self.properties.push((key.into(), value.to_string()));
        self
    }

    /// Adds an environment variable of the process.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.push((name.into(), value.to_string()));
        self
    }

    /// The server changes its `zoo.cfg` itself, so the harness writes the file only before the
    /// first start.
    #[must_use]
    pub fn keep_config(mut self) -> Self {
        self.keeps_config = true;
        self
    }

    fn zoo_cfg(&self, address: SocketAddr, data: &Path) -> String {
        let mut lines = vec![
            ("dataDir".to_owned(), data.display().to_string()),
            ("clientPort".to_owned(), address.port().to_string()),
            ("clientPortAddress".to_owned(), address.ip().to_string()),
            ("tickTime".to_owned(), "2000".to_owned()),
            ("maxClientCnxns".to_owned(), "0".to_owned()),
            ("4lw.commands.whitelist".to_owned(), "*".to_owned()),
            ("admin.enableServer".to_owned(), "false".to_owned()),
            ("forceSync".to_owned(), "no".to_owned()),
            ("preAllocSize".to_owned(), "256".to_owned()),
        ];
        for (key, value) in &self.config {
            lines.retain(|(k, _)| k != key);
            lines.push((key.clone(), value.clone()));
        }
        lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
    }
}

/// A running or stopped server and its data directory.
pub struct Server {
    kind: Kind,
    options: Options,
    place: Place,
    port: u16,
    /// Declared before the folder, because it is mounted there and must be dropped first.
    disk: Option<OwnDisk>,
    folder: tempfile::TempDir,
    data: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// Starts a server with an empty data directory and waits until it serves clients.
    ///
    /// # Errors
    /// It did not start; its log is in the message.
    pub fn start(kind: Kind, options: &Options) -> Result<Self> {
        Self::start_with(kind, options, |_| Ok(()))
    }

    /// Starts a server with a data directory that `fill` has prepared.
    ///
    /// # Errors
    /// As for [`Server::start`], and those of `fill`.
    pub fn start_with(
        kind: Kind,
        options: &Options,
        fill: impl Fn(&Path) -> Result<()>,
    ) -> Result<Self> {
        let mut server = Self::prepare(kind, options, fill)?;
        server.launch()?;
        Ok(server)
    }

    /// Prepares a server without starting it.
    ///
    /// # Errors
    /// The folder cannot be created, or those of `fill`.
    pub fn prepare(
        kind: Kind,
        options: &Options,
        fill: impl Fn(&Path) -> Result<()>,
    ) -> Result<Self> {
        Self::prepare_at(Place::default(), kind, options, fill)
    }

    /// As above, at another place.
    ///
    /// # Errors
    /// As for [`Server::prepare`].
    pub fn prepare_at(
        place: Place,
        kind: Kind,
        options: &Options,
        fill: impl Fn(&Path) -> Result<()>,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("zebu-interop-").tempdir()?;
        let data = folder.path().join("data");
        fs::create_dir(&data)?;
        let image = folder.path().join("disk");
        let mount = |(medium, mebibytes)| {
            let disk = OwnDisk::mount(&data, &image, medium, mebibytes);
            disk.inspect_err(|error| eprintln!("no disks of their own on this machine: {error:#}"))
                .ok()
        };
        let disk = options.disk.and_then(mount);
        fill(&data)?;
        if let Some(disk) = &disk {
            // The operator's files from before the first start are durable.
            disk.sync()?;
        }
        let port = free_port();
        Ok(Self { kind, options: options.clone(), place, port, disk, folder, data, child: None })
    }

    /// Starts the stopped server with the same data directory and port.
    ///
    /// # Errors
    /// It did not start; its log is in the message.
    pub fn launch(&mut self) -> Result<()> {
        assert!(self.child.is_none(), "already running");
        for _ in 0..5 {
            self.spawn()?;
            match self.wait_until_serving() {
                Ok(()) => return Ok(()),
                Err(error) if format!("{error:#}").contains("in use") => self.port = free_port(),
                Err(error) => return Err(error),
            }
        }
        bail!("no free port")
    }

    /// Starts the stopped server without waiting.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn spawn(&mut self) -> Result<()> {
        self.spawn_as(|command| command)
    }

    /// As [`Server::spawn`], but the process is killed right before one of its system calls.
    ///
    /// `calls`: the counted system calls, such as `fsync,fdatasync`, counted for each thread
    /// separately. `when`: the number of the call.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn spawn_killed_at(&mut self, calls: &str, when: u32) -> Result<()> {
        self.spawn_as(|command| tamper::killed_at(calls, when, &command))
    }

    fn spawn_as(&mut self, change: impl FnOnce(Command) -> Command) -> Result<()> {
        let config = self.config();
        if !self.options.keeps_config || !config.exists() {
            fs::write(&config, self.options.zoo_cfg(self.address(), &self.data))?;
        }
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let properties: Vec<String> =
            self.options.properties.iter().map(|(key, value)| format!("-D{key}={value}")).collect();
        let mut command = match self.kind {
            Kind::Zebu => {
                let mut command = Command::new(deps::zebu());
                command.arg("server").env("SERVER_JVMFLAGS", properties.join(" "));
                command
            }
            Kind::Java395 | Kind::Java380 | Kind::Java3414 => {
                let mut command = java(self.kind);
                command.args(&properties);
                command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain");
                command
            }
        };
        command.arg(&config);
        let variables = self.options.environment.iter();
        command.envs(variables.map(|(name, value)| (name, value)));
        command = change(command);
        if let Some(namespace) = &self.place.namespace {
            command = within(namespace, &command);
        }
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.child = Some(command.spawn().with_context(|| format!("start {:?}", self.kind))?);
        Ok(())
    }

    /// The path of its `zoo.cfg`.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("zoo.cfg")
    }

    /// Sets its configuration for the next start.
    pub fn configure(&mut self, key: &str, value: &str) {
        self.options = std::mem::take(&mut self.options).config(key, value);
    }

    /// Sets the client port to which the server moves on its own.
    pub fn moved(&mut self, port: u16) {
        self.port = port;
    }

    /// Waits until the server serves clients. In an ensemble with read-only members it may serve
    /// only read-only clients.
    ///
    /// # Errors
    /// It ended or does not start; its log is in the message.
    pub fn wait_until_serving(&mut self) -> Result<()> {
        self.wait_until_it_says("srvr", |text| text.contains("Mode:"))
    }

    /// Waits until its answer to a four-letter word is `wanted`.
    ///
    /// A server closes every connection when its role changes, so a missing answer is not an error.
    ///
    /// # Errors
    /// It ended, or never gives such an answer; its log is in the message.
    pub fn wait_until_it_says(&mut self, word: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let start = Instant::now();
        let mut patience = Duration::from_secs(1);
        loop {
            if let Some(status) = self.child.as_mut().expect("spawned").try_wait()? {
                self.child = None;
                bail!("{:?} ended: {status}\n{}", self.kind, self.log());
            }
            // A connection made while the original starts is sometimes never answered. On a busy
            // machine an answer takes its time.
            let said = self.ask(word, patience);
            if said.as_ref().is_ok_and(|text| wanted(text)) {
                return Ok(());
            }
            patience += Duration::from_millis(100);
            if start.elapsed() > PATIENCE {
                bail!("{:?} says {said:?} to {word}\n{}", self.kind, self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end of a server that must not start.
    ///
    /// # Errors
    /// It serves clients, or hangs.
    pub fn expect_refusal(&mut self) -> Result<ExitStatus> {
        self.spawn()?;
        let status = self.wait_for_exit()?;
        Ok(status)
    }

    /// The kind of this server.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Sets the kind of server for the next start.
    ///
    /// # Panics
    /// The server is running.
    pub fn change_kind(&mut self, kind: Kind) {
        assert!(self.child.is_none(), "stop it first");
        self.kind = kind;
    }

    /// The client port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The client address.
    pub fn address(&self) -> SocketAddr {
        (self.place.host, self.port).into()
    }

    /// The client address as text.
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// The address of its port for operators, if that is configured.
    pub fn admin(&self) -> Option<SocketAddr> {
        let mut ports = self.options.config.iter().filter(|(key, _)| key == "admin.serverPort");
        let port: u16 = ports.next_back()?.1.parse().ok()?;
        Some((self.place.host, port).into())
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Whether its data directory is on its own disk.
    pub fn has_own_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Whether the power of its disk can be cut.
    pub fn has_power(&self) -> bool {
        self.disk.as_ref().is_some_and(OwnDisk::has_power)
    }

    /// Cuts the power of its disk; see [`OwnDisk::cut_power`].
    ///
    /// # Errors
    /// It has no such disk.
    pub fn cut_power(&self) -> Result<()> {
        self.own_disk()?.cut_power()
    }

    /// Ends the process, if the power cut has not ended it, and gives its disk power again.
    ///
    /// # Errors
    /// It does not end, or the disk cannot be mounted.
    pub fn restore_power(&mut self) -> Result<()> {
        if self.child.is_some() {
            self.kill()?;
        }
        self.own_disk()?.restore_power()
    }

    /// Puts an empty disk in the place of a stopped server's own one.
    ///
    /// # Errors
    /// It has no such disk, or the new one cannot be mounted.
    pub fn replace_disk(&self) -> Result<()> {
        self.own_disk()?.replace()
    }

    /// Makes everything on its own disk durable.
    ///
    /// # Errors
    /// It has no own disk, or the file system reports a failure.
    pub fn sync_disk(&self) -> Result<()> {
        self.own_disk()?.sync()
    }

    /// Fills its own disk.
    ///
    /// # Errors
    /// It has no own disk.
    pub fn fill_disk(&self) -> Result<()> {
        self.own_disk()?.fill()
    }

    /// Undoes [`Server::fill_disk`].
    ///
    /// # Errors
    /// The disk was not filled.
    pub fn empty_disk(&self) -> Result<()> {
        self.own_disk()?.empty()
    }

    fn own_disk(&self) -> Result<&OwnDisk> {
        self.disk.as_ref().context("no disk of its own")
    }

    /// Starts it again if its process has ended.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn spawn_if_ended(&mut self) -> Result<()> {
        if self.is_alive() {
            return Ok(());
        }
        self.child = None;
        self.spawn()
    }

    /// The process's id.
    ///
    /// # Panics
    /// The server is stopped.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Resident memory of the process, in bytes.
    ///
    /// # Errors
    /// The process has ended.
    pub fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        let tail = &bytes[bytes.len().saturating_sub(20_000)..];
        String::from_utf8_lossy(tail).into_owned()
    }

    /// The lines of its complete log with one of these words.
    pub fn log_lines(&self, words: &[&str]) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let has_one = |line: &&str| words.iter().any(|word| line.contains(word));
        text.lines().filter(has_one).flat_map(|line| [line, "\n"]).collect()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// Sends a four-letter word and returns the answer.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn four_letter_word(&self, word: &str) -> Result<String> {
        self.ask(word, PATIENCE)
    }

    /// As above, with a shorter time limit.
    ///
    /// # Errors
    /// The server does not answer in time.
    pub fn ask(&self, word: &str, patience: Duration) -> Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address(), patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(word.as_bytes())?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The value of one line of `mntr`.
    ///
    /// # Errors
    /// There is no such line.
    pub fn monitor(&self, key: &str) -> Result<String> {
        let text = self.four_letter_word("mntr")?;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}\t")));
        Ok(line.with_context(|| format!("no {key} in mntr"))?.to_owned())
    }

    /// Asks the process to end (SIGTERM) and waits for it.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait_for_exit()
    }

    /// Ends the process at once (SIGKILL).
    ///
    /// # Errors
    /// It does not end.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.wait_for_exit()?;
        Ok(())
    }

    /// Pauses the process (SIGSTOP), and waits until it stands still.
    ///
    /// # Errors
    /// It has ended.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        Ok(zebu_testkit::program::wait_until_paused(self.pid())?)
    }

    /// Continues a paused process (SIGCONT).
    ///
    /// # Errors
    /// It has ended.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM, then a start with the same data.
    ///
    /// # Errors
    /// As for [`Server::stop`] and [`Server::launch`].
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid())?).context("pid 0")?;
        Ok(kill_process(pid, signal)?)
    }

    fn wait_for_exit(&mut self) -> Result<ExitStatus> {
        let start = Instant::now();
        let child = self.child.as_mut().context("not running")?;
        loop {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                return Ok(status);
            }
            if start.elapsed() > PATIENCE {
                bail!("{:?} does not end\n{}", self.kind, self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The process is our own, by its id. A failure means that it has already ended.
            child.kill().ok();
            child.wait().ok();
        }
        if let Some(folder) = std::env::var_os("ZEBU_INTEROP_LOGS") {
            // For people who look into the folder; no test depends on it.
            let name = self.folder.path().with_extension("log");
            let name = name.file_name().unwrap_or_default();
            fs::copy(self.log_path(), Path::new(&folder).join(name)).ok();
        }
        if std::thread::panicking() {
            eprintln!("---- log of {:?} on port {} ----\n{}", self.kind, self.port, self.log());
        }
    }
}

/// The `java` command with the class path of `kind`, tuned for short-lived processes.
///
/// # Panics
/// `kind` is Zebu.
pub fn java(kind: Kind) -> Command {
    let classpath = match kind {
        Kind::Java395 => deps::classpath_395(),
        Kind::Java380 => deps::classpath_380(),
        Kind::Java3414 => deps::classpath_3414(),
        Kind::Zebu => panic!("zebu needs no java"),
    };
    java_with(&classpath)
}

/// As above, with any class path.
pub fn java_with(classpath: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m"]);
    command.args(["-Dfile.encoding=UTF-8", "-Djava.awt.headless=true"]);
    command.args(["-cp", classpath]);
    command
}

/// The same command in a network namespace. The process keeps its id, and its mounts:
/// `ip netns exec` would give it mounts of its own, which hold a disk after this process has
/// unmounted it.
fn within(namespace: &str, command: &Command) -> Command {
    let mut outer = Command::new("nsenter");
    outer.arg(format!("--net=/run/netns/{namespace}"));
    outer.arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer
}
