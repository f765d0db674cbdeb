//! Passwords and keys in memory. They cannot be printed, and are overwritten when they are dropped.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// The text that is printed in place of a secret.
pub const MASK: &str = "********";

/// A password, a digest or a key.
///
/// It has no `Display`, and its `Debug` shows only [`MASK`]. Comparing two secrets of equal length
/// always takes the same time. Source: CVE-2026-24308.
#[derive(Clone, Default)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Wraps a value. The caller must take care of its own copies.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(value.into())
    }

    /// The bytes, for computations.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text; `None` if they are not UTF-8.
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether the secret is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.as_bytes().to_vec())
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_value_and_its_length() {
        let short = format!("{:?}", Secret::from("a"));
        assert_eq!(short, MASK);
        assert_eq!(short, format!("{:?}", Secret::from("something longer")));
        assert_eq!(format!("{:?}", Some(Secret::from("a"))), "Some(********)");
    }

    #[test]
    fn equal_secrets_are_those_of_equal_bytes() {
        assert_eq!(Secret::from("abc"), Secret::new(*b"abc"));
        assert_ne!(Secret::from("abc"), Secret::from("abd"));
        assert_ne!(Secret::from("abc"), Secret::from("ab"));
        assert_eq!(Secret::new([0xff]).expose_str(), None);
    }
}
