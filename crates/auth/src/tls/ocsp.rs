//! OCSP: the requests for the certificates of a handshake, and the meaning of the responders'
//! answers.
//!
//! This module owns neither socket nor clock. After the handshake, its owner takes the
//! [`Question`]s of a chain, sends each to its responder, and returns the answers. A certificate is
//! refused unless the answer is "good", or revocation lists find it good. Each certificate below a
//! trusted one is checked, as in Java with `ocsp.enable`.
//!
//! Source: RFC 6960; `sun.security.provider.certpath.RevocationChecker`, `OCSPResponse`.

mod fault;
pub mod http;
mod response;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier as _;
use rustls::{CertificateError, Error};
use sha1::{Digest as _, Sha1};

use super::TlsError;
use super::verify::{AnyClient, AnyServer, Trust};
use super::version1::Key;
use crate::certificate::{Facts, Parts};
use crate::der::{DerError, OID, Reader, SEQUENCE, oid_text};
pub use fault::{NoPlace, ResponderFault, Unknown, UrlFault};
use http::Place;
use response::{Response, Status};

/// Maximum number of certificates in the other side's chain.
const CHAIN_MAX: usize = 10;
/// Maximum number of cached answers.
const ANSWERS_MAX: usize = 4096;
/// Maximum time that an answer is cached. A revocation takes effect within that time.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);
/// Maximum difference of clocks. Java's default.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(15);

const AUTHORITY_INFORMATION_ACCESS: &str = "1.3.6.1.5.5.7.1.1";
const OCSP: &str = "1.3.6.1.5.5.7.48.1";
/// The general name that is a URI.
const URI: u8 = 0x86;

/// The side that presented the certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The connecting side.
    Client,
    /// The accepting side.
    Server,
}

/// Why a certificate is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OcspError {
    /// The certificate is revoked.
    #[error(
        "the certificate of {subject:?} was revoked at {since}, according to its responder {responder}"
    )]
    Revoked {
        /// The holder.
        subject: String,
        /// The time of the revocation.
        since: Timestamp,
        /// The responder.
        responder: String,
    },
    /// Neither a responder nor a list finds it good.
    #[error("whether the certificate of {subject:?} is revoked is not known: {why}")]
    Unclear {
        /// The holder.
        subject: String,
        /// The reason.
        why: Unknown,
    },
    /// The chain cannot be checked.
    #[error("no responder can be asked about its certificates: {0}")]
    Chain(&'static str),
}

/// The identification of a certificate in a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CertificateId {
    issuer_name_hash: [u8; 20],
    issuer_key_hash: [u8; 20],
    serial: Vec<u8>,
}

/// One request about one certificate to one responder.
#[derive(Debug, Clone)]
pub struct Question {
    id: CertificateId,
    subject: String,
    /// The responder's address, or the reason why there is none.
    place: Result<Place, NoPlace>,
    issuer: Issuer,
}

/// The issuer of a certificate, which also signs its OCSP answers or the certificate of its
/// responder.
#[derive(Debug, Clone)]
struct Issuer {
    /// The content of its name.
    name: Vec<u8>,
    /// Its whole `SubjectPublicKeyInfo`.
    key: Vec<u8>,
}

impl Question {
    /// The responder's address.
    ///
    /// # Errors
    /// The certificate names no responder with a supported address.
    pub fn place(&self) -> Result<&Place, &NoPlace> {
        self.place.as_ref()
    }

    /// The request, in DER.
    pub fn request(&self) -> Vec<u8> {
        response::request(&self.id)
    }
}

/// The result for a certificate so far, and the time until which it is valid.
#[derive(Debug, Clone)]
struct Known {
    status: Status,
    until: Timestamp,
}

/// The trusted certificates below which others are checked, and the cached answers.
#[derive(Debug)]
pub struct Ocsp {
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// The revocation lists for certificates of clients and of servers, used if no responder
    /// answers.
    lists: Option<(Arc<AnyClient>, Arc<AnyServer>)>,
    answers: Mutex<BTreeMap<CertificateId, Known>>,
}

impl Ocsp {
    /// Checks certificates below these. `revocations`: lists that decide if a responder does not.
    ///
    /// # Errors
    /// A certificate or a list cannot be used.
    pub fn new(
        trusted: &[CertificateDer<'static>],
        revocations: &[CertificateRevocationListDer<'static>],
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(crate::crypto::provider());
        let trust = || Trust::new(trusted, revocations, None, provider.clone());
        let lists = match revocations {
            [] => None,
            _ => Some((trust()?.for_clients(true)?, trust()?.for_servers(false)?)),
        };
        let algorithms = provider.signature_verification_algorithms;
        Ok(Self { trusted: trusted.to_vec(), algorithms, lists, answers: Mutex::default() })
    }

    /// The requests to make before this chain, which a handshake has verified, is accepted.
    ///
    /// # Errors
    /// One of its certificates is known to be revoked, or the chain cannot be parsed.
    pub fn questions(
        &self,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<Vec<Question>, OcspError> {
        let mut open: Vec<Question> = Vec::new();
        for question in self.all_questions(chain)? {
            if open.iter().any(|other| other.id == question.id) {
                continue;
            }
            match self.known(&question.id, now) {
                Some(status) => question.verdict(&status)?,
                None => open.push(question),
            }
        }
        Ok(open)
    }

    /// Every certificate of the chain that leads to a trusted one, with its issuer. If several
    /// issuers have the same name and key, each of them counts, because a handshake may have used
    /// any of them.
    fn all_questions(&self, chain: &[CertificateDer<'_>]) -> Result<Vec<Question>, OcspError> {
        const UNREADABLE: OcspError = OcspError::Chain("one of them cannot be read");
        if chain.len() > CHAIN_MAX {
            return Err(OcspError::Chain("there are more than ten"));
        }
        let read = |der: &'_ CertificateDer<'_>| Parts::of(der).map(drop).map_err(|_| UNREADABLE);
        chain.iter().try_for_each(read)?;
        let parts: Vec<Parts<'_>> = chain.iter().filter_map(|der| Parts::of(der).ok()).collect();
        let trusted: Vec<Parts<'_>> =
            self.trusted.iter().filter_map(|der| Parts::of(der).ok()).collect();
        let mut questions = Vec::new();
        let mut seen = vec![false; chain.len()];
        let mut next = vec![0];
        while let Some(at) = next.pop() {
            let (Some(own), Some(der)) = (parts.get(at), chain.get(at)) else { continue };
            if std::mem::replace(&mut seen[at], true) || self.trusted.contains(der) {
                continue;
            }
            if let Some(issuer) = trusted.iter().find(|issuer| self.has_signed(issuer, own)) {
                questions.push(Question::of(der, own, issuer).map_err(|_| UNREADABLE)?);
                continue;
            }
            let before = questions.len();
            for (other, issuer) in parts.iter().enumerate().skip(1) {
                if other != at && self.has_signed(issuer, own) {
                    questions.push(Question::of(der, own, issuer).map_err(|_| UNREADABLE)?);
                    next.push(other);
                }
            }
            if at == 0 && questions.len() == before {
                return Err(OcspError::Chain("its issuer is missing"));
            }
        }
        Ok(questions)
    }

    fn has_signed(&self, issuer: &Parts<'_>, certificate: &Parts<'_>) -> bool {
        let Parts { algorithm, signed, signature, .. } = *certificate;
        issuer.subject == certificate.issuer
            && Key::of_whole(issuer.public_key)
                .is_some_and(|key| key.has_signed(&self.algorithms, algorithm, signed, signature))
    }

    fn known(&self, id: &CertificateId, now: Timestamp) -> Option<Status> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(id).filter(|known| now < known.until).map(|known| known.status)
    }

    /// Processes the answer to a request: the responder's bytes, or the reason why there are none.
    ///
    /// # Errors
    /// The certificate is revoked, or no trusted source finds it good.
    pub fn settle(
        &self,
        question: &Question,
        answer: Result<&[u8], ResponderFault>,
        now: Timestamp,
    ) -> Result<(), OcspError> {
        let judged = match &question.place {
            Err(why) => Err(why.clone().into()),
            Ok(place) => answer
                .and_then(Response::read)
                .and_then(|response| {
                    response.judge(&question.id, &question.issuer, &self.algorithms, now)
                })
                .map_err(|fault| Unknown::Responder { place: place.to_string(), fault }),
        };
        let (status, until) =
            judged.map_err(|why| OcspError::Unclear { subject: question.subject.clone(), why })?;
        if let Some(until) = until {
            self.remember(question.id.clone(), &status, until.min(now + REMEMBERED), now);
        }
        question.verdict(&status)
    }

    fn remember(&self, id: CertificateId, status: &Status, until: Timestamp, now: Timestamp) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= ANSWERS_MAX {
            answers.retain(|_, known| now < known.until);
        }
        if answers.len() >= ANSWERS_MAX {
            answers.pop_first();
        }
        answers.insert(id, Known { status: *status, until });
    }

    /// Processes the OCSP answer about a server's own certificate that the server sent in its
    /// handshake. An answer that is not accepted is ignored.
    ///
    /// # Errors
    /// The certificate is revoked.
    pub(super) fn stapled(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        answer: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        if answer.is_empty() {
            return Ok(());
        }
        let chain: Vec<CertificateDer<'_>> = std::iter::once(end_entity)
            .chain(intermediates)
            .map(|der| CertificateDer::from(der.as_ref()))
            .collect();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let (Ok(questions), Ok(now)) =
            (self.all_questions(&chain), Timestamp::from_second(seconds))
        else {
            return Ok(());
        };
        let Some(question) = questions.first() else { return Ok(()) };
        match self.settle(question, Ok(answer), now) {
            Err(OcspError::Revoked { .. }) => Err(CertificateError::Revoked.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether revocation lists find the whole chain good, if no responder answers.
    pub fn is_good_by_lists(
        &self,
        chain: &[CertificateDer<'_>],
        side: Side,
        now: Timestamp,
    ) -> bool {
        let (Some((clients, servers)), [end, rest @ ..]) = (&self.lists, chain) else {
            return false;
        };
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        match side {
            Side::Client => clients.verify_client_cert(end, rest, now).is_ok(),
            Side::Server => {
                // Names are not checked here.
                let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
                servers.verify_server_cert(end, rest, &name, &[], now).is_ok()
            }
        }
    }
}

impl Question {
    fn of(der: &[u8], own: &Parts<'_>, issuer: &Parts<'_>) -> Result<Self, DerError> {
        let key = Key::of_whole(issuer.public_key).ok_or(DerError::Value)?;
        let mut name = Sha1::new();
        name.update(response::element(SEQUENCE, &[own.issuer]));
        let id = CertificateId {
            issuer_name_hash: name.finalize().into(),
            issuer_key_hash: Sha1::digest(key.bits).into(),
            serial: own.serial.to_vec(),
        };
        let place = match responder(own)? {
            Some(url) => Place::parse(&url).map_err(|fault| NoPlace::Address { url, fault }),
            None => Err(NoPlace::Unnamed),
        };
        let issuer = Issuer { name: issuer.subject.to_vec(), key: issuer.public_key.to_vec() };
        let subject = Facts::of(der).map(|facts| facts.subject).unwrap_or_default();
        Ok(Self { id, subject, place, issuer })
    }

    fn verdict(&self, status: &Status) -> Result<(), OcspError> {
        let subject = self.subject.clone();
        match status {
            Status::Good => Ok(()),
            Status::Revoked(since) => {
                let responder = self.place.as_ref().map(ToString::to_string).unwrap_or_default();
                Err(OcspError::Revoked { subject, since: *since, responder })
            }
        }
    }
}

/// The first responder that a certificate names.
fn responder(certificate: &Parts<'_>) -> Result<Option<String>, DerError> {
    let Some(value) = certificate.extension(AUTHORITY_INFORMATION_ACCESS)? else { return Ok(None) };
    let mut descriptions = Reader::new(value).inside(SEQUENCE)?;
    while !descriptions.is_empty() {
        let mut description = descriptions.inside(SEQUENCE)?;
        let method = oid_text(description.expect(OID)?);
        let location = description.any()?;
        if method.as_deref() == Some(OCSP) && location.tag == URI {
            return Ok(Some(String::from_utf8_lossy(location.content).into_owned()));
        }
    }
    Ok(None)
}
