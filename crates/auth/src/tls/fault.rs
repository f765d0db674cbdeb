//! Explains failed TLS handshakes of a client: the cause, and a remedy.

use std::io;

use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};

/// The meaning of an error on an established connection; `None` if it is not a TLS error.
/// `shows_key`: whether this client has a certificate to present.
pub fn of_connection(error: &io::Error, shows_key: bool) -> Option<String> {
    cause(error).map(|cause| format!("TLS failed: {}", words(cause, shows_key)))
}

/// The meaning of an error of a handshake. `shows_key`: as above.
pub fn of_handshake(error: &io::Error, shows_key: bool) -> String {
    let words = match cause(error) {
        Some(cause) => words(cause, shows_key),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection; does its port speak TLS?".to_owned()
        }
        None => error.to_string(),
    };
    format!("TLS handshake failed: {words}")
}

fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn words(error: &Error, shows_key: bool) -> String {
    match error {
        Error::InvalidCertificate(fault) => of_certificate(fault),
        Error::AlertReceived(alert) => of_alert(*alert, shows_key),
        Error::InvalidMessage(_) => {
            "the server's answer is not TLS; does its port speak TLS?".to_owned()
        }
        Error::PeerIncompatible(why) => format!(
            "the server has no protocol or cipher suite in common with this client ({why:?})"
        ),
        other => other.to_string(),
    }
}

fn of_certificate(fault: &CertificateError) -> String {
    use CertificateError as Fault;
    match fault {
        Fault::UnknownIssuer => "the server's certificate is not of a trusted authority; add \
                                 the authority's certificate to the trust store"
            .to_owned(),
        // An authority that was recreated under its old name.
        Fault::BadSignature => "the server's certificate is not signed by the trusted authority \
                                whose name it has; is the trust store out of date?"
            .to_owned(),
        Fault::Expired => "the server's certificate has expired".to_owned(),
        Fault::ExpiredContext { not_after, .. } => {
            format!(
                "the server's certificate has expired: it was valid until {}",
                moment(*not_after)
            )
        }
        Fault::NotValidYet => "the server's certificate is not valid yet".to_owned(),
        Fault::NotValidYetContext { not_before, .. } => {
            format!(
                "the server's certificate is not valid yet: it will be from {}",
                moment(*not_before)
            )
        }
        Fault::Revoked => "the server's certificate is revoked".to_owned(),
        // The name, from a message of zebu-auth.
        Fault::Other(why) => format!("wrong server: {}", why.0),
        other => format!("the server's certificate is not good: {other}"),
    }
}

fn of_alert(alert: AlertDescription, shows_key: bool) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired => {
            "the server wants a certificate of this client; set the key store".to_owned()
        }
        Alert::HandshakeFailure | Alert::BadCertificate | Alert::AccessDenied if !shows_key => {
            format!(
                "the server refuses the handshake ({alert:?}); if it wants a certificate of this \
             client, set the key store"
            )
        }
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied
        | Alert::DecryptError => {
            format!("the server refuses the certificate of this client ({alert:?})")
        }
        Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity => format!(
            "the server has no protocol or cipher suite in common with this client ({alert:?})"
        ),
        other => format!("the server ends the connection ({other:?})"),
    }
}

fn moment(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    seconds
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .map_or_else(|| format!("second {}", time.as_secs()), |moment| moment.to_string())
}
