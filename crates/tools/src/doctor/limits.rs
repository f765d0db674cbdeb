//! Check `limits`: a server may open as many files as its connections need.

use rustix::process::{Resource, getrlimit};
use zebu_config::Config;

use super::finding::{Check, Finding, Findings};

/// Files that a server needs besides its connections: logs, snapshots, listeners, other members.
const OWN_FILES: u64 = 128;
/// The least limit for a server without a limit of connections.
const FILES_MIN: u64 = 4_096;

/// Limits as they were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// The limit to which a process of this user may raise its own; `None` for no limit.
    pub(super) files_max: Option<u64>,
    /// The limit that the running server reports.
    pub(super) of_server: Option<u64>,
    /// `maxCnxns`.
    pub(super) connections: Option<u32>,
}

/// Reads the limit of this process, which represents a server that is started in the same way.
pub(super) fn look(config: &Config, of_server: Option<u64>) -> Limits {
    let files_max = getrlimit(Resource::Nofile).maximum;
    Limits { files_max, of_server, connections: config.limits.connections }
}

/// Checks the limits.
pub(super) fn judge(limits: Limits) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Limits);
    let (whose, files) = match (limits.of_server, limits.files_max) {
        (Some(files), _) => ("the running server", files),
        (None, Some(files)) => ("a process of this user", files),
        (None, None) => return findings.found,
    };
    let remedy = "raise LimitNOFILE= of the systemd unit, or nofile in /etc/security/limits.conf";
    match limits.connections.map(u64::from) {
        Some(connections) if files < connections + OWN_FILES => findings.error(
            format!(
                "{whose} may open {files} files, and maxCnxns={connections} needs {}",
                connections + OWN_FILES
            ),
            remedy,
        ),
        None if files < FILES_MIN => findings.warning(
            format!(
                "{whose} may open {files} files: it refuses further connections at that number"
            ),
            remedy,
        ),
        _ => {}
    }
    findings.found
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn worst(files_max: u64, of_server: Option<u64>, connections: Option<u32>) -> Option<Severity> {
        let limits = Limits { files_max: Some(files_max), of_server, connections };
        judge(limits).iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn files_are_enough_or_not() {
        assert_eq!(worst(4_096, None, None), None);
        assert_eq!(worst(1_024, None, None), Some(Severity::Warning));
        assert_eq!(worst(1_128, None, Some(1_000)), None);
        assert_eq!(worst(1_127, None, Some(1_000)), Some(Severity::Error));
        // The report of the server itself takes precedence.
        assert_eq!(worst(1 << 20, Some(1_024), None), Some(Severity::Warning));
        assert_eq!(worst(1_024, Some(1 << 20), None), None);
        assert_eq!(judge(Limits { files_max: None, of_server: None, connections: None }), []);
    }

    #[test]
    fn this_process_has_a_limit_or_none() {
        let config = Config::embedded("/nowhere");
        assert_eq!(look(&config, Some(7)).of_server, Some(7));
    }
}
