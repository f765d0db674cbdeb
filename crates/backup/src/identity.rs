//! A file with an identity: one line, a scheme and a credential, as in `digest root:secret`.

use std::path::Path;

use crate::error::{At as _, BackupError, Result};

/// Reads a scheme and a credential.
///
/// # Errors
/// The file cannot be read, or has another content.
pub(crate) fn read(path: &Path) -> Result<(String, String)> {
    let text = std::fs::read_to_string(path).at(path)?;
    let parts = text.trim().split_once(' ').filter(|(_, rest)| !rest.contains('\n'));
    let (scheme, credential) = parts.ok_or_else(|| BackupError::Credential {
        path: path.to_owned(),
        what: "one line is expected, a scheme and a credential, as in: digest root:secret"
            .to_owned(),
    })?;
    Ok((scheme.to_owned(), credential.to_owned()))
}
