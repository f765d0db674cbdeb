//! Clients that request more than they read.

use zebu_testkit::connection::Reply;
use zebu_testkit::wire::{Writer, frame, op};

use crate::{MIB, SLACK_BYTES, Target};

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn answers_that_nobody_reads_are_not_made() {
    const ANSWERS: i32 = 200;
    const DATA_BYTES: usize = 900_000;
    let mut target = Target::new();
    target.neighbour.create("/large", &vec![b'x'; DATA_BYTES], 0).unwrap();
    let mut reader = target.open();
    let requests: Vec<u8> = (0..ANSWERS)
        .flat_map(|xid| {
            let read = Writer::request(xid, op::GET_DATA).string("/large").bool(false);
            frame(&read.done())
        })
        .collect();
    reader.send_bytes(&requests).unwrap();
    for _ in 0..20 {
        target.serves();
    }
    target.assert_growth_below(SLACK_BYTES + 8 * MIB);
    // Nothing is lost, and the order is kept.
    for xid in 0..ANSWERS {
        let payload = reader.frame().unwrap_or_else(|e| panic!("{xid}: {e}"));
        let reply = Reply::parse(&payload).unwrap();
        assert_eq!((reply.xid, reply.err), (xid, 0));
        assert!(reply.body.len() > DATA_BYTES);
    }
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn queued_reads_are_not_made_either() {
    // Reads after a write of the same connection wait for it.
    const ROUNDS: i32 = 100;
    let mut target = Target::new();
    target.neighbour.create("/large", &vec![b'x'; 900_000], 0).unwrap();
    let mut reader = target.open();
    let mut requests = Vec::new();
    for round in 0..ROUNDS {
        let write = Writer::request(2 * round, op::DELETE).string("/none").int(-1).done();
        let read = Writer::request(2 * round + 1, op::GET_DATA).string("/large").bool(false);
        requests.extend(frame(&write));
        requests.extend(frame(&read.done()));
    }
    reader.send_bytes(&requests).unwrap();
    for _ in 0..20 {
        target.serves();
    }
    // Each request that may wait has one answer.
    target.assert_growth_below(SLACK_BYTES + 80 * MIB);
    for xid in 0..2 * ROUNDS {
        let payload = reader.frame().unwrap_or_else(|e| panic!("{xid}: {e}"));
        assert_eq!(Reply::parse(&payload).unwrap().xid, xid);
    }
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn a_watcher_that_does_not_read_is_closed() {
    let mut target = Target::new();
    let path = format!("/{}", "p".repeat(500_000));
    target.neighbour.create(&path, b"", 0).unwrap();
    let mut watcher = target.session();
    watcher.expect(op::ADD_WATCH, Writer::new().string("/").int(1)).unwrap();
    let closed = |target: &Target| {
        let count = target.server.monitor("zk_watch_count").unwrap();
        count == "0"
    };
    let mut written = 0_u64;
    while !closed(&target) {
        assert!(written < 400, "notifications pile up");
        for _ in 0..10 {
            let write = Writer::new().string(&path).string("x").int(-1);
            target.neighbour.expect(op::SET_DATA, write).unwrap();
            written += 1;
        }
    }
    // 64 MiB may wait, and as much again may be allocated for it.
    assert!(written * 500_000 > 64 * MIB, "closed too early: {written}");
    target.assert_growth_below(SLACK_BYTES + 200 * MIB);
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn many_children_are_listed_for_those_who_read() {
    let mut target = Target::new();
    for at in 0..20_000 {
        let path = format!("/{at:0>20}");
        let create = Writer::request(at, op::CREATE)
            .string(&path)
            .optional_buffer(None)
            .acl(&zebu_testkit::wire::open_acl())
            .int(0);
        target.neighbour.connection.send(&create.done()).unwrap();
    }
    for _ in 0..20_000 {
        target.neighbour.connection.frame().unwrap();
    }
    let before = target.growth_bytes();
    let mut reader = target.open();
    for xid in 0..500 {
        let list = Writer::request(xid, op::GET_CHILDREN2).string("/").bool(false);
        reader.send(&list.done()).unwrap();
    }
    for _ in 0..20 {
        target.serves();
    }
    target.assert_growth_below(before + SLACK_BYTES + 8 * MIB);
}
