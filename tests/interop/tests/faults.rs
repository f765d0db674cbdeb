//! Random faults in Zebu ensembles with clients of kazoo and the original, for as long as
//! requested: `cargo xtask faults --minutes 30`.
//!
//! In each round a new ensemble of three or five members has faults for a minute. Then everything
//! is checked. The seed determines the faults, but not their timing. With
//! `ZEBU_INTEROP_SUBJECT=java` the ensembles are the original's, which shows how good the checks
//! are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::ensemble::{Ensemble, options_with_cuts};
use zebu_interop::faults::{Fault, PROGRESS, all, inflict};
use zebu_interop::load::{Figures, Load, Outsiders};
use zebu_interop::network::Network;
use zebu_interop::random::Random;
use zebu_interop::scenario::subject;

/// How long faults continue before the checks.
const ROUND: Duration = Duration::from_secs(60);

/// Number of each fault, and the time until the ensemble had recovered.
type Times = BTreeMap<String, Vec<Duration>>;

fn setting(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// The faults to choose from: all of them, or the named ones.
fn choice(members: usize) -> Vec<Fault> {
    let only = std::env::var("ZEBU_FAULTS_ONLY").unwrap_or_default();
    let named =
        |fault: &Fault| only.is_empty() || only.split(',').any(|name| name == format!("{fault:?}"));
    all(members).into_iter().filter(named).collect()
}

fn round(members: usize, random: &mut Random, times: &mut Times) -> Result<Figures> {
    let faults = choice(members);
    ensure!(!faults.is_empty(), "no such fault");
    let network = Network::with_cuts(members)?;
    let kinds = vec![subject(); members];
    let options = options_with_cuts().small_disk(96);
    let mut ensemble = Ensemble::prepare_on(network, &kinds, 0, &options)?.started()?;
    let addresses = ensemble.addresses();
    let load = Load::start_with(&addresses, random.next())?;
    let mut outsiders = Outsiders::start(&addresses)?;
    load.wait_for(PROGRESS)?;
    let mut seen = Vec::new();
    let start = Instant::now();
    while start.elapsed() < ROUND {
        let fault = *random.pick(&faults);
        let began = Instant::now();
        seen.push(fault);
        let result = inflict(&mut ensemble, &load, fault).and_then(|is_done| {
            outsiders.go_on()?;
            Ok(is_done)
        });
        match result {
            Ok(true) => times.entry(format!("{fault:?}")).or_default().push(began.elapsed()),
            Ok(false) => {}
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

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_outlive_faults_drawn_from_a_seed() {
    let minutes = setting("ZEBU_FAULTS_MINUTES", 1);
    let first = setting("ZEBU_FAULTS_SEED", 1);
    let (mut times, mut figures) = (Times::new(), Figures::default());
    let start = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || start.elapsed() < Duration::from_secs(60 * minutes) {
        let seed = first + rounds;
        let members = if seed.is_multiple_of(2) { 5 } else { 3 };
        match round(members, &mut Random::new(seed), &mut times) {
            Ok(more) => {
                println!("seed {seed}, {members} members: {more}");
                figures += more;
            }
            Err(error) => panic!("seed {seed}, {members} members: {error:?}"),
        }
        rounds += 1;
    }
    println!("\n{rounds} rounds in {:.0?}: {figures}", start.elapsed());
    println!("\n{:<24} {:>5} {:>9} {:>9}", "fault", "times", "median", "longest");
    for (fault, times) in &mut times {
        times.sort_unstable();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{fault:<24} {:>5} {median:>9.2?} {longest:>9.2?}", times.len());
    }
    let count: usize = times.values().map(Vec::len).sum();
    println!("{count} faults");
}
