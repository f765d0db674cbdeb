//! `zebu completions` and `zebu man`: completions for shells and manual pages, made from the
//! command line's own definition.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

/// Exit code after a broken pipe, as in shells.
const UNREAD: u8 = 141;

/// Arguments of `zebu completions`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "\
Examples:
  zebu completions bash > /usr/share/bash-completion/completions/zebu
  zebu completions zsh > /usr/share/zsh/vendor-completions/_zebu
  zebu completions fish > /usr/share/fish/vendor_completions.d/zebu.fish")]
pub struct CompletionsArgs {
    /// The shell that reads the completions
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Arguments of `zebu man`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "\
Examples:
  zebu man | man -l -
      shows the page of the program itself
  zebu man /usr/share/man/man1
      writes zebu.1, zebu-server.1 and a page for each other command")]
pub struct ManArgs {
    /// Write a page for each command into this directory; without it, the page of the program
    /// itself goes to stdout
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Prints the completions for one shell.
pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "zebu", &mut text);
    finished(print(&text))
}

/// Prints the program's manual page, or writes the pages of all commands.
pub fn man(args: &ManArgs, command: clap::Command) -> ExitCode {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    finished(match &args.dir {
        None => page(command).map_err(anyhow::Error::from).and_then(|text| print(&text)),
        Some(dir) => write_pages(&command, dir),
    })
}

/// Writes the page of a command and the pages of the commands below it.
fn write_pages(command: &clap::Command, dir: &Path) -> anyhow::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, dir)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(command.clone())?)
        .with_context(|| format!("{} cannot be written", path.display()))
}

fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).manual("Zebu").render(&mut text)?;
    Ok(text)
}

fn print(text: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    Ok(stdout.write_all(text).and_then(|()| stdout.flush())?)
}

fn finished(result: anyhow::Result<()>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    let io = failure.downcast_ref::<io::Error>();
    if io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::from(UNREAD);
    }
    eprintln!("error: {failure:#}");
    ExitCode::FAILURE
}
