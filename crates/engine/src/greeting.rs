//! Answers to connect requests.

use zebu_jute::Encode as _;
use zebu_proto::reply::{ConnectResponse, PASSWORD_BYTES};
use zebu_proto::{EnsembleId, ErrorCode, SessionId, Xid, Zxid};
use zebu_replica::frame;

use crate::common::{Common, Mode};
use crate::conn::Conn;
use crate::sync::atomic::Ordering;

/// Tells a client that it has its session.
pub(crate) fn accept<S: crate::Side>(
    common: &Common<S>,
    conn: &Conn<S>,
    session: SessionId,
    timeout_ms: i32,
    password: [u8; PASSWORD_BYTES],
) {
    let response = ConnectResponse {
        timeout_ms,
        session_id: session,
        password,
        read_only: read_only_byte(common, conn),
        ensemble: asked_ensemble(common, conn),
    };
    greet(conn, &response);
}

/// Tells a client that its session has expired. The connection closes when this is sent.
pub(crate) fn refuse<S: crate::Side>(common: &Common<S>, conn: &Conn<S>) {
    let refused = ConnectResponse {
        ensemble: asked_ensemble(common, conn),
        ..ConnectResponse::refused(read_only_byte(common, conn))
    };
    greet(conn, &refused);
    conn.outbox.lock().close();
}

/// Tells a client that this server only reads and creates no session, as an answer to request 0.
/// The connection closes when this is sent.
pub(crate) fn deny<S: crate::Side>(conn: &Conn<S>, zxid: Zxid) {
    let mut outbox = conn.outbox.lock();
    outbox.put(|out| frame::bare_reply(out, Xid(0), zxid, ErrorCode::NOT_READ_ONLY));
    outbox.close();
}

/// The read-only flag in the answer to a connect request; `None` for clients that did not send
/// theirs.
fn read_only_byte<S: crate::Side>(common: &Common<S>, conn: &Conn<S>) -> Option<bool> {
    let read_only = common.serving() == Some(Mode::ReadOnly);
    conn.says_read_only.load(Ordering::Relaxed).then_some(read_only)
}

/// The id of this server's ensemble, for a client that has asked for it.
fn asked_ensemble<S: crate::Side>(common: &Common<S>, conn: &Conn<S>) -> Option<EnsembleId> {
    let asks = conn.asks_ensemble.load(Ordering::Relaxed);
    asks.then(|| common.identity().settled()).flatten()
}

fn greet<S: crate::Side>(conn: &Conn<S>, response: &ConnectResponse) {
    conn.outbox.lock().put(|out| frame::frame(out, |out| response.encode(out)));
}
