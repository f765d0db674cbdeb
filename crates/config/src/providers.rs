//! The authentication schemes that `authProvider.*` names: classes of the original that are built in.

use super::build::Reader;
use super::sasl::PROVIDER as SASL;
use super::value;

const DIGEST: &str = "org.apache.zookeeper.server.auth.DigestAuthenticationProvider";
const IP: &str = "org.apache.zookeeper.server.auth.IPAuthenticationProvider";
const KEY: &str = "org.apache.zookeeper.server.auth.KeyAuthenticationProvider";
const ENSEMBLE: &str = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
const NAMES: &str = "ensembleAuthName";

/// Every class that is built in. Naming one of the first two changes nothing.
const CLASSES: [&str; 6] = [DIGEST, IP, KEY, ENSEMBLE, SASL, super::X509_PROVIDER];

/// Whether a value of `authProvider.*` is a scheme that this server has.
pub(super) fn is_known(value: &str) -> bool {
    CLASSES.contains(&value)
}

impl Reader<'_> {
    /// Whether some `authProvider.*` names a class.
    pub(super) fn has_provider(&self, class: &str) -> bool {
        self.family("authProvider").any(|named| named.trim() == class)
    }

    /// Whether there is the scheme `key`.
    pub(super) fn has_key_scheme(&self) -> bool {
        let _ = self.given("authProvider.*");
        self.has_provider(KEY)
    }

    /// The names that clients may give with the scheme `ensemble`, where there is that scheme; none: any.
    ///
    /// Source: `EnsembleAuthenticationProvider.setEnsembleNames`.
    pub(super) fn ensemble_scheme(&self) -> Option<Option<Vec<String>>> {
        // An empty value is a name, too: that of no ensemble.
        let names = self.given(NAMES).map(|given| value::list(given.value()));
        self.has_provider(ENSEMBLE).then_some(names)
    }
}
