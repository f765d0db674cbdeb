//! A whole server, driven by the shipped engine. The target checks the effects of each event.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use zebu_engine::AppliedTxn;
use zebu_jute::{Decode, Decoder, Encode};
use zebu_proto::answer::{
    AclAndStat, Created, Created2, DataAndStat, Names, NamesAndStat, WhoAmI, multi_results,
};
use zebu_proto::reply::{ConnectResponse, ReplyHeader, WatcherEvent};
use zebu_proto::request::{AuthPacket, ConnectRequest, RequestHeader};
use zebu_proto::txn::Txn;
use zebu_proto::{
    ErrorCode, ExtendedTypes, OpCode as Op, SessionId, Stat, Xid, Zxid, compatible_password,
};
use zebu_replica::auth::{Digest, DigestAlgorithm, Schemes};
use zebu_replica::{
    Input, IntakeOptions, Now, Options, ReaperOptions, Replica, Rules, SnapshotOptions, frame,
};
use zebu_testkit::alone::{self, Alone, Watching};
use zebu_testkit::client::Connection;
use zebu_testkit::told::{Told, Znode};
use zebu_tree::{Tree, Walk};

use crate::cursor::Cursor;
use crate::script::{Event, event};
use crate::state::{Content, check_tree, load};

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));
/// Lets time pass between two events without an answer.
const STEP: Duration = Duration::from_millis(1);

/// The number of turns until every client has an answer: each session ends within forty.
const TURNS_MAX: usize = 3000;

/// The maximum time that a script may let pass.
const TIME_MAX: Duration = Duration::from_secs(600);

/// One client.
struct Client {
    connection: Connection,
    session: Option<SessionId>,
    /// Requests without an answer, oldest first.
    in_flight: VecDeque<(Xid, Op)>,
    /// Packets with credentials without an answer.
    auths: usize,
    next_xid: i32,
    /// The newest zxid in its answers.
    seen: Zxid,
    /// The notifications of the last transaction that it was notified of: kind and path.
    told: Vec<(i32, String)>,
    told_at: Zxid,
}

/// A snapshot that is taken during the run.
struct Snapshot {
    walk: Walk,
    told: Told,
}

/// Checks each transaction, and records which transactions may notify a client of one znode several
/// times.
#[derive(Default)]
struct Applied {
    many: Vec<Zxid>,
    /// Sessions that have ended.
    ended: Vec<SessionId>,
}

impl Watching for Applied {
    fn applied(&mut self, what: &AppliedTxn<'_>) {
        let record = what.record;
        let fails = match &record.txn {
            Txn::Error(_) => true,
            Txn::Multi(ops) => ops.iter().any(|(_, txn)| matches!(txn, Txn::Error(_))),
            _ => false,
        };
        let applied = what.applied;
        assert_eq!(applied.err != ErrorCode::OK, fails, "{record:?} does {applied:?}");
        if let Txn::CloseSession { .. } = &record.txn {
            self.ended.push(record.header.session);
        }
        if matches!(&record.txn, Txn::Multi(_) | Txn::CloseSession { .. }) {
            self.many.push(what.zxid);
        }
    }
}

/// The server and its clients.
struct Run {
    alone: Alone<Applied>,
    clients: BTreeMap<u8, Client>,
    /// The ids of all sessions of the run.
    sessions: Vec<SessionId>,
    snapshot: Option<Snapshot>,
    types: ExtendedTypes,
    /// Whether the end of a session lists its ephemerals.
    lists_paths: bool,
    /// The time that the script may still let pass. Every 200 ms are a turn, which costs time.
    time_left: Duration,
}

/// Runs a script.
pub(crate) fn replica(bytes: &[u8]) {
    let mut from = Cursor::new(bytes);
    let mut run = Run::new(from.byte(), from.byte());
    while let Some((event, held)) = event(&mut from) {
        run.alone.desk.now.monotonic += STEP;
        run.alone.desk.now.wall_ms += STEP.as_millis() as i64;
        run.happens(event);
        if !held {
            run.turn();
        }
    }
    run.end();
}

impl Run {
    fn new(switches: u8, limit: u8) -> Self {
        let on = |bit: u8| switches & 1 << bit != 0;
        let types = ExtendedTypes { enabled: on(1), emulate_353: false };
        let tree =
            Tree::new(zebu_tree::Options { types, digest: on(0), hash_seed: switches.into() });
        let options = Options {
            tick: Duration::from_millis(200),
            session_timeout_ms_min: 400,
            session_timeout_ms_max: 4000,
            rules: Rules {
                types,
                enforce_quota: on(2),
                close_session_lists_paths: on(3),
                digest: on(0),
                reconfig: on(5),
                ..Rules::default()
            },
            eager_acl_check: on(4),
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
            seed: switches.into(),
            ..alone::options()
        };
        let now = Now { monotonic: Duration::from_secs(1), wall_ms: 1_700_000_000_000 };
        let replica = Replica::new(options, &tree, now);
        let digest = Digest::new(DigestAlgorithm::default(), None);
        let schemes = Schemes::new(vec![Box::new(digest)], on(7));
        Self {
            alone: Alone::new(replica, tree, schemes, now, Applied::default()),
            clients: BTreeMap::new(),
            sessions: Vec::new(),
            snapshot: None,
            types,
            lists_paths: on(3),
            time_left: TIME_MAX,
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Connect { slot, timeout_ms, known, right_password, seen } => {
                self.disconnect(slot);
                self.connect(slot, timeout_ms, known, right_password, seen);
            }
            Event::Disconnect { slot } => self.disconnect(slot),
            Event::Request { slot, op, body } => self.request(slot, op, &body),
            Event::Auth { slot, user } => {
                let auth: &[u8] = if user == 0 { b"alice:secret" } else { b"bob:x" };
                let scheme = Some("digest".into());
                let packet = AuthPacket { kind: 0, scheme, auth: Some(auth) };
                self.request(slot, Op::AUTH, &packet.to_bytes());
            }
            Event::Tick { ms } => {
                let time = Duration::from_millis(ms).min(self.time_left);
                self.time_left -= time;
                self.alone.pass(time);
                self.hear();
            }
            Event::Flush { records } => {
                // Only records that were passed to the log can be durable.
                self.turn();
                self.alone.flush(records);
                self.hear();
            }
            Event::Terminate { known } => {
                if let Some(session) = self.sessions.get(usize::from(known)) {
                    self.alone.common.inbox.push(Input::Terminate(*session));
                }
            }
            Event::Walk { znodes } => self.walk(znodes),
        }
    }

    fn connect(&mut self, slot: u8, timeout_ms: i32, known: u8, right_password: bool, seen: u8) {
        let session = self.sessions.get(usize::from(known)).copied().unwrap_or(SessionId::NONE);
        let password = compatible_password(session);
        let right = if right_password { &password[..] } else { &password[1..] };
        let hello = ConnectRequest {
            last_zxid_seen: Zxid(seen.into()),
            session_id: session.0,
            password: Some(right),
            ..ConnectRequest::new_session(timeout_ms)
        };
        let mut bytes = Vec::new();
        frame::frame(&mut bytes, |out| hello.encode(out));
        let mut connection = Connection::open(&self.alone.common, PEER);
        connection.send(&self.alone.common, self.alone.desk.now.monotonic, &bytes);
        let client = Client {
            connection,
            session: None,
            in_flight: VecDeque::new(),
            auths: 0,
            next_xid: 1,
            seen: Zxid::ZERO,
            told: Vec::new(),
            told_at: Zxid::ZERO,
        };
        self.clients.insert(slot, client);
    }

    fn disconnect(&mut self, slot: u8) {
        if let Some(client) = self.clients.remove(&slot) {
            client.connection.leave(&self.alone.common);
        }
    }

    fn request(&mut self, slot: u8, op: Op, body: &[u8]) {
        let Some(client) = self.clients.get_mut(&slot) else { return };
        if client.session.is_none() || client.connection.is_over() {
            return;
        }
        let xid = if matches!(op, Op::AUTH | Op::SASL) {
            client.auths += 1;
            Xid::AUTH
        } else {
            let xid = Xid(client.next_xid);
            client.next_xid += 1;
            client.in_flight.push_back((xid, op));
            xid
        };
        let mut bytes = Vec::new();
        frame::frame(&mut bytes, |out| {
            RequestHeader { xid, op }.encode(out);
            out.raw(body);
        });
        client.connection.send(&self.alone.common, self.alone.desk.now.monotonic, &bytes);
        self.hear();
    }

    fn turn(&mut self) {
        self.alone.turn();
        self.hear();
    }

    /// Every client reads its bytes. That may let a waiting connection continue.
    fn hear(&mut self) {
        let slots: Vec<u8> = self.clients.keys().copied().collect();
        for slot in slots {
            let Some(client) = self.clients.get_mut(&slot) else { continue };
            client.connection.serve(&self.alone.common, self.alone.desk.now.monotonic);
            let received = client.connection.take();
            client.receive(&received, &self.alone, &mut self.sessions);
            // If a connection does not answer a request, the reason is that it was closed.
            if client.connection.is_over() {
                self.disconnect(slot);
            }
        }
    }

    fn walk(&mut self, znodes: usize) {
        let tree = self.alone.common.tree.read();
        let snapshot = self.snapshot.get_or_insert_with(|| Snapshot {
            walk: Walk::new(&tree),
            told: Told {
                sessions: tree.sessions().collect(),
                acls: tree.acl_table().map(|(id, acl)| (id, acl.to_vec())).collect(),
                ..Told::default()
            },
        });
        let znodes_told = &mut snapshot.told.znodes;
        let done = snapshot.walk.step(&tree, znodes, &mut |path, data, acl, stat| {
            let data = data.map(<[u8]>::to_vec);
            znodes_told.push(Znode { path: path.to_owned(), data, acl, stat: *stat });
        });
        drop(tree);
        if done {
            let snapshot = self.snapshot.take().expect("it was just there");
            self.check_snapshot(&snapshot);
        }
    }

    /// A snapshot taken during the run, and the log since its beginning, give the tree.
    fn check_snapshot(&self, snapshot: &Snapshot) {
        let current = self.alone.common.tree.read();
        let options = zebu_tree::Options { types: self.types, ..current.options() };
        let mut tree = load(&snapshot.told, options).expect("a snapshot can be loaded");
        let began = snapshot.walk.began();
        tree.set_last_zxid(began);
        // A tree that is ahead of a transaction has another digest than the transaction.
        self.alone.replay(&mut tree, began..=current.last_zxid());
        check_tree(&tree);
        if !self.lists_paths {
            // The end of a session then does not list the parents of znodes that were deleted
            // before the walk reached them (ZOOKEEPER-3145); only their pzxid is wrong afterwards.
            return;
        }
        assert_eq!(Content::of(&tree), Content::of(&current), "replayed over a snapshot");
    }

    /// Everything becomes durable, all clients leave, and nothing is left over.
    fn end(&mut self) {
        self.turn();
        // Waiting connections are accepted as soon as there is room.
        for turn in 0.. {
            let waits = self.clients.values().any(|client| !client.in_flight.is_empty());
            let desk = &self.alone.desk;
            let is_durable = desk.durable == desk.log.len();
            // The submitted requests of a connection, and its end, count until the server handles
            // them.
            let is_idle = self.alone.common.inbox.is_empty() && desk.replica.waiting() == 0;
            if is_durable && is_idle && !waits {
                break;
            }
            assert!(turn < TURNS_MAX, "whoever waits gets a turn");
            self.alone.pass(Duration::from_millis(100));
            self.alone.settle();
            self.hear();
        }
        let replica = &self.alone.desk.replica;
        assert_eq!(replica.in_process(), 0);
        assert_eq!(replica.outstanding_changes(), 0);
        assert_eq!(self.alone.common.load.requests(), 0);
        assert!(self.clients.values().all(|client| client.auths == 0));
        {
            let tree = self.alone.common.tree.read();
            assert_eq!(tree.last_zxid().0, self.alone.desk.log.len() as i64);
            check_tree(&tree);
            let alive = |session| tree.session_timeout(session).is_some();
            assert!(tree.sessions_with_ephemerals().all(alive), "an ephemeral without its session");
            let mut live: Vec<_> = replica.sessions().iter().map(|(id, _)| id).collect();
            live.sort();
            assert_eq!(live, tree.sessions().map(|(id, _)| id).collect::<Vec<_>>());
        }
        if self.snapshot.is_some() {
            self.walk(usize::MAX);
        }
        let tree = self.alone.common.tree.read();
        let mut replayed = Tree::new(tree.options());
        assert!(self.alone.replay(&mut replayed, Zxid::ZERO..=tree.last_zxid()));
        assert_eq!(Content::of(&replayed), Content::of(&tree), "replayed from the start");
        drop(tree);
        let slots: Vec<u8> = self.clients.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.disconnect(slot));
        assert_eq!(self.alone.common.tree.read().watch_count(), 0, "a watch without a connection");
    }
}

impl Client {
    /// A client receives whole frames, in the order of its requests, and never an older state than
    /// it has seen.
    fn receive(&mut self, out: &[u8], alone: &Alone<Applied>, sessions: &mut Vec<SessionId>) {
        for payload in frames(out) {
            if self.session.is_none() {
                self.welcome(payload, alone, sessions);
                continue;
            }
            let mut from = Decoder::new(payload);
            let header = ReplyHeader::decode(&mut from).expect("an answer has a header");
            let body = from.rest();
            match header.xid {
                Xid::NOTIFICATION => {
                    let event =
                        WatcherEvent::from_bytes(body).expect("a notification has an event");
                    self.notified(header.zxid, event, &alone.desk.watching);
                }
                Xid::AUTH => {
                    self.auths = self.auths.checked_sub(1).expect("credentials were sent");
                }
                xid => {
                    let asked = self.in_flight.pop_front();
                    let (asked, op) = asked.expect("an answer has a request");
                    assert_eq!(xid, asked, "out of order");
                    check_body(op, header.err, body);
                }
            }
            // −1 is the zxid of an unknown request or a missed event, 0 that of an early ACL check.
            if header.zxid > Zxid::ZERO {
                assert!(self.seen <= header.zxid, "{header:?} after {}", self.seen);
                self.seen = header.zxid;
            }
        }
        if self.connection.is_over() {
            // The server answers no more requests.
            self.in_flight.clear();
            self.auths = 0;
        }
    }

    fn welcome(&mut self, payload: &[u8], alone: &Alone<Applied>, sessions: &mut Vec<SessionId>) {
        let welcome = ConnectResponse::from_bytes(payload).expect("an answer to a connect request");
        let session = welcome.session_id;
        if session == SessionId::NONE {
            assert!(self.connection.is_over(), "a refused client is disconnected");
            return;
        }
        assert_eq!(welcome.password, compatible_password(session));
        assert!((400..=4000).contains(&welcome.timeout_ms));
        let is_there = alone.common.tree.read().session_timeout(session).is_some();
        assert!(is_there || alone.desk.watching.ended.contains(&session), "{session} is not there");
        if !sessions.contains(&session) {
            sessions.push(session);
        }
        self.session = Some(session);
    }

    /// No client is notified of one change twice.
    fn notified(&mut self, zxid: Zxid, event: WatcherEvent<'_>, applied: &Applied) {
        if zxid != self.told_at {
            self.told.clear();
            self.told_at = zxid;
        }
        let one = (event.kind.0, event.path.into_owned());
        let many = zxid <= Zxid::ZERO || applied.many.contains(&zxid);
        assert!(many || !self.told.contains(&one), "told twice at {zxid}: {one:?}");
        self.told.push(one);
    }
}

/// Splits the bytes into frames, without a rest.
fn frames(mut out: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while !out.is_empty() {
        let (length, rest) = out.split_first_chunk::<4>().expect("a frame has a length");
        let length = usize::try_from(i32::from_be_bytes(*length)).expect("which is not negative");
        let (payload, rest) = rest.split_at(length);
        frames.push(payload);
        out = rest;
    }
    frames
}

/// An answer has the body of its request's kind, and no bytes after it.
fn check_body(op: Op, err: ErrorCode, body: &[u8]) {
    if err != ErrorCode::OK {
        // A multiRead that cannot be decoded to its end keeps the reads before.
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
