//! Scheme `key`: accepts a client that sends a multiple of the number in the znode `/key`.
//!
//! The original ships it as a sample for authors of providers. It offers no security.

use zebu_proto::Id;

use super::{AuthProvider, Claim, Refused, Verdict};

/// The znode with the number.
const ZNODE: &str = "/key";

/// Scheme `key`. All accepted clients have the same id, the empty text.
/// Source: `KeyAuthenticationProvider`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Key;

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl AuthProvider for Key {
    fn scheme(&self) -> &str {
        "key"
    }

    /// Accepts any data while the znode `/key` is missing or null. Always refuses a null from the
    /// client.
    fn authenticate(&self, claim: &Claim<'_>) -> Verdict {
        let data = claim.data.ok_or(Refused::Credentials)?;
        if let Some(key) = (claim.znode)(ZNODE) {
            let numbers = number(&key).zip(number(data));
            let is_good =
                numbers.is_some_and(|(key, claimed)| key == 0 || claimed.wrapping_rem(key) == 0);
            if !is_good {
                return Err(Refused::Credentials);
            }
        }
        Ok(vec![Id::new("key", "")])
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, _: &str) -> bool {
        true
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        id == expression
    }

    fn is_exact(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multiple_of_the_key_is_good() {
        let judge = |key: Option<&str>, data: Option<&str>| {
            let znode = |path: &str| {
                assert_eq!(path, "/key");
                key.map(|key| key.as_bytes().to_vec())
            };
            let data = data.map(str::as_bytes);
            let claim = Claim { peer: [127, 0, 0, 1].into(), data, znode: &znode };
            Key.authenticate(&claim).is_ok()
        };
        for (key, data) in [
            (None, "anything"),
            (Some("7"), "21"),
            (Some("7"), "0"),
            (Some("7"), "-14"),
            (Some("+7"), "+7"),
            (Some("0"), "5"),
            (Some("-1"), "-2147483648"),
        ] {
            assert!(judge(key, Some(data)), "{key:?} {data}");
        }
        for (key, data) in [
            (Some("7"), "22"),
            (Some("7"), ""),
            (Some("7"), "x"),
            (Some("7"), "2147483648"),
            (Some(""), "7"),
            (Some("seven"), "7"),
            (Some("0"), "x"),
            (Some("7 "), "7"),
        ] {
            assert!(!judge(key, Some(data)), "{key:?} {data}");
        }
        assert!(!judge(None, None) && !judge(Some("7"), None));
    }
}
