//! Four-letter words: whole, in pieces, several together, and misspelt.

use zebu_testkit::connection::{Connection, Hello, Incoming};
use zebu_testkit::wire::{Writer, frame, framed_request, op};

use crate::{SLACK_BYTES, Target};

/// All bytes until the connection ends.
fn rest(mut connection: Connection) -> String {
    use std::io::Read;
    let mut text = Vec::new();
    // Surplus bytes may cause a reset after the answer.
    connection.stream().read_to_end(&mut text).ok();
    String::from_utf8(text).unwrap()
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn words_in_pieces() {
    let mut target = Target::new();
    let mut connection = target.connect();
    for byte in b"ruok" {
        connection.send_bytes(&[*byte]).unwrap();
    }
    assert_eq!(rest(connection), "imok");
    // A word with an argument.
    let mut connection = target.connect();
    connection.send_bytes(b"stm").unwrap();
    connection.send_bytes(b"k\0\0\0\0").unwrap();
    connection.send_bytes(&[0, 0, 1, 50]).unwrap();
    assert_eq!(rest(connection), "306");
    // An incomplete word.
    let mut half = target.connect();
    half.send_bytes(b"ru").unwrap();
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn words_with_something_behind_them() {
    let mut target = Target::new();
    let hello = frame(&Hello::timeout(30_000).bytes());
    for behind in [&b"\n"[..], b"ruok", &hello] {
        let mut connection = target.connect();
        connection.send_bytes(&[b"ruok", behind].concat()).unwrap();
        assert_eq!(rest(connection), "imok", "{behind:?}");
    }
    // After the handshake the bytes of a word are a length.
    let mut connection = target.open();
    connection.send_bytes(b"ruok").unwrap();
    assert_eq!(connection.receive().unwrap(), Incoming::Closed);
    // A handshake and a request in one write.
    let mut connection = target.connect();
    let ping = framed_request(-2, op::PING, &[]);
    connection.send_bytes(&[hello, ping].concat()).unwrap();
    for _ in 0..2 {
        connection.frame().unwrap();
    }
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn what_is_no_word_is_closed() {
    let mut target = Target::new();
    for no_word in [b"RUOK", b"abcd", b"GET ", &[0xff, 0xf4, 0xff, 0xfd], &[0x16, 3, 1, 2]] {
        let mut connection = target.connect();
        connection.send_bytes(no_word).unwrap();
        assert_eq!(rest(connection), "", "{no_word:?}");
    }
    target.serves();
}

#[test]
#[ignore = "needs the zebu binary: cargo xtask interop"]
fn long_answers_that_nobody_reads_are_not_made() {
    let mut target = Target::new();
    // A hundred thousand watches on long paths, and many clients that request the list.
    let mut watcher = target.session();
    let paths: Vec<String> = (0..30_000).map(|at| format!("/{at:0>24}")).collect();
    let none: [&str; 0] = [];
    for part in 0..4 {
        let paths: Vec<String> = paths.iter().map(|path| format!("/{part}{path}")).collect();
        let watches = Writer::new().long(0).strings(&none).strings(&paths).strings(&none);
        watcher.expect(op::SET_WATCHES, watches).unwrap();
    }
    assert_eq!(target.server.monitor("zk_watch_count").unwrap(), "120000");
    for word in ["wchp", "wchc"] {
        let text = target.server.four_letter_word(word).unwrap();
        assert_eq!(text.matches("/1/").count(), 30_000);
        assert!(text.lines().count() >= 120_000);
    }
    let before = target.growth_bytes();
    let askers: Vec<_> = (0..50)
        .map(|_| {
            let mut connection = target.connect();
            connection.send_bytes(b"wchp").unwrap();
            connection
        })
        .collect();
    for _ in 0..20 {
        target.serves();
    }
    target.assert_growth_below(before + SLACK_BYTES + 50 * 64 * 1024);
    drop(askers);
    watcher.close().unwrap();
    target.wait_for_watches("0");
}
