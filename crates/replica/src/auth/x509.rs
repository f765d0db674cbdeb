//! Scheme `x509`: identifies a client by the subject of its certificate.
//!
//! The transport verifies the certificate and provides the subject.

use zebu_proto::Id;

use super::{AuthProvider, Claim, Refused, Verdict};

/// The scheme's name.
pub const SCHEME: &str = "x509";

/// Attribute keywords that Java knows besides object identifiers. Source: `X500Name`.
const WORDS: [&str; 24] = [
    "CN",
    "C",
    "L",
    "S",
    "ST",
    "O",
    "OU",
    "T",
    "IP",
    "STREET",
    "DC",
    "DNQUALIFIER",
    "DNQ",
    "SURNAME",
    "GIVENNAME",
    "INITIALS",
    "GENERATION",
    "EMAIL",
    "EMAILADDRESS",
    "UID",
    "SERIALNUMBER",
    "IPADDRESS",
    "UNIQUEIDENTIFIER",
    "PSEUDONYM",
];

/// Scheme `x509`.
pub struct X509 {
    super_user: Option<String>,
}

impl X509 {
    /// `super_user`: the subject whose client is the superuser.
    pub fn new(super_user: Option<String>) -> Self {
        Self { super_user }
    }

    /// The ids of a client with this certificate subject.
    pub fn ids(&self, subject: &str) -> Vec<Id> {
        let is_super = self.super_user.as_deref() == Some(subject);
        let all = is_super.then(|| Id::new("super", subject));
        all.into_iter().chain([Id::new(SCHEME, subject)]).collect()
    }
}

/// Source: `X509AuthenticationProvider`.
impl AuthProvider for X509 {
    fn scheme(&self) -> &str {
        SCHEME
    }

    /// Refuses: the certificate comes with the connection, not in an auth packet.
    fn authenticate(&self, _: &Claim<'_>) -> Verdict {
        Err(Refused::Credentials)
    }

    fn comes_with_connection(&self) -> bool {
        true
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, id: &str) -> bool {
        is_name(id)
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        id == expression || self.super_user.as_deref() == Some(id)
    }
}

/// Whether a text is a distinguished name: attributes separated by `,`, `;` or `+` outside quotes
/// and escapes. The empty name counts.
fn is_name(text: &str) -> bool {
    if text.trim().is_empty() {
        return true;
    }
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' | ';' | '+' if !is_quoted => {
                if !is_attribute(&text[start..at]) {
                    return false;
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    !is_quoted && !is_escaped && is_attribute(&text[start..])
}

fn is_attribute(text: &str) -> bool {
    let Some((kind, _)) = text.split_once('=') else { return false };
    let kind = kind.trim().to_ascii_uppercase();
    let oid = kind.strip_prefix("OID.").unwrap_or(&kind);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    WORDS.contains(&kind.as_str()) || (oid.contains('.') && oid.split('.').all(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_other_texts() {
        for good in [
            "CN=amy",
            "CN=amy,OU=Zoo\\, left,O=\"a,b\",C=NL",
            "cn=amy + uid=3; O=x",
            "2.5.4.3=amy",
            "OID.2.5.4.3=amy",
            "CN=",
            "",
        ] {
            assert!(is_name(good), "{good:?}");
        }
        for bad in [
            "amy",
            "CN",
            "=amy",
            "WHO=amy",
            "CN=amy,",
            "CN=amy,,O=x",
            "CN=\"amy",
            "CN=amy\\",
            "2=amy",
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn the_super_user_has_two_ids_and_matches_everything() {
        let provider = X509::new(Some("CN=root".to_owned()));
        let id = |scheme: &str, id: &str| Id::new(scheme, id);
        assert_eq!(provider.ids("CN=amy"), [id("x509", "CN=amy")]);
        assert_eq!(provider.ids("CN=root"), [id("super", "CN=root"), id("x509", "CN=root")]);
        assert!(provider.matches("CN=root", "CN=amy"));
        assert!(!provider.matches("CN=amy", "CN=root"));
        assert!(!X509::new(None).matches("CN=root", "CN=amy"));
    }
}
