//! Developer tasks: `cargo xtask <task>`.

mod book;
mod capi;
mod chart;
mod deps;
mod dist;
mod report;
mod steps;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <task>

  test           all checks and all tests; installs the third-party programs they need
  ci             the same
  deps           only installs the third-party programs
  tidy           only the checks of layers, files, words, links and ids
  dist [--only tar,deb,image,bill] [--out DIR] [--program FILE] [--version V]
                 what a release hands out, in target/dist: a tar archive, a Debian package, a container
                 image and a bill of materials
  chart [--write]
                 renders the Helm chart and holds it against Kubernetes' schemas; builds helm for that, which takes
                 minutes; --write also writes the plain manifests
  capi [--debug] [--into DIR] [--prefix DIR]
                 builds libzookeeper_mt and libzookeeper_st, the C client's ABI, and lays them out below DIR (target/capi)
                 with headers and pkg-config files; --prefix is where those will be installed
  book           builds the book of docs/SUMMARY.md with mdBook
  counted [--steps]
                 what a request costs in instructions, allocations and system calls, against its limits;
                 --steps also where: by crate, by function, and the atomic instructions
  bench-report FILE...
                 tables and plots of docs/performance.md and the README, from what zebu bench compare --json wrote
  interop [...]  only the interop tests; further words go to the test runner
  suites [curator] [kafka] [zookeeper] [--only CLASS[#METHOD]] [--times N]
                 the test-suites of Curator, of Kafka's ZooKeeper client and of ZooKeeper itself; installs them, takes
                 about an hour
  diff [--ops N] [--seed S]
                 the differential test against the original, as long as you like
  faults [--minutes M] [--seed S] [--only FAULT,...]
                 ensembles of real processes, and what goes wrong with them, as long as you like
  sim [--seeds N | --minutes M] [--first S]
                 simulated ensembles; what fails is printed with its seed, as small as it gets
  mutants [--seeds N] [--first S]
                 shows which faults put in on purpose the simulation finds, within so many seeds";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<()> {
    let (task, rest) = words.split_first().map_or(("help", words), |(t, rest)| (t.as_str(), rest));
    match task {
        "test" | "ci" => steps::test(),
        "deps" => deps::install(),
        "tidy" => tidy::check(),
        "capi" => capi::install(rest),
        "book" => book::build(),
        "chart" => chart::check(rest),
        "dist" => dist::make(rest),
        "counted" => steps::counted(rest),
        "bench-report" => report::write(&steps::root(), rest),
        "interop" => steps::interop(rest),
        "suites" => steps::suites(rest),
        "diff" => steps::diff(rest),
        "faults" => steps::faults(rest),
        "sim" => steps::sim(rest),
        "mutants" => steps::mutants(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("no such task: {other}\n{USAGE}"),
    }
}
