//! Check `names`: this machine can resolve the names of all members, and its own name resolves to
//! itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};

use zebu_config::EnsembleConfig;
use zebu_proto::ServerId;

use super::finding::{Check, Finding, Findings};

/// A member's host, as it was resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) server: ServerId,
    pub(super) host: String,
    pub(super) ports: (u16, u16),
    /// Its addresses, each with whether this machine has it, or the reason why there are none.
    pub(super) resolved: Result<BTreeMap<IpAddr, bool>, String>,
}

/// The facts from the members' lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) me: ServerId,
    pub(super) hosts: Vec<Host>,
    /// `quorumListenOnAllIPs`.
    pub(super) listens_on_all: bool,
}

/// Resolves the hosts.
pub(super) fn look(ensemble: &EnsembleConfig) -> Names {
    let hosts = ensemble.members.members().flat_map(|member| {
        member.addresses.iter().map(|at| Host {
            server: member.id,
            host: at.host.clone(),
            ports: (at.quorum_port, at.election_port),
            resolved: resolve(&at.host),
        })
    });
    Names {
        me: ensemble.me,
        hosts: hosts.collect(),
        listens_on_all: ensemble.election.listen_on_all,
    }
}

fn resolve(host: &str) -> Result<BTreeMap<IpAddr, bool>, String> {
    let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    Ok(found.map(|address| (address.ip(), is_own(address.ip()))).collect())
}

/// Whether this machine has the address.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Checks the names.
pub(super) fn judge(names: &Names) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Names);
    let is_all_loopback = names.hosts.iter().all(|host| {
        host.resolved.as_ref().is_ok_and(|found| found.keys().all(IpAddr::is_loopback))
    });
    for host in &names.hosts {
        let line = format!("server.{}", host.server.0);
        let found = match &host.resolved {
            Ok(found) if !found.is_empty() => found,
            Ok(_) => {
                findings.error(
                    format!("{line}: {} has no address", host.host),
                    "add the name to the DNS or to /etc/hosts",
                );
                continue;
            }
            Err(error) => {
                findings.error(
                    format!("{line}: {} cannot be resolved: {error}", host.host),
                    "add the name to the DNS or to /etc/hosts",
                );
                continue;
            }
        };
        if host.server == names.me && !names.listens_on_all {
            own(&line, host, found, is_all_loopback, &mut findings);
        } else if found.keys().all(IpAddr::is_loopback)
            && !is_all_loopback
            && host.server != names.me
        {
            findings.error(
                format!("{line}: {} is a loopback address ({})", host.host, list(found)),
                "use a name that resolves to that server on every machine",
            );
        }
    }
    for (at, host) in names.hosts.iter().enumerate() {
        for other in &names.hosts[..at] {
            let (Ok(found), Ok(others)) = (&host.resolved, &other.resolved) else { continue };
            let is_shared = found.keys().any(|address| others.contains_key(address));
            if is_shared && host.server != other.server && host.ports == other.ports {
                findings.error(
                    format!(
                        "server.{} and server.{} resolve to the same address and ports: {} and {}",
                        other.server.0, host.server.0, other.host, host.host
                    ),
                    "correct the DNS or /etc/hosts: each server needs a different address",
                );
            }
        }
    }
    findings.found
}

fn own(
    line: &str,
    host: &Host,
    found: &BTreeMap<IpAddr, bool>,
    is_all_loopback: bool,
    findings: &mut Findings,
) {
    let name = &host.host;
    if !found.values().any(|is_own| *is_own) {
        findings.error(
            format!("{line}: this server's own name {name} resolves to {}, which is no address of this machine", list(found)),
            "repair the name or myid; behind address translation, set quorumListenOnAllIPs=true",
        );
    } else if found.keys().all(IpAddr::is_loopback) && !is_all_loopback {
        findings.error(
            format!("{line}: this server's own name {name} resolves to {} here: it listens where no other server can reach it", list(found)),
            format!("remove {name} from the line of {} in /etc/hosts, or set quorumListenOnAllIPs=true", list(found)),
        );
    }
}

fn list(found: &BTreeMap<IpAddr, bool>) -> String {
    found.keys().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn host(server: i64, name: &str, address: &str, is_own: bool) -> Host {
        let found = BTreeMap::from([(address.parse().unwrap(), is_own)]);
        Host { server: ServerId(server), host: name.to_owned(), ports: (1, 2), resolved: Ok(found) }
    }

    fn fine() -> Names {
        let hosts = vec![host(1, "a", "10.0.0.1", true), host(2, "b", "10.0.0.2", false)];
        Names { me: ServerId(1), hosts, listens_on_all: false }
    }

    fn found(names: &Names, part: &str) -> bool {
        let findings = judge(names);
        findings.iter().any(|f| f.severity == Severity::Error && f.text.contains(part))
    }

    #[test]
    fn names_that_lead_to_their_servers_are_fine() {
        assert_eq!(judge(&fine()), []);
        // All members on one machine, for a trial.
        let mut here = fine();
        here.hosts = vec![host(1, "a", "127.0.0.1", true), host(2, "b", "127.0.0.2", true)];
        assert_eq!(judge(&here), []);
    }

    #[test]
    fn names_that_lead_elsewhere_are_errors() {
        let mut names = fine();
        names.hosts[1].resolved = Err("no such name".to_owned());
        assert!(found(&names, "server.2: b cannot be resolved: no such name"));
        names.hosts[1].resolved = Ok(BTreeMap::new());
        assert!(found(&names, "has no address"));

        let mut names = fine();
        names.hosts[0] = host(1, "a", "10.0.0.9", false);
        assert!(found(&names, "is no address of this machine"));
        names.listens_on_all = true;
        assert_eq!(judge(&names), []);

        // As Debian's installer writes /etc/hosts.
        let mut names = fine();
        names.hosts[0] = host(1, "a", "127.0.1.1", true);
        assert!(found(&names, "where no other server can reach it"));

        let mut names = fine();
        names.hosts[1] = host(2, "localhost", "127.0.0.1", true);
        assert!(found(&names, "server.2: localhost is a loopback address"));

        let mut names = fine();
        names.hosts.push(host(3, "c", "10.0.0.2", false));
        assert!(found(&names, "server.2 and server.3 resolve to the same address"));
    }

    #[test]
    fn names_are_resolved() {
        let found = resolve("127.0.0.1").unwrap();
        assert_eq!(found, BTreeMap::from([("127.0.0.1".parse().unwrap(), true)]));
        // Reserved for documentation: no machine has this address.
        assert_eq!(resolve("192.0.2.1").unwrap().values().copied().collect::<Vec<_>>(), [false]);
        assert!(resolve("no.such.name.invalid").is_err());
    }
}
