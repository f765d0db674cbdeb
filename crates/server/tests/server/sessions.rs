//! Sessions: creation, renewal, moves, expiry and close.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zebu_testkit::connection::Hello;
use zebu_testkit::wire::{Writer, err};

use crate::client::{Client, NoSession};
use crate::running::Running;

const DELETED: i32 = 2;

/// A session that expires soon, but not while the machine is busy.
fn short() -> Hello {
    Hello::timeout(3_000)
}

fn refused(running: &Running, hello: &Hello) -> NoSession {
    Client::hello(running.port, hello).map(|_| ()).unwrap_err()
}

/// SES-02.
#[test]
fn a_session_outlives_its_connection_and_the_server() {
    let running = Running::new(&[]);
    let mut client = running.client();
    client.ephemeral("/mine");
    let renewal = client.renewal();
    client.vanish();

    let running = running.restart(&[]);
    let mut other = running.client();
    assert!(other.exists("/mine"));
    let mut client = Client::hello(running.port, &renewal).unwrap();
    assert_eq!((client.session, &client.password), (renewal.session, &renewal.password));
    assert_eq!(client.timeout_ms, renewal.timeout_ms);
    assert_eq!(client.get("/mine").unwrap().1.ephemeral_owner, renewal.session);
    assert_ne!(other.session, client.session);

    client.close();
    assert!(!other.exists("/mine"));
    assert_eq!(refused(&running, &renewal), NoSession::Refused);
    let running = running.restart(&[]);
    assert!(!running.client().exists("/mine"));
}

/// SES-07, SES-18, SES-26.
#[test]
fn a_silent_session_expires_and_one_that_pings_does_not() {
    let running = Running::new(&[]);
    let mut silent = Client::hello(running.port, &short()).unwrap();
    silent.ephemeral("/silent");
    let renewal = silent.renewal();
    let mut pinging = Client::hello(running.port, &short()).unwrap();
    pinging.ephemeral("/pinging");
    pinging.watch("/silent");
    // Pings until the client is notified.
    let event = pinging.event();
    assert_eq!((event.kind, event.path.as_str()), (DELETED, "/silent"));
    assert!(pinging.exists("/pinging"));
    assert!(silent.reply().is_none(), "its connection is closed");
    assert_eq!(refused(&running, &renewal), NoSession::Refused);
    assert_eq!(running.metric("stale_sessions_expired"), Some(1.0));
}

/// SES-11.
#[test]
fn sessions_that_nobody_renews_after_a_restart_expire() {
    let running = Running::new(&[]);
    let mut client = Client::hello(running.port, &short()).unwrap();
    client.ephemeral("/mine");
    client.vanish();
    let running = running.restart(&[]);
    let mut other = running.client();
    other.watch("/mine");
    assert_eq!(other.event().kind, DELETED);
}

#[test]
fn who_does_not_know_the_password_is_refused_and_the_owner_notices_nothing() {
    let running = Running::new(&[]);
    let mut owner = running.client();
    owner.ephemeral("/mine");
    let mut wrong = owner.renewal();
    wrong.password[15] ^= 1;
    assert_eq!(refused(&running, &wrong), NoSession::Refused);
    wrong.password.clear();
    assert_eq!(refused(&running, &wrong), NoSession::Refused);
    owner.set("/mine", b"still").unwrap();
    let unknown = Hello { session: owner.session + 1, ..owner.renewal() };
    assert_eq!(refused(&running, &unknown), NoSession::Refused);
}

/// The password of an id as ZooKeeper computes it, from a session of a server without a secret.
fn computed(session: i64) -> Vec<u8> {
    zebu_proto::compatible_password(zebu_proto::SessionId(session)).to_vec()
}

#[test]
fn with_a_secret_nobody_computes_the_password_of_a_session() {
    let secrets = tempfile::tempdir().unwrap();
    let file = secrets.path().join("secret");
    std::fs::write(&file, "only the servers know what this says\n").unwrap();
    let setting = format!("zebu.sessionSecretFile={}", file.display());

    // Without a secret an attacker who sees `ephemeralOwner` knows the password.
    let running = Running::new(&[]);
    let mut early = running.client();
    early.ephemeral("/early");
    let early_renewal = early.renewal();
    assert_eq!(early_renewal.password, computed(early_renewal.session));
    early.vanish();

    // While an ensemble changes to keyed passwords, the old ones still open their sessions, and are
    // replaced.
    let running = running.restart(&[&setting, "zebu.sessionPasswords=acceptCompatible"]);
    let early = Client::hello(running.port, &early_renewal).unwrap();
    let renewal = early.renewal();
    assert_ne!(renewal.password, early_renewal.password);
    early.vanish();

    let running = running.restart(&[&setting]);
    let mut owner = Client::hello(running.port, &renewal).unwrap();
    let attack = Hello { password: computed(owner.session), ..owner.renewal() };
    assert_eq!(refused(&running, &attack), NoSession::Refused);
    owner.set("/early", b"still its owner's").unwrap();
    owner.vanish();

    // After a restart, a server with the same secret accepts the password again.
    let running = running.restart(&[&setting]);
    Client::hello(running.port, &renewal).unwrap().close();
}

#[test]
fn a_session_goes_on_at_the_last_connection_that_renewed_it() {
    let running = Running::new(&[]);
    let mut before = running.client();
    before.ephemeral("/mine");
    let mut after = Client::hello(running.port, &before.renewal()).unwrap();
    assert!(before.reply().is_none(), "the other one is closed");
    assert!(after.exists("/mine"));
    // The end of the old connection does not touch the session.
    after.set("/mine", b"x").unwrap();
    assert_eq!(running.metric("connection_revalidate_count"), Some(1.0));
}

/// SES-06.
#[test]
fn a_client_that_has_seen_more_than_the_server_is_not_let_in() {
    let running = Running::new(&[]);
    let ahead = Hello { last_zxid: 1 << 40, ..Hello::default() };
    assert_eq!(refused(&running, &ahead), NoSession::Closed);
    running.client();
}

/// SES-09.
#[test]
fn timeouts_are_brought_into_the_servers_range() {
    let timeout = |running: &Running, wish| {
        Client::hello(running.port, &Hello::timeout(wish)).unwrap().timeout_ms
    };
    let running = Running::new(&["maxSessionTimeout=-1"]);
    assert_eq!([-5, 1, 1234, 99_999].map(|wish| timeout(&running, wish)), [400, 400, 1234, 4000]);
    let running = running.restart(&["minSessionTimeout=1000", "maxSessionTimeout=1500"]);
    assert_eq!([1, 1234, 99_999].map(|wish| timeout(&running, wish)), [1000, 1234, 1500]);
    let running = running.restart(&["tickTime=300", "maxSessionTimeout=-1"]);
    assert_eq!([1, 99_999].map(|wish| timeout(&running, wish)), [600, 6000]);
}

#[test]
fn old_clients_get_an_answer_without_the_read_only_byte() {
    let running = Running::new(&[]);
    let bytes = |read_only| {
        let hello = Hello { read_only, ..Hello::default() };
        Client::hello(running.port, &hello).unwrap().hello_bytes
    };
    assert_eq!([None, Some(false), Some(true)].map(bytes), [36, 37, 37]);
}

#[test]
fn a_connection_has_so_long_for_its_handshake() {
    let running = Running::new(&["nio.sessionlessCnxnTimeout=2000"]);
    let mut raw = running.raw();
    raw.send_raw(&4096_i32.to_be_bytes());
    // The deadline applies to the whole handshake, not to each byte.
    for _ in 0..4095 {
        raw.send_raw(&[0]);
        if running.metric("sessionless_connections_expired") != Some(0.0) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(running.metric("sessionless_connections_expired"), Some(1.0));
    assert!(raw.is_closed());
}

#[test]
fn clients_that_vanish_before_they_are_answered_leave_nothing_behind() {
    let running = Running::new(&[]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let mut raw = running.raw();
                    raw.send(&short().bytes());
                    drop(raw);
                }
            });
        }
    });
    running.client().close();
    running.wait_metric("num_alive_connections", |n| n == 1.0);
    running.wait_metric("global_sessions", |n| n == 0.0);
}

#[test]
fn closing_a_session_removes_its_ephemerals_and_tells_who_watches() {
    let running = Running::new(&[]);
    let mut watcher = running.client();
    let mut client = running.client();
    client.create("/parent", b"").unwrap();
    for path in ["/parent/a", "/parent/b", "/c"] {
        client.ephemeral(path);
        watcher.watch(path);
    }
    client.close();
    let mut gone: Vec<String> = (0..3).map(|_| watcher.event().path).collect();
    gone.sort();
    assert_eq!(gone, ["/c", "/parent/a", "/parent/b"]);
    assert_eq!(watcher.get("/parent").unwrap().1.num_children, 0);
    assert_eq!(watcher.get("/c").unwrap_err(), err::NO_NODE);
}

#[test]
fn the_end_of_a_session_names_its_ephemerals_in_the_log_unless_switched_off() {
    for (setting, times) in
        [("closeSessionTxn.enabled=true", 2), ("closeSessionTxn.enabled=false", 1)]
    {
        let running = Running::new(&[setting]);
        let mut client = running.client();
        client.ephemeral("/a-name-of-its-own");
        client.close();
        let files = running.files();
        let dir = running.stop();
        let log = crate::running::files(&files, "log.").pop().unwrap();
        let bytes = std::fs::read(files.join(log)).unwrap();
        let name = b"/a-name-of-its-own";
        let found = bytes.windows(name.len()).filter(|window| window == name).count();
        assert_eq!(found, times, "{setting}");
        // Decoding it gives the same value.
        let running = Running::on(dir.path(), &[]);
        assert!(!running.client().exists("/a-name-of-its-own"));
    }
}

#[test]
fn the_end_of_a_session_lists_its_ephemerals_by_path() {
    let running = Running::new(&[]);
    let mut client = running.client();
    for path in ["/b", "/c", "/a"] {
        client.ephemeral(path);
    }
    client.close();
    let files = running.files();
    let _dir = running.stop();
    let log = crate::running::files(&files, "log.").pop().unwrap();
    let bytes = std::fs::read(files.join(log)).unwrap();
    let listed = Writer::new().strings(&["/a", "/b", "/c"]).done();
    assert!(bytes.windows(listed.len()).any(|window| window == listed));
}

#[test]
fn the_first_part_of_a_session_id_is_the_time_of_day() {
    const BITS: i64 = (1 << 40) - 1;
    let now_ms = || {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        since_1970.as_millis() as i64 & BITS
    };
    let before = now_ms();
    let running = Running::new(&[]);
    let started = (running.client().session >> 16) & BITS;
    assert!((before..=now_ms()).contains(&started), "{started} is not the start of the server");
}
