//! Runs the test suites of Java programs against Zebu, class by class: `cargo xtask suites`.
//!
//! Failed tests run a second time alone, because many of them have short deadlines. They also run
//! against the original. With `ZEBU_INTEROP_SUBJECT=java` all tests run against the original.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use zebu_interop::scenario::subject;
use zebu_interop::server::Kind;
use zebu_interop::suite::{Outcome, Outcomes, Suite};

/// The command line.
struct Wanted {
    suites: Vec<&'static str>,
    /// A class or a test to run instead of all.
    only: Option<String>,
    /// Number of repetitions.
    times: usize,
}

impl Wanted {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut wanted = Self { suites: Vec::new(), only: None, times: 1 };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} wants a value"));
            match word.as_str() {
                "--only" => wanted.only = Some(value()?),
                "--times" => wanted.times = value()?.parse()?,
                name => match Suite::NAMES.iter().find(|known| **known == name) {
                    Some(known) => wanted.suites.push(known),
                    None => bail!("no such suite: {name}\nsuites: {}", Suite::NAMES.join(" ")),
                },
            }
        }
        if wanted.suites.is_empty() {
            wanted.suites = Suite::NAMES.into();
        }
        Ok(wanted)
    }
}

fn failed(outcomes: &Outcomes) -> Vec<(String, String)> {
    let text = |(name, outcome): (&String, &Outcome)| match outcome {
        Outcome::Failed(text) => Some((name.clone(), text.clone())),
        _ => None,
    };
    outcomes.iter().filter_map(text).collect()
}

/// Runs one class or one test. Returns the number of passed tests, and the failures.
fn one(suite: &Suite, word: &str) -> Result<(usize, Vec<String>)> {
    let start = Instant::now();
    let outcomes = suite.run(subject(), &[word])?;
    let passed = outcomes.values().filter(|outcome| **outcome == Outcome::Passed).count();
    let mut skipped: Vec<&str> = Vec::new();
    for (name, outcome) in &outcomes {
        if *outcome == Outcome::Skipped {
            skipped.push(name);
        }
    }
    let failed = failed(&outcomes);
    println!("{word}: {passed} passed, {} failed, {:.0?}", failed.len(), start.elapsed());
    if !skipped.is_empty() {
        println!("  left themselves out: {}", skipped.join(" "));
    }
    let mut faults = Vec::new();
    for (name, text) in failed {
        // A single method may be several tests, so it is run again with the others.
        let method = name.split('[').next().expect("there is a first part");
        let again = |kind| -> Result<String> {
            let outcomes = suite.run(kind, &[method])?;
            Ok(match outcomes.get(&name) {
                Some(Outcome::Failed(text)) => format!("fails: {text}"),
                Some(Outcome::Passed) => "passes".to_owned(),
                other => format!("{other:?}"),
            })
        };
        let second = again(subject())?;
        let original = again(Kind::Java395)?;
        println!("  {name}\n    failed: {text}\n    alone it {second}\n    original: {original}");
        if second != "passes" {
            faults.push(format!("{name}: {second} (the original {original})"));
        }
    }
    Ok((passed, faults))
}

fn run() -> Result<bool> {
    let wanted = Wanted::parse(std::env::args().skip(1))?;
    let mut faults = Vec::new();
    for name in wanted.suites {
        let suite = Suite::prepare(name)?;
        let mut passed = 0;
        for _ in 0..wanted.times {
            let words: Vec<&str> = match &wanted.only {
                Some(only) => vec![only],
                None => suite.list().classes.iter().map(String::as_str).collect(),
            };
            for word in words {
                match one(&suite, word) {
                    Ok((count, found)) => {
                        passed += count;
                        faults.extend(found);
                    }
                    // The remaining classes run nevertheless.
                    Err(error) => {
                        println!("{word}: {error:#}");
                        faults.push(format!("{word}: it did not come to its end"));
                    }
                }
            }
        }
        let excluded = suite.list().excluded.len();
        println!("{name}: {passed} tests passed; {excluded} are left out by name");
    }
    for fault in &faults {
        println!("FAILED {fault}");
    }
    Ok(faults.is_empty())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
