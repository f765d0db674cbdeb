//! JAAS login configurations: the files that `java.security.auth.login.config` names.
//!
//! The parser reads Java's grammar: sections of login modules, each with a flag and options, and
//! comments. It also accepts `#` comments, and values without quotes such as paths and numbers,
//! which Java refuses without need. Then [`Jaas::login`] interprets a section as ZooKeeper does: as
//! DIGEST-MD5 users and credentials, or as a Kerberos key table. Options may contain passwords, so
//! their values are [`Secret`]s.
//!
//! Sources: `sun.security.provider.ConfigFile`, `DigestLoginModule`, `SaslServerCallbackHandler`,
//! `SaslQuorumServerCallbackHandler`.

mod kerberos;
mod parse;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::secret::Secret;

pub use kerberos::{KerberosLogin, Service};

/// Class names of `DigestLoginModule`: that of ZooKeeper, and those that distributions copied.
const DIGEST_SUFFIX: &str = ".DigestLoginModule";
const KERBEROS_SUFFIX: &str = ".Krb5LoginModule";

/// A JAAS file that cannot be used: file, line and fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JaasError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; `None` if the fault concerns the whole file.
    pub line: Option<usize>,
    /// The fault, and a remedy.
    pub fault: String,
}

impl fmt::Display for JaasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for JaasError {}

/// Whether a login module's verdict counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// The module must succeed.
    Required,
    /// The module must succeed. If it fails, no further module is tried.
    Requisite,
    /// If the module succeeds, no further module is tried.
    Sufficient,
    /// The module may fail.
    Optional,
}

/// A login module of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The Java class.
    pub class: String,
    /// When its verdict counts.
    pub flag: Flag,
    /// Its options in the order of their names.
    pub options: BTreeMap<String, Secret>,
    /// The line of its class.
    pub line: usize,
}

/// A parsed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jaas {
    path: PathBuf,
    /// Sections by name, each with its modules.
    sections: BTreeMap<String, Vec<Module>>,
}

/// The meaning of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// `DigestLoginModule`.
    Digest(DigestLogin),
    /// `Krb5LoginModule`.
    Kerberos(KerberosLogin),
}

/// The options of `DigestLoginModule`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestLogin {
    /// The credential of a client: `username` and `password`.
    pub credential: Option<(String, Secret)>,
    /// The users of a server: `user_NAME="PASSWORD"`.
    pub users: BTreeMap<String, Secret>,
}

impl Jaas {
    /// Parses the text of the file `path`, which only errors use. `property`: the system
    /// properties, which values may use as `${name}`.
    ///
    /// # Errors
    /// The line and its fault.
    pub fn parse(
        path: &Path,
        text: &str,
        property: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, JaasError> {
        let sections = parse::sections(text, property).map_err(|(line, fault)| JaasError {
            path: path.to_owned(),
            line: Some(line),
            fault,
        })?;
        Ok(Self { path: path.to_owned(), sections })
    }

    /// Reads and parses a file.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    #[expect(clippy::disallowed_methods, reason = "it is a file")]
    pub fn read(path: &Path, property: &dyn Fn(&str) -> Option<String>) -> Result<Self, JaasError> {
        let fault = |fault: String| JaasError { path: path.to_owned(), line: None, fault };
        let bytes = zeroize::Zeroizing::new(std::fs::read(path).map_err(|error| {
            fault(format!("cannot be read: {error}; check java.security.auth.login.config"))
        })?);
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line =
                1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            JaasError { line: Some(line), ..fault("is not UTF-8; save it as UTF-8".to_owned()) }
        })?;
        Self::parse(path, text, property)
    }

    /// The names of the sections.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sections.keys().map(String::as_str)
    }

    /// The modules of a section.
    pub fn section(&self, name: &str) -> Option<&[Module]> {
        self.sections.get(name).map(Vec::as_slice)
    }

    /// The meaning of the section `name`; `None` if there is no such section.
    ///
    /// # Errors
    /// Its login module has an unknown class, or an option is missing or contradicts another.
    pub fn login(&self, name: &str) -> Result<Option<Login>, JaasError> {
        let Some(modules) = self.section(name) else { return Ok(None) };
        let [module] = modules else {
            let line = modules.get(1).map(|module| module.line);
            let count = modules.len();
            return Err(self
                .fault(line, format!("section {name} has {count} login modules instead of one")));
        };
        let fault = |what: String| self.fault(Some(module.line), format!("section {name}: {what}"));
        if module.class.ends_with(DIGEST_SUFFIX) {
            return digest(module).map(Login::Digest).map(Some).map_err(fault);
        }
        if module.class.ends_with(KERBEROS_SUFFIX) {
            return kerberos::login(module).map(Login::Kerberos).map(Some).map_err(fault);
        }
        Err(fault(format!(
            "the login module {} is not supported; use \
             org.apache.zookeeper.server.auth.DigestLoginModule or \
             com.sun.security.auth.module.Krb5LoginModule",
            module.class
        )))
    }

    /// The meaning of a section that must exist.
    ///
    /// # Errors
    /// There is no such section, or one of the errors of [`Jaas::login`].
    pub fn required(&self, name: &str) -> Result<Login, JaasError> {
        self.login(name)?.ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            self.fault(None, format!("there is no section {name}; its sections are: {known}"))
        })
    }

    fn fault(&self, line: Option<usize>, fault: String) -> JaasError {
        JaasError { path: self.path.clone(), line, fault }
    }
}

impl DigestLogin {
    /// The password of one of a server's users.
    pub fn password(&self, user: &str) -> Option<&Secret> {
        self.users.get(user)
    }
}

fn digest(module: &Module) -> Result<DigestLogin, String> {
    let mut login = DigestLogin::default();
    for (name, value) in &module.options {
        if let Some(user) = name.strip_prefix("user_") {
            login.users.insert(user.to_owned(), value.clone());
        }
    }
    match (module.options.get("username"), module.options.get("password")) {
        (Some(user), Some(password)) => {
            let user = user.expose_str().unwrap_or_default().to_owned();
            login.credential = Some((user, password.clone()));
        }
        (None, None) => {}
        (Some(_), None) => return Err("username is set without password; set both".to_owned()),
        (None, Some(_)) => return Err("password is set without username; set both".to_owned()),
    }
    if login.credential.is_none() && login.users.is_empty() {
        return Err(
            "there are neither users (user_NAME=\"PASSWORD\") nor username and password".to_owned()
        );
    }
    Ok(login)
}

#[cfg(test)]
mod tests;
