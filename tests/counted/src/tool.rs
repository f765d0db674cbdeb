//! The programs that count, and how their reports are read.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// A program that runs another and counts what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// `valgrind --tool=callgrind`: instructions executed.
    Callgrind,
    /// `valgrind --tool=memcheck`: blocks allocated on the heap.
    Memcheck,
    /// `strace`: system calls by name.
    Strace,
}

/// What was counted, by name.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// What is counted under that name.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// What is here beyond `base`.
    pub(crate) fn less(mut self, base: &Self) -> Self {
        for (name, count) in &mut self.0 {
            *count = count.saturating_sub(base.get(name));
        }
        self
    }
}

impl Tool {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Strace, Self::Memcheck, Self::Callgrind];

    /// The program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Callgrind | Self::Memcheck => "valgrind",
            Self::Strace => "strace",
        }
    }

    /// The name under which this tool counts what a limit is `of`, if it does.
    pub(crate) fn reading(self, of: &str) -> Option<&str> {
        match (self, of) {
            (Self::Callgrind, "instructions") | (Self::Memcheck, "allocations") => Some(of),
            (Self::Strace, of) if !matches!(of, "instructions" | "allocations") => Some(of),
            _ => None,
        }
    }

    /// A command that runs what is added to it and reports to `report`; the process it starts is
    /// that of what is added.
    pub(crate) fn command(self, report: &Path) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Self::Callgrind => {
                command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
            }
            Self::Memcheck => {
                command.args(["--tool=memcheck", "--undef-value-errors=no", "--leak-check=no"]);
            }
            // -D: the server stays our own child, so that it can be ended.
            Self::Strace => {
                command.args(["-D", "-f", "-c", "-U", "name,calls"]);
            }
        }
        match self {
            Self::Callgrind | Self::Memcheck => {
                command.arg(format!("--log-file={}", report.display()));
            }
            Self::Strace => {
                command.arg("-o").arg(report);
            }
        }
        command
    }

    /// Reads a report; `None` as long as it is not whole.
    pub(crate) fn parse(self, report: &str) -> Option<Counts> {
        let mut counts = Counts::default();
        let mut whole = false;
        for line in report.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |word: &str| word.replace(',', "").parse::<u64>().ok();
            match (self, &*words) {
                // ==PID== Collected : N
                (Self::Callgrind, [_, "Collected", ":", count, ..]) => {
                    counts.0.insert("instructions".into(), number(count)?);
                    whole = true;
                }
                // ==PID==   total heap usage: N allocs, N frees, N bytes allocated
                (Self::Memcheck, [_, "total", "heap", "usage:", count, "allocs,", ..]) => {
                    counts.0.insert("allocations".into(), number(count)?);
                    whole = true;
                }
                (Self::Strace, ["total", _]) => whole = true,
                (Self::Strace, [name, count]) => {
                    if let Some(count) = number(count) {
                        counts.0.insert((*name).into(), count);
                    }
                }
                _ => {}
            }
        }
        whole.then_some(counts)
    }

    /// Whether this machine has it.
    ///
    /// # Errors
    /// It has not.
    pub(crate) fn check(self) -> Result<()> {
        let program = self.program();
        Command::new(program).arg("--version").output().with_context(|| {
            format!("{program} cannot be run; cargo xtask deps installs it on Debian")
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let callgrind = "==7== \n==7== Events    : Ir\n==7== Collected : 12345678\n";
        assert_eq!(Tool::Callgrind.parse(callgrind).unwrap().get("instructions"), 12_345_678);
        let memcheck =
            "==7==   total heap usage: 9,023 allocs, 9,000 frees, 1,234,567 bytes allocated\n";
        assert_eq!(Tool::Memcheck.parse(memcheck).unwrap().get("allocations"), 9_023);
        let strace = "syscall               calls\n-------------- ---------\nfutex              120\n\
                      sendto              64\n-------------- ---------\ntotal              184\n";
        let counts = Tool::Strace.parse(strace).unwrap();
        assert_eq!((counts.get("futex"), counts.get("sendto"), counts.get("read")), (120, 64, 0));
        assert!(
            Tool::Strace.parse("syscall               calls\nfutex              120\n").is_none()
        );
    }
}
