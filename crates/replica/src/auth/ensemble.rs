//! Scheme `ensemble`: the client names the ensemble it wants, and servers of other ensembles refuse
//! it.
//!
//! The scheme gives no ids, so ACLs cannot use it.

use super::{AuthProvider, Claim, Refused, Verdict};

/// The scheme's name.
pub const SCHEME: &str = "ensemble";

/// Scheme `ensemble`.
///
/// Source: `EnsembleAuthenticationProvider`.
#[derive(Clone, Debug, Default)]
pub struct Ensemble {
    names: Option<Vec<String>>,
}

impl Ensemble {
    /// `names`: the accepted names of this ensemble; `None` accepts every client.
    pub fn new(names: Option<Vec<String>>) -> Self {
        Self { names }
    }
}

impl AuthProvider for Ensemble {
    fn scheme(&self) -> &str {
        SCHEME
    }

    /// Accepts a client that names no ensemble.
    ///
    /// # Errors
    /// The client names another ensemble. It gets no answer: an error would end its session, but it
    /// should try another server.
    fn authenticate(&self, claim: &Claim<'_>) -> Verdict {
        let name = claim.data.unwrap_or_default();
        let is_good = match &self.names {
            Some(names) if !name.is_empty() => names.iter().any(|it| it.as_bytes() == name),
            _ => true,
        };
        if is_good { Ok(Vec::new()) } else { Err(Refused::Elsewhere) }
    }

    fn is_authenticated(&self) -> bool {
        false
    }

    fn is_valid(&self, _: &str) -> bool {
        false
    }

    fn matches(&self, _: &str, _: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_another_ensemble_is_sent_away() {
        let names = Some(vec!["one".to_owned(), "two".to_owned()]);
        let judge = |names: &Option<Vec<String>>, data: Option<&[u8]>| {
            Ensemble::new(names.clone()).authenticate(&Claim::new([127, 0, 0, 1].into(), data))
        };
        for good in [None, Some(&b""[..]), Some(b"one"), Some(b"two")] {
            assert_eq!(judge(&names, good), Ok(Vec::new()));
        }
        for bad in [&b"three"[..], b"one,two", b" one", b"\xff"] {
            assert_eq!(judge(&names, Some(bad)), Err(Refused::Elsewhere));
            assert_eq!(judge(&None, Some(bad)), Ok(Vec::new()));
        }
        assert!(!Ensemble::default().is_valid("one"));
    }
}
