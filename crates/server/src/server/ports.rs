//! The ports of a server that starts: they are bound before anything is served.

use std::net::TcpListener;

use crate::admin;
use crate::clients::secure::Handshakes;
use crate::clients::workers;
use crate::config::Config;
use crate::error::StartError;

/// The bound ports, on which nothing is accepted yet.
pub(super) struct Ports {
    pub(super) clients: Option<TcpListener>,
    /// The port for clients with TLS.
    pub(super) secure: Option<TcpListener>,
    /// The certificates of the ports for clients.
    pub(super) handshakes: Option<Handshakes>,
    pub(super) http: admin::Bound,
}

/// The numbers of the bound ports.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) clients: Option<u16>,
    pub(super) secure: Option<u16>,
    pub(super) admin: Option<u16>,
    pub(super) metrics: Option<u16>,
    pub(super) metrics_tls: Option<u16>,
}

impl Ports {
    /// Binds the ports.
    ///
    /// # Errors
    /// A port cannot be bound, or its certificates cannot be used.
    pub(super) fn bind(config: &Config) -> Result<Self, StartError> {
        let tls = config.client_tls.as_ref();
        Ok(Self {
            clients: workers::bind(&config.net)?,
            secure: tls.map(|tls| workers::bind_secure(tls, &config.net)).transpose()?.flatten(),
            handshakes: tls.map(Handshakes::new).transpose()?,
            http: admin::Bound::new(config)?,
        })
    }

    /// The numbers of the ports.
    pub(super) fn numbers(&self) -> Numbers {
        let number = |listener: &Option<TcpListener>| {
            listener.as_ref().and_then(|listener| listener.local_addr().ok()).map(|at| at.port())
        };
        Numbers {
            clients: number(&self.clients),
            secure: number(&self.secure),
            admin: self.http.admin_port(),
            metrics: self.http.metrics_port(),
            metrics_tls: self.http.metrics_tls_port(),
        }
    }
}
