//! The tools that count, and the parsers of their reports.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::profile::{Atomics, Profile};

/// A tool that runs a program and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// `valgrind --tool=callgrind`: instructions executed, and the atomic ones among them.
    Callgrind,
    /// `valgrind --tool=memcheck`: blocks allocated on the heap.
    Memcheck,
    /// `strace`: system calls by name.
    Strace,
}

/// The counts, by name.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// The count with that name.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The difference from `base`.
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

    /// The name under which this tool counts the unit of a limit, if it counts it.
    pub(crate) fn reading(self, of: &str) -> Option<&str> {
        match (self, of) {
            (Self::Callgrind, "instructions" | "atomics") | (Self::Memcheck, "allocations") => {
                Some(of)
            }
            (Self::Strace, of) if !matches!(of, "instructions" | "atomics" | "allocations") => {
                Some(of)
            }
            _ => None,
        }
    }

    /// A command that runs the added program and writes a report to `report`. The process that it
    /// starts is that of the added program.
    pub(crate) fn command(self, report: &Path) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Self::Callgrind => {
                command.args(["--tool=callgrind", "--dump-instr=yes"]);
                command.arg(format!("--callgrind-out-file={}", report.display()));
            }
            Self::Memcheck => {
                command.args(["--tool=memcheck", "--undef-value-errors=no", "--leak-check=no"]);
            }
            // -D: the server stays a child of this process, so that it can be ended.
            Self::Strace => {
                command.args(["-D", "-f", "-c", "-U", "name,calls"]);
            }
        }
        match self {
            Self::Callgrind => {}
            Self::Memcheck => {
                command.arg(format!("--log-file={}", report.display()));
            }
            Self::Strace => {
                command.arg("-o").arg(report);
            }
        }
        command
    }

    /// Parses a report on a program; `None` while the report is incomplete. Only callgrind's report
    /// has a profile.
    pub(crate) fn parse(
        self,
        report: &str,
        program: &Path,
        atomics: &Atomics,
    ) -> Option<(Counts, Profile)> {
        let profile = match self {
            Self::Callgrind => Profile::parse(report, program, atomics)?,
            Self::Memcheck | Self::Strace => {
                return Some((self.counts(report)?, Profile::default()));
            }
        };
        let mut counts = Counts::default();
        counts.0.insert("instructions".into(), profile.total);
        counts.0.insert("atomics".into(), profile.atomic_count());
        Some((counts, profile))
    }

    /// The counts in a report of few lines.
    fn counts(self, report: &str) -> Option<Counts> {
        let mut counts = Counts::default();
        let mut whole = false;
        for line in report.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |word: &str| word.replace(',', "").parse::<u64>().ok();
            match (self, &*words) {
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

    /// Whether the tool is installed on this machine.
    ///
    /// # Errors
    /// The tool is not installed.
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
        let (program, atomics) = (Path::new("/bin/zebu"), Atomics::default());
        let read = |tool: Tool, text: &str| tool.parse(text, program, &atomics).map(|both| both.0);
        let callgrind = "ob=(1) /bin/zebu\nfl=(1) a.rs\nfn=(1) a\n0x10 1 12345678\n";
        assert!(read(Tool::Callgrind, callgrind).is_none());
        let callgrind = format!("{callgrind}totals: 12345678\n");
        assert_eq!(read(Tool::Callgrind, &callgrind).unwrap().get("instructions"), 12_345_678);
        let memcheck =
            "==7==   total heap usage: 9,023 allocs, 9,000 frees, 1,234,567 bytes allocated\n";
        assert_eq!(read(Tool::Memcheck, memcheck).unwrap().get("allocations"), 9_023);
        let strace = "syscall               calls\n-------------- ---------\nfutex              120\n\
                      sendto              64\n-------------- ---------\ntotal              184\n";
        let counts = read(Tool::Strace, strace).unwrap();
        assert_eq!((counts.get("futex"), counts.get("sendto"), counts.get("read")), (120, 64, 0));
        assert!(
            read(Tool::Strace, "syscall               calls\nfutex              120\n").is_none()
        );
    }
}
