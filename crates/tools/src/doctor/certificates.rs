//! Check `certificates`: the files are readable, the key belongs to the certificate, the
//! certificate is valid for some time, and it is for this server's host.

use std::net::IpAddr;

use jiff::Timestamp;
use zebu_auth::certificate::Facts;
use zebu_auth::tls::{PortFiles, verify_hostname};
use zebu_config::Config;

use super::finding::{Check, Finding, Findings};

/// Fewer days left are an error.
const DAYS_ERROR: i64 = 7;
/// Fewer days left are a warning.
const DAYS_WARNING: i64 = 30;

/// A port's certificates as they were found.
#[derive(Debug)]
pub(super) struct PortFacts {
    /// The clients or servers that see the certificate.
    pub(super) seen_by: &'static str,
    /// The certificate and the trusted ones, or the reason why they cannot be read.
    pub(super) read: Result<(Facts, Vec<Facts>), String>,
    /// The host names by which others reach this server; empty if unknown.
    pub(super) hosts: Vec<String>,
    /// Whether others refuse a certificate for another host.
    pub(super) is_verified: bool,
}

/// Reads the files of all ports with TLS.
pub(super) fn look(config: &Config, now: Timestamp) -> Vec<PortFacts> {
    let member = config.ensemble.as_ref().and_then(|ensemble| ensemble.members.member(ensemble.me));
    let hosts = |configured: Option<&String>| -> Vec<String> {
        let own = member.iter().flat_map(|member| member.addresses.iter().map(|at| &at.host));
        let mut hosts: Vec<String> = configured.into_iter().chain(own).cloned().collect();
        hosts.retain(|host| {
            host.parse::<IpAddr>().is_ok_and(|ip| !ip.is_unspecified())
                || host.parse::<IpAddr>().is_err()
        });
        hosts.dedup();
        hosts
    };
    let mut ports = Vec::new();
    if let Some(tls) = &config.client_tls {
        let address = tls.address.as_ref().or(config.net.client_address.as_ref());
        ports.push(PortFacts {
            seen_by: "clients",
            read: read(&tls.files, now),
            hosts: hosts(address),
            // Each client decides whether it checks the host name.
            is_verified: false,
        });
    }
    if let Some(tls) = config.ensemble.as_ref().and_then(|ensemble| ensemble.tls.as_ref()) {
        ports.push(PortFacts {
            seen_by: "servers",
            read: read(&tls.files, now),
            hosts: hosts(None),
            is_verified: tls.verifies_servers || tls.binds_ids,
        });
    }
    ports
}

fn read(files: &PortFiles, now: Timestamp) -> Result<(Facts, Vec<Facts>), String> {
    let port = files.read(now).map_err(|error| error.to_string())?;
    Ok((port.own, port.trusted))
}

/// Checks a port's certificates.
pub(super) fn judge(port: &PortFacts, now: Timestamp) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Certificates);
    let seen_by = port.seen_by;
    let (own, trusted) = match &port.read {
        Ok(read) => read,
        Err(text) => {
            findings.error(
                format!("TLS for {seen_by}: {text}"),
                "repair the key store or the trust store: no connection with TLS is possible until then",
            );
            return findings.found;
        }
    };
    dates(&format!("the certificate for {seen_by} ({})", own.subject), own, now, &mut findings);
    for facts in trusted {
        dates(
            &format!(
                "the certificate of the authority that must sign the certificates of {seen_by} ({})",
                facts.subject
            ),
            facts,
            now,
            &mut findings,
        );
    }
    let hosts: Vec<&str> = port.hosts.iter().map(String::as_str).collect();
    if let Err(error) = verify_hostname(own, &hosts)
        && !hosts.is_empty()
    {
        let text = format!("TLS for {seen_by}: {error}");
        let remedy = "get a certificate whose subject alternative names contain the host names that clients use";
        if port.is_verified {
            findings.error(text, remedy);
        } else {
            findings.warning(text, remedy);
        }
    }
    findings.found
}

fn dates(what: &str, facts: &Facts, now: Timestamp, findings: &mut Findings) {
    let remedy =
        "replace it; a server reads the files anew if that is configured, else at its next start";
    if now < facts.not_before {
        findings.error(
            format!("{what} is not valid before {}", facts.not_before),
            "check the clock of this machine, or wait",
        );
        return;
    }
    let days = facts.not_after.duration_since(now).as_hours().div_euclid(24);
    if now > facts.not_after {
        findings.error(format!("{what} has expired at {}", facts.not_after), remedy);
    } else if days < DAYS_ERROR {
        findings.error(format!("{what} expires at {}, in {days} days", facts.not_after), remedy);
    } else if days < DAYS_WARNING {
        findings.warning(format!("{what} expires at {}, in {days} days", facts.not_after), remedy);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use zebu_auth::store::{PasswordSource, StoreFile};

    use super::super::finding::Severity;
    use super::*;

    fn now() -> Timestamp {
        Timestamp::now()
    }

    fn facts(days: i64, names: &[&str]) -> Facts {
        let day = |days: i64| now() + jiff::SignedDuration::from_hours(24 * days);
        Facts {
            subject: "CN=zoo1".to_owned(),
            issuer: "CN=ca".to_owned(),
            common_name: Some("zoo1".to_owned()),
            dns_names: names.iter().map(|name| (*name).to_owned()).collect(),
            addresses: Vec::new(),
            not_before: day(-400),
            not_after: day(days),
            has_alternative_names: !names.is_empty(),
        }
    }

    fn worst(own: Facts, trusted: Facts, hosts: &[&str], is_verified: bool) -> Option<Severity> {
        let port = PortFacts {
            seen_by: "servers",
            read: Ok((own, vec![trusted])),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            is_verified,
        };
        judge(&port, now()).iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn a_certificate_for_this_host_that_lasts_is_fine() {
        assert_eq!(worst(facts(90, &["zoo1"]), facts(900, &[]), &["zoo1"], true), None);
        // The name of this server is unknown.
        assert_eq!(worst(facts(90, &["zoo1"]), facts(900, &[]), &[], true), None);
    }

    #[test]
    fn expiry_and_hosts_are_found() {
        for (days, severity) in
            [(-1, Severity::Error), (6, Severity::Error), (29, Severity::Warning)]
        {
            let found = worst(facts(days, &["zoo1"]), facts(900, &[]), &["zoo1"], true);
            assert_eq!(found, Some(severity), "{days}");
            let found = worst(facts(900, &["zoo1"]), facts(days, &[]), &["zoo1"], true);
            assert_eq!(found, Some(severity), "{days}");
        }
        let other =
            |is_verified| worst(facts(90, &["zoo1"]), facts(900, &[]), &["zoo2"], is_verified);
        assert_eq!((other(true), other(false)), (Some(Severity::Error), Some(Severity::Warning)));
        let mut early = facts(90, &["zoo1"]);
        early.not_before = now() + jiff::SignedDuration::from_hours(1);
        assert_eq!(worst(early, facts(900, &[]), &["zoo1"], true), Some(Severity::Error));
    }

    /// A key store made of the halves of two self-signed certificates.
    #[test]
    fn a_key_that_does_not_belong_to_its_certificate_is_found() {
        let root = tempfile::tempdir().unwrap();
        let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let (one, two) = (made("zoo1"), made("zoo1"));
        let files = |key: &str, certificate: &str| {
            let path = root.path().join("key.pem");
            fs::write(&path, format!("{certificate}{key}")).unwrap();
            PortFiles {
                key_store: StoreFile { path, password: PasswordSource::None },
                trust_store: None,
                revocations: None,
                ocsp: false,
                client_auth: zebu_auth::tls::ClientAuth::None,
                protocols: vec![zebu_auth::tls::Protocol::Tls13],
                suites: None,
                dials: false,
            }
        };
        let key = one.signing_key.serialize_pem();
        let judged = |files: &PortFiles| {
            let port = PortFacts {
                seen_by: "clients",
                read: read(files, now()),
                hosts: vec!["zoo1".to_owned()],
                is_verified: true,
            };
            judge(&port, now())
        };
        assert_eq!(judged(&files(&key, &one.cert.pem())), []);
        let findings = judged(&files(&key, &two.cert.pem()));
        assert_eq!(findings[0].severity, Severity::Error, "{findings:?}");
        let findings = judged(&files("", &two.cert.pem()));
        assert_eq!(findings[0].severity, Severity::Error, "{findings:?}");
    }
}
