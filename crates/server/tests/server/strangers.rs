//! Connections of strangers to the ports between servers.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_testkit::connection::PATIENCE;
use zebu_testkit::ports;

use crate::members::client_of;
use crate::running::{Running, wait};

/// Connects as soon as a server listens.
fn connect(port: u16) -> TcpStream {
    let start = Instant::now();
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends bytes to a port between servers. The server closes the connection without an answer.
fn is_turned_away(port: u16, what: &str, bytes: &[u8]) {
    let mut stream = connect(port);
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => assert_eq!(answer, [0u8; 0], "{what}"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{what}"),
    }
}

/// The only member of an ensemble, and its ports for the quorum and for elections. Its time limits
/// are so long that no connection is closed because of them.
fn only_member() -> (TempDir, Running, [u16; 2]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("myid"), "2").unwrap();
    let [quorum, election] = ports::free();
    let server = format!("server.2=127.0.0.1:{quorum}:{election}");
    let settings = [&*server, "standaloneEnabled=false", "initLimit=10000", "syncLimit=10000"];
    let running = Running::on(dir.path(), &settings);
    (dir, running, [quorum, election])
}

/// A server that is not in the members' lists may be in the list of the next member that restarts,
/// so its messages are accepted, as in the original. All other connections are closed.
#[test]
fn who_is_no_member_is_sent_away_or_heard_and_costs_nobody_anything() {
    let (_dir, running, [quorum, election]) = only_member();
    let mut client = client_of(&running);
    // The address at which a stranger claims to listen for votes.
    let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let address = format!("127.0.0.1:{}", stranger.local_addr().unwrap().port());
    let hello = |server: i64| {
        let mut hello = (-65_536_i64).to_be_bytes().to_vec();
        hello.extend(server.to_be_bytes());
        hello.extend((address.len() as i32).to_be_bytes());
        hello.extend(address.as_bytes());
        hello
    };
    let tls = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let sasl = [0x5f, 0x24, 0x35, 1, 0x35, 1, 0xed, 0xcc, 0, 0, 0, 0, 0, 0, 0, 0];
    // Servers that are in no list. They stay connected and send nothing more.
    let _unlisted: Vec<TcpStream> = [hello(77), 78_i64.to_be_bytes().to_vec()]
        .iter()
        .map(|bytes| {
            let mut stream = connect(election);
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    for (what, bytes) in [
        ("a smaller id", hello(1)),
        ("this server's own id", hello(2)),
        ("TLS", tls.to_vec()),
        ("noise", vec![0x80; 64]),
        ("an address without end", [hello(77)[..16].to_vec(), vec![0x7f; 64]].concat()),
    ] {
        is_turned_away(election, what, &bytes);
    }
    // FOLLOWERINFO of an unknown server: kind, zxid, its id with protocol and configuration.
    let info = |server: i64| {
        let mut info = vec![0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20];
        info.extend(server.to_be_bytes());
        info.extend([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        info
    };
    for (what, bytes) in [
        ("this server itself", info(2)),
        ("TLS", tls.to_vec()),
        ("SASL", sasl.to_vec()),
        (
            "something before it says who it is",
            vec![0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("a length without end", [info(77)[..12].to_vec(), vec![0x7f; 64]].concat()),
    ] {
        is_turned_away(quorum, what, &bytes);
    }
    // A learner that is in no list gets the epoch; it has no vote, so it changes nothing.
    let mut learner = connect(quorum);
    learner.write_all(&info(77)).unwrap();
    let mut kind = [0; 4];
    learner.read_exact(&mut kind).unwrap();
    assert_eq!(kind, [0, 0, 0, 17], "LEADERINFO");
    assert!(stranger.accept().is_err(), "nobody has dialled it");
    client.create("/still-there", b"").unwrap();
}

/// The server does not wait for slow bytes, and refuses an announced length that is too large. Each
/// costs one connection for a moment.
#[test]
fn who_does_not_say_in_time_who_it_is_is_sent_away() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("myid"), "2").unwrap();
    let [quorum, election] = ports::free();
    let server = format!("server.2=127.0.0.1:{quorum}:{election}");
    // A tick has 200 ms.
    let settings = [&*server, "standaloneEnabled=false", "initLimit=5", "syncLimit=5"];
    let running = Running::on(dir.path(), &settings);
    let mut client = client_of(&running);
    // FOLLOWERINFO, and an endless address for votes.
    let info = [vec![0, 0, 0, 11], vec![0; 8], 4000_i32.to_be_bytes().to_vec()].concat();
    let hello = [(-65_536_i64).to_be_bytes(), 77_i64.to_be_bytes()].concat();
    let hello = [hello, 2000_i32.to_be_bytes().to_vec()].concat();
    for (number, (port, begins)) in [(quorum, &info), (election, &hello)].into_iter().enumerate() {
        // If the server looks for a leader meanwhile, because the machine is busy, it closes
        // connections without counting them.
        wait("it is sent away because it is late", || {
            let mut stream = connect(port);
            stream.write_all(begins).unwrap();
            let drip = |_: &u32| {
                std::thread::sleep(Duration::from_millis(20));
                stream.write_all(&[0]).is_ok()
            };
            assert!((0..1900).take_while(drip).count() < 1900, "it ends before it has said all");
            running.metric("peer_connections_refused") > Some(number as f64)
        });
    }
    let long = [vec![0, 0, 0, 11], vec![0; 8], 5000_i32.to_be_bytes().to_vec()].concat();
    is_turned_away(quorum, "a long introduction", &long);
    client.create("/still-there", b"").unwrap();
}

/// One address may have at most 32 connections without an introduction; the remaining room stays
/// for other addresses.
#[test]
fn silent_connections_of_one_address_do_not_keep_the_others_out() {
    let (_dir, running, [quorum, _]) = only_member();
    let mut client = client_of(&running);
    let mut silent: Vec<TcpStream> = (0..40).map(|_| connect(quorum)).collect();
    // The server accepts them in their order.
    for mut stream in silent.drain(32..) {
        assert!(!matches!(stream.read(&mut [0]), Ok(1)), "it is closed without a word");
    }
    // FOLLOWERINFO: after a connection has introduced itself, there is room for another one.
    for server in [77_i64, 78] {
        let mut learner = silent.pop().unwrap();
        learner.write_all(&[0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20]).unwrap();
        learner.write_all(&server.to_be_bytes()).unwrap();
        learner.write_all(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).unwrap();
        let mut kind = [0; 4];
        learner.read_exact(&mut kind).unwrap();
        assert_eq!(kind, [0, 0, 0, 17], "LEADERINFO");
        silent.insert(0, connect(quorum));
    }
    client.create("/still-there", b"").unwrap();
}
