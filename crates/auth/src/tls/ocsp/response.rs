//! The bytes of OCSP: a request for one certificate, and the response to it.
//!
//! Source: RFC 6960, sections 4.1 and 4.2. As in Java, a request has no nonce: a response is valid
//! between its dates.

use jiff::Timestamp;
use rustls::crypto::WebPkiSupportedAlgorithms;

use super::{CLOCK_SKEW, CertificateId, Issuer, ResponderFault};
use crate::certificate::{Facts, Parts, bits, time};
use crate::der::{
    BIT_STRING, BOOLEAN, DerError, INTEGER, OCTET_STRING, OID, Reader, SEQUENCE, context, oid_text,
};
use crate::tls::version1::Key;

const ENUMERATED: u8 = 0x0a;
const NULL: [u8; 2] = [0x05, 0];
const GENERALIZED_TIME: u8 = 0x18;
/// The status of a response that has an answer.
const SUCCESSFUL: u8 = 0;
const GOOD: u8 = 0x80;
const REVOKED: u8 = 0xa1;
const UNKNOWN: u8 = 0x82;
/// The identifier of SHA-1, which is used to identify certificates.
const SHA1: [u8; 5] = [0x2b, 0x0e, 0x03, 0x02, 0x1a];
const BASIC: &str = "1.3.6.1.5.5.7.48.1.1";
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
const OCSP_SIGNING: &str = "1.3.6.1.5.5.7.3.9";
/// Maximum number of responder certificates in a response.
const SIGNERS_MAX: usize = 8;

/// The responder's answer about a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// The certificate is not revoked.
    Good,
    /// The certificate is revoked, since this time.
    Revoked(Timestamp),
}

/// Encodes an element in DER.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    if length < 0x80 {
        bytes.push(length as u8);
    } else {
        let digits = length.to_be_bytes();
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        bytes.push(0x80 | (digits.len() - zeros) as u8);
        bytes.extend_from_slice(&digits[zeros..]);
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// The request for one certificate.
pub(super) fn request(id: &CertificateId) -> Vec<u8> {
    let algorithm = element(SEQUENCE, &[&element(OID, &[&SHA1]), &NULL]);
    let id = element(
        SEQUENCE,
        &[
            &algorithm,
            &element(OCTET_STRING, &[&id.issuer_name_hash]),
            &element(OCTET_STRING, &[&id.issuer_key_hash]),
            &element(INTEGER, &[&id.serial]),
        ],
    );
    [SEQUENCE; 4].iter().fold(id, |inside, tag| element(*tag, &[&inside]))
}

/// A response that contains an answer.
#[derive(Debug)]
pub(super) struct Response<'a> {
    /// The bytes that the responder has signed.
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    /// Certificates of responders, each as a whole.
    signers: Vec<&'a [u8]>,
    /// The answers, one after the other.
    answers: Reader<'a>,
}

type Judged<T> = Result<T, ResponderFault>;

fn garbled(error: DerError) -> ResponderFault {
    ResponderFault::Garbled(error.to_string())
}

impl<'a> Response<'a> {
    /// Parses a response.
    ///
    /// # Errors
    /// The bytes are not a response, or the response has no answer.
    pub(super) fn read(bytes: &'a [u8]) -> Judged<Self> {
        let (status, content) = Self::outside(bytes).map_err(garbled)?;
        if status != SUCCESSFUL {
            return Err(ResponderFault::Refused(status));
        }
        let content = content.ok_or(ResponderFault::NoAnswer)?;
        Self::inside(content).map_err(garbled)
    }

    fn outside(bytes: &'a [u8]) -> Result<(u8, Option<&'a [u8]>), DerError> {
        let mut outer = Reader::new(bytes);
        let mut response = outer.inside(SEQUENCE)?;
        if !outer.is_empty() {
            return Err(DerError::Value);
        }
        let [status] = *response.expect(ENUMERATED)? else { return Err(DerError::Value) };
        let Some(content) = response.optional(context(0))? else { return Ok((status, None)) };
        let mut content = Reader::new(content).inside(SEQUENCE)?;
        if oid_text(content.expect(OID)?).as_deref() != Some(BASIC) {
            return Err(DerError::Value);
        }
        Ok((status, Some(content.expect(OCTET_STRING)?)))
    }

    fn inside(content: &'a [u8]) -> Result<Self, DerError> {
        let mut basic = Reader::new(content).inside(SEQUENCE)?;
        let data = basic.any()?;
        if data.tag != SEQUENCE {
            return Err(DerError::Tag { want: SEQUENCE, got: data.tag });
        }
        let algorithm = basic.expect(SEQUENCE)?;
        let signature = bits(basic.expect(BIT_STRING)?)?;
        let mut signers = Vec::new();
        if let Some(certificates) = basic.optional(context(0))? {
            let mut certificates = Reader::new(certificates).inside(SEQUENCE)?;
            while !certificates.is_empty() && signers.len() < SIGNERS_MAX {
                signers.push(certificates.any()?.whole);
            }
        }
        let mut fields = Reader::new(data.content);
        fields.optional(context(0))?; // The version.
        fields.any()?; // The responder's id; its signature says who it is.
        fields.expect(GENERALIZED_TIME)?; // When it was made.
        let answers = fields.inside(SEQUENCE)?;
        if let Some(extensions) = fields.optional(context(1))? {
            none_is_critical(extensions)?;
        }
        Ok(Self { signed: data.whole, algorithm, signature, signers, answers })
    }

    /// The status of a certificate, and its period of validity.
    ///
    /// # Errors
    /// There is no acceptable answer.
    pub(super) fn judge(
        &self,
        id: &CertificateId,
        issuer: &Issuer,
        algorithms: &WebPkiSupportedAlgorithms,
        now: Timestamp,
    ) -> Judged<(Status, Option<Timestamp>)> {
        if !self.is_signed(issuer, algorithms, now) {
            return Err(ResponderFault::Unsigned);
        }
        let mut answers = self.answers;
        while !answers.is_empty() {
            let mut answer = answers.inside(SEQUENCE).map_err(garbled)?;
            if !is_about(answer.inside(SEQUENCE).map_err(garbled)?, id).map_err(garbled)? {
                continue;
            }
            let (status, from, until) = dated(answer).map_err(garbled)?;
            // Without a next date, the answer counts as current.
            let last = until.unwrap_or(from);
            if now + CLOCK_SKEW < from || last < now - CLOCK_SKEW {
                let now = now.round(jiff::Unit::Second).unwrap_or(now);
                return Err(ResponderFault::OutOfDate { from, last, now });
            }
            return match status {
                Some(status) => Ok((status, until)),
                None => Err(ResponderFault::UnknownCertificate),
            };
        }
        Err(ResponderFault::OtherCertificate)
    }

    fn is_signed(
        &self,
        issuer: &Issuer,
        algorithms: &WebPkiSupportedAlgorithms,
        now: Timestamp,
    ) -> bool {
        let Some(authority) = Key::of_whole(&issuer.key) else { return false };
        let signs =
            |key: &Key<'_>| key.has_signed(algorithms, self.algorithm, self.signed, self.signature);
        if signs(&authority) {
            return true;
        }
        self.signers.iter().any(|signer| {
            let Ok(parts) = Parts::of(signer) else { return false };
            parts.issuer == issuer.name
                && signs_responses(&parts).unwrap_or(false)
                && Facts::of(signer).is_ok_and(|facts| facts.check_dates(now).is_ok())
                && Key::of_whole(parts.public_key).is_some_and(|key| signs(&key))
                && authority.has_signed(algorithms, parts.algorithm, parts.signed, parts.signature)
        })
    }
}

/// Whether a certificate is that of a responder.
fn signs_responses(certificate: &Parts<'_>) -> Result<bool, DerError> {
    let Some(usages) = certificate.extension(EXTENDED_KEY_USAGE)? else { return Ok(false) };
    let mut usages = Reader::new(usages).inside(SEQUENCE)?;
    while !usages.is_empty() {
        if oid_text(usages.expect(OID)?).as_deref() == Some(OCSP_SIGNING) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_about(mut named: Reader<'_>, id: &CertificateId) -> Result<bool, DerError> {
    let algorithm = named.inside(SEQUENCE)?.expect(OID)?;
    let name = named.expect(OCTET_STRING)?;
    let key = named.expect(OCTET_STRING)?;
    let serial = named.expect(INTEGER)?;
    Ok(algorithm == SHA1
        && name == id.issuer_name_hash
        && key == id.issuer_key_hash
        && serial == id.serial)
}

/// The rest of an answer: the status, unless the responder does not know it, and its dates.
fn dated(
    mut answer: Reader<'_>,
) -> Result<(Option<Status>, Timestamp, Option<Timestamp>), DerError> {
    let status = answer.any()?;
    let status = match status.tag {
        GOOD => Some(Status::Good),
        REVOKED => Some(Status::Revoked(time(&mut Reader::new(status.content))?)),
        UNKNOWN => None,
        got => return Err(DerError::Tag { want: GOOD, got }),
    };
    let from = time(&mut answer)?;
    let until = match answer.optional(context(0))? {
        Some(next) => Some(time(&mut Reader::new(next))?),
        None => None,
    };
    if let Some(extensions) = answer.optional(context(1))? {
        none_is_critical(extensions)?;
    }
    Ok((status, from, until))
}

/// A critical extension that is not supported makes a response invalid.
fn none_is_critical(extensions: &[u8]) -> Result<(), DerError> {
    let mut extensions = Reader::new(extensions).inside(SEQUENCE)?;
    while !extensions.is_empty() {
        let mut extension = extensions.inside(SEQUENCE)?;
        extension.expect(OID)?;
        if extension.optional(BOOLEAN)?.is_some_and(|critical| critical != [0]) {
            return Err(DerError::Value);
        }
    }
    Ok(())
}
