//! The `digest` scheme: a user name and a hash of name and password.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zebu_proto::Id;

use super::{AuthProvider, Claim, Refused, Verdict};

/// A hash function by its Java name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// `MD2`.
    Md2,
    /// `MD5`.
    Md5,
    /// `SHA1`, the default.
    #[default]
    Sha1,
    /// `SHA-224`.
    Sha224,
    /// `SHA-256`.
    Sha256,
    /// `SHA-384`.
    Sha384,
    /// `SHA-512`.
    Sha512,
    /// `SHA-512/224`.
    Sha512Trunc224,
    /// `SHA-512/256`.
    Sha512Trunc256,
    /// `SHA3-224`.
    Sha3Trunc224,
    /// `SHA3-256`.
    Sha3Trunc256,
    /// `SHA3-384`.
    Sha3Trunc384,
    /// `SHA3-512`.
    Sha3Trunc512,
}

/// A hash function that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown digest algorithm {0:?}; known: MD2, MD5, SHA1, SHA-224, SHA-256, SHA-384, SHA-512, SHA-512/224, SHA-512/256, SHA3-224, SHA3-256, SHA3-384, SHA3-512"
)]
pub struct UnknownAlgorithm(pub String);

impl std::str::FromStr for DigestAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Ok(match name.to_ascii_uppercase().as_str() {
            "MD2" => Self::Md2,
            "MD5" => Self::Md5,
            "SHA" | "SHA1" | "SHA-1" => Self::Sha1,
            "SHA224" | "SHA-224" => Self::Sha224,
            "SHA256" | "SHA-256" => Self::Sha256,
            "SHA384" | "SHA-384" => Self::Sha384,
            "SHA512" | "SHA-512" => Self::Sha512,
            "SHA512/224" | "SHA-512/224" => Self::Sha512Trunc224,
            "SHA512/256" | "SHA-512/256" => Self::Sha512Trunc256,
            "SHA3-224" => Self::Sha3Trunc224,
            "SHA3-256" => Self::Sha3Trunc256,
            "SHA3-384" => Self::Sha3Trunc384,
            "SHA3-512" => Self::Sha3Trunc512,
            _ => return Err(UnknownAlgorithm(name.to_owned())),
        })
    }
}

impl DigestAlgorithm {
    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        fn of<D: sha2::Digest>(bytes: &[u8]) -> Vec<u8> {
            D::digest(bytes).to_vec()
        }
        match self {
            Self::Md2 => of::<md2::Md2>(bytes),
            Self::Md5 => of::<md5::Md5>(bytes),
            Self::Sha1 => of::<sha1::Sha1>(bytes),
            Self::Sha224 => of::<sha2::Sha224>(bytes),
            Self::Sha256 => of::<sha2::Sha256>(bytes),
            Self::Sha384 => of::<sha2::Sha384>(bytes),
            Self::Sha512 => of::<sha2::Sha512>(bytes),
            Self::Sha512Trunc224 => of::<sha2::Sha512_224>(bytes),
            Self::Sha512Trunc256 => of::<sha2::Sha512_256>(bytes),
            Self::Sha3Trunc224 => of::<sha3::Sha3_224>(bytes),
            Self::Sha3Trunc256 => of::<sha3::Sha3_256>(bytes),
            Self::Sha3Trunc384 => of::<sha3::Sha3_384>(bytes),
            Self::Sha3Trunc512 => of::<sha3::Sha3_512>(bytes),
        }
    }

    /// The id of `user:password`: the user name, a colon, and the hash of the whole text in base64.
    ///
    /// Source: `DigestAuthenticationProvider.generateDigest`.
    pub fn id_of(self, credentials: &[u8]) -> String {
        let text = String::from_utf8_lossy(credentials);
        let user = text.split(':').next().unwrap_or_default();
        format!("{user}:{}", STANDARD.encode(self.hash(text.as_bytes())))
    }
}

/// The `digest` scheme.
pub struct Digest {
    algorithm: DigestAlgorithm,
    super_id: Option<String>,
}

impl Digest {
    /// Hashes with `algorithm`. A client with the id `super_id` is the superuser.
    pub fn new(algorithm: DigestAlgorithm, super_id: Option<String>) -> Self {
        Self { algorithm, super_id }
    }
}

impl AuthProvider for Digest {
    fn scheme(&self) -> &str {
        "digest"
    }

    fn authenticate(&self, claim: &Claim<'_>) -> Verdict {
        let id = self.algorithm.id_of(claim.data.ok_or(Refused::Credentials)?);
        let mut ids = Vec::with_capacity(2);
        if self.super_id.as_deref() == Some(id.as_str()) {
            ids.push(Id::new("super", ""));
        }
        ids.push(Id::new("digest", id));
        Ok(ids)
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    /// Two parts around a colon; trailing empty parts do not count.
    fn is_valid(&self, id: &str) -> bool {
        let id = id.trim_end_matches(':');
        id.split(':').count() == 2
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        id == expression
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn user_name<'a>(&self, id: &'a str) -> &'a str {
        id.split(':').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_original() {
        // `amy` and `super` are in the book (ACL-08), `alice` and `bob` were measured.
        for (credentials, hash) in [
            ("alice:secret", "aYXlLOpEooaV1cRAvUL1fp9Qt7E="),
            ("bob:pw", "ikIaKsbtGweaHnb/jKn7OHqbunM="),
            ("amy:secret", "Iq0onHjzb4KyxPAp8YWOIC8zzwY="),
            ("super:asdf", "T+4Qoey4ZZ8Fnni1Yl2GZtbH2W4="),
        ] {
            let user = credentials.split(':').next().unwrap();
            let id = DigestAlgorithm::Sha1.id_of(credentials.as_bytes());
            assert_eq!(id, format!("{user}:{hash}"));
        }
    }

    #[test]
    fn passwords_may_hold_colons_and_users_may_lack_a_password() {
        // From a data directory of the original: the id of `bob:pw:with:colons`.
        let id = DigestAlgorithm::Sha1.id_of(b"bob:pw:with:colons");
        assert_eq!(id, "bob:Y/LfFgTEMzeSdJM371GRzmUOebQ=");
        assert!(DigestAlgorithm::Sha1.id_of(b"lonely").starts_with("lonely:"));
    }

    #[test]
    fn the_super_id_makes_a_superuser() {
        let digest = Digest::new(
            DigestAlgorithm::Sha1,
            Some("super:T+4Qoey4ZZ8Fnni1Yl2GZtbH2W4=".to_owned()),
        );
        let try_with =
            |auth: Option<&[u8]>| digest.authenticate(&Claim::new([127, 0, 0, 1].into(), auth));
        let ids = try_with(Some(b"super:asdf")).unwrap();
        assert!(ids.contains(&Id::new("super", "")));
        assert_eq!(try_with(Some(b"super:nope")).unwrap().len(), 1);
        assert_eq!(try_with(None), Err(Refused::Credentials));
    }

    #[test]
    fn every_java_name_is_known() {
        for name in
            ["SHA1", "SHA-1", "SHA-256", "sha-512", "SHA-512/256", "SHA3-256", "SHA3-512", "MD5"]
        {
            name.parse::<DigestAlgorithm>().unwrap();
        }
        "SHA-999".parse::<DigestAlgorithm>().unwrap_err();
    }
}
