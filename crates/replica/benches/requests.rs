//! The four steps of a request, each by itself: decode, prepare, apply, encode.
//!
//! `cargo bench -p zebu-replica` measures them. `cargo test -p zebu-replica --bench requests` runs
//! each once, without a clock.

use std::cell::RefCell;

use bytes::Bytes;
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use zebu_jute::{Decode as _, Decoder, Encode, Encoder};
use zebu_proto::request::{Create, PathWatch, RequestHeader, SetData};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{Acl, AclRef, OpCode, SessionId, Version, Xid, Zxid};
use zebu_replica::auth::{Credentials, Schemes};
use zebu_replica::{
    ANSWER_BYTES_MAX, ConnId, Connect, Input, Now, Output, Reader, Replica, Request, write_reply,
};
use zebu_testkit::alone;
use zebu_tree::{Applied, Silent, Tree, WatcherId};

/// Requests in one sample.
const BATCH: usize = 128;

/// Znodes that the requests are for.
const ZNODES: usize = 1_000;

/// Bytes of a value.
const VALUE: [u8; 100] = [b'v'; 100];

const CONN: ConnId = ConnId(1);

fn main() {
    divan::main();
}

fn path(number: usize) -> String {
    format!("/bench/{:07}", number % ZNODES)
}

fn set_data(number: usize) -> Vec<u8> {
    let path = path(number);
    let path = Some(path.as_str().into());
    SetData { path, data: Some(&VALUE), version: Version::ANY }.to_bytes()
}

/// A replica with one session and its znodes.
struct Server {
    tree: Tree,
    replica: Replica,
    schemes: Schemes,
    ids: Credentials,
    session: SessionId,
    logged: Zxid,
    xid: i32,
}

impl Server {
    fn new() -> Self {
        let options = alone::options();
        let tree = Tree::new(zebu_tree::Options::default());
        let replica = Replica::new(options, &tree, Now::default());
        let schemes = Schemes::new(vec![], false);
        let ids = schemes.initial([127, 0, 0, 1].into());
        let (session, logged) = (alone::options().first_session, Zxid::ZERO);
        let mut server = Self { tree, replica, schemes, ids, session, logged, xid: 0 };
        server.step(Input::Connect(Connect {
            conn: CONN,
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 30_000,
            session: SessionId::NONE,
            password: vec![0; 16],
            read_only: false,
        }));
        server.flush();
        let open = Acl::open();
        let paths = (0..ZNODES).map(path);
        for path in std::iter::once("/bench".to_owned()).chain(paths) {
            let acl = Some(open.iter().map(AclRef::from).collect());
            let create =
                Create { path: Some(path.into()), data: Some(&VALUE), acl, flags: 0 }.to_bytes();
            let request = server.request(OpCode::CREATE, create);
            server.step(request);
            server.flush();
        }
        assert_eq!(server.tree.node("/bench").map(|node| node.child_count()), Some(ZNODES as u32));
        server
    }

    fn request(&mut self, op: OpCode, body: Vec<u8>) -> Input {
        self.xid += 1;
        Input::Request(Request {
            conn: CONN,
            session: self.session,
            xid: Xid(self.xid),
            op,
            bytes: body.len() + 8,
            body: Bytes::from(body),
            ids: self.ids.clone(),
            received: Now::default().monotonic,
        })
    }

    fn requests(&mut self) -> Vec<Input> {
        (0..BATCH).map(|number| self.request(OpCode::SET_DATA, set_data(number))).collect()
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        let Self { replica, tree, schemes, .. } = self;
        replica.step(Now::default(), tree, schemes, input, &mut outputs).expect("zxids are left");
        for output in &outputs {
            if let Output::Append { zxid, .. } = output {
                self.logged = *zxid;
            }
        }
        outputs
    }

    /// Everything is durable: the records to be applied.
    fn committed(&mut self) -> Vec<Bytes> {
        let outputs = self.step(Input::Flushed(self.logged));
        let record = |output| match output {
            Output::Apply { record, .. } => Some(record),
            _ => None,
        };
        outputs.into_iter().filter_map(record).collect()
    }

    fn apply(&mut self, records: &[Bytes]) {
        for record in records {
            let record = TxnRecord::decode(record).expect("the replica made this record");
            black_box(self.tree.apply(&record, &mut Silent));
        }
    }

    fn flush(&mut self) {
        let records = self.committed();
        self.apply(&records);
        self.step(Input::Applied(self.logged));
    }
}

/// The header and the body of a setData, from its bytes.
#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    let frames: Vec<Vec<u8>> = (0..BATCH)
        .map(|number| {
            let mut bytes = Vec::new();
            let header = RequestHeader { xid: Xid(number as i32), op: OpCode::SET_DATA };
            header.encode(&mut Encoder::new(&mut bytes));
            bytes.extend(set_data(number));
            bytes
        })
        .collect();
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for frame in &frames {
            let mut from = Decoder::new(black_box(frame));
            black_box(RequestHeader::decode(&mut from).expect("a header"));
            black_box(SetData::decode(&mut from).expect("a setData"));
        }
    });
}

/// A setData becomes a transaction: validation and the bytes of its record.
#[divan::bench(sample_size = 1, sample_count = 500)]
fn prepare(bencher: Bencher<'_, '_>) {
    let server = RefCell::new(Server::new());
    let requests = || {
        let mut server = server.borrow_mut();
        server.flush();
        server.requests()
    };
    bencher.counter(ItemsCount::new(BATCH)).with_inputs(requests).bench_local_values(|requests| {
        let mut server = server.borrow_mut();
        for request in requests {
            black_box(server.step(request));
        }
    });
}

/// A committed setData changes the tree, without watches.
#[divan::bench(sample_size = 1, sample_count = 500)]
fn apply(bencher: Bencher<'_, '_>) {
    let server = RefCell::new(Server::new());
    let committed = || {
        let mut server = server.borrow_mut();
        let last = server.tree.last_zxid();
        server.step(Input::Applied(last));
        for request in server.requests() {
            server.step(request);
        }
        server.committed()
    };
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(committed)
        .bench_local_values(|records| server.borrow_mut().apply(&records));
}

/// The answer to a setData.
#[divan::bench]
fn encode_set_data(bencher: Bencher<'_, '_>) {
    let mut server = Server::new();
    let request = server.request(OpCode::SET_DATA, set_data(0));
    server.step(request);
    let records = server.committed();
    let record = TxnRecord::decode(&records[0]).expect("the replica made this record");
    let applied: Applied<'_> = server.tree.apply(&record, &mut Silent);
    let zxid = server.tree.last_zxid();
    bencher.counter(ItemsCount::new(BATCH)).with_inputs(Vec::new).bench_refs(|out| {
        for xid in 0..BATCH {
            write_reply(out, OpCode::SET_DATA, Xid(xid as i32), zxid, black_box(&applied));
        }
    });
}

/// The answer to a getData, with finding the znode and checking its ACL.
#[divan::bench]
fn encode_get_data(bencher: Bencher<'_, '_>) {
    let server = Server::new();
    let reader = Reader {
        schemes: &server.schemes,
        watcher: WatcherId(1),
        session: server.session,
        ids: &server.ids,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let bodies: Vec<Vec<u8>> = (0..BATCH)
        .map(|number| PathWatch { path: Some(path(number).into()), watch: false }.to_bytes())
        .collect();
    bencher.counter(ItemsCount::new(BATCH)).with_inputs(Vec::new).bench_local_refs(|out| {
        for body in &bodies {
            black_box(reader.answer(&server.tree, Xid(1), OpCode::GET_DATA, black_box(body), out));
        }
    });
}
