//! Why a responder says nothing about a certificate.

use jiff::Timestamp;

use super::http::ANSWER_BYTES_MAX;

/// Why the status of a certificate is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// There is no responder to ask.
    #[error(transparent)]
    NoPlace(#[from] NoPlace),
    /// The responder does not give an acceptable answer.
    #[error("the responder {place} {fault}")]
    Responder {
        /// The responder's address.
        place: String,
        /// The fault.
        fault: ResponderFault,
    },
}

/// Why there is no responder to ask about a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// The certificate names none.
    #[error("it names no responder")]
    Unnamed,
    /// The address cannot be used.
    #[error("its responder {url:?} {fault}")]
    Address {
        /// The address.
        url: String,
        /// The fault.
        fault: UrlFault,
    },
}

/// Why the address of a responder cannot be used, worded to follow "its responder such and such".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It is malformed.
    #[error("has an address that is no URL")]
    Malformed,
    /// It has another scheme than `http`.
    #[error("cannot be asked over HTTP")]
    Scheme,
}

/// Why a responder gives no acceptable answer, worded to follow "the responder such and such".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResponderFault {
    /// It was not asked, because it has no usable address.
    #[error("has no address")]
    NoPlace,
    /// There is no connection to it, for this reason.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The connection has failed, for this reason.
    #[error("does not answer: {0}")]
    Broken(String),
    /// It has not answered after this many seconds.
    #[error("does not answer within {0} s")]
    Slow(u64),
    /// It has not answered before the deadline of the whole chain.
    #[error("does not answer in time")]
    Late,

    /// The answer is longer than [`ANSWER_BYTES_MAX`].
    #[error("sends an answer above {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// The answer is not HTTP.
    #[error("sends no answer of HTTP")]
    NotHttp,
    /// Another HTTP status than 200.
    #[error("answers with HTTP status {0:03}")]
    HttpStatus(u16),
    /// The answer has a transfer encoding.
    #[error("sends an answer in pieces, which HTTP/1.0 does not have")]
    InPieces,
    /// The connection ended before the answer.
    #[error("ends its answer too early")]
    Short,

    /// The bytes are no response, for this reason.
    #[error("sends no response that can be read: {0}")]
    Garbled(String),
    /// The response has another status than "successful".
    #[error("{}", status(*.0))]
    Refused(u8),
    /// The response is successful and has no answer.
    #[error("sends a response without an answer")]
    NoAnswer,
    /// The response is signed by nobody who may sign it.
    #[error(
        "sends a response that neither the certificate's issuer has signed nor a responder with a \
         valid certificate of that issuer"
    )]
    Unsigned,
    /// The answer is not valid at this time.
    #[error(
        "sends a response that is out of date: it is of {from} and valid until {last}, now is {now}"
    )]
    OutOfDate {
        /// The beginning of its period.
        from: Timestamp,
        /// The end of its period.
        last: Timestamp,
        /// The time, in whole seconds.
        now: Timestamp,
    },
    /// The responder does not know the certificate.
    #[error("does not know the certificate")]
    UnknownCertificate,
    /// The response is about other certificates.
    #[error("sends a response about another certificate")]
    OtherCertificate,
}

/// The meaning of a response's status. Source: RFC 6960, section 4.2.1.
fn status(status: u8) -> &'static str {
    match status {
        1 => "says that the request is malformed",
        2 => "has an internal error",
        3 => "says that it has to be asked again later",
        5 => "wants a signed request",
        6 => "does not serve this request",
        _ => "answers with a status that has no meaning",
    }
}
