//! Clients that send requests while servers stop and restart, and record the answers.

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
use self::worker::{Common, ORDERED, PAIR, SYNCED, WATCHED, Worker, create_surely};
use crate::linear::Operation;
use crate::server::PATIENCE;
use crate::znode::{self, Asked};

/// Timeout of long-lived sessions, in milliseconds.
const STAYING_MS: i32 = 60_000;

/// An acknowledged write.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// A time before it was sent.
    pub began: Instant,
    /// A time after its answer arrived.
    pub ended: Instant,
    /// Its zxid.
    pub zxid: i64,
}

/// The answers that clients received.
#[derive(Debug, Default)]
pub struct Told {
    /// Paths of acknowledged creates.
    pub created: BTreeSet<String>,
    /// Histories of the znodes that several clients share.
    pub histories: BTreeMap<String, Vec<Operation<Asked>>>,
    /// All acknowledged writes.
    pub writes: Vec<Write>,
    /// Number of operations without an answer.
    pub unknown: usize,
    /// Number of notifications.
    pub notified: usize,
    /// Number of reads of pairs.
    pub pairs: usize,
    /// Number of reads that were compared with what was acknowledged or seen before.
    pub compared: usize,
    /// Number of abandoned sessions that expired.
    pub ended: usize,
}

/// Numbers of what was checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Acknowledged writes.
    pub writes: usize,
    /// Histories, one for each znode; all were decided.
    pub histories: usize,
    /// Operations in the histories.
    pub operations: usize,
    /// Operations without an answer.
    pub unknown: usize,
    /// Configurations examined by the search.
    pub configurations: usize,
    /// Notifications.
    pub notified: usize,
    /// Reads of two znodes that change together.
    pub pairs: usize,
    /// Reads that were compared with what was acknowledged or seen before.
    pub compared: usize,
    /// Sessions that expired at the right time.
    pub ended: usize,
    /// Digests of whole trees that were compared during the run.
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
        self.compared += other.compared;
        self.ended += other.ended;
        self.digests += other.digests;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, histories, operations, unknown, configurations, .. } = self;
        let Self { notified, pairs, compared, ended, digests, .. } = self;
        write!(
            f,
            "{writes} writes acknowledged, {histories} histories of {operations} operations decided \
             ({configurations} configurations), {unknown} operations without an answer, {notified} \
             notifications, {pairs} pairs read, {compared} reads in order, {ended} sessions ended in time, {digests} digests compared"
        )
    }
}

/// The workloads that clients run and check, in addition to creating znodes, which every load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Clients create, change, read and delete a few common znodes: the histories are linearizable.
    Registers,
    /// A read after a sync shows every write that was acknowledged before the sync.
    Sync,
    /// Reads without a sync, at every member: no client sees a later write without the earlier
    /// ones, and no client sees an older state than before.
    Order,
    /// Watches: notified in time, exactly once, and before the change is seen.
    Watches,
    /// Sessions: living ones are kept with their ephemerals, abandoned ones end in time.
    Sessions,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 5] =
        [Self::Registers, Self::Sync, Self::Order, Self::Watches, Self::Sessions];

    /// Its name in commands and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Sync => "sync",
            Self::Order => "order",
            Self::Watches => "watches",
            Self::Sessions => "sessions",
        }
    }
}

/// Clients, each in its own thread.
pub struct Load {
    common: Arc<Common>,
    threads: Vec<JoinHandle<Result<Told>>>,
}

impl Load {
    /// Starts clients with all workloads, most of them once for every address.
    ///
    /// # Errors
    /// No server answers.
    pub fn start(addresses: &[SocketAddr]) -> Result<Self> {
        Self::start_with(addresses, 1)
    }

    /// As above; `seed` determines the operations on the shared znodes.
    ///
    /// # Errors
    /// No server answers.
    pub fn start_with(addresses: &[SocketAddr], seed: u64) -> Result<Self> {
        Self::start_where(addresses, addresses, seed)
    }

    /// As above. Only at the `current` servers does a read after a sync show everything that ended
    /// before.
    ///
    /// # Errors
    /// No server answers.
    pub fn start_where(
        addresses: &[SocketAddr],
        current: &[SocketAddr],
        seed: u64,
    ) -> Result<Self> {
        Self::start_some(addresses, current, &Workload::ALL, seed)
    }

    /// As above, with these workloads only.
    ///
    /// # Errors
    /// No server answers.
    pub fn start_some(
        addresses: &[SocketAddr],
        current: &[SocketAddr],
        workloads: &[Workload],
        seed: u64,
    ) -> Result<Self> {
        let mut client = Client::open(addresses, 0, STAYING_MS)?;
        for path in ["/load", WATCHED, PAIR[0], PAIR[1], SYNCED, ORDERED[0], ORDERED[1]] {
            create_surely(&mut client, path, 0)?;
        }
        let mut load = Self { common: Arc::default(), threads: Vec::new() };
        for number in 0..addresses.len() {
            let seed = seed.wrapping_mul(31).wrapping_add(number as u64);
            load.add(addresses, number, seed, Worker::create)?;
            for workload in workloads {
                match workload {
                    Workload::Registers => load.add(current, number, seed, Worker::change)?,
                    Workload::Sync => load.add(current, number, seed, Worker::look)?,
                    Workload::Order => load.add(addresses, number, seed, Worker::follow)?,
                    Workload::Watches => load.add(addresses, number, seed, Worker::watch)?,
                    Workload::Sessions => {}
                }
            }
        }
        for workload in workloads {
            match workload {
                Workload::Registers => {}
                Workload::Sync => load.add(addresses, 0, seed, Worker::raise)?,
                Workload::Order => {
                    load.add(addresses, 0, seed, Worker::raise_both)?;
                    load.add(addresses, 0, seed, Worker::pair)?;
                    load.add(addresses, 1, seed, Worker::pair)?;
                }
                Workload::Watches => load.add(addresses, 0, seed, Worker::touch)?,
                Workload::Sessions => load.add(current, 1, seed, Worker::leave)?,
            }
        }
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

    /// Waits until `more` further creates are acknowledged.
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

    /// Checks that all clients still run.
    ///
    /// # Errors
    /// A client has given up; [`Load::finish`] returns the reason.
    pub fn goes_on(&self) -> Result<()> {
        ensure!(!self.threads.iter().any(JoinHandle::is_finished), "a client has given up");
        Ok(())
    }

    /// Stops the clients, and returns their records.
    ///
    /// # Errors
    /// A client lost its session, saw an older state, missed a notification, or saw a session
    /// expire early.
    pub fn finish(self) -> Result<Told> {
        self.common.stop.store(true, Ordering::Relaxed);
        // All clients stop before the first result is used, so no more writes happen.
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
            all.compared += told.compared;
            all.ended += told.ended;
        }
        Ok(all)
    }
}

impl Told {
    /// Checks the records against the final tree of all members.
    ///
    /// # Errors
    /// An acknowledged create is missing, writes were ordered against real time, or a history is
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
            compared: self.compared,
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

/// A write that started after another one ended has the larger zxid, and all zxids differ.
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
