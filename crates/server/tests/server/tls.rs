//! TLS for clients, byte by byte: valid and invalid certificates of openssl, keytool and other
//! tools, and the identities that they give.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;
use zebu_auth::store::{PasswordSource, StoreFile};
use zebu_auth::tls::{Common, Protocol, client};
use zebu_testkit::connection::PATIENCE;
use zebu_testkit::wire::{OPEN, Reader, Writer, err, op};

use crate::client::Client;
use crate::running::{Running, wait};

pub fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../auth/tests/fixtures", name].iter().collect()
}

/// A key and its certificate in one file.
pub fn pair(name: &str, dir: &Path) -> PathBuf {
    let mut text = fs::read(fixture(&format!("{name}.key"))).unwrap();
    text.extend(fs::read(fixture(&format!("{name}.pem"))).unwrap());
    let path = dir.join(format!("{name}-pair.pem"));
    fs::write(&path, text).unwrap();
    path
}

/// The configuration of a client that trusts the tests' authority and presents the certificate of
/// that `name`, if any.
pub fn config(name: Option<&str>, protocol: Protocol) -> Arc<ClientConfig> {
    config_of(name, protocol, true)
}

fn config_of(name: Option<&str>, protocol: Protocol, is_name_checked: bool) -> Arc<ClientConfig> {
    let dir = tempfile::tempdir().unwrap();
    config_at(name.map(|name| pair(name, dir.path())), protocol, is_name_checked)
}

/// The same, with the key and the chain of certificates from a file.
pub fn config_at(
    own: Option<PathBuf>,
    protocol: Protocol,
    is_name_checked: bool,
) -> Arc<ClientConfig> {
    let store = |path| StoreFile { path, password: PasswordSource::None };
    let mut common = Common::trusting(store(fixture("ca.pem")).trusted().unwrap());
    common.protocols = vec![protocol];
    let identity = own.map(|path| {
        // Invalid certificates are presented, too: they are read as of a time at which they are
        // valid.
        let der = &store(path.clone()).trusted().unwrap()[0];
        let facts = zebu_auth::certificate::Facts::of(der).unwrap();
        store(path).identity(facts.not_before).unwrap()
    });
    Arc::new(client(&common, identity.as_ref(), is_name_checked).unwrap())
}

fn name() -> ServerName<'static> {
    ServerName::try_from("127.0.0.1").unwrap()
}

/// A TLS connection, before its handshake.
pub fn connect(port: u16, config: Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(ClientConnection::new(config, name()).unwrap(), socket)
}

/// Whether the server accepts that client: it answers a four-letter word.
pub fn is_let_in(port: u16, config: Arc<ClientConfig>) -> bool {
    let mut stream = connect(port, config);
    let mut answer = Vec::new();
    let _ = stream.write_all(b"ruok");
    let _ = stream.read_to_end(&mut answer);
    answer == b"imok"
}

/// A local port that forwards every connection to that port over TLS.
pub fn tunnel(port: u16, config: Arc<ClientConfig>) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((mut plain, _)) = listener.accept().await {
                let connector = TlsConnector::from(config.clone());
                tokio::spawn(async move {
                    let Ok(socket) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await
                    else {
                        return;
                    };
                    if let Ok(mut secure) = connector.connect(name(), socket).await {
                        let _ = tokio::io::copy_bidirectional(&mut plain, &mut secure).await;
                    }
                });
            }
        });
    });
    own
}

/// Settings of a server with a TLS port, and the directory of its stores.
fn settings(dir: &TempDir, more: &[&str]) -> Vec<String> {
    let mut settings = vec![
        "secureClientPort=0".to_owned(),
        format!("ssl.keyStore.location={}", pair("server", dir.path()).display()),
        format!("ssl.trustStore.location={}", fixture("ca.pem").display()),
    ];
    settings.extend(more.iter().map(|more| (*more).to_owned()));
    settings
}

/// A server with a TLS port.
pub struct Secure {
    pub running: Running,
    pub port: u16,
    _stores: TempDir,
}

/// Starts a server that trusts the tests' authority.
pub fn start(more: &[&str]) -> Secure {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(&dir, more);
    let running = Running::new(&settings.iter().map(String::as_str).collect::<Vec<_>>());
    let port = running.server().secure_port().unwrap();
    Secure { running, port, _stores: dir }
}

pub fn who_am_i(client: &mut Client) -> Vec<(String, String)> {
    let reply = client.call(op::WHO_AM_I, &Writer::new());
    let mut body = Reader::new(&reply.body);
    body.vector(|pair| Ok((pair.string()?, pair.string()?))).unwrap()
}

#[test]
fn a_session_over_tls_is_like_any_other() {
    let Secure { running, port, .. } = start(&[]);
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let tunnel = tunnel(port, config(Some("client"), protocol));
        let mut client = Client::new(tunnel);
        let mut other = running.client();
        let path = format!("/{}", protocol.name());
        // The largest request, in both directions: many records.
        let data: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        client.create_with(&path, &data, OPEN, 0).unwrap();
        let reply = client.call(op::GET_DATA, &Writer::new().string(&path).bool(true));
        assert!(Reader::new(&reply.body).buffer().unwrap() == data);
        // A notification arrives without a request.
        other.call(op::SET_DATA, &Writer::new().string(&path).buffer(b"x").int(-1));
        assert_eq!(client.event().path, path);
        // Many requests at once, and all their answers.
        for _ in 0..1000 {
            client.post(op::GET_DATA, &Writer::new().string(&path).bool(false));
        }
        for _ in 0..1000 {
            assert_eq!(client.reply().unwrap().err, err::OK);
        }
        assert_eq!(client.call(op::CLOSE_SESSION, &Writer::new()).err, err::OK);
        assert!(client.raw.is_closed());
    }
    assert!(is_let_in(port, config(Some("client"), Protocol::Tls13)), "words are answered, too");
    assert!(running.metric("tls_certificate_seconds_left").unwrap() > 86_400.0);
    assert!(running.word("conf").contains("secureClientPort=0"));
}

#[test]
fn a_slow_reader_of_many_bytes_gets_them_all() {
    let Secure { running, port, .. } = start(&[]);
    let mut writer = running.client();
    let data = vec![7; 1_000_000];
    writer.create_with("/large", &data, OPEN, 0).unwrap();
    let mut client = Client::new(tunnel(port, config(Some("client"), Protocol::Tls13)));
    for _ in 0..40 {
        client.post(op::GET_DATA, &Writer::new().string("/large").bool(false));
    }
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..40 {
        let reply = client.reply().unwrap();
        assert!(Reader::new(&reply.body).buffer().unwrap() == data);
    }
    client.ping();
}

/// ACL-15: the subject of a certificate is an id, and the subject of the super user has all
/// permissions.
#[test]
fn a_certificate_says_who_a_client_is() {
    let Secure { running, port, .. } = start(&[]);
    let mut client = Client::new(tunnel(port, config(Some("client"), Protocol::Tls13)));
    let ids = who_am_i(&mut client);
    let subject = &ids.iter().find(|(scheme, _)| scheme == "x509").unwrap().1;
    assert!(
        subject.contains("UID=u1") || subject.contains("0.9.2342.19200300.100.1.1="),
        "{subject}"
    );
    client.create_with("/mine", b"", &[(31, "auth", "")], 0).unwrap();
    client.create_with("/named", b"", &[(31, "x509", subject)], 0).unwrap();
    for path in ["/mine", "/named"] {
        let read = Writer::new().string(path).bool(false);
        assert_eq!(running.client().call(op::GET_DATA, &read).err, err::NO_AUTH);
        assert_eq!(client.call(op::GET_DATA, &read).err, err::OK);
        let mut other = Client::new(tunnel(port, config(Some("server"), Protocol::Tls13)));
        assert_eq!(other.call(op::GET_DATA, &read).err, err::NO_AUTH);
    }
    assert_eq!(client.create_with("/odd", b"", &[(31, "x509", "amy")], 0), Err(err::INVALID_ACL));
    // An auth packet neither adds an id to a certificate nor replaces the certificate.
    let packet = Writer::new().int(0).string("x509").buffer(b"");
    client.post_as(-4, op::AUTH, &packet);
    assert_eq!(client.reply().unwrap().err, err::OK);
    let mut plain = running.client();
    plain.post_as(-4, op::AUTH, &packet);
    assert_eq!(plain.reply().unwrap().err, err::AUTH_FAILED);
    drop(running);

    let superuser = format!("X509AuthenticationProvider.superUser={subject}");
    let Secure { running, port, .. } = start(&[&superuser]);
    let mut owner = running.client();
    owner.create_with("/locked", b"", &[(31, "digest", "amy:x")], 0).unwrap();
    let mut client = Client::new(tunnel(port, config(Some("client"), Protocol::Tls13)));
    let read = Writer::new().string("/locked").bool(false);
    assert_eq!(client.call(op::GET_DATA, &read).err, err::OK);
    assert_eq!(owner.call(op::GET_DATA, &read).err, err::NO_AUTH);
}

/// The server closes refused connections, with a TLS alert where there is one; other clients are
/// served.
#[test]
fn bad_certificates_and_other_protocols_are_refused() {
    let revocations = format!("zebu.ssl.crlFile={}", fixture("ca.crl").display());
    let Secure { running, port, .. } =
        start(&["ssl.crl=true", &revocations, "ssl.enabledProtocols=TLSv1.3"]);
    let mut client = Client::new(tunnel(port, config(Some("client"), Protocol::Tls13)));
    for (name, why) in [
        (None, "no certificate"),
        (Some("foreign"), "another authority"),
        (Some("expired"), "an old certificate"),
        (Some("future"), "a certificate of tomorrow"),
        (Some("revoked"), "a revoked certificate"),
    ] {
        assert!(!is_let_in(port, config(name, Protocol::Tls13)), "{why}");
    }
    assert!(!is_let_in(port, config(Some("client"), Protocol::Tls12)), "an older version");
    // Plain text at a TLS port, and the reverse.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"ruok").unwrap();
    plain.write_all(&[0; 60]).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"imok"));
    assert!(!is_let_in(running.port, config(Some("client"), Protocol::Tls13)));
    // The connection at the other port, and the connection of the four-letter word itself.
    assert_eq!(running.metric("non_mtls_local_conn_count"), Some(2.0));
    assert_eq!(running.metric("non_mtls_remote_conn_count"), Some(0.0));
    // A client may notice the end of its connection before the server has counted it.
    wait("all are counted", || running.metric("unsuccessful_handshake") >= Some(7.0));
    assert_eq!(running.metric("auth_failed_count"), running.metric("unsuccessful_handshake"));
    client.ping();
    assert!(is_let_in(port, config(Some("client"), Protocol::Tls13)));
}

#[test]
fn clients_may_do_without_a_certificate_where_that_is_configured() {
    for (setting, foreign) in [("ssl.clientAuth=want", false), ("ssl.clientAuth=none", true)] {
        let Secure { running: _running, port, .. } = start(&[setting]);
        let mut client = Client::new(tunnel(port, config(None, Protocol::Tls13)));
        assert!(who_am_i(&mut client).iter().all(|(scheme, _)| scheme == "ip"));
        assert_eq!(is_let_in(port, config(Some("foreign"), Protocol::Tls13)), foreign);
    }
}

/// The certificate of a client must contain the address from which it connects.
#[test]
fn a_clients_host_is_checked_where_that_is_configured() {
    let Secure { running: _running, port, .. } = start(&["ssl.clientHostnameVerification=true"]);
    assert!(is_let_in(port, config(Some("server"), Protocol::Tls13)), "it is for 127.0.0.1");
    assert!(!is_let_in(port, config(Some("client"), Protocol::Tls13)));
}

#[test]
fn one_port_takes_both_kinds() {
    let Secure { running, .. } = start(&[
        "client.portUnification=true",
        "ssl.handshakeDetectionTimeoutMillis=200",
        "netty.server.outstandingHandshake.limit=200",
    ]);
    let port = running.port;
    // A silent client and a slow client: neither delays the others.
    let mut silent = running.raw();
    let mut slow = running.raw();
    slow.send_raw(b"r");
    let mut client = Client::new(tunnel(port, config(Some("client"), Protocol::Tls13)));
    client.create_with("/both", b"", OPEN, 0).unwrap();
    assert_eq!(
        running.client().call(op::EXISTS, &Writer::new().string("/both").bool(false)).err,
        0
    );
    assert!(is_let_in(port, config(Some("client"), Protocol::Tls12)));
    assert_eq!(running.word("ruok"), "imok");
    slow.send_raw(b"uok");
    assert_eq!(slow.rest(), b"imok");
    std::thread::sleep(Duration::from_millis(400));
    silent.send_raw(b"ruok");
    assert_eq!(silent.rest(), b"imok");
}

/// Clients that begin a handshake and stop use one place each, for a limited time, and do not
/// affect served clients.
#[test]
fn idle_handshakes_are_bounded_and_end() {
    let Secure { running, port, .. } =
        start(&["netty.server.outstandingHandshake.limit=8", "nio.sessionlessCnxnTimeout=1000"]);
    let mut client = Client::new(tunnel(port, config(Some("client"), Protocol::Tls13)));
    let mut idle: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    client.ping();
    for stream in &mut idle {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    assert!(running.metric("tls_handshake_exceeded").unwrap() >= 12.0);
    assert_eq!(running.metric("outstanding_tls_handshake").unwrap(), 0.0);
    assert!(is_let_in(port, config(Some("client"), Protocol::Tls13)));
}

/// Whether the server closes a connection to a TLS port after this many bytes of one handshake
/// record.
pub fn is_cut_off(port: u16, bytes: usize) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A record of 16 KiB, with an even longer ClientHello.
    let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff, 3, 3];
    record.resize(bytes, 7);
    let _ = stream.write_all(&record); // the server may end it before all is there
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// An unauthenticated client may send at most 8 KiB before the server answers, and 32 KiB more with
/// its certificates.
#[test]
fn a_handshake_has_a_largest_size() {
    let Secure { running, port, .. } = start(&["nio.sessionlessCnxnTimeout=600000"]);
    assert!(is_cut_off(port, 8 << 10));
    let let_in = |authorities: usize| {
        let dir = tempfile::tempdir().unwrap();
        let mut text = fs::read(pair("client", dir.path())).unwrap();
        let authority = fs::read(fixture("ca.pem")).unwrap();
        (0..authorities).for_each(|_| text.extend(&authority));
        let path = dir.path().join("chain.pem");
        fs::write(&path, text).unwrap();
        is_let_in(port, config_at(Some(path), Protocol::Tls13, true))
    };
    assert!(let_in(16), "a long chain");
    assert!(!let_in(63), "a longer one");
    assert_eq!(running.metric("unsuccessful_handshake"), Some(2.0));
}

/// The server does not wait for slow bytes, in the handshake or after it.
#[test]
fn bytes_that_drip_do_not_keep_a_connection() {
    let Secure { running, port, .. } = start(&["nio.sessionlessCnxnTimeout=1500"]);
    let mut dripping = connect(port, config(Some("client"), Protocol::Tls13));
    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // The beginnings of a handshake record and of a connect request.
    let _ = plain.write_all(&[0x16, 3, 1, 16, 0]);
    let _ = dripping.write_all(&[0, 0, 16, 0]);
    let until = Instant::now() + PATIENCE;
    let (mut is_cut, mut is_expired) = (false, false);
    while !(is_cut && is_expired) {
        assert!(Instant::now() < until, "{is_cut} {is_expired}");
        is_cut = is_cut || plain.write_all(&[0]).is_err();
        let dripped = dripping.write_all(&[0]).and_then(|()| dripping.flush());
        is_expired = is_expired || dripped.is_err();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(running.metric("outstanding_tls_handshake").unwrap(), 0.0);
    soon("others are let in", || is_let_in(port, config(Some("client"), Protocol::Tls13)));
}

/// Waits until the condition holds.
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The first certificate that a server presents.
fn shown(port: u16) -> Option<Vec<u8>> {
    let mut stream = connect(port, config_of(Some("client"), Protocol::Tls13, false));
    let _ = stream.write_all(b"ruok");
    let _ = stream.read_to_end(&mut Vec::new());
    stream.conn.peer_certificates()?.first().map(|der| der.to_vec())
}

/// Lets a symbolic link name this directory, in one step.
fn point_to(link: &Path, directory: &Path) {
    let temporary = link.with_extension("tmp");
    std::os::unix::fs::symlink(directory, &temporary).unwrap();
    fs::rename(temporary, link).unwrap();
}

/// Files are swapped as in a container's volume, by a link to another directory. Half of a file
/// changes nothing.
#[test]
fn certificates_are_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let [old, new, half] = ["old", "new", "half"].map(|name| dir.path().join(name));
    for (directory, name) in [(&old, "server"), (&new, "client"), (&half, "server")] {
        fs::create_dir(directory).unwrap();
        let pair = pair(name, directory);
        fs::rename(pair, directory.join("key.pem")).unwrap();
    }
    let text = fs::read(half.join("key.pem")).unwrap();
    fs::write(half.join("key.pem"), &text[..text.len() / 2]).unwrap();
    let link = dir.path().join("data");
    point_to(&link, &old);
    let key_store = format!("ssl.keyStore.location={}", link.join("key.pem").display());
    let trust_store = format!("ssl.trustStore.location={}", fixture("ca.pem").display());
    let running = Running::new(&["secureClientPort=0", &key_store, &trust_store]);
    let port = running.server().secure_port().unwrap();
    let mut client = Client::new(tunnel(port, config(Some("client"), Protocol::Tls13)));
    let first = shown(port).unwrap();
    point_to(&link, &half);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(shown(port).unwrap(), first, "what cannot be read changes nothing");
    point_to(&link, &new);
    soon("the new certificate is shown", || shown(port).is_some_and(|shown| shown != first));
    client.ping();
}

/// Busy clients notice nothing when the files change, behind a link or in place, and new clients
/// connect all the time.
#[test]
fn certificates_change_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let directory = |name: &str| {
        let directory = dir.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::rename(pair(name, &directory), directory.join("key.pem")).unwrap();
        fs::copy(fixture("ca.pem"), directory.join("ca.pem")).unwrap();
        directory
    };
    let [old, new] = ["server", "renewed"].map(directory);
    let link = dir.path().join("data");
    point_to(&link, &old);
    let key_store = format!("ssl.keyStore.location={}", link.join("key.pem").display());
    let trust_store = format!("ssl.trustStore.location={}", link.join("ca.pem").display());
    let running = Running::new(&["secureClientPort=0", &key_store, &trust_store]);
    let port = running.server().secure_port().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy: Vec<_> = (0..4)
            .map(|number| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let path = format!("/{number}");
                    let config = config(Some("client"), Protocol::Tls13);
                    let mut client = Client::new(tunnel(port, config));
                    client.create(&path, b"").unwrap();
                    let mut count = 0_u32;
                    while !is_over.load(Ordering::Relaxed) {
                        count += 1;
                        client.set(&path, &count.to_be_bytes()).unwrap();
                        assert_eq!(client.get(&path).unwrap().0, count.to_be_bytes());
                    }
                    count
                })
            })
            .collect();
        let coming = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert!(is_let_in(port, config(Some("client"), Protocol::Tls13)));
                count += 1;
            }
            count
        });
        // In place, half of a file first; then the link changes to another directory, and back.
        let text = fs::read(new.join("key.pem")).unwrap();
        let changes: [&dyn Fn(); 3] = [
            &|| {
                fs::write(old.join("key.pem"), &text[..text.len() / 2]).unwrap();
                std::thread::sleep(Duration::from_millis(1500));
                fs::write(old.join("key.pem"), &text).unwrap();
            },
            &|| {
                fs::rename(pair("server", &new), new.join("key.pem")).unwrap();
                point_to(&link, &new);
            },
            &|| point_to(&link, &old),
        ];
        for change in changes {
            let before = shown(port).unwrap();
            change();
            soon("the other certificate", || shown(port).is_some_and(|shown| shown != before));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(coming.join().unwrap() > 0);
        assert!(busy.into_iter().all(|client| client.join().unwrap() > 0));
    });
    assert_eq!(running.metric("stale_sessions_expired"), Some(0.0));
    assert_eq!(running.metric("unsuccessful_handshake"), Some(0.0));
}

#[test]
fn stores_that_cannot_be_used_are_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let trust = format!("ssl.trustStore.location={}", fixture("ca.pem").display());
    for (store, password, text) in [
        ("none.pem", "", "none.pem: cannot be read"),
        (
            "keytool17.p12",
            "wrong",
            "keytool17.p12: the password is wrong; check the store's password",
        ),
        ("keytool17.p12", "", "keytool17.p12: it is encrypted and no password is set"),
        ("mismatched.pem", "", "mismatched.pem: "),
        ("ca.pem", "", "ca.pem: "),
    ] {
        let key = format!("ssl.keyStore.location={}", fixture(store).display());
        let password = format!("ssl.keyStore.password={password}");
        let refusal =
            Running::refusal(data.path(), &["secureClientPort=0", &key, &password, &trust]);
        assert!(refusal.contains(text), "{store}: {refusal}");
    }
    // The server detects every kind of store from its content.
    for store in ["keytool17.p12", "keytool.jks", "openssl3.p12"] {
        let key = format!("ssl.keyStore.location={}", fixture(store).display());
        let trust = format!("ssl.trustStore.location={}", fixture("trust.jks").display());
        let settings = [
            "ssl.keyStore.password=testpass",
            "ssl.trustStore.password=testpass",
            "secureClientPort=0",
        ];
        let settings: Vec<&str> = settings.into_iter().chain([&*key, &*trust]).collect();
        let running = Running::on(dir.path(), &settings);
        let port = running.server().secure_port().unwrap();
        assert!(is_let_in(port, config(Some("client"), Protocol::Tls13)), "{store}");
    }
}
