//! Clients that keep on asking while servers come and go, and remember what they were told.

mod client;
mod outsiders;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

pub use self::client::Client;
pub use self::outsiders::Outsiders;
use self::worker::{Common, PAIR, WATCHED, Worker, create_surely};
use crate::linear::Operation;
use crate::server::PATIENCE;
use crate::znode::{self, Asked};

/// The timeout of sessions that stay, in milliseconds.
const STAYING_MS: i32 = 60_000;

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Before it was sent.
    pub began: Instant,
    /// After its answer came.
    pub ended: Instant,
    /// Its place in the order of all writes.
    pub zxid: i64,
}

/// What clients were told.
#[derive(Debug, Default)]
pub struct Told {
    /// Znodes whose creation was acknowledged.
    pub created: BTreeSet<String>,
    /// What was seen of znodes that several clients use.
    pub histories: BTreeMap<String, Vec<Operation<Asked>>>,
    /// All acknowledged writes.
    pub writes: Vec<Write>,
    /// Operations without an answer.
    pub unknown: usize,
    /// Notifications that came.
    pub notified: usize,
    /// Pairs that were read.
    pub pairs: usize,
    /// Sessions that were left behind and ended.
    pub ended: usize,
}

/// What was checked, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Acknowledged writes.
    pub writes: usize,
    /// Histories, each of one znode; all of them decided.
    pub histories: usize,
    /// Operations in them.
    pub operations: usize,
    /// Operations without an answer.
    pub unknown: usize,
    /// Configurations that the search looked at.
    pub configurations: usize,
    /// Notifications.
    pub notified: usize,
    /// Reads of two znodes that are changed together.
    pub pairs: usize,
    /// Sessions that ended in time, not early.
    pub ended: usize,
    /// Digests of whole trees, in the middle of the run, that were compared.
    pub digests: usize,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.writes += other.writes;
        self.histories += other.histories;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.configurations += other.configurations;
        self.notified += other.notified;
        self.pairs += other.pairs;
        self.ended += other.ended;
        self.digests += other.digests;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, histories, operations, unknown, configurations, .. } = self;
        let Self { notified, pairs, ended, digests, .. } = self;
        write!(
            f,
            "{writes} writes acknowledged, {histories} histories of {operations} operations decided \
             ({configurations} configurations), {unknown} operations without an answer, {notified} \
             notifications, {pairs} pairs read, {ended} sessions ended in time, {digests} digests compared"
        )
    }
}

/// Clients in threads of their own.
pub struct Load {
    common: Arc<Common>,
    threads: Vec<JoinHandle<Result<Told>>>,
}

impl Load {
    /// Starts clients: for every address one that creates znodes, one that shares a few with others,
    /// and one that watches; and two that change pairs, one that changes what is watched, and one that leaves
    /// sessions behind.
    ///
    /// # Errors
    /// Nobody serves.
    pub fn start(addresses: &[SocketAddr]) -> Result<Self> {
        Self::start_with(addresses, 1)
    }

    /// The same; the seed says what is done with the shared znodes.
    ///
    /// # Errors
    /// Nobody serves.
    pub fn start_with(addresses: &[SocketAddr], seed: u64) -> Result<Self> {
        Self::start_where(addresses, addresses, seed)
    }

    /// The same; only at some of these, the `current`, a read behind a sync shows everything that was over by then.
    ///
    /// # Errors
    /// Nobody serves.
    pub fn start_where(
        addresses: &[SocketAddr],
        current: &[SocketAddr],
        seed: u64,
    ) -> Result<Self> {
        let mut client = Client::open(addresses, 0, STAYING_MS)?;
        for path in ["/load", WATCHED, PAIR[0], PAIR[1]] {
            create_surely(&mut client, path, 0)?;
        }
        let mut load = Self { common: Arc::default(), threads: Vec::new() };
        for number in 0..addresses.len() {
            let seed = seed.wrapping_mul(31).wrapping_add(number as u64);
            load.add(addresses, number, seed, Worker::create)?;
            load.add(current, number, seed, Worker::change)?;
            load.add(addresses, number, seed, Worker::watch)?;
        }
        for number in 0..2 {
            load.add(addresses, number, seed, Worker::pair)?;
        }
        load.add(addresses, 0, seed, Worker::touch)?;
        load.add(current, 1, seed, Worker::leave)?;
        Ok(load)
    }

    fn add(
        &mut self,
        addresses: &[SocketAddr],
        number: usize,
        seed: u64,
        run: fn(Worker, Client) -> Result<Told>,
    ) -> Result<()> {
        let client = Client::open(addresses, number, STAYING_MS)?;
        let common = self.common.clone();
        let worker = Worker { number, seed, common, told: Told::default() };
        self.threads.push(std::thread::spawn(move || run(worker, client)));
        Ok(())
    }

    /// Waits until `more` creations have been acknowledged from now on.
    ///
    /// # Errors
    /// They are not, or a client has given up.
    pub fn wait_for(&self, more: usize) -> Result<()> {
        let enough = self.common.acknowledged.load(Ordering::Relaxed) + more;
        let start = Instant::now();
        while self.common.acknowledged.load(Ordering::Relaxed) < enough {
            ensure!(start.elapsed() < PATIENCE, "nothing is acknowledged any more");
            self.goes_on()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Whether all clients still ask.
    ///
    /// # Errors
    /// One has given up; [`Load::finish`] says why.
    pub fn goes_on(&self) -> Result<()> {
        ensure!(!self.threads.iter().any(JoinHandle::is_finished), "a client has given up");
        Ok(())
    }

    /// Ends the clients, and says what they were told.
    ///
    /// # Errors
    /// A client lost its session, went back in time, missed a notification, or saw a session end early.
    pub fn finish(self) -> Result<Told> {
        self.common.stop.store(true, Ordering::Relaxed);
        // All have ended before it is said what one has seen: nobody writes any more.
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        let mut all = Told::default();
        for told in ended {
            let told = told.map_err(|_| anyhow::anyhow!("a client panicked"))??;
            all.created.extend(told.created);
            for (key, history) in told.histories {
                all.histories.entry(key).or_default().extend(history);
            }
            all.writes.extend(told.writes);
            all.unknown += told.unknown;
            all.notified += told.notified;
            all.pairs += told.pairs;
            all.ended += told.ended;
        }
        Ok(all)
    }
}

impl Told {
    /// Checks it against the tree that all members have in the end.
    ///
    /// # Errors
    /// An acknowledged creation is not there, writes were ordered against what was over before, or a history is
    /// not linearizable.
    pub fn check(&self, tree: &str) -> Result<Figures> {
        let there: BTreeSet<&str> =
            tree.lines().filter_map(|line| line.split(" data=").next()).collect();
        let lost: Vec<&String> =
            self.created.iter().filter(|path| !there.contains(path.as_str())).collect();
        ensure!(lost.is_empty(), "{} acknowledged writes are lost: {lost:?}", lost.len());
        ensure!(!self.created.is_empty(), "nothing was acknowledged");
        in_order(&self.writes)?;
        let mut figures = Figures {
            writes: self.writes.len(),
            unknown: self.unknown,
            notified: self.notified,
            pairs: self.pairs,
            ended: self.ended,
            ..Figures::default()
        };
        for (key, history) in &self.histories {
            figures.configurations +=
                znode::check(history).map_err(|error| error.context(key.clone()))?;
            figures.histories += 1;
            figures.operations += history.len();
        }
        Ok(figures)
    }
}

/// Whoever begins after another has ended has the later place, and nobody has the same.
fn in_order(writes: &[Write]) -> Result<()> {
    let mut zxids: Vec<i64> = writes.iter().map(|write| write.zxid).collect();
    zxids.sort_unstable();
    let twice = zxids.windows(2).find(|pair| pair[0] == pair[1]);
    ensure!(twice.is_none(), "two writes at one place: {twice:x?}");
    let mut starts: Vec<&Write> = writes.iter().collect();
    starts.sort_by_key(|write| write.began);
    let mut ends: Vec<&Write> = writes.iter().collect();
    ends.sort_by_key(|write| write.ended);
    let mut over = ends.into_iter().peekable();
    let mut newest = i64::MIN;
    for write in starts {
        while let Some(before) = over.next_if(|before| before.ended < write.began) {
            newest = newest.max(before.zxid);
        }
        let (zxid, place) = (write.zxid, newest);
        ensure!(zxid > place, "a write at {zxid:#x} began after one at {place:#x} was over");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_do_not_overlap_are_ordered_as_they_were() {
        let zero = Instant::now();
        let write = |(began, ended, zxid): (u64, u64, i64)| Write {
            began: zero + Duration::from_millis(began),
            ended: zero + Duration::from_millis(ended),
            zxid,
        };
        let holds = |of: &[(u64, u64, i64)]| {
            in_order(&of.iter().copied().map(write).collect::<Vec<_>>()).is_ok()
        };
        assert!(holds(&[(1, 2, 5), (3, 4, 6), (0, 9, 7)]));
        assert!(holds(&[(1, 5, 6), (3, 4, 5)]), "they overlap");
        assert!(!holds(&[(1, 2, 6), (3, 4, 5)]));
        assert!(!holds(&[(1, 9, 5), (2, 9, 5)]));
    }
}
