//! A whole server: events in, effects carried out on a real tree, and everything that has to hold of
//! them checked on the way.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode, Decoder};
use zebu_proto::answer::{
    AclAndStat, Created, Created2, DataAndStat, Names, NamesAndStat, WhoAmI, multi_results,
};
use zebu_proto::reply::{ReplyHeader, WatcherEvent};
use zebu_proto::txn::{Txn, TxnRecord};
use zebu_proto::{
    Acl, ErrorCode, EventType, ExtendedTypes, OpCode as Op, Perms, ServerId, SessionId, Stat, Xid,
    Zxid, compatible_password,
};
use zebu_replica::auth::{Claim, Credentials, Digest, DigestAlgorithm, Schemes};
use zebu_replica::gate::{Route, route};
use zebu_replica::{
    ANSWER_BYTES_MAX, After, ConnId, Connect, Input, IntakeOptions, MemberOptions, Now, Options,
    Origin, Output, Passwords, Reader, ReaperOptions, Replica, Request, Rules, SnapshotOptions,
    ThrottleOptions, frame, write_reply,
};
use zebu_testkit::told::{Told, Znode};
use zebu_tree::{Events, Silent, Tree, Walk, WatcherId};

use crate::cursor::Cursor;
use crate::script::{Event, event};
use crate::state::{Content, check_tree, load};

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));
/// Lets time pass between two events without an answer.
const STEP: Duration = Duration::from_millis(1);

/// One client as the server sees it.
struct Client {
    conn: ConnId,
    session: Option<SessionId>,
    ids: Credentials,
    /// Requests on their way through the replica, oldest first.
    in_flight: VecDeque<(Xid, Op)>,
    next_xid: i32,
    /// Newest zxid it was told.
    seen: Zxid,
    closing: bool,
}

/// A snapshot being taken while everything goes on.
struct Snapshot {
    walk: Walk,
    told: Told,
}

/// The driver, as the real one but for threads and sockets.
struct Driver {
    replica: Replica,
    tree: Tree,
    schemes: Schemes,
    now: Now,
    clients: BTreeMap<u8, Client>,
    /// Ids of all sessions that ever were.
    sessions: Vec<SessionId>,
    log: Vec<(Zxid, Bytes)>,
    durable: usize,
    conns: u64,
    held: Vec<Output>,
    snapshot: Option<Snapshot>,
    types: ExtendedTypes,
    /// Whether the end of a session says what it removes.
    lists_paths: bool,
}

fn watcher(slot: u8) -> WatcherId {
    WatcherId(slot.into())
}

/// Runs a script.
pub(crate) fn replica(bytes: &[u8]) {
    let mut from = Cursor::new(bytes);
    let mut driver = Driver::new(from.byte(), from.byte());
    while let Some((event, held)) = event(&mut from) {
        driver.now.monotonic += STEP;
        driver.now.wall_ms += STEP.as_millis() as i64;
        driver.happens(event);
        if !held {
            driver.carry_out();
        }
    }
    driver.end();
}

impl Driver {
    fn new(switches: u8, limit: u8) -> Self {
        let on = |bit: u8| switches & 1 << bit != 0;
        let types = ExtendedTypes { enabled: on(1), emulate_353: false };
        let tree =
            Tree::new(zebu_tree::Options { types, digest: on(0), hash_seed: switches.into() });
        let options = Options {
            server: ServerId(1),
            first_session: SessionId(0x0100_0000_0000_0000),
            tick: Duration::from_millis(200),
            session_timeout_ms_min: 400,
            session_timeout_ms_max: 4000,
            passwords: Passwords::default(),
            rules: Rules {
                types,
                enforce_quota: on(2),
                close_session_lists_paths: on(3),
                digest: on(0),
                reconfig: on(5),
                ..Rules::default()
            },
            eager_acl_check: on(4),
            throttled_op_wait: Duration::ZERO,
            connections: ThrottleOptions::default(),
            intake: IntakeOptions {
                requests_max: (limit & 0x30 == 0x30).then_some(u32::from(limit & 7) + 1),
                stale_by_latency: limit & 8 != 0,
                ..IntakeOptions::default()
            },
            reaper: ReaperOptions {
                interval: Duration::from_millis(300),
                per_minute_max: 6000,
                never_used_max: on(6).then_some(Duration::from_millis(500)),
            },
            snapshots: SnapshotOptions { every_txns: 8, every_bytes: Some(4096), log_percent: 50 },
            member: MemberOptions::default(),
            seed: switches.into(),
        };
        let now = Now { monotonic: Duration::from_secs(1), wall_ms: 1_700_000_000_000 };
        let alice = DigestAlgorithm::default();
        Self {
            replica: Replica::new(options, &tree, now),
            tree,
            schemes: Schemes::new(vec![Box::new(Digest::new(alice, None))], on(7)),
            now,
            clients: BTreeMap::new(),
            sessions: Vec::new(),
            log: Vec::new(),
            durable: 0,
            conns: 0,
            held: Vec::new(),
            snapshot: None,
            types,
            lists_paths: on(3),
        }
    }

    fn step(&mut self, input: Input) {
        let at = self.held.len();
        self.replica
            .step(self.now, &self.tree, &self.schemes, input, &mut self.held)
            .expect("zxids are not spent so soon");
        for output in &self.held[at..] {
            if let Output::Append { zxid, record } = output {
                assert_eq!(zxid.0, self.log.len() as i64 + 1, "zxids are consecutive");
                self.log.push((*zxid, record.clone()));
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Connect { slot, timeout_ms, known, right_password, seen } => {
                self.disconnect(slot);
                self.connect(slot, timeout_ms, known, right_password, seen);
            }
            Event::Disconnect { slot } => self.disconnect(slot),
            Event::Request { slot, op, body } => self.request(slot, op, body),
            Event::Auth { slot, user } => {
                let Some(client) = self.clients.get_mut(&slot) else { return };
                let auth: &[u8] = if user == 0 { b"alice:secret" } else { b"bob:x" };
                let claim = Claim::new(PEER, Some(auth));
                let ids = self.schemes.authenticate(&client.ids, "digest", &claim);
                client.ids = ids.expect("digest takes any user").expect("and takes no time");
            }
            Event::Tick { ms } => {
                self.now.monotonic += Duration::from_millis(ms);
                self.now.wall_ms += ms as i64;
                self.step(Input::Tick);
            }
            Event::Flush { records } => self.flush(records),
            Event::Terminate { known } => {
                if let Some(session) = self.sessions.get(usize::from(known)) {
                    self.step(Input::Terminate(*session));
                }
            }
            Event::Walk { znodes } => self.walk(znodes),
        }
    }

    fn connect(&mut self, slot: u8, timeout_ms: i32, known: u8, right_password: bool, seen: u8) {
        self.conns += 1;
        let conn = ConnId(self.conns);
        let client = Client {
            conn,
            session: None,
            ids: self.schemes.initial(PEER),
            in_flight: VecDeque::new(),
            next_xid: 1,
            seen: Zxid::ZERO,
            closing: false,
        };
        self.clients.insert(slot, client);
        let session = self.sessions.get(usize::from(known)).copied().unwrap_or(SessionId::NONE);
        let mut password = compatible_password(session).to_vec();
        if !right_password {
            password.pop();
        }
        let last_zxid_seen = Zxid(seen.into());
        self.step(Input::Connect(Connect {
            conn,
            last_zxid_seen,
            timeout_ms,
            session,
            password,
            read_only: false,
        }));
    }

    fn disconnect(&mut self, slot: u8) {
        let Some(client) = self.clients.remove(&slot) else { return };
        self.tree.drop_watcher(watcher(slot));
        if let Some(session) = client.session {
            self.step(Input::Disconnected { conn: client.conn, session });
        }
    }

    fn request(&mut self, slot: u8, op: Op, body: Vec<u8>) {
        // Credentials never reach the replica.
        if matches!(op, Op::AUTH | Op::SASL) {
            return;
        }
        let Some(client) = self.clients.get_mut(&slot).filter(|client| !client.closing) else {
            return;
        };
        let Some(session) = client.session else { return };
        let xid = Xid(client.next_xid);
        client.next_xid += 1;
        // What is held stands for a batch that is not carried out yet: it is in flight.
        if self.held.is_empty() && route(op, client.in_flight.len()) == Route::Now {
            let ids = client.ids.clone();
            self.answer(slot, session, &ids, xid, op, &body);
            self.step(Input::Touched { session, at: self.now.monotonic });
            return;
        }
        client.in_flight.push_back((xid, op));
        let (conn, ids, bytes) = (client.conn, client.ids.clone(), body.len() + 8);
        let received = self.now.monotonic;
        let body = Bytes::from(body);
        let request = Request { conn, session, xid, op, body, ids, received, bytes };
        self.step(Input::Request(request));
    }

    fn flush(&mut self, records: usize) {
        // Only what was handed to the log can be durable.
        self.carry_out();
        let durable = (self.durable + records).min(self.log.len());
        if durable > self.durable {
            self.durable = durable;
            self.step(Input::Flushed(self.log[durable - 1].0));
        }
    }

    fn carry_out(&mut self) {
        let mut applied = None;
        for output in std::mem::take(&mut self.held) {
            match output {
                Output::Zab(output) => unreachable!("this server runs alone: {output:?}"),
                Output::Append { .. } => {}
                Output::Apply { zxid, record, origin } => {
                    assert_eq!(zxid.0, self.tree.last_zxid().0 + 1, "applied in order");
                    assert!(
                        zxid.0 <= self.durable as i64,
                        "{zxid} is applied before it is durable"
                    );
                    assert_eq!(self.log[zxid.0 as usize - 1].1, record);
                    self.apply(zxid, &record, origin);
                    applied = Some(zxid);
                }
                Output::Answer(request) => {
                    if let Some(slot) = self.done(&request.origin()) {
                        let Request { session, xid, op, body, ids, .. } = request;
                        self.answer(slot, session, &ids, xid, op, &body);
                    }
                }
                Output::Reply { origin, zxid, err } => {
                    assert_ne!(err, ErrorCode::OK);
                    if let Some(slot) = self.done(&origin) {
                        let zxid = zxid.unwrap_or(self.tree.last_zxid());
                        let mut out = Vec::new();
                        frame::bare_reply(&mut out, origin.xid, zxid, err);
                        self.receive(slot, &out);
                    }
                }
                Output::Abandon(origin) => {
                    // A connection that is given up need not wait for what it sent before.
                    if let Some(slot) = self.slot(origin.conn) {
                        let client = self.clients.get_mut(&slot).expect("it has a slot");
                        let before = client.in_flight.len();
                        client.in_flight.retain(|sent| *sent != (origin.xid, origin.op));
                        assert_eq!(client.in_flight.len() + 1, before, "it comes out once");
                        self.close(slot);
                    }
                }
                Output::Accept { conn, session, timeout_ms, password } => {
                    assert_eq!(password, compatible_password(session));
                    assert!((400..=4000).contains(&timeout_ms));
                    assert!(self.tree.session_timeout(session).is_some(), "{session} is not there");
                    if !self.sessions.contains(&session) {
                        self.sessions.push(session);
                    }
                    if let Some(slot) = self.slot(conn) {
                        let client = self.clients.get_mut(&slot).expect("it has a slot");
                        assert_eq!(client.session, None, "one session for one connection");
                        client.session = Some(session);
                    }
                }
                Output::Deny(_) | Output::ReadOnly(_) => unreachable!("this server runs alone"),
                Output::Refuse(conn) | Output::Disconnect(conn) => {
                    if let Some(slot) = self.slot(conn) {
                        self.close(slot);
                    }
                }
                Output::Snapshot => self.step(Input::SnapshotDone),
                Output::Retired | Output::HandedOver(_) => {
                    unreachable!("nobody asks it to stop or to hand over")
                }
            }
        }
        if let Some(zxid) = applied {
            self.step(Input::Applied(zxid));
        }
    }

    fn slot(&self, conn: ConnId) -> Option<u8> {
        self.clients.iter().find(|(_, client)| client.conn == conn).map(|(slot, _)| *slot)
    }

    /// Nothing is read from the client any more; what is in flight is still answered.
    fn close(&mut self, slot: u8) {
        self.clients.get_mut(&slot).expect("it has a slot").closing = true;
    }

    /// A request comes out again: the oldest of its connection.
    fn done(&mut self, origin: &Origin) -> Option<u8> {
        let slot = self.slot(origin.conn)?;
        let client = self.clients.get_mut(&slot)?;
        assert_eq!(client.in_flight.pop_front(), Some((origin.xid, origin.op)), "out of order");
        Some(slot)
    }

    fn apply(&mut self, zxid: Zxid, record: &[u8], origin: Option<Origin>) {
        let record = TxnRecord::decode(record).expect("the replica made this record");
        assert_eq!(record.header.zxid, zxid);
        let fails = match &record.txn {
            Txn::Error(_) => true,
            Txn::Multi(ops) => ops.iter().any(|(_, txn)| matches!(txn, Txn::Error(_))),
            _ => false,
        };
        let mut heard = Heard { driver: &self.clients, schemes: &self.schemes, told: Vec::new() };
        let applied = self.tree.apply(&record, &mut heard);
        let told = heard.told;
        if !matches!(&record.txn, Txn::Multi(_) | Txn::CloseSession { .. }) {
            let mut once: Vec<_> =
                told.iter().map(|(slot, event, path)| (slot, event.0, path)).collect();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), told.len(), "told twice: {told:?}");
        }
        assert!(applied.digest_matches, "the digest of {zxid} is not the tree's: {record:?}");
        assert_eq!(applied.err != ErrorCode::OK, fails, "{record:?} does {applied:?}");
        let mut answers = Vec::new();
        for (slot, event, path) in told {
            let mut out = Vec::new();
            frame::notification(&mut out, event, &path, zxid);
            answers.push((slot, out));
        }
        let mut own = Vec::new();
        if let Some(Origin { op, xid, .. }) = origin {
            write_reply(&mut own, op, xid, zxid, &applied);
            let parsed = frames(&own);
            let [(header, body)] = parsed.as_slice() else { panic!("one answer to one request") };
            assert_eq!(header.xid, xid);
            check_body(op, header.err, body);
        }
        for (slot, out) in answers {
            self.receive(slot, &out);
        }
        if let Some(slot) = origin.as_ref().and_then(|origin| self.done(origin)) {
            self.receive(slot, &own);
        }
    }

    fn answer(
        &mut self,
        slot: u8,
        session: SessionId,
        ids: &Credentials,
        xid: Xid,
        op: Op,
        body: &[u8],
    ) {
        let reader = Reader {
            schemes: &self.schemes,
            watcher: watcher(slot),
            session,
            ids,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let mut out = b"before".to_vec();
        let after = reader.answer(&self.tree, xid, op, body, &mut out);
        assert!(out.starts_with(b"before"), "what is in the outbox stays");
        let out = &out[6..];
        let parsed = frames(out);
        let (header, body) = parsed.last().expect("every request is answered");
        assert_eq!(header.xid, xid);
        check_body(op, header.err, body);
        let catching_up = matches!(op, Op::SET_WATCHES | Op::SET_WATCHES2);
        assert!(parsed.len() == 1 || catching_up, "one answer to one request");
        self.receive(slot, out);
        if after == After::Close {
            self.close(slot);
        }
    }

    /// A client gets frames: whole ones, and never of an older state than it has seen.
    fn receive(&mut self, slot: u8, out: &[u8]) {
        let client = self.clients.get_mut(&slot).expect("it has a slot");
        for (header, body) in frames(out) {
            if header.xid == Xid::NOTIFICATION {
                WatcherEvent::from_bytes(&body).expect("a notification has an event");
            }
            // −1 is an unknown request's or a missed event's, 0 an eager check's.
            if header.zxid > Zxid::ZERO {
                assert!(client.seen <= header.zxid, "{:?} after {}", header, client.seen);
                client.seen = header.zxid;
            }
        }
    }

    fn walk(&mut self, znodes: usize) {
        let snapshot = self.snapshot.get_or_insert_with(|| Snapshot {
            walk: Walk::new(&self.tree),
            told: Told {
                sessions: self.tree.sessions().collect(),
                acls: self.tree.acl_table().map(|(id, acl)| (id, acl.to_vec())).collect(),
                ..Told::default()
            },
        });
        let znodes_told = &mut snapshot.told.znodes;
        let done = snapshot.walk.step(&self.tree, znodes, &mut |path, data, acl, stat| {
            let data = data.map(<[u8]>::to_vec);
            znodes_told.push(Znode { path: path.to_owned(), data, acl, stat: *stat });
        });
        if done {
            let snapshot = self.snapshot.take().expect("it was just there");
            self.check_snapshot(&snapshot);
        }
    }

    /// A snapshot taken while everything went on, and the log since it began, give the tree.
    fn check_snapshot(&self, snapshot: &Snapshot) {
        let options = zebu_tree::Options { types: self.types, ..self.tree.options() };
        let mut tree = load(&snapshot.told, options).expect("a snapshot can be loaded");
        tree.set_last_zxid(snapshot.walk.began());
        for zxid in snapshot.walk.began().0..self.tree.last_zxid().0 {
            let record = TxnRecord::decode(&self.log[zxid as usize].1).expect("it was applied");
            tree.apply(&record, &mut Silent);
        }
        check_tree(&tree);
        if !self.lists_paths {
            // The end of a session then says nothing of the parents of what was gone before the walk
            // came to it (ZOOKEEPER-3145); all that is wrong afterwards is their pzxid.
            return;
        }
        assert_eq!(Content::of(&tree), Content::of(&self.tree), "replayed over a snapshot");
    }

    /// Everything becomes durable, everybody leaves, and nothing is left over.
    fn end(&mut self) {
        self.carry_out();
        // Whoever waits to be taken in is, as soon as there is room.
        for turn in 0.. {
            if self.durable == self.log.len() && self.replica.waiting() == 0 {
                break;
            }
            assert!(turn < 1 << 17, "whoever waits gets a turn");
            self.flush(usize::MAX >> 1);
            self.now.monotonic += Duration::from_millis(100);
            self.step(Input::Touched { session: SessionId::NONE, at: self.now.monotonic });
            self.carry_out();
        }
        assert_eq!(self.replica.in_process(), 0);
        assert_eq!(self.replica.outstanding_changes(), 0);
        assert!(self.clients.values().all(|client| client.in_flight.is_empty()));
        assert_eq!(self.tree.last_zxid().0, self.log.len() as i64);
        check_tree(&self.tree);
        let alive = |session| self.tree.session_timeout(session).is_some();
        assert!(
            self.tree.sessions_with_ephemerals().all(alive),
            "an ephemeral without its session"
        );
        let mut live: Vec<_> = self.replica.sessions().iter().map(|(id, _)| id).collect();
        live.sort();
        assert_eq!(live, self.tree.sessions().map(|(id, _)| id).collect::<Vec<_>>());
        if self.snapshot.is_some() {
            self.walk(usize::MAX);
        }
        let mut replayed = Tree::new(self.tree.options());
        for (_, record) in &self.log {
            let record = TxnRecord::decode(record).expect("the replica made this record");
            assert!(replayed.apply(&record, &mut Silent).digest_matches);
        }
        assert_eq!(Content::of(&replayed), Content::of(&self.tree), "replayed from the start");
        let slots: Vec<u8> = self.clients.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.disconnect(slot));
        assert_eq!(self.tree.watch_count(), 0, "a watch without a connection");
    }
}

/// Who hears of what.
struct Heard<'d> {
    driver: &'d BTreeMap<u8, Client>,
    schemes: &'d Schemes,
    told: Vec<(u8, EventType, String)>,
}

impl Events for Heard<'_> {
    fn notify(&mut self, watcher: WatcherId, event: EventType, path: &str, _: Zxid) {
        let slot = watcher.0 as u8;
        assert!(self.driver.contains_key(&slot), "a connection that is gone is told");
        self.told.push((slot, event, path.to_owned()));
    }

    fn may_read(&mut self, watcher: WatcherId, acl: &[Acl]) -> bool {
        let client = self.driver.get(&(watcher.0 as u8));
        client.is_some_and(|client| self.schemes.permits(acl, Perms::READ, &client.ids))
    }
}

/// Takes frames apart: nothing is left over.
fn frames(mut out: &[u8]) -> Vec<(ReplyHeader, Vec<u8>)> {
    let mut frames = Vec::new();
    while !out.is_empty() {
        let (length, rest) = out.split_first_chunk::<4>().expect("a frame has a length");
        let length = usize::try_from(i32::from_be_bytes(*length)).expect("which is not negative");
        let (payload, rest) = rest.split_at(length);
        let mut from = Decoder::new(payload);
        let header = ReplyHeader::decode(&mut from).expect("an answer has a header");
        frames.push((header, from.rest().to_vec()));
        out = rest;
    }
    frames
}

/// An answer has the body of its request's kind, and nothing behind it.
fn check_body(op: Op, err: ErrorCode, body: &[u8]) {
    if err != ErrorCode::OK {
        // A list of reads that cannot be read to its end keeps what came before.
        assert!(body.is_empty() || op == Op::MULTI_READ, "a failure of {op} has no body");
        return;
    }
    let mut from = Decoder::new(body);
    let from = &mut from;
    let decoded = match op {
        Op::CREATE => Created::decode(from).map(drop),
        Op::CREATE2 | Op::CREATE_CONTAINER | Op::CREATE_TTL => Created2::decode(from).map(drop),
        Op::SET_DATA | Op::SET_ACL | Op::EXISTS => Stat::decode(from).map(drop),
        Op::GET_DATA => DataAndStat::decode(from).map(drop),
        Op::GET_ACL => AclAndStat::decode(from).map(drop),
        Op::GET_CHILDREN | Op::GET_EPHEMERALS => Names::decode(from).map(drop),
        Op::GET_CHILDREN2 => NamesAndStat::decode(from).map(drop),
        Op::GET_ALL_CHILDREN_NUMBER | Op::ADD_WATCH => from.int().map(drop),
        Op::SYNC => from.buffer().map(drop),
        Op::WHO_AM_I => WhoAmI::decode(from).map(drop),
        Op::MULTI | Op::MULTI_READ => multi_results(from).map(drop),
        _ => Ok(()),
    };
    assert_eq!(decoded, Ok(()), "{op}");
    assert_eq!(from.remaining(), 0, "{op}");
}
