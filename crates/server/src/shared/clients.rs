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
use crate::config::Config;
use crate::four_letter::{TRACE_MASK_DEFAULT, Whitelist};

/// State that the threads for clients share.
pub struct Clients {
    /// The client port that is bound.
    pub client_port: Mutex<Option<u16>>,
    /// The certificates of the client ports for TLS, where there are any.
    pub tls_port: OnceLock<Arc<Port>>,
    /// TLS handshakes in progress.
    pub tls_handshakes: AtomicUsize,
    /// TLS handshakes that have failed since the start.
    pub tls_failures: AtomicU64,
    /// Connections without TLS since the start, from this machine and from others.
    pub plain_local: AtomicU64,
    /// See `plain_local`.
    pub plain_remote: AtomicU64,
    /// What the certificates of clients make them, where there is that scheme.
    pub x509: Option<X509>,
    /// Until when the network workers have listened to clients.
    pub listening: Listening,
    /// How many connections there may be.
    pub(super) conn_limits: ConnLimits,
    /// What strangers may try, and how many connections an identity may have.
    pub access: Access,
    /// Clients that arrived while the server did not serve.
    pub refused: Refused,
    /// Reads whose answers were too long.
    pub too_long: TooLong,
    /// The four-letter words that are answered.
    pub whitelist: Whitelist,
    /// What `stmk` set.
    pub trace_mask: AtomicI64,
    /// Clients are to be served elsewhere, perhaps.
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
