//! SASL at the start of a server: the configured mechanisms, and the Kerberos library if a
//! mechanism needs it.

use std::path::PathBuf;

use tracing::info;
use zebu_auth::gssapi::{Acceptor, Gss};
use zebu_auth::jaas::Service;
use zebu_auth::sasl::{self, Sasl};
use zebu_engine::sasl::ClientSasl;

use crate::config::{KerberosConfig, SaslConfig, SaslLogin};
use crate::error::StartError;

/// The environment variable with the file that the Kerberos library reads instead of
/// `/etc/krb5.conf`.
const KRB5_CONFIG: &str = "KRB5_CONFIG";

/// The SASL settings for clients; `None` without SASL.
///
/// # Errors
/// [`StartError::Kerberos`].
pub(crate) fn for_clients(config: &SaslConfig) -> Result<Option<ClientSasl>, StartError> {
    let Some(login) = config.login.clone() else { return Ok(None) };
    let mut naming = config.naming.clone();
    let mechanism = match login {
        SaslLogin::Digest { login, super_password } => sasl::digest(login, super_password),
        SaslLogin::Kerberos(service) => {
            let gss = gss(&service)?;
            // Without a default realm, the rule `DEFAULT` removes no realm, as in the original.
            naming.default_realm = gss.default_realm().unwrap_or_default();
            sasl::gssapi(acceptor(gss, &service)?)
        }
    };
    info!("clients may authenticate with SASL {}", mechanism.name());
    Ok(Some(ClientSasl {
        sasl: Sasl { mechanism, naming },
        super_users: config.super_users.clone(),
        allows_failed: config.allows_failed,
    }))
}

/// The Kerberos library, for a section that requires it.
///
/// # Errors
/// The library is not installed, or `java.security.krb5.conf` names a file other than the one that
/// the library reads.
pub(crate) fn gss<L>(config: &KerberosConfig<L>) -> Result<Gss, StartError> {
    if let Some(path) = &config.krb5_conf
        && std::env::var_os(KRB5_CONFIG).map(PathBuf::from).as_ref() != Some(path)
    {
        let path = path.display();
        let fault = format!(
            "java.security.krb5.conf={path} is Java's; set the environment variable {KRB5_CONFIG}={path} as well"
        );
        return Err(StartError::Kerberos { place: config.place.clone(), fault });
    }
    Gss::load().map_err(|error| fault(config, &error))
}

/// A service with its keys.
///
/// # Errors
/// The keys do not exist.
pub(crate) fn acceptor(gss: Gss, config: &KerberosConfig<Service>) -> Result<Acceptor, StartError> {
    let Service { principal, key_tab } = &config.login;
    let acceptor = gss.acceptor(principal, key_tab.as_deref());
    let acceptor = acceptor.map_err(|error| fault(config, &error))?;
    info!("{}: the service is {}", config.place, acceptor.name());
    Ok(acceptor)
}

pub(crate) fn fault<L>(config: &KerberosConfig<L>, error: &zebu_auth::gssapi::Error) -> StartError {
    StartError::Kerberos { place: config.place.clone(), fault: error.to_string() }
}
