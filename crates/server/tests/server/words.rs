//! Four-letter words, asked over the wire.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use zebu_testkit::connection::{Hello, PATIENCE};
use zebu_testkit::wire::{op, set_data};

use crate::gate::Gate;
use crate::members::{Three, client_of, ensemble};
use crate::running::{Running, wait};

#[test]
fn only_listed_words_are_answered_and_srvr_always() {
    let running = Running::new(&["4lw.commands.whitelist=ruok, wchs"]);
    assert_eq!(running.word("ruok"), "imok");
    assert!(running.word("wchs").starts_with("0 connections watching 0 paths\n"));
    let refused = "mntr is not executed because it is not in the whitelist.\n";
    assert_eq!(running.word("mntr"), refused);
    assert!(running.word("srvr").contains("Mode: standalone\n"));
    assert!(running.word("isro").contains("not in the whitelist"));
    assert_eq!(running.word("nope"), "", "a length that no frame has");
    let running = running.restart(&["4lw.commands.whitelist=*"]);
    assert!(running.word("mntr").contains("zk_server_state\tstandalone\n"));
}

#[test]
fn isro_is_answered_where_read_only_mode_is_enabled() {
    let running = Running::new(&["4lw.commands.whitelist=ruok", "-Dreadonlymode.enabled=true"]);
    assert_eq!(running.word("isro"), "rw");
}

/// The process runs. The words `srvr` and `mntr` and the page `/health/ready` say whether it serves
/// clients.
#[test]
fn ruok_is_answered_without_a_quorum() {
    let three = Three::voters(&[]);
    let member = three.start(1);
    assert_eq!(member.word("ruok"), "imok");
    let srvr = member.word("srvr");
    assert!(!srvr.contains("Mode: "), "{srvr}");
}

#[test]
fn requests_that_are_processed_together_are_counted_once() {
    let (running, mut keeper) = Gate::server(&[]);
    let mut client = running.client();
    client.create("/n", b"").unwrap();
    let counts = || {
        ["cnt_prep_process_time", "sum_prep_processor_queue_size", "cnt_sync_process_time"]
            .map(|name| running.metric(name).unwrap())
    };
    let before = counts();
    keeper.close();
    for _ in 0..100 {
        client.post(op::SET_DATA, &set_data("/n", b""));
    }
    running.wait_metric("outstanding_requests", |count| count == 101.0);
    keeper.open();
    running.wait_metric("outstanding_requests", |count| count == 0.0);
    let after = counts();
    let [turns, requests, appends] = [0, 1, 2].map(|at| after[at] - before[at]);
    assert_eq!(requests, 101.0);
    assert!(turns < 10.0 && appends < 10.0, "{turns} turns, {appends} appends");
}

#[test]
fn what_the_words_show_is_what_there_is() {
    let running = Running::new(&[]);
    let mut client = running.client();
    client.ephemeral("/mine");
    client.watch("/mine");
    client.watch("/missing");
    let session = format!("0x{:x}", client.session);
    let srvr = running.word("srvr");
    for line in
        ["Connections: 2", "Zxid: 0x2", "Mode: standalone", "Node count: 6", "Outstanding: 0"]
    {
        assert!(srvr.lines().any(|found| found == line), "{line}: {srvr}");
    }
    assert_eq!(running.word("wchs"), "1 connections watching 2 paths\nTotal watches:2\n");
    let wchp = running.word("wchp");
    assert_eq!(wchp, format!("/mine\n\t{session}\n/missing\n\t{session}\n\n"));
    assert_eq!(running.word("wchc"), format!("{session}\n\t/mine\n\t/missing\n\n"));
    let cons = running.word("cons");
    let mine = cons.lines().find(|line| line.contains(&format!("sid={session}"))).unwrap();
    assert!(mine.contains("lop=EXIS") && mine.contains("to=30000"), "{mine}");
    assert!(mine.contains("recved=4,sent=4"), "{mine}");
    running.word("crst");
    let cons = running.word("cons");
    assert!(cons.contains(&format!("recved=0,sent=0,sid={session}")), "{cons}");
    let conf = running.word("conf");
    assert!(conf.contains(&format!("clientPort={}\n", running.port)), "{conf}");
    assert!(conf.contains("tickTime=200\n") && conf.contains("minSessionTimeout=400\n"));
    let dump = running.word("dump");
    assert!(dump.contains(&format!("\t{session}\n")) && dump.contains("\t/mine\n"), "{dump}");
    assert!(dump.starts_with("SessionTracker dump:\nSession Sets (1)/(1):\n"), "{dump}");
    assert_eq!(running.word("stat").matches(" /127.0.0.1:").count(), 2);
    let envi = running.word("envi");
    assert!(envi.starts_with("Environment:\nzookeeper.version="), "{envi}");
}

#[test]
fn srst_starts_all_counters_again() {
    let running = Running::new(&[]);
    running.client().create("/n", b"").unwrap();
    assert!(running.metric("op_count_create") > Some(0.0));
    assert_eq!(running.word("srst"), "Server stats reset.\n");
    assert_eq!(running.metric("op_count_create"), Some(0.0));
    assert_eq!(running.metric("packets_received"), Some(0.0));
    assert!(running.metric("znode_count") > Some(0.0), "what is there is still there");
}

#[test]
fn quotas_of_one_namespace_are_added_up() {
    let running = Running::new(&[]);
    let mut client = running.client();
    for (path, data) in [
        ("/app", ""),
        ("/app/a", "12345"),
        ("/app/b", "123"),
        ("/zookeeper/quota/app", ""),
        ("/zookeeper/quota/app/a", ""),
        ("/zookeeper/quota/app/a/zookeeper_limits", "count=10,bytes=-1"),
        ("/zookeeper/quota/app/a/zookeeper_stats", "count=1,bytes=5"),
        ("/zookeeper/quota/app/b", ""),
        ("/zookeeper/quota/app/b/zookeeper_limits", "count=7,bytes=200=;countHardLimit=5"),
        ("/zookeeper/quota/app/b/zookeeper_stats", "count=1,bytes=3"),
    ] {
        client.create(path, data.as_bytes()).unwrap();
    }
    let mntr = running.word("mntr");
    let quotas: Vec<&str> = mntr.lines().filter(|line| line.starts_with("zk_app_quota_")).collect();
    assert_eq!(
        quotas,
        [
            "zk_app_quota_count_limit_per_namespace\t15",
            // One of them has no such limit.
            "zk_app_quota_bytes_limit_per_namespace\t200",
            "zk_app_quota_count_usage_per_namespace\t2",
            "zk_app_quota_bytes_usage_per_namespace\t8",
        ]
    );
}

#[test]
fn slow_syncs_are_counted() {
    let running = Running::new(&["fsync.warningthresholdms=0"]);
    running.client().create("/n", b"").unwrap();
    running.wait_metric("fsync_threshold_exceed_count", |count| count >= 1.0);
    running.word("srst");
    assert_eq!(running.metric("fsync_threshold_exceed_count"), Some(0.0));
}

#[test]
fn the_trace_mask_is_kept() {
    let running = Running::new(&[]);
    assert_eq!(running.word("gtmk"), "306");
    let mut raw = running.raw();
    raw.send_raw(b"stmk");
    raw.send_raw(&7_i64.to_be_bytes());
    assert_eq!(raw.rest(), b"7");
    assert_eq!(running.word("gtmk"), "7");
}

#[test]
fn a_word_that_is_not_allowed_is_refused_without_its_argument() {
    let running = Running::new(&["4lw.commands.whitelist=stat"]);
    let mut raw = running.raw();
    raw.send_raw(b"stmk");
    assert_eq!(raw.rest(), b"stmk is not executed because it is not in the whitelist.\n");
}

#[test]
fn a_word_may_come_in_pieces_and_telnet_may_give_up() {
    let running = Running::new(&[]);
    let mut raw = running.raw();
    for byte in b"ruok" {
        raw.send_raw(&[*byte]);
    }
    assert_eq!(raw.rest(), b"imok");
    let mut raw = running.raw();
    raw.send_raw(&[0xff, 0xf4, 0xff, 0xfd]);
    assert_eq!(raw.rest(), b"");
}

#[test]
fn a_word_inside_a_session_is_no_word() {
    let running = Running::new(&[]);
    let mut client = crate::client::Client::hello(running.port, &Hello::default()).unwrap();
    client.raw.send_raw(b"ruok");
    assert!(client.raw.is_closed(), "it is the length of a frame, and far too long");
    assert_eq!(running.client().call(op::PING, &zebu_testkit::wire::Writer::new()).err, 0);
}

#[test]
fn a_word_is_answered_by_a_server_that_stopped_serving_meanwhile() {
    let (_dir, mut members) = ensemble(&[]);
    let leads = |member: &Running| member.word("srvr").contains("Mode: leader");
    let leader = members.iter().position(leads).expect("one of two voters leads");
    let follower = members.remove(1 - leader);
    let mut client = client_of(&follower);
    let mut monitor = TcpStream::connect((Ipv4Addr::LOCALHOST, follower.port)).unwrap();
    monitor.set_read_timeout(Some(PATIENCE)).unwrap();
    // Both connections are accepted before the follower loses its leader.
    wait("both connections", || follower.word("srvr").contains("Connections: 3\n"));
    drop(members);
    assert!(client.raw.is_closed(), "clients are sent away");
    monitor.write_all(b"srvr").unwrap();
    let mut answer = String::new();
    monitor.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("not currently serving"), "{answer}");
}
