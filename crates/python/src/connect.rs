//! Opening a session with the settings that a program gives.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zebu_client::{Connector, Sasl, SessionId, SessionThread, SessionTicket, Tls};

use crate::call::{Call, duration};
use crate::error::Failure;
use crate::session::{Entry, Session, acls};

/// The settings of a session. Missing ones have the client's defaults.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    timeout: Option<f64>,
    connection_wait: Option<f64>,
    request_timeout: Option<f64>,
    give_up_after: Option<f64>,
    read_only: bool,
    chroot_acl: Option<Vec<Entry>>,
    auth: Vec<(String, Vec<u8>)>,
    ticket: Option<(i64, Vec<u8>)>,
    tls: Option<TlsSettings>,
    sasl: Option<SaslSettings>,
}

/// The stores of keys and certificates, and the checks of a server's certificate.
#[derive(FromPyObject)]
struct TlsSettings {
    trust_store: Option<String>,
    trust_store_password: Option<String>,
    key_store: Option<String>,
    key_store_password: Option<String>,
    system_roots: bool,
    hostname_verification: bool,
}

impl TlsSettings {
    fn tls(self) -> Tls {
        let mut tls = Tls::new().hostname_verification(self.hostname_verification);
        if let Some(file) = self.trust_store {
            tls = tls.trust_store(file);
        }
        if let Some(password) = self.trust_store_password {
            tls = tls.trust_store_password(&password);
        }
        if let Some(file) = self.key_store {
            tls = tls.key_store(file);
        }
        if let Some(password) = self.key_store_password {
            tls = tls.key_store_password(&password);
        }
        if self.system_roots { tls.system_roots() } else { tls }
    }
}

/// The identity of the client: a name and a password, or Kerberos with a key table or the ticket
/// cache.
#[derive(FromPyObject)]
struct SaslSettings {
    user: Option<String>,
    password: Option<String>,
    key_tab: Option<String>,
}

impl SaslSettings {
    fn sasl(self) -> zebu_client::Result<Sasl> {
        match (self.user, self.password, self.key_tab) {
            (Some(user), Some(password), _) => Ok(Sasl::digest_md5(&user, &password)),
            (Some(principal), None, Some(file)) => Sasl::kerberos_key_tab(&principal, file),
            _ => Sasl::kerberos_cache(),
        }
    }
}

fn connector(py: Python<'_>, settings: Settings, thread: &SessionThread) -> PyResult<Connector> {
    let mut connector = Connector::new().on_thread(thread);
    let with = |seconds: Option<f64>, set: fn(Connector, Duration) -> Connector, to: Connector| {
        seconds.map(duration).map_or_else(|| to.clone(), |time| set(to.clone(), time))
    };
    connector = with(settings.timeout, Connector::session_timeout, connector);
    connector = with(settings.connection_wait, Connector::connection_wait, connector);
    connector = with(settings.request_timeout, Connector::request_timeout, connector);
    connector = with(settings.give_up_after, Connector::give_up_after, connector);
    if settings.read_only {
        connector = connector.allow_read_only();
    }
    if let Some(acl) = settings.chroot_acl {
        connector = connector.create_chroot(acls(acl));
    }
    for (scheme, auth) in settings.auth {
        connector = connector.authenticate(&scheme, auth);
    }
    if let Some((id, password)) = settings.ticket {
        let password = password
            .try_into()
            .map_err(|_| PyValueError::new_err("the password of a session has 16 bytes"))?;
        connector = connector.resume(SessionTicket { id: SessionId(id), password });
    }
    if let Some(tls) = settings.tls {
        connector = connector.tls(tls.tls());
    }
    if let Some(sasl) = settings.sasl {
        connector = connector.sasl(sasl.sasl().map_err(|error| Failure::from(error).raise(py))?);
    }
    Ok(connector)
}

/// Opens a session. The answer arrives when the session is established.
#[pyfunction]
pub(crate) fn connect(py: Python<'_>, hosts: String, settings: Settings) -> PyResult<Call> {
    let thread = SessionThread::start()
        .map_err(|error| Failure::Thread(format!("no thread for a session: {error}")).raise(py))?;
    let connector = connector(py, settings, &thread)?;
    Ok(Call::new(&thread, async move { connector.connect(&hosts).await.map(Session::new) }))
}
