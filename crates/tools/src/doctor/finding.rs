//! The findings of `zebu doctor`, as text and as JSON.

use std::fmt;

use serde_json::json;

/// The checks, in the order in which they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Check {
    /// Errors and warnings of the configuration
    Configuration,
    /// Data directories: existence, permissions, owner, a device of its own for the log
    Directories,
    /// Sync latency, free space and inodes, kind of file system, read-only file systems
    Disks,
    /// Snapshots and logs: damaged, left over, from another ensemble, too many
    Files,
    /// File descriptors
    Limits,
    /// Certificates: readable, key and certificate belong together, expiry, host names
    Certificates,
    /// Names of all members, and this server's own
    Names,
    /// Time synchronization, and the clocks of the other members
    Clocks,
    /// Election, quorum and client ports of all members
    Peers,
    /// Servers that run alone, no leader, more than one leader
    Roles,
    /// Member lists that differ between members
    Members,
    /// Versions of the members
    Versions,
    /// Znodes at the top that everybody may change
    Acls,
}

impl Check {
    /// All checks, in order.
    pub const ALL: [Self; 13] = [
        Self::Configuration,
        Self::Directories,
        Self::Disks,
        Self::Files,
        Self::Limits,
        Self::Certificates,
        Self::Names,
        Self::Clocks,
        Self::Peers,
        Self::Roles,
        Self::Members,
        Self::Versions,
        Self::Acls,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Directories => "directories",
            Self::Disks => "disks",
            Self::Files => "files",
            Self::Limits => "limits",
            Self::Certificates => "certificates",
            Self::Names => "names",
            Self::Clocks => "clocks",
            Self::Peers => "peers",
            Self::Roles => "roles",
            Self::Members => "members",
            Self::Versions => "versions",
            Self::Acls => "acls",
        }
    }

    /// Whether the check needs other servers, or this server while it runs.
    pub fn needs_network(self) -> bool {
        matches!(
            self,
            Self::Names | Self::Peers | Self::Roles | Self::Members | Self::Versions | Self::Acls
        )
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Info,
    /// It works, but perhaps not for long or not as intended.
    Warning,
    /// It does not work, or data are in danger.
    Error,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check that found it.
    pub check: Check,
    /// How bad it is.
    pub severity: Severity,
    /// The description.
    pub text: String,
    /// The remedy; empty if there is nothing to do.
    pub remedy: String,
}

impl Finding {
    /// A finding of any severity. Warnings and errors have a remedy.
    pub(super) fn new(
        check: Check,
        severity: Severity,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (text, remedy) = (text.into(), remedy.into());
        debug_assert!(severity == Severity::Info || !remedy.is_empty(), "no remedy: {text}");
        Self { check, severity, text, remedy }
    }
}

/// Collects the findings of one check.
#[derive(Debug)]
pub(super) struct Findings {
    check: Check,
    pub(super) found: Vec<Finding>,
}

impl Findings {
    pub(super) fn of(check: Check) -> Self {
        Self { check, found: Vec::new() }
    }

    pub(super) fn error(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.found.push(Finding::new(self.check, Severity::Error, text, remedy));
    }

    pub(super) fn warning(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.found.push(Finding::new(self.check, Severity::Warning, text, remedy));
    }

    pub(super) fn info(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.found.push(Finding::new(self.check, Severity::Info, text, remedy));
    }
}

/// The result of all checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings, by check.
    pub findings: Vec<Finding>,
    /// The completed checks.
    pub checked: Vec<Check>,
    /// The checks that could not run, with the reasons.
    pub skipped: Vec<(Check, String)>,
}

impl Report {
    pub(super) fn add(&mut self, check: Check, findings: Vec<Finding>) {
        self.checked.push(check);
        self.findings.extend(findings);
    }

    /// The highest severity.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    fn is_clean(&self, check: Check) -> bool {
        self.findings.iter().all(|finding| finding.check != check)
    }

    /// As one JSON object.
    pub fn json(&self) -> serde_json::Value {
        let findings: Vec<_> = (self.findings.iter())
            .map(|finding| {
                json!({
                    "check": finding.check.name(),
                    "severity": finding.severity.name(),
                    "text": finding.text,
                    "remedy": finding.remedy,
                })
            })
            .collect();
        let checked: Vec<_> = self.checked.iter().map(|check| check.name()).collect();
        let skipped: Vec<_> = (self.skipped.iter())
            .map(|(check, why)| json!({ "check": check.name(), "why": why }))
            .collect();
        json!({
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "findings": findings,
            "checked": checked,
            "skipped": skipped,
        })
    }
}

impl fmt::Display for Report {
    /// Findings first, the worst ones at the top; then the checks that were made and those that
    /// were skipped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut findings: Vec<&Finding> = self.findings.iter().collect();
        findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.check));
        for finding in findings {
            writeln!(
                f,
                "{:<8} {}: {}",
                finding.severity.name(),
                finding.check.name(),
                finding.text
            )?;
            if !finding.remedy.is_empty() {
                writeln!(f, "         hint: {}", finding.remedy)?;
            }
        }
        let clean: Vec<&str> = (self.checked.iter())
            .filter(|check| self.is_clean(**check))
            .map(|check| check.name())
            .collect();
        if !clean.is_empty() {
            writeln!(f, "{:<8} {}", "ok", clean.join(", "))?;
        }
        for (check, why) in &self.skipped {
            writeln!(f, "{:<8} {}: {why}", "skipped", check.name())?;
        }
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        writeln!(f, "{errors} errors, {warnings} warnings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_puts_the_worst_first_and_names_what_is_fine() {
        let mut report = Report::default();
        report.add(Check::Configuration, Vec::new());
        let mut disks = Findings::of(Check::Disks);
        disks.info("a", "");
        disks.error("b", "c");
        report.add(Check::Disks, disks.found);
        report.skipped.push((Check::Peers, "offline".to_owned()));
        assert_eq!(
            report.to_string(),
            "error    disks: b\n         hint: c\ninfo     disks: a\nok       configuration\n\
             skipped  peers: offline\n1 errors, 0 warnings\n"
        );
        assert_eq!(report.worst(), Some(Severity::Error));
        let json = report.json();
        assert_eq!(json["errors"], 1);
        assert_eq!(json["findings"][1]["remedy"], "c");
        assert_eq!(json["skipped"][0]["check"], "peers");
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        use clap::ValueEnum as _;
        let of_clap: Vec<String> = (Check::value_variants().iter())
            .map(|check| check.to_possible_value().unwrap().get_name().to_owned())
            .collect();
        assert_eq!(of_clap, Check::ALL.map(Check::name));
    }
}
