//! The content of a certificate: its subject as Java prints it, its alternative names, and its
//! dates.
//!
//! This module makes no decision: rustls decides whether a certificate is trusted. Bytes that are
//! not a certificate are an error.

mod name;

use std::net::IpAddr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::der::{
    BIT_STRING, DerError, INTEGER, OCTET_STRING, OID, Reader, SEQUENCE, context, oid_text,
};

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SUBJECT_ALT_NAME: &str = "2.5.29.17";

/// A certificate that is not valid at a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatesFault {
    /// It will be valid later.
    #[error(
        "the certificate of {subject:?} is not valid yet: it is valid from {from} to {until}, now is {now}"
    )]
    NotYet {
        /// The holder.
        subject: String,
        /// The first moment at which it is valid.
        from: Timestamp,
        /// The last moment at which it is valid.
        until: Timestamp,
        /// The time, in whole seconds.
        now: Timestamp,
    },
    /// It was valid earlier.
    #[error(
        "the certificate of {subject:?} has expired: it was valid from {from} to {until}, now is {now}"
    )]
    Expired {
        /// The holder.
        subject: String,
        /// The first moment at which it was valid.
        from: Timestamp,
        /// The last moment at which it was valid.
        until: Timestamp,
        /// The time, in whole seconds.
        now: Timestamp,
    },
}

/// Bytes that are not a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an X.509 certificate: {0}")]
pub struct NotACertificate(String);

impl From<DerError> for NotACertificate {
    fn from(error: DerError) -> Self {
        Self(error.to_string())
    }
}

/// The parts of a certificate, unparsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// The bytes that the issuer has signed.
    pub(crate) signed: &'a [u8],
    /// The algorithm of the issuer's signature: the content of an `AlgorithmIdentifier`.
    pub(crate) algorithm: &'a [u8],
    /// The issuer's signature.
    pub(crate) signature: &'a [u8],
    /// The version, 1 to 3.
    pub(crate) version: u32,
    /// The content of the serial number.
    pub(crate) serial: &'a [u8],
    /// The issuer's name, without tag and length.
    pub(crate) issuer: &'a [u8],
    /// The two dates.
    pub(crate) validity: &'a [u8],
    /// The holder's name, without tag and length.
    pub(crate) subject: &'a [u8],
    /// The whole `SubjectPublicKeyInfo`.
    pub(crate) public_key: &'a [u8],
    extensions: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// The bytes are not a certificate.
    pub(crate) fn of(der: &'a [u8]) -> Result<Self, NotACertificate> {
        let mut outer = Reader::new(der);
        let mut certificate = outer.inside(SEQUENCE)?;
        if !outer.is_empty() {
            return Err(NotACertificate("bytes follow it".to_owned()));
        }
        let signed = certificate.any()?;
        if signed.tag != SEQUENCE {
            return Err(DerError::Tag { want: SEQUENCE, got: signed.tag }.into());
        }
        let algorithm = certificate.expect(SEQUENCE)?;
        let signature = bits(certificate.expect(BIT_STRING)?)?;
        let mut tbs = Reader::new(signed.content);
        let version = match tbs.optional(context(0))? {
            Some(version) => Reader::new(version).number()?.saturating_add(1),
            None => 1,
        };
        let serial = tbs.expect(INTEGER)?;
        if tbs.expect(SEQUENCE)? != algorithm {
            return Err(NotACertificate("it names two algorithms for its signature".to_owned()));
        }
        let issuer = tbs.expect(SEQUENCE)?;
        let validity = tbs.expect(SEQUENCE)?;
        let subject = tbs.expect(SEQUENCE)?;
        let public_key = tbs.any()?;
        if public_key.tag != SEQUENCE {
            return Err(DerError::Tag { want: SEQUENCE, got: public_key.tag }.into());
        }
        let mut extensions = None;
        while !tbs.is_empty() {
            let element = tbs.any()?;
            if element.tag == context(3) {
                extensions = Some(element.content);
            }
        }
        Ok(Self {
            signed: signed.whole,
            algorithm,
            signature,
            version,
            serial,
            issuer,
            validity,
            subject,
            public_key: public_key.whole,
            extensions,
        })
    }

    /// The value of the extension with this identifier, if there is one.
    ///
    /// # Errors
    /// The extensions cannot be read.
    pub(crate) fn extension(&self, identifier: &str) -> Result<Option<&'a [u8]>, DerError> {
        let Some(extensions) = self.extensions else { return Ok(None) };
        let mut extensions = Reader::new(extensions).inside(SEQUENCE)?;
        let mut found = None;
        while !extensions.is_empty() {
            let mut extension = extensions.inside(SEQUENCE)?;
            let oid = oid_text(extension.expect(OID)?);
            extension.optional(crate::der::BOOLEAN)?;
            let value = extension.expect(OCTET_STRING)?;
            if oid.as_deref() == Some(identifier) {
                found = Some(value);
            }
        }
        Ok(found)
    }
}

/// The bytes of a bit string of whole bytes.
pub(crate) fn bits(content: &[u8]) -> Result<&[u8], DerError> {
    content.strip_prefix(&[0]).ok_or(DerError::Value)
}

/// The facts of a certificate about its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The subject as `X500Principal.getName()` prints it, which is the id of the scheme `x509`.
    pub subject: String,
    /// The issuer in the same form.
    pub issuer: String,
    /// The subject's most specific common name.
    pub common_name: Option<String>,
    /// DNS names of the subject alternative names, unchanged.
    pub dns_names: Vec<String>,
    /// Addresses of the subject alternative names.
    pub addresses: Vec<IpAddr>,
    /// The start of its validity.
    pub not_before: Timestamp,
    /// The end of its validity.
    pub not_after: Timestamp,
    /// Whether it has subject alternative names of any kind. If it has, its common name is not a
    /// host name.
    pub has_alternative_names: bool,
}

impl Facts {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// The bytes are not a certificate.
    pub fn of(der: &[u8]) -> Result<Self, NotACertificate> {
        let parts = Parts::of(der)?;
        let issuer = name::Name::read(parts.issuer)?;
        let subject = name::Name::read(parts.subject)?;
        let mut validity = Reader::new(parts.validity);
        let not_before = time(&mut validity)?;
        let not_after = time(&mut validity)?;
        let mut facts = Self {
            subject: subject.rfc2253(),
            issuer: issuer.rfc2253(),
            common_name: subject.common_name(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            not_before,
            not_after,
            has_alternative_names: false,
        };
        if let Some(names) = parts.extension(SUBJECT_ALT_NAME)? {
            facts.alternative_names(Reader::new(names).inside(SEQUENCE)?)?;
        }
        Ok(facts)
    }

    fn alternative_names(&mut self, mut names: Reader<'_>) -> Result<(), DerError> {
        while !names.is_empty() {
            self.has_alternative_names = true;
            let name = names.any()?;
            match name.tag {
                0x82 => self.dns_names.push(String::from_utf8_lossy(name.content).into_owned()),
                0x87 => self.addresses.push(address(name.content).ok_or(DerError::Value)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether it is valid at this time, judged only by its dates.
    ///
    /// # Errors
    /// It is not valid yet, or has expired.
    pub fn check_dates(&self, now: Timestamp) -> Result<(), DatesFault> {
        let Self { not_before: from, not_after: until, .. } = *self;
        let subject = || self.subject.clone();
        if now < from {
            return Err(DatesFault::NotYet { subject: subject(), from, until, now: whole(now) });
        }
        if now > until {
            return Err(DatesFault::Expired { subject: subject(), from, until, now: whole(now) });
        }
        Ok(())
    }
}

fn whole(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// `UTCTime` or `GeneralizedTime`, which certificates write with seconds and in UTC.
pub(crate) fn time(reader: &mut Reader<'_>) -> Result<Timestamp, DerError> {
    let element = reader.any()?;
    let year_digits = match element.tag {
        UTC_TIME => 2,
        GENERALIZED_TIME => 4,
        got => return Err(DerError::Tag { want: UTC_TIME, got }),
    };
    let text = std::str::from_utf8(element.content).map_err(|_| DerError::Value)?;
    let digits = text.strip_suffix('Z').ok_or(DerError::Value)?;
    if digits.len() != year_digits + 10 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DerError::Value);
    }
    let (year, rest) = digits.split_at(year_digits);
    let year: i16 = year.parse().map_err(|_| DerError::Value)?;
    let year = match (year_digits, year) {
        (2, 0..50) => 2000 + year,
        (2, _) => 1900 + year,
        _ => year,
    };
    let part = |at: usize| rest[2 * at..2 * at + 2].parse::<i8>().map_err(|_| DerError::Value);
    let civil = DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0)
        .map_err(|_| DerError::Value)?;
    civil.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()).map_err(|_| DerError::Value)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test reads the fixtures")]

    use super::*;
    use crate::store::pem;

    fn facts(name: &str) -> Facts {
        Facts::of(&file(name)).unwrap()
    }

    fn file(name: &str) -> Vec<u8> {
        let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read(path).unwrap();
        let blocks = pem::blocks(&text).unwrap();
        let block = blocks.iter().find(|block| block.label == "CERTIFICATE").unwrap();
        block.der.to_vec()
    }

    #[test]
    fn subjects_are_printed_as_java_prints_them() {
        let table = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/names.txt");
        let table = std::fs::read_to_string(table).unwrap();
        assert!(table.lines().count() >= 6);
        for line in table.lines() {
            let mut columns = line.split('\t');
            let (file, name) = (columns.next().unwrap(), columns.next().unwrap());
            // Java prints an unprintable zero as text; the file contains Java's output.
            assert_eq!(facts(file).subject, name, "{file}");
        }
    }

    #[test]
    fn alternative_names_and_dates_are_those_that_openssl_was_given() {
        let server = facts("server.pem");
        assert_eq!(server.dns_names, ["zk1.example.org", "*.wild.example.org", "localhost"]);
        assert_eq!(
            server.addresses,
            ["127.0.0.1".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]
        );
        assert_eq!(server.common_name.as_deref(), Some("zk1.example.org"));
        let certificate = file("server.pem");
        assert_eq!(Parts::of(&certificate).unwrap().version, 3);
        let expired = facts("expired.pem");
        assert_eq!(expired.not_before.to_string(), "2020-01-01T00:00:00Z");
        assert_eq!(expired.not_after.to_string(), "2020-02-01T00:00:00Z");
        let future = facts("future.pem");
        assert_eq!(future.not_before.to_string(), "2090-01-01T00:00:00Z");
    }

    #[test]
    fn a_certificate_out_of_its_dates_is_refused_with_both_dates() {
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let expired = facts("expired.pem").check_dates(now).unwrap_err().to_string();
        assert_eq!(
            expired,
            "the certificate of \"CN=expired\" has expired: it was valid from 2020-01-01T00:00:00Z to \
             2020-02-01T00:00:00Z, now is 2026-01-01T00:00:00Z"
        );
        let future = facts("future.pem").check_dates(now).unwrap_err().to_string();
        assert!(
            future.contains("not valid yet: it is valid from 2090-01-01T00:00:00Z"),
            "{future}"
        );
    }

    #[test]
    fn other_bytes_are_no_certificate() {
        assert!(Facts::of(b"").is_err());
        assert!(Facts::of(b"hello").is_err());
        assert!(Facts::of(&[0x30, 3, 0x30, 1, 0]).is_err());
    }
}
