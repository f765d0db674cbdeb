//! Clients: sessions that speak the protocol byte by byte, move between servers, watch, fall silent
//! and end; and remember their answers.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode as _, Decoder, Encode as _};
use zebu_proto::path::reserved::CONFIG;
use zebu_proto::reply::{ReplyHeader, WatcherEvent};
use zebu_proto::request::{
    AddWatch, ConnectRequest, Create, PersistentWatches, SetData, SetWatches,
};
use zebu_proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};
use zebu_testkit::Random;
use zebu_testkit::wire::{frame, framed_request};

use crate::checks::reads::Asked;
use crate::checks::watches::{Kind, Watch, Watches};
use crate::net::Message;
use crate::requests::{self, Wish};
use crate::world::{Happening, World};

/// The most requests of one client that are in flight.
const PIPELINE: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Dialling,
    Greeting,
    Open,
}

struct Pending {
    asked: Asked,
    watch: Option<Kind>,
    /// For a SetWatches request: the watches, and the newest zxid at that time.
    again: Option<(BTreeSet<Watch>, Zxid)>,
}

/// A client.
pub(crate) struct Client {
    number: usize,
    random: Random,
    /// Decides what the client does with quotas.
    of_quotas: Random,
    phase: Phase,
    conn: Option<u64>,
    attempt: u64,
    timer: u64,
    since: Duration,
    session: SessionId,
    password: Vec<u8>,
    timeout: Duration,
    wished: i32,
    seen: Zxid,
    xid: i32,
    pending: VecDeque<Pending>,
    pings: u32,
    heard: Duration,
    sent: Duration,
    /// The time of the next request.
    wants_at: Duration,
    wants: bool,
    pub(crate) silent: bool,
    unread: Vec<(u64, Option<Bytes>)>,
    pub(crate) watches: Watches,
    closing: bool,
    /// The number of its sessions.
    pub(crate) sessions: u64,
}

impl Client {
    pub(crate) fn new(number: usize, seed: u64) -> Self {
        let mut random = Random::stream(seed, 100 + number as u64);
        Self {
            number,
            wished: random.between(2_000, 30_000) as i32,
            random,
            of_quotas: Random::stream(seed, 400 + number as u64),
            phase: Phase::Idle,
            conn: None,
            attempt: 0,
            timer: 0,
            since: Duration::ZERO,
            session: SessionId::NONE,
            password: vec![0; 16],
            timeout: Duration::from_secs(10),
            seen: Zxid::ZERO,
            xid: 0,
            pending: VecDeque::new(),
            pings: 0,
            heard: Duration::ZERO,
            sent: Duration::ZERO,
            wants_at: Duration::ZERO,
            wants: false,
            silent: false,
            unread: Vec::new(),
            watches: Watches::default(),
            closing: false,
            sessions: 0,
        }
    }

    pub(crate) fn connection(&self) -> Option<u64> {
        self.conn
    }

    /// Whether the client has a session and waits for nothing.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.phase == Phase::Open && self.pending.is_empty() && !self.closing
    }

    pub(crate) fn status(&self) -> String {
        format!(
            "{:?} {} seen {}, {} pending, heard at {:?}",
            self.phase,
            self.session,
            self.seen,
            self.pending.len(),
            self.heard
        )
    }

    fn disconnected(&mut self) {
        self.phase = Phase::Idle;
        self.conn = None;
        self.attempt += 1;
        self.pending.clear();
        self.pings = 0;
        self.watches.lose();
        self.unread.clear();
        if self.closing {
            // The client gives up this session, whether it is over or not.
            self.new_session();
        }
    }

    fn new_session(&mut self) {
        self.session = SessionId::NONE;
        self.password = vec![0; 16];
        self.closing = false;
        self.xid = 0;
        self.watches.clear();
    }
}

impl World {
    pub(crate) fn client_timer(&mut self, client: usize, timer: u64) {
        let now = self.now;
        let it = &mut self.clients[client];
        if it.timer != timer {
            return;
        }
        it.timer += 1;
        let next = it.timer;
        let think = self.plan.think.as_micros() as u64;
        let most = (it.timeout / 6).as_micros() as u64;
        if it.wants_at <= now {
            it.wants_at = now + Duration::from_micros(it.random.between(think / 4, think * 7 / 4));
            it.wants = true;
        }
        let wait = (it.wants_at.saturating_sub(now).as_micros() as u64).min(most);
        self.at(
            now + Duration::from_micros(wait.max(1000)),
            Happening::Client { client, timer: next },
        );
        if !self.clients[client].silent {
            self.act(client);
        }
    }

    /// Whether this client may change the members.
    pub(crate) fn is_operator(&self, client: usize) -> bool {
        self.plan.reconfig && client == 0
    }

    /// A client has lost its connection, so the results of its requests are unknown.
    fn client_disconnected(&mut self, client: usize) {
        if self.is_operator(client) {
            self.change_answered(None);
        }
        self.clients[client].disconnected();
    }

    fn act(&mut self, client: usize) {
        let now = self.now;
        let it = &mut self.clients[client];
        match it.phase {
            Phase::Idle => {
                it.phase = Phase::Dialling;
                it.since = now;
                it.attempt += 1;
                let attempt = it.attempt;
                let to = it.random.below(self.plan.servers() as u64) as usize;
                let after = self.delay();
                self.after(after, Happening::ClientDialled { client, attempt, to });
            }
            Phase::Dialling | Phase::Greeting => {
                if now > it.since + (it.timeout / 3).min(Duration::from_secs(4)) {
                    self.leave_server(client);
                }
            }
            Phase::Open => {
                if now > it.heard + it.timeout * 2 / 3 {
                    return self.leave_server(client);
                }
                if now > it.sent + it.timeout / 3 {
                    it.pings += 1;
                    let ping = framed_request(Xid::PING.0, OpCode::PING.0, &[]);
                    self.ask(client, ping.into());
                } else if it.wants && self.busy && it.pending.len() < PIPELINE && !it.closing {
                    it.wants = false;
                    self.wish(client);
                }
            }
        }
    }

    /// Leaves the connection, if there is one.
    fn leave_server(&mut self, client: usize) {
        let place = self.plan.servers() + client;
        if let Some(conn) = self.clients[client].conn {
            self.close(conn, place);
        }
        let session = self.clients[client].session;
        self.checks.expiry.is_present(session, None);
        self.client_disconnected(client);
    }

    pub(crate) fn client_dialled(&mut self, client: usize, attempt: u64, to: usize) {
        let place = self.plan.servers() + client;
        let now = self.now;
        let it = &mut self.clients[client];
        if it.attempt != attempt || it.silent {
            return;
        }
        if !self.net.ways.reaches(place, to) || self.net.dark.contains(&to) {
            // There is no answer, so the client's attempt times out.
            return;
        }
        if self.servers[to].process.is_none() || self.servers[to].paused.is_some() {
            it.phase = Phase::Idle;
            return;
        }
        let conn = self.accept(to, place);
        let it = &mut self.clients[client];
        if self.plan.counts_anew {
            it.xid = 0;
        }
        it.conn = Some(conn);
        it.phase = Phase::Greeting;
        it.since = now;
        it.heard = now;
        let request = ConnectRequest {
            last_zxid_seen: it.seen,
            session_id: it.session.0,
            password: Some(&it.password),
            ..ConnectRequest::new_session(it.wished)
        };
        let bytes = frame(&request.to_bytes());
        self.ask(client, bytes.into());
    }

    fn ask(&mut self, client: usize, bytes: Bytes) {
        let place = self.plan.servers() + client;
        let it = &mut self.clients[client];
        it.sent = self.now;
        if let Some(conn) = it.conn {
            self.send(conn, place, Message::Frames(bytes));
        }
    }

    /// Sends a request.
    fn wish(&mut self, client: usize) {
        if self.is_operator(client)
            && self.asked_change.is_none()
            && let Some(body) = self.next_change()
        {
            return self.request_one(client, OpCode::RECONFIG, CONFIG.to_owned(), None, body);
        }
        let it = &mut self.clients[client];
        if self.plan.reconfig && it.random.one_in(12) {
            let read = requests::read(CONFIG, false);
            return self.request_one(client, OpCode::GET_DATA, CONFIG.to_owned(), None, read);
        }
        let sets_quota = self.plan.quotas && it.of_quotas.one_in(6);
        let wish = if sets_quota {
            requests::quota(&mut it.of_quotas, self.plan.nested_quotas)
        } else if it.random.below(100) < self.plan.syncs {
            Wish::SyncAndRead(requests::some_path(&mut it.random))
        } else {
            let data = it.random.next().to_be_bytes();
            let data = &data[..it.random.between(0, 8) as usize];
            requests::draw(&mut it.random, it.number, data)
        };
        match wish {
            Wish::One(op, path, watch, body) => self.request_one(client, op, path, watch, body),
            Wish::SyncAndRead(path) => {
                let sync = requests::path_only("/");
                self.request_one(client, OpCode::SYNC, "/".to_owned(), None, sync);
                let read = requests::read(&path, false);
                self.request_one(client, OpCode::GET_DATA, path, None, read);
            }
            Wish::Watch(path, recursive) => {
                let kind = if recursive { Kind::Recursive } else { Kind::Persistent };
                let mode = i32::from(recursive);
                let body = AddWatch { path: Some((&*path).into()), mode }.to_bytes();
                self.request_one(client, OpCode::ADD_WATCH, path, Some(kind), body);
            }
            Wish::Close => {
                self.clients[client].closing = true;
                let op = OpCode::CLOSE_SESSION;
                self.request_one(client, op, String::new(), None, Vec::new());
                if self.plan.asks_behind_end {
                    let path = format!("/late{client}");
                    let body = requests::ephemeral(&path);
                    self.request_one(client, OpCode::CREATE, path, None, body);
                }
            }
        }
    }

    fn request_one(
        &mut self,
        client: usize,
        op: OpCode,
        path: String,
        watch: Option<Kind>,
        body: Vec<u8>,
    ) {
        let completed = self.checks.reads.completed;
        let it = &mut self.clients[client];
        it.xid += 1;
        let data = match op {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                Create::decode(&mut Decoder::new(&body)).ok().and_then(|create| create.data)
            }
            OpCode::SET_DATA => {
                SetData::decode(&mut Decoder::new(&body)).ok().and_then(|set| set.data)
            }
            _ => None,
        };
        let data = data.map(<[u8]>::to_vec);
        let writes = requests::writes(op, &body);
        let asked = Asked { xid: it.xid, op, path, data, writes, completed };
        let bytes = framed_request(it.xid, op.0, &body);
        it.pending.push_back(Pending { asked, watch, again: None });
        self.ask(client, bytes.into());
    }

    /// Sets the watches of the last connection again.
    fn set_watches(&mut self, client: usize) {
        let it = &mut self.clients[client];
        let lost = it.watches.lost().clone();
        if lost.is_empty() {
            return;
        }
        let of = |wanted: Kind| {
            let paths = lost.iter().filter(move |(_, kind)| *kind == wanted);
            paths.map(|(path, _)| path.as_str().into()).collect::<Vec<_>>()
        };
        let watches = SetWatches {
            relative_zxid: it.seen,
            data: of(Kind::Data),
            exist: of(Kind::Exist),
            child: of(Kind::Child),
        };
        let some = |kind| of(kind).into_iter().map(Some).collect();
        let persistent = PersistentWatches {
            persistent: some(Kind::Persistent),
            recursive: some(Kind::Recursive),
        };
        let op = OpCode::SET_WATCHES2;
        let body = [watches.to_bytes(), persistent.to_bytes()].concat();
        let bytes = framed_request(Xid::SET_WATCHES.0, op.0, &body);
        let completed = Zxid::ZERO;
        let (path, data) = (String::new(), None);
        let writes = Vec::new();
        let asked = Asked { xid: Xid::SET_WATCHES.0, op, path, data, writes, completed };
        let again = Some((lost, it.seen));
        it.pending.push_back(Pending { asked, watch: None, again });
        self.ask(client, bytes.into());
    }

    // ---- what comes back

    pub(crate) fn client_loses(&mut self, client: usize, id: u64) {
        let it = &mut self.clients[client];
        if it.conn != Some(id) {
            return;
        }
        if it.silent {
            it.unread.push((id, None));
            return;
        }
        let session = it.session;
        self.checks.expiry.is_present(session, None);
        self.client_disconnected(client);
    }

    pub(crate) fn client_speaks(&mut self, client: usize) {
        self.clients[client].silent = false;
        for (id, frames) in std::mem::take(&mut self.clients[client].unread) {
            match frames {
                Some(frames) => self.client_receives(client, id, Message::Frames(frames)),
                None => self.client_loses(client, id),
            }
        }
    }

    pub(crate) fn client_receives(&mut self, client: usize, id: u64, message: Message) {
        let Message::Frames(mut rest) = message else { return };
        let now = self.now;
        let it = &mut self.clients[client];
        if it.conn != Some(id) {
            return;
        }
        if it.silent {
            it.unread.push((id, Some(rest)));
            return;
        }
        it.heard = now;
        while let Some(length) = rest.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes)) {
            let payload = rest.split_to(4 + length as usize).slice(4..);
            let phase = self.clients[client].phase;
            let held = match phase {
                Phase::Greeting => self.greeted(client, &payload),
                Phase::Open => self.answered(client, &payload),
                _ => return,
            };
            if let Err(what) = held {
                self.checks.found(format!("client {client}: {what}"));
                return;
            }
        }
    }

    fn greeted(&mut self, client: usize, payload: &[u8]) -> Result<(), String> {
        let now = self.now;
        let mut from = Decoder::new(payload);
        let text = |error: zebu_jute::DecodeError| error.to_string();
        from.int().map_err(text)?;
        let timeout_ms = from.int().map_err(text)?;
        let session = SessionId(from.long().map_err(text)?);
        let password = from.buffer().map_err(text)?.unwrap_or_default().to_vec();
        let it = &mut self.clients[client];
        if timeout_ms <= 0 {
            let before = it.session;
            // No other server knows a local session, so its end leaves no transaction.
            if !self.checks.expiry.has_ended(before) && !self.plan.local_sessions {
                return Err(format!("SES-10: {before} is refused, although it has not ended"));
            }
            it.new_session();
            self.leave_server(client);
            return Ok(());
        }
        if it.session == SessionId::NONE {
            it.sessions += 1;
        } else if it.session != session {
            return Err(format!("ANS: {} goes on as {session}", it.session));
        }
        it.session = session;
        it.password = password;
        it.timeout = Duration::from_millis(timeout_ms as u64);
        it.phase = Phase::Open;
        self.checks.expiry.is_present(session, Some(now));
        self.set_watches(client);
        Ok(())
    }

    fn answered(&mut self, client: usize, payload: &[u8]) -> Result<(), String> {
        let mut from = Decoder::new(payload);
        let header = ReplyHeader::decode(&mut from).map_err(|error| error.to_string())?;
        let ReplyHeader { xid, zxid, err } = header;
        let checks = &mut self.checks;
        let it = &mut self.clients[client];
        if xid == Xid::NOTIFICATION {
            let event = WatcherEvent::decode(&mut from).map_err(|error| error.to_string())?;
            let WatcherEvent { kind, path, .. } = event;
            self.outcome.notified += 1;
            if zxid != Zxid(-1) && zxid < it.seen {
                return Err(format!("ORD: a notification at {zxid} behind {}", it.seen));
            }
            it.seen = it.seen.max(zxid);
            return it.watches.notified(&checks.reference, zxid, kind, &path);
        }
        if zxid < it.seen {
            return Err(format!("ORD: an answer at {zxid}, {} was seen before", it.seen));
        }
        it.seen = zxid;
        self.outcome.answered += 1;
        it.watches.answered(&checks.reference, zxid)?;
        if xid == Xid::PING {
            it.pings = it.pings.checked_sub(1).ok_or("ANS: an answer to no ping")?;
            return Ok(());
        }
        let pending = it.pending.pop_front().ok_or_else(|| format!("ORD: an answer to {xid:?}"))?;
        let Pending { asked, watch, again } = pending;
        if xid.0 != asked.xid {
            return Err(format!("ORD: {xid:?} is answered before {asked:?}"));
        }
        if let Some((lost, relative)) = again {
            return it.watches.set_again(&checks.reference, &lost, relative, zxid);
        }
        let (session, seen) = (it.session, it.seen);
        let (told, reads) = checks.told();
        reads.answered(told, session, seen, &asked, payload)?;
        if let Some(kind) = watch {
            let kind = match (kind, err) {
                (Kind::Data, ErrorCode::NO_NODE) if asked.op == OpCode::EXISTS => Some(Kind::Exist),
                (kind, ErrorCode::OK) => Some(kind),
                _ => None,
            };
            if let Some(kind) = kind {
                it.watches.add(&checks.reference, &asked.path, kind, zxid);
            }
        }
        if err == ErrorCode::QUOTA_EXCEEDED {
            self.reached("write refused by a quota");
            if self.checks.reference.quotas.are_nested(&asked.path, zxid) {
                self.reached("write refused below two quotas");
            }
        }
        if asked.op == OpCode::RECONFIG {
            self.change_answered(Some(err));
        }
        if asked.op == OpCode::CLOSE_SESSION {
            self.leave_server(client);
        }
        Ok(())
    }
}
