//! `zebu shell`: all commands of the original's shell, with the output that scripts expect, and
//! further commands for people.
//!
//! `words` splits a line into words. `options` parses the options by the table in `command`.
//! `commands` run with a client of `zebu-client`. Results go to `output`, as text or as JSON. A
//! `failure` is the reason of an error, in the original's words.

mod arguments;
mod command;
mod commands;
mod completion;
mod failure;
mod limits;
mod options;
mod output;
mod plant;
mod progress;
mod render;
mod session;
mod shell;
mod terminal;
mod walk;
mod words;

use std::process::ExitCode;

use crate::arguments::Options;
use crate::failure::Result;
use crate::output::{Colour, Output};
use crate::shell::Shell;

/// The exit code for invalid arguments.
const USAGE: u8 = 2;

/// Arguments of `zebu shell`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(
    about = "Look at znodes and change them: zkCli's commands, and more",
    long_about = "Look at znodes and change them: zkCli's commands, and more.\n\n\
        With a command it runs that one. Without, it takes lines from stdin: in a terminal with completion (Tab), history \
        (arrows, Ctrl-R) and editing, from a file or pipe without any of it. `help` lists the commands.",
    override_usage = "zebu shell [OPTIONS] [COMMAND [ARGUMENTS]...]",
    after_help = "\
Options, with one dash or two:
  -server HOST:PORT[,...][/CHROOT]   servers, and a znode that becomes the root [default: localhost:2181]
  -timeout MS                        session timeout [default: 30000]
  -r, -readonly                      accept a read-only server, one without a quorum
  -waitforconnection                 wait for the connection before the first command, or fail
  -client-configuration FILE         a properties file, as ZooKeeper's clients take it
  -auth-file FILE                    who you are: a line SCHEME:CREDENTIALS for each identity, # before comments
  -auth SCHEME:CREDENTIALS           the same on the command line, where all users of this machine can read it
  -json                              every result is one line of JSON
  -q, -quiet                         no greeting, no events of the session
  -color auto|always|never           colours [default: auto, which NO_COLOR switches off]
  -log LEVEL                         log the client's actions to stderr: error, warn, info, debug, trace [default: nothing]

Examples:
  zebu shell
      commands from the keyboard, for the server on this machine
  zebu shell -server zk1:2181,zk2:2181/app get -s /config
      one command, with /app as the root
  zebu shell -q --json ls -R / | jq -r .path
      for other programs
  zebu shell -server zk1 < commands.txt
      many commands, one after the other
  ZEBU_AUTH=digest:amy:secret zebu shell get /amys
      one command as somebody; the variable is read like a file of -auth-file
  zebu shell -server zk1:2281 -client-configuration tls.properties
      over TLS, with zookeeper.client.secure=true and zookeeper.ssl.trustStore.location in the file

Exit codes: that of the last command (0 done, 1 failed, 127 no such command), 2 bad arguments, 130 ended with Ctrl-C."
)]
pub struct ShellArgs {
    /// Options, then a command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub words: Vec<String>,
}

/// Runs the shell until it ends. Returns the exit code.
pub fn run(args: &ShellArgs) -> ExitCode {
    let options = match Options::parse(&args.words) {
        Ok(options) => options,
        Err(failure) => {
            Output::of_process(Colour::Auto, false).fail(&failure);
            return USAGE.into();
        }
    };
    if let Some(level) = options.log {
        let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
        log.with_ansi(false).init();
    }
    let out = Output::of_process(options.colour, options.json);
    match try_run(&options, &out) {
        Ok(code) => code.into(),
        Err(failure) => {
            out.fail(&failure);
            failure.exit_code().into()
        }
    }
}

fn try_run(options: &Options, out: &Output) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let shell = Shell::start(options, out.clone()).await?;
        if options.command.is_empty() {
            shell.run().await
        } else {
            Ok(shell.run_once(&options.command).await)
        }
    })
}
