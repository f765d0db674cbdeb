//! A checker interleaves a server's threads in many ways: the network worker, the replica's thread,
//! the log's thread, and the thread that receives messages of other servers. The types are those
//! that ship. Only their locks and atomics belong to the checker, which also detects when all
//! threads wait.
//!
//! `cargo test -p zebu-engine --features shuttle --test threads`
#![cfg(feature = "shuttle")]

use std::sync::{Arc, Weak};
use std::time::Duration;

use shuttle::rand::Rng as _;
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::thread;
use zebu_engine::client::{Client, Wants, Worker};
use zebu_engine::conns::ConnLimits;
use zebu_engine::journal::{Order, Records};
use zebu_engine::sync::{Condvar, Mutex, wait_for};
use zebu_engine::{
    ClientRules, Common, Conn, Engine, EngineOptions, Failed, Kept, Mode, Outbox, Turn, TurnEvents,
    WorkerTurns, World, turn_here,
};
use zebu_jute::{Decode as _, Decoder, Encode as _};
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{ConnectRequest, Create, PathOnly, PathWatch, SetData};
use zebu_proto::{Acl, AclRef, ErrorCode, OpCode, ServerId, SessionId, Version, Xid, Zxid};
use zebu_replica::auth::Schemes;
use zebu_replica::{
    Fatal, Input, IntakeOptions, MemberOptions, Now, Options, Output, Passwords, ReaperOptions,
    Replica, Rules, SnapshotOptions, ThrottleOptions,
};
use zebu_state::Copied;
use zebu_testkit::wire::{frame, framed_request, split_frame};
use zebu_tree::Tree;
use zebu_zab::LinkId;

/// The number of interleavings.
const SCHEDULES: usize = 3_000;

const NOW: Now = Now { monotonic: Duration::from_secs(10), wall_ms: 1_700_000_000_000 };

/// Wakes a task, as a notification that is kept until a task takes it.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.heard.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            rung = wait_for(&self.heard, rung, Duration::MAX);
        }
        *rung = false;
    }

    /// Whether it was rung.
    fn take(&self) -> bool {
        std::mem::take(&mut *self.rung.lock())
    }
}

#[derive(Debug)]
struct Side(Arc<Bell>);

impl zebu_engine::Side for Side {
    fn wake(&self) {
        self.0.ring();
    }
}

struct Driver {
    engine: Option<Engine<Side>>,
    parts: Parts,
    over: bool,
}

struct Parts {
    replica: Replica,
    log: Sender<Order>,
    /// Rung for each input of the thread that receives messages of other servers.
    heard: Arc<Bell>,
}

/// The threads that take turns beside the replica's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takers {
    Nobody,
    Worker,
    /// Also the thread that receives messages of other servers and the log's thread, as in a member
    /// of an ensemble.
    All,
}

impl Driver {
    fn turn(&mut self, common: &Common<Side>) {
        let mut engine = self.engine.take().expect("one turn at a time");
        let done = engine.turn(common, &mut self.parts).expect("it goes on");
        assert_eq!(done, Turn::Done);
        self.engine = Some(engine);
    }
}

impl TurnEvents<Side> for Parts {}

impl World for Parts {
    type Side = Side;

    fn now(&self) -> Now {
        NOW
    }

    fn is_enough(&mut self, outputs: usize) -> bool {
        outputs > 1
    }

    fn replica(&self) -> &Replica {
        &self.replica
    }

    fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    fn step(
        &mut self,
        now: Now,
        common: &Common<Side>,
        tree: &Tree,
        input: Input,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Fatal> {
        if matches!(input, Input::Tick) {
            self.heard.ring();
        }
        self.replica.step(now, tree, &common.schemes, input, outputs)
    }

    fn order(&mut self, order: Order) -> Result<(), Failed> {
        self.log.send(order).map_err(|_| Failed::Log("the log's thread has ended".into()))
    }

    fn append_now(&mut self, _: &mut Records) -> Result<Option<Zxid>, Failed> {
        Ok(None)
    }

    fn snapshot(&mut self, _: &Common<Side>) {}

    fn send(&mut self, _: LinkId, _: QuorumPacket) {}

    fn network(&mut self, _: zebu_zab::Output) -> Result<(), Failed> {
        Err(Failed::Alone)
    }

    fn take_copy(&mut self, _: LinkId) -> Option<Box<Copied>> {
        None
    }

    fn serve(&mut self, _: &Common<Side>, _: Option<Mode>) {}
}

/// The parts of a network worker that a connection needs.
struct Desk<'w>(&'w mut WorkerTurns);

impl Worker<Side> for Desk<'_> {
    fn monotonic(&self) -> Duration {
        NOW.monotonic
    }

    fn sasl_given(&mut self) -> Option<zebu_auth::sasl::Given> {
        let random = [7; zebu_auth::sasl::RANDOM_BYTES];
        Some(zebu_auth::sasl::Given { wall: self.monotonic(), random })
    }

    fn hand_in(
        &mut self,
        common: &Common<Side>,
        conn: &Conn<Side>,
        received: Duration,
        inputs: &mut Vec<Input>,
    ) {
        if self.0.keeps(conn.id, received, inputs.len()) {
            common.inbox.push_quietly(inputs, 0);
        } else {
            common.inbox.push_all(inputs);
        }
    }
}

fn replica(tree: &Tree) -> Replica {
    let options = Options {
        server: ServerId(1),
        first_session: SessionId::first(ServerId(1), NOW.wall_ms),
        tick: Duration::from_secs(1_000),
        session_timeout_ms_min: 4_000,
        session_timeout_ms_max: 40_000_000,
        passwords: Passwords::Compatible,
        rules: Rules::default(),
        eager_acl_check: false,
        throttled_op_wait: Duration::ZERO,
        connections: ThrottleOptions::default(),
        intake: IntakeOptions::default(),
        reaper: ReaperOptions::default(),
        snapshots: SnapshotOptions { every_txns: 1 << 40, every_bytes: None, log_percent: 0 },
        member: MemberOptions::default(),
        seed: 1,
    };
    Replica::new(options, tree, NOW)
}

fn set(xid: i32) -> Vec<u8> {
    let set = SetData { path: Some("/a".into()), data: Some(&[1]), version: Version::ANY };
    framed_request(xid, OpCode::SET_DATA.0, &set.to_bytes())
}

fn sync(xid: i32) -> Vec<u8> {
    let sync = PathOnly { path: Some("/".into()) };
    framed_request(xid, OpCode::SYNC.0, &sync.to_bytes())
}

fn get(xid: i32) -> Vec<u8> {
    let read = PathWatch { path: Some("/a".into()), watch: false };
    framed_request(xid, OpCode::GET_DATA.0, &read.to_bytes())
}

/// The client's messages. It sends each piece after an answer to an earlier one: reads and writes
/// in turn, and several at once.
fn pieces() -> Vec<(Vec<u8>, i32)> {
    let first = frame(&ConnectRequest::new_session(40_000).to_bytes());
    let open = Acl::open();
    let acl = Some(open.iter().map(AclRef::from).collect());
    let create = Create { path: Some("/a".into()), data: None, acl, flags: 0 };
    let create = framed_request(1, OpCode::CREATE.0, &create.to_bytes());
    vec![
        (first, 0),
        ([create, get(2), set(3), get(4)].concat(), 4),
        // The next piece may arrive before the answer.
        (sync(5), 4),
        ([get(6), set(7)].concat(), 7),
    ]
}

/// The network worker: serves one connection until everything is answered.
fn serve(common: &Common<Side>, driver: &Mutex<Driver>, bell: &Arc<Bell>, takers: Takers) {
    let make = |id| {
        let outbox = Outbox::new(common.rules.outbox_bytes_max);
        let address = [127, 0, 0, 1].into();
        Conn::new(id, address, common.schemes.initial(address), outbox, Side(bell.clone()))
    };
    let conn = common.conns.enter([127, 0, 0, 1].into(), ConnLimits::default(), make);
    let mut client = Client::new(conn.expect("there is room"));
    let mut turns = WorkerTurns::default();
    if takers != Takers::Nobody {
        turns.allow();
    }
    let mut received: Vec<u8> = Vec::new();
    let mut answered = -1;
    for (piece, last) in pieces() {
        // The pause between two pieces varies.
        for _ in 0..shuttle::rand::thread_rng().gen_range(0..60) {
            thread::yield_now();
        }
        client.received(&piece, true, || NOW.monotonic);
        loop {
            client.conn().looking();
            client.process(common, &mut Desk(&mut turns)).expect("it goes on");
            let waiting = client.collect().expect("it goes on");
            received.extend_from_slice(client.unsent());
            let count = client.unsent().len();
            client.sent(count);
            while let Some((frame, behind)) = split_frame(&received) {
                answered = answer(frame, answered);
                received = behind.to_vec();
            }
            if client.wants(common, waiting, false) == Wants::Turn {
                continue;
            }
            if answered >= last {
                break;
            }
            // Before the worker sleeps, it handles what it has postponed.
            if !bell.take() {
                if turns.take() > 0 {
                    take_turn(driver, common);
                }
                bell.wait();
            }
        }
    }
    client.leave(common);
}

/// Checks an answer against the last one. Returns its number.
fn answer(frame: &[u8], before: i32) -> i32 {
    if before < 0 {
        return 0;
    }
    let ReplyHeader { xid, err, .. } =
        ReplyHeader::decode(&mut Decoder::new(frame)).expect("an answer");
    assert_eq!((xid, err), (Xid(before + 1), ErrorCode::OK));
    xid.0
}

fn take_turn(driver: &Mutex<Driver>, common: &Common<Side>) {
    turn_here(driver, &common.inbox, |driver| {
        if !driver.over {
            driver.turn(common);
        }
        !driver.over
    });
}

/// The log's thread. It takes turns if there is a driver for it.
fn log(orders: &Receiver<Order>, common: &Common<Side>, driver: &Weak<Mutex<Driver>>) {
    while let Ok(order) = orders.recv() {
        if let Order::Append(records) = order
            && let Some((last, _)) = records.last()
        {
            // Sometimes there is more work.
            let has_time = shuttle::rand::thread_rng().gen_bool(0.7);
            match driver.upgrade().filter(|_| has_time) {
                Some(driver) => {
                    common.inbox.push_one_quietly(Input::Flushed(*last));
                    take_turn(&driver, common);
                }
                None => common.inbox.push(Input::Flushed(*last)),
            }
        }
    }
}

/// The thread that receives messages of other servers. It waits for each input, like a server that
/// waits for an answer.
fn hear(common: &Common<Side>, driver: &Mutex<Driver>, heard: &Bell) {
    let mut kept = Kept::default();
    kept.allow();
    for _ in 0..3 {
        for _ in 0..shuttle::rand::thread_rng().gen_range(0..60) {
            thread::yield_now();
        }
        let mut inputs = vec![Input::Tick];
        if kept.keeps(inputs.len()) {
            common.inbox.push_quietly(&mut inputs, 0);
        } else {
            common.inbox.push_all(&mut inputs);
        }
        if kept.take() > 0 {
            take_turn(driver, common);
        }
        heard.wait();
    }
}

fn server(takers: Takers) {
    let tree = Tree::new(zebu_tree::Options::default());
    let replica = replica(&tree);
    let common = Common::new(tree, Arc::new(Schemes::new(vec![], false)), ClientRules::default());
    common.serve(NOW.monotonic, || Some(Mode::Standalone));
    let common = Arc::new(common);
    let (to_log, orders) = channel();
    let engine = Engine::new(EngineOptions::default(), NOW.monotonic);
    let heard = Arc::new(Bell::default());
    let parts = Parts { replica, log: to_log, heard: heard.clone() };
    let driver = Arc::new(Mutex::new(Driver { engine: Some(engine), parts, over: false }));
    let logs = {
        let common = common.clone();
        // A weak reference: a strong one to the driver would keep the log's thread alive for ever.
        let takes_turns = takers == Takers::All;
        let driver = if takes_turns { Arc::downgrade(&driver) } else { Weak::new() };
        thread::spawn(move || log(&orders, &common, &driver))
    };
    let hears = (takers == Takers::All).then(|| {
        let (driver, common) = (driver.clone(), common.clone());
        thread::spawn(move || hear(&common, &driver, &heard))
    });
    let turns = {
        let (driver, common) = (driver.clone(), common.clone());
        thread::spawn(move || {
            while common.inbox.wait(Duration::MAX) {
                driver.lock().turn(&common);
            }
        })
    };
    serve(&common, &driver, &Arc::new(Bell::default()), takers);
    if let Some(hears) = hears {
        hears.join().expect("whoever hears other servers ends");
    }
    common.inbox.stop();
    turns.join().expect("the replica's thread ends");
    driver.lock().over = true;
    drop(driver);
    logs.join().expect("the log's thread ends");
}

#[test]
fn every_request_is_answered_in_order_whoever_has_the_turn() {
    for takers in [Takers::Nobody, Takers::Worker, Takers::All] {
        shuttle::check_random(move || server(takers), SCHEDULES);
        shuttle::check_pct(move || server(takers), SCHEDULES, 3);
    }
}

#[test]
fn faults_between_threads_are_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for fault in ["lost wake-up", "kept and forgotten", "inbox sleeps on", "rest left to nobody"] {
        zebu_proto::mutants::choose(fault);
        let found = std::panic::catch_unwind(|| {
            shuttle::check_random(move || server(Takers::Worker), SCHEDULES);
            shuttle::check_random(move || server(Takers::Nobody), SCHEDULES);
            shuttle::check_random(move || server(Takers::All), SCHEDULES);
        });
        if found.is_ok() {
            missed.push(fault);
        }
    }
    zebu_proto::mutants::choose("");
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "{missed:?}");
}
