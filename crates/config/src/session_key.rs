//! The settings of session passwords: the key, and the current step of the change to keyed
//! passwords.

use std::path::Path;

use zebu_replica::{Passwords, SessionKey};

use super::build::Reader;

/// The steps, in the order in which a running ensemble takes them.
pub(super) const STEPS: &[&str] = &["compatible", "acceptKeyed", "acceptCompatible", "keyed"];

const FILE: &str = "zebu.sessionSecretFile";
const STEP: &str = "zebu.sessionPasswords";

impl Reader<'_> {
    pub(super) fn session_passwords(&self) -> Passwords {
        let step = self.choice(STEP);
        let Some(path) = self.text(FILE) else {
            if !matches!(step, "" | "compatible") {
                self.problem(STEP, format!("{STEP}={step} needs {FILE}"));
            }
            return Passwords::Compatible;
        };
        match self.session_key(Path::new(&path)) {
            Err(fault) => {
                self.problem(FILE, format!("{FILE}={path}: {fault}"));
                Passwords::Compatible
            }
            Ok(key) => match step {
                "compatible" => Passwords::Compatible,
                "acceptKeyed" => Passwords::AcceptKeyed(key),
                "acceptCompatible" => Passwords::AcceptCompatible(key),
                _ => Passwords::Keyed(key),
            },
        }
    }

    fn session_key(&self, path: &Path) -> Result<SessionKey, String> {
        let secret = self.read_file(path).map_err(|error| error.to_string())?;
        let secret = secret.trim_ascii_end();
        SessionKey::new(secret).ok_or_else(|| {
            let (found, needed) = (secret.len(), SessionKey::BYTES_MIN);
            format!(
                "{found} bytes are too few for a secret, at least {needed} are needed\n\
                 hint: openssl rand -base64 48 makes one; every server needs the same file"
            )
        })
    }
}
