//! The work of each kind of client, until it must stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_testkit::Random;
use zebu_testkit::connection::Reply;
use zebu_testkit::wire::{Reader, Writer, op};

use crate::linear::Operation;
use crate::load::{Client, Told, Write};
use crate::server::PATIENCE;
use crate::znode::{ANY, Answer, Ask, Asked};

/// Error codes.
const NO_NODE: i32 = -101;
const BAD_VERSION: i32 = -103;
const NODE_EXISTS: i32 = -110;

/// Pause after each operation, because the servers share this machine.
const PACE: Duration = Duration::from_millis(6);

/// Number of shared znodes at a time.
const SLOTS: usize = 3;

/// Number of operations on a znode before another one replaces it, so that every history can be
/// decided.
const HISTORY_MAX: usize = 250;

/// The weight of a write without an answer in that number.
const UNKNOWN_COST: usize = HISTORY_MAX / 8;

/// Timeout of abandoned sessions, in milliseconds.
const MORTAL_MS: i32 = 2_000;

/// Path of the watched znode.
pub(super) const WATCHED: &str = "/watched";

/// Two znodes that always change together.
pub(super) const PAIR: [&str; 2] = ["/pair-a", "/pair-b"];

/// A znode whose value rises, and is read after a sync.
pub(super) const SYNCED: &str = "/synced";

/// Two znodes whose values rise in turn, the first one first, and are read without a sync.
pub(super) const ORDERED: [&str; 2] = ["/first", "/second"];

/// State shared by all clients.
#[derive(Debug, Default)]
pub(super) struct Common {
    pub(super) stop: AtomicBool,
    /// Number of acknowledged creates.
    pub(super) acknowledged: AtomicUsize,
    /// Number of operations on each slot.
    slots: [AtomicUsize; SLOTS],
    /// The last version of the watched znode, after its last change.
    last_watched: AtomicI32,
    /// The greatest acknowledged value of [`SYNCED`].
    raised: AtomicI32,
}

/// One client.
pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) seed: u64,
    pub(super) common: Arc<Common>,
    pub(super) told: Told,
}

impl Worker {
    fn goes_on(&self) -> bool {
        std::thread::sleep(PACE);
        !self.common.stop.load(Ordering::Relaxed)
    }

    /// Records an acknowledged write.
    fn wrote(&mut self, began: Instant, reply: &Reply) {
        self.told.writes.push(Write { began, ended: Instant::now(), zxid: reply.zxid });
    }

    /// Creates one znode after the other, and an ephemeral that exists as long as the session.
    pub(super) fn create(mut self, mut client: Client) -> Result<Told> {
        let mut count = 0;
        let own = format!("/own-{}", self.number);
        create_surely(&mut client, &own, 1)?;
        while self.goes_on() {
            let path = format!("/load/{}-{count}", self.number);
            count += 1;
            let began = Instant::now();
            if let Some(reply) = client.create(&path, &path, 0)?.filter(|reply| reply.err == 0) {
                let echo = Reader::new(&reply.body).optional_string()?;
                ensure!(echo.as_ref() == Some(&path), "{path} became {echo:?}");
                self.wrote(began, &reply);
                self.told.created.insert(path);
                self.common.acknowledged.fetch_add(1, Ordering::Relaxed);
            } else {
                self.told.unknown += 1;
            }
        }
        let reply = read_surely(&mut client, &own)?;
        ensure!(reply.err == 0, "{own} of a session that lives: error {}", reply.err);
        client.close();
        Ok(self.told)
    }

    /// Creates, reads, changes and deletes a few znodes that other clients share.
    pub(super) fn change(mut self, mut client: Client) -> Result<Told> {
        let mut random = Random::new(self.seed);
        let mut count = 0;
        // The last version seen in each slot.
        let mut known = [ANY; SLOTS];
        while self.goes_on() {
            let slot = random.index(SLOTS);
            let turn = self.common.slots[slot].fetch_add(1, Ordering::Relaxed);
            let key = format!("/key-{slot}-{}", turn / HISTORY_MAX);
            count += 1;
            let value = format!("{}-{count}", self.number);
            let version = if random.chance(60) { known[slot] } else { ANY };
            let ask = match random.index(100) {
                0..40 => Ask::Read,
                40..75 => Ask::Set(version, value),
                75..90 => Ask::Create(value),
                _ => Ask::Delete(version),
            };
            let began = Instant::now();
            let (answer, reply) = ask_for(&mut client, &key, &ask)?;
            if let Answer::Is(version, _) | Answer::Version(version) = answer {
                known[slot] = version;
            }
            let is_known = answer != Answer::Unknown;
            match (&answer, &reply) {
                (Answer::Done | Answer::Version(_), Some(reply)) => self.wrote(began, reply),
                (Answer::Unknown, _) => {
                    self.told.unknown += 1;
                    self.common.slots[slot].fetch_add(UNKNOWN_COST, Ordering::Relaxed);
                }
                _ => {}
            }
            // A read without an answer tells nothing.
            if is_known || ask != Ask::Read {
                let call = Asked(ask, answer);
                let operation = Operation { began, ended: is_known.then(Instant::now), call };
                self.told.histories.entry(key).or_default().push(operation);
            }
        }
        client.close();
        Ok(self.told)
    }

    /// Changes two znodes in one transaction, and reads them in one: they must never differ.
    pub(super) fn pair(mut self, mut client: Client) -> Result<Told> {
        let header = |op: i32| Writer::new().int(op).bool(false).int(-1);
        let end = Writer::new().int(-1).bool(true).int(-1).done();
        let mut count = 0;
        let mut newest = 0;
        while self.goes_on() {
            count += 1;
            let value = format!("{}-{count}", self.number);
            let (mut change, mut read) = (Writer::new(), Writer::new());
            for path in PAIR {
                let one = header(op::SET_DATA).string(path).string(&value).int(ANY);
                change = change.raw(&one.done());
                read = read.raw(&header(op::GET_DATA).string(path).bool(false).done());
            }
            let began = Instant::now();
            match client.call(op::MULTI, change.raw(&end))? {
                Some(reply) if reply.err == 0 => self.wrote(began, &reply),
                _ => self.told.unknown += 1,
            }
            let reply = client.call(op::MULTI_READ, read.raw(&end))?;
            let Some(reply) = reply.filter(|reply| reply.err == 0) else { continue };
            let mut reader = Reader::new(&reply.body);
            let mut one = || -> Result<(String, i32, i64)> {
                let result = (reader.int()?, reader.bool()?, reader.int()?);
                ensure!(result == (op::GET_DATA, false, 0), "a read of a pair: {result:?}");
                let value = reader.string()?;
                let stat = reader.stat()?;
                Ok((value, stat.version, stat.mzxid))
            };
            let (a, b) = (one()?, one()?);
            ensure!(a == b, "a pair that is changed in one transaction differs: {a:?}, {b:?}");
            ensure!(a.1 >= newest, "a pair goes back from version {newest} to {}", a.1);
            newest = a.1;
            self.told.pairs += 1;
        }
        client.close();
        Ok(self.told)
    }

    /// Raises the value that others read after a sync.
    pub(super) fn raise(mut self, mut client: Client) -> Result<Told> {
        let (mut value, mut version) = (0, ANY);
        while self.goes_on() {
            value += 1;
            if self.raise_to(&mut client, SYNCED, value, &mut version)? {
                self.common.raised.store(value, Ordering::SeqCst);
            }
        }
        client.close();
        Ok(self.told)
    }

    /// Reads after a sync: at least what was acknowledged before the sync.
    pub(super) fn look(mut self, mut client: Client) -> Result<Told> {
        while self.goes_on() {
            let acknowledged = self.common.raised.load(Ordering::SeqCst);
            let Some(reply) = client.read(SYNCED)? else { continue };
            let Some(value) = number(&reply)? else { continue };
            ensure!(
                value >= acknowledged,
                "{acknowledged} was acknowledged before a sync at {}, and the read after it shows {value}",
                client.server()
            );
            self.told.compared += 1;
        }
        client.close();
        Ok(self.told)
    }

    /// Raises two values in turn: the second one only when the first one is known to be raised.
    pub(super) fn raise_both(mut self, mut client: Client) -> Result<Told> {
        let (mut value, mut versions) = (0, [ANY; 2]);
        'all: while self.goes_on() {
            value += 1;
            for (path, version) in ORDERED.iter().zip(&mut versions) {
                if !self.raise_to(&mut client, path, value, version)? {
                    break 'all;
                }
            }
        }
        client.close();
        Ok(self.told)
    }

    /// Reads the two values at any member, the second one first. A client that sees the later write
    /// must also see the earlier one, and no value decreases.
    pub(super) fn follow(mut self, mut client: Client) -> Result<Told> {
        let mut seen = [0, 0];
        while self.goes_on() {
            for at in [1, 0] {
                let get = Writer::new().string(ORDERED[at]).bool(false);
                let Some(reply) = client.call(op::GET_DATA, get)? else { continue };
                let Some(value) = number(&reply)? else { continue };
                ensure!(
                    value >= seen[at],
                    "{} goes back from {} to {value}",
                    ORDERED[at],
                    seen[at]
                );
                seen[at] = value;
                if at == 0 {
                    ensure!(
                        value >= seen[1],
                        "{} is {}, and a later read of {} shows {value}",
                        ORDERED[1],
                        seen[1],
                        ORDERED[0]
                    );
                    self.told.compared += 1;
                }
            }
            // The next reads go to another member.
            client.hang_up();
        }
        client.close();
        Ok(self.told)
    }

    /// Raises a value until the raise is known to have happened. Returns `false` if the client must
    /// stop before.
    ///
    /// Each attempt names the version it was made for, so a delayed attempt changes nothing.
    fn raise_to(
        &mut self,
        client: &mut Client,
        path: &str,
        value: i32,
        version: &mut i32,
    ) -> Result<bool> {
        loop {
            if *version == ANY {
                let (text, found) = data(&read_surely(client, path)?)?;
                *version = found;
                if parse(&text)? >= value {
                    return Ok(true);
                }
            }
            let body = Writer::new().string(path).string(&value.to_string()).int(*version);
            let began = Instant::now();
            let reply = client.call(op::SET_DATA, body)?;
            if let Some(reply) = reply.as_ref().filter(|reply| reply.err == 0) {
                *version += 1;
                self.wrote(began, reply);
                return Ok(true);
            }
            self.told.unknown += usize::from(reply.is_none());
            *version = ANY;
            if !self.goes_on() {
                return Ok(false);
            }
        }
    }

    /// Changes the watched znode.
    pub(super) fn touch(self, mut client: Client) -> Result<Told> {
        while self.goes_on() {
            std::thread::sleep(Duration::from_millis(20));
            client.call(op::SET_DATA, Writer::new().string(WATCHED).string("").int(ANY))?;
        }
        let reply = read_surely(&mut client, WATCHED)?;
        let (_, version) = data(&reply)?;
        self.common.last_watched.store(version, Ordering::Release);
        client.close();
        Ok(self.told)
    }

    /// Watches: sees no change before its notification, and receives a notification for the last
    /// change.
    pub(super) fn watch(mut self, mut client: Client) -> Result<Told> {
        let get = |watch: bool| Writer::new().string(WATCHED).bool(watch);
        let mut stopped: Option<Instant> = None;
        'again: loop {
            let Some(reply) = client.call(op::GET_DATA, get(true))? else { continue };
            ensure!(reply.err == 0, "{WATCHED}: error {}", reply.err);
            let (_, seen) = data(&reply)?;
            let mut connection = client.connections();
            loop {
                let last = self.common.last_watched.load(Ordering::Acquire);
                if last > 0 && seen >= last {
                    client.close();
                    return Ok(self.told);
                }
                if last > 0 {
                    let since = stopped.get_or_insert_with(Instant::now).elapsed();
                    ensure!(since < PATIENCE, "version {last} was never notified, only {seen}");
                }
                client.connect()?;
                if client.connections() != connection {
                    let zxid = client.last_zxid();
                    let body = Writer::new().long(zxid).strings(&[WATCHED]);
                    let body = body.strings::<&str>(&[]).strings::<&str>(&[]);
                    connection = client.connections();
                    if client.call_here(op::SET_WATCHES, body)?.is_none() {
                        connection = 0;
                        continue;
                    }
                }
                if let Some(notification) = client.notification(Duration::from_millis(50))? {
                    ensure!(notification.xid == -1, "{notification:?} is no notification");
                    self.told.notified += 1;
                    // A read after a notification shows the change.
                    let Some(reply) = client.call_here(op::GET_DATA, get(false))? else {
                        continue 'again;
                    };
                    let (_, version) = data(&reply)?;
                    ensure!(version > seen, "notified of a change, but version is still {seen}");
                    continue 'again;
                }
                let Some(reply) = client.call_here(op::GET_DATA, get(false))? else { continue };
                let (_, version) = data(&reply)?;
                // The notification precedes the answer in the stream.
                let is_told = client.notification(Duration::from_millis(1))?.is_some();
                if is_told {
                    self.told.notified += 1;
                    continue 'again;
                }
                ensure!(
                    version == seen || client.connections() != connection,
                    "version {version} is seen, {seen} is watched, and no notification came"
                );
            }
        }
    }

    /// Abandons sessions: each ends with its ephemeral, and not before its timeout.
    pub(super) fn leave(mut self, mut client: Client) -> Result<Told> {
        let addresses = client.addresses().to_vec();
        let mut count = 0;
        while self.goes_on() {
            count += 1;
            let path = format!("/mortal-{count}");
            let mut mortal = Client::open(&addresses, count, MORTAL_MS)?;
            let is_there = mortal.create(&path, "", 1)?.is_some_and(|reply| reply.err == 0);
            // The servers hear of the session for the last time after this moment.
            let last = Instant::now();
            let is_heard = is_there && mortal.call_here(op::PING, Writer::new())?.is_some();
            let timeout = mortal.timeout();
            drop(mortal);
            let start = Instant::now();
            loop {
                ensure!(start.elapsed() < PATIENCE, "{path} outlives its session");
                if let Some(reply) = client.read(&path)?
                    && reply.err == NO_NODE
                {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            if is_heard {
                // Servers count in whole milliseconds.
                let lived = last.elapsed() + Duration::from_millis(2);
                ensure!(lived >= timeout, "{path} ended after {lived:?} instead of {timeout:?}");
                self.told.ended += 1;
            }
        }
        client.close();
        Ok(self.told)
    }
}

/// Sends an operation on a znode, and returns the outcome.
fn ask_for(client: &mut Client, path: &str, ask: &Ask) -> Result<(Answer, Option<Reply>)> {
    let body = Writer::new().string(path);
    let reply = match ask {
        Ask::Create(value) => client.create(path, value, 0)?,
        Ask::Set(version, value) => client.call(op::SET_DATA, body.string(value).int(*version))?,
        Ask::Delete(version) => client.call(op::DELETE, body.int(*version))?,
        Ask::Read => client.read(path)?,
    };
    let Some(reply) = reply else { return Ok((Answer::Unknown, None)) };
    let answer = match (ask, reply.err) {
        (Ask::Create(_) | Ask::Delete(_), 0) => Answer::Done,
        (Ask::Set(..), 0) => Answer::Version(Reader::new(&reply.body).stat()?.version),
        (Ask::Read, 0) => {
            let (value, version) = data(&reply)?;
            Answer::Is(version, value)
        }
        (_, NO_NODE) => Answer::NoNode,
        (_, NODE_EXISTS) => Answer::Exists,
        (_, BAD_VERSION) => Answer::BadVersion,
        // After any other error, such as a moved session, the outcome is unknown.
        _ => Answer::Unknown,
    };
    Ok((answer, Some(reply)))
}

/// Value and version in the answer to a `getData`.
fn data(reply: &Reply) -> Result<(String, i32)> {
    let mut reader = Reader::new(&reply.body);
    let value = reader.string()?;
    Ok((value, reader.stat()?.version))
}

/// The number in the answer to a `getData`; `None` if the answer is an error.
fn number(reply: &Reply) -> Result<Option<i32>> {
    if reply.err != 0 {
        return Ok(None);
    }
    let (text, _) = data(reply)?;
    parse(&text).map(Some)
}

/// A number, 0 before the first one.
fn parse(text: &str) -> Result<i32> {
    if text.is_empty() { Ok(0) } else { text.parse().with_context(|| text.to_owned()) }
}

/// Creates a znode, with as many attempts as necessary.
pub(super) fn create_surely(client: &mut Client, path: &str, flags: i32) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match client.create(path, "", flags)?.map(|reply| reply.err) {
            Some(0 | NODE_EXISTS) => return Ok(()),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    bail!("{path} cannot be created")
}

/// Reads, with as many attempts as necessary.
fn read_surely(client: &mut Client, path: &str) -> Result<Reply> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match client.read(path)? {
            Some(reply) if reply.err == 0 || reply.err == NO_NODE => return Ok(reply),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    bail!("{path} cannot be read")
}
