//! Power cuts of real disks: servers on loop-mounted ext4 and XFS file systems, standalone and as
//! three members whose power fails together, while clients write. Data that were not made durable
//! are lost. Every server starts again without an operator, with everything that was acknowledged.
//!
//! `cargo xtask power-cuts --cuts 100` makes that many cuts of each kind; the tests themselves make
//! a few. With `--age 120`, half of the later cuts come after up to 120 seconds of writes. Mounting
//! requires root: without root, the tests report that they did nothing.

mod away;

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::disk::Medium;
use zebu_interop::dump;
use zebu_interop::ensemble::{Cut, Ensemble, options};
use zebu_interop::faults::PROGRESS;
use zebu_interop::load::{Figures, Load};
use zebu_interop::raw::Session;
use zebu_interop::server::{Kind, Options, Server};
use zebu_testkit::Random;

/// The number of cuts for one ensemble. Then a new one begins with empty disks.
const CUTS_EACH: u64 = 4;

/// Maximum time that a server has run before a cut, in milliseconds: sometimes it does not serve
/// yet, mostly it has executed a few writes.
const AGES_MS: [u64; 4] = [20, 300, 1_000, 4_000];

/// The number of transactions between snapshots: a server writes many snapshots between two cuts.
const SNAP_COUNT: u64 = 150;

/// The same where a server writes for minutes: all snapshots have room on its disk, because the
/// next purge comes with the next start.
const SNAP_COUNT_AGED: u64 = 2_000;

/// Enough for the journal of either file system.
const MEBIBYTES: u32 = 320;

/// The number of cuts, unless the environment sets another one.
fn cuts() -> u64 {
    given("ZEBU_POWER_CUTS").unwrap_or(CUTS_EACH)
}

/// The longest time of writes before a cut, if the environment sets one.
fn age() -> Option<Duration> {
    given("ZEBU_POWER_CUTS_AGE").map(Duration::from_secs)
}

fn given(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: {text}")))
}

/// How long clients write before a later cut of an ensemble: with [`age`], that long at most before
/// every other cut.
fn draw_age(cut: u64, random: &mut Random) -> Duration {
    let most = match age() {
        Some(age) if cut % 2 == 1 => age.as_millis() as u64,
        _ => *random.pick(&AGES_MS),
    };
    Duration::from_millis(random.below(most))
}

/// Prints a line at once, although the test runner captures output.
fn say(line: &str) {
    // No result depends on this line.
    writeln!(std::io::stderr(), "{line}").ok();
}

fn on(medium: Medium) -> Options {
    options()
        .disk(medium, MEBIBYTES)
        .config("autopurge.purgeInterval", 1)
        .config("autopurge.snapRetainCount", 3)
        .property("zookeeper.snapCount", if age().is_some() { SNAP_COUNT_AGED } else { SNAP_COUNT })
}

/// The results of a series of cuts.
#[derive(Default)]
struct Series {
    cuts: u64,
    /// Cuts before the first write.
    young: u64,
    /// The longest time of writes before a cut.
    oldest: Duration,
    /// The longest time from the return of power until all servers served clients.
    longest: Duration,
    figures: Figures,
}

impl Series {
    /// Cuts the power of an ensemble with empty disks several times; `false` if this machine
    /// cannot.
    fn run(&mut self, medium: Medium, members: usize, random: &mut Random) -> Result<bool> {
        let mut ensemble = Ensemble::prepare(&vec![Kind::Zebu; members], &on(medium))?;
        if !ensemble.members().iter().all(Server::has_power) {
            return Ok(false);
        }
        // The cut may also hit a first start.
        for index in 0..members {
            ensemble.member(index).spawn()?;
        }
        std::thread::sleep(Duration::from_millis(random.below(400)));
        self.cut(&mut ensemble, random)?;
        self.young += 1;
        let addresses = ensemble.addresses();
        let load = Load::start_with(&addresses, random.next())?;
        load.wait_for(PROGRESS)?;
        for cut in 1..CUTS_EACH {
            let age = draw_age(cut, random);
            std::thread::sleep(age);
            self.oldest = self.oldest.max(age);
            if let Err(error) = self.cut(&mut ensemble, random) {
                // The client's own findings explain more than its missing answer.
                return Err(error.context(format!("{:?}", load.finish().err())));
            }
            if let Err(error) = load.wait_for(PROGRESS) {
                load.finish().with_context(|| format!("{error:#}"))?;
                return Err(error);
            }
        }
        let told = load.finish()?;
        let figures = told.check(&ensemble.agreed_tree()?)?;
        let digests = ensemble.agreed_digests()?;
        ensure!(members == 1 || digests > 0, "no digests to compare");
        self.figures += Figures { digests, ..figures };
        Ok(true)
    }

    /// Cuts the power of all servers, and starts them again.
    fn cut(&mut self, ensemble: &mut Ensemble, random: &mut Random) -> Result<()> {
        let how = *random.pick(&[Cut::Running, Cut::Frozen]);
        let all: Vec<usize> = (0..ensemble.members().len()).collect();
        ensemble.cut_power(&all, how)?;
        self.cuts += 1;
        let start = Instant::now();
        all.iter().try_for_each(|index| ensemble.member(*index).spawn())?;
        ensemble
            .wait_for_all()
            .with_context(|| format!("cut {} of this run, {how:?}", self.cuts))?;
        self.longest = self.longest.max(start.elapsed());
        Ok(())
    }
}

fn nothing_is_lost(medium: Medium, members: usize) {
    let mut random = Random::new(u64::from(MEBIBYTES) + members as u64);
    let mut series = Series::default();
    let name = medium.name();
    while series.cuts < cuts() {
        match series.run(medium, members, &mut random) {
            Ok(true) => {}
            Ok(false) => return say(&format!("skipped: no {name} can be mounted on this machine")),
            Err(error) => panic!("{name}, {members} servers: {error:?}"),
        }
    }
    let Series { cuts, young, oldest, longest, figures } = series;
    println!(
        "{name}, {members} servers: {cuts} power cuts, {young} of them before the first write, the latest after {oldest:.1?} of writes, all served again within {longest:.1?}: {figures}"
    );
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_server_on_ext4_keeps_what_it_acknowledged() {
    nothing_is_lost(Medium::Ext4, 1);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_server_on_xfs_keeps_what_it_acknowledged() {
    nothing_is_lost(Medium::Xfs, 1);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_on_ext4_whose_power_fails_at_once_keep_what_they_acknowledged() {
    nothing_is_lost(Medium::Ext4, 3);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_on_xfs_whose_power_fails_at_once_keep_what_they_acknowledged() {
    nothing_is_lost(Medium::Xfs, 3);
}

/// The number of acknowledged znodes that a server without syncs has after a cut, and the number of
/// all.
fn without_sync(medium: Medium) -> Result<Option<(usize, usize)>> {
    // A snapshot would start a new log, after which the old one is durable.
    let options = on(medium).config("forceSync", "no").property("zookeeper.snapCount", 100_000);
    let mut server = Server::prepare(Kind::Zebu, &options, |_| Ok(()))?;
    if !server.has_power() {
        return Ok(None);
    }
    server.launch()?;
    let mut session = Session::open(server.address(), 60_000)?;
    let count = 100;
    for number in 0..count {
        session.create(&format!("/n-{number}"), b"", 0)?;
    }
    server.cut_power()?;
    server.restore_power()?;
    server.launch()?;
    let tree = dump::tree(server.address())?;
    let kept = tree.lines().filter(|line| line.starts_with("/n-")).count();
    Ok(Some((kept, count)))
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_power_cut_takes_what_was_not_made_durable() {
    for medium in [Medium::Ext4, Medium::Xfs] {
        let name = medium.name();
        match without_sync(medium) {
            Ok(Some((kept, count))) => assert!(kept < count, "{name}: {kept} of {count} are left"),
            Ok(None) => say(&format!("skipped: no {name} can be mounted on this machine")),
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
}
