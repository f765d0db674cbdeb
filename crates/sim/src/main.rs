//! The simulator's command line; `zebu-sim --help` lists its options.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use zebu_sim::World;
use zebu_sim::aims::{AIMS, Aim};
use zebu_sim::plan::Plan;
use zebu_sim::run::{Total, run};
use zebu_sim::shrink::shrink;

/// The number of seeds, unless an option gives it.
const SEEDS: u64 = 100;
/// The number of seeds for each mutant, unless an option gives it. Each aim occurs once in
/// thirty-two.
const MUTANT_SEEDS: u64 = 512;

/// Runs whole ensembles in one thread, each decided by its seed.
#[derive(Debug, Parser)]
#[command(
    name = "zebu-sim",
    after_help = "Exit codes: 0 nothing found, 1 something found, 2 wrong options."
)]
struct Options {
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    first: u64,

    /// How many seeds, 100 unless given, with --mutants 512
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

    /// As many seeds as take so long
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,

    /// Only plans that are aimed at this, as in `aims.rs`
    #[arg(long, value_name = "NAME", value_parser = parse_aim)]
    aim: Option<Aim>,

    /// One server that runs alone, its connections byte by byte
    #[arg(long)]
    alone: bool,

    /// Three servers and nothing goes wrong, for speed
    #[arg(long)]
    calm: bool,

    /// Bytes change on their way between servers
    #[arg(long)]
    flips: bool,

    /// Only what the model of the protocol refuses is a failure
    #[arg(long)]
    model: bool,

    /// Trees become other ones in the memory of members
    #[arg(long)]
    trees: bool,

    /// Runs every seed twice and compares
    #[arg(long)]
    twice: bool,

    /// Tries so many smaller plans for the first failure
    #[arg(long, value_name = "N", default_value_t = 200)]
    shrink: usize,

    /// Tells what happens in the first seed
    #[arg(long)]
    trace: bool,

    /// With the feature `mutants`: shows that each is found within so many seeds
    #[arg(long)]
    mutants: bool,

    /// With --mutants: lists all checks that find each mutant, not only the first one
    #[arg(long, requires = "mutants")]
    checks: bool,

    /// With the feature `mutants`: runs with this one; with --mutants, looks for this one only
    #[arg(long, value_name = "NAME", value_parser = parse_mutant)]
    mutant: Option<&'static str>,
}

fn parse_aim(name: &str) -> Result<Aim, String> {
    let aim = AIMS.into_iter().find(|aim| format!("{aim:?}") == name);
    aim.ok_or_else(|| format!("there is no aim called {name}"))
}

#[cfg(feature = "mutants")]
fn parse_mutant(name: &str) -> Result<&'static str, String> {
    let mutant = zebu_sim::mutants::MUTANTS.iter().find(|mutant| mutant.name == name);
    mutant.map(|mutant| mutant.name).ok_or_else(|| format!("there is no mutant called {name}"))
}

#[cfg(not(feature = "mutants"))]
fn parse_mutant(_: &str) -> Result<&'static str, String> {
    Err(WITHOUT_MUTANTS.to_owned())
}

/// The error for `--mutant` in a simulator that was built without mutants.
#[cfg(not(feature = "mutants"))]
const WITHOUT_MUTANTS: &str = "this simulator was built without the feature `mutants`";

fn main() -> ExitCode {
    if simulate(&Options::parse()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the seeds. Returns true if no run fails.
fn simulate(options: &Options) -> bool {
    if options.mutants {
        let seeds = options.seeds.unwrap_or(MUTANT_SEEDS);
        #[cfg(feature = "mutants")]
        if options.checks {
            std::panic::set_hook(Box::new(|_| {}));
            return zebu_sim::found_by::print_table(options.mutant, options.first, seeds);
        }
        return mutants(options.mutant, options.model, options.first, seeds);
    }
    #[cfg(feature = "mutants")]
    if let Some(name) = options.mutant {
        zebu_proto::mutants::choose(name);
    }
    if options.alone {
        return alone(options.first, options.seeds.unwrap_or(SEEDS));
    }
    let plan = |seed| {
        let plan = match options.aim {
            _ if options.flips => Plan::flipped(seed),
            _ if options.trees => Plan::diverged(seed),
            _ if options.calm => Plan { length: Duration::from_secs(600), ..Plan::calm(seed) },
            Some(aim) => Plan::aimed(aim, seed),
            None => Plan::new(seed),
        };
        Plan { only_model: options.model, ..plan }
    };
    if options.trace {
        let plan = plan(options.first);
        plan.faults.iter().for_each(|fault| println!("{fault}"));
        let outcome = World::new(plan).narrate().run();
        println!("{outcome:#?}");
        return outcome.broken.is_empty();
    }
    // The simulator reports panics with their seeds.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let limit = options.minutes.map(|minutes| Duration::from_secs(minutes * 60));
    let mut total = Total::default();
    for seed in options.first.. {
        let over = match limit {
            Some(limit) => start.elapsed() >= limit,
            None => seed - options.first >= options.seeds.unwrap_or(SEEDS),
        };
        if over {
            break;
        }
        let plan = plan(seed);
        let outcome = run(&plan);
        if options.twice && run(&plan).trace != outcome.trace {
            println!("seed {seed} does not do the same twice");
            return false;
        }
        total.add(seed, &outcome);
        if let Some(what) = outcome.broken.first() {
            println!("seed {seed}: {what}");
        }
    }
    report(&total, start.elapsed());
    if let Some((seed, what)) = total.broken.first() {
        let (smaller, what) = shrink(&plan(*seed), what, options.shrink);
        println!("\nseed {seed} at commit {}, as small as it got:", commit());
        println!("{what}");
        let zebu_sim::plan::Plan { voters, observers, clients, length, .. } = smaller;
        println!("{voters} voters, {observers} observers, {clients} clients, {length:?}");
        smaller.faults.iter().for_each(|fault| println!("{fault}"));
    }
    total.broken.is_empty()
}

/// Runs a server alone with each seed. Returns true if no run fails.
fn alone(first: u64, seeds: u64) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let (mut failed, mut all) = (0, zebu_sim::alone::Outcome::default());
    for seed in first..first + seeds {
        let outcome = zebu_sim::alone::run_caught(seed);
        for what in &outcome.broken {
            println!("seed {seed}: {what}");
            failed += 1;
        }
        all.answered += outcome.answered;
        all.crashes += outcome.crashes;
        all.synced_itself += outcome.synced_itself;
        all.worker_turns += outcome.worker_turns;
    }
    println!(
        "{seeds} runs, {failed} failed; {} answers, {} crashes, {} turns that synced, {} turns of the worker in {:.1} s",
        all.answered,
        all.crashes,
        all.synced_itself,
        all.worker_turns,
        start.elapsed().as_secs_f64()
    );
    failed == 0
}

#[cfg(not(feature = "mutants"))]
fn mutants(_only: Option<&str>, _model: bool, _first: u64, _seeds: u64) -> bool {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    Options::command().error(ErrorKind::InvalidValue, WITHOUT_MUTANTS).exit()
}

/// Runs every mutant, or one, with up to `seeds` seeds. Returns true if every mutant is found.
#[cfg(feature = "mutants")]
fn mutants(only: Option<&str>, model: bool, first: u64, seeds: u64) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    let (mut all, mut missed, mut tested) = (0, 0, 0);
    println!("{:<36} {:<11} {:>5}  found as", "mutant", "example of", "seeds");
    for mutant in zebu_sim::mutants::MUTANTS {
        if only.is_some_and(|name| name != mutant.name) {
            continue;
        }
        if let Some(test) = mutant.test {
            println!("{:<36} {:<11} {:>5}  by the test {test}", mutant.name, mutant.source, "-");
            tested += 1;
            continue;
        }
        all += 1;
        zebu_proto::mutants::choose(mutant.name);
        let found = (0..seeds).find_map(|number| {
            let seed = first + number;
            let broken = if mutant.alone {
                zebu_sim::alone::run_caught(seed).broken
            } else {
                run(&Plan { only_model: model, ..mutant.plan(seed) }).broken
            };
            broken.first().map(|what| (number + 1, what.clone()))
        });
        let (count, what) = match found {
            Some((count, what)) => (count.to_string(), what),
            None => {
                missed += 1;
                ("-".to_owned(), format!("NOT FOUND in {seeds} seeds"))
            }
        };
        let line = what.lines().next().unwrap_or_default();
        let line: String = line.chars().take(110).collect();
        println!("{:<36} {:<11} {count:>5}  {line}", mutant.name, mutant.source);
    }
    zebu_proto::mutants::choose("");
    println!("{} of {all} found, {tested} more left to the tests that are named", all - missed);
    missed == 0
}

fn commit() -> String {
    let output = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn report(total: &Total, took: Duration) {
    let simulated = total.simulated.as_secs_f64();
    println!(
        "{} runs, {} failed; {:.1} hours simulated in {:.1} s, {:.0} times as fast as real",
        total.runs,
        total.broken.len(),
        simulated / 3600.0,
        took.as_secs_f64(),
        simulated / took.as_secs_f64()
    );
    println!(
        "{} transactions, {} answers, {} notifications, {} leaders",
        total.committed, total.answered, total.notified, total.leaders
    );
    for (class, count) in &total.faults {
        println!("  {count:>8}  {class}");
    }
    for (what, count) in &total.reached {
        println!("  {count:>8}  reached: {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_those_that_the_pages_show() {
        let read = |line: &str| Options::try_parse_from(line.split(' '));
        let options = read("zebu-sim --first 7 --minutes 30 --aim LoneLeader --twice").unwrap();
        assert_eq!((options.first, options.minutes, options.shrink), (7, Some(30), 200));
        assert_eq!(
            (options.aim, options.twice, options.calm),
            (Some(Aim::LoneLeader), true, false)
        );
        let wrong = |line| read(line).unwrap_err().to_string();
        assert!(wrong("zebu-sim --aim Nothing").contains("there is no aim called Nothing"));
        assert!(wrong("zebu-sim --seeds many").contains("many"));
        let page = include_str!("../../../docs/simulation.md");
        let lines = page.lines().filter_map(|line| line.strip_prefix("cargo xtask sim --"));
        let mut shown = 0;
        for line in lines {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.ends_with("--help") {
                read(&format!("zebu-sim --{line}")).unwrap();
                shown += 1;
            }
        }
        assert!(shown > 4);
    }
}
