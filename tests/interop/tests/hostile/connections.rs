//! Abuse before, instead of and during a handshake.

use zebu_interop::server::Options;
use zebu_testkit::Random;
use zebu_testkit::connection::{Hello, Incoming};
use zebu_testkit::wire::{Writer, frame, op};

use crate::{MIB, SLACK_BYTES, Target, frames_until_closed};

/// The default maximum length of a frame: `jute.maxbuffer`.
const FRAME_BYTES_MAX: i32 = 0xf_ffff;

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn promised_bytes_cost_nothing() {
    // Announcing a mebibyte 600 times without sending it ends the original with 256 MB of heap.
    let mut target = Target::new();
    let mut promise = FRAME_BYTES_MAX.to_be_bytes().to_vec();
    promise.extend([0; 5]);
    let mut strangers: Vec<_> = (0..600).map(|_| target.connect()).collect();
    for connection in &mut strangers {
        connection.send_bytes(&promise).unwrap();
    }
    target.serves();
    let mut sessions: Vec<_> = (0..300).map(|_| target.open()).collect();
    for connection in &mut sessions {
        connection.send_bytes(&promise).unwrap();
    }
    target.serves();
    target.assert_growth_below(SLACK_BYTES + 900 * 16 * 1024);
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn impossible_lengths_end_their_connection_only() {
    let mut target = Target::new();
    for length in [-1, i32::MIN, i32::MAX, FRAME_BYTES_MAX + 1, -2, 0x4000_0000] {
        let mut stranger = target.connect();
        stranger.send_bytes(&length.to_be_bytes()).unwrap();
        assert_eq!(frames_until_closed(&mut stranger), 0, "{length}");
        let mut known = target.open();
        known.send_bytes(&length.to_be_bytes()).unwrap();
        assert_eq!(frames_until_closed(&mut known), 0, "{length}");
        target.serves();
    }
    // The longest permitted frame, and empty ones.
    let mut known = target.open();
    let path = "x".repeat(usize::try_from(FRAME_BYTES_MAX).unwrap() - 8 - 5);
    let longest = Writer::request(1, op::EXISTS).string(&path).bool(false).done();
    known.send(&longest).unwrap();
    known.frame().unwrap();
    for short in 0..8 {
        let mut known = target.open();
        known.send(&vec![0; short]).unwrap();
        assert_eq!(frames_until_closed(&mut known), 0);
        let mut stranger = target.connect();
        stranger.send(&vec![0; short]).unwrap();
        assert_eq!(frames_until_closed(&mut stranger), 0);
    }
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn a_handshake_has_a_deadline() {
    // The original never closes a connection whose bytes arrive slowly.
    let options = Options::default().property("zookeeper.nio.sessionlessCnxnTimeout", 4_000);
    let mut target = Target::with(&options);
    let mut silent = target.connect();
    let mut trickling = target.connect();
    trickling.send_bytes(&FRAME_BYTES_MAX.to_be_bytes()).unwrap();
    trickling.set_patience(std::time::Duration::from_millis(20)).unwrap();
    let mut sent = 0;
    loop {
        match trickling.receive().unwrap() {
            Incoming::Closed => break,
            Incoming::Silence => assert!(sent < 3000, "it may go on for ever"),
            Incoming::Frame(_) => panic!("nothing was asked"),
        }
        // The server may close it in between.
        sent += 1;
        if trickling.send_bytes(&[0]).is_err() {
            break;
        }
    }
    assert_eq!(frames_until_closed(&mut silent), 0);
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn thousands_of_idle_connections_are_cheap() {
    const COUNT: u64 = 3000;
    let mut target = Target::new();
    let mut idle = Vec::new();
    for at in 0..COUNT {
        let mut connection = target.connect();
        // Some connections have started a handshake.
        let begun = usize::try_from(at % 4).unwrap();
        connection.send_bytes(&[0; 4][..begun]).unwrap();
        idle.push(connection);
        if at % 500 == 0 {
            target.serves();
        }
    }
    target.serves();
    target.assert_growth_below(SLACK_BYTES + COUNT * 8 * 1024);
    drop(idle);
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn connections_that_come_and_go_leave_nothing() {
    let mut target = Target::new();
    let hello = Hello::timeout(30_000).bytes();
    for round in 0..3000 {
        let mut connection = target.connect();
        match round % 3 {
            0 => {}
            // The client leaves before the answer. The session exists nevertheless.
            1 => connection.send(&hello).unwrap(),
            _ => connection.send_bytes(&frame(&hello)[..20]).unwrap(),
        }
    }
    target.serves();
    target.assert_growth_below(SLACK_BYTES);
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn garbage_ends_its_own_connection_only() {
    let mut target = Target::new();
    let mut random = Random::new(0x5eed);
    for round in 0..300 {
        let length = 1 + random.index(4000);
        let garbage = random.bytes(length);
        let mut connection = if round % 2 == 0 { target.connect() } else { target.open() };
        // The server may close the connection before all bytes are sent.
        connection.send_bytes(&garbage).ok();
        if round % 50 == 0 {
            target.serves();
        }
    }
    target.serves();
    target.assert_growth_below(SLACK_BYTES);
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn strange_connect_requests() {
    let mut target = Target::new();
    let owner = target.session();
    let request = |id, password: Option<&[u8]>, timeout, zxid| {
        Writer::new()
            .int(0)
            .long(zxid)
            .int(timeout)
            .long(id)
            .optional_buffer(password)
            .bool(false)
            .done()
    };
    let long = vec![7; 3_900];
    for (name, payload) in [
        ("long password", request(0, Some(&long), 1000, 0)),
        ("long password for a session", request(owner.id, Some(&long), 1000, 0)),
        ("null password for a session", request(owner.id, None, 1000, 0)),
        ("no such session", request(i64::MIN, Some(&[0; 16]), 1000, 0)),
        ("negative timeout", request(0, None, i32::MIN, 0)),
        ("longest timeout", request(0, None, i32::MAX, 0)),
        ("negative zxid", request(0, None, 1000, i64::MIN)),
    ] {
        let mut connection = target.connect();
        connection.send(&payload).unwrap();
        let answer = connection.frame().unwrap_or_else(|e| panic!("{name}: {e}"));
        let refused = name.contains("session");
        assert_eq!(answer[4..8] == [0; 4], refused, "{name}: {answer:?}");
    }
    for bytes in [4_096, 900_000] {
        let mut too_long = target.connect();
        // The server may close the connection before it has everything.
        let _ = too_long.send(&request(0, Some(&vec![7; bytes]), 1000, 0));
        assert_eq!(frames_until_closed(&mut too_long), 0, "{bytes}");
    }
    let mut ahead = target.connect();
    ahead.send(&request(0, None, 1000, i64::MAX)).unwrap();
    assert_eq!(frames_until_closed(&mut ahead), 0);
    target.serves();
    // A client with a wrong password has not disturbed the owner.
    let mut owner = owner;
    owner.expect(op::PING, Writer::new()).unwrap();
    target.assert_growth_below(SLACK_BYTES + 4 * MIB);
}
