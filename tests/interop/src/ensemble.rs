//! An ensemble of server processes, of one kind or of several.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zebu_testkit::wire::{Writer, op, open_acl};

use crate::dump::{self, SUPER, with_super};
use crate::network::Network;
use crate::raw::{NoAnswer, Session};
use crate::server::{Kind, Options, PATIENCE, Server, free_port};
use crate::tamper::Clocks;

/// The length of a tick in milliseconds.
const TICK_MS: u64 = 200;

/// `syncLimit` in ticks for members that quickly detect a silent peer.
const SYNC_LIMIT: u64 = 5;

/// `syncLimit` in ticks for all other members: long enough for a busy machine.
const CALM_LIMIT: u64 = 100;

/// A pause shorter than the timeouts of leaders and followers.
pub const SHORT: Duration = Duration::from_millis(TICK_MS * SYNC_LIMIT / 3);

/// A pause longer than all timeouts.
pub const LONG: Duration = Duration::from_millis(TICK_MS * SYNC_LIMIT * 2);

/// Configuration of members: durable, and visible to [`dump::SUPER`]. A stopped process is detected
/// at once, and a slow one is tolerated.
pub fn options() -> Options {
    let options = Options::default()
        .config("tickTime", TICK_MS)
        .config("initLimit", 100)
        .config("syncLimit", CALM_LIMIT)
        .config("zebu.leaderSilence", 0)
        .config("maxSessionTimeout", 60_000)
        .config("forceSync", "yes");
    with_super(options)
}

/// Configuration for members that may be paused: a silence is detected soon. A busy machine may
/// look the same, so any of these members may lead at any time.
pub fn quick_options() -> Options {
    options().config("syncLimit", SYNC_LIMIT).config("zebu.leaderSilence", 600)
}

/// Configuration for members that may be cut off: a voter tries to reach its candidate for
/// `initLimit`.
pub fn options_with_cuts() -> Options {
    quick_options().config("initLimit", 25)
}

/// The effect of a power cut on the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// They continue for a moment, and their calls fail.
    Running,
    /// None: they are paused.
    Frozen,
}

/// Servers with a common list of members.
pub struct Ensemble {
    members: Vec<Server>,
    network: Network,
    clocks: Option<Clocks>,
}

impl Ensemble {
    /// Prepares members with the ids 1, 2 and so on.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub fn prepare(kinds: &[Kind], options: &Options) -> Result<Self> {
        Self::prepare_with_observers(kinds, 0, options)
    }

    /// As above; the last `observers` of them are observers.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub fn prepare_with_observers(
        kinds: &[Kind],
        observers: usize,
        options: &Options,
    ) -> Result<Self> {
        Self::prepare_on(Network::loopback(kinds.len()), kinds, observers, options)
    }

    /// As above, on a network with as many places.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub fn prepare_on(
        network: Network,
        kinds: &[Kind],
        observers: usize,
        options: &Options,
    ) -> Result<Self> {
        Self::prepare_each(network, kinds, observers, &|_| options.clone())
    }

    /// As above, with options for each member.
    ///
    /// # Errors
    /// A folder cannot be created.
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
        Ok(Self { members, network, clocks: None })
    }

    /// Prepares members for every kind of fault: with their own clocks, a port for operators, and a
    /// membership that can be changed. `more`: further options.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub fn prepare_for_all(
        network: Network,
        kinds: &[Kind],
        more: &dyn Fn(Options) -> Options,
    ) -> Result<Self> {
        let clocks = Clocks::build()
            .inspect_err(|error| eprintln!("no clocks of their own on this machine: {error:#}"));
        let clocks = clocks.ok();
        for (number, clocks) in (0..kinds.len()).zip(clocks.iter().cycle()) {
            clocks.set(number, 0)?;
        }
        let admin: Vec<(Ipv4Addr, u16)> =
            (0..kinds.len()).map(|index| (network.place(index).host, free_port())).collect();
        let is_uniform = network.is_uniform();
        let options = |index: usize| {
            let mut options = options_with_cuts()
                .config("admin.enableServer", true)
                .config("admin.serverAddress", admin[index].0)
                .config("admin.serverPort", admin[index].1)
                .keep_config();
            // Members that see each other at different addresses must not send each other their
            // addresses.
            if is_uniform {
                options = options.config("reconfigEnabled", true);
            }
            let variables = clocks.as_ref().map(|clocks| clocks.variables(index));
            for (name, value) in variables.into_iter().flatten() {
                options = options.environment(name, value);
            }
            more(options)
        };
        let ensemble = Self::prepare_each(network, kinds, 0, &options)?;
        Ok(Self { clocks, ..ensemble })
    }

    /// The clocks of the members, if they have their own.
    pub fn clocks(&self) -> Option<&Clocks> {
        self.clocks.as_ref()
    }

    /// Makes a member a voter or an observer by a reconfiguration; `false` if the members do not
    /// have the same address for all others.
    ///
    /// # Errors
    /// The reconfiguration is refused.
    pub fn change_role(&mut self, at: usize, member: usize, role: &str) -> Result<bool> {
        if !self.network.is_uniform() {
            return Ok(false);
        }
        let line = self.network.line(at, member);
        let entry =
            format!("server.{}={line}:{role};{}", member + 1, self.members[member].address());
        let start = Instant::now();
        loop {
            let ask = || -> Result<i32> {
                let at = self.members[at].address();
                let mut session = Session::open_within(at, 60_000, LONG)?;
                session.auth("digest", SUPER)?;
                let body = Writer::new().optional_string(Some(&entry));
                let body = body.optional_string(None).optional_string(None).long(-1);
                Ok(session.call(op::RECONFIG, body)?.err)
            };
            match ask() {
                Ok(0) => return Ok(true),
                // The leader does not know its followers yet, or it has just changed.
                Ok(-13 | -14) | Err(_) if start.elapsed() < PATIENCE => {}
                answer => bail!("reconfiguration to {entry}: {answer:?}"),
            }
            std::thread::sleep(SHORT / 3);
        }
    }

    /// Starts members with empty data directories and waits until all of them serve clients.
    ///
    /// # Errors
    /// A member does not start.
    pub fn start(kinds: &[Kind], options: &Options) -> Result<Self> {
        Self::prepare(kinds, options)?.started()
    }

    /// Starts prepared members and waits until all of them serve clients.
    ///
    /// # Errors
    /// A member does not start.
    pub fn started(mut self) -> Result<Self> {
        for member in &mut self.members {
            member.spawn()?;
        }
        self.wait_for_all()?;
        Ok(self)
    }

    /// Starts three prepared members. The first two form an ensemble, and the third one does not
    /// serve, because they refuse it.
    ///
    /// # Errors
    /// The first two do not serve, or the third one does.
    pub fn start_without_third(&mut self) -> Result<()> {
        for index in 0..3 {
            self.member(index).spawn()?;
        }
        for index in 0..2 {
            self.member(index).wait_until_serving()?;
        }
        self.put(0, "/without-it")?;
        self.put(1, "/as-well")?;
        let told = self.member(2).four_letter_word("srvr").unwrap_or_default();
        ensure!(!told.contains("Mode:"), "it serves: {told}");
        Ok(())
    }

    /// The network between the members.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// A member; index 0 has the id 1.
    pub fn member(&mut self, index: usize) -> &mut Server {
        &mut self.members[index]
    }

    /// All members.
    pub fn members(&self) -> &[Server] {
        &self.members
    }

    /// The client addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(Server::address).collect()
    }

    /// The client addresses of the members at which a read after a sync shows everything that was
    /// acknowledged before, if servers of this kind lead.
    ///
    /// The original's leader answers a sync of its own client without checking that it still leads,
    /// and before it has applied what it has just committed.
    pub fn current_addresses(&self, leader: Kind) -> Vec<SocketAddr> {
        let is_current = |member: &&Server| leader == Kind::Zebu || member.kind() == Kind::Zebu;
        self.members.iter().filter(is_current).map(Server::address).collect()
    }

    /// Waits until all members serve clients.
    ///
    /// # Errors
    /// A member does not.
    pub fn wait_for_all(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(Server::wait_until_serving)
    }

    /// Waits until a member other than `but` is the leader. Returns its index.
    ///
    /// # Errors
    /// No member becomes the leader.
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

    /// A member that is not the leader.
    ///
    /// # Errors
    /// There is no leader.
    pub fn follower(&mut self) -> Result<usize> {
        let leader = self.leader(None)?;
        Ok((leader + 1) % self.members.len())
    }

    /// Cuts the power of these members, and gives it back. Their processes have ended then.
    ///
    /// # Errors
    /// A member has no disk whose power can be cut.
    pub fn cut_power(&mut self, hit: &[usize], how: Cut) -> Result<()> {
        if how == Cut::Frozen {
            hit.iter().try_for_each(|index| self.members[*index].pause())?;
        }
        std::thread::scope(|scope| {
            let cut = |index: &usize| {
                let member = &self.members[*index];
                scope.spawn(move || member.cut_power())
            };
            let cuts: Vec<_> = hit.iter().map(cut).collect();
            let end = |cut: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                cut.join().map_err(|_| anyhow::anyhow!("a power cut panicked"))?
            };
            cuts.into_iter().try_for_each(end)
        })?;
        hit.iter().try_for_each(|index| self.members[*index].restore_power())
    }

    /// Deletes the data of a stopped member, except for its id.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn wipe(&mut self, index: usize) -> Result<()> {
        let history = self.members[index].data().join("version-2");
        fs::remove_dir_all(&history).with_context(|| history.display().to_string())
    }

    /// Asks a member with a time limit, and repeats once for some members.
    ///
    /// An ensemble of three 3.8.0 servers on a busy machine leaves a request unanswered in about
    /// one of twenty runs of these tests, while all its threads sleep. The next connection is
    /// served. So a member of that version gets a second try, and all others one.
    ///
    /// # Errors
    /// The member does not answer, or `ask` fails.
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

    /// The complete state that a member's clients can read, after it has applied everything that
    /// the leader has committed.
    ///
    /// # Errors
    /// The member does not serve clients.
    pub fn tree(&self, index: usize) -> Result<String> {
        self.ask(index, |address, patience| self.tree_at(address, patience))
    }

    fn tree_at(&self, address: SocketAddr, patience: Duration) -> Result<String> {
        let mut session = Session::open_within(address, 60_000, patience)?;
        session.expect(op::SYNC, Writer::new().string("/"))?;
        session.close()?;
        // Each server writes this znode itself when it starts.
        let own = |line: &str| line.starts_with("/zookeeper/config ");
        let is_same_for_all = self.network.is_uniform();
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

    /// Creates a znode with 10,000 bytes of data at a member. It may exist.
    ///
    /// # Errors
    /// The member does not answer, or refuses.
    pub fn put(&self, index: usize, path: &str) -> Result<()> {
        self.ask(index, |address, patience| {
            let mut session = Session::open_within(address, 60_000, patience)?;
            let body = Writer::new().string(path).buffer(&[7; 10_000]);
            let reply = session.call(op::CREATE, body.acl(&open_acl()).int(0))?;
            // A request without an answer may have created it.
            ensure!([0, -110].contains(&reply.err), "{path}: error {}", reply.err);
            session.close()
        })
    }

    /// Creates a znode with 10,000 bytes of data at a member, and checks that all members have it.
    ///
    /// # Errors
    /// The member does not answer, or refuses; a member lacks the znode; the trees differ.
    pub fn put_everywhere(&mut self, index: usize, path: &str) -> Result<()> {
        self.put(index, path)?;
        let tree = self.agreed_tree()?;
        ensure!(tree.contains(&format!("{path} ")), "{tree}");
        Ok(())
    }

    /// Checks that a mixed ensemble works: it writes at each member, wipes a member of ours, which
    /// then receives the leader's tree, and restarts the leader.
    ///
    /// # Errors
    /// A member does not answer; the trees differ.
    pub fn members_of_all_kinds_take_part(&mut self) -> Result<()> {
        for index in 0..self.members.len() {
            self.put_everywhere(index, &format!("/by-{index}"))?;
        }
        let ours = self.members.iter().position(|member| member.kind() == Kind::Zebu);
        let ours = ours.context("one of ours")?;
        self.member(ours).stop()?;
        self.wipe(ours)?;
        self.member(ours).launch()?;
        self.put_everywhere(ours, "/wiped")?;
        let leader = self.leader(None)?;
        self.member(leader).restart()?;
        self.put_everywhere(leader, "/another-leader")
    }

    /// The common tree of all members. Fails if a member has found a digest mismatch.
    ///
    /// # Errors
    /// The trees differ.
    pub fn agreed_tree(&mut self) -> Result<String> {
        let tree = self.same_tree()?;
        self.no_mismatches()?;
        Ok(tree)
    }

    /// The common tree of all members.
    ///
    /// # Errors
    /// The trees differ.
    pub fn same_tree(&mut self) -> Result<String> {
        self.same_tree_of(&|_| true)
    }

    /// The common tree of all members of these kinds.
    ///
    /// # Errors
    /// The trees differ, or there are no such members.
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

    /// Checks that no member has found a digest mismatch.
    ///
    /// # Errors
    /// A member has found one.
    pub fn no_mismatches(&self) -> Result<()> {
        self.no_mismatches_of(&|_| true)
    }

    /// Checks that no member of these kinds has found a digest mismatch.
    ///
    /// # Errors
    /// A member has found one.
    pub fn no_mismatches_of(&self, counts: &dyn Fn(Kind) -> bool) -> Result<()> {
        let count = |index: usize| {
            // A member that has just lost its leader closes connections for a moment.
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

    /// Whether the first digest mismatch at a server of the original follows a snapshot from
    /// another server of the original. Under load such a snapshot is ahead of its digest, and the
    /// receiver compares nevertheless.
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

    /// The number of digests that all members have in common, from their `hash` words. Each is the
    /// digest of the whole tree at one transaction.
    ///
    /// # Errors
    /// Two digests differ.
    pub fn agreed_digests(&self) -> Result<usize> {
        self.agreed_digests_of(&|_| true)
    }

    /// As above, for members of these kinds.
    ///
    /// # Errors
    /// Two digests differ.
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
