//! Insecure parts of a configuration: `zebu server --check` lists them, and the parts of the
//! hardened profile refuse them.
//!
//! The typed configuration alone decides, whatever the source of a setting.

use std::fmt;
use std::net::IpAddr;

use zebu_auth::tls::ClientAuth;
use zebu_replica::Passwords;

use super::build::Reader;
use super::four_letter_words::{Whitelist, Word};
use super::settings::{AdminConfig, Config};
use super::value;

const HARDENED: &str = "zebu.hardened";
const REQUIRE_TLS: &str = "zebu.requireTls";
const WORLD_WRITES: &str = "zebu.refuseWorldWrites";
const WORDS: &str = "4lw.commands.whitelist";
/// The value of `zebu.authFailuresPerMinute` in the profile.
const FAILURES_PER_MINUTE: u32 = 10;
/// The value of `zebu.maxConnectionsPerIdentity` in the profile.
const CONNECTIONS_PER_IDENTITY: u32 = 100;

/// An insecure part of the configuration, and the settings that secure it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The part.
    pub what: String,
    /// The settings that secure it.
    pub remedy: &'static str,
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.what, self.remedy)
    }
}

/// All insecure parts.
pub fn open(config: &Config) -> Vec<Open> {
    let mut open = without_tls(config);
    let mut add = |what: String, remedy: &'static str| open.push(Open { what, remedy });
    let auth = &config.auth;
    if !matches!(auth.session_passwords, Passwords::Keyed(_)) {
        add(
            "every client that knows a session id can compute the session's password".to_owned(),
            "zebu.sessionSecretFile names a secret of all members, and zebu.sessionPasswords is keyed",
        );
    }
    // The scheme `digest` accepts any password: each one gives an id.
    let proves = |scheme: &String| !["ip", "digest", "key", "ensemble"].contains(&scheme.as_str());
    if auth.enforced_schemes.is_empty() || !auth.enforced_schemes.iter().all(proves) {
        add(
            "the server serves clients that have not authenticated".to_owned(),
            "enforce.auth.enabled=true with enforce.auth.schemes, of which each is sasl, x509 or one of a program of yours",
        );
    }
    if auth.skip_acl {
        add("ACLs are not checked".to_owned(), "skipACL=no");
    }
    if !auth.refuses_world_writes {
        add("a new ACL may let everybody write".to_owned(), "zebu.refuseWorldWrites=true");
    }
    if auth.failures_per_minute == 0 {
        add(
            "one address may fail to authenticate any number of times".to_owned(),
            "zebu.authFailuresPerMinute is more than 0",
        );
    }
    let words = Whitelist::new(&config.four_letter_words, config.readonly_mode);
    let more = |word: &&Word| !matches!(word, Word::Ruok | Word::Srvr) && words.allows(**word);
    let more: Vec<&str> = Word::ALL.iter().filter(more).map(|word| word.name()).collect();
    if !more.is_empty() {
        add(
            format!("four-letter words are answered to anybody: {}", more.join(", ")),
            "4lw.commands.whitelist=ruok,srvr, and readonlymode.enabled=false",
        );
    }
    // The page shows more than the words do.
    if let Some(admin) = reachable_admin(config)
        && admin.tls.as_ref().is_none_or(|tls| tls.files.client_auth != ClientAuth::Need)
    {
        add(
            format!("commands are answered to anybody on port {} of the admin server", admin.port),
            "admin.needClientAuth=true with admin.forceHttps=true, or admin.serverAddress=127.0.0.1",
        );
    }
    if config.limits.connections_per_address.is_none() {
        add(
            "one address may open any number of connections".to_owned(),
            "maxClientCnxns is more than 0",
        );
    }
    if config.limits.connections_per_identity == 0 {
        add(
            "one identity may open any number of connections".to_owned(),
            "zebu.maxConnectionsPerIdentity is more than 0",
        );
    }
    open
}

/// Ports that other machines can reach, with traffic in plain text.
fn without_tls(config: &Config) -> Vec<Open> {
    let mut open = Vec::new();
    let mut add = |what: String, remedy: &'static str| open.push(Open { what, remedy });
    if let Some(port) = config.net.client_port {
        add(
            format!("port {port} serves clients without TLS"),
            "secureClientPort in place of clientPort, also in the line of this server in the list of members",
        );
    }
    match config.ensemble.as_ref().map(|ensemble| &ensemble.tls) {
        Some(None) => {
            add("servers speak without TLS to each other".to_owned(), "sslQuorum=true");
        }
        Some(Some(tls)) if !tls.dials || tls.accepts_plain => add(
            "servers may speak without TLS to each other".to_owned(),
            "sslQuorum=true and portUnification=false",
        ),
        None | Some(Some(_)) => {}
    }
    if let Some(admin) = reachable_admin(config)
        && admin.tls.as_ref().is_none_or(|tls| tls.accepts_plain)
    {
        add(
            format!("the admin server answers without TLS on port {}", admin.port),
            "admin.forceHttps=true with ssl.quorum.keyStore.location, admin.serverAddress=127.0.0.1 behind a proxy with TLS, \
             or admin.enableServer=false",
        );
    }
    if let Some(page) = config.prometheus.as_ref().filter(|it| !is_of_this_machine(&it.address))
        && let Some(port) = page.port
    {
        add(
            format!("metrics are shown without TLS on port {port}"),
            "metricsProvider.httpsPort in place of metricsProvider.httpPort, or metricsProvider.httpHost=127.0.0.1",
        );
    }
    open
}

/// The admin server, if other machines can reach it.
fn reachable_admin(config: &Config) -> Option<&AdminConfig> {
    config.admin.as_ref().filter(|admin| !is_of_this_machine(&admin.address))
}

/// Whether only this machine can reach a port at this address.
fn is_of_this_machine(address: &str) -> bool {
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => address.eq_ignore_ascii_case("localhost"),
    }
}

impl Reader<'_> {
    /// Whether the whole profile is enabled.
    fn is_hardened(&self) -> bool {
        self.is_on(HARDENED)
    }

    /// `zebu.refuseWorldWrites`.
    pub(super) fn refuses_world_writes(&self) -> bool {
        match self.given(WORLD_WRITES) {
            Some(_) => self.is_on(WORLD_WRITES),
            None => self.is_hardened(),
        }
    }

    /// `zebu.authFailuresPerMinute`.
    pub(super) fn failures_per_minute(&self) -> u32 {
        self.count_or("zebu.authFailuresPerMinute", FAILURES_PER_MINUTE)
    }

    /// `zebu.maxConnectionsPerIdentity`.
    pub(super) fn connections_per_identity(&self) -> u32 {
        self.count_or("zebu.maxConnectionsPerIdentity", CONNECTIONS_PER_IDENTITY)
    }

    /// A limit that is off unless it is set, or the profile is enabled.
    fn count_or(&self, key: &'static str, hardened: u32) -> u32 {
        match self.given(key) {
            Some(_) => self.count(key),
            None if self.is_hardened() => hardened,
            None => 0,
        }
    }

    /// `4lw.commands.whitelist`.
    pub(super) fn four_letter_words(&self) -> Vec<String> {
        let default = if self.is_hardened() { "ruok,srvr" } else { "srvr" };
        match self.given(WORDS) {
            Some(given) => value::list(given.value()),
            None => value::list(default),
        }
    }

    /// Refuses the insecure parts that the profile, or an enabled part of it, forbids.
    pub(super) fn check_hardened(&self, config: &Config) {
        let requires_tls = self.is_on(REQUIRE_TLS);
        if self.is_hardened() {
            for open in open(config) {
                self.problem(HARDENED, format!("{HARDENED}=true: {open}"));
            }
        } else if requires_tls {
            for open in without_tls(config) {
                self.problem(REQUIRE_TLS, format!("{REQUIRE_TLS}=true: {open}"));
            }
        }
    }
}
