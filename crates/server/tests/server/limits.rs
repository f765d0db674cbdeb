//! Limits of connections, frames and unread answers, and the consequences of a fault.

use std::thread;

use zebu_proto::Id;
use zebu_replica::auth::{AuthProvider, Claim, Verdict};
use zebu_testkit::connection::Hello;
use zebu_testkit::wire::{Writer, create, err, op, set_data};

use crate::client::{Client, NoSession};
use crate::running::{Running, wait};

/// A client with a session timeout that a busy machine does not exceed.
fn patient(running: &Running) -> Client {
    Client::hello(running.port, &Hello::timeout(1_000_000)).unwrap()
}

fn let_in(running: &Running) -> Result<Client, NoSession> {
    Client::hello(running.port, &Hello::default())
}

#[test]
fn connections_have_a_limit_by_address_and_one_in_all() {
    for setting in ["maxClientCnxns=3", "maxCnxns=3"] {
        let running = Running::new(&[setting]);
        let mut clients: Vec<Client> = (0..3).map(|_| running.client()).collect();
        assert_eq!(let_in(&running).err(), Some(NoSession::Closed), "{setting}");
        clients.pop().unwrap().close();
        wait("a place is free", || running.metric("connection_rejected") >= Some(1.0));
        wait("it is free again", || let_in(&running).is_ok());
    }
}

#[test]
fn a_frame_has_a_largest_length() {
    let running = Running::new(&["-Djute.maxbuffer=1000"]);
    let mut client = running.client();
    client.create("/n", b"").unwrap();
    let around = 8 + 4 + 2 + 4 + 4;
    client.set("/n", &[0; 1000 - 22]).unwrap();
    assert_eq!(around, 22, "header, path, length and version");
    client.post(op::SET_DATA, &set_data("/n", &[0; 1001 - 22]));
    assert!(client.reply().is_none());
    assert_eq!(running.client().get("/n").unwrap().0.len(), 1000 - 22);
    // The record may be longer with the parts that the server adds, and is still read back.
    let running = running.restart(&["-Djute.maxbuffer=1000"]);
    assert_eq!(running.client().get("/n").unwrap().0.len(), 1000 - 22);
}

#[test]
fn records_of_the_original_are_read_up_to_the_longest_request_and_what_comes_on_top() {
    let running = Running::new(&[]);
    running.client().create("/n", &[0; 5000]).unwrap();
    let files = running.files();
    let dir = running.stop();
    // A log of the original, without a sidecar that confirms lengths.
    for name in crate::running::files(&files, "durable.") {
        std::fs::remove_file(files.join(name)).unwrap();
    }
    let small = ["-Djute.maxbuffer=1000", "jute.maxbuffer.extrasize=2000"];
    let refusal = Running::refusal(dir.path(), &small);
    assert!(refusal.contains("log."), "{refusal}");
    let enough = ["-Djute.maxbuffer=1000", "jute.maxbuffer.extrasize=8000"];
    assert!(Running::on(dir.path(), &enough).client().exists("/n"));
}

#[test]
fn frames_of_impossible_lengths_end_the_connection() {
    let running = Running::new(&[]);
    for length in [-1, i32::MIN, i32::MAX, 3] {
        let mut client = running.client();
        client.raw.send_raw(Writer::new().int(length).int(0).bytes());
        assert!(client.raw.is_closed(), "{length}");
        let mut raw = running.raw();
        raw.send_raw(Writer::new().int(length).int(0).bytes());
        assert!(raw.is_closed(), "{length}");
    }
}

/// A connect request is short. If a longer one is announced, the server closes the connection
/// before it has arrived.
#[test]
fn a_connect_request_has_a_largest_length() {
    let running = Running::new(&["nio.sessionlessCnxnTimeout=600000"]);
    for length in [4097, 8192, 1 << 19] {
        let mut raw = running.raw();
        raw.send_raw(Writer::new().int(length).int(0).bytes());
        assert!(raw.is_closed(), "{length}");
    }
    // The server reads bytes after the longest accepted connect request from the socket later, and
    // answers them.
    let password = 4096 - (4 + 8 + 4 + 8 + 4) - 1;
    let hello = Writer::new().int(4096).int(0).long(0).int(30_000).long(0).int(password);
    let mut hello = hello.done();
    hello.resize(4 + 4096, 0);
    let mut raw = running.raw();
    for _ in 0..2000 {
        hello.extend(Writer::new().int(8).int(-2).int(11).done());
    }
    raw.send_raw(&hello);
    assert_eq!(raw.receive().unwrap()[..4], [0; 4], "the version of the protocol");
    for _ in 0..2000 {
        assert_eq!(raw.receive().unwrap()[..4], [0xff, 0xff, 0xff, 0xfe], "a ping");
    }
}

/// WAT-25.
#[test]
fn who_does_not_read_is_cut_off_and_costs_nobody_else_anything() {
    // Long enough that the session does not expire.
    let running = Running::new(&["maxSessionTimeout=1000000"]);
    let mut writer = running.client();
    let mut deaf = patient(&running);
    let path = format!("/{}", "x".repeat(100_000));
    writer.create(&path, b"").unwrap();
    // A persistent watch: every change causes a notification of 100 kB.
    deaf.call(op::ADD_WATCH, &Writer::new().string(&path).int(0));
    for _ in 0..2000 {
        writer.set(&path, b"").unwrap();
        if running.metric("watch_count") == Some(0.0) {
            break;
        }
    }
    // Only the writer and the client that asks are left.
    running.wait_metric("num_alive_connections", |n| n == 2.0);
    assert!(running.metric("watch_bytes") > Some(64e6));
    assert_eq!(running.metric("stale_sessions_expired"), Some(0.0));
    assert_eq!(running.metric("watch_count"), Some(0.0));
}

#[test]
fn a_slow_reader_of_large_answers_is_not_read_from_and_not_cut_off() {
    let running = Running::new(&["maxSessionTimeout=1000000"]);
    let mut client = patient(&running);
    client.create("/n", &[7; 1_000_000]).unwrap();
    // 300 MB of answers; the server creates only a limited part of them before the client reads.
    let get = Writer::new().string("/n").bool(false);
    let xids: Vec<i32> = (0..300).map(|_| client.post(op::GET_DATA, &get)).collect();
    for xid in xids {
        let reply = client.reply().expect("it is slow, and that is all");
        assert_eq!((reply.xid, reply.body.len()), (xid, 4 + 1_000_000 + 68));
    }
}

#[test]
fn keep_alive_is_set_where_configured() {
    let table = "/proc/net/tcp";
    if !std::path::Path::new(table).exists() {
        return;
    }
    for (setting, expected) in
        [("clientTcpKeepAlive=true", "02"), ("clientTcpKeepAlive=false", "00")]
    {
        let running = Running::new(&[setting, "clientPortAddress=127.0.0.1"]);
        let mut client = running.client();
        client.ping();
        let ours = format!("{:04X}", running.port);
        let theirs = format!("{:04X}", client.raw.stream().local_addr().unwrap().port());
        // Local and remote address, state, queues, and the running timer.
        let timer = || {
            let text = std::fs::read_to_string(table).unwrap();
            let line = text.lines().map(str::split_whitespace).map(Vec::from_iter).find(|line| {
                line[1].ends_with(&format!(":{ours}")) && line[2].ends_with(&format!(":{theirs}"))
            });
            line.unwrap()[5][..2].to_owned()
        };
        wait("the timer is known", || timer() == expected);
    }
}

/// A scheme with a fault.
struct Faulty;

impl AuthProvider for Faulty {
    fn scheme(&self) -> &str {
        "faulty"
    }

    fn authenticate(&self, claim: &Claim<'_>) -> Verdict {
        assert_ne!(claim.data, Some(&b"now"[..]), "this test breaks the scheme on purpose");
        Ok(vec![Id::new("faulty", "me")])
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, _: &str) -> bool {
        true
    }

    fn matches(&self, _: &str, _: &str) -> bool {
        panic!("this test breaks the scheme on purpose");
    }
}

#[test]
fn a_panic_anywhere_stops_the_whole_server() {
    for breaks in ["now", "later"] {
        let mut running = Running::with(&[], vec![Box::new(Faulty)]);
        let mut other = running.client();
        let mut client = running.client();
        let answer = client.auth("faulty", breaks);
        assert_eq!(answer.is_some(), breaks == "later");
        if breaks == "later" {
            let acl = &[(31, "faulty", "me")];
            client.post(op::CREATE, &create("/n", b"", acl, 0));
            client.post(op::SET_DATA, &set_data("/n", b""));
        }
        let failure = running.take().wait().unwrap_err().to_string();
        assert!(failure.contains("has panicked"), "{failure}");
        assert!(other.raw.is_closed(), "nobody is left believing that it serves");
    }
}

#[test]
fn a_server_stops_under_load_and_keeps_what_it_answered() {
    let running = Running::new(&[]);
    running.client().create("/all", b"").unwrap();
    let (running, answered) = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let mut client = running.client();
                scope.spawn(move || {
                    let mut answered = Vec::new();
                    for n in 0.. {
                        let path = format!("/all/{writer}-{n}");
                        client.post(op::CREATE, &create(&path, b"", zebu_testkit::wire::OPEN, 0));
                        match client.reply() {
                            Some(reply) => assert_eq!(reply.err, 0),
                            None => return answered,
                        }
                        answered.push(path);
                    }
                    unreachable!();
                })
            })
            .collect();
        running.wait_metric("op_count_create", |n| n > 200.0);
        let running = running.restart(&[]);
        let answered: Vec<String> =
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        (running, answered)
    });
    let there = running.client().children("/all");
    for path in answered {
        let name = path.trim_start_matches("/all/").to_owned();
        assert!(there.binary_search(&name).is_ok(), "{path} was answered and is lost");
    }
}

#[test]
fn without_a_client_port_nobody_connects_and_it_stops_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = zebu_server::config::Config::embedded(dir.path());
    config.net.client_port = None;
    let server = zebu_server::Server::start(config, Vec::new()).unwrap();
    assert_eq!(server.port(), None);
    let stop = server.stopper();
    stop();
    server.wait().unwrap();
    // The handle that can stop the server keeps none of its resources.
    Running::on(dir.path(), &[]);
    stop();
}

/// MIS-18.
#[test]
fn a_dropped_server_gives_its_port_and_directory_back() {
    let dir = tempfile::tempdir().unwrap();
    let server =
        zebu_server::Server::start(zebu_server::config::Config::embedded(dir.path()), Vec::new())
            .unwrap();
    let port = server.port().unwrap();
    assert_eq!(Client::new(port).get("/missing").unwrap_err(), err::NO_NODE);
    drop(server);
    let port = format!("clientPort={port}");
    Running::on(dir.path(), &[&port]).client().create("/n", b"").unwrap();
}

#[test]
fn who_asks_for_much_at_once_and_reads_late_gets_all_of_it() {
    const ROUNDS: i32 = 100;
    const BYTES: usize = 3_000_000;
    let running = Running::new(&["-Djute.maxbuffer=4000000", "maxSessionTimeout=1000000"]);
    let mut client = patient(&running);
    client.create("/large", &vec![b'x'; BYTES]).unwrap();
    // After a write, a read waits in the server, and is answered whether the client reads or not.
    let mut xids = Vec::new();
    for _ in 0..ROUNDS {
        xids.push(client.post(op::DELETE, &Writer::new().string("/none").int(-1)));
        xids.push(client.post(op::GET_DATA, &Writer::new().string("/large").bool(false)));
    }
    // The server serves other clients while answers wait.
    let mut other = running.client();
    for _ in 0..20 {
        other.set("/large", &vec![b'y'; BYTES]).unwrap();
    }
    for xid in xids {
        assert_eq!(client.reply().unwrap().xid, xid);
    }
}
