//! PKCS12, as keytool and OpenSSL write it: a MAC over everything, encrypted bags with
//! certificates, and shrouded keys.
//!
//! Source: RFC 7292, RFC 9579 (MACs with PBKDF2). The number of rounds is limited to
//! [`pbe::ROUNDS_MAX`].

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{Contents, Fault, KeyBytes, pem};
use crate::der::{DerError, OCTET_STRING, OID, Reader, SEQUENCE, SET, context, oid_text};
use crate::pbe::{self, Hash, Password, PbeError};

const DATA: &str = "1.2.840.113549.1.7.1";
const ENCRYPTED_DATA: &str = "1.2.840.113549.1.7.6";
const KEY_BAG: &str = "1.2.840.113549.1.12.10.1.1";
const SHROUDED_KEY_BAG: &str = "1.2.840.113549.1.12.10.1.2";
const CERTIFICATE_BAG: &str = "1.2.840.113549.1.12.10.1.3";
const X509: &str = "1.2.840.113549.1.9.22.1";
const LOCAL_KEY_ID: &str = "1.2.840.113549.1.9.21";

impl From<PbeError> for Fault {
    fn from(error: PbeError) -> Self {
        match error {
            PbeError::Password => Self::password(true),
            PbeError::Der(error) => Self::damaged("PKCS12", error),
            PbeError::Scheme(_) | PbeError::Rounds(_) => Self::new(
                error.to_string(),
                "make it again: keytool -importkeystore -deststoretype PKCS12",
            ),
        }
    }
}

impl From<DerError> for Fault {
    fn from(error: DerError) -> Self {
        Self::damaged("PKCS12", error)
    }
}

/// The content of the bags, before keys and certificates are matched.
#[derive(Default)]
struct Bags {
    /// A key and its id.
    keys: Vec<(KeyBytes, Option<Vec<u8>>)>,
    /// A certificate and its id.
    certificates: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

pub(super) fn contents(
    bytes: &[u8],
    password: Option<&Password>,
    rounds_max: u32,
) -> Result<Contents, Fault> {
    let empty = Password::new(b"", rounds_max);
    // Without a password, the empty one is tried, as with openssl's "pass:".
    let tried = password.unwrap_or(&empty);
    read(bytes, tried).map_err(|fault| {
        let is_wrong = fault == Fault::password(true);
        if is_wrong && password.is_none() { Fault::password(false) } else { fault }
    })
}

fn read(bytes: &[u8], password: &Password) -> Result<Contents, Fault> {
    let mut pfx = Reader::new(bytes).inside(SEQUENCE)?;
    let version = pfx.number()?;
    if version != 3 {
        return Err(Fault::damaged("PKCS12", format_args!("unknown version {version}")));
    }
    let mut outer = pfx.inside(SEQUENCE)?;
    if oid_text(outer.expect(OID)?).as_deref() != Some(DATA) {
        return Err(Fault::new(
            "it is signed and not protected by a password",
            "make it again with a password",
        ));
    }
    let safes = outer.inside(context(0))?.expect(OCTET_STRING)?;
    if let Some(mac) = pfx.optional(SEQUENCE)?
        && !is_authentic(mac, password, safes)?
    {
        return Err(Fault::password(true));
    }
    let mut bags = Bags::default();
    let mut safes = Reader::new(safes).inside(SEQUENCE)?;
    while !safes.is_empty() {
        let mut safe = safes.inside(SEQUENCE)?;
        let kind = oid_text(safe.expect(OID)?).unwrap_or_default();
        let mut content = safe.inside(context(0))?;
        match kind.as_str() {
            DATA => read_bags(content.expect(OCTET_STRING)?, password, &mut bags)?,
            ENCRYPTED_DATA => {
                let mut encrypted = content.inside(SEQUENCE)?;
                encrypted.number()?;
                let mut info = encrypted.inside(SEQUENCE)?;
                info.expect(OID)?;
                let algorithm = info.expect(SEQUENCE)?;
                let data = info.expect(0x80)?;
                let plain = pbe::decrypt(algorithm, password, data)?;
                // Padding can be valid by chance. Only a store without a MAC gets here with a wrong
                // password.
                if Reader::new(&plain).inside(SEQUENCE).is_err() {
                    return Err(Fault::password(true));
                }
                read_bags(&plain, password, &mut bags)?;
            }
            _ => {
                return Err(Fault::new(
                    "part of it is encrypted for a certificate instead of a password",
                    "make it again with a password",
                ));
            }
        }
    }
    Ok(together(bags))
}

fn is_authentic(mac: &[u8], password: &Password, safes: &[u8]) -> Result<bool, Fault> {
    let mut mac = Reader::new(mac);
    let mut info = mac.inside(SEQUENCE)?;
    let mut algorithm = info.inside(SEQUENCE)?;
    let oid = oid_text(algorithm.expect(OID)?).ok_or(DerError::Value)?;
    let expected = info.expect(OCTET_STRING)?;
    let salt = mac.expect(OCTET_STRING)?;
    let rounds = if mac.is_empty() { 1 } else { mac.number()? };
    let (hash, key) = if oid == "1.2.840.113549.1.5.14" {
        // PBMAC1 does not use the rounds and the salt above.
        let mut parameters = algorithm.inside(SEQUENCE)?;
        let mut derivation = parameters.inside(SEQUENCE)?;
        derivation.expect(OID)?;
        let mut pbkdf2 = derivation.inside(SEQUENCE)?;
        let salt = pbkdf2.expect(OCTET_STRING)?;
        let rounds = pbe::rounds(pbkdf2.number()?, password)?;
        let length = usize::try_from(pbkdf2.number()?).unwrap_or(usize::MAX);
        if length > 128 {
            return Err(DerError::Value.into());
        }
        let derive = pbe::prf(&mut pbkdf2)?;
        let hash = pbe::prf(&mut parameters)?;
        let mut key = Zeroizing::new(vec![0; length]);
        derive.pbkdf2(password.bytes(), salt, rounds, &mut key);
        (hash, key)
    } else {
        let hash = Hash::of(&oid).ok_or(PbeError::Scheme(oid))?;
        let rounds = pbe::rounds(rounds, password)?;
        (hash, hash.pkcs12(password, salt, rounds, 3, hash.output()))
    };
    Ok(hash.hmac(&key, safes).ct_eq(expected).into())
}

fn read_bags(bytes: &[u8], password: &Password, bags: &mut Bags) -> Result<(), Fault> {
    let mut reader = Reader::new(bytes).inside(SEQUENCE)?;
    while !reader.is_empty() {
        let mut bag = reader.inside(SEQUENCE)?;
        let kind = oid_text(bag.expect(OID)?).unwrap_or_default();
        let value = bag.expect(context(0))?;
        let id = local_key_id(&mut bag)?;
        match kind.as_str() {
            KEY_BAG => bags.keys.push((Zeroizing::new(value.to_vec()), id)),
            SHROUDED_KEY_BAG => bags.keys.push((pem::decrypted(value, password)?, id)),
            CERTIFICATE_BAG => {
                let mut certificate = Reader::new(value).inside(SEQUENCE)?;
                if oid_text(certificate.expect(OID)?).as_deref() == Some(X509) {
                    let der = certificate.inside(context(0))?.expect(OCTET_STRING)?;
                    bags.certificates.push((der.to_vec(), id));
                }
            }
            _ => {} // Revocation lists and secrets are not used.
        }
    }
    Ok(())
}

fn local_key_id(bag: &mut Reader<'_>) -> Result<Option<Vec<u8>>, DerError> {
    let Some(attributes) = bag.optional(SET)? else { return Ok(None) };
    let mut attributes = Reader::new(attributes);
    while !attributes.is_empty() {
        let mut attribute = attributes.inside(SEQUENCE)?;
        if oid_text(attribute.expect(OID)?).as_deref() == Some(LOCAL_KEY_ID) {
            return attribute.inside(SET)?.expect(OCTET_STRING).map(|id| Some(id.to_vec()));
        }
    }
    Ok(None)
}

/// Assigns each key its certificate, by id, and the certificates of the issuers, by name.
fn together(bags: Bags) -> Contents {
    use crate::certificate::Facts;
    let mut contents = Contents::default();
    let facts: Vec<Option<Facts>> =
        bags.certificates.iter().map(|(der, _)| Facts::of(der).ok()).collect();
    let mut is_of_chain = vec![false; bags.certificates.len()];
    for (key, id) in bags.keys {
        let own = bags.certificates.iter().position(|(_, other)| id.is_some() && *other == id);
        let mut chain = Vec::new();
        let mut next = own.or((!bags.certificates.is_empty()).then_some(0));
        while let Some(at) = next {
            chain.push(bags.certificates[at].0.clone());
            is_of_chain[at] = true;
            next = facts[at].as_ref().filter(|own| own.issuer != own.subject).and_then(|own| {
                facts.iter().zip(&is_of_chain).position(|(other, is_used)| {
                    !is_used && other.as_ref().is_some_and(|other| other.subject == own.issuer)
                })
            });
        }
        contents.identities.push((key, chain));
    }
    let rest = bags.certificates.into_iter().zip(is_of_chain);
    contents.certificates.extend(rest.filter(|(_, is_used)| !is_used).map(|((der, _), _)| der));
    contents
}
