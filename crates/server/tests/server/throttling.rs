//! Throttling: the server's reaction to more requests and connections than its limits allow.

use zebu_testkit::connection::Hello;
use zebu_testkit::wire::{OPEN, Reader, Writer, create, err, op, set_data};

use crate::client::{Client, NoSession};
use crate::gate::{Gate, Keeper};
use crate::running::{Running, wait};

/// Waits until the server has run for this many more milliseconds.
fn pass(running: &Running, ms: f64) {
    let now = running.metric("uptime").unwrap();
    running.wait_metric("uptime", |uptime| uptime > now + ms);
}

/// The connection of a client ends while a request of it waits. Then the gate opens.
fn vanish_waiting(running: &Running, keeper: &mut Keeper) {
    let mut client = running.client();
    client.create("/n", b"before").unwrap();
    keeper.close();
    client.post(op::SET_DATA, &set_data("/n", b"after"));
    running.wait_metric("outstanding_requests", |n| n == 2.0);
    client.vanish();
    running.wait_metric("num_alive_connections", |n| n == 2.0);
    keeper.open();
}

#[test]
fn requests_above_request_throttle_max_requests_wait_for_the_others_and_keep_their_order() {
    let running = Running::new(&[
        "-Dzookeeper.flushDelay=20",
        "-Dzookeeper.request_throttle_max_requests=1",
        "-Dzookeeper.request_throttle_stall_time=5",
    ]);
    let mut client = running.client();
    client.create("/n", b"").unwrap();
    let xids: Vec<i32> = (0..10).map(|_| client.post(op::SET_DATA, &set_data("/n", b""))).collect();
    for (xid, version) in xids.into_iter().zip(1..) {
        let reply = client.reply().unwrap();
        assert_eq!((reply.xid, reply.err), (xid, 0));
        assert_eq!(Reader::new(&reply.body).stat().unwrap().version, version);
    }
    assert!(running.metric("request_throttle_wait_count").unwrap() >= 9.0);
    assert!(running.metric("max_request_throttle_queue_time_ms").unwrap() > 0.0);
    assert_eq!(running.metric("stale_requests_dropped"), Some(0.0));
}

#[test]
fn a_waiting_request_of_a_connection_that_is_gone_is_dropped_unless_configured_otherwise() {
    for (setting, stale, dropped) in [
        ("request_throttle_max_requests=1", 0.0, 1.0),
        ("request_throttle_drop_stale=false", 1.0, 0.0),
        ("request_stale_connection_check=false", 0.0, 0.0),
    ] {
        let (running, mut keeper) = Gate::server(&["request_throttle_max_requests=1", setting]);
        vanish_waiting(&running, &mut keeper);
        running.wait_metric("outstanding_requests", |n| n == 0.0);
        assert_eq!(running.metric("stale_requests_dropped"), Some(dropped), "{setting}");
        assert_eq!(running.metric("stale_requests"), Some(stale), "{setting}");
        let expected: &[u8] = if dropped > 0.0 { b"before" } else { b"after" };
        assert_eq!(running.client().get("/n").unwrap().0, expected, "{setting}");
    }
}

#[test]
fn a_request_that_waited_longer_than_its_session_may_is_dropped_with_its_connection() {
    for (setting, dropped) in
        [("request_stale_latency_check=true", 1.0), ("request_stale_latency_check=false", 0.0)]
    {
        let (running, mut keeper) = Gate::server(&["request_throttle_max_requests=1", setting]);
        let mut client = Client::hello(running.port, &Hello::timeout(3_000)).unwrap();
        keeper.close();
        client.post(op::SYNC, &Writer::new().string("/"));
        running.wait_metric("outstanding_requests", |n| n == 2.0);
        // The client sends all the time, so its session does not expire.
        let now = running.metric("uptime").unwrap();
        while running.metric("uptime").unwrap() < now + 3_010.0 {
            client.post_as(-2, op::PING, &Writer::new());
        }
        keeper.open();
        running.wait_metric("outstanding_requests", |n| n == 0.0);
        assert_eq!(client.reply().is_none(), dropped > 0.0, "{setting}");
        assert_eq!(running.metric("stale_requests_dropped"), Some(dropped), "{setting}");
    }
}

#[test]
fn requests_nobody_waits_for_are_counted_without_a_throttle_too() {
    let (running, mut keeper) = Gate::server(&[]);
    vanish_waiting(&running, &mut keeper);
    running.wait_metric("stale_requests", |n| n == 1.0);
    running.wait_metric("stale_replies", |n| n == 1.0);
    assert_eq!(running.client().get("/n").unwrap().0, b"after");
}

#[test]
fn a_request_that_waited_longer_than_throttled_op_wait_time_is_refused() {
    for (setting, expected) in [
        ("throttled_op_wait_time=4000", [err::THROTTLED, err::OK]),
        ("throttled_op_wait_time=0", [err::OK, err::OK]),
    ] {
        let (running, mut keeper) = Gate::server(&[setting]);
        let mut client = running.client();
        client.create("/n", b"").unwrap();
        keeper.close();
        client.post(op::SET_DATA, &set_data("/n", b"x"));
        client.post_as(-2, op::PING, &Writer::new());
        running.wait_metric("outstanding_requests", |n| n == 3.0);
        pass(&running, 4_000.0);
        keeper.open();
        let errors = [0, 1].map(|_| client.reply().unwrap().err);
        assert_eq!(errors, expected, "a ping is answered however long it took");
        let refused = expected.iter().filter(|code| **code != err::OK).count();
        assert_eq!(running.metric("throttled_ops"), Some(refused as f64));
    }
}

#[test]
fn the_connection_throttle_lets_in_as_many_as_it_has_tokens() {
    let running =
        Running::new(&["connection_throttle_tokens=2", "connection_throttle_fill_time=100000000"]);
    let _clients = [running.client(), running.client()];
    let third = Client::hello(running.port, &Hello::default()).map(|_| ());
    assert_eq!(third, Err(NoSession::Closed));
    assert_eq!(running.metric("connection_rejected"), Some(1.0));
    assert_eq!(running.metric("connection_request_count"), Some(2.0));
    assert_eq!(running.metric("max_connection_token_deficit"), Some(2.0));
    assert_eq!(running.metric("connection_drop_probability"), Some(0.0));
}

#[test]
fn tokens_come_back() {
    let running = Running::new(&[
        "connection_throttle_tokens=1",
        "connection_throttle_fill_time=50",
        "connection_throttle_fill_count=1",
    ]);
    running.client();
    wait("a token", || Client::hello(running.port, &Hello::default()).is_ok());
}

#[test]
fn weights_make_new_sessions_dearer_than_renewed_ones() {
    let never = "connection_throttle_fill_time=100000000";
    let weighted = "connection_throttle_weight_enabled=true";
    let running = Running::new(&[
        "connection_throttle_tokens=1",
        never,
        weighted,
        "connection_throttle_global_session_weight=4",
    ]);
    running.client();
    assert_eq!(running.metric("max_connection_token_deficit"), Some(4.0));

    // Two new sessions of three tokens each, or one of them and three renewals.
    let running = Running::new(&[
        "connection_throttle_tokens=2",
        never,
        weighted,
        "connection_throttle_renew_session_weight=1",
    ]);
    let client = running.client();
    let renewed = [0; 4].map(|_| Client::hello(running.port, &client.renewal()).is_ok());
    assert_eq!(renewed, [true, true, true, false]);
    assert_eq!(running.metric("connection_revalidate_count"), Some(3.0));
}

#[test]
fn an_empty_bucket_makes_random_drops_likelier_and_a_full_one_rarer() {
    let running = Running::new(&[
        "connection_throttle_tokens=1",
        "connection_throttle_fill_time=500",
        "connection_throttle_freeze_time=0",
        "connection_throttle_drop_increase=1",
        "connection_throttle_drop_decrease=1",
    ]);
    let hello = || Client::hello(running.port, &Hello::default()).is_ok();
    wait("somebody is kept out", || !hello());
    running.wait_metric("connection_drop_probability", |n| n == 1.0);
    wait("somebody is let in again", hello);
    running.wait_metric("connection_drop_probability", |n| n == 0.0);
}

#[test]
fn nothing_more_is_read_above_the_outstanding_limits_but_one_of_each() {
    for (setting, bytes, from_one) in
        [("globalOutstandingLimit=1", 10, 1), ("zebu.globalOutstandingBytes=3000", 2000, 2)]
    {
        let (running, mut keeper) = Gate::server(&[setting]);
        let (mut client, mut other) = (running.client(), running.client());
        client.create("/n", b"").unwrap();
        keeper.close();
        let write = set_data("/n", &vec![0; bytes]);
        (0..20).for_each(|_| {
            client.post(op::SET_DATA, &write);
        });
        // The keeper's own write is one of these.
        let most = f64::from(1 + from_one);
        running.wait_metric("outstanding_requests", |n| n >= most);
        other.post(op::SET_DATA, &write);
        running.wait_metric("outstanding_requests", |n| n > most);
        assert_eq!(running.metric("outstanding_requests"), Some(most + 1.0), "{setting}");
        keeper.open();
        for _ in 0..20 {
            assert_eq!(client.reply().unwrap().err, 0);
        }
        assert_eq!(other.reply().unwrap().err, 0);
        running.wait_metric("outstanding_requests", |n| n == 0.0);
    }
}

#[test]
fn large_requests_have_a_limit_of_their_own() {
    let (running, mut keeper) =
        Gate::server(&["largeRequestThreshold=1000", "largeRequestMaxBytes=2500"]);
    let mut clients = [0; 4].map(|_| running.client());
    clients[0].create("/n", b"").unwrap();
    keeper.close();
    let large = set_data("/n", &[0; 1150]);
    clients[0].post(op::SET_DATA, &large);
    clients[1].post(op::SET_DATA, &large);
    running.wait_metric("outstanding_requests", |n| n == 3.0);
    clients[2].post(op::SET_DATA, &large);
    assert!(clients[2].reply().is_none(), "there is no room for a third one");
    clients[3].post(op::SET_DATA, &set_data("/n", &[0; 900]));
    running.wait_metric("outstanding_requests", |n| n == 4.0);
    keeper.open();
    for client in [0, 1, 3] {
        assert_eq!(clients[client].reply().unwrap().err, 0);
    }
    assert_eq!(running.metric("large_requests_rejected"), Some(1.0));
    clients[3].set("/n", &[0; 1150]).expect("there is room again");
}

#[test]
fn what_waits_is_finished_at_the_stop_within_the_shutdown_timeout() {
    for (timeout, finished) in [("60000", true), ("0", false)] {
        let running = Running::new(&[
            "-Dzookeeper.flushDelay=100",
            "-Dzookeeper.maxWriteQueuePollTime=100",
            "request_throttle_max_requests=1",
            "request_stale_connection_check=false",
            &format!("request_throttler.shutdownTimeout={timeout}"),
        ]);
        let mut client = running.client();
        for path in ["/a", "/b", "/c"] {
            client.post(op::CREATE, &create(path, b"", OPEN, 0));
        }
        running.wait_metric("packets_received", |n| n >= 4.0);
        let running = running.restart(&[]);
        assert_eq!(running.client().exists("/c"), finished);
    }
}
