//! Text that no log, error or report may show.

use std::fmt;

/// The text that is printed in place of a secret.
pub const MASK: &str = "********";

/// A password or a credential. It has no `Display`, and `Debug` hides it (compare CVE-2026-24308).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for the one place that compares it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_value() {
        let secret = Secret::new("super:xyz");
        assert_eq!(format!("{secret:?}"), "********");
        assert_eq!(secret.expose(), "super:xyz");
    }
}
