//! Checks whether a certificate is valid for a host, by ZooKeeper's rules.
//!
//! An address must be among the alternative names. A name must match one of them, where one `*`
//! stands for any part of a label. The common name counts only if there are no alternative names.
//! Addresses are never looked up in reverse, because the owner of an address also controls its PTR
//! record (CVE-2026-24281).
//!
//! Source: `ZKHostnameVerifier`, `ZKTrustManager`.

use std::fmt;
use std::net::IpAddr;

use crate::certificate::Facts;

/// A certificate for other hosts.
#[derive(Clone, PartialEq, Eq)]
pub struct HostnameError {
    hosts: Vec<String>,
    names: Vec<String>,
}

impl fmt::Display for HostnameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            if self.names.is_empty() { "no host".to_owned() } else { self.names.join(", ") };
        write!(f, "the certificate is for {names} and not for {}", self.hosts.join(" or "))
    }
}

/// The message. rustls prints reasons of other crates by their `Debug`.
impl fmt::Debug for HostnameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for HostnameError {}

/// Checks that a certificate is for one of these hosts: the name that was connected to, the peer's
/// address, or the names of a member's configuration. A name comes from this side's configuration,
/// never from the peer or from the DNS.
///
/// # Errors
/// The certificate is valid for none of them.
pub fn verify_hostname(facts: &Facts, hosts: &[&str]) -> Result<(), HostnameError> {
    if hosts.iter().any(|host| is_for(facts, host)) {
        return Ok(());
    }
    let mut names = facts.dns_names.clone();
    names.extend(facts.addresses.iter().map(IpAddr::to_string));
    if !facts.has_alternative_names {
        names.extend(facts.common_name.clone());
    }
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    Err(HostnameError {
        hosts,
        names: names.iter().map(|name| name.escape_debug().to_string()).collect(),
    })
}

fn is_for(facts: &Facts, host: &str) -> bool {
    if !facts.has_alternative_names {
        return facts.common_name.as_deref().is_some_and(|name| is_match(host, name));
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => facts.addresses.contains(&address),
        Err(_) => facts.dns_names.iter().any(|name| is_match(host, name)),
    }
}

fn is_match(host: &str, pattern: &str) -> bool {
    let (host, pattern) = (host.to_lowercase(), pattern.to_lowercase());
    let Some((prefix, suffix)) = pattern.split_once('*') else { return host == pattern };
    host.strip_prefix(prefix)
        .and_then(|rest| rest.strip_suffix(suffix))
        .is_some_and(|covered| !covered.contains('.'))
}
