//! The authentication schemes that `authProvider.*` names: classes of the original that are built
//! in, and programs behind a Unix socket.

use std::path::{Path, PathBuf};

use super::build::Reader;
use super::sasl::PROVIDER as SASL;
use super::settings::{CheckLimits, OutsideCheck};
use super::value;

const DIGEST: &str = "org.apache.zookeeper.server.auth.DigestAuthenticationProvider";
const IP: &str = "org.apache.zookeeper.server.auth.IPAuthenticationProvider";
const KEY: &str = "org.apache.zookeeper.server.auth.KeyAuthenticationProvider";
const ENSEMBLE: &str = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
const NAMES: &str = "ensembleAuthName";

/// Every class that is built in. Naming one of the first two changes nothing.
const CLASSES: [&str; 6] = [DIGEST, IP, KEY, ENSEMBLE, SASL, super::X509_PROVIDER];

/// The prefix of a scheme that another program decides.
const OUTSIDE: &str = "unix:";
/// Names of schemes with a special meaning.
const RESERVED: [&str; 9] =
    ["world", "auth", "super", "local", "ip", "digest", "sasl", "x509", "zookeeper"];
/// Maximum length of a scheme's name, in bytes.
const SCHEME_BYTES_MAX: usize = 64;
/// Maximum length of a socket's path in bytes: the system's limit.
const PATH_BYTES_MAX: usize = 107;

/// Whether a value of `authProvider.*` is a scheme of this server, or looks like one that another
/// program decides.
pub(super) fn is_known(value: &str) -> bool {
    CLASSES.contains(&value.trim()) || value.trim().starts_with(OUTSIDE)
}

/// Reads `unix:SCHEME:/path/of/the/socket`.
fn outside(value: &str) -> Option<Result<OutsideCheck, String>> {
    let rest = value.trim().strip_prefix(OUTSIDE)?;
    let Some((scheme, path)) = rest.split_once(':') else {
        return Some(Err("expected unix:SCHEME:/path/of/the/socket".to_owned()));
    };
    let is_name = |name: &str| {
        (1..=SCHEME_BYTES_MAX).contains(&name.len())
            && name.starts_with(|char: char| char.is_ascii_lowercase())
            && name.chars().all(|char| {
                char.is_ascii_lowercase() || char.is_ascii_digit() || "-_.".contains(char)
            })
    };
    if !is_name(scheme) {
        return Some(Err(format!(
            "{scheme:?} is no name for a scheme: a to z, digits, '-', '_' and '.', a letter first, at most {SCHEME_BYTES_MAX}"
        )));
    }
    if RESERVED.contains(&scheme) {
        return Some(Err(format!("the scheme {scheme} is reserved")));
    }
    if !Path::new(path).is_absolute() {
        return Some(Err(format!("the path of the socket must begin with /: {path:?}")));
    }
    if path.len() > PATH_BYTES_MAX {
        return Some(Err(format!(
            "the path of a socket has at most {PATH_BYTES_MAX} bytes, this one has {}",
            path.len()
        )));
    }
    Some(Ok(OutsideCheck { scheme: scheme.to_owned(), path: PathBuf::from(path) }))
}

impl Reader<'_> {
    /// Whether some `authProvider.*` names a class.
    pub(super) fn has_provider(&self, class: &str) -> bool {
        self.family("authProvider").any(|named| named.trim() == class)
    }

    /// Whether the scheme `key` is enabled.
    pub(super) fn has_key_scheme(&self) -> bool {
        let _ = self.given("authProvider.*");
        self.has_provider(KEY)
    }

    /// The names that clients may give with the scheme `ensemble`, if that is enabled. Without
    /// names, any name is accepted.
    ///
    /// Source: `EnsembleAuthenticationProvider.setEnsembleNames`.
    pub(super) fn ensemble_scheme(&self) -> Option<Option<Vec<String>>> {
        // An empty value is also a name: that of an unnamed ensemble.
        let names = self.given(NAMES).map(|given| value::list(given.value()));
        self.has_provider(ENSEMBLE).then_some(names)
    }

    /// The schemes that other programs decide, in the order of their keys.
    pub(super) fn outside_schemes(&self) -> Vec<OutsideCheck> {
        let mut checks: Vec<OutsideCheck> = Vec::new();
        for (key, value) in self.family_keys("authProvider") {
            let check = match outside(value) {
                None => continue,
                Some(Ok(check)) => check,
                Some(Err(fault)) => {
                    self.problem(key, format!("{key}={value}: {fault}"));
                    continue;
                }
            };
            let taken = [(KEY, "key"), (ENSEMBLE, "ensemble")];
            let is_built_in = taken
                .into_iter()
                .any(|(class, scheme)| scheme == check.scheme && self.has_provider(class));
            if is_built_in || checks.iter().any(|other| other.scheme == check.scheme) {
                let scheme = &check.scheme;
                self.problem(
                    key,
                    format!("{key}={value}: another authProvider makes the scheme {scheme}"),
                );
                continue;
            }
            checks.push(check);
        }
        checks
    }

    /// The settings that all of them share.
    pub(super) fn check_limits(&self) -> CheckLimits {
        CheckLimits {
            time_max: self.ms("zebu.authCheck.timeoutMillis"),
            asked_max: self.count("zebu.authCheck.outstanding") as usize,
            cache_time: self.ms("zebu.authCheck.cacheMillis"),
        }
    }
}
