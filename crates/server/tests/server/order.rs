//! The order of answers and notifications, and progress for all clients.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use zebu_testkit::wire::{Reader, Writer, err, op, set_data};

use crate::client::Client;
use crate::running::Running;

fn read(path: &str) -> Writer {
    Writer::new().string(path).bool(false)
}

/// ORD-04, PIP-10.
#[test]
fn mixed_reads_and_writes_are_answered_in_order_and_see_what_came_before() {
    let running = Running::new(&[]);
    let mut client = running.client();
    client.create("/n", b"0").unwrap();
    let mut expected = Vec::new();
    for round in 1..=300 {
        let text = round.to_string();
        expected.push((client.post(op::SET_DATA, &set_data("/n", text.as_bytes())), None));
        expected.push((client.post(op::GET_DATA, &read("/n")), Some(text.clone())));
        expected.push((client.post(op::EXISTS, &read("/missing")), None));
        expected.push((client.post(op::SYNC, &Writer::new().string("/n")), None));
    }
    let mut zxid = 0;
    for (xid, data) in expected {
        let reply = client.reply().unwrap();
        assert_eq!(reply.xid, xid);
        assert!(zxid <= reply.zxid, "zxids never go back");
        zxid = reply.zxid;
        if let Some(data) = data {
            assert_eq!(Reader::new(&reply.body).string().unwrap(), data);
        }
    }
}

/// WAT-15.
#[test]
fn a_notification_comes_before_the_reply_to_the_write_that_caused_it() {
    let running = Running::new(&[]);
    let mut client = running.client();
    client.create("/n", b"").unwrap();
    for round in 0..50 {
        client.watch("/n");
        let replies = client.replies;
        client.set("/n", format!("{round}").as_bytes()).unwrap();
        let (event, before) = client.events.pop_front().expect("it came with the reply");
        assert_eq!((event.kind, event.path.as_str(), before), (3, "/n", replies));
    }
}

/// WAT-14: one client changes two znodes in turn; no other client may see the second change before
/// it is notified of the first.
#[test]
fn no_read_shows_what_follows_a_change_before_its_notification() {
    let running = Running::new(&[]);
    let mut writer = running.client();
    writer.create("/first", b"0").unwrap();
    writer.create("/second", b"0").unwrap();
    let round = AtomicU32::new(0);
    const ROUNDS: u32 = 150;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = running.client();
                let mut seen = 0;
                while seen < ROUNDS {
                    client.watch("/first");
                    let number = |bytes: Vec<u8>| -> u32 {
                        String::from_utf8(bytes).unwrap().parse().unwrap()
                    };
                    let before = number(client.get("/first").unwrap().0);
                    while number(client.get("/second").unwrap().0) <= before.max(seen) {
                        if round.load(Ordering::Acquire) >= ROUNDS {
                            return;
                        }
                    }
                    // The second znode was changed after the first, which has the watch.
                    let told = client.events.iter().any(|(event, _)| event.path == "/first");
                    assert!(told, "the change of the first is visible and was not announced");
                    client.events.clear();
                    seen = before;
                }
            });
        }
        for number in 1..=ROUNDS {
            let data = number.to_string();
            writer.set("/first", data.as_bytes()).unwrap();
            writer.set("/second", data.as_bytes()).unwrap();
        }
        round.store(ROUNDS, Ordering::Release);
    });
}

#[test]
fn everything_sent_before_the_connect_response_is_answered_after_it() {
    let running = Running::new(&[]);
    let mut raw = running.raw();
    let mut bytes = Writer::new().buffer(&zebu_testkit::connection::Hello::default().bytes());
    for xid in 1..=100 {
        let path = format!("/early-{xid}");
        let create = zebu_testkit::wire::create(&path, b"x", zebu_testkit::wire::OPEN, 0);
        bytes = bytes.buffer(Writer::new().int(xid).int(op::CREATE).raw(create.bytes()).bytes());
    }
    raw.send_raw(bytes.bytes());
    let mut client = Client::welcome(raw).unwrap();
    for xid in 1..=100 {
        let reply = client.reply().unwrap();
        assert_eq!((reply.xid, reply.err), (xid, 0));
    }
}

/// The tree is always locked before an outbox. An auth packet before a read must not reverse that
/// order while a notification for the same connection is on its way.
#[test]
fn auth_and_reads_in_one_go_while_watches_fire() {
    let running = Running::new(&[]);
    let mut writer = running.client();
    writer.create("/n", b"").unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = running.client();
                let auth = Writer::new().int(0).string("digest").string("u:p");
                while !done.load(Ordering::Relaxed) {
                    // One write to the socket, so that one run takes all of it.
                    let mut bytes = Writer::new();
                    for _ in 0..20 {
                        let packet = Writer::new().int(-4).int(op::AUTH).raw(auth.bytes());
                        let get = Writer::new().int(7).int(op::GET_DATA).string("/n").bool(true);
                        bytes = bytes.buffer(packet.bytes()).buffer(get.bytes());
                    }
                    client.raw.send_raw(bytes.bytes());
                    for _ in 0..40 {
                        assert_eq!(client.reply().unwrap().err, err::OK);
                    }
                }
            });
        }
        for round in 0..1000 {
            writer.set("/n", format!("{round}").as_bytes()).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn many_reads_behind_a_write_are_all_answered() {
    let running = Running::new(&[]);
    let mut client = running.client();
    let data = vec![7; 200_000];
    client.create("/big", &data).unwrap();
    client.post(op::SET_DATA, &set_data("/big", &data));
    let reads: Vec<i32> = (0..500).map(|_| client.post(op::GET_DATA, &read("/big"))).collect();
    assert_eq!(client.reply().unwrap().err, err::OK);
    for xid in reads {
        let reply = client.reply().expect("who reads slowly but reads is not cut off");
        assert_eq!(
            (reply.xid, Reader::new(&reply.body).buffer().unwrap().len()),
            (xid, data.len())
        );
    }
}

#[test]
fn sync_is_answered_behind_what_came_before() {
    let running = Running::new(&[]);
    let mut client = running.client();
    client.create("/n", b"").unwrap();
    client.post(op::SET_DATA, &set_data("/n", b"x"));
    let sync = client.post(op::SYNC, &Writer::new().string("not even a path"));
    assert_eq!(client.reply().unwrap().err, 0);
    let reply = client.reply().unwrap();
    assert_eq!((reply.xid, reply.err), (sync, 0));
    assert_eq!(Reader::new(&reply.body).string().unwrap(), "not even a path");
    let null = client.call(op::SYNC, &Writer::new().int(-1));
    assert_eq!((null.err, Reader::new(&null.body).int().unwrap()), (0, -1));
}
