//! Certificates made for a test.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

/// A certificate authority with its key, and a folder for the certificates that it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        Self::named("an authority of a test")
    }

    pub fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let folder = tempfile::tempdir().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    /// The authority's certificate, for trust stores.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Key and certificate of a server with these names and addresses.
    pub fn server(&self, names: &[&str]) -> PathBuf {
        self.sign(&names.concat(), params(names))
    }

    /// Key and certificate of a server, valid only in the past.
    pub fn expired(&self, name: &str) -> PathBuf {
        let mut params = params(&[name]);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
        self.sign("expired", params)
    }

    /// Key and certificate of a client.
    pub fn client(&self, name: &str) -> PathBuf {
        let mut params = params(&[]);
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(name, params)
    }

    fn sign(&self, name: &str, params: CertificateParams) -> PathBuf {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = self.folder.path().join(Path::new(name).with_extension("pem"));
        std::fs::write(&file, key.serialize_pem() + &certificate.pem()).unwrap();
        file
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}
