//! The settings of SASL, for clients and between servers.
//!
//! The sections of the JAAS file are read once, with the configuration, as in the original.
//! Sources: `QuorumPeerConfig`, `SaslQuorumAuthServer`, `SaslQuorumAuthLearner`,
//! `ServerCnxnFactory.configureSaslLogin`, `ZooKeeperSaslServer`, `SaslServerCallbackHandler`,
//! `KerberosName`.

use std::path::{Path, PathBuf};

use zebu_auth::Secret;
use zebu_auth::jaas::{Jaas, JaasError, Login};
use zebu_auth::kerberos::{Naming, Rules};

use super::Note;
use super::build::Reader;
use super::registry;
use super::settings::{
    KerberosConfig, PeerLogin, PeerPrincipal, PeerSaslConfig, PeerUsers, SaslConfig, SaslLogin,
};

const FILE: &str = "java.security.auth.login.config";
const KRB5_CONF: &str = "java.security.krb5.conf";
/// Properties that stand for entries of `krb5.conf` in Java.
const KRB5_PROPERTIES: [(&str, &str); 2] =
    [("java.security.krb5.realm", "default_realm"), ("java.security.krb5.kdc", "kdc of the realm")];
const SECTION: &str = "sasl.serverconfig";
const DEFAULT_SECTION: &str = "Server";
const RULES: &str = "security.auth_to_local";
const REQUIRED: &str = "sessionRequireClientSASLAuth";
/// The class that provides the scheme `sasl`.
pub(super) const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const SUPER_USER: &str = "superUser";
const ENABLED: &str = "quorum.auth.enableSasl";
const LEARNER_REQUIRED: &str = "quorum.auth.learnerRequireSasl";
const SERVER_REQUIRED: &str = "quorum.auth.serverRequireSasl";
const SERVICE_PRINCIPAL: &str = "quorum.auth.kerberos.servicePrincipal";
/// The placeholder for the host to connect to.
const HOST: &str = "_HOST";
const OWN_SECTION: &str = "quorum.auth.learner.saslLoginContext";
const OTHERS_SECTION: &str = "quorum.auth.server.saslLoginContext";

impl Reader<'_> {
    /// Every setting of SASL for clients. `is_required`: clients without an id of the scheme `sasl`
    /// are not served.
    pub(super) fn sasl(&self, has_scheme: bool, is_required: bool) -> SaslConfig {
        let login = self.sasl_login(has_scheme, is_required);
        if is_required && self.text(FILE).is_none() {
            let text = "clients must authenticate with SASL, and java.security.auth.login.config names no file: \
                        no client is served";
            self.note(Note::warn(text.to_owned()));
        }
        let _ = self.given("superUser.*");
        let _ = self.given(KRB5_CONF);
        let _ = self.given(SERVICE_PRINCIPAL);
        let _ = KRB5_PROPERTIES.map(|(key, _)| self.given(key));
        let super_users = self.family(SUPER_USER).filter(|id| !id.is_empty()).map(str::to_owned);
        let mut super_users: Vec<String> =
            self.text(SUPER_USER).into_iter().chain(super_users).collect();
        super_users.sort();
        super_users.dedup();
        SaslConfig {
            has_scheme,
            login,
            naming: self.naming(),
            super_users,
            any_user: self.text("letAnySaslUserDoX"),
            allows_failed: self.is_on("allowSaslFailedClients"),
        }
    }

    /// Whether some `authProvider.*` names the class of the scheme `sasl`.
    pub(super) fn has_sasl_scheme(&self) -> bool {
        self.has_provider(PROVIDER)
    }

    /// Whether `sessionRequireClientSASLAuth` is enabled, which is checked before `enforce.auth.*`.
    pub(super) fn is_sasl_required(&self) -> bool {
        self.is_on(REQUIRED)
    }

    fn naming(&self) -> Naming {
        let rules = match self.text(RULES) {
            None => Rules::default(),
            Some(text) => Rules::parse(&text).unwrap_or_else(|fault| {
                self.problem(RULES, format!("{}{RULES}: {fault}", registry::PREFIX));
                Rules::default()
            }),
        };
        Naming {
            rules,
            default_realm: String::new(),
            removes_host: self.is_on("kerberos.removeHostFromPrincipal"),
            removes_realm: self.is_on("kerberos.removeRealmFromPrincipal"),
        }
    }

    /// SASL for clients; `None` without a JAAS file, or if its sections are for other uses.
    fn sasl_login(&self, has_scheme: bool, is_required: bool) -> Option<SaslLogin> {
        let super_password =
            self.text("SASLAuthenticationProvider.superPassword").map(Secret::from);
        let is_named = self.text(SECTION).is_some_and(|name| name != DEFAULT_SECTION);
        let section = self.text(SECTION).unwrap_or_else(|| DEFAULT_SECTION.to_owned());
        let Some(path) = self.text(FILE).map(PathBuf::from) else {
            if is_named {
                let text =
                    format!("sasl.serverconfig={section} needs a JAAS file\nhint: {FILE} names it");
                self.problem(SECTION, text);
            }
            return None;
        };
        let fault = |fault: JaasError| self.problem(FILE, format!("{FILE}: {fault}"));
        let jaas = self.jaas(&path).map_err(fault).ok()?;
        let login = jaas.login(&section).map_err(fault).ok()?;
        match login {
            Some(Login::Digest(login)) if login.users.is_empty() => {
                fault(JaasError {
                    path,
                    line: line_of(&jaas, &section),
                    fault: format!(
                        "section {section}: no client can log in; give each a line user_NAME=\"PASSWORD\""
                    ),
                });
                None
            }
            Some(Login::Digest(login)) => Some(SaslLogin::Digest { login, super_password }),
            Some(Login::Kerberos(login)) => match login.service() {
                Ok(service) => {
                    self.kerberos(&jaas, &path, &section, service).map(SaslLogin::Kerberos)
                }
                Err(missing) => {
                    fault(JaasError {
                        path,
                        line: line_of(&jaas, &section),
                        fault: format!("section {section}: {missing}"),
                    });
                    None
                }
            },
            None if is_named || is_required => {
                let names: Vec<&str> = jaas.names().collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                fault(JaasError {
                    path,
                    line: None,
                    fault: format!(
                        "there is no section {section}; its sections are: {known}\n\
                         hint: zookeeper.sasl.serverconfig names the section of this server"
                    ),
                });
                None
            }
            None => {
                let text = format!(
                    "{} has no section {section}: clients cannot authenticate with SASL",
                    path.display()
                );
                self.note(if has_scheme { Note::warn(text) } else { Note::info(text) });
                None
            }
        }
    }

    /// SASL between servers, if `quorum.auth.enableSasl` enables it.
    pub(super) fn peer_sasl(&self) -> Option<PeerSaslConfig> {
        let [is_on, authenticates, is_required] =
            [ENABLED, LEARNER_REQUIRED, SERVER_REQUIRED].map(|key| self.is_on(key));
        for (key, wanted, is_missing) in [
            (LEARNER_REQUIRED, ENABLED, authenticates && !is_on),
            (SERVER_REQUIRED, ENABLED, is_required && !is_on),
            (SERVER_REQUIRED, LEARNER_REQUIRED, is_on && is_required && !authenticates),
        ] {
            if is_missing {
                self.problem(key, format!("{key}=true needs {wanted}=true"));
            }
        }
        let [own, others] = [OWN_SECTION, OTHERS_SECTION].map(|key| self.text(key));
        if !is_on {
            return None;
        }
        let Some(path) = self.text(FILE).map(PathBuf::from) else {
            let text = format!("{ENABLED}=true needs a JAAS file\nhint: {FILE} names it");
            self.problem(ENABLED, text);
            return None;
        };
        let fault = |fault: JaasError| self.problem(FILE, format!("{FILE}: {fault}"));
        let jaas = self.jaas(&path).map_err(fault).ok()?;
        // The original also requires both, whatever else is set.
        let (own, others) = (own?, others?);
        let servers = self.peer_principal();
        let own = peer_section(&jaas, &path, &own, |login| match login {
            Login::Digest(login) => {
                let (user, password) = login.credential.ok_or("set username and password")?;
                Ok(Some(PeerLogin::Digest { user, password }))
            }
            Login::Kerberos(login) => {
                let login = self.kerberos(&jaas, &path, &own, login.source()?);
                let both = login.zip(servers.clone());
                Ok(both.map(|(login, servers)| PeerLogin::Kerberos { login, servers }))
            }
        });
        let others = peer_section(&jaas, &path, &others, |login| match login {
            Login::Digest(login) if login.users.is_empty() => {
                Err("give each server that may authenticate a line user_NAME=\"PASSWORD\"")
            }
            Login::Digest(login) => Ok(Some(PeerUsers::Digest(login))),
            Login::Kerberos(login) => {
                let login = self.kerberos(&jaas, &path, &others, login.service()?);
                Ok(login.map(PeerUsers::Kerberos))
            }
        });
        let is_mixed = match (&own, &others) {
            (Ok(Some(PeerLogin::Digest { .. })), Ok(Some(PeerUsers::Kerberos(_)))) => {
                Some(("DIGEST-MD5", "Kerberos"))
            }
            (Ok(Some(PeerLogin::Kerberos { .. })), Ok(Some(PeerUsers::Digest(_)))) => {
                Some(("Kerberos", "DIGEST-MD5"))
            }
            _ => None,
        };
        if let Some((mine, theirs)) = is_mixed {
            let file = path.display();
            let text = format!(
                "{FILE}: {file}: section {} is for {mine} and section {} for {theirs}: members with this file refuse each other\n\
                 hint: give both sections the same login module",
                self.text(OWN_SECTION).unwrap_or_default(),
                self.text(OTHERS_SECTION).unwrap_or_default(),
            );
            self.problem(FILE, text);
            return None;
        }
        match (own, others) {
            (Ok(own), Ok(others)) => {
                Some(PeerSaslConfig { own: own?, others: others?, authenticates, is_required })
            }
            (own, others) => {
                own.err().into_iter().chain(others.err()).for_each(fault);
                None
            }
        }
    }

    /// The name of the other servers in Kerberos. Source: `SecurityUtils.getServerPrincipal`.
    fn peer_principal(&self) -> Option<PeerPrincipal> {
        let text = self.text(SERVICE_PRINCIPAL)?;
        let (name, realm) = match text.split_once('@') {
            Some((name, realm)) => (name, Some(realm)),
            None => (&*text, None),
        };
        let parts = name.split_once('/');
        let is_whole = |(service, host): &(&str, &str)| {
            !service.is_empty() && !host.is_empty() && !host.contains('/') && realm != Some("")
        };
        let Some((service, host)) = parts.filter(is_whole) else {
            let text = format!(
                "{SERVICE_PRINCIPAL}={text} is no name of a service; use NAME/_HOST, NAME/HOST or NAME/HOST@REALM"
            );
            self.problem(SERVICE_PRINCIPAL, text);
            return None;
        };
        if host == HOST && realm.is_some() {
            let text = format!(
                "{SERVICE_PRINCIPAL}={text}: {HOST} stands for a host only if no realm follows; write {service}/{HOST}"
            );
            self.problem(SERVICE_PRINCIPAL, text);
            return None;
        }
        Some(PeerPrincipal {
            service: service.to_owned(),
            host: (host != HOST).then(|| host.to_owned()),
            realm: realm.map(str::to_owned),
        })
    }

    /// The Kerberos login of this section; `None` if a property of Java's Kerberos cannot be
    /// supported.
    fn kerberos<L>(
        &self,
        jaas: &Jaas,
        path: &Path,
        section: &str,
        login: L,
    ) -> Option<KerberosConfig<L>> {
        let line = line_of(jaas, section).map_or(String::new(), |line| format!(":{line}"));
        let mut can_be_followed = true;
        for (key, entry) in KRB5_PROPERTIES {
            if self.text(key).is_some() {
                let text = format!(
                    "{key}: the library of Kerberos reads {entry} from krb5.conf; set it there and remove {key}"
                );
                self.problem(key, text);
                can_be_followed = false;
            }
        }
        can_be_followed.then(|| KerberosConfig {
            login,
            place: format!("{}{line}: section {section}", path.display()),
            krb5_conf: self.text(KRB5_CONF).map(PathBuf::from),
        })
    }

    fn jaas(&self, path: &Path) -> Result<Jaas, JaasError> {
        let fault = |line, fault| JaasError { path: path.to_owned(), line, fault };
        let bytes = self.read_file(path).map_err(|error| {
            fault(None, format!("cannot be read: {error}; check its path and permissions"))
        })?;
        let Ok(text) = std::str::from_utf8(&bytes) else {
            return Err(fault(None, "is not UTF-8; save it as UTF-8".to_owned()));
        };
        let property = |name: &str| {
            let (_, key) = registry::by_property(name)?;
            self.any_given(key)
        };
        Jaas::parse(path, text, &property)
    }
}

/// The line of the login module of a section.
fn line_of(jaas: &Jaas, section: &str) -> Option<usize> {
    jaas.section(section).and_then(|modules| modules.first()).map(|module| module.line)
}

/// The result of `take` for a section for servers; `None` if it has reported a problem.
fn peer_section<T>(
    jaas: &Jaas,
    path: &Path,
    section: &str,
    take: impl FnOnce(Login) -> Result<Option<T>, &'static str>,
) -> Result<Option<T>, JaasError> {
    take(jaas.required(section)?).map_err(|fault| JaasError {
        path: path.to_owned(),
        line: line_of(jaas, section),
        fault: format!("section {section}: {fault}"),
    })
}
