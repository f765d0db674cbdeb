//! Connections of clients as a server sees them: what their tasks do, and answers in their order.

use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode as _, Decoder, Encode as _};
use zebu_proto::reply::ConnectResponse;
use zebu_proto::request::{ConnectRequest, RequestHeader};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{Acl, ErrorCode, EventType, Id, SessionId, Xid, Zxid};
use zebu_replica::auth::Credentials;
use zebu_replica::gate::{self, Route};
use zebu_replica::{
    After, ConnId, Connect, Input, Origin, Output, Reader, Request, frame, write_reply,
};
use zebu_tree::{Events, WatcherId};

use crate::net::{Kind, Message};
use crate::server::watcher;
use crate::world::World;

/// A client's connection.
pub(crate) struct Conn {
    pub(crate) session: Option<SessionId>,
    /// When it was last heard of, by the server's clock, in whole milliseconds.
    pub(crate) heard: Duration,
    greeted: bool,
    in_flight: u32,
    /// Requests that are done with, of which the connection does not know yet.
    done: u32,
    outbox: Vec<u8>,
    pub(crate) closing: bool,
    ids: Credentials,
}

/// Puts notifications into the outboxes, in front of every answer that could show their cause.
struct Notifier<'e> {
    conns: &'e mut std::collections::BTreeMap<ConnId, Conn>,
    dirty: &'e mut Vec<ConnId>,
}

impl Events for Notifier<'_> {
    fn notify(&mut self, watcher: WatcherId, event: EventType, path: &str, zxid: Zxid) {
        let id = ConnId(watcher.0.into());
        if let Some(conn) = self.conns.get_mut(&id) {
            frame::notification(&mut conn.outbox, event, path, zxid);
            self.dirty.push(id);
        }
    }

    fn may_read(&mut self, _: WatcherId, _: &[Acl]) -> bool {
        true
    }
}

impl World {
    fn conn(&mut self, server: usize, conn: ConnId) -> Option<&mut Conn> {
        self.servers[server].process.as_mut()?.conns.get_mut(&conn)
    }

    /// A client dials.
    pub(crate) fn accept(&mut self, server: usize, place: usize) -> u64 {
        let id = self.open(Kind::Client, place, server);
        let mut ids = self.schemes.initial([127, 0, 0, 1].into());
        if self.is_operator(place - self.plan.servers()) {
            ids = ids.iter().cloned().chain([Id::new("super", "")]).collect();
        }
        if let Some(process) = &mut self.servers[server].process {
            let conn = Conn {
                session: None,
                heard: Duration::ZERO,
                greeted: false,
                in_flight: 0,
                done: 0,
                outbox: Vec::new(),
                closing: false,
                ids,
            };
            process.conns.insert(ConnId(id), conn);
        }
        id
    }

    /// Frames of a client.
    pub(crate) fn frames(&mut self, server: usize, id: u64, frames: Bytes) {
        let now = self.servers[server].clock(self.now).monotonic;
        let heard = Duration::from_millis(now.as_millis() as u64);
        let mut rest = frames;
        while !rest.is_empty() {
            let Some(length) = rest.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes))
            else {
                return;
            };
            let mut payload = rest.split_to(4 + length as usize);
            let payload = payload.split_off(4);
            let serves = self.servers[server].serves() || self.only_reads(server);
            let Some(conn) = self.conn(server, ConnId(id)) else { return };
            conn.heard = heard;
            if !conn.greeted {
                conn.greeted = true;
                if !serves {
                    return self.end_conn(server, ConnId(id));
                }
                self.connect(server, id, &payload);
                continue;
            }
            if conn.closing {
                return;
            }
            let Some(session) = conn.session else {
                self.checks.found("a client asks before it has a session".to_owned());
                return;
            };
            self.checks.expiry.frames(server, session, self.now);
            self.request(server, id, session, now, &payload);
        }
        self.wake_conns(server);
    }

    fn connect(&mut self, server: usize, id: u64, payload: &[u8]) {
        let number = self.servers[server].number;
        let request = ConnectRequest::from_bytes(payload).expect("clients speak the protocol");
        let connect = Connect {
            conn: ConnId(id),
            last_zxid_seen: request.last_zxid_seen,
            timeout_ms: request.timeout_ms,
            session: SessionId(request.session_id),
            password: request.password.unwrap_or_default().to_vec(),
            read_only: request.read_only == Some(true),
        };
        self.input(server, number, Input::Connect(connect));
    }

    fn request(
        &mut self,
        server: usize,
        id: u64,
        session: SessionId,
        received: Duration,
        payload: &Bytes,
    ) {
        let number = self.servers[server].number;
        let schemes = self.schemes.clone();
        let mut decoder = Decoder::new(payload);
        let RequestHeader { xid, op } =
            RequestHeader::decode(&mut decoder).expect("clients speak the protocol");
        let body = payload.slice(decoder.position()..);
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(conn) = process.conns.get_mut(&ConnId(id)) else { return };
        if gate::route(op, conn.in_flight as usize) == Route::Now {
            let watcher = watcher(ConnId(id));
            let reader = Reader { schemes: &schemes, watcher, session, ids: &conn.ids };
            let after = reader.answer(&process.tree, xid, op, &body, &mut conn.outbox);
            conn.closing |= after == After::Close;
            process.dirty.push(ConnId(id));
            return;
        }
        conn.in_flight += 1;
        let request = Request {
            conn: ConnId(id),
            session,
            xid,
            op,
            body,
            ids: conn.ids.clone(),
            received,
            bytes: payload.len(),
        };
        self.input(server, number, Input::Request(request));
    }

    // ---- what the replica asks for

    /// A request is done with; its connection, if it is still there.
    fn done(&mut self, server: usize, origin: &Origin) -> Option<&mut Conn> {
        let process = self.servers[server].process.as_mut()?;
        let conn = process.conns.get_mut(&origin.conn)?;
        conn.done += 1;
        process.dirty.push(origin.conn);
        Some(conn)
    }

    pub(crate) fn apply(
        &mut self,
        server: usize,
        zxid: Zxid,
        bytes: &Bytes,
        origin: Option<Origin>,
    ) {
        let Some(process) = &mut self.servers[server].process else { return };
        let record = TxnRecord::decode(bytes).expect("the replica made this record");
        let process = &mut **process;
        let before = process.tree.last_zxid();
        let mut events = Notifier { conns: &mut process.conns, dirty: &mut process.dirty };
        let applied = process.tree.apply(&record, &mut events);
        let mut reply = Vec::new();
        if let Some(origin) = &origin {
            write_reply(&mut reply, origin.op, origin.xid, zxid, &applied);
        }
        let candidate = process.replica.peer().is_some_and(|peer| {
            peer.leads().is_none() && peer.state() == zebu_zab::election::State::Leading
        });
        let matches = applied.digest_matches;
        self.checks.applied(server, before, bytes, &process.tree, candidate);
        if !matches {
            self.checks.found(format!("S-10: server {server} has another digest than {zxid} says"));
        }
        if let Some(origin) = origin
            && let Some(conn) = self.done(server, &origin)
        {
            conn.outbox.extend_from_slice(&reply);
        }
    }

    pub(crate) fn for_client(&mut self, server: usize, output: Output) {
        match output {
            Output::Answer(request) => self.answer(server, &request),
            Output::Reply { origin, zxid, err } => {
                let Some(process) = &self.servers[server].process else { return };
                let zxid = zxid.unwrap_or(process.tree.last_zxid());
                self.reply(server, &origin, zxid, err);
            }
            Output::Abandon(origin) => {
                if let Some(conn) = self.done(server, &origin) {
                    conn.closing = true;
                }
            }
            Output::Accept { conn: id, session, timeout_ms, password } => {
                let read_only = Some(self.only_reads(server));
                if let Some(process) = &self.servers[server].process
                    && process.only_reads
                {
                    self.checks.shows(id.0, process.tree.last_zxid());
                }
                let response =
                    ConnectResponse { timeout_ms, session_id: session, password, read_only };
                if let Some(conn) = self.conn(server, id) {
                    frame::frame(&mut conn.outbox, |out| response.encode(out));
                    conn.session = Some(session);
                    self.touch(server, id);
                }
            }
            Output::Refuse(id) => {
                let response = ConnectResponse::refused(Some(self.only_reads(server)));
                if let Some(conn) = self.conn(server, id) {
                    frame::frame(&mut conn.outbox, |out| response.encode(out));
                    conn.closing = true;
                    self.touch(server, id);
                }
            }
            Output::Deny(id) => {
                let Some(process) = &self.servers[server].process else { return };
                let zxid = process.tree.last_zxid();
                if let Some(conn) = self.conn(server, id) {
                    frame::bare_reply(&mut conn.outbox, Xid(0), zxid, ErrorCode::NOT_READ_ONLY);
                    conn.closing = true;
                    self.touch(server, id);
                }
            }
            Output::ReadOnly(on) => self.serve_readers(server, on),
            Output::Disconnect(id) => {
                if let Some(conn) = self.conn(server, id) {
                    conn.closing = true;
                    self.touch(server, id);
                }
            }
            Output::Append { .. } | Output::Apply { .. } | Output::Snapshot | Output::Zab(_) => {
                unreachable!("not for a client")
            }
        }
    }

    fn reply(&mut self, server: usize, origin: &Origin, zxid: Zxid, err: ErrorCode) {
        let xid = origin.xid;
        if let Some(conn) = self.done(server, origin) {
            frame::bare_reply(&mut conn.outbox, xid, zxid, err);
        }
    }

    fn answer(&mut self, server: usize, request: &Request) {
        let schemes = self.schemes.clone();
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(conn) = process.conns.get_mut(&request.conn) else { return };
        let Request { session, xid, op, body, ids, .. } = request;
        let reader =
            Reader { schemes: &schemes, watcher: watcher(request.conn), session: *session, ids };
        let after = reader.answer(&process.tree, *xid, *op, body, &mut conn.outbox);
        conn.closing |= after == After::Close;
        self.done(server, &request.origin());
    }

    fn touch(&mut self, server: usize, id: ConnId) {
        if let Some(process) = &mut self.servers[server].process {
            process.dirty.push(id);
        }
    }

    /// Sends what is in the outboxes; only now do requests count as answered.
    pub(crate) fn wake_conns(&mut self, server: usize) {
        let Some(process) = &mut self.servers[server].process else { return };
        let mut dirty = std::mem::take(&mut process.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for id in dirty {
            let Some(conn) = self.conn(server, id) else { continue };
            conn.in_flight -= std::mem::take(&mut conn.done);
            let closing = conn.closing;
            let frames = std::mem::take(&mut conn.outbox);
            if !frames.is_empty() {
                self.send(id.0, server, Message::Frames(frames.into()));
            }
            if closing {
                self.end_conn(server, id);
            }
        }
    }

    /// A client's connection ends, at either end's wish.
    pub(crate) fn end_conn(&mut self, server: usize, id: ConnId) {
        self.close(id.0, server);
        let Some(process) = &mut self.servers[server].process else { return };
        let Some(conn) = process.conns.remove(&id) else { return };
        process.tree.drop_watcher(watcher(id));
        let number = process.number;
        if conn.greeted {
            let session = conn.session.unwrap_or(SessionId::NONE);
            // What it said last was perhaps not reported yet.
            self.input(server, number, Input::Touched { session, at: conn.heard });
            self.input(server, number, Input::Disconnected { conn: id, session });
        }
    }
}
