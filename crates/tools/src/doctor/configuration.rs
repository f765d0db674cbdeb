//! Check `configuration`: settings that a start would refuse, settings that it would warn about,
//! and settings that endanger data.

use zebu_config::{ConfigError, Level, Loaded};

use super::finding::{Check, Finding, Findings};

/// A configuration that no server starts with.
pub(super) fn refused(error: &ConfigError) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Configuration);
    for problem in &error.problems {
        let (text, hint) = split(&problem.to_string());
        findings.error(
            text,
            hint.unwrap_or_else(|| {
                "correct the file or the setting that this message names".to_owned()
            }),
        );
    }
    for note in &error.unknown {
        unknown(&note.text, &mut findings);
    }
    findings.found
}

/// A configuration that a server starts with.
pub(super) fn accepted(loaded: &Loaded) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Configuration);
    for note in &loaded.notes {
        if note.is_unknown_key {
            unknown(&note.text, &mut findings);
            continue;
        }
        let (text, hint) = split(&note.text);
        match note.level {
            Level::Warn => findings.warning(
                text,
                hint.unwrap_or_else(|| {
                    "change or remove the setting that this message names".to_owned()
                }),
            ),
            Level::Info => findings.info(text, hint.unwrap_or_default()),
        }
    }
    let config = &loaded.config;
    if !config.log.fsync {
        findings.error(
            "forceSync=no: the server acknowledges writes that are not on the disk, and a power cut loses them",
            "remove forceSync",
        );
    }
    if config.auth.skip_acl {
        findings.warning(
            "skipACL=yes: every client may do everything, whatever the ACLs say",
            "remove skipACL",
        );
    }
    if config.data.trust_empty_snapshot {
        findings.warning(
            "snapshot.trust.empty=true: a server that has lost its snapshots starts without an error",
            "remove it once the migration that needed it is done",
        );
    }
    if let Some(ensemble) = &config.ensemble {
        let voters = ensemble.members.voters().count();
        if voters % 2 == 0 {
            let lost = (voters - 1) / 2;
            findings.warning(
                format!("{voters} servers vote: the ensemble outlives the loss of {lost}, no more than with {}", voters - 1),
                "have an odd number of voters; the others can be observers",
            );
        }
    }
    findings.found
}

fn unknown(text: &str, findings: &mut Findings) {
    let (text, hint) = split(text);
    findings.warning(text, hint.unwrap_or_else(|| "remove the line".to_owned()));
}

/// Splits a text from the hint in its last line.
fn split(text: &str) -> (String, Option<String>) {
    match text.split_once("\nhint: ") {
        Some((text, hint)) => (text.replace('\n', " "), Some(hint.replace('\n', " "))),
        None => (text.replace('\n', " "), None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::super::tests::{config, refusal};
    use super::*;

    fn found(findings: &[Finding], severity: Severity, part: &str) -> bool {
        findings.iter().any(|finding| finding.severity == severity && finding.text.contains(part))
    }

    #[test]
    fn a_plain_configuration_is_fine() {
        assert_eq!(accepted(&config("dataDir=/d\nclientPort=2181\n", None)), []);
        let three = "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n\
                     server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
        assert_eq!(accepted(&config(three, Some("1"))), []);
    }

    #[test]
    fn each_fault_is_an_error_with_its_line() {
        let findings = refused(&refusal("dataDir=/d\nclientPort=x\ntickTme=3\n", None));
        assert!(found(&findings, Severity::Error, "zoo.cfg:2: clientPort=x"), "{findings:?}");
        assert!(found(&findings, Severity::Warning, "zoo.cfg:3: tickTme"), "{findings:?}");
    }

    #[test]
    fn a_number_that_no_line_has_is_an_error() {
        let three = "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n\
                     server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
        let findings = refused(&refusal(three, Some("4")));
        assert!(found(&findings, Severity::Error, "My id 4 not in the peer list"), "{findings:?}");
        let findings = refused(&refusal(three, None));
        assert!(found(&findings, Severity::Error, "myid file is missing"), "{findings:?}");
    }

    /// The id is specific to a server, and the dynamic configuration is the same on all servers.
    #[test]
    fn a_number_in_the_configuration_has_no_effect_and_is_named() {
        let findings = accepted(&config("dataDir=/d\nclientPort=2181\nmyid=1\n", None));
        assert!(found(&findings, Severity::Warning, "zoo.cfg:3: myid"), "{findings:?}");
        assert!(findings[0].remedy.contains("myid in dataDir"), "{findings:?}");
        let findings = refused(&refusal(
            "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\ndynamicConfigFile=/dynamic\n",
            Some("1"),
        ));
        assert!(
            found(&findings, Severity::Error, "/dynamic:1: unrecognised parameter: myid"),
            "{findings:?}"
        );
    }

    #[test]
    fn settings_that_endanger_data_are_named() {
        let plain = "dataDir=/d\nclientPort=2181\n";
        for (line, severity) in [
            ("forceSync=no\n", Severity::Error),
            ("skipACL=yes\n", Severity::Warning),
            ("snapshot.trust.empty=true\n", Severity::Warning),
        ] {
            let findings = accepted(&config(&format!("{plain}{line}"), None));
            assert!(found(&findings, severity, line.trim()), "{line}: {findings:?}");
        }
        let two = "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\nserver.1=a:1:2\nserver.2=b:1:2\n";
        let findings = accepted(&config(two, Some("1")));
        assert!(found(&findings, Severity::Warning, "2 servers vote"), "{findings:?}");
    }
}
