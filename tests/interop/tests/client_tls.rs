//! TLS between clients and servers, each Zebu's or the original's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use zebu_client::{Acls, Client, Connector, CreateMode, Identity, SessionState, Tls, Version};
use zebu_interop::server::{Kind, Options, PATIENCE, Server, free_port, soon};
use zebu_interop::shell::Shell;

/// A key store of the tests of `zebu-auth`. All passwords are `testpass`.
fn store(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/interop");
    root.join("crates/auth/tests/fixtures").join(name)
}

/// A server with a TLS port and a plain-text port.
fn server(kind: Kind, secure: u16) -> Result<Server> {
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
    Server::start(kind, &options)
}

fn trusting() -> Tls {
    Tls::new().trust_store(store("trust.jks")).trust_store_password("testpass")
}

fn as_somebody() -> Tls {
    trusting().key_store(store("keytool.jks")).key_store_password("testpass")
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

const BOTH: [Kind; 2] = [Kind::Java395, Kind::Zebu];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs third-party programs: cargo xtask deps"]
async fn sessions_over_tls_are_served_by_both() -> Result<()> {
    for kind in BOTH {
        sessions_over_tls(kind).await.with_context(|| format!("{kind:?}"))?;
    }
    Ok(())
}

async fn sessions_over_tls(kind: Kind) -> Result<()> {
    let secure = free_port();
    let mut server = server(kind, secure)?;
    let servers = format!("localhost:{secure}");
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let connector = connector(as_somebody().protocols(protocol));
        let client = soon(connector.connect(&servers)).await??;
        // The certificate is an identity.
        let identities: Vec<Identity> = soon(client.who_am_i()).await??;
        assert!(identities.iter().any(|it| it.scheme == "x509"), "{identities:?}");
        // A request and an answer that need several TLS records.
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
    // A session survives a restart of its server.
    let client = soon(connector(as_somebody()).connect(&servers)).await??;
    let mut events = client.session_events();
    server.kill()?;
    server.launch()?;
    while soon(events.next()).await? != Some(SessionState::Connected) {}
    soon(client.close()).await??;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs third-party programs: cargo xtask deps"]
async fn what_servers_refuse_is_told() -> Result<()> {
    refused(Kind::Java395, "the server refuses the handshake (BadCertificate)").await?;
    refused(Kind::Zebu, "the server wants a certificate of this client").await
}

async fn refused(kind: Kind, why: &str) -> Result<()> {
    let secure = free_port();
    let server = server(kind, secure)?;
    let servers = format!("localhost:{secure}");
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let client = connector(trusting().protocols(protocol)).start(&servers)?;
        let told = trouble(&client, "key store").await?;
        assert!(told.contains(why), "{told}");
    }
    let client = connector(as_somebody()).start(&server.address().to_string())?;
    let told = trouble(&client, "TLS handshake failed").await?;
    assert!(told.contains("does its port speak TLS?"), "{told}");
    Ok(())
}

/// Both shells connect with the same properties, from a file and from Java options.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn both_shells_take_the_same_properties() -> Result<()> {
    BOTH.into_iter().try_for_each(|kind| shells(kind).with_context(|| format!("{kind:?}")))
}

fn shells(kind: Kind) -> Result<()> {
    let secure = free_port();
    let _server = server(kind, secure)?;
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

/// kazoo, which uses OpenSSL through Python, and `openssl s_client` itself.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn kazoo_and_openssl_are_served() -> Result<()> {
    let secure = free_port();
    let _server = server(Kind::Zebu, secure)?;
    let script = r#"
import sys
from kazoo.client import KazooClient
from kazoo.security import make_acl
port, ca, cert, key = sys.argv[1:]
client = KazooClient(hosts=f"localhost:{port}", use_ssl=True, ca=ca, certfile=cert, keyfile=key)
client.start(timeout=30)
client.create("/kazoo", b"x" * 500000, acl=[make_acl("auth", "", all=True)])
data, _ = client.get("/kazoo")
acls, _ = client.get_acls("/kazoo")
print(len(data), acls[0].id.scheme)
client.stop()
"#;
    let mut python = std::process::Command::new(zebu_interop::deps::python());
    python.arg("-c").arg(script).arg(secure.to_string());
    python.args([store("ca.pem"), store("client.pem"), store("client.key")]);
    let output = python.output()?;
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(shown.trim(), "500000 x509", "{errors}");
    for version in ["-tls1_2", "-tls1_3"] {
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(["s_client", "-quiet", "-verify_return_error", "-no_ign_eof", version]);
        openssl.arg("-connect").arg(format!("127.0.0.1:{secure}"));
        openssl.arg("-CAfile").arg(store("ca.pem")).arg("-cert").arg(store("client.pem"));
        openssl.arg("-key").arg(store("client.key"));
        openssl.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut openssl = openssl.stderr(std::process::Stdio::null()).spawn()?;
        let mut input = openssl.stdin.take().context("its input")?;
        std::io::Write::write_all(&mut input, b"srvr")?;
        let mut answer = String::new();
        let mut output = openssl.stdout.take().context("its output")?;
        std::io::Read::read_to_string(&mut output, &mut answer)?;
        drop(input);
        openssl.wait()?;
        assert!(answer.contains("Mode: standalone"), "{version}: {answer}");
    }
    Ok(())
}
