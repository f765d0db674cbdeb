//! Auth packets of clients: asks the schemes that answer later, and counts and logs their verdicts.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{debug, warn};
use zebu_engine::Ticket;
use zebu_engine::client::Asking;
use zebu_proto::SessionId;
use zebu_replica::auth::{Answer, Claim, ENSEMBLE_SCHEME, Question, Refused, Verdict};

use crate::clients::access;
use crate::clients::conn::Conn;
use crate::shared::Shared;

/// Maximum time for a scheme's verdict. A client without a verdict is refused.
pub const VERDICT_TIME_MAX: Duration = Duration::from_secs(60);

/// Asks a scheme that answers later.
pub fn ask(shared: &Arc<Shared>, conn: &Conn, ticket: Ticket, asking: Asking<'_>) {
    let Some(provider) = asking.scheme.and_then(|scheme| shared.common.schemes.provider(scheme))
    else {
        conn.decide(ticket, Err(Refused::Credentials));
        return;
    };
    let question = Question { peer: conn.address, data: asking.data.map(<[u8]>::to_vec) };
    let (to, id) = (Arc::downgrade(shared), conn.id);
    let answer = Answer::new(move |verdict| {
        if let Some(shared) = to.upgrade()
            && let Some(conn) = shared.common.conns.get(id)
        {
            conn.decide(ticket, verdict);
        }
    });
    provider.ask(question, answer);
}

/// Checks credentials that did not arrive in an auth packet of a session.
pub async fn judge(shared: &Shared, peer: IpAddr, scheme: &str, data: &[u8]) -> Verdict {
    if !access::may_try(shared, peer) {
        return Err(Refused::Elsewhere);
    }
    let verdict = ask_for(shared, peer, scheme, data).await;
    if verdict == Err(Refused::Credentials) {
        access::failed(shared, peer);
        warn!(connection = %peer, "{peer} fails to authenticate over HTTP with the scheme {scheme:?}");
        if let Some(audit) = shared.audit.get() {
            let reason = format!("{}, over HTTP", Refused::Credentials);
            audit.not_authenticated(peer, None, None, scheme, reason);
        }
    }
    verdict
}

async fn ask_for(shared: &Shared, peer: IpAddr, scheme: &str, data: &[u8]) -> Verdict {
    let provider = shared.common.schemes.provider(scheme).ok_or(Refused::Credentials)?;
    if !provider.takes_time() {
        let znode = |path: &str| shared.tree().read().node(path)?.data().map(<[u8]>::to_vec);
        return provider.authenticate(&Claim { peer, data: Some(data), znode: &znode });
    }
    let (give, verdict) = oneshot::channel();
    let answer = Answer::new(move |verdict| drop(give.send(verdict)));
    provider.ask(Question { peer, data: Some(data.to_vec()) }, answer);
    match timeout(VERDICT_TIME_MAX, verdict).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) | Err(_) => Err(Refused::Elsewhere),
    }
}

/// Counts and logs the result of an auth packet.
pub fn judged(shared: &Shared, conn: &Conn, asking: Asking<'_>, result: Result<(), Refused>) {
    let scheme = asking.scheme.unwrap_or_default();
    if scheme == ENSEMBLE_SCHEME
        && let Some(names) = &shared.config.auth.ensemble
    {
        let is_said = asking.data.is_some_and(|name| !name.is_empty());
        let counter = match result {
            Err(_) => &shared.metrics.ensemble_auth_fail,
            Ok(()) if is_said && names.is_some() => &shared.metrics.ensemble_auth_success,
            Ok(()) => &shared.metrics.ensemble_auth_skip,
        };
        counter.add(1);
    }
    if shared.config.auth.outside.iter().any(|check| check.scheme == scheme) {
        let counter = match result {
            Ok(()) => &shared.metrics.external_auth_success,
            Err(Refused::Credentials) => &shared.metrics.external_auth_refused,
            Err(Refused::Elsewhere) => &shared.metrics.external_auth_unknown,
        };
        counter.add(1);
    }
    let (peer, session) = (conn.side.peer, conn.session().unwrap_or(SessionId::NONE));
    match result {
        Ok(()) => {
            debug!(%session, connection = %peer, "session {session} of {peer} is authenticated with the scheme {scheme:?}")
        }
        Err(refused) => {
            warn!(
                %session,
                connection = %peer,
                "session {session} of {peer} fails to authenticate with the scheme {scheme:?}: {refused}; \
                 the connection is closed"
            );
            if let Some(audit) = shared.audit.get() {
                let (session, ids) = (conn.session(), Some(conn.ids()));
                audit.not_authenticated(conn.address, session, ids, scheme, refused.to_string());
            }
        }
    }
}
