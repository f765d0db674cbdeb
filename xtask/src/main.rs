//! Developer tasks: `cargo xtask <task>`.

mod book;
mod capi;
mod chart;
mod deps;
mod dist;
mod growth;
#[cfg(test)]
mod halves;
mod report;
mod runner;
mod steps;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

/// Developer tasks of Zebu.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run all checks and all tests.
    ///
    /// The task first installs the third-party programs that the tests need.
    #[command(visible_alias = "ci")]
    Test,
    /// Install the third-party programs that the tests need, and do nothing else.
    Deps,
    /// Check layers, files, words, links and ids.
    Tidy,
    /// Make the files of a release in target/dist.
    ///
    /// The files are a tar archive, a Debian package, a container image and a bill of materials.
    Dist(dist::Options),
    /// Render the Helm chart and check it against the schemas of Kubernetes.
    ///
    /// The task builds helm, which takes minutes.
    Chart {
        /// Also write the plain manifests. Without this option the task compares them.
        #[arg(long)]
        write: bool,
    },
    /// Build libzookeeper_mt and libzookeeper_st, the ABI of the C client.
    Capi(capi::Options),
    /// Build the book of docs/SUMMARY.md with mdBook.
    Book,
    /// Count what a request costs, and compare the counts with their limits.
    ///
    /// The task counts instructions, allocations and system calls of a release build.
    Counted(Further),
    /// Write the tables and plots of docs/performance.md and of the README.
    ///
    /// The task keeps the figures of the files in docs/measured, and writes the pages from all
    /// figures there.
    BenchReport {
        /// Files that `zebu bench compare --json FILE` wrote, for example with
        /// `--suite all --rounds 5`.
        #[arg(value_name = "FILE")]
        files: Vec<String>,
    },
    /// Measure how the figures of one server grow with the size of its work, and draw curves.
    ///
    /// The suites are znodes, neighbours, watches, sessions, log and learners; without one, all of
    /// them. The task writes docs/growth.md and its plots. It builds a release.
    Growth {
        /// The suites.
        #[arg(value_name = "SUITE")]
        suites: Vec<String>,
        /// How often each size is measured.
        #[arg(long, value_name = "N", default_value_t = 1)]
        rounds: usize,
        /// Where the servers keep their data: on the disk to be measured.
        #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
        dir: std::path::PathBuf,
        /// Measure this executable instead of a release that the task builds.
        #[arg(long, value_name = "PATH")]
        zebu: Option<std::path::PathBuf>,
        /// Measure nothing: write the page and the plots of the figures in docs/measured/growth.
        #[arg(long)]
        draw: bool,
    },
    /// Run the interop tests only.
    ///
    /// Further words go to the test runner.
    Interop(Further),
    /// Run the test suites of Curator, of Kafka's ZooKeeper client and of ZooKeeper itself.
    ///
    /// The words are `[curator] [kafka] [zookeeper] [--only CLASS[#METHOD]] [--times N]`.
    /// The task installs the suites. It takes about an hour.
    Suites(Further),
    /// Run applications while the servers below them change from the original to Zebu and back.
    ///
    /// The words are `[kafka] [hbase] [solr]`. The task installs the applications.
    Dependants(Further),
    /// Run random operations against the original and against Zebu, and compare the answers.
    Diff {
        /// Number of operations.
        #[arg(long, value_name = "N")]
        ops: Option<u64>,
        /// Seed of the random numbers.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Run ensembles of real processes while faults happen to them.
    ///
    /// The task prints a table of the faults, by what the clients did and checked.
    Torture {
        /// Minutes that the task runs.
        #[arg(long, value_name = "M")]
        minutes: Option<u64>,
        /// Seed of the random numbers.
        #[arg(long)]
        seed: Option<u64>,
        /// Only these kinds of faults, separated by commas.
        #[arg(long, value_name = "NAME,...")]
        nemesis: Option<String>,
        /// Only what these workloads do and check, separated by commas.
        #[arg(long, value_name = "NAME,...")]
        workload: Option<String>,
    },
    /// Kill servers at their system calls, one call after the other, and start them again.
    CrashPoints {
        /// How many calls are tried of a server alone, and how many of a member.
        #[arg(long, value_name = "N")]
        points: Option<u64>,
    },
    /// Cut the power of the disks of servers, on real file systems, and start the servers again.
    PowerCuts {
        /// How many cuts are tried of each file system, of a server alone and of three members.
        #[arg(long, value_name = "N")]
        cuts: Option<u64>,
        /// How long clients write at most before a cut: 1 to 600 seconds; 4 without this option.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
        age: Option<u64>,
    },
    /// Damage the files of stopped members: of one, and of all at once.
    Damage {
        /// How often each is tried.
        #[arg(long, value_name = "N")]
        times: Option<u64>,
    },
    /// Run simulated ensembles, and print each failure with its seed.
    ///
    /// The words go to zebu-sim, for example [--seeds N | --minutes M] [--first S].
    /// `cargo xtask sim -- --help` lists all of them.
    Sim(Further),
    /// Show which of the faults in our own code the simulation finds.
    ///
    /// The words go to zebu-sim, for example [--seeds N] [--first S].
    Mutants(Further),
}

/// Words for the program that a task starts.
#[derive(Debug, Args)]
struct Further {
    /// Words for the program that the task starts.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    words: Vec<String>,
}

/// Whether there is a task of this name.
pub(crate) fn is_task(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Test => steps::test(),
        Task::Deps => deps::install(),
        Task::Tidy => tidy::check(),
        Task::Dist(options) => dist::make(&options),
        Task::Chart { write } => chart::check(write),
        Task::Capi(options) => capi::install(&options),
        Task::Book => book::build(),
        Task::Counted(further) => steps::counted(&further.words),
        Task::BenchReport { files } => report::write(&steps::root(), &files),
        Task::Growth { suites, rounds, dir, zebu, draw } => {
            growth::run(&suites, &growth::How { rounds, dir, zebu, draw })
        }
        Task::Interop(further) => steps::interop(&further.words),
        Task::Suites(further) => steps::suites(&further.words),
        Task::Dependants(further) => steps::dependants(&further.words),
        Task::Diff { ops, seed } => steps::diff(ops, seed),
        Task::Torture { minutes, seed, nemesis, workload } => {
            steps::torture(minutes, seed, nemesis, workload)
        }
        Task::CrashPoints { points } => steps::crash_points(points),
        Task::PowerCuts { cuts, age } => steps::power_cuts(cuts, age),
        Task::Damage { times } => steps::damage(times),
        Task::Sim(further) => steps::sim(&further.words),
        Task::Mutants(further) => steps::mutants(&further.words),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn task(line: &str) -> Task {
        Cli::try_parse_from(line.split(' ')).unwrap().task
    }

    #[test]
    fn commands_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn words_for_another_program_are_passed_on_as_they_are() {
        let Task::Sim(further) = task("xtask sim --minutes 120 --first 7 --calm") else { panic!() };
        assert_eq!(further.words, ["--minutes", "120", "--first", "7", "--calm"]);
        let Task::Counted(further) = task("xtask counted --steps") else { panic!() };
        assert_eq!(further.words, ["--steps"]);
        let Task::Suites(further) = task("xtask suites kafka --times 2") else { panic!() };
        assert_eq!(further.words, ["kafka", "--times", "2"]);
        let Task::Interop(further) = task("xtask interop") else { panic!() };
        assert_eq!(further.words.len(), 0);
    }

    #[test]
    fn tasks_have_the_names_and_options_of_the_documentation() {
        assert!(matches!(task("xtask ci"), Task::Test));
        assert!(matches!(task("xtask test"), Task::Test));
        assert!(
            matches!(task("xtask bench-report a b"), Task::BenchReport { files } if files == ["a", "b"])
        );
        let Task::Torture { minutes, nemesis, workload, .. } =
            task("xtask torture --minutes 90 --nemesis kill,pause --workload sync")
        else {
            panic!()
        };
        assert_eq!(minutes, Some(90));
        assert_eq!((nemesis.as_deref(), workload.as_deref()), (Some("kill,pause"), Some("sync")));
        assert!(matches!(task("xtask chart --write"), Task::Chart { write: true }));
        for line in [
            "xtask capi --debug --into target/x --prefix /usr",
            "xtask dist --only tar,deb --out /tmp --program zebu --version 1.2.3",
            "xtask dist --twice --only tar --out /tmp",
            "xtask crash-points --points 500",
            "xtask power-cuts --cuts 100",
            "xtask power-cuts --cuts 8 --age 120",
            "xtask damage --times 100",
            "xtask diff --ops 1000 --seed 3",
            "xtask mutants --seeds 512",
        ] {
            task(line);
        }
        for line in [
            "xtask",
            "xtask none",
            "xtask dist --only floppy",
            "xtask dist --twice --program zebu",
            "xtask torture --minutes",
            "xtask power-cuts --age 0",
            "xtask power-cuts --age 601",
        ] {
            Cli::try_parse_from(line.split(' ')).unwrap_err();
        }
    }
}
