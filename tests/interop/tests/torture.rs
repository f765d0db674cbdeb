//! Zebu ensembles of real processes under all faults in [`NEMESES`], while Zebu's clients, kazoo
//! and the original's client work and check the results: `cargo xtask torture --minutes 30`.
//!
//! In each round a new ensemble of three or five members is under faults until each that is
//! possible there has come, and for 45 s. Then everything is checked. The first round has every
//! workload. The seed determines network, disks, workload and faults, but not their timing.
//! With `ZEBU_INTEROP_SUBJECT=java` the ensembles are the original's, which shows how good the
//! checks are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::disk::Medium;
use zebu_interop::ensemble::Ensemble;
use zebu_interop::faults::{Fault, NEMESES, Nemesis, PROGRESS, inflict};
use zebu_interop::load::{Figures, Load, Outsiders, Workload};
use zebu_interop::network::Network;
use zebu_interop::scenario::subject;
use zebu_interop::server::Options;
use zebu_testkit::Random;

/// How long faults continue before the checks, at least.
const ROUND: Duration = Duration::from_secs(45);

fn setting(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// Whether a name is among the given ones. Without any, all are included.
fn is_wanted(variable: &str, name: &str) -> bool {
    let given = std::env::var(variable).unwrap_or_default();
    given.is_empty() || given.split(',').any(|one| one == name)
}

/// The nemeses to choose from, each with the faults that an ensemble of this size tolerates.
fn nemeses(members: usize) -> Vec<(&'static Nemesis, Vec<Fault>)> {
    let wanted = NEMESES.iter().filter(|it| is_wanted("ZEBU_TORTURE_NEMESIS", it.name));
    let faults = |it: &Nemesis| -> Vec<Fault> {
        it.faults.iter().copied().filter(|fault| fault.is_for(members)).collect()
    };
    wanted.map(|it| (it, faults(it))).filter(|(_, faults)| !faults.is_empty()).collect()
}

/// The selected workloads.
fn wanted() -> Vec<Workload> {
    let is_one = |it: &Workload| is_wanted("ZEBU_TORTURE_WORKLOAD", it.name());
    Workload::ALL.into_iter().filter(is_one).collect()
}

/// The statistics of a nemesis.
#[derive(Debug, Default)]
struct Record {
    /// The number of its faults during each workload.
    times: BTreeMap<Workload, usize>,
    /// The times from each fault until the ensemble had recovered.
    took: Vec<Duration>,
}

type Records = BTreeMap<&'static str, Record>;

#[derive(Debug)]
struct Round {
    seed: u64,
    /// All selected ones together, or one of them.
    workloads: Vec<Workload>,
    members: usize,
    /// A router drops packets; otherwise proxies make bad weather.
    is_routed: bool,
    disks: Medium,
}

impl Round {
    /// In a dozen rounds, each workload meets everything that a nemesis needs. The first round has
    /// all workloads, and what most nemeses need.
    fn new(seed: u64) -> Self {
        let wanted = wanted();
        let number = usize::try_from(seed.saturating_sub(1)).unwrap_or_default();
        let (cycle, turn) = (number / (wanted.len() + 1), number % (wanted.len() + 1));
        let is_routed = (cycle + number).is_multiple_of(2);
        let is_large = is_routed == (cycle / 2).is_multiple_of(2);
        Self {
            seed,
            workloads: match turn.checked_sub(1) {
                Some(one) => vec![wanted[one]],
                None => wanted,
            },
            members: if is_large { 5 } else { 3 },
            is_routed,
            disks: [Medium::Ext4, Medium::Memory, Medium::Xfs][(cycle + number) % 3],
        }
    }

    fn network(&self) -> Result<Network> {
        if self.is_routed {
            Network::with_cuts(self.members)
        } else {
            Network::with_proxies(self.members)
        }
    }

    fn run(&self, records: &mut Records) -> Result<Figures> {
        let Self { seed, members, workloads, disks, .. } = self;
        let mut random = Random::new(*seed);
        let choice = nemeses(*members);
        ensure!(!choice.is_empty() && !workloads.is_empty(), "no such nemesis or workload");
        let kinds = vec![subject(); *members];
        // XFS makes none that is smaller.
        let mebibytes = if *disks == Medium::Xfs { 320 } else { 96 };
        let small = |options: Options| options.disk(*disks, mebibytes);
        let ensemble = Ensemble::prepare_for_all(self.network()?, &kinds, &small)?;
        let mut ensemble = ensemble.started()?;
        let addresses = ensemble.addresses();
        let load = Load::start_some(&addresses, &addresses, workloads, random.next())?;
        let mut outsiders = Outsiders::start(&addresses)?;
        load.wait_for(PROGRESS)?;
        let mut seen = Vec::new();
        let mut deck: Vec<_> = choice.iter().collect();
        let start = Instant::now();
        // Each nemesis occurs once before any of them occurs again.
        while start.elapsed() < ROUND || !deck.is_empty() {
            if deck.is_empty() {
                deck = choice.iter().collect();
            }
            let (nemesis, faults) = deck.swap_remove(random.index(deck.len()));
            let fault = *random.pick(faults);
            let began = Instant::now();
            seen.push(fault);
            let result = inflict(&mut ensemble, &load, fault).and_then(|is_done| {
                outsiders.go_on()?;
                Ok(is_done)
            });
            match result {
                Ok(true) => {
                    let record = records.entry(nemesis.name).or_default();
                    record.took.push(began.elapsed());
                    for workload in workloads {
                        *record.times.entry(*workload).or_default() += 1;
                    }
                }
                Ok(false) => drop(seen.pop()),
                Err(error) => {
                    // The client's own error says more than the fact that it gave up.
                    load.finish().with_context(|| format!("{seen:?}: {error:#}"))?;
                    return Err(error.context(format!("{seen:?}")));
                }
            }
        }
        let check = || -> Result<Figures> {
            let told = load.finish();
            let created = outsiders.finish();
            // A wrong answer to a client is the most important finding.
            let mut told = told?;
            told.created.extend(created?);
            let figures = told.check(&ensemble.same_tree()?)?;
            ensemble.no_mismatches()?;
            let digests = ensemble.agreed_digests()?;
            ensure!(digests > 0, "no digests to compare");
            Ok(Figures { digests, ..figures })
        };
        check().with_context(|| format!("{seen:?}"))
    }
}

/// A table for documents: how often each nemesis occurred during each workload, and for how long.
fn print_table(records: &mut Records) {
    let names: Vec<&str> = Workload::ALL.map(Workload::name).to_vec();
    println!("\n| nemesis | what happens | {} | median | longest |", names.join(" | "));
    println!("|---|---|{}---|---|", "---|".repeat(names.len()));
    for Nemesis { name, what, .. } in &NEMESES {
        let Some(Record { times, took }) = records.get_mut(name) else {
            println!("| `{name}` | {what} |{} – | – |", " 0 |".repeat(names.len()));
            continue;
        };
        took.sort_unstable();
        let count = |workload: &Workload| times.get(workload).copied().unwrap_or_default();
        let counts: Vec<String> =
            Workload::ALL.iter().map(|workload| count(workload).to_string()).collect();
        let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
        println!(
            "| `{name}` | {what} | {} | {:.1} s | {:.1} s |",
            counts.join(" | "),
            median.as_secs_f64(),
            longest.as_secs_f64()
        );
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ensembles_outlive_everything_that_happens_to_them() {
    // Without a number of minutes there is one round.
    let minutes = setting("ZEBU_TORTURE_MINUTES", 0);
    let first = setting("ZEBU_TORTURE_SEED", 1);
    let (mut records, mut figures) = (Records::new(), Figures::default());
    let start = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || start.elapsed() < Duration::from_secs(60 * minutes) {
        let round = Round::new(first + rounds);
        let what = {
            let names: Vec<&str> = round.workloads.iter().map(|it| it.name()).collect();
            let network = if round.is_routed { "router" } else { "proxies" };
            let Round { seed, members, disks, .. } = &round;
            format!(
                "seed {seed}, {members} members, {network}, {}, {}",
                disks.name(),
                names.join("+")
            )
        };
        match round.run(&mut records) {
            Ok(more) => {
                println!("{what}: {more}");
                figures += more;
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
        rounds += 1;
    }
    let count: usize = records.values().map(|record| record.took.len()).sum();
    println!("\n{rounds} rounds in {:.0?}, {count} faults: {figures}", start.elapsed());
    print_table(&mut records);
    let wanted = wanted();
    let met_all = |it: &&Record| wanted.iter().all(|workload| it.times.contains_key(workload));
    let met_all = records.values().filter(met_all).count();
    println!("{met_all} nemeses came while each of the {} workloads ran", wanted.len());
}

#[test]
fn names_of_nemeses_are_unique_and_every_fault_has_one() {
    let names: std::collections::BTreeSet<&str> = NEMESES.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), NEMESES.len());
    assert!(NEMESES.iter().all(|it| !it.faults.is_empty()));
}

#[test]
fn in_a_dozen_rounds_each_workload_meets_every_network_and_disks_that_lose_power() {
    let rounds: Vec<Round> = (1..=12).map(Round::new).collect();
    let meets = |workload: Workload, what: fn(&Round) -> bool| {
        rounds.iter().any(|round| round.workloads == [workload] && what(round))
    };
    for workload in Workload::ALL {
        assert!(meets(workload, |round| !round.is_routed), "{workload:?}");
        assert!(meets(workload, |round| round.is_routed && round.members == 5), "{workload:?}");
        assert!(meets(workload, |round| round.disks != Medium::Memory), "{workload:?}");
    }
    let first = &rounds[0];
    assert_eq!(first.workloads, Workload::ALL);
    assert!(first.is_routed && first.members == 5 && first.disks == Medium::Ext4);
}
