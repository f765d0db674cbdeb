//! A server program that a test runs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a standalone server with these settings, in `dir`, on a port that the system chooses.
/// Returns the process, and the address in its greeting.
///
/// # Panics
/// The server does not start.
#[must_use]
pub fn serve(program: &str, dir: &Path, settings: &[&str]) -> (Child, String) {
    let mut command = Command::new(program);
    command.args(["server", "--set", "clientPort=0", "--set", "forceSync=no"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let mut child = command
        .env("SERVER_JVMFLAGS", "-Dzookeeper.admin.enableServer=false")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut greeting = String::new();
    let stdout = child.stdout.take().expect("it is a pipe");
    BufReader::new(stdout).read_line(&mut greeting).expect("the server greets");
    let address = greeting.trim().strip_prefix("listening on ").expect("a greeting").to_owned();
    (child, address)
}
