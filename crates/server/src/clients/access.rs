//! Limits for clients that have not authenticated, and connections per identity.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::warn;
use zebu_auth::failures::Failures;
use zebu_auth::identities::Identities;
use zebu_proto::Id;

use crate::config::Config;
use crate::shared::Shared;

/// A scheme, and an id of it.
type Identity = (String, String);

/// The limits for all clients of a server.
#[derive(Debug)]
pub struct Access {
    failures: Mutex<Failures>,
    identities: Arc<Mutex<Identities<Identity>>>,
}

/// The identities for which a connection counts. Dropping this ends the counting.
#[derive(Debug, Default)]
pub struct Entered {
    identities: Option<Arc<Mutex<Identities<Identity>>>>,
    ids: Vec<Identity>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(identities) = &self.identities {
            identities.lock().leave(&self.ids);
        }
    }
}

impl Access {
    /// No client has tried to authenticate yet.
    pub fn new(config: &Config) -> Self {
        let identities = Identities::new(config.limits.connections_per_identity);
        Self {
            failures: Mutex::new(Failures::new(config.auth.failures_per_minute)),
            identities: Arc::new(Mutex::new(identities)),
        }
    }
}

/// Whether a client of this address may try to authenticate.
pub fn may_try(shared: &Shared, peer: IpAddr) -> bool {
    let may = shared.clients.access.failures.lock().may_try(shared.clock.monotonic(), peer);
    if !may {
        shared.metrics.auth_attempts_limited.add(1);
        if let Some(audit) = shared.audit.get() {
            audit.refused(peer, "too many failed authentications".to_owned());
        }
    }
    may
}

/// A client of this address has presented wrong credentials.
pub fn failed(shared: &Shared, peer: IpAddr) {
    shared.metrics.auth_failures.add(1);
    if shared.clients.access.failures.lock().failed(shared.clock.monotonic(), peer) {
        let most = shared.config.auth.failures_per_minute;
        warn!(
            "{peer} has failed to authenticate more often than zebu.authFailuresPerMinute={most} allows: \
             this server refuses further attempts from this address for a while"
        );
    }
}

/// Counts a connection of this address for those of these ids for which it does not count yet.
///
/// Returns false if one of these identities already has its maximum number of connections.
pub fn enter(shared: &Shared, peer: IpAddr, entered: &mut Entered, ids: &[Id]) -> bool {
    let mut identities = shared.clients.access.identities.lock();
    if !identities.are_counted() {
        return true;
    }
    let schemes = &shared.common.schemes;
    let proved = ids.iter().filter(|id| schemes.proves(id));
    let proved = proved.map(|id| (id.scheme.clone(), id.id.clone()));
    let more: Vec<Identity> = proved.filter(|it| !entered.ids.contains(it)).collect();
    if let Err((scheme, id)) = identities.enter(&more) {
        let shown = schemes.shown(scheme, id);
        let most = shared.config.limits.connections_per_identity;
        shared.metrics.identity_connections_rejected.add(1);
        warn!(
            "closing a connection from {peer}: {shown} has {most} connections, as many as \
             zebu.maxConnectionsPerIdentity allows"
        );
        drop(identities);
        if let Some(audit) = shared.audit.get() {
            audit.refused(peer, format!("zebu.maxConnectionsPerIdentity={most}, {shown}"));
        }
        return false;
    }
    entered.identities.get_or_insert_with(|| shared.clients.access.identities.clone());
    entered.ids.extend(more);
    true
}
