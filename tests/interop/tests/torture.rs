//! Zebu ensembles of real processes under all faults in [`NEMESES`], while Zebu's clients, kazoo
//! and the original's client work and check the results: `cargo xtask torture --minutes 30`.
//!
//! In each round a new ensemble of three or five members is under faults for 45 s. Then
//! everything is checked. The seed determines network, workload and faults, but not their timing.
//! With `ZEBU_INTEROP_SUBJECT=java` the ensembles are the original's, which shows how good the
//! checks are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::ensemble::Ensemble;
use zebu_interop::faults::{Fault, NEMESES, Nemesis, PROGRESS, inflict};
use zebu_interop::load::{Figures, Load, Outsiders, Workload};
use zebu_interop::network::Network;
use zebu_interop::scenario::subject;
use zebu_interop::server::Options;
use zebu_testkit::Random;

/// How long faults continue before the checks.
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

/// The workloads of a round: all selected ones together, or one of them.
fn workloads(seed: u64) -> Vec<Workload> {
    let wanted =
        Workload::ALL.into_iter().filter(|it| is_wanted("ZEBU_TORTURE_WORKLOAD", it.name()));
    let wanted: Vec<Workload> = wanted.collect();
    let turn = usize::try_from(seed).unwrap_or_default() % (wanted.len() + 1);
    // The first seed runs all of them.
    if turn == 1 || wanted.len() < 2 { wanted } else { vec![wanted[turn.max(1) - 1]] }
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

struct Round {
    seed: u64,
    members: usize,
    workloads: Vec<Workload>,
}

impl Round {
    fn new(seed: u64) -> Self {
        let members = if seed.is_multiple_of(2) { 5 } else { 3 };
        Self { seed, members, workloads: workloads(seed) }
    }

    /// Alternates between a router that drops packets and proxies that make bad weather.
    fn network(&self) -> Result<Network> {
        if self.seed % 4 < 2 {
            Network::with_cuts(self.members)
        } else {
            Network::with_proxies(self.members)
        }
    }

    fn run(&self, records: &mut Records) -> Result<Figures> {
        let Self { seed, members, workloads } = self;
        let mut random = Random::new(*seed);
        let choice = nemeses(*members);
        ensure!(!choice.is_empty() && !workloads.is_empty(), "no such nemesis or workload");
        let kinds = vec![subject(); *members];
        let small = |options: Options| options.small_disk(96);
        let ensemble = Ensemble::prepare_for_all(self.network()?, &kinds, &small)?;
        let mut ensemble = ensemble.started()?;
        let addresses = ensemble.addresses();
        let load = Load::start_some(&addresses, &addresses, workloads, random.next())?;
        let mut outsiders = Outsiders::start(&addresses)?;
        load.wait_for(PROGRESS)?;
        let mut seen = Vec::new();
        let mut deck = Vec::new();
        let start = Instant::now();
        // Each nemesis occurs once before any of them occurs again.
        while start.elapsed() < ROUND {
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
            format!("seed {}, {} members, {}", round.seed, round.members, names.join("+"))
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
}

#[test]
fn names_of_nemeses_are_unique_and_every_fault_has_one() {
    let names: std::collections::BTreeSet<&str> = NEMESES.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), NEMESES.len());
    assert!(NEMESES.iter().all(|it| !it.faults.is_empty()));
    assert_eq!(workloads(1).len(), Workload::ALL.len());
    let single: std::collections::BTreeSet<Workload> = (2..7).flat_map(workloads).collect();
    assert_eq!(single.len(), Workload::ALL.len());
}
