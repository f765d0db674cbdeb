//! Cleans up after an interrupted comparison: stops its servers and removes their directories.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

/// The exit code of a program that was interrupted.
const INTERRUPTED: i32 = 130;

static LEFT: Mutex<Left> = Mutex::new(Left { processes: Vec::new(), dirs: Vec::new() });

#[derive(Debug)]
struct Left {
    processes: Vec<u32>,
    dirs: Vec<PathBuf>,
}

fn left() -> MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After this call, an interrupt first ends the running servers and removes their directories.
pub(crate) fn on_interrupt() {
    // A handler of the program, or of an earlier call, stays.
    let _ = ctrlc::try_set_handler(|| {
        let left = left();
        for &process in &left.processes {
            signal(process, Signal::KILL);
        }
        for dir in &left.dirs {
            let _ = std::fs::remove_dir_all(dir); // there is nobody left to tell
        }
        std::process::exit(INTERRUPTED);
    });
}

/// Sends a signal to a child that still exists.
pub(crate) fn signal(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal); // it may have ended by itself
    }
}

/// A running child.
#[derive(Debug)]
pub(crate) struct GuardedProcess(u32);

impl GuardedProcess {
    pub(crate) fn new(process: u32) -> Self {
        left().processes.push(process);
        Self(process)
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        left().processes.retain(|&process| process != self.0);
    }
}

/// A directory in use.
#[derive(Debug)]
pub(crate) struct GuardedDir(PathBuf);

impl GuardedDir {
    pub(crate) fn new(dir: &Path) -> Self {
        left().dirs.push(dir.to_owned());
        Self(dir.to_owned())
    }
}

impl Drop for GuardedDir {
    fn drop(&mut self) {
        left().dirs.retain(|dir| *dir != self.0);
    }
}
