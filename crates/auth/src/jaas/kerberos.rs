//! The options of `Krb5LoginModule`, as a service and a client interpret them.
//!
//! Source: Java's `Krb5LoginModule`.

use std::path::PathBuf;

use zebu_gssapi::Source;

use super::Module;
use crate::secret::Secret;

/// Every option of the module, as Java writes it.
const OPTIONS: [&str; 15] = [
    "clearPass",
    "debug",
    "doNotPrompt",
    "isInitiator",
    "keyTab",
    "principal",
    "refreshKrb5Config",
    "renewTGT",
    "storeKey",
    "storePass",
    "ticketCache",
    "tryFirstPass",
    "useFirstPass",
    "useKeyTab",
    "useTicketCache",
];

/// Options for features that Zebu does not have, each with a remedy.
const REFUSED: [(&str, &str); 5] = [
    ("clearPass", "passwords of Kerberos are not supported; remove it"),
    (
        "renewTGT",
        "tickets of a cache are not renewed; remove it, and use a key table or let kinit -R run",
    ),
    ("storePass", "passwords of Kerberos are not supported; remove it"),
    ("tryFirstPass", "passwords of Kerberos are not supported; remove it"),
    ("useFirstPass", "passwords of Kerberos are not supported; remove it"),
];

/// The options of `Krb5LoginModule` that have a meaning outside Java.
///
/// `doNotPrompt`, `refreshKrb5Config` and `debug` have no effect: nobody is asked for a password, a
/// changed `krb5.conf` is always read again, and the log reports events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KerberosLogin {
    /// The principal to log in as.
    pub principal: Option<String>,
    /// The key table to log in with, if `useKeyTab` is set.
    pub key_tab: Option<PathBuf>,
    /// Whether the key table is used.
    pub use_key_tab: bool,
    /// Whether a ticket from a cache is used.
    pub use_ticket_cache: bool,
    /// The cache; by default that of the user.
    pub ticket_cache: Option<PathBuf>,
    /// `storeKey`: an acceptor requires its key.
    pub store_key: bool,
    /// `isInitiator`; true by default.
    pub is_initiator: bool,
}

/// A service, and the location of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `NAME/HOST`, with or without a realm.
    pub principal: String,
    /// The key table; by default that of the system.
    pub key_tab: Option<PathBuf>,
}

impl KerberosLogin {
    /// The service that these options describe.
    ///
    /// # Errors
    /// The missing option.
    pub fn service(&self) -> Result<Service, &'static str> {
        let principal = self.principal.as_ref().ok_or("set principal=\"zookeeper/HOST@REALM\"")?;
        let (name, _) = principal.split_once('@').unwrap_or((principal, ""));
        match name.split_once('/') {
            Some((name, host)) if !name.is_empty() && !host.is_empty() && !host.contains('/') => {}
            _ => return Err("principal must be of the form NAME/HOST or NAME/HOST@REALM"),
        }
        if !self.use_key_tab {
            return Err("a service needs its keys; set useKeyTab=true, storeKey=true and keyTab");
        }
        if !self.store_key {
            return Err("a service needs its keys; set storeKey=true");
        }
        Ok(Service { principal: principal.clone(), key_tab: self.key_tab.clone() })
    }

    /// The source of the tickets of a client with these options.
    ///
    /// # Errors
    /// The missing option.
    pub fn source(&self) -> Result<Source, &'static str> {
        if !self.is_initiator {
            return Err("a client needs tickets; remove isInitiator=false");
        }
        if !self.use_key_tab && !self.use_ticket_cache {
            return Err(
                "there is neither a key table nor a cache of tickets; set useKeyTab=true with keyTab and principal, or \
                 useTicketCache=true",
            );
        }
        if self.use_key_tab && self.principal.is_none() {
            return Err("useKeyTab=true needs principal");
        }
        Ok(Source {
            principal: self.principal.clone(),
            key_tab: self.use_key_tab.then(|| self.key_tab.clone()),
            cache: self.use_ticket_cache.then(|| self.ticket_cache.clone()),
        })
    }
}

/// Interprets a module's options.
pub(super) fn login(module: &Module) -> Result<KerberosLogin, String> {
    for name in module.options.keys().filter(|name| !OPTIONS.contains(&&***name)) {
        // Java ignores other options, so other programs may use them.
        if let Some(meant) = OPTIONS.iter().find(|option| option.eq_ignore_ascii_case(name)) {
            return Err(format!("{name} is no option; write {meant}"));
        }
    }
    let text =
        |name: &str| module.options.get(name).and_then(Secret::expose_str).map(str::to_owned);
    let flag = |name: &str, default: bool| match text(name) {
        None => Ok(default),
        Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
        Some(value) => Err(format!("{name} is {value:?}; use true or false")),
    };
    for (name, why) in REFUSED {
        if flag(name, false)? {
            return Err(format!("{name}=true: {why}"));
        }
    }
    for name in ["debug", "doNotPrompt", "refreshKrb5Config"] {
        flag(name, false)?;
    }
    let file = |name: &str| {
        text(name).map(|path| PathBuf::from(path.strip_prefix("FILE:").unwrap_or(&path)))
    };
    let login = KerberosLogin {
        principal: text("principal"),
        key_tab: file("keyTab"),
        use_key_tab: flag("useKeyTab", false)?,
        use_ticket_cache: flag("useTicketCache", false)?,
        ticket_cache: file("ticketCache"),
        store_key: flag("storeKey", false)?,
        is_initiator: flag("isInitiator", true)?,
    };
    if login.key_tab.is_some() && !login.use_key_tab {
        return Err("keyTab is set without useKeyTab=true; set both".to_owned());
    }
    if login.ticket_cache.is_some() && !login.use_ticket_cache {
        return Err("ticketCache is set without useTicketCache=true; set both".to_owned());
    }
    Ok(login)
}
