//! Our own client and shell over TLS, to the original's `secureClientPort`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use zebu_client::{Acls, Client, Connector, CreateMode, Identity, SessionState, Tls, Version};
use zebu_interop::server::{Kind, Options, PATIENCE, Server, free_port};
use zebu_interop::shell::Shell;

/// A store of the tests of `zebu-auth`; the password of each is `testpass`.
fn store(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/interop");
    root.join("crates/auth/tests/fixtures").join(name)
}

/// A server with a port for TLS beside the one for plain text.
fn server(secure: u16) -> Result<Server> {
    let options = Options::default()
        .config("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
        .config("secureClientPort", secure)
        .config("secureClientPortAddress", "127.0.0.1")
        .config("ssl.keyStore.location", store("keytool17.p12").display())
        .config("ssl.keyStore.password", "testpass")
        .config("ssl.trustStore.location", store("trust17.p12").display())
        .config("ssl.trustStore.password", "testpass")
        .config("ssl.enabledProtocols", "TLSv1.2,TLSv1.3")
        .config("ssl.ciphersuites", "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
    Server::start(Kind::Java395, &options)
}

fn trusting() -> Tls {
    Tls::new().trust_store(store("trust.jks")).trust_store_password("testpass")
}

fn as_somebody() -> Tls {
    trusting().key_store(store("keytool.jks")).key_store_password("testpass")
}

async fn soon<T>(future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(PATIENCE, future).await.context("it never happened")
}

fn connector(tls: Tls) -> Connector {
    Connector::new().session_timeout(Duration::from_secs(10)).connection_wait(PATIENCE).tls(tls)
}

async fn trouble(client: &Client, words: &str) -> Result<String> {
    soon(async {
        loop {
            match client.trouble() {
                Some(trouble) if trouble.contains(words) => return trouble,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_over_tls_are_served_by_the_original() -> Result<()> {
    let secure = free_port();
    let mut server = server(secure)?;
    let servers = format!("localhost:{secure}");
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let connector = connector(as_somebody().protocols(protocol));
        let client = soon(connector.connect(&servers)).await??;
        // The certificate is an identity.
        let identities: Vec<Identity> = soon(client.who_am_i()).await??;
        assert!(identities.iter().any(|it| it.scheme == "x509"), "{identities:?}");
        // A request and an answer of many records.
        let acl = Acls::open_to_all();
        soon(client.create("/n", [7; 900_000], CreateMode::Ephemeral, &acl)).await??;
        let (data, _, changed) = soon(client.watch_data("/n")).await??;
        assert_eq!(data, [7; 900_000].as_slice());
        // Many requests at once.
        let many: Vec<_> =
            (0..500).map(|n| client.set_data("/n", n.to_string(), Version::ANY)).collect();
        for one in many {
            soon(one).await??;
        }
        soon(changed).await??;
        soon(client.close()).await??;
    }
    // A session outlives its server.
    let client = soon(connector(as_somebody()).connect(&servers)).await??;
    let mut events = client.session_events();
    server.kill()?;
    server.launch()?;
    while soon(events.next()).await? != Some(SessionState::Connected) {}
    soon(client.close()).await??;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_original_refuses_is_told() -> Result<()> {
    let secure = free_port();
    let server = server(secure)?;
    let servers = format!("localhost:{secure}");
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let client = connector(trusting().protocols(protocol)).start(&servers)?;
        let told = trouble(&client, "key store").await?;
        assert!(told.contains("the server refuses the handshake (BadCertificate)"), "{told}");
    }
    let client = connector(as_somebody()).start(&server.address().to_string())?;
    let told = trouble(&client, "TLS handshake failed").await?;
    assert!(told.contains("the server closed the connection; does its port speak TLS?"), "{told}");
    Ok(())
}

/// Both shells are told the same by the same properties, from a file and from Java's options.
#[test]
fn both_shells_take_the_same_properties() -> Result<()> {
    let secure = free_port();
    let _server = server(secure)?;
    let servers = format!("localhost:{secure}");
    let properties = [
        ("zookeeper.client.secure", "true".to_owned()),
        ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty".to_owned()),
        ("zookeeper.ssl.keyStore.location", store("keytool.jks").display().to_string()),
        ("zookeeper.ssl.keyStore.password", "testpass".to_owned()),
        ("zookeeper.ssl.keyStore.type", "JKS".to_owned()),
        ("zookeeper.ssl.trustStore.location", store("trust17.p12").display().to_string()),
        ("zookeeper.ssl.trustStore.password", "testpass".to_owned()),
        ("zookeeper.ssl.enabledProtocols", "TLSv1.2".to_owned()),
    ];
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("client.properties");
    let lines = properties.iter().map(|(key, value)| format!("{key}={value}\n"));
    std::fs::write(&file, lines.collect::<String>())?;
    for shell in [Shell::Original, Shell::Ours] {
        let mut command = shell.command(&servers);
        command.arg("-client-configuration").arg(&file).arg("whoami");
        let output = command.output()?;
        let shown = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{shell:?}: {shown}{errors}");
        assert!(shown.contains("x509: CN=zk1.example.org,"), "{shell:?}: {shown}{errors}");
    }
    let flags = properties.map(|(key, value)| format!("-D{key}={value}")).join(" ");
    let mut command = Shell::Ours.command(&servers);
    let output = command.arg("whoami").env("CLIENT_JVMFLAGS", flags).output()?;
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("x509: CN=zk1.example.org,"), "{shown}");
    Ok(())
}
