//! Each metric that `mntr` shows changes when the event that it counts happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zebu_proto::txn::{DIGEST_VERSION, Txn, TxnDigest, TxnHeader, TxnRecord};
use zebu_proto::{OpCode, SessionId, Zxid};
use zebu_server::metrics::Metrics;
use zebu_store::{Nothing, Options, OsVfs, Store};
use zebu_testkit::connection::Hello;
use zebu_testkit::wire::{OPEN, Writer, create, multi, op, set_data};

use crate::admin;
use crate::client::{Client, Raw};
use crate::gate::Gate;
use crate::members::{Three, client_of, deserted, ensemble};
use crate::outside::{self, Program};
use crate::rejoin::with_another_tree;
use crate::restoring;
use crate::running::Running;
use crate::storage::rot;
use crate::tls;

/// All numbers that `mntr` shows.
fn monitor(running: &Running) -> BTreeMap<String, f64> {
    let text = running.word("mntr");
    let line = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        Some((name.strip_prefix("zk_")?.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The metrics of a server that differ from their values at the start.
fn moved(running: &Running, moved: &mut BTreeSet<&'static str>) {
    let shown = monitor(running);
    for name in Metrics::NAMES {
        let counts = |(key, value): (&String, &f64)| {
            let key = key.strip_prefix("cnt_").unwrap_or(key);
            // Sets have the namespace at the beginning of their names.
            let is_it = key == *name || key.ends_with(&format!("_{name}"));
            is_it && *value > 0.0
        };
        if shown.iter().any(counts) {
            moved.insert(name);
        }
    }
}

/// One request of every kind.
fn ask_everything(client: &mut Client) {
    let path = |path| Writer::new().string(path);
    let reads = [
        (op::GET_DATA, path("/n").bool(true)),
        (op::EXISTS, path("/n").bool(true)),
        (op::GET_CHILDREN, path("/n").bool(true)),
        (op::GET_CHILDREN2, path("/n").bool(true)),
        (op::GET_ACL, path("/n")),
        (op::GET_ALL_CHILDREN_NUMBER, path("/n")),
        (op::GET_EPHEMERALS, path("/")),
        (op::MULTI_READ, multi(&[(op::GET_DATA, path("/n").bool(false))])),
        (op::ADD_WATCH, path("/n").int(1)),
        (op::SET_WATCHES, Writer::new().long(1 << 40).strings(&["/n"]).int(0).int(0)),
        (op::SYNC, path("/n")),
        (op::WHO_AM_I, Writer::new()),
    ];
    client.create("/n", b"data").unwrap();
    client.watch("/made");
    for (op, body) in reads {
        assert_eq!(client.call(op, &body).err, 0, "{op}");
    }
    client.ping();
    let writes = [
        (op::CREATE, create("/made", b"", OPEN, 0)),
        (op::CREATE2, create("/n/child", b"", OPEN, 0)),
        (op::SET_DATA, set_data("/n", b"x")),
        (op::SET_ACL, path("/n").acl(OPEN).int(-1)),
        (op::DELETE, path("/made").int(-1)),
        (op::MULTI, multi(&[(op::CHECK, path("/n").int(1))])),
    ];
    for (op, body) in writes {
        if op == op::DELETE {
            client.watch("/made");
        }
        assert_eq!(client.call(op, &body).err, 0, "{op}");
    }
    for op in [op::CHECK_WATCHES, op::REMOVE_WATCHES] {
        client.call(op, &path("/n").int(3));
    }
    client.call(op::RECONFIG, &Writer::new().int(-1).int(-1).int(-1).long(-1));
}

#[test]
fn every_metric_moves() {
    let mut all = BTreeSet::new();
    a_normal_run(&mut all);
    handshakes(&mut all);
    enforced_authentication(&mut all);
    authentication(&mut all);
    outside_program(&mut all);
    strict_authentication(&mut all);
    lost_audit_events(&mut all);
    overload(&mut all);
    waiting_requests(&mut all);
    too_many_ephemerals(&mut all);
    faulty_disk(&mut all);
    damage(&mut all);
    limited_snapshots(&mut all);
    plain_requests(&mut all);
    members(&mut all);
    tls_without_leader(&mut all);
    lost_supporter(&mut all);
    another_tree(&mut all);
    let still: Vec<_> = Metrics::NAMES.iter().filter(|name| !all.contains(*name)).collect();
    assert_eq!(still, [""; 0].iter().collect::<Vec<_>>(), "nothing moves these");
}

/// A normal run of a server.
fn a_normal_run(all: &mut BTreeSet<&'static str>) {
    let running = Running::new(&["nio.sessionlessCnxnTimeout=3000", "enforceQuota=true"]);
    let mut client = running.client();
    ask_everything(&mut client);
    for (path, data) in [
        ("/zookeeper/quota/n", ""),
        (
            "/zookeeper/quota/n/zookeeper_limits",
            "count=-1,bytes=-1=;byteHardLimit=1;countHardLimit=1",
        ),
        ("/zookeeper/quota/n/zookeeper_stats", "count=0,bytes=0"),
    ] {
        client.create(path, data.as_bytes()).unwrap();
    }
    client.create("/n/too-many", b"").unwrap_err();
    Client::hello(running.port, &client.renewal()).unwrap().close();
    let _handshake = running.raw();
    Client::hello(running.port, &Hello::timeout(400)).unwrap().vanish();
    running.wait_metric("stale_sessions_expired", |n| n == 1.0);
    running.wait_metric("sessionless_connections_expired", |n| n > 0.0);
    moved(&running, all);
}

/// TLS handshakes.
fn handshakes(all: &mut BTreeSet<&'static str>) {
    let secure = tls::start(&["netty.server.outstandingHandshake.limit=1"]);
    let [first, second] = [(); 2].map(|()| Raw::open(secure.port));
    secure.running.wait_metric("tls_handshake_exceeded", |n| n == 1.0);
    drop((first, second));
    secure.running.wait_metric("unsuccessful_handshake", |n| n == 1.0);
    moved(&secure.running, all);
}

/// A client that must authenticate, and does not.
fn enforced_authentication(all: &mut BTreeSet<&'static str>) {
    let running = Running::new(&[
        "enforce.auth.enabled=true",
        "enforce.auth.schemes=digest",
        "nio.sessionlessCnxnTimeout=500",
    ]);
    drop(running.client().reply());
    moved(&running, all);
}

/// The scheme that compares names of ensembles.
fn authentication(all: &mut BTreeSet<&'static str>) {
    let running = Running::new(&[
        "authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider",
        "ensembleAuthName=one",
    ]);
    for name in ["one", "", "two"] {
        running.client().auth("ensemble", name);
    }
    running.wait_metric("ensemble_auth_fail", |n| n == 1.0);
    moved(&running, all);
}

/// A program that decides about clients.
fn outside_program(all: &mut BTreeSet<&'static str>) {
    let program = Program::listening();
    let running = program.server(&[outside::PATIENT]);
    let mut client = running.client();
    outside::claim(&mut client, "amy");
    let mut talk = program.accept();
    for result in [r#""ok","ids":["amy"]"#, r#""refused""#, r#""unknown""#] {
        let id = talk.question()["id"].clone();
        talk.say(&format!(r#"{{"version":1,"id":{id},"result":{result}}}"#));
        drop(client.reply());
        client = running.client();
        outside::claim(&mut client, "bob");
    }
    moved(&running, all);
}

/// Limits of failures and of connections.
fn strict_authentication(all: &mut BTreeSet<&'static str>) {
    let strict = ["zebu.authFailuresPerMinute=1", "zebu.maxConnectionsPerIdentity=1"];
    let running = Running::new(&strict);
    let mut first = running.client();
    for mut client in [running.client(), running.client()] {
        first.auth("digest", "amy:pw");
        client.auth("digest", "amy:pw");
        client = running.client();
        client.auth("nothing", "");
    }
    moved(&running, all);
}

/// A full disk for the audit log.
fn lost_audit_events(all: &mut BTreeSet<&'static str>) {
    let full = Running::new(&["audit.enable=true", "-Dzookeeper.auditlog.file=/dev/full"]);
    full.client().create("/n", b"").unwrap();
    full.wait_metric("audit_events_lost", |n| n > 0.0);
    moved(&full, all);
}

/// Overload.
fn overload(all: &mut BTreeSet<&'static str>) {
    let (running, mut keeper) = Gate::server(&[
        "request_throttle_max_requests=1",
        "largeRequestThreshold=1000",
        "largeRequestMaxBytes=2000",
        "connection_throttle_tokens=3",
        "connection_throttle_fill_time=100000000",
    ]);
    let (mut slow, mut large) = (running.client(), running.client());
    Client::hello(running.port, &Hello::default()).map(|_| ()).unwrap_err();
    keeper.close();
    slow.post(op::SYNC, &Writer::new().string("/"));
    large.post(op::SET_DATA, &set_data("/n", &[0; 1500]));
    running.wait_metric("outstanding_requests", |n| n == 3.0);
    large.post(op::SET_DATA, &set_data("/n", &[0; 1500]));
    assert!(large.reply().is_none());
    slow.vanish();
    running.wait_metric("num_alive_connections", |n| n == 2.0);
    keeper.open();
    running.wait_metric("stale_requests_dropped", |n| n == 2.0);
    moved(&running, all);
}

/// Requests without throttling and without waiting.
fn waiting_requests(all: &mut BTreeSet<&'static str>) {
    let (running, mut keeper) = Gate::server(&["throttled_op_wait_time=4000"]);
    let (mut gone, mut late) = (running.client(), running.client());
    keeper.close();
    gone.post(op::SYNC, &Writer::new().string("/"));
    late.post(op::SYNC, &Writer::new().string("/"));
    running.wait_metric("outstanding_requests", |n| n == 3.0);
    gone.vanish();
    running.wait_metric("num_alive_connections", |n| n == 3.0);
    let now = running.metric("uptime").unwrap();
    running.wait_metric("uptime", |uptime| uptime > now + 4000.0);
    keeper.open();
    late.reply().unwrap();
    moved(&running, all);
}

/// A session that owns as many ephemerals as its closeSession record can list.
fn too_many_ephemerals(all: &mut BTreeSet<&'static str>) {
    let running = Running::new(&["-Djute.maxbuffer=2000"]);
    let mut client = running.client();
    let long = |n| format!("/{n}-{}", "x".repeat(1000));
    let refused = (0..10).any(|n| client.create_with(&long(n), b"", OPEN, 1).is_err());
    assert!(refused);
    moved(&running, all);
}

/// A disk with faults: a digest that differs from the tree's, and no room for snapshots.
fn faulty_disk(all: &mut BTreeSet<&'static str>) {
    let dir = tempfile::tempdir().unwrap();
    let log_dir = dir.path().join("log");
    let log = format!("dataLogDir={}", log_dir.display());
    let mut running = Running::on(&dir.path().join("data"), &[&log]);
    running.client().close();
    running.take().stop().unwrap();
    spoil(&dir.path().join("data"), &log_dir);
    let running = Running::on(&dir.path().join("data"), &[&log, "snapCount=2"]);
    assert_eq!(running.metric("digest_mismatches_count"), Some(1.0));
    std::fs::rename(running.files(), dir.path().join("away")).unwrap();
    let mut client = running.client();
    for n in 0..5 {
        client.create(&format!("/n{n}"), b"").unwrap();
    }
    running.wait_metric("snapshot_error_count", |n| n > 0.0);
    std::fs::rename(dir.path().join("away"), running.files()).unwrap();
    moved(&running, all);
}

/// A file that is damaged while the server runs.
fn damage(all: &mut BTreeSet<&'static str>) {
    let running = Running::new(&["zebu.scrubInterval=50ms"]);
    running.client().close();
    rot(&running.files().join("log.1"));
    running.wait_metric("scrub_damage_count", |n| n > 0.0);
    moved(&running, all);
}

/// More requests for snapshots than the rate limit permits.
fn limited_snapshots(all: &mut BTreeSet<&'static str>) {
    let running = Running::new(&["admin.enableServer=true", "admin.serverPort=0"]);
    let mut taken = Vec::new();
    for status in ["200", "429"] {
        let path = "/commands/snapshot";
        let answer = admin::get(running.admin_port(), path, "Authorization: digest u:p\r\n");
        assert_eq!(answer.status(), status);
        taken.push(answer.body);
    }
    for (snapshot, status) in [(&b"ZKSN"[..], "400"), (&taken[0], "200"), (&taken[0], "429")] {
        assert_eq!(restoring::restore(&running, snapshot).status(), status);
    }
    moved(&running, all);
}

/// A request without TLS at a port with and without TLS.
fn plain_requests(all: &mut BTreeSet<&'static str>) {
    let stores = tempfile::tempdir().unwrap();
    let (key, trust) = (tls::pair("server", stores.path()), tls::fixture("ca.pem"));
    let running = Running::new(&[
        "admin.enableServer=true",
        "admin.serverPort=0",
        "admin.portUnification=true",
        &format!("ssl.quorum.keyStore.location={}", key.display()),
        &format!("ssl.quorum.trustStore.location={}", trust.display()),
    ]);
    assert_eq!(admin::get(running.admin_port(), "/commands/ruok", "").status(), "200");
    moved(&running, all);
}

/// An ensemble: members are synchronized by DIFF and by SNAP.
fn members(all: &mut BTreeSet<&'static str>) {
    for whole in ["forceSnapshotSync=false", "forceSnapshotSync=true"] {
        let (_dir, members) = ensemble(&[whole]);
        client_of(&members[0]).create("/member", b"").unwrap();
        for member in &members {
            assert_eq!(client_of(member).call(op::SYNC, &Writer::new().string("/")).err, 0);
            moved(member, all);
        }
    }
}

/// A client with TLS while there is no leader, and a stranger at a port between servers.
fn tls_without_leader(all: &mut BTreeSet<&'static str>) {
    let stores = tempfile::tempdir().unwrap();
    let (key, trust) = (tls::pair("server", stores.path()), tls::fixture("ca.pem"));
    let three = Three::voters(&[
        "quorumCnxnTimeoutMs=1000",
        "secureClientPort=0",
        &format!("ssl.keyStore.location={}", key.display()),
        &format!("ssl.trustStore.location={}", trust.display()),
        "netty.server.earlyDropSecureConnectionHandshakes=true",
    ]);
    let first = three.start(1);
    assert!(Raw::open(first.server().secure_port().unwrap()).is_closed());
    let members = [first, three.start(2)];
    client_of(&members[0]).close();
    let _silent = Raw::open(three.ports_of(1)[1]);
    members[0].wait_metric("peer_connections_refused", |n| n > 0.0);
    moved(&members[0], all);
}

/// A leader-elect whose supporter leaves it.
fn lost_supporter(all: &mut BTreeSet<&'static str>) {
    let (_dir, members) = deserted();
    assert_eq!(members[1].metric("quit_leading_due_to_disloyal_voter"), Some(1.0));
    moved(&members[1], all);
}

/// A member whose tree differs from its leader's.
fn another_tree(all: &mut BTreeSet<&'static str>) {
    with_another_tree(|member, _| moved(member, all));
}

/// Logs a transaction with a wrong digest.
fn spoil(data: &std::path::Path, log_dir: &std::path::Path) {
    let options = Options { log_dir: log_dir.to_owned(), ..Options::new(data) };
    let mut store = Store::open(Arc::new(OsVfs), options).unwrap();
    let zxid = Zxid(store.recover(&mut Nothing).unwrap().last_zxid.0 + 1);
    let (mut log, _) = store.split();
    let header = TxnHeader { session: SessionId(0), cxid: 0, zxid, time_ms: 0, op: OpCode::DELETE };
    let record = TxnRecord {
        header,
        txn: Txn::Delete { path: "/missing".into() },
        digest: Some(TxnDigest { version: DIGEST_VERSION, tree: 4711 }),
    };
    let mut body = Vec::new();
    record.encode(&mut zebu_jute::Encoder::new(&mut body));
    log.append(zxid, &body);
    log.close().unwrap();
}

#[test]
fn numbers_are_what_was_done() {
    let running = Running::new(&[]);
    let mut client = running.client();
    client.create("/app", b"12345").unwrap();
    client.create("/app/child", b"").unwrap();
    client.set("/app/child", b"1").unwrap();
    client.delete("/app/child").unwrap();
    client.get("/app").unwrap();
    client.get("/missing").unwrap_err();
    assert!(client.exists("/app"));
    client.children("/zookeeper");
    // They are removed after the answer is sent.
    running.wait_metric("outstanding_changes_removed", |n| n == 7.0);
    let shown = monitor(&running);
    for (name, value) in [
        ("op_count_create", 2.0),
        ("op_count_create_session", 1.0),
        ("op_count_set_data", 1.0),
        ("op_count_delete", 1.0),
        ("op_count_get_data", 2.0),
        ("op_count_exists", 1.0),
        ("op_count_get_children", 1.0),
        ("op_count_total", 9.0),
        ("connection_request_count", 1.0),
        ("cnt_updatelatency", 4.0),
        ("cnt_readlatency", 4.0),
        ("sync_processor_request_queued", 5.0),
        ("sum_sync_processor_batch_size", 5.0),
        ("outstanding_changes_queued", 7.0),
        // Paths and data: "/app" with 5 bytes, "/app/child" three times, once with 1.
        ("cnt_app_write_per_namespace", 4.0),
        ("sum_app_write_per_namespace", 9.0 + 10.0 + 11.0 + 10.0),
        // "/app" with its data, and without.
        ("cnt_app_read_per_namespace", 2.0),
        ("sum_app_read_per_namespace", 9.0 + 4.0),
        // "/zookeeper" and the names "config" and "quota".
        ("sum_zookeeper_read_per_namespace", 10.0 + 11.0),
        ("packets_received", 9.0),
        ("packets_sent", 9.0),
        ("last_client_response_size", 16.0 + 4.0 + 4.0 + 6.0 + 4.0 + 5.0),
    ] {
        assert_eq!(shown.get(name), Some(&value), "{name}");
    }
}

#[test]
fn connections_notified_are_counted_by_event_and_znode() {
    let running = Running::new(&[]);
    let mut writer = running.client();
    writer.create("/n", b"").unwrap();
    let mut watchers = [0; 3].map(|_| running.client());
    for watcher in &mut watchers {
        watcher.watch("/n");
        watcher.watch("/missing");
    }
    let ops =
        [(op::SET_DATA, set_data("/n", b"x")), (op::CREATE, create("/missing", b"", OPEN, 0))];
    assert_eq!(writer.call(op::MULTI, &multi(&ops)).err, 0);
    for name in ["node_changed_watch_count", "node_created_watch_count"] {
        assert_eq!(running.metric(&format!("cnt_{name}")), Some(1.0));
        assert_eq!(running.metric(&format!("sum_{name}")), Some(3.0));
    }
    for watcher in &mut watchers {
        assert_eq!([watcher.event().path, watcher.event().path], ["/n", "/missing"]);
    }
}
