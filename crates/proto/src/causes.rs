//! Shows an error with its causes.

use std::error::Error;
use std::fmt;

/// Shows an error and its causes on one line, with `: ` between them.
///
/// A cause that the text in front of it already ends with is not repeated: some errors name their
/// cause themselves.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'e>(pub &'e (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        f.write_str(&shown)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !shown.ends_with(&text) {
                write!(f, ": {text}")?;
                shown = text;
            }
            next = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the log cannot be written")]
    struct Write(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("the server has to stop: {0}")]
    struct Stop(#[source] Write);

    #[test]
    fn each_cause_is_shown_once() {
        let error = Stop(Write(io::Error::other("disk on fire")));
        let shown = Causes(&error).to_string();
        assert_eq!(shown, "the server has to stop: the log cannot be written: disk on fire");
    }
}
