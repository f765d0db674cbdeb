//! An ensemble of servers, each in a process of its own, of one kind or of several.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::dump::{self, with_super};
use crate::network::Network;
use crate::raw::{NoAnswer, Session};
use crate::server::{Kind, Options, PATIENCE, Server};
use crate::wire::{Writer, op};

/// A tick, in milliseconds.
const TICK_MS: u64 = 200;

/// `syncLimit` of members that are quick to notice who is silent, in ticks.
const SYNC_LIMIT: u64 = 5;

/// `syncLimit` of all others, in ticks: nobody has to wait so long for a processor.
const CALM_LIMIT: u64 = 100;

/// A pause that a leader and its followers put up with.
pub const SHORT: Duration = Duration::from_millis(TICK_MS * SYNC_LIMIT / 3);

/// A pause after which nobody counts on who paused.
pub const LONG: Duration = Duration::from_millis(TICK_MS * SYNC_LIMIT * 2);

/// How the members of an ensemble are configured: durable, visible to [`dump::SUPER`]. Who ends is missed at once,
/// who only has to wait for a processor is not.
pub fn options() -> Options {
    let options = Options::default()
        .config("tickTime", TICK_MS)
        .config("initLimit", 100)
        .config("syncLimit", CALM_LIMIT)
        .config("maxSessionTimeout", 60_000)
        .config("forceSync", "yes");
    with_super(options)
}

/// The same for members that may stand still: they are soon missed. So are those that have to wait for a processor,
/// so any of these may lead at any time.
pub fn quick_options() -> Options {
    options().config("syncLimit", SYNC_LIMIT)
}

/// The same for members that may be cut off: whoever votes for one that cannot be reached tries to reach it for
/// as long as `initLimit`.
pub fn options_with_cuts() -> Options {
    quick_options().config("initLimit", 25)
}

/// Servers that know each other.
pub struct Ensemble {
    members: Vec<Server>,
    network: Network,
}

impl Ensemble {
    /// Members that have not been started, with the ids 1, 2 and so on.
    ///
    /// # Errors
    /// No folder for one.
    pub fn prepare(kinds: &[Kind], options: &Options) -> Result<Self> {
        Self::prepare_with_observers(kinds, 0, options)
    }

    /// The same; the last `observers` of them have no vote.
    ///
    /// # Errors
    /// No folder for one.
    pub fn prepare_with_observers(
        kinds: &[Kind],
        observers: usize,
        options: &Options,
    ) -> Result<Self> {
        Self::prepare_on(Network::loopback(kinds.len()), kinds, observers, options)
    }

    /// The same on some network, which has as many places.
    ///
    /// # Errors
    /// No folder for one.
    pub fn prepare_on(
        network: Network,
        kinds: &[Kind],
        observers: usize,
        options: &Options,
    ) -> Result<Self> {
        Self::prepare_each(network, kinds, observers, &|_| options.clone())
    }

    /// The same, with options for each of them.
    ///
    /// # Errors
    /// No folder for one.
    pub fn prepare_each(
        network: Network,
        kinds: &[Kind],
        observers: usize,
        options: &dyn Fn(usize) -> Options,
    ) -> Result<Self> {
        let role = |index: usize| {
            if index + observers < kinds.len() { "participant" } else { "observer" }
        };
        let member = |(viewer, kind): (usize, &Kind)| {
            let mut options = options(viewer).config("peerType", role(viewer));
            for index in 0..kinds.len() {
                let line = format!("{}:{}", network.line(viewer, index), role(index));
                options = options.config(&format!("server.{}", index + 1), line);
            }
            Server::prepare_at(network.place(viewer), *kind, &options, |data| {
                Ok(fs::write(data.join("myid"), format!("{}\n", viewer + 1))?)
            })
        };
        let members = kinds.iter().enumerate().map(member).collect::<Result<_>>()?;
        Ok(Self { members, network })
    }

    /// Starts members on empty data directories and waits until all of them serve.
    ///
    /// # Errors
    /// One does not come up.
    pub fn start(kinds: &[Kind], options: &Options) -> Result<Self> {
        Self::prepare(kinds, options)?.started()
    }

    /// Starts members that have been prepared and waits until all of them serve.
    ///
    /// # Errors
    /// One does not come up.
    pub fn started(mut self) -> Result<Self> {
        for member in &mut self.members {
            member.spawn()?;
        }
        self.wait_for_all()?;
        Ok(self)
    }

    /// What is between the members.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// A member; the first is 0 and has the id 1.
    pub fn member(&mut self, index: usize) -> &mut Server {
        &mut self.members[index]
    }

    /// All members.
    pub fn members(&self) -> &[Server] {
        &self.members
    }

    /// Where clients connect to them.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Server::address).collect()
    }

    /// Waits until all members serve.
    ///
    /// # Errors
    /// One does not.
    pub fn wait_for_all(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(Server::wait_until_serving)
    }

    /// Waits until one of the members says that it leads, other than `but`.
    ///
    /// # Errors
    /// None ever does.
    pub fn leader(&mut self, but: Option<usize>) -> Result<usize> {
        let start = Instant::now();
        loop {
            for index in (0..self.members.len()).filter(|index| Some(*index) != but) {
                let mode = self.members[index].ask("srvr", Duration::from_millis(500));
                if mode.is_ok_and(|text| text.contains("Mode: leader")) {
                    return Ok(index);
                }
            }
            if start.elapsed() > PATIENCE {
                bail!("nobody leads");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Some member that does not lead.
    ///
    /// # Errors
    /// Nobody leads.
    pub fn follower(&mut self) -> Result<usize> {
        let leader = self.leader(None)?;
        Ok((leader + 1) % self.members.len())
    }

    /// Takes everything from a stopped member but its id.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn wipe(&mut self, index: usize) -> Result<()> {
        let history = self.members[index].data().join("version-2");
        fs::remove_dir_all(&history).with_context(|| history.display().to_string())
    }

    /// Asks a member for something with a patience, and once more where that is worth it.
    ///
    /// Three servers of 3.8.0 by themselves, on a busy machine, leave a request unanswered in about one of twenty runs of
    /// these tests, with all of their threads asleep; the next connection is served. So one of them may be silent twice.
    /// All others have one try.
    ///
    /// # Errors
    /// It does not answer, or what else `ask` says.
    pub fn ask<T>(
        &self,
        index: usize,
        ask: impl Fn(SocketAddr, Duration) -> Result<T>,
    ) -> Result<T> {
        let member = &self.members[index];
        let address = member.address();
        if member.kind() == Kind::Java380 {
            for _ in 0..2 {
                match ask(address, Duration::from_secs(20)) {
                    Err(error) if error.is::<NoAnswer>() => {
                        eprintln!("member {} of 3.8.0: {error}; it is asked again", index + 1);
                    }
                    done => return done,
                }
            }
        }
        ask(address, PATIENCE)
    }

    /// Everything a member's clients can see, once it has all that the leader has committed.
    ///
    /// # Errors
    /// It does not serve.
    pub fn tree(&self, index: usize) -> Result<String> {
        self.ask(index, |address, patience| self.tree_at(address, patience))
    }

    fn tree_at(&self, address: SocketAddr, patience: Duration) -> Result<String> {
        let mut session = Session::open_within(address, 60_000, patience)?;
        session.expect(op::SYNC, Writer::new().string("/"))?;
        session.close()?;
        // Each server fills this znode for itself, at its start.
        let own = |line: &str| line.starts_with("/zookeeper/config ");
        let is_same_for_all = self.network.line(0, 0) == self.network.line(1, 0);
        let tree = dump::tree_within(address, patience)?;
        let line = |line: &str| match line.split_once("mtime: ").filter(|_| own(line)) {
            Some(_) if !is_same_for_all => "/zookeeper/config: its own\n".to_owned(),
            Some((before, after)) => {
                let (_, after) = after.split_once(',').unwrap_or_default();
                format!("{before}mtime: its own,{after}\n")
            }
            None => format!("{line}\n"),
        };
        Ok(tree.lines().map(line).collect())
    }

    /// The tree that all members have, without digests that did not match.
    ///
    /// # Errors
    /// They differ.
    pub fn agreed_tree(&mut self) -> Result<String> {
        let tree = self.same_tree()?;
        self.no_mismatches()?;
        Ok(tree)
    }

    /// The tree that all members have.
    ///
    /// # Errors
    /// They differ.
    pub fn same_tree(&mut self) -> Result<String> {
        self.same_tree_of(&|_| true)
    }

    /// The tree that all members of these kinds have.
    ///
    /// # Errors
    /// They differ, or there are none.
    pub fn same_tree_of(&mut self, counts: &dyn Fn(Kind) -> bool) -> Result<String> {
        self.wait_for_all()?;
        let mut indexes = self.indexes_of(counts);
        let one = indexes.next().context("no such member")?;
        let first = self.tree(one)?;
        for index in indexes {
            let other = self.tree(index)?;
            if first != other {
                let only = |a: &str, b: &str| -> Vec<String> {
                    let known: BTreeSet<&str> = b.lines().collect();
                    let only = a.lines().filter(|line| !known.contains(line)).take(10);
                    only.map(ToOwned::to_owned).collect()
                };
                let (here, there) = (only(&first, &other), only(&other, &first));
                bail!("members {} and {} differ: {here:#?}\n{there:#?}", one + 1, index + 1);
            }
        }
        Ok(first)
    }

    fn indexes_of(&self, counts: &dyn Fn(Kind) -> bool) -> impl Iterator<Item = usize> + use<> {
        let is_one = |(index, member): (usize, &Server)| counts(member.kind()).then_some(index);
        self.members.iter().enumerate().filter_map(is_one).collect::<Vec<_>>().into_iter()
    }

    /// No member has found a digest that is not its own.
    ///
    /// # Errors
    /// One has.
    pub fn no_mismatches(&self) -> Result<()> {
        self.no_mismatches_of(&|_| true)
    }

    /// No member of these kinds has found a digest that is not its own.
    ///
    /// # Errors
    /// One has.
    pub fn no_mismatches_of(&self, counts: &dyn Fn(Kind) -> bool) -> Result<()> {
        let count = |index: usize| {
            // Whoever has just lost its leader says nothing of itself for a moment.
            let start = Instant::now();
            loop {
                let count = self.members[index].monitor("zk_digest_mismatches_count");
                if count.is_ok() || start.elapsed() > PATIENCE {
                    return count;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let mismatches: Vec<String> = self.indexes_of(counts).map(count).collect::<Result<_>>()?;
        let words = ["digest", "recovered", "tree as of", "leading", "following", "looking"];
        let log = |member: &Server| format!("{}\n{}", member.address(), member.log_lines(&words));
        let logs = || -> String { self.members.iter().map(log).collect() };
        let all_right =
            |(index, count): (usize, &String)| count == "0" || self.has_tree_of_the_original(index);
        let mut counts = self.indexes_of(counts).zip(&mismatches);
        ensure!(counts.all(all_right), "digests differ: {mismatches:?}\n{}", logs());
        Ok(())
    }

    /// Whether the first digest that differs at a server of the original came behind a tree that another server of the
    /// original had sent it. Under load such a tree is ahead of its digest, and the receiver compares all the same.
    fn has_tree_of_the_original(&self, index: usize) -> bool {
        let member = &self.members[index];
        if member.kind() == Kind::Zebu {
            return false;
        }
        let words = ["synchronization - snap", "First digest mismatch on txn"];
        let lines = member.log_lines(&words);
        let (mut sent_a_tree, mut differs) = (false, false);
        for line in lines.lines() {
            let Some((_, txn)) = line.split_once("First digest mismatch on txn: ") else {
                sent_a_tree = true;
                continue;
            };
            // Session, cxid and zxid.
            let zxid = txn.split(',').nth(2).and_then(|zxid| zxid.trim().parse::<i64>().ok());
            let Some(epoch) = zxid.map(|zxid| zxid >> 32) else { return false };
            let led = format!("leading, epoch {epoch:x}");
            let is_led =
                |it: &Server| it.log_lines(&[&led]).lines().any(|line| line.ends_with(&led));
            if !sent_a_tree || self.members.iter().any(is_led) {
                return false;
            }
            differs = true;
        }
        differs
    }

    /// How many digests all members have in common, each of the whole tree at some transaction: what their
    /// word `hash` says.
    ///
    /// # Errors
    /// Two differ.
    pub fn agreed_digests(&self) -> Result<usize> {
        self.agreed_digests_of(&|_| true)
    }

    /// The same for members of these kinds.
    ///
    /// # Errors
    /// Two differ.
    pub fn agreed_digests_of(&self, counts: &dyn Fn(Kind) -> bool) -> Result<usize> {
        let mut known: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let mut common = 0;
        for index in self.indexes_of(counts) {
            let text = self.members[index].four_letter_word("hash")?;
            for line in text.lines() {
                let Some((zxid, digest)) = line.split_once(": ") else { continue };
                let Some((first, other)) = known.get(zxid) else {
                    known.insert(zxid.to_owned(), (index, digest.to_owned()));
                    continue;
                };
                ensure!(
                    other == digest,
                    "members {} and {} differ at {zxid}: {other}, {digest}",
                    first + 1,
                    index + 1
                );
                common += 1;
            }
        }
        Ok(common)
    }
}
