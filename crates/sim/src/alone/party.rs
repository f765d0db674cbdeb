//! A client of a standalone server. On each connection it uses a znode that no other client knows.
//! So it knows each answer in advance, and the states that a power cut may leave.

use std::collections::VecDeque;

use bytes::Bytes;
use zebu_engine::client::End;
use zebu_engine::{ClientRules, Common};
use zebu_jute::{Decode as _, Decoder, Encode as _};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{AddWatch, AuthPacket, ConnectRequest};
use zebu_proto::{Acl, ErrorCode, Id, OpCode, Perms, SessionId, Version, Xid, Zxid};
use zebu_testkit::Random;
use zebu_testkit::wire::{frame, framed_request};
use zebu_tree::Tree;

use super::socket::{SPINS, Side, Socket};
use crate::requests::{create_ttl, create_with, delete, multi, path_only, read, set};

/// The most requests of one client that are in flight.
const PIPELINE: usize = 12;

/// The number of znodes of earlier connections that the check after a crash looks at.
const REMEMBERED: usize = 16;

/// The path that all clients change and watch.
const SHARED: &str = "/shared";

/// The version and data of a znode, if it exists.
type State = Option<(i32, Vec<u8>)>;

/// A znode that only one connection uses.
struct Own {
    path: String,
    /// The state before the first write, then the state after each write.
    states: Vec<State>,
    /// The index of the last acknowledged state.
    acked: usize,
    /// Whether the znode's ACL requires authentication.
    is_guarded: bool,
}

impl Own {
    fn new(path: String) -> Self {
        Self { path, states: vec![None], acked: 0, is_guarded: false }
    }

    fn state(&self) -> &State {
        self.states.last().expect("there is a first one")
    }
}

/// A request in flight, with what the client expects of its answer.
struct Asked {
    xid: i32,
    op: OpCode,
    /// The expected error; `None` if any is allowed.
    err: Option<ErrorCode>,
    /// The expected result of a read.
    finds: Option<(i32, Vec<u8>)>,
    /// The index of the state that the answer acknowledges.
    acks: Option<usize>,
}

/// A client.
pub(super) struct Party {
    number: u64,
    random: Random,
    pub(super) socket: Option<Socket>,
    session: SessionId,
    password: Vec<u8>,
    connections: u64,
    is_open: bool,
    xid: i32,
    pending: VecDeque<Asked>,
    /// The number of unanswered AUTH packets.
    auths: usize,
    is_authenticated: bool,
    own: Own,
    earlier: VecDeque<Own>,
    seen: Zxid,
    /// Why the server must close the connection, if it must.
    doom: Option<Doom>,
    /// Whether the client has received the error that precedes the close.
    is_dismissed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doom {
    /// The client has sent a request without the enforced authentication.
    NotAuthenticated,
    /// The client has sent a frame that is too long.
    TooLong,
}

impl Party {
    pub(super) fn new(number: u64, seed: u64) -> Self {
        Self {
            number,
            random: Random::stream(seed, 91 + number),
            socket: None,
            session: SessionId::NONE,
            password: vec![0; 16],
            connections: 0,
            is_open: false,
            xid: 0,
            pending: VecDeque::new(),
            auths: 0,
            is_authenticated: false,
            own: Own::new(String::new()),
            earlier: VecDeque::new(),
            seen: Zxid::ZERO,
            doom: None,
            is_dismissed: false,
        }
    }

    /// Takes a new connection, and asks for the client's session.
    pub(super) fn connect(&mut self, mut socket: Socket) {
        self.connections += 1;
        let path = format!("/p{}-{}", self.number, self.connections);
        let own = std::mem::replace(&mut self.own, Own::new(path));
        if self.connections > 1 {
            self.earlier.push_back(own);
        }
        if self.earlier.len() > REMEMBERED {
            self.earlier.pop_front();
        }
        let request = ConnectRequest {
            session_id: self.session.0,
            password: Some(&self.password),
            ..ConnectRequest::new_session(30_000)
        };
        socket.send(&frame(&request.to_bytes()));
        self.socket = Some(socket);
        (self.is_open, self.is_authenticated, self.auths) = (false, false, 0);
        (self.doom, self.is_dismissed) = (None, false);
        self.pending.clear();
        self.seen = Zxid::ZERO;
    }

    /// Sends one or several requests at once.
    pub(super) fn ask(&mut self, rules: &ClientRules) {
        if !self.is_open || self.doom.is_some() {
            return;
        }
        for _ in 0..self.random.between(1, 5) {
            if self.pending.len() < PIPELINE && self.doom.is_none() {
                let bytes = self.draw(rules);
                if let Some(socket) = &mut self.socket {
                    socket.send(&bytes);
                }
            }
        }
    }

    fn draw(&mut self, rules: &ClientRules) -> Vec<u8> {
        let is_enforced = !rules.enforced_schemes.is_empty() && !self.is_authenticated;
        if self.random.one_in(if is_enforced { 2 } else { 12 }) {
            return self.authenticate();
        }
        if rules.packet_bytes < 1 << 20 && self.random.one_in(60) {
            self.doom = Some(Doom::TooLong);
            return framed_request(0, OpCode::SET_DATA.0, &vec![0; rules.packet_bytes]);
        }
        self.xid += 1;
        let bytes = self.request();
        if is_enforced && self.random.one_in(2) {
            // The client is not authenticated, so the server must close the connection.
            self.doom = Some(Doom::NotAuthenticated);
            self.undo();
        } else if is_enforced {
            self.xid -= 1;
            self.undo();
            return self.authenticate();
        }
        bytes
    }

    /// Forgets the last request that was drawn.
    fn undo(&mut self) {
        if let Some(asked) = self.pending.pop_back()
            && asked.acks.is_some()
        {
            self.own.states.pop();
        }
    }

    fn authenticate(&mut self) -> Vec<u8> {
        let secret = format!("u{}:secret", self.number);
        let packet =
            AuthPacket { kind: 0, scheme: Some("digest".into()), auth: Some(secret.as_bytes()) };
        self.auths += 1;
        self.is_authenticated = true;
        framed_request(Xid::AUTH.0, OpCode::AUTH.0, &packet.to_bytes())
    }

    fn request(&mut self) -> Vec<u8> {
        let data = self.random.next().to_be_bytes();
        let data = data[..self.random.between(0, 8) as usize].to_vec();
        let path = self.own.path.clone();
        let state = self.own.state().clone();
        match (self.random.below(20), state) {
            (0..6, None) => {
                let guard = self.random.one_in(2);
                let acl = if guard {
                    vec![Acl { perms: Perms::ALL, id: Id::new("auth", "") }]
                } else {
                    Acl::open().to_vec()
                };
                let body = create_with(&path, &data, 0, &acl);
                if guard && !self.is_authenticated {
                    return self.one(OpCode::CREATE, ErrorCode::INVALID_ACL, None, None, &body);
                }
                self.own.is_guarded = guard;
                let next = Some(Some((0, data.clone())));
                if !guard && self.random.one_in(3) {
                    let body = create_ttl(&path, &data, 3_600_000);
                    return self.one(OpCode::CREATE_TTL, ErrorCode::OK, None, next, &body);
                }
                let op = *self.random.pick(&[OpCode::CREATE, OpCode::CREATE2]);
                self.one(op, ErrorCode::OK, None, next, &body)
            }
            (0..6, Some(_)) => {
                let body = create_with(&path, &data, 0, &Acl::open());
                self.one(OpCode::CREATE, ErrorCode::NODE_EXISTS, None, None, &body)
            }
            (6..10, Some((version, _))) => {
                let body = set(&path, &data, Version(version));
                let next = Some((version + 1, data));
                self.one(OpCode::SET_DATA, ErrorCode::OK, None, Some(next), &body)
            }
            (10, Some((version, _))) => {
                let body = set(&path, &data, Version(version + 1));
                self.one(OpCode::SET_DATA, ErrorCode::BAD_VERSION, None, None, &body)
            }
            (11, Some((version, _))) => {
                let ops = [
                    (OpCode::SET_DATA, set(&path, b"first", Version(version))),
                    (OpCode::SET_DATA, set(&path, &data, Version(version + 1))),
                ];
                let next = Some((version + 2, data));
                self.one(OpCode::MULTI, ErrorCode::OK, None, Some(next), &multi(&ops))
            }
            (12, Some(_)) => {
                let body = delete(&path);
                self.one(OpCode::DELETE, ErrorCode::OK, None, Some(None), &body)
            }
            (6..13, None) => {
                let body = set(&path, &data, Version::ANY);
                self.one(OpCode::SET_DATA, ErrorCode::NO_NODE, None, None, &body)
            }
            (13..16, state) => {
                let err = if state.is_some() { ErrorCode::OK } else { ErrorCode::NO_NODE };
                self.one(OpCode::GET_DATA, err, state, None, &read(&path, false))
            }
            (16, _) if self.random.one_in(3) => {
                let reads = [
                    (OpCode::GET_DATA, read(&path, false)),
                    (OpCode::GET_CHILDREN, read("/", false)),
                ];
                self.one(OpCode::MULTI_READ, ErrorCode::OK, None, None, &multi(&reads))
            }
            (16, _) => self.any(OpCode::GET_DATA, &read(SHARED, true)),
            (17, _) => {
                let body = AddWatch { path: Some(SHARED.into()), mode: 0 }.to_bytes();
                self.any(OpCode::ADD_WATCH, &body)
            }
            (18, _) if self.random.one_in(2) => {
                self.any(OpCode::CREATE, &create_with(SHARED, &data, 0, &Acl::open()))
            }
            (18, _) => self.any(OpCode::SET_DATA, &set(SHARED, &data, Version::ANY)),
            _ => self.any(OpCode::SYNC, &path_only("/")),
        }
    }

    /// A request whose answer is known. A write changes its znode's state to `next`.
    fn one(
        &mut self,
        op: OpCode,
        err: ErrorCode,
        finds: State,
        next: Option<State>,
        body: &[u8],
    ) -> Vec<u8> {
        let acks = next.is_some().then_some(self.own.states.len());
        self.own.states.extend(next);
        self.pending.push_back(Asked { xid: self.xid, op, err: Some(err), finds, acks });
        framed_request(self.xid, op.0, body)
    }

    /// A request whose answer depends on other clients.
    fn any(&mut self, op: OpCode, body: &[u8]) -> Vec<u8> {
        self.pending.push_back(Asked { xid: self.xid, op, err: None, finds: None, acks: None });
        framed_request(self.xid, op.0, body)
    }

    /// Checks a frame of the server.
    pub(super) fn answered(&mut self, payload: &Bytes) -> Result<(), String> {
        let text = |error: zebu_jute::DecodeError| error.to_string();
        let mut from = Decoder::new(payload);
        if !self.is_open {
            from.int().map_err(text)?;
            let timeout_ms = from.int().map_err(text)?;
            let session = SessionId(from.long().map_err(text)?);
            self.password = from.buffer().map_err(text)?.unwrap_or_default().to_vec();
            if timeout_ms <= 0 {
                self.session = SessionId::NONE;
                self.password = vec![0; 16];
                return Ok(());
            }
            self.session = session;
            self.is_open = true;
            return Ok(());
        }
        let ReplyHeader { xid, zxid, err } = ReplyHeader::decode(&mut from).map_err(text)?;
        if self.is_dismissed {
            return Err(format!("ANS: client {}: {xid:?} behind the last answer", self.number));
        }
        if xid == Xid::AUTH {
            self.auths = self.auths.checked_sub(1).ok_or("ANS: an answer to no AUTH")?;
            return if err == ErrorCode::OK { Ok(()) } else { Err(format!("ANS: AUTH: {err:?}")) };
        }
        if xid == Xid::NOTIFICATION {
            if zxid <= self.seen {
                let seen = self.seen;
                return Err(format!("WAT-14: a notification at {zxid} behind an answer at {seen}"));
            }
            return Ok(());
        }
        if err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
            if self.doom != Some(Doom::NotAuthenticated) {
                return Err(format!("ANS: client {} is sent away without a reason", self.number));
            }
            self.is_dismissed = true;
            return Ok(());
        }
        let asked = self.pending.pop_front().ok_or_else(|| format!("ANS: an answer to {xid:?}"))?;
        let Asked { op, .. } = asked;
        let who = format!("client {}, request {} of {op}", self.number, asked.xid);
        if xid.0 != asked.xid {
            return Err(format!("ORD: {who} is not answered before {xid:?}"));
        }
        if zxid < self.seen {
            return Err(format!("ORD: {who} is answered at {zxid}, behind {}", self.seen));
        }
        self.seen = zxid;
        if asked.err.is_some_and(|expected| expected != err) {
            return Err(format!("ANS: {who}: {err:?} instead of {:?}", asked.err));
        }
        if let Some((version, data)) = asked.finds {
            let found = from.buffer().map_err(text)?.unwrap_or_default();
            // The fields czxid, mzxid, ctime and mtime of the stat.
            for _ in 0..4 {
                from.long().map_err(text)?;
            }
            let found = (from.int().map_err(text)?, found.to_vec());
            if found != (version, data.clone()) {
                return Err(format!(
                    "ANS: {who}: finds {found:?} instead of {:?}",
                    (version, data)
                ));
            }
        }
        if let Some(state) = asked.acks {
            self.own.acked = state;
        }
        Ok(())
    }

    /// Checks that the server was right to close the connection.
    pub(super) fn closed(&mut self, common: &Common<Side>) -> Result<(), String> {
        let Some(socket) = self.socket.take() else { return Ok(()) };
        if socket.end() == Some(End::Broken(SPINS)) {
            return Err(format!("liveness: client {}: {SPINS}", self.number));
        }
        socket.leave(common);
        let expected = match self.doom {
            Some(Doom::TooLong) => matches!(socket.end(), Some(End::Broken(_))),
            Some(Doom::NotAuthenticated) => self.is_dismissed && socket.end().is_none(),
            // The server has said that the session is expired.
            None => self.session == SessionId::NONE,
        };
        if expected {
            return Ok(());
        }
        Err(format!(
            "limits: client {} is closed: {:?}, {:?}",
            self.number,
            socket.end(),
            self.doom
        ))
    }

    /// Leaves the connection without closing the session.
    pub(super) fn leave(&mut self, common: &Common<Side>) {
        if let Some(socket) = self.socket.take() {
            socket.leave(common);
        }
    }

    /// Checks the tree after a restart: it has every acknowledged write, and a prefix of the
    /// others.
    pub(super) fn survives(&mut self, tree: &Tree) -> Result<(), String> {
        self.socket = None;
        let current = Some(&mut self.own).filter(|own| !own.path.is_empty());
        for own in self.earlier.iter_mut().chain(current) {
            let found: State = tree
                .node(&own.path)
                .map(|node| (node.stat().version, node.data().unwrap_or_default().to_vec()));
            let Some(at) = own.states[own.acked..].iter().position(|state| *state == found) else {
                return Err(format!(
                    "F2: {} is {found:?} after a crash, and {:?} was acknowledged",
                    own.path, own.states[own.acked]
                ));
            };
            own.states.drain(..own.acked + at);
            own.states.truncate(1);
            own.acked = 0;
        }
        Ok(())
    }

    /// Checks that nothing is left to do and no request waits.
    pub(super) fn is_content(&self) -> Result<(), String> {
        let Some(_) = &self.socket else { return Ok(()) };
        if let Some(doom) = self.doom {
            return Err(format!("limits: client {} is not closed: {doom:?}", self.number));
        }
        if !self.is_open || !self.pending.is_empty() || self.auths > 0 {
            let ops: Vec<OpCode> = self.pending.iter().map(|asked| asked.op).collect();
            return Err(format!("liveness: client {} waits for ever for {ops:?}", self.number));
        }
        Ok(())
    }
}
