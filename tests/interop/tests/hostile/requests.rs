//! Invalid requests: wrong lengths, deep nesting, repetition, and contradictions.

use zebu_testkit::Random;
use zebu_testkit::connection::{Connection, Incoming, Reply};
use zebu_testkit::wire::{Writer, frame, op, open_acl};

use crate::{MIB, SLACK_BYTES, Target, frames_until_closed};

const NONE: [&str; 0] = [];

fn header(opcode: i32) -> Writer {
    Writer::new().int(opcode).bool(false).int(-1)
}

fn end() -> Vec<u8> {
    Writer::new().int(-1).bool(true).int(-1).done()
}

fn create(path: &str, data: Option<&[u8]>, flags: i32) -> Writer {
    Writer::new().string(path).optional_buffer(data).acl(&open_acl()).int(flags)
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn what_ends_the_original_is_refused() {
    let mut target = Target::new();
    let mut session = target.session();
    for flags in 0..5 {
        for ttl in [-1, i64::MIN, 0] {
            let body = create("/ttl", None, flags).long(ttl);
            assert_eq!(session.call(op::CREATE_TTL, body).unwrap().err, -8, "{flags} {ttl}");
        }
    }
    let limits = "/zookeeper/quota/zookeeper_limits";
    for opcode in [op::CREATE, op::CREATE2] {
        assert_eq!(session.call(opcode, create(limits, Some(b"count=1"), 0)).unwrap().err, -8);
        let multi = header(opcode).raw(&create(limits, None, 0).done()).raw(&end());
        let body = session.expect(op::MULTI, multi).unwrap();
        assert_eq!(body[5..9], (-8_i32).to_be_bytes());
    }
    // Invalid statistics, set by every possible request, and then changes below that quota.
    let stats = "/zookeeper/quota/q/zookeeper_stats";
    session.create("/q", b"", 0).unwrap();
    session.create("/zookeeper/quota/q", b"", 0).unwrap();
    session.create("/zookeeper/quota/q/zookeeper_limits", b"count=5,bytes=5", 0).unwrap();
    session.create(stats, b"gibberish", 0).unwrap();
    let texts: [Option<&[u8]>; 6] =
        [None, Some(b""), Some(b"count=x"), Some(b"="), Some(b",,,"), Some(&[0xff; 100])];
    for (at, text) in texts.into_iter().enumerate() {
        let set = Writer::new().string(stats).optional_buffer(text).int(-1);
        let multi = header(op::SET_DATA).raw(&set.clone().done()).raw(&end());
        session.expect(op::SET_DATA, set).unwrap();
        session.expect(op::MULTI, multi).unwrap();
        let path = format!("/q/{at}");
        session.create(&path, b"12345", 0).unwrap();
        session.expect(op::SET_DATA, Writer::new().string(&path).string("6").int(-1)).unwrap();
        session.expect(op::DELETE, Writer::new().string(&path).int(-1)).unwrap();
    }
    target.serves();
    session.close().unwrap();
    // Accepted data can be read again.
    target.server.restart().unwrap();
    target.neighbour = target.session();
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn operations_of_servers_are_not_for_clients() {
    let mut target = Target::new();
    let mut session = target.session();
    session.expect(op::CREATE_CONTAINER, create("/container", None, 4)).unwrap();
    session.create("/plain", b"", 0).unwrap();
    for (opcode, body) in [
        (-10, Writer::new().int(30_000)),
        (op::DELETE_CONTAINER, Writer::new().string("/container")),
        (op::DELETE_CONTAINER, Writer::new().raw(b"/plain")),
        (op::CHECK, Writer::new().string("/plain").int(0)),
        (op::ERROR, Writer::new().int(0)),
    ] {
        let mut connection = target.open();
        connection.send(&Writer::request(1, opcode).raw(&body.done()).done()).unwrap();
        let payload = connection.frame().unwrap_or_else(|e| panic!("{opcode}: {e}"));
        assert_eq!(Reply::parse(&payload).unwrap().err, -6, "{opcode}");
        assert_eq!(frames_until_closed(&mut connection), 0);
    }
    for path in ["/container", "/plain"] {
        session.expect(op::EXISTS, Writer::new().string(path).bool(false)).unwrap();
    }
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn counts_are_not_believed() {
    let mut target = Target::new();
    let mut session = target.session();
    for count in [i32::MAX, 0x0100_0000, 1000] {
        let watches = Writer::new().long(0).int(count);
        for (opcode, body) in [
            (op::CREATE, Writer::new().string("/x").optional_buffer(None).int(count)),
            (op::CREATE_TTL, Writer::new().string("/x").optional_buffer(None).int(count)),
            (op::SET_ACL, Writer::new().string("/").int(count)),
            (op::SET_WATCHES, watches.clone()),
            (op::SET_WATCHES2, watches.strings(&NONE).strings(&NONE).strings(&NONE).int(count)),
            (op::MULTI, header(op::CREATE).string("/x").optional_buffer(None).int(count)),
            (op::GET_DATA, Writer::new().int(count)),
            (op::SET_DATA, Writer::new().string("/").int(count)),
        ] {
            assert_eq!(session.call(opcode, body).unwrap().err, -5, "{opcode} {count}");
        }
    }
    target.serves();
    target.assert_growth_below(SLACK_BYTES);
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn a_multi_in_a_multi_in_a_multi() {
    let mut target = Target::new();
    let mut session = target.session();
    // A multi as deep as a frame permits.
    let nested = Writer::new().raw(&header(op::MULTI).done().repeat(110_000));
    assert_eq!(session.call(op::MULTI, nested.clone()).unwrap().err, -5);
    assert_eq!(session.call(op::MULTI_READ, nested).unwrap().err, -5);
    // A multi as long as a frame permits: reads and writes of a few bytes each.
    let read = header(op::GET_DATA).string("/").bool(false).done();
    let reads = Writer::new().raw(&read.repeat(60_000)).raw(&end());
    let body = session.expect(op::MULTI_READ, reads).unwrap();
    assert_eq!(body.len(), 60_000 * (9 + 4 + 68) + 9);
    let check = header(op::CHECK).string("/").int(-1).done();
    let checks = Writer::new().raw(&check.repeat(55_000)).raw(&end());
    let body = session.expect(op::MULTI, checks).unwrap();
    assert_eq!(body.len(), 55_000 * 9 + 9);
    target.serves();
    target.assert_growth_below(SLACK_BYTES + 64 * MIB);
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn a_list_of_reads_has_an_end() {
    let mut target = Target::new();
    let mut session = target.session();
    session.create("/large", &vec![7; 900_000], 0).unwrap();
    // The complete answer would have 27 GB.
    let read = header(op::GET_DATA).string("/large").bool(false).done();
    let reads = Writer::new().raw(&read.repeat(30_000)).raw(&end());
    let reply = session.call(op::MULTI_READ, reads).unwrap();
    assert_eq!((reply.err, reply.body.len()), (-5, 0));
    target.serves();
    target.assert_growth_below(SLACK_BYTES + 128 * MIB);
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn a_hundred_thousand_watches_in_one_request() {
    let mut target = Target::new();
    let names: Vec<String> = (0..100_000).map(|at| format!("{at:x}")).collect();
    let mut session = target.session();
    // The znodes do not exist: each data watch fires at once, and each exists watch stays.
    let data = Writer::new().long(0).strings(&names).strings(&NONE).strings(&NONE);
    session.expect(op::SET_WATCHES, data).unwrap();
    assert_eq!(session.notifications.len(), names.len());
    let exist = Writer::new().long(0).strings(&NONE).strings(&names).strings(&NONE);
    for _ in 0..3 {
        session.expect(op::SET_WATCHES, exist.clone()).unwrap();
    }
    assert_eq!(target.server.monitor("zk_watch_count").unwrap(), "100000");
    target.serves();
    target.assert_growth_below(SLACK_BYTES + 48 * MIB);
    session.close().unwrap();
    target.wait_for_watches("0");
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn broken_credentials_end_their_connection() {
    let mut target = Target::new();
    let auth = |scheme: Option<&str>, data: Option<&[u8]>| {
        Writer::new().int(0).optional_string(scheme).optional_buffer(data).done()
    };
    // Refused with an error.
    for body in [
        auth(Some("digest"), None),
        auth(Some("nonsense"), Some(b"x")),
        auth(Some("super"), Some(b"")),
        auth(None, Some(b"u:p")),
    ] {
        let mut connection = target.open();
        connection.send(&Writer::request(-4, op::AUTH).raw(&body).done()).unwrap();
        let payload = connection.frame().unwrap_or_else(|e| panic!("{body:?}: {e}"));
        assert_eq!(Reply::parse(&payload).unwrap().err, -115, "{body:?}");
        assert_eq!(frames_until_closed(&mut connection), 0);
    }
    // Truncated: no answer.
    let whole = auth(Some("digest"), Some(b"u:p"));
    for length in 0..whole.len() {
        let mut connection = target.open();
        let cut = Writer::request(-4, op::AUTH).raw(&whole[..length]);
        connection.send(&cut.done()).unwrap();
        assert_eq!(frames_until_closed(&mut connection), 0, "{length}");
    }
    for token in [&b""[..], &[0xff; 4], &[0xff, 0xff, 0xff, 0xfe], &[0, 0, 0, 5, 1], &[0, 0]] {
        let mut connection = target.open();
        connection.send(&Writer::request(1, op::SASL).raw(token).done()).unwrap();
        assert_eq!(frames_until_closed(&mut connection), 0, "{token:?}");
    }
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn identities_are_limited() {
    let mut target = Target::new();
    let mut connection = target.open();
    let packets: Vec<u8> = (0..20_000)
        .flat_map(|at| {
            let packet = Writer::request(-4, op::AUTH).int(0).string("digest");
            frame(&packet.string(&format!("user{at}:secret")).done())
        })
        .collect();
    // The server may close the connection before all bytes are sent.
    connection.send_bytes(&packets).ok();
    let answers = frames_until_closed(&mut connection);
    assert!((100..20_000).contains(&answers), "{answers}");
    target.serves();
    target.assert_growth_below(SLACK_BYTES);
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn short_requests_make_no_long_records() {
    let mut target = Target::new();
    let mut session = target.session();
    for at in 0..500 {
        session.auth("digest", &format!("{}{at}:secret", "u".repeat(1000))).unwrap();
    }
    // Each ACL entry stands for all of these identities, and all are different.
    let acl = |count| -> Vec<_> {
        (0..count).map(|perms| (perms, Some("auth".to_owned()), Some(String::new()))).collect()
    };
    let body = Writer::new().string("/x").optional_buffer(None).acl(&acl(30_000)).int(0);
    assert_eq!(session.call(op::CREATE, body).unwrap().err, -114);
    let body = Writer::new().string("/").acl(&acl(2)).int(-1);
    assert_eq!(session.call(op::SET_ACL, body).unwrap().err, -114);
    let one = header(op::CREATE).string("/x-").optional_buffer(None).acl(&acl(1)).int(2).done();
    let body = session.expect(op::MULTI, Writer::new().raw(&one.repeat(10_000)).raw(&end()));
    assert!(body.unwrap().starts_with(&[0xff; 4]), "an error");
    target.serves();
    target.assert_growth_below(SLACK_BYTES);
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn long_paths_and_lists_are_walked_once() {
    let mut target = Target::new();
    let mut session = target.session();
    let deep = "/a".repeat(400_000);
    let dots = "/..".repeat(300_000);
    let slashes = "/".repeat(900_000);
    for path in [&deep, &dots, &slashes] {
        for opcode in [op::EXISTS, op::GET_DATA, op::GET_CHILDREN] {
            let body = Writer::new().string(path).bool(true);
            assert_eq!(session.call(opcode, body).unwrap().err, -101);
        }
        assert_ne!(session.call(op::CREATE, create(path, None, 0)).unwrap().err, 0);
        assert_ne!(session.call(op::DELETE, Writer::new().string(path).int(-1)).unwrap().err, 0);
        session.expect(op::ADD_WATCH, Writer::new().string(path).int(1)).unwrap();
    }
    // An ACL with many entries, once all equal and once all different.
    let entry = |at: usize| {
        let id = format!("10.{}.{}.{}", at >> 16 & 255, at >> 8 & 255, at & 255);
        (31, Some("ip".to_owned()), Some(id))
    };
    for (path, acl) in [
        ("/same", vec![entry(0); 30_000]),
        ("/different", (0..30_000).map(entry).collect::<Vec<_>>()),
    ] {
        let body = Writer::new().string(path).optional_buffer(None).acl(&acl).int(0);
        session.expect(op::CREATE, body).unwrap();
        let body = Writer::new().string(path).bool(false);
        assert_eq!(session.call(op::GET_DATA, body).unwrap().err, -102);
    }
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn thousands_of_malformed_requests() {
    let mut target = Target::new();
    let mut random = Random::new(0xbad);
    let whole = valid_requests();
    let mut connection = target.open();
    let mut answered = 0;
    for round in 0..4000 {
        let (opcode, body) = &whole[random.index(whole.len())];
        let body = damage(&mut random, body.clone());
        let request = Writer::request(round, *opcode).raw(&body).done();
        if !is_answered(&mut connection, &request) {
            connection = target.open();
        } else {
            answered += 1;
        }
        if round % 500 == 0 {
            target.serves();
        }
    }
    assert!(answered > 2000, "{answered}: a malformed request is an error, not the end");
    target.serves();
    target.assert_growth_below(SLACK_BYTES);
    target.server.restart().unwrap();
    target.neighbour = target.session();
    target.serves();
}

/// Sends a request and waits for its answer, or for the end of the connection.
fn is_answered(connection: &mut Connection, request: &[u8]) -> bool {
    if connection.send(request).is_err() {
        return false;
    }
    loop {
        match connection.receive().unwrap() {
            Incoming::Frame(payload) if payload.starts_with(&[0xff; 4]) => {}
            Incoming::Frame(_) => return true,
            Incoming::Closed => return false,
            Incoming::Silence => panic!("neither answered nor closed: {request:?}"),
        }
    }
}

/// One request of each kind.
fn valid_requests() -> Vec<(i32, Vec<u8>)> {
    let path = || Writer::new().string("/m");
    let multi = header(op::CREATE)
        .raw(&create("/m/n", Some(b"x"), 2).done())
        .raw(&header(op::SET_DATA).string("/m").string("x").int(-1).done())
        .raw(&header(op::CHECK).string("/m").int(-1).done())
        .raw(&header(op::DELETE).string("/m/o").int(-1).done())
        .raw(&end());
    let reads = header(op::GET_DATA).string("/m").bool(true).raw(&end());
    let lists = || Writer::new().long(5).strings(&["/m"]).strings(&["/m/x"]).strings(&["/"]);
    let stats = Writer::new().string("/zookeeper/quota/m/zookeeper_stats").string("count=1");
    [
        (op::CREATE, create("/m", Some(b"data"), 0)),
        (op::CREATE2, create("/m/s-", Some(b"data"), 3)),
        (op::CREATE_CONTAINER, create("/m/c", None, 4)),
        (op::CREATE_TTL, create("/m/t", None, 5).long(100_000)),
        (op::CREATE_TTL, create("/m/u", None, 0).long(-1)),
        (op::CREATE, create("/zookeeper/quota/m", None, 0)),
        (op::CREATE, create("/zookeeper/quota/m/zookeeper_limits", Some(b"count=9"), 0)),
        (op::CREATE, create("/zookeeper/quota/m/zookeeper_stats", Some(b"count=0"), 0)),
        (op::SET_DATA, stats.int(-1)),
        (op::DELETE, path().int(-1)),
        (op::EXISTS, path().bool(true)),
        (op::GET_DATA, path().bool(true)),
        (op::SET_DATA, path().string("data").int(-1)),
        (op::GET_ACL, path()),
        (op::SET_ACL, path().acl(&open_acl()).int(-1)),
        (op::GET_CHILDREN, path().bool(true)),
        (op::GET_CHILDREN2, path().bool(false)),
        (op::SYNC, path()),
        (op::PING, Writer::new()),
        (op::MULTI, multi),
        (op::MULTI_READ, reads),
        (op::RECONFIG, path().string("").string("").long(-1)),
        (op::CHECK_WATCHES, path().int(3)),
        (op::REMOVE_WATCHES, path().int(3)),
        (op::AUTH, Writer::new().int(0).string("digest").string("u:p")),
        (op::SET_WATCHES, lists()),
        (op::SET_WATCHES2, lists().strings(&["/m"]).strings(&["/"])),
        (op::SASL, Writer::new().string("token")),
        (op::GET_EPHEMERALS, path()),
        (op::GET_ALL_CHILDREN_NUMBER, path()),
        (op::ADD_WATCH, path().int(1)),
        (op::WHO_AM_I, Writer::new()),
    ]
    .map(|(opcode, writer)| (opcode, writer.done()))
    .into()
}

/// Bytes changed, removed, inserted or repeated.
fn damage(random: &mut Random, mut body: Vec<u8>) -> Vec<u8> {
    for _ in 0..=random.index(3) {
        let at = random.index(body.len() + 1);
        match random.index(5) {
            0 => body.truncate(at),
            1 => {
                let extra = random.index(20);
                let extra = random.bytes(extra);
                body.splice(at..at, extra);
            }
            2 => {
                let odd: [i32; 6] = [-1, -2, i32::MAX, i32::MIN, 0x7fff, 0];
                let value = odd[random.index(odd.len())].to_be_bytes();
                let upto = (at + 4).min(body.len());
                body.splice(at..upto, value);
            }
            3 => {
                let part = body[at..].to_vec();
                body.extend(part);
            }
            _ => {
                if let Some(byte) = body.get_mut(at) {
                    *byte ^= 1 << random.index(8);
                }
            }
        }
    }
    body
}
