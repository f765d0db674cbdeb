//! `zebu recover`: the decisions that only an operator can make when an ensemble has lost its
//! quorum permanently.
//!
//! The command first inspects the directories of this server, further directories that the operator
//! names, and every member. The pure module `decide` derives the possible decisions from these
//! facts alone. The command changes nothing until the operator names the data that are lost. Then
//! it writes a record, and moves or creates one file or directory. It removes nothing, and
//! ZooKeeper can read the result.

mod act;
mod decide;
pub(crate) mod look;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use zebu_config::Config;
use zebu_credentials::CredentialArgs;
use zebu_proto::Zxid;

use self::decide::{Facts, Verdict};
use crate::configuration::{Access, ConfigArgs};
use crate::failure::{Failure, end};

/// Arguments of `zebu recover`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Decide how to continue after an ensemble has lost its quorum permanently",
    long_about = "Decide how to continue after an ensemble has lost its quorum permanently.\n\n\
        Run it on the server's machine, as the server's user, while that server is stopped. It shows what this server's directories \
        have, what further directories have, and what each member answers. Then it shows which decision there is, and which \
        acknowledged transactions go with it. Without --lose nothing is changed. With --lose and the name that was shown, it writes \
        a record, recovered-TIME.txt in dataDir, and carries the decision out. Nothing is removed.",
    after_long_help = "\
Examples:
  zebu recover /etc/zookeeper/conf/zoo.cfg                          show what there is, and what may be decided
  zebu recover --also /mnt/old-disk/zookeeper zoo.cfg               look at a copy of another member's dataDir, too
  zebu recover --newest 0x500000007 zoo.cfg                         this server is empty; the newest history of the others ends there
  zebu recover --newest 0x500000007 --lose all-behind-0x500000007 zoo.cfg

Exit codes: 0 shown, or carried out; 1 refused, or failed; 2 bad arguments."
)]
pub struct RecoverArgs {
    /// The configuration.
    #[command(flatten)]
    pub configuration: ConfigArgs,

    /// How the members are asked.
    #[command(flatten)]
    pub credentials: CredentialArgs,

    /// Also examine this dataDir of another member, or a copy of one
    #[arg(long, value_name = "DIR", num_args = 1, action = clap::ArgAction::Append)]
    pub also: Vec<PathBuf>,

    /// Zxid at which the newest history of all members ends; run this command at each member to
    /// find it
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    pub newest: Option<i64>,

    /// Carry out the decision; NAME is the loss that this command has printed
    #[arg(long, value_name = "NAME")]
    pub lose: Option<String>,

    /// How long to wait for each answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 3000,
          value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub timeout: u64,
}

/// Collects facts, shows them, and executes a confirmed decision.
pub fn run(args: &RecoverArgs) -> ExitCode {
    let mut out = io::stdout();
    let done = recover(args, &mut out);
    end(done, &mut out)
}

fn recover(args: &RecoverArgs, out: &mut dyn io::Write) -> Result<(), Failure> {
    let read = |path: &Path| std::fs::read(path);
    let loaded = args.configuration.load(zebu_config::variables(), &read)?;
    let config = loaded.config;
    let access = Access::of(&args.credentials)?;
    let mut facts = look::look(&config, &args.also, &access, Duration::from_millis(args.timeout))?;
    facts.newest = args.newest.map(Zxid);
    decide_and_act(&config, &facts, args.lose.as_deref(), Timestamp::now(), out)
}

fn parse_zxid(text: &str) -> Result<i64, String> {
    let digits =
        text.strip_prefix("0x").ok_or("a zxid starts with 0x, as this command shows it")?;
    i64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

/// Shows the facts and the decision. Executes the decision if `lose` names the data that are lost.
fn decide_and_act(
    config: &Config,
    facts: &Facts,
    lose: Option<&str>,
    now: Timestamp,
    out: &mut dyn io::Write,
) -> Result<(), Failure> {
    let verdict = decide::decide(facts);
    let shown = format!("{facts}\n{verdict}");
    write!(out, "{shown}")?;
    let (decision, name) = match (&verdict, lose) {
        (Verdict::Refused(_), _) => return Err(Failure::new("refused: see above")),
        (Verdict::Nothing(_), None) => return Ok(()),
        (Verdict::Nothing(_), Some(_)) => {
            return Err(Failure::new("error: --lose: there is nothing to decide here, see above"));
        }
        (Verdict::May { name, .. }, None) => {
            writeln!(out, "\nNothing was changed. To carry it out, add: --lose {name}")?;
            return Ok(());
        }
        (Verdict::May { decision, name, .. }, Some(lose)) if lose == name => (*decision, name),
        (Verdict::May { name, .. }, Some(lose)) => {
            return Err(Failure::new(format!(
                "error: --lose {lose} does not match this decision, whose name is {name}; nothing was changed"
            )));
        }
    };
    let mut record =
        format!("zebu recover, {now}, user {}\n\n", rustix::process::getuid().as_raw());
    let _ = writeln!(record, "{shown}\nconfirmed: --lose {name}");
    let done = act::act(&config.data, decision, &record, now)?;
    writeln!(out, "\n{done}")?;
    Ok(())
}

#[cfg(test)]
mod tests;
