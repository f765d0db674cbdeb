//! The simulator's command line: `zebu-sim [--first S] [--seeds N | --minutes M] [--trace]`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use zebu_sim::World;
use zebu_sim::aims::{AIMS, Aim};
use zebu_sim::plan::Plan;
use zebu_sim::run::{Total, run};
use zebu_sim::shrink::shrink;

const USAGE: &str = "\
usage: zebu-sim [options]

  --first S     the first seed, 0 unless given
  --seeds N     how many seeds, 100 unless given, with --mutants 256
  --minutes M   as many seeds as take so long
  --aim NAME    only plans that are aimed at this, as in `aims.rs`
  --alone       one server that runs alone, its connections byte by byte
  --calm        three servers and nothing goes wrong, for speed
  --flips       bytes change on their way between servers
  --model       only what the model of the protocol refuses is a failure
  --trees       trees become other ones in the memory of members
  --twice       runs every seed twice and compares
  --shrink N    tries so many smaller plans for the first failure, 200 unless given
  --trace       tells what happens in the first seed
  --mutants     with the feature `mutants`: shows that each is found within so many seeds
  --mutant NAME with the feature `mutants`: runs with this one; with --mutants, looks for this one only";

/// How many seeds are run unless given.
const SEEDS: u64 = 100;
/// How many seeds a mutant gets unless given: each aim comes once in thirty-two.
const MUTANT_SEEDS: u64 = 512;

struct Options {
    first: u64,
    seeds: Option<u64>,
    minutes: Option<u64>,
    alone: bool,
    calm: bool,
    flips: bool,
    model: bool,
    trees: bool,
    twice: bool,
    shrink: usize,
    trace: bool,
    mutants: bool,
    mutant: Option<String>,
    aim: Option<Aim>,
}

fn options() -> Result<Options> {
    let mut options = Options {
        first: 0,
        seeds: None,
        minutes: None,
        alone: false,
        calm: false,
        flips: false,
        model: false,
        trees: false,
        twice: false,
        shrink: 200,
        trace: false,
        mutants: false,
        mutant: None,
        aim: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--mutant" {
            options.mutant = Some(words.next().context("--mutant wants a name")?);
            continue;
        }
        if word == "--aim" {
            let name = words.next().context("--aim wants a name")?;
            let aim = AIMS.iter().find(|aim| format!("{aim:?}") == name);
            options.aim = Some(*aim.with_context(|| format!("there is no aim called {name}"))?);
            continue;
        }
        let mut number = || -> Result<u64> {
            let value = words.next().with_context(|| format!("{word} wants a number"))?;
            value.parse().with_context(|| format!("{word} {value}"))
        };
        match word.as_str() {
            "--first" => options.first = number()?,
            "--seeds" => options.seeds = Some(number()?),
            "--minutes" => options.minutes = Some(number()?),
            "--shrink" => options.shrink = number()? as usize,
            "--alone" => options.alone = true,
            "--calm" => options.calm = true,
            "--flips" => options.flips = true,
            "--model" => options.model = true,
            "--trees" => options.trees = true,
            "--twice" => options.twice = true,
            "--trace" => options.trace = true,
            "--mutants" => options.mutants = true,
            _ => bail!("no such option: {word}\n{USAGE}"),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match simulate() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn simulate() -> Result<bool> {
    let options = options()?;
    if options.mutants {
        let only = options.mutant.as_deref();
        let seeds = options.seeds.unwrap_or(MUTANT_SEEDS);
        return mutants(only, options.model, options.first, seeds);
    }
    if let Some(name) = &options.mutant {
        choose(name)?;
    }
    if options.alone {
        return Ok(alone(options.first, options.seeds.unwrap_or(SEEDS)));
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
        return Ok(outcome.broken.is_empty());
    }
    // Panics are reported with their seeds.
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
            return Ok(false);
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
    Ok(total.broken.is_empty())
}

/// Runs a server alone with so many seeds; true when nothing is found.
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
fn mutants(_only: Option<&str>, _model: bool, _first: u64, _seeds: u64) -> Result<bool> {
    bail!("this simulator was built without the feature `mutants`")
}

#[cfg(not(feature = "mutants"))]
fn choose(_name: &str) -> Result<()> {
    bail!("this simulator was built without the feature `mutants`")
}

#[cfg(feature = "mutants")]
fn choose(name: &str) -> Result<()> {
    let all = zebu_sim::mutants::MUTANTS;
    let mutant = all.iter().find(|mutant| mutant.name == name);
    let mutant = mutant.with_context(|| format!("there is no mutant called {name}"))?;
    zebu_proto::mutants::choose(mutant.name);
    Ok(())
}

/// Runs every mutant, or only this one, until it is found, with so many seeds at most; true when all are.
#[cfg(feature = "mutants")]
fn mutants(only: Option<&str>, model: bool, first: u64, seeds: u64) -> Result<bool> {
    if let Some(name) = only {
        choose(name)?;
    }
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
    Ok(missed == 0)
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
