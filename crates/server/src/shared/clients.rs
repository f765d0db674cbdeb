//! State that the threads for clients share.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::Notify;
use zebu_engine::conns::ConnLimits;
use zebu_replica::auth::X509;
use zebu_transport::Port;

use crate::clients::access::Access;
use crate::clients::descriptors;
use crate::clients::listening::Listening;
use crate::clients::refused::Refused;
use crate::clients::too_long::TooLong;
use crate::clients::wakes::Wakes;
use crate::clients::workers;
use crate::config::Config;
use crate::four_letter::{TRACE_MASK_DEFAULT, Whitelist};

/// State that the threads for clients share.
pub struct Clients {
    /// The bound client port.
    pub client_port: Mutex<Option<u16>>,
    /// The certificates of the client ports for TLS, if there are any.
    pub tls_port: OnceLock<Arc<Port>>,
    /// TLS handshakes in progress.
    pub tls_handshakes: AtomicUsize,
    /// TLS handshakes that have failed since the start.
    pub tls_failures: AtomicU64,
    /// Connections without TLS since the start, from this machine and from others.
    pub plain_local: AtomicU64,
    /// See `plain_local`.
    pub plain_remote: AtomicU64,
    /// The scheme that turns clients' certificates into ids, if it is configured.
    pub x509: Option<X509>,
    /// The time up to which the network workers have read their sockets.
    pub listening: Listening,
    /// Wakes the tasks of the network workers.
    pub wakes: Arc<Wakes>,
    /// The limits on the number of connections.
    pub(super) conn_limits: ConnLimits,
    /// The limits for clients that have not authenticated, and connections per identity.
    pub access: Access,
    /// Clients that arrived while the server did not serve.
    pub refused: Refused,
    /// Reads whose answers were too long.
    pub too_long: TooLong,
    /// The enabled four-letter words.
    pub whitelist: Whitelist,
    /// The mask set by `stmk`.
    pub trace_mask: AtomicI64,
    /// Notified when the client address may have changed.
    pub members_changed: Notify,
}

impl Clients {
    pub(super) fn new(config: &Config, client_port: Option<u16>) -> Self {
        let limits = &config.limits;
        let total = limits.connections.into_iter().chain(descriptors::connections_max()).min();
        Self {
            client_port: Mutex::new(client_port),
            tls_port: OnceLock::new(),
            tls_handshakes: AtomicUsize::new(0),
            tls_failures: AtomicU64::new(0),
            plain_local: AtomicU64::new(0),
            plain_remote: AtomicU64::new(0),
            x509: config.auth.x509.then(|| X509::new(config.auth.x509_super_user.clone())),
            listening: Listening::default(),
            wakes: Arc::new(Wakes::new(workers::count())),
            conn_limits: ConnLimits { per_address: limits.connections_per_address, total },
            access: Access::new(config),
            refused: Refused::default(),
            too_long: TooLong::default(),
            whitelist: Whitelist::new(&config.four_letter_words, config.readonly_mode),
            trace_mask: AtomicI64::new(TRACE_MASK_DEFAULT),
            members_changed: Notify::new(),
        }
    }
}
