//! The class of this process at the disk: long readers give way to a server on the same machine.
//!
//! Only the system call `ioprio_set` changes the class, which needs unsafe code. The program
//! `ionice` of util-linux makes that call for this process.

use std::io;
use std::process::{Command, Stdio};

/// The program that shows and changes classes.
const IONICE: &str = "ionice";
/// What it shows for a process whose class nobody has chosen, before the priority.
const UNCHOSEN: &str = "none";
/// The class of readers that the disk serves while nothing else wants it.
const IDLE: &str = "3";

/// Puts this process into the idle class of the disk, unless somebody has chosen a class for it,
/// as with `ionice -c 2`. A system that does not permit that lets it compete, and a remark says so.
///
/// Call it before the process has other threads: only this thread, and those that it starts later,
/// change their class.
pub fn read_when_idle() {
    if cfg!(target_os = "linux")
        && let Err(why) = give_way()
    {
        eprintln!("note: this reads with the normal priority of the disk: {IONICE}: {why}");
    }
}

fn give_way() -> io::Result<()> {
    let own = std::process::id().to_string();
    let shown = ionice(&["-p", &own])?;
    if is_unchosen(&shown) {
        ionice(&["-c", IDLE, "-p", &own])?;
    }
    Ok(())
}

/// Whether this is what `ionice` shows for a process whose class nobody has chosen.
fn is_unchosen(shown: &[u8]) -> bool {
    shown.starts_with(UNCHOSEN.as_bytes())
}

/// What `ionice` prints.
fn ionice(arguments: &[&str]) -> io::Result<Vec<u8>> {
    let mut command = Command::new(IONICE);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(output.status.to_string()));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_somebody_has_chosen_stays() {
        assert!(is_unchosen(b"none: prio 0\n"));
        for chosen in ["idle\n", "best-effort: prio 7\n", "realtime: prio 4\n", ""] {
            assert!(!is_unchosen(chosen.as_bytes()), "{chosen}");
        }
    }
}
