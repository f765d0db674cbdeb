//! Sessions over TLS: a TLS proxy in front of a server in this process, with certificates made by
//! the tests.
#![cfg(feature = "tls")]

#[path = "tls/front.rs"]
mod front;
#[path = "support/lonely.rs"]
mod lonely;
#[path = "tls/made.rs"]
mod made;

mod embedded {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in"));
}

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use zebu_client::{
    Acls, Client, Connector, CreateMode, ErrorKind, HostProvider, Servers, SessionState, Tls,
    Version, blocking,
};

use embedded::Server;
use front::{Front, Rules};
use lonely::lonely_server;
use made::Authority;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens")
}

/// A file of the tests of `zebu-auth`.
fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "auth", "tests", "fixtures", name].iter().collect()
}

fn connector(tls: Tls) -> Connector {
    Connector::new().session_timeout(Duration::from_secs(10)).tls(tls)
}

/// Opens a session that is never established, and waits until its client reports the reason.
async fn trouble(tls: Tls, servers: &str, words: &str) -> String {
    let client = connector(tls).start(servers).unwrap();
    why(&client, words).await
}

async fn why(client: &Client, words: &str) -> String {
    let told = async {
        loop {
            match client.trouble() {
                Some(trouble) if trouble.contains(words) => return trouble,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE / 10, told).await;
    let told = told.unwrap_or_else(|_| panic!("not {words:?}, but {:?}", client.trouble()));
    assert_eq!(client.state(), SessionState::Connecting);
    told
}

/// A session over TLS writes, watches, loses its connection and continues.
async fn a_session_lives(client: &Client, front: &Front) {
    let acl = Acls::open_to_all();
    soon(client.create("/n", "1", CreateMode::Ephemeral, &acl)).await.unwrap();
    let (data, _, changed) = soon(client.watch_data("/n")).await.unwrap();
    assert_eq!(data, "1");
    let session = client.session_id();
    front.cut();
    // Far more than a TLS record or a socket buffer can hold.
    let many: Vec<_> = (0..64).map(|_| client.set_data("/n", [7; 100_000], Version::ANY)).collect();
    let mut done = 0;
    for one in many {
        done += usize::from(soon(one).await.is_ok());
    }
    if done == 0 {
        soon(client.set_data("/n", [7; 100_000], Version::ANY)).await.unwrap();
    }
    soon(changed).await.unwrap();
    assert_eq!(client.session_id(), session);
    assert_eq!(soon(client.get_data("/n")).await.unwrap().0, [7; 100_000].as_slice());
}

#[tokio::test]
async fn sessions_live_over_both_versions() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let rules = Rules::new(&authority.server(&["localhost"]));
        let front = Front::start(server.address(), rules).await;
        let tls = Tls::new().trust_store(authority.file()).protocols(protocol);
        let client = soon(connector(tls).connect(&front.by_name())).await.unwrap();
        a_session_lives(&client, &front).await;
        soon(client.close()).await.unwrap();
        assert_eq!(front.versions(), [protocol], "{protocol}");
        // The client has ended each connection with close_notify, except for those that were cut.
        soon(front.all_parted()).await;
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate_and_learns_that_it_needs_one() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let rules = Rules::new(&authority.server(&["localhost"])).wanting(&authority);
        let front = Front::start(server.address(), rules).await;
        let tls = Tls::new().trust_store(authority.file()).protocols(protocol);
        let amy = authority.client("amy");
        let client = soon(connector(tls.clone().key_store(&amy)).connect(&front.by_name())).await;
        soon(client.unwrap().close()).await.unwrap();

        let told = trouble(tls.clone(), &front.by_name(), "key store").await;
        assert!(told.contains("TLS"), "{told}");
        assert!(told.contains("certificate of this client"), "{told}");

        // A certificate of another authority.
        let other = Authority::named("another authority");
        let stranger = other.client("amy");
        let told = trouble(tls.key_store(stranger), &front.by_name(), "refuses the cert").await;
        assert!(told.contains("the server refuses the certificate of this client ("), "{told}");
    }
}

#[tokio::test]
async fn servers_that_are_not_to_be_trusted_are_not_used_and_it_is_told_why() {
    let server = Server::start(&[]);
    let (authority, other) = (Authority::new(), Authority::named("another authority"));
    let namesake = Authority::new();
    let good = authority.server(&["localhost"]);
    let cases = [
        (
            &namesake,
            good.clone(),
            "the server's certificate is not signed by the trusted authority",
        ),
        (&other, good, "the server's certificate is not of a trusted authority; add the auth"),
        (
            &authority,
            authority.expired("localhost"),
            "the server's certificate has expired: it was valid until 2020-02-01T00:00:00Z",
        ),
        (
            &authority,
            authority.server(&["zk1.example.org", "10.0.0.1"]),
            "wrong server: the certificate is for zk1.example.org, 10.0.0.1 and not for localhost",
        ),
    ];
    for (trusted, certificate, words) in cases {
        let front = Front::start(server.address(), Rules::new(&certificate)).await;
        let tls = Tls::new().trust_store(trusted.file());
        let told = trouble(tls.clone(), &front.by_name(), "TLS handshake failed").await;
        let told_of = format!("{}: TLS handshake failed: {words}", front.address);
        assert!(told.contains(&told_of), "{told}");
        // A caller that waits for a connection also learns the reason.
        let connector = connector(tls).connection_wait(Duration::from_millis(500));
        let error = soon(connector.connect(&front.by_name())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotExecuted);
        assert!(error.reason().unwrap().contains(words), "{error}");
    }
}

#[tokio::test]
async fn certificates_are_for_the_name_or_the_address_that_is_connected_to() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    let trusting = || Tls::new().trust_store(authority.file());
    let front = async |names: &[&str]| {
        Front::start(server.address(), Rules::new(&authority.server(names))).await
    };
    let by_name = front(&["localhost"]).await;
    soon(connector(trusting()).connect(&by_name.by_name())).await.unwrap();
    let told = trouble(trusting(), &by_name.address.to_string(), "wrong server").await;
    assert!(told.contains("the certificate is for localhost and not for 127.0.0.1"), "{told}");

    let by_address = front(&["127.0.0.1"]).await;
    soon(connector(trusting()).connect(&by_address.address.to_string())).await.unwrap();
    let told = trouble(trusting(), &by_address.by_name(), "wrong server").await;
    assert!(told.contains("the certificate is for 127.0.0.1 and not for localhost"), "{told}");
    let careless = trusting().hostname_verification(false);
    soon(connector(careless).connect(&by_address.by_name())).await.unwrap();
}

/// A resolver of the test's own, with a name that no other resolver knows.
struct Named(&'static str, SocketAddr);

impl HostProvider for Named {
    fn servers(&self) -> Servers<'_> {
        Box::pin(async { Ok(vec![self.1]) })
    }

    fn name(&self, server: SocketAddr) -> Option<String> {
        (server == self.1).then(|| self.0.to_owned())
    }
}

#[tokio::test]
async fn host_providers_say_the_name() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    let rules = Rules::new(&authority.server(&["zk1.example.org"]));
    let front = Front::start(server.address(), rules).await;
    let connector = connector(Tls::new().trust_store(authority.file()));
    let named = |name| Named(name, front.address);
    soon(connector.clone().connect_to(named("zk1.example.org"))).await.unwrap();
    // A custom order of servers does not change their names.
    let ranked = connector.clone().prefer(|_| 0);
    soon(ranked.connect_to(named("zk1.example.org"))).await.unwrap();
    let client = connector.start_with(named("zk2.example.org")).unwrap();
    let told = why(&client, "wrong server").await;
    assert!(told.contains("is for zk1.example.org and not for zk2.example.org"), "{told}");
}

#[tokio::test]
async fn plain_text_and_tls_do_not_understand_each_other_and_say_so() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    let trusting = || Tls::new().trust_store(authority.file());
    // A ZooKeeper server closes the connection after an invalid request.
    let told = trouble(trusting(), &server.address().to_string(), "does its port speak TLS").await;
    assert!(told.contains("TLS handshake failed: the server "), "{told}");
    // Other servers answer.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 100]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let told = trouble(trusting(), &address, "is not TLS").await;
    assert!(told.contains("the server's answer is not TLS; does its port speak TLS?"));

    let rules = Rules::new(&authority.server(&["localhost"]));
    let front = Front::start(server.address(), rules).await;
    let client = Connector::new().start(&front.by_name()).unwrap();
    let told = why(&client, "speaks TLS").await;
    assert!(told.contains("the server's port speaks TLS; connect over TLS, or"), "{told}");
}

#[tokio::test]
async fn both_versions_are_offered_unless_configured() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let rules = Rules::new(&authority.server(&["localhost"])).speaking(protocol);
        let front = Front::start(server.address(), rules).await;
        let tls = Tls::new().trust_store(authority.file());
        let client = soon(connector(tls).connect(&front.by_name())).await.unwrap();
        soon(client.close()).await.unwrap();
        assert_eq!(front.versions(), [protocol]);
    }
}

#[tokio::test]
async fn protocols_that_do_not_meet_are_named() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    let rules = Rules::new(&authority.server(&["localhost"])).speaking("TLSv1.3");
    let front = Front::start(server.address(), rules).await;
    let tls = Tls::new().trust_store(authority.file()).protocols("TLSv1.2");
    let told = trouble(tls, &front.by_name(), "in common").await;
    assert!(told.contains("no protocol or cipher suite in common with this client ("), "{told}");
}

#[tokio::test]
async fn stores_of_java_are_taken() {
    let server = Server::start(&[]);
    let rules = Rules::of_fixtures();
    let front = Front::start(server.address(), rules).await;
    for (trust, key) in [("trust.jks", "keytool.jks"), ("trust17.p12", "keytool17.p12")] {
        let tls = Tls::new()
            .trust_store(fixture(trust))
            .trust_store_password("testpass")
            .key_store(fixture(key))
            .key_store_password("testpass");
        let client = soon(connector(tls).connect(&front.by_name())).await.unwrap();
        soon(client.close()).await.unwrap();
    }
    let wrong = Tls::new().trust_store(fixture("trust.jks")).trust_store_password("wrong");
    let error = connector(wrong).start(&front.by_name()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("trust.jks: the password is wrong, or the"), "{error}");
}

/// A server that accepts the connection and never answers, and a working server after it.
#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up_for_another_server() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let kept = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            kept.push(stream);
        }
    });
    let tls = Tls::new().trust_store(authority.file());
    let words = "connected, but the TLS handshake is not finished yet";
    let told = trouble(tls.clone(), &address.to_string(), words).await;
    assert_eq!(told, format!("{address}: {words}"));

    let rules = Rules::new(&authority.server(&["127.0.0.1"]));
    let front = Front::start(server.address(), rules).await;
    let first = move |server: SocketAddr| u32::from(server != address);
    let connector = Connector::new().session_timeout(Duration::from_secs(4)).tls(tls).prefer(first);
    let client = connector.start(&format!("{address},{}", front.address)).unwrap();
    soon(client.connected()).await.unwrap();
    assert_eq!(client.server(), Some(front.address));
    kept.abort();
}

/// API-13: the client leaves a server without a quorum when another one reports, over TLS, that it
/// has a quorum.
#[tokio::test]
async fn the_probe_of_read_only_sessions_goes_over_tls() {
    let authority = Authority::new();
    let certificate = authority.server(&["127.0.0.1"]);
    let lonely = Front::start(lonely_server().await, Rules::new(&certificate)).await;
    let mut server = Server::start(&["4lw.commands.whitelist=isro"]);
    let front = Front::start(server.address(), Rules::new(&certificate)).await;
    server.stop();
    let tls = Tls::new().trust_store(authority.file());
    let servers = format!("{},{}", lonely.address, front.address);
    let client = soon(connector(tls).allow_read_only().connect(&servers)).await.unwrap();
    assert_eq!(client.state(), SessionState::ConnectedReadOnly);
    let mut events = client.session_events();
    server.launch(&["4lw.commands.whitelist=isro"]);
    while soon(events.next()).await.expect("it lasts") != SessionState::Connected {}
    assert_eq!(client.server(), Some(front.address));
}

#[tokio::test]
async fn a_renewed_trust_store_counts_for_the_next_connection() {
    let server = Server::start(&[]);
    let (old, new) = (Authority::new(), Authority::new());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::copy(old.file(), file.path()).unwrap();
    let front = Front::start(server.address(), Rules::new(&old.server(&["localhost"]))).await;
    let tls = Tls::new().trust_store(file.path());
    let client = soon(connector(tls).connect(&front.by_name())).await.unwrap();
    let session = client.session_id();
    let mut events = client.session_events();
    front.obey(Rules::new(&new.server(&["localhost"])));
    let both = [std::fs::read(old.file()).unwrap(), std::fs::read(new.file()).unwrap()].concat();
    std::fs::write(file.path(), both).unwrap();
    front.cut();
    while soon(events.next()).await.expect("it lasts") != SessionState::Connected {}
    assert_eq!(client.session_id(), session);
}

#[test]
fn the_blocking_client_speaks_tls() {
    let server = Server::start(&[]);
    let authority = Authority::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rules = Rules::new(&authority.server(&["localhost"]));
    let front = runtime.block_on(Front::start(server.address(), rules));
    let tls = Tls::new().trust_store(authority.file());
    let client = blocking::Client::open(connector(tls), &front.by_name()).unwrap();
    client.set_data("/", "over TLS", Version::ANY).unwrap();
    drop(client);
    let missing = Tls::new().trust_store("/no/such/file.pem");
    let error = blocking::Client::open(connector(missing), &front.by_name()).unwrap_err();
    assert!(error.to_string().starts_with("TLS cannot be used: /no/such/file.pem: cannot be"));
}
