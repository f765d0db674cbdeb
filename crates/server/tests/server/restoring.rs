//! Replaces the state of a running server with a snapshot that an operator provides.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::admin::{Answer, get};
use zebu_testkit::connection::{Hello, PATIENCE};
use zebu_testkit::wire::{create, op};

use crate::client::Client;
use crate::members::ensemble;
use crate::running::{Running, files, wait};

const ADMIN: &[&str] =
    &["admin.enableServer=true", "admin.serverPort=0", "admin.rateLimiterIntervalInMS=0"];
const AUTH: &str = "Authorization: digest u:p\r\n";

fn http(settings: &[&str]) -> Running {
    Running::new(&[ADMIN, settings].concat())
}

fn snapshot(running: &Running) -> Vec<u8> {
    let taken = get(running.admin_port(), "/commands/snapshot", AUTH);
    assert_eq!(taken.status(), "200");
    taken.body
}

/// The answer to a request whose header announces a body of `length` bytes, of which only these
/// arrive.
fn hand_in_part(port: u16, url: &str, length: usize, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("POST {url} HTTP/1.0\r\n{AUTH}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // The server may refuse the remaining bytes.
    let _ = stream.write_all(body);
    if body.len() < length {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    Answer::parse(all)
}

fn hand_in(running: &Running, url: &str, body: &[u8]) -> Answer {
    hand_in_part(running.admin_port(), url, body.len(), body)
}

pub fn restore(running: &Running, body: &[u8]) -> Answer {
    hand_in(running, "/commands/restore", body)
}

/// The content of a snapshot becomes the state for old and new clients, and remains after a
/// restart. No client sees an older zxid.
#[test]
fn a_snapshot_becomes_the_state_of_a_running_server() {
    let running = http(&[]);
    let mut kept = running.client();
    kept.create("/kept", b"then").unwrap();
    kept.ephemeral("/mine");
    let taken = snapshot(&running);
    kept.set("/kept", b"now").unwrap();
    let mut newer = running.client();
    newer.create("/newer", b"").unwrap();
    newer.watch("/kept");
    let answer = restore(&running, &taken);
    assert_eq!(answer.status(), "200", "{}", answer.text());
    let zxid = 1_i64 << 32;
    answer.has(&format!("\"last_zxid\" : {zxid},\n  \"snapshot_zxid\" : 3,"));
    answer.has("\"sessions\" : 1,\n  \"has_digest\" : true,");

    // A session in the snapshot continues, with its ephemerals; the other session is over.
    let mut kept = Client::hello(running.port, &kept.renewal()).unwrap();
    let (data, stat) = kept.get("/kept").unwrap();
    assert_eq!((&data[..], stat.version), (&b"then"[..], 0));
    assert!(kept.exists("/mine") && !kept.exists("/newer"));
    assert!(Client::hello(running.port, &newer.renewal()).is_err());
    kept.create("/after", b"").unwrap();
    let (_, stat) = kept.get("/after").unwrap();
    assert_eq!(stat.czxid, zxid + 1);

    let running = running.restart(ADMIN);
    let mut client = running.client();
    assert_eq!(client.get("/kept").unwrap().0, b"then");
    assert!(client.exists("/after") && !client.exists("/newer"));
    assert_eq!(running.metric("digest_mismatches_count"), Some(0.0));
    client.create("/again", b"").unwrap();
}

/// The state before a mistake survives the attempts to correct it: its files, under their old
/// names, are that state.
#[test]
fn the_old_state_stays_on_the_disk() {
    let running = http(&[]);
    let mut client = running.client();
    let empty = snapshot(&running);
    client.create("/precious", b"").unwrap();
    for _ in 0..2 {
        assert_eq!(restore(&running, &empty).status(), "200");
        running.client().create("/wrong", b"").unwrap();
    }
    let dir = running.stop();
    let data = dir.path().join("version-2");
    let of_the_first = |name: &&String| name.starts_with("old.") && !name.contains("00000");
    let old: Vec<String> = files(&data, "old.").iter().filter(of_the_first).cloned().collect();
    assert!(old.iter().any(|name| name.starts_with("old.log.")), "{old:?}");
    let back = tempfile::tempdir().unwrap();
    fs::create_dir(back.path().join("version-2")).unwrap();
    for name in &old {
        let to = back.path().join("version-2").join(name.trim_start_matches("old."));
        fs::copy(data.join(name), to).unwrap();
    }
    let before = Running::on(back.path(), &[]);
    let mut client = before.client();
    assert!(client.exists("/precious") && !client.exists("/wrong"));
}

/// A change or a loss of any byte of a snapshot is detected.
#[test]
fn a_damaged_snapshot_changes_nothing() {
    let running = http(&[]);
    let mut client = running.client();
    client.create("/a", b"data").unwrap();
    client.create("/a/b", b"more data").unwrap();
    let taken = snapshot(&running);
    let before = listing(&running);
    // A snapshot that lacks its last sections is one of an older version.
    let whole = [taken.len(), taken.len() - 21, taken.len() - 21 - 33];
    for at in (0..taken.len()).step_by(7) {
        if !whole.contains(&at) {
            let cut = restore(&running, &taken[..at]);
            assert_eq!(cut.status(), "400", "{at}: {}", cut.text());
        }
        let mut flipped = taken.clone();
        flipped[at] ^= 1 << (at % 8);
        let answer = restore(&running, &flipped);
        assert_eq!(answer.status(), "400", "{at}: {}", answer.text());
    }
    let mut client = running.client();
    assert_eq!(client.get("/a/b").unwrap().0, b"more data");
    // None of these files stays on the disk.
    let more: Vec<String> =
        listing(&running).into_iter().filter(|name| !before.contains(name)).collect();
    assert!(more.iter().all(|name| !name.contains("tmp")), "{more:?}");
}

fn listing(running: &Running) -> Vec<String> {
    files(&running.files(), "")
}

/// An upload that ends too early, because the header announced more bytes or because the connection
/// broke.
#[test]
fn an_upload_that_breaks_off_changes_nothing() {
    let running = http(&[]);
    running.client().create("/a", &[7; 5000]).unwrap();
    let taken = snapshot(&running);
    running.client().create("/later", b"").unwrap();
    for sent in [0, 1, 16, 1000, taken.len() - 1, taken.len()] {
        hand_in_part(running.admin_port(), "/commands/restore", taken.len() + 1, &taken[..sent]);
        assert!(running.client().exists("/later"), "{sent}");
    }
    assert_eq!(running.metric("restore_error_count"), Some(6.0));
}

/// Of two uploads at the same time, one is refused with the reason, and neither waits.
#[test]
fn one_snapshot_is_restored_at_a_time() {
    let running = http(&[]);
    let taken = snapshot(&running);
    let port = running.admin_port();
    let head =
        format!("POST /commands/restore HTTP/1.0\r\n{AUTH}Content-Length: {}\r\n\r\n", taken.len());
    let begin = || {
        let mut slow = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        slow.set_read_timeout(Some(PATIENCE)).unwrap();
        slow.write_all(head.as_bytes()).unwrap();
        slow.write_all(&taken[..10]).unwrap();
        slow
    };
    let mut slow = begin();
    wait("the first upload", || {
        let is_refused = restore(&running, &taken).status() == "409";
        if !is_refused {
            // The second upload arrived first. The slow one is over, with any answer, before the
            // next attempt.
            let _ = slow.write_all(&taken[10..]);
            let _ = slow.read_to_end(&mut Vec::new());
            slow = begin();
        }
        is_refused
    });
    // Clients are served while it arrives.
    running.client().create("/meanwhile", b"").unwrap();
    slow.write_all(&taken[10..]).unwrap();
    let mut all = Vec::new();
    slow.read_to_end(&mut all).unwrap();
    assert_eq!(Answer::parse(all).status(), "200");
    assert!(!running.client().exists("/meanwhile"));
}

/// A snapshot that was taken while clients wrote contains several moments. The server reports that,
/// and accepts such a snapshot on request. The same holds for a snapshot without a digest.
#[test]
fn a_digest_that_differs_is_told() {
    let running = http(&[]);
    running.client().create("/a", b"").unwrap();
    let mut taken = snapshot(&running);
    let end = taken.len();
    let without = taken[..end - 21 - 33].to_vec();
    // The digest, and the checksums after it.
    taken[end - 21 - 13 - 1] ^= 1;
    let sum = |bytes: &[u8]| u64::from(adler(bytes)).to_be_bytes();
    let at = end - 21 - 13;
    let first = sum(&taken[..at]);
    taken[at..at + 8].copy_from_slice(&first);
    let second = sum(&taken[..end - 13]);
    taken[end - 13..end - 5].copy_from_slice(&second);
    let answer = restore(&running, &taken);
    assert_eq!(answer.status(), "400");
    answer.has("with ?fuzzy=true");
    assert_eq!(hand_in(&running, "/commands/restore?fuzzy=true", &taken).status(), "200");
    let answer = restore(&running, &without);
    assert_eq!(answer.status(), "200", "{}", answer.text());
    answer.has("\"has_digest\" : false");
    assert!(running.client().exists("/a"));
}

fn adler(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

/// Clients write all the time: the state is replaced between two writes, and no later acknowledged
/// write is lost.
#[test]
fn clients_that_write_meanwhile_go_on_behind_it() {
    let running = http(&[]);
    running.client().create("/n", b"").unwrap();
    let taken = snapshot(&running);
    let port = running.port;
    let (stop, newest) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (stop, newest) = (&stop, &newest);
                scope.spawn(move || {
                    let (mut last, mut sessions) = (0, 0);
                    let mut acknowledged = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let Ok(mut client) = Client::hello(port, &Hello::timeout(30_000)) else {
                            continue;
                        };
                        sessions += 1;
                        for number in 0.. {
                            if stop.load(Ordering::Relaxed) {
                                break;
                            }
                            let path = format!("/n/{writer}-{sessions}-{number}");
                            let body = create(&path, b"", &[(31, "world", "anyone")], 0);
                            let Some(reply) = client.try_call(op::CREATE, &body) else {
                                break;
                            };
                            if reply.err != 0 {
                                break;
                            }
                            assert!(reply.zxid > last, "{:x} after {last:x}", reply.zxid);
                            last = reply.zxid;
                            newest.fetch_max(last, Ordering::Relaxed);
                            acknowledged.push((reply.zxid, path));
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        let mut ends = Vec::new();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(50));
            let answer = restore(&running, &taken);
            assert_eq!(answer.status(), "200", "{}", answer.text());
            let text = answer.text();
            let end = text.split("\"last_zxid\" : ").nth(1).and_then(|it| it.split(',').next());
            ends.push(end.unwrap().parse::<i64>().unwrap());
        }
        let last = *ends.last().unwrap();
        let until = Instant::now() + PATIENCE;
        let goes_on = || newest.load(Ordering::Relaxed) > last;
        while !goes_on() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(goes_on(), "somebody goes on");
        let mut client = running.client();
        for (zxid, path) in writers.into_iter().flat_map(|writer| writer.join().unwrap()) {
            assert_eq!(client.exists(&path), zxid > last, "{path} {zxid:x}");
        }
    });
}

#[test]
fn a_member_of_an_ensemble_restores_nothing_and_says_what_does() {
    let (_dirs, members) = ensemble(ADMIN);
    for member in &members {
        let answer = restore(member, &snapshot(member));
        assert_eq!(answer.status(), "503");
        answer.has("restore their directories with `zebu restore`");
    }
}
