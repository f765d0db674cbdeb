//! A server in this process, for one test.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_replica::auth::AuthProvider;
use zebu_server::cli::ServerArgs;
use zebu_server::config::Config;
use zebu_server::{Server, StartError};
use zebu_testkit::connection::PATIENCE;

use crate::client::{Client, Raw};

/// A server, and the directory it uses.
pub struct Running {
    server: Option<Server>,
    dir: Option<TempDir>,
    path: PathBuf,
    pub port: u16,
}

/// A configuration as the command line creates it. `settings` are keys, properties after `-D`, a
/// file after `@`, or, after `!`, default settings of these tests that this test leaves out.
pub fn config(dir: &Path, settings: &[&str]) -> Config {
    arguments(dir, settings).load_from(Vec::new(), &|path| std::fs::read(path)).unwrap().config
}

/// The faults of a configuration.
pub fn refused_config(dir: &Path, settings: &[&str]) -> String {
    let loaded = arguments(dir, settings).load_from(Vec::new(), &|path| std::fs::read(path));
    loaded.expect_err("it is refused").to_string()
}

fn arguments(dir: &Path, settings: &[&str]) -> ServerArgs {
    let mut args = ServerArgs {
        set: vec![
            "clientPort=0".to_owned(),
            format!("dataDir={}", dir.display()),
            "preAllocSize=64".to_owned(),
            "tickTime=200".to_owned(),
            // A test may have to wait for the processor for longer than twenty ticks.
            "maxSessionTimeout=60000".to_owned(),
            "maxClientCnxns=0".to_owned(),
            // No port of the machine that a test does not request.
            "admin.enableServer=false".to_owned(),
            "4lw.commands.whitelist=*".to_owned(),
        ],
        ..ServerArgs::default()
    };
    for setting in settings {
        if let Some(define) = setting.strip_prefix("-D") {
            args.define.push(define.to_owned());
            continue;
        }
        if let Some(file) = setting.strip_prefix('@') {
            args.arguments.push(file.to_owned());
            continue;
        }
        let (key, is_unset) = match setting.strip_prefix('!') {
            Some(key) => (key, true),
            None => (setting.split('=').next().unwrap(), false),
        };
        args.set.retain(|other| other.split('=').next() != Some(key));
        if !is_unset {
            args.set.push((*setting).to_owned());
        }
    }
    args
}

impl Running {
    /// Starts on a new directory.
    pub fn new(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut running = Self::on(dir.path(), settings);
        running.dir = Some(dir);
        running
    }

    /// Starts on a new directory, with more authentication schemes.
    pub fn with(settings: &[&str], providers: Vec<Box<dyn AuthProvider>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(config(dir.path(), settings), providers).unwrap();
        let port = server.port().unwrap();
        let path = dir.path().to_owned();
        Self { server: Some(server), dir: Some(dir), path, port }
    }

    /// Starts on this directory.
    pub fn on(path: &Path, settings: &[&str]) -> Self {
        Self::try_on(path, settings).unwrap_or_else(|failure| panic!("{}", failure.in_full()))
    }

    pub fn try_on(path: &Path, settings: &[&str]) -> Result<Self, StartError> {
        let server = Server::start(config(path, settings), Vec::new())?;
        // A server with only a TLS port has none of these.
        let port = server.port().unwrap_or_default();
        Ok(Self { server: Some(server), dir: None, path: path.to_owned(), port })
    }

    /// The reason why it does not start on this directory.
    pub fn refusal(path: &Path, settings: &[&str]) -> String {
        match Self::try_on(path, settings) {
            Ok(_) => panic!("it starts"),
            Err(failure) => failure.in_full(),
        }
    }

    /// Stops, and starts again on the same directory.
    pub fn restart(mut self, settings: &[&str]) -> Self {
        self.shut();
        let mut again = Self::on(&self.path.clone(), settings);
        again.dir = self.dir.take();
        again
    }

    /// Stops the server, and returns the directory.
    pub fn stop(mut self) -> TempDir {
        self.shut();
        self.dir.take().expect("a directory of its own")
    }

    /// The directory of snapshots and logs.
    pub fn files(&self) -> PathBuf {
        self.path.join("version-2")
    }

    fn shut(&mut self) {
        if let Some(server) = self.server.take()
            && let Err(failure) = server.stop()
        {
            panic!("the server failed: {failure}");
        }
    }

    /// The server itself, for a test that stops it.
    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// The port of its admin server.
    pub fn admin_port(&self) -> u16 {
        self.server().admin_port().unwrap()
    }

    pub fn take(&mut self) -> Server {
        self.server.take().unwrap()
    }

    pub fn client(&self) -> Client {
        Client::new(self.port)
    }

    pub fn raw(&self) -> Raw {
        Raw::open(self.port)
    }

    /// The answer to a four-letter word.
    pub fn word(&self, word: &str) -> String {
        let mut raw = self.raw();
        raw.send_raw(word.as_bytes());
        String::from_utf8(raw.rest()).unwrap()
    }

    /// A number that `mntr` shows.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = self.word("mntr");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{name}\t")))?;
        Some(line.parse().unwrap())
    }

    /// Waits until a number that `mntr` shows has the wanted value.
    pub fn wait_metric(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        wait(name, || self.metric(name).is_some_and(&wanted));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.shut();
        }
    }
}

/// The names of the files in a directory with this beginning, sorted.
pub fn files(dir: &Path, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

/// Waits until `done` returns true.
#[track_caller]
pub fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
