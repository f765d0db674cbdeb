//! Addresses and headers as a configuration gives them.

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

/// Why a text of a configuration is no address, or no list of pairs. No variant contains the value
/// of a pair, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenFault {
    /// Not an address; with the path of the example.
    #[error("expected an address such as http://127.0.0.1:4318{0}")]
    Address(String),
    /// A pair without a value; with its number.
    #[error("pair {0} has no \"=\"")]
    NoValue(usize),
    /// A pair without a name; with its number.
    #[error("pair {0} has no name")]
    NoName(usize),
    /// The value of this name is not UTF-8.
    #[error("the value of {0} is not UTF-8")]
    NotUtf8(String),
    /// A name that no header can have.
    #[error("{0:?} is not the name of a header")]
    HeaderName(String),
    /// The value of this name is none that a header can have.
    #[error("the value of {0} is not one of a header")]
    HeaderValue(String),
}

/// Reads an address such as `http://collector:4318`. Without a path, the path is `default_path`.
///
/// # Errors
/// The text is not an HTTP address, or it has a user name or a fragment.
pub fn address(text: &str, default_path: &str) -> Result<Uri, GivenFault> {
    let fault = || GivenFault::Address(default_path.to_owned());
    let uri: Uri = text.parse().map_err(|_| fault())?;
    let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if !has_scheme || uri.host().unwrap_or_default().is_empty() || authority.contains('@') {
        return Err(fault());
    }
    if text.contains('#') {
        return Err(fault());
    }
    if matches!(uri.path_and_query().map(|path| path.as_str()), None | Some("/")) {
        let whole = format!("{}{default_path}", text.trim_end_matches('/'));
        return whole.parse().map_err(|_| fault());
    }
    Ok(uri)
}

/// Reads pairs `name=value,name=value`. Values may have percent-encoded characters.
///
/// Source: the variables `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_RESOURCE_ATTRIBUTES` in
/// OpenTelemetry's specification.
///
/// # Errors
/// One of them is not a pair. The text does not contain a value.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, GivenFault> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .enumerate()
        .map(|(at, part)| {
            let number = at + 1;
            let (name, value) = part.split_once('=').ok_or(GivenFault::NoValue(number))?;
            let name = name.trim();
            if name.is_empty() {
                return Err(GivenFault::NoName(number));
            }
            let value = percent_decode_str(value.trim()).decode_utf8();
            let value = value.map_err(|_| GivenFault::NotUtf8(name.to_owned()))?;
            Ok((name.to_owned(), value.into_owned()))
        })
        .collect()
}

/// Reads [`pairs`] as headers. Their values are not shown by `Debug`.
///
/// # Errors
/// One of them is not a header. The text does not contain a value.
pub fn headers(text: &str) -> Result<HeaderMap, GivenFault> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs(text)? {
        let header =
            HeaderName::try_from(&name).map_err(|_| GivenFault::HeaderName(name.clone()))?;
        let value = HeaderValue::try_from(value);
        let mut value = value.map_err(|_| GivenFault::HeaderValue(name))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_has_the_usual_one() {
        for (text, whole) in [
            ("http://c:4318", "http://c:4318/v1/logs"),
            ("http://c:4318/", "http://c:4318/v1/logs"),
            ("https://c/otlp/v1/logs?a=b", "https://c/otlp/v1/logs?a=b"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/logs"),
        ] {
            assert_eq!(address(text, "/v1/logs").unwrap().to_string(), whole);
        }
        for text in ["", "c:4318", "grpc://c:4317", "http://", "http://u:p@c", "http://c/a#b"] {
            assert!(address(text, "/v1/logs").is_err(), "{text}");
        }
    }

    #[test]
    fn headers_are_pairs_and_their_values_are_not_shown() {
        let read = headers("authorization=Basic%20YTpi, x-scope = one ,").unwrap();
        assert_eq!(read["authorization"], "Basic YTpi");
        assert_eq!(read["x-scope"], "one");
        assert!(!format!("{read:?}").contains("YTpi"));
        for text in ["a", "=b", "a b=c", "a=secret%0Ax", "a=secret%ff"] {
            let fault = headers(text).unwrap_err().to_string();
            assert!(!fault.contains("secret"), "{fault}");
        }
    }
}
