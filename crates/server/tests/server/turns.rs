//! Slow clients and clients with expensive requests delay no other client, and lose nothing.

use std::thread::sleep;
use std::time::Duration;

use zebu_testkit::connection::Hello;
use zebu_testkit::wire::{OPEN, Reader, Writer, create, multi, op, set_data};

use crate::client::{Client, EPHEMERAL};
use crate::running::Running;

#[test]
fn a_client_that_pings_and_does_not_read_keeps_its_session() {
    const TIMEOUT_MS: i32 = 2000;
    let running = Running::new(&[]);
    let mut slow = Client::hello(running.port, &Hello::timeout(TIMEOUT_MS)).unwrap();
    slow.create("/large", &[7; 1_000_000]).unwrap();
    slow.ephemeral("/mine");
    let get = Writer::new().string("/large").bool(false);
    let xids: Vec<i32> = (0..40).map(|_| slow.post(op::GET_DATA, &get)).collect();
    // Far more than fits into the connection: the server reads no further requests, but the
    // client's bytes keep its session alive.
    let started = running.metric("uptime").unwrap();
    while running.metric("uptime").unwrap() < started + 2.0 * f64::from(TIMEOUT_MS) {
        slow.post_as(-2, op::PING, &Writer::new());
        sleep(Duration::from_millis(100));
    }
    assert_eq!(running.metric("stale_sessions_expired"), Some(0.0));
    for xid in xids {
        assert_eq!(slow.reply().expect("its answers come").xid, xid);
    }
    assert!(running.client().exists("/mine"));
    slow.ping();
}

#[test]
fn reads_that_take_many_turns_are_answered_in_their_order() {
    const ZNODES: usize = 20_000;
    let running = Running::new(&["-Djute.maxbuffer=4000000"]);
    let mut client = running.client();
    client.create("/t", b"").unwrap();
    for part in 0..ZNODES / 1000 {
        let creates: Vec<(i32, Writer)> = (0..1000)
            .map(|n| (op::CREATE, create(&format!("/t/{part}-{n}"), b"", OPEN, EPHEMERAL)))
            .collect();
        assert_eq!(client.call(op::MULTI, &multi(&creates)).err, 0);
    }
    // A list of children that takes several turns, between many short reads.
    let path = || Writer::new().string("/t").bool(false);
    let mut reads = vec![(op::GET_DATA, path()); 300];
    reads.push((op::GET_CHILDREN, path()));
    reads.extend(vec![(op::GET_DATA, path()); 300]);
    let mut asked = Vec::new();
    for _ in 0..20 {
        // After a write, before a read, and in between.
        for (kind, body) in [
            (op::SET_DATA, set_data("/t", b"x")),
            (op::GET_ALL_CHILDREN_NUMBER, Writer::new().string("/t")),
            (op::GET_EPHEMERALS, Writer::new().string("/t/1-")),
            (op::GET_CHILDREN, Writer::new().string("/t").bool(false)),
            (op::GET_CHILDREN2, Writer::new().string("/t").bool(false)),
            (op::SET_DATA, set_data("/t", b"y")),
            (op::MULTI_READ, multi(&reads)),
            (op::EXISTS, Writer::new().string("/t").bool(false)),
        ] {
            asked.push((client.post(kind, &body), kind));
        }
    }
    for (xid, kind) in asked {
        let reply = client.reply().unwrap();
        assert_eq!((reply.xid, reply.err), (xid, 0));
        let mut body = Reader::new(&reply.body);
        match kind {
            op::GET_ALL_CHILDREN_NUMBER => assert_eq!(body.int().unwrap(), ZNODES as i32),
            op::GET_EPHEMERALS => assert_eq!(body.strings().unwrap().len(), 1000),
            op::GET_CHILDREN => assert_eq!(body.strings().unwrap().len(), ZNODES),
            op::GET_CHILDREN2 => {
                let names = body.strings().unwrap();
                assert_eq!((names.len(), &*names[0]), (ZNODES, "0-0"));
                assert_eq!(body.stat().unwrap().num_children, ZNODES as i32);
            }
            op::MULTI_READ => {
                for (kind, _) in &reads {
                    assert_eq!(
                        (body.int().unwrap(), body.bool().unwrap(), body.int().unwrap()),
                        (*kind, false, 0)
                    );
                    if *kind == op::GET_DATA {
                        // The list shows the write before it, and not the write after it.
                        assert_eq!(body.buffer().unwrap(), b"y");
                        assert_eq!(body.stat().unwrap().num_children, ZNODES as i32);
                    } else {
                        assert_eq!(body.strings().unwrap().len(), ZNODES);
                    }
                }
                assert_eq!(
                    (body.int().unwrap(), body.bool().unwrap(), body.int().unwrap()),
                    (-1, true, -1)
                );
                body.end().unwrap();
            }
            _ => {}
        }
    }
    client.close();
}

#[test]
fn long_lists_of_children_are_of_one_moment_while_others_change_them() {
    const ZNODES: usize = 30_000;
    const CHANGES: usize = 200;
    let running = Running::new(&["-Djute.maxbuffer=4000000"]);
    let mut client = running.client();
    client.create("/t", b"").unwrap();
    for part in 0..ZNODES / 1000 {
        let creates: Vec<(i32, Writer)> = (0..1000)
            .map(|n| (op::CREATE, create(&format!("/t/{part}-{n}"), b"", OPEN, 0)))
            .collect();
        assert_eq!(client.call(op::MULTI, &multi(&creates)).err, 0);
    }
    let mut writer = running.client();
    // Each change removes one name and adds another one, so the number is constant at every moment.
    let changes = std::thread::spawn(move || {
        for count in 0..CHANGES {
            let (old, new) = (format!("/t/x{count}"), format!("/t/x{}", count + 1));
            let create = (op::CREATE, create(&new, b"", OPEN, 0));
            let delete = (op::DELETE, Writer::new().string(&old).int(-1));
            let both = if count == 0 { vec![create] } else { vec![create, delete] };
            assert_eq!(writer.call(op::MULTI, &multi(&both)).err, 0);
        }
        writer.close();
    });
    let list = Writer::new().string("/t").bool(false);
    while !changes.is_finished() {
        let reply = client.call(op::GET_CHILDREN2, &list);
        let mut body = Reader::new(&reply.body);
        let names = body.strings().unwrap();
        let changing = names.iter().filter(|name| name.starts_with('x')).count();
        assert!(changing <= 1, "{changing} names that are never there together");
        let stat = body.stat().unwrap();
        assert_eq!((names.len(), stat.num_children), (ZNODES + changing, names.len() as i32));
    }
    changes.join().unwrap();
    // The list's watch is set from the list's moment on.
    let reply = client.call(op::GET_CHILDREN, &Writer::new().string("/t").bool(true));
    assert_eq!(Reader::new(&reply.body).strings().unwrap().len(), ZNODES + 1);
    running.client().create("/t/last", b"").unwrap();
    assert_eq!(client.event().path, "/t");
    client.close();
}
