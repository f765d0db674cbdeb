//! Runs of one connection's requests end, so that the tree can change in between.
#![cfg(not(feature = "shuttle"))]

use std::sync::Arc;
use std::time::Duration;

use zebu_engine::client::{Client, Run, Wants, Worker};
use zebu_engine::conns::ConnLimits;
use zebu_engine::{ClientRules, Common, Conn, Mode, Outbox};
use zebu_jute::{Decode as _, Decoder, Encode as _, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{ConnectRequest, MultiHeader, PathWatch};
use zebu_proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use zebu_proto::{Acl, AclRef, ErrorCode, OpCode, SessionId, Xid, Zxid};
use zebu_replica::auth::Schemes;
use zebu_testkit::wire::{frame, framed_request, split_frame};
use zebu_tree::{Silent, Tree};

/// The maximum time for which a run keeps the tree from changing.
const TIME_MAX: Duration = Duration::from_millis(5);

/// Number of requests with short answers between two checks of the clock.
const LOOKS_EVERY: usize = 32;

/// Maximum number of requests in one run: alone, and while other connections need the worker.
const FRAMES_MAX: usize = 1024;
const FRAMES_BESIDE_OTHERS_MAX: usize = 128;

#[derive(Debug)]
struct Side;

impl zebu_engine::Side for Side {
    fn wake(&self) {}
}

/// A network worker whose clock advances with each answer.
struct Desk {
    now: Duration,
    answer_takes: Duration,
    is_alone: bool,
    runs: Vec<u64>,
}

impl Worker<Side> for Desk {
    fn monotonic(&self) -> Duration {
        self.now
    }

    fn sasl_given(&mut self) -> Option<zebu_auth::sasl::Given> {
        let random = [7; zebu_auth::sasl::RANDOM_BYTES];
        Some(zebu_auth::sasl::Given { wall: self.monotonic(), random })
    }

    fn is_alone(&self, _: &Conn<Side>, _: Duration) -> bool {
        self.is_alone
    }

    fn answered(&mut self, _: OpCode) {
        self.now += self.answer_takes;
    }

    fn ran(&mut self, _: &Conn<Side>, run: &Run) {
        self.runs.push(run.frames);
    }
}

fn request(xid: usize, op: OpCode, body: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    body(&mut Encoder::new(&mut bytes));
    framed_request(xid as i32, op.0, &bytes)
}

fn get(xid: usize, path: &'static str) -> Vec<u8> {
    let read = PathWatch { path: Some(path.into()), watch: false };
    request(xid, OpCode::GET_DATA, |out| read.encode(out))
}

/// A server with one client.
struct Served {
    common: Common<Side>,
    client: Client<Side>,
    desk: Desk,
    zxid: i64,
}

impl Served {
    /// Each answer takes this long.
    fn new(answer_takes: Duration) -> Self {
        let tree = Tree::new(zebu_tree::Options::default());
        let schemes = Arc::new(Schemes::new(vec![], false));
        let common = Common::new(tree, schemes, ClientRules::default());
        let now = Duration::from_secs(10);
        common.serve(now, || Some(Mode::Standalone));
        let make = |id| {
            let outbox = Outbox::new(common.rules.outbox_bytes_max);
            let address = [127, 0, 0, 1].into();
            Conn::new(id, address, common.schemes.initial(address), outbox, Side)
        };
        let conn = common.conns.enter([127, 0, 0, 1].into(), ConnLimits::default(), make);
        let mut client = Client::new(conn.expect("there is room"));
        let mut desk = Desk { now, answer_takes, is_alone: true, runs: Vec::new() };
        let hello = ConnectRequest::new_session(40_000);
        client.received(&frame(&hello.to_bytes()), true, || now);
        client.process(&common, &mut desk).unwrap();
        client.conn().set_session(SessionId(1), 40_000);
        client.process(&common, &mut desk).unwrap();
        let mut served = Self { common, client, desk, zxid: 0 };
        served.write("/small", b"");
        served.write("/large", &[7; 40 << 10]);
        served
    }

    /// Another client changes the tree.
    fn write(&mut self, path: &str, data: &[u8]) {
        let acl = Acl::open();
        let acl = acl.iter().map(AclRef::from).collect();
        let (path, data) = (path.into(), Some(data));
        let create =
            CreateTxn { path, data, acl, ephemeral: false, parent_cversion: -1, ttl_ms: 0 };
        self.apply(OpCode::CREATE, Txn::Create(create));
    }

    /// Another client deletes a znode.
    fn delete(&mut self, path: &str) {
        self.apply(OpCode::DELETE, Txn::Delete { path: path.into() });
    }

    fn apply(&mut self, op: OpCode, txn: Txn<'_>) {
        self.zxid += 1;
        let zxid = Zxid(self.zxid);
        let header = TxnHeader { session: SessionId(2), cxid: 0, zxid, time_ms: 1, op };
        let record = TxnRecord { header, txn, digest: None };
        // Waits for ever if a run is in progress.
        let applied = self.common.tree.write().apply(&record, &mut Silent);
        assert_eq!(applied.err, ErrorCode::OK);
    }

    /// Sends these requests at once. Between two runs, another client writes. Returns the zxids in
    /// the answers, one for each run, each with the number of answers that have it.
    fn ask(&mut self, requests: &[Vec<u8>]) -> Vec<(i64, usize)> {
        self.desk.runs.clear();
        let now = self.desk.now;
        self.client.received(&requests.concat(), true, || now);
        let mut answers = Vec::new();
        loop {
            self.client.process(&self.common, &mut self.desk).unwrap();
            let waiting = self.client.collect().unwrap();
            answers.extend_from_slice(self.client.unsent());
            self.client.sent(self.client.unsent().len());
            if self.client.wants(&self.common, waiting, false) != Wants::Turn {
                break;
            }
            let path = format!("/{}", self.zxid);
            self.write(&path, b"");
        }
        let mut seen: Vec<(i64, usize)> = Vec::new();
        let mut rest = &answers[..];
        let mut number = 0;
        while let Some((answer, behind)) = split_frame(rest) {
            rest = behind;
            let header = ReplyHeader::decode(&mut Decoder::new(answer)).unwrap();
            assert_eq!((header.xid, header.err), (Xid(number), ErrorCode::OK));
            number += 1;
            match seen.last_mut() {
                Some((zxid, count)) if *zxid == header.zxid.0 => *count += 1,
                _ => seen.push((header.zxid.0, 1)),
            }
        }
        assert_eq!((rest, number as usize), (&[][..], requests.len()), "all are answered");
        seen
    }
}

#[test]
fn a_run_of_reads_ends_by_time_and_writes_come_in_between() {
    // The clock is checked after 32 requests, which end the run if more than five milliseconds have
    // passed.
    let in_a_run = 2 * LOOKS_EVERY;
    for micros in [79, 100, 156] {
        let mut served = Served::new(Duration::from_micros(micros));
        let reads: Vec<_> = (0..10 * in_a_run).map(|xid| get(xid, "/small")).collect();
        let first = served.zxid;
        let seen = served.ask(&reads);
        let expected: Vec<_> = (0..10).map(|run| (first + run, in_a_run)).collect();
        assert_eq!(seen, expected, "with {micros} microseconds each");
        assert!(served.desk.runs.iter().all(|frames| *frames as usize == in_a_run));
    }
    // Requests that take no time reach the maximum number of a run.
    let mut served = Served::new(Duration::ZERO);
    let reads: Vec<_> = (0..2 * FRAMES_MAX).map(|xid| get(xid, "/small")).collect();
    let first = served.zxid;
    assert_eq!(served.ask(&reads), [(first, FRAMES_MAX), (first + 1, FRAMES_MAX)]);
    // If other connections need the worker, the run is shorter.
    let mut served = Served::new(Duration::ZERO);
    served.desk.is_alone = false;
    let reads: Vec<_> = (0..2 * FRAMES_BESIDE_OTHERS_MAX).map(|xid| get(xid, "/small")).collect();
    let (first, each) = (served.zxid, FRAMES_BESIDE_OTHERS_MAX);
    assert_eq!(served.ask(&reads), [(first, each), (first + 1, each)]);
}

#[test]
fn the_clock_is_looked_at_more_often_where_answers_are_large() {
    let mut served = Served::new(TIME_MAX / 2);
    let reads: Vec<_> = (0..12).map(|xid| get(xid, "/large")).collect();
    let first = served.zxid;
    // The third request is the first one after which the time is over.
    let expected: Vec<_> = (0..4).map(|run| (first + run, 3)).collect();
    assert_eq!(served.ask(&reads), expected);
}

#[test]
fn a_long_multi_read_has_several_turns_and_what_follows_comes_behind_it() {
    let mut served = Served::new(Duration::ZERO);
    let several = |xid, path: &'static str, count| {
        request(xid, OpCode::MULTI_READ, |out| {
            for _ in 0..count {
                MultiHeader { op: OpCode::GET_DATA, done: false, err: -1 }.encode(out);
                PathWatch { path: Some(path.into()), watch: false }.encode(out);
            }
            MultiHeader::END.encode(out);
        })
    };
    let reads =
        [get(0, "/small"), several(1, "/small", 2000), several(2, "/large", 7), get(3, "/small")];
    let first = served.zxid;
    let seen = served.ask(&reads);
    // Four parts of up to 512 reads, the first one in the run that it ends. Then as many parts of
    // two large answers each. A request after the last part is answered in another turn.
    assert_eq!(seen, [(first, 1), (first + 3, 1), (first + 7, 1), (first + 8, 1)]);
    // A short multiRead is answered in its own run.
    let first = served.zxid;
    assert_eq!(served.ask(&[several(0, "/small", 512), get(1, "/small")]), [(first, 2)]);
}

#[test]
fn a_long_list_has_as_many_turns_as_it_needs_though_its_children_come_and_go() {
    /// The number of children listed in one turn, and of bytes sent in one.
    const AT_ONCE: usize = 512;
    const SENT_MAX: usize = 64 << 10;
    let mut served = Served::new(Duration::ZERO);
    served.write("/t", b"");
    // Most turns send nothing, so the names are long: the answer also needs several turns.
    let path = |number: i64| format!("/t/{number:080}");
    let (mut oldest, mut newest) = (0, 10_000);
    for number in 0..newest {
        served.write(&path(number), b"");
    }
    let list = PathWatch { path: Some("/t".into()), watch: false };
    let list = request(1, OpCode::GET_CHILDREN, |out| list.encode(out));
    let now = served.desk.now;
    served.client.received(&list, true, || now);
    let (mut answer, mut listing, mut sending) = (Vec::new(), 0, 0);
    let mut expected = Vec::new();
    loop {
        let is_made = !answer.is_empty();
        served.client.process(&served.common, &mut served.desk).unwrap();
        // The worker sends until other connections must have their turn.
        let before = answer.len();
        let waiting = loop {
            let waiting = served.client.collect().unwrap();
            answer.extend_from_slice(served.client.unsent());
            served.client.sent(served.client.unsent().len());
            if waiting == 0 || served.client.has_sent_its_share() {
                break waiting;
            }
        };
        assert!(answer.len() - before <= SENT_MAX, "{} bytes in one turn", answer.len() - before);
        if !is_made && !answer.is_empty() {
            expected = (oldest..newest).map(|number| path(number)[3..].to_owned()).collect();
        }
        if is_made {
            sending += 1
        } else {
            listing += 1
        }
        if served.client.wants(&served.common, waiting, false) != Wants::Turn {
            break;
        }
        // Other clients take the oldest children, as from a queue, and add new ones. They wait for
        // ever if the tree is locked.
        for _ in 0..7 {
            served.delete(&path(oldest));
            served.write(&path(newest), b"");
            (oldest, newest) = (oldest + 1, newest + 1);
        }
    }
    assert_eq!(listing, 10_000 / AT_ONCE + 1, "no part was made twice");
    assert_eq!(sending, answer.len() / SENT_MAX, "sent in as few turns as possible");
    let from = &mut Decoder::new(split_frame(&answer).unwrap().0);
    let header = ReplyHeader::decode(from).unwrap();
    assert_eq!((header.xid, header.err), (Xid(1), ErrorCode::OK));
    assert_eq!(Vec::<String>::decode(from).unwrap(), expected);
    assert_eq!(from.remaining(), 0);
}
