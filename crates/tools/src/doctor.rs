//! `zebu doctor`: checks the configuration of a server, its machine, and its ensemble.
//!
//! Each check has two parts: one collects facts, and a pure one turns facts into findings. The
//! checks change nothing, except that they create and remove a file to measure the disk, and open
//! and close sessions.

pub(crate) mod answers;
mod certificates;
mod clocks;
mod configuration;
mod directories;
mod disks;
mod ensemble;
mod files;
mod finding;
mod limits;
mod names;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use zebu_client::EnsembleId;
use zebu_config::{Config, Loaded, dirs};
use zebu_credentials::CredentialArgs;
use zebu_store::{EnsembleFile, OsVfs};

use crate::configuration::{Access, ConfigArgs};

pub use finding::{Check, Finding, Report, Severity};

/// Arguments of `zebu doctor`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Check a server's configuration, its machine and its ensemble",
    long_about = "Check a server's configuration, its machine and its ensemble, before its start or while it runs.\n\n\
        Run it on the server's machine, as the server's user. Each finding has a severity and a hint what helps. The data are \
        only read. The sync latency is measured with a file in the log's directory, which is removed, for two seconds at most. \
        The ports of all members are connected to, and sessions are opened and closed.",
    after_long_help = "\
Examples:
  zebu doctor /etc/zookeeper/conf/zoo.cfg
  zebu doctor --offline zoo.cfg                    ask no other machine
  zebu doctor --only disks,directories zoo.cfg
  zebu doctor --json --strict zoo.cfg              for CI: exit with 1 for warnings, too
  zebu doctor --client-configuration client.properties zoo.cfg    ask servers over TLS

Exit codes: 0 no error was found, 1 an error was found (with --strict: or a warning), 2 bad arguments."
)]
pub struct DoctorArgs {
    /// The configuration.
    #[command(flatten)]
    pub configuration: ConfigArgs,

    /// How the servers are asked.
    #[command(flatten)]
    pub credentials: CredentialArgs,

    /// Make these checks only
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    pub only: Vec<Check>,

    /// Make all checks but these
    #[arg(long, value_name = "CHECK", value_delimiter = ',', conflicts_with = "only")]
    pub skip: Vec<Check>,

    /// Ask no server and resolve no name
    #[arg(long)]
    pub offline: bool,

    /// How long to wait for each answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 3000,
          value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub timeout: u64,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Also exit with 1 for warnings
    #[arg(long)]
    pub strict: bool,
}

/// Makes all checks, and prints the findings.
pub fn run(args: &DoctorArgs) -> ExitCode {
    let access = match Access::of(&args.credentials) {
        Ok(access) => access,
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::from(2);
        }
    };
    let report = check(args, &access);
    let text = if args.json { format!("{:#}\n", report.json()) } else { report.to_string() };
    // The pipe may be closed; the exit code still shows the result.
    io::stdout().write_all(text.as_bytes()).ok();
    let fails_at = if args.strict { Severity::Warning } else { Severity::Error };
    match report.worst() {
        Some(worst) if worst >= fails_at => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// Runs the checks.
fn check(args: &DoctorArgs, access: &Access) -> Report {
    match args.configuration.load(zebu_config::variables(), &|path: &Path| std::fs::read(path)) {
        Ok(loaded) => all(args, &loaded, access),
        Err(error) => {
            let mut report = Report::default();
            report.add(Check::Configuration, configuration::refused(&error));
            let others = Check::ALL.into_iter().filter(|check| *check != Check::Configuration);
            let why = "the configuration has errors";
            report.skipped.extend(
                others.filter(|check| is_asked(args, *check)).map(|check| (check, why.to_owned())),
            );
            report
        }
    }
}

fn is_asked(args: &DoctorArgs, check: Check) -> bool {
    (args.only.is_empty() || args.only.contains(&check)) && !args.skip.contains(&check)
}

fn all(args: &DoctorArgs, loaded: &Loaded, access: &Access) -> Report {
    let config = &loaded.config;
    let needs_answers = |check: Check| {
        is_asked(args, check)
            && check != Check::Names
            && (check.needs_network() || matches!(check, Check::Clocks | Check::Limits))
    };
    let answers = if !args.offline && Check::ALL.into_iter().any(needs_answers) {
        answers::look(config, access, Duration::from_millis(args.timeout))
    } else {
        Vec::new()
    };
    let mut report = Report::default();
    for check in Check::ALL.into_iter().filter(|check| is_asked(args, *check)) {
        if args.offline && check.needs_network() {
            report.skipped.push((check, "--offline".to_owned()));
            continue;
        }
        match one(check, loaded, &answers) {
            Ok(findings) => report.add(check, findings),
            Err(why) => report.skipped.push((check, why)),
        }
    }
    report
}

/// Runs one check, or returns the reason why it cannot run.
fn one(
    check: Check,
    loaded: &Loaded,
    answers: &[answers::Answers],
) -> Result<Vec<Finding>, String> {
    let config = &loaded.config;
    let alone = || "the configuration names no other server".to_owned();
    Ok(match check {
        Check::Configuration => configuration::accepted(loaded),
        Check::Directories => directories::judge(
            &directories::look(&config.data),
            dirs::check(&config.data).err().as_ref(),
        ),
        Check::Disks => of_disks(config),
        Check::Files => match files::look(config) {
            Ok(files) => files::judge(&files),
            Err(error) => vec![Finding::new(
                Check::Files,
                Severity::Error,
                format!("the files of the data directories cannot be read: {error}"),
                "run this check as the server's user",
            )],
        },
        Check::Limits => {
            let of_server =
                answers.iter().find(|answers| answers.is_me).and_then(|me| me.files_max);
            limits::judge(limits::look(config, of_server))
        }
        Check::Certificates => {
            let now = Timestamp::now();
            let ports = certificates::look(config, now);
            if ports.is_empty() {
                return Err("no port has TLS".to_owned());
            }
            ports.iter().flat_map(|port| certificates::judge(port, now)).collect()
        }
        Check::Names => names::judge(&names::look(config.ensemble.as_ref().ok_or_else(alone)?)),
        Check::Clocks => {
            let skews: Vec<_> =
                answers.iter().filter_map(|member| Some((member.server, member.skew?))).collect();
            clocks::judge(&clocks::synchronized(), Timestamp::now(), &skews)
        }
        Check::Peers => ensemble::peers(answers),
        Check::Roles => ensemble::roles(answers, config.ensemble.is_some(), was_member(config)),
        Check::Members => {
            let own = &config.ensemble.as_ref().ok_or_else(alone)?.members;
            let mut findings = ensemble::members(answers, Some(own));
            findings.extend(ensemble::identities(answers, own_ensemble(config)));
            findings
        }
        Check::Versions => ensemble::versions(answers),
        Check::Acls => ensemble::acls(answers),
    })
}

fn of_disks(config: &Config) -> Vec<Finding> {
    let judge = |(key, disk): (&'static str, io::Result<disks::Disk>)| match disk {
        Ok(disk) => disks::judge(&disk, config.log.fsync_warning),
        Err(error) => vec![Finding::new(
            Check::Disks,
            Severity::Error,
            format!("{key}: the file system cannot be looked at: {error}"),
            "run this check as the server's user",
        )],
    };
    disks::look(config).into_iter().flat_map(judge).collect()
}

/// Whether the data belong to a member: only members accept epochs.
fn was_member(config: &Config) -> bool {
    config.data.snapshots().join("acceptedEpoch").exists()
}

/// The ensemble of this server's data, if they name one.
fn own_ensemble(config: &Config) -> Option<EnsembleId> {
    let file = EnsembleFile::new(Arc::new(OsVfs), &config.data.dir);
    file.read().ok().flatten()?.settled()
}

#[cfg(test)]
mod tests;
