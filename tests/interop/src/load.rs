//! Clients that keep on asking while servers come and go, and remember what they were told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::history::{self, Did, Operation};
use crate::raw::{Reply, Session};
use crate::server::PATIENCE;
use crate::wire::{Reader, Writer, op, open_acl};

/// How long a server may take to answer before another one is asked.
const ANSWER_TIME: Duration = Duration::from_secs(3);

/// The version is another one.
const BAD_VERSION: i32 = -103;

/// There is no such znode.
const NO_NODE: i32 = -101;

/// The register's path.
const REGISTER: &str = "/register";

/// A session that goes from server to server.
pub struct Client {
    addresses: Vec<SocketAddr>,
    next: usize,
    timeout_ms: i32,
    id: i64,
    password: Vec<u8>,
    last_zxid: i64,
    session: Option<Session>,
}

impl Client {
    /// A new session, first on the server number `first`.
    ///
    /// # Errors
    /// Nobody serves.
    pub fn open(addresses: &[SocketAddr], first: usize, timeout_ms: i32) -> Result<Self> {
        let (addresses, password) = (addresses.to_vec(), vec![0; 16]);
        let mut client = Self {
            addresses,
            next: first,
            timeout_ms,
            id: 0,
            password,
            last_zxid: 0,
            session: None,
        };
        client.connect()?;
        Ok(client)
    }

    /// The session's id.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Goes from server to server until one takes the session.
    ///
    /// # Errors
    /// The session has expired, or nobody serves.
    pub fn connect(&mut self) -> Result<()> {
        let start = Instant::now();
        while self.session.is_none() {
            ensure!(start.elapsed() < PATIENCE, "no server takes session {:#x}", self.id);
            let address = self.addresses[self.next % self.addresses.len()];
            let (timeout, id, zxid) = (self.timeout_ms, self.id, self.last_zxid);
            match Session::attach(address, timeout, id, &self.password, zxid, ANSWER_TIME / 3) {
                Ok(Some(session)) => {
                    ensure!(id == 0 || id == session.id, "session {id:#x} became another");
                    (self.id, self.password) = (session.id, session.password.clone());
                    session.connection.set_patience(ANSWER_TIME)?;
                    self.session = Some(session);
                }
                Ok(None) => bail!("session {id:#x} is lost, says {address}"),
                Err(_) => {
                    self.next += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        Ok(())
    }

    /// Sends a request; `None` when nobody knows what became of it.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn call(&mut self, op: i32, body: Writer) -> Result<Option<Reply>> {
        self.connect()?;
        Ok(self.call_here(op, body))
    }

    /// The same if the session still has a connection.
    fn call_here(&mut self, op: i32, body: Writer) -> Option<Reply> {
        let answer = self.session.as_mut()?.call(op, body);
        if answer.is_err() {
            self.session = None;
            self.next += 1;
        }
        let reply = answer.ok()?;
        self.last_zxid = self.last_zxid.max(reply.zxid);
        Some(reply)
    }

    /// Creates a znode with an open ACL; `None` when nobody knows whether it is there.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn create(&mut self, path: &str, data: &str, flags: i32) -> Result<Option<Reply>> {
        let body = Writer::new().string(path).string(data).acl(&open_acl()).int(flags);
        self.call(op::CREATE, body)
    }

    /// Value and version of a znode as they are after this call began; `None` when nobody said.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn read(&mut self, path: &str) -> Result<Option<(String, i32)>> {
        let synced = self.call(op::SYNC, Writer::new().string(path))?;
        if synced.is_none_or(|reply| reply.err != 0) {
            return Ok(None);
        }
        let reply = self.call_here(op::GET_DATA, Writer::new().string(path).bool(false));
        ensure!(reply.as_ref().is_none_or(|reply| reply.err != NO_NODE), "{path} is gone");
        let Some(reply) = reply.filter(|reply| reply.err == 0) else { return Ok(None) };
        let mut reader = Reader::new(&reply.body);
        let value = reader.string()?.context("null data")?;
        Ok(Some((value, reader.stat()?.version)))
    }
}

/// What clients were told.
#[derive(Debug, Default)]
pub struct Told {
    /// Znodes whose creation was acknowledged, with their data.
    pub created: BTreeMap<String, String>,
    /// What was seen of the register.
    pub register: Vec<Operation>,
}

/// Clients in threads of their own.
pub struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Result<Told>>>,
}

impl Load {
    /// Starts a client that creates znodes for every address, and one that reads and writes the
    /// register.
    ///
    /// # Errors
    /// Nobody serves.
    pub fn start(addresses: &[SocketAddr]) -> Result<Self> {
        let mut client = Client::open(addresses, 0, 30_000)?;
        for path in [REGISTER, "/load"] {
            let reply = client.create(path, "", 0)?.context("no answer")?;
            ensure!(reply.err == 0, "create {path}: error {}", reply.err);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::new();
        for number in 0..addresses.len() {
            let worker = || Worker {
                number,
                stop: stop.clone(),
                acknowledged: acknowledged.clone(),
                told: Told::default(),
            };
            let creating = (Client::open(addresses, number, 30_000)?, worker());
            threads.push(std::thread::spawn(move || creating.1.create(creating.0)));
            let changing = (Client::open(addresses, number, 30_000)?, worker());
            threads.push(std::thread::spawn(move || changing.1.change(changing.0)));
        }
        Ok(Self { stop, acknowledged, threads })
    }

    /// Waits until `more` creations have been acknowledged from now on.
    ///
    /// # Errors
    /// They are not, or a client has given up.
    pub fn wait_for(&self, more: usize) -> Result<()> {
        let enough = self.acknowledged.load(Ordering::Relaxed) + more;
        let start = Instant::now();
        while self.acknowledged.load(Ordering::Relaxed) < enough {
            ensure!(start.elapsed() < PATIENCE, "nothing is acknowledged any more");
            ensure!(!self.threads.iter().any(JoinHandle::is_finished), "a client has given up");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends the clients, and says what they were told: nothing that contradicts itself.
    ///
    /// # Errors
    /// A client lost its session, or what was seen of the register is not linearizable.
    pub fn finish(self) -> Result<Told> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Told::default();
        for thread in self.threads {
            let told = thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
            all.created.extend(told.created);
            all.register.extend(told.register);
        }
        history::check("", &all.register)?;
        Ok(all)
    }
}

impl Told {
    /// Every creation that was acknowledged must be in this dump of a tree.
    ///
    /// # Errors
    /// One is not.
    pub fn check(&self, tree: &str) -> Result<()> {
        let there: std::collections::BTreeSet<&str> =
            tree.lines().filter_map(|line| line.split(" data=").next()).collect();
        let lost: Vec<&String> =
            self.created.keys().filter(|path| !there.contains(path.as_str())).collect();
        ensure!(lost.is_empty(), "{} acknowledged writes are lost: {lost:?}", lost.len());
        ensure!(!self.created.is_empty(), "nothing was acknowledged");
        Ok(())
    }
}

struct Worker {
    number: usize,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    told: Told,
}

impl Worker {
    fn goes_on(&self) -> bool {
        // The machine is shared with the servers.
        std::thread::sleep(Duration::from_millis(2));
        !self.stop.load(Ordering::Relaxed)
    }

    /// Creates one znode after the other.
    fn create(mut self, mut client: Client) -> Result<Told> {
        let mut count = 0;
        while self.goes_on() {
            let path = format!("/load/{}-{count}", self.number);
            count += 1;
            if let Some(reply) = client.create(&path, &path, 0)?.filter(|reply| reply.err == 0) {
                let echo = Reader::new(&reply.body).string()?;
                ensure!(echo.as_ref() == Some(&path), "{path} became {echo:?}");
                self.told.created.insert(path.clone(), path);
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(self.told)
    }

    /// Reads the register and replaces what it has read.
    fn change(mut self, mut client: Client) -> Result<Told> {
        let mut count = 0;
        while self.goes_on() {
            let began = Instant::now();
            let Some((value, version)) = client.read(REGISTER)? else { continue };
            self.seen(began, Did::Read(version, value));
            count += 1;
            let value = format!("{}-{count}", self.number);
            let body = Writer::new().string(REGISTER).string(&value).int(version);
            let began = Instant::now();
            let reply = client.call(op::SET_DATA, body)?;
            self.seen(
                began,
                match reply.map(|reply| reply.err) {
                    Some(0) => Did::Wrote(version + 1, value),
                    Some(BAD_VERSION) => Did::Refused(version),
                    Some(NO_NODE) => bail!("{REGISTER} is gone"),
                    // Whatever else is said, such as that the session has moved, nothing is sure.
                    Some(_) | None => Did::Tried(version + 1, value),
                },
            );
        }
        Ok(self.told)
    }

    fn seen(&mut self, began: Instant, did: Did) {
        let ended = Instant::now();
        self.told.register.push(Operation { began, ended, did });
    }
}
