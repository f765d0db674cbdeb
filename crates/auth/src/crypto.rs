//! The cryptography of TLS: `ring`, or, with the feature `fips`, the module of AWS-LC that is
//! validated for FIPS 140-3.
//!
//! Only TLS uses it. The ciphers of key stores and the hashes of passwords are from other crates.

use rustls::crypto::CryptoProvider;
#[cfg(feature = "fips")]
pub(crate) use rustls::crypto::aws_lc_rs::cipher_suite;
#[cfg(not(feature = "fips"))]
pub(crate) use rustls::crypto::ring::cipher_suite;

/// Whether this build uses the validated module.
pub const IS_FIPS: bool = cfg!(feature = "fips");

/// The provider of this build, with all its cipher suites.
pub fn provider() -> CryptoProvider {
    #[cfg(feature = "fips")]
    {
        let provider = rustls::crypto::default_fips_provider();
        assert!(provider.fips(), "every algorithm is the validated module's");
        provider
    }
    #[cfg(not(feature = "fips"))]
    rustls::crypto::ring::default_provider()
}
