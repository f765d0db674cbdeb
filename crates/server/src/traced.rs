//! The request trace: lines of one logger at level TRACE, for the kinds of request that the trace
//! mask selects.
//!
//! A line contains no data and no credentials. While the logger is off, which is the default, a
//! request costs one read of a number.
//!
//! Source: `ZooTrace.java`.

use std::borrow::Cow;
use std::sync::atomic::{AtomicI64, Ordering};

use tracing::{Level, enabled, trace};
use zebu_jute::Decoder;
use zebu_proto::quorum::PacketKind;
use zebu_proto::txn::Txn;
use zebu_proto::{EventType, OpCode, SessionId, Xid, Zxid};
use zebu_replica::Input;

use crate::clients::conn::Conn;

/// The kind of a line. The number is its bit in the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Requests = 1 << 1,
    Pings = 1 << 3,
    Packets = 1 << 4,
    Sessions = 1 << 5,
    Events = 1 << 6,
    ServerPings = 1 << 7,
}

/// Whether lines of this kind are written.
fn wants(mask: &AtomicI64, kind: Kind) -> bool {
    is_on() && mask.load(Ordering::Relaxed) & kind as i64 != 0
}

fn is_on() -> bool {
    enabled!(target: "zebu_trace", Level::TRACE)
}

/// A client has sent a request.
#[inline]
pub fn request(
    mask: &AtomicI64,
    conn: &Conn,
    session: SessionId,
    asked: (Xid, OpCode),
    body: &[u8],
) {
    if is_on() {
        trace_request(mask, conn, session, asked, body);
    }
}

#[cold]
fn trace_request(
    mask: &AtomicI64,
    conn: &Conn,
    session: SessionId,
    (xid, op): (Xid, OpCode),
    body: &[u8],
) {
    let kind = if op == OpCode::PING { Kind::Pings } else { Kind::Requests };
    if !wants(mask, kind) {
        return;
    }
    let (peer, name, xid) = (conn.side.peer, op.name(), xid.0);
    match path(op, body) {
        Some(path) => trace!(
            target: "zebu_trace", %session, connection = %peer,
            "request {name} {path:?} of session {session} from {peer}, xid {xid}"
        ),
        None => trace!(
            target: "zebu_trace", %session, connection = %peer,
            "request {name} of session {session} from {peer}, xid {xid}"
        ),
    }
}

/// The path at the beginning of a request.
fn path(op: OpCode, body: &[u8]) -> Option<Cow<'_, str>> {
    let has_none = matches!(
        op,
        OpCode::PING
            | OpCode::AUTH
            | OpCode::SASL
            | OpCode::MULTI
            | OpCode::MULTI_READ
            | OpCode::SET_WATCHES
            | OpCode::SET_WATCHES2
            | OpCode::CLOSE_SESSION
            | OpCode::RECONFIG
            | OpCode::WHO_AM_I
    );
    if has_none { None } else { Decoder::new(body).text().ok() }
}

/// The replica processes these inputs.
pub fn inputs(mask: &AtomicI64, inputs: &[Input]) {
    if !is_on() {
        return;
    }
    for input in inputs {
        let Input::Zab(zebu_zab::Input::Packet(link, packet)) = input else { continue };
        let is_ping = packet.kind == PacketKind::PING;
        if wants(mask, if is_ping { Kind::ServerPings } else { Kind::Packets }) {
            let (kind, zxid) = (packet.kind, packet.zxid);
            let bytes = packet.data.as_ref().map_or(0, bytes::Bytes::len);
            trace!(target: "zebu_trace", "packet {kind:?} {zxid} of {bytes} bytes on {link:?}");
        }
    }
}

/// A transaction is applied.
pub fn applied(mask: &AtomicI64, session: SessionId, zxid: Zxid, txn: &Txn<'_>) {
    if !wants(mask, Kind::Sessions) {
        return;
    }
    match txn {
        Txn::CreateSession { timeout_ms } => {
            trace!(target: "zebu_trace", %session, "session {session} begins at {zxid}, timeout {timeout_ms} ms");
        }
        Txn::CloseSession { .. } => {
            trace!(target: "zebu_trace", %session, "session {session} ends at {zxid}");
        }
        _ => {}
    }
}

/// This number of connections were notified of an event.
pub fn event(mask: &AtomicI64, event: EventType, path: &str, connections: i64) {
    if wants(mask, Kind::Events) {
        trace!(target: "zebu_trace", "event {event:?} {path:?} to {connections} connections");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: `ZooTrace.java`.
    #[test]
    fn the_bits_are_those_of_the_original() {
        let kinds = [
            (Kind::Requests, 2),
            (Kind::Pings, 8),
            (Kind::Packets, 16),
            (Kind::Sessions, 32),
            (Kind::Events, 64),
            (Kind::ServerPings, 128),
        ];
        assert!(kinds.iter().all(|(kind, bit)| *kind as i64 == *bit));
        assert!(!wants(&AtomicI64::new(-1), Kind::Requests), "nobody listens");
    }

    #[test]
    fn a_line_has_the_path_and_no_secret() {
        let body = b"\0\0\0\x02/a\0\0\0\x06secret";
        assert_eq!(path(OpCode::CREATE, body).as_deref(), Some("/a"));
        for op in [OpCode::AUTH, OpCode::SASL, OpCode::MULTI, OpCode::PING] {
            assert_eq!(path(op, body), None);
        }
        assert_eq!(path(OpCode::GET_DATA, b"\0\0\0\x09/a"), None);
    }
}
