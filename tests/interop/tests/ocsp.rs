//! OCSP: a responder of openssl, whose answers the test chooses, with Zebu and with the original.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zebu_client::{Connector, Tls};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::network::Network;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{Options, PATIENCE, Server, free_port};
use zebu_interop::shell::Shell;

/// The responder's reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Answers,
    Silent,
    Garbage,
    Fails,
}

/// An authority, its certificates and its responder.
struct Authority {
    dir: tempfile::TempDir,
    state: Arc<Mutex<State>>,
}

struct State {
    mode: Mode,
    asked: u32,
    /// The format of `openssl ca`: status, expiry, revocation, serial, file, name.
    index: Vec<(char, &'static str, u32)>,
}

fn openssl(dir: &Path, words: &str) -> Result<()> {
    let output =
        Command::new("openssl").current_dir(dir).args(words.split_whitespace()).output()?;
    ensure!(
        output.status.success(),
        "openssl {words}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

const NAMES: [&str; 4] = ["good", "revoked", "unknown", "addressless"];

impl Authority {
    /// Creates certificates with these names, all for this machine. `addressless`: the certificate
    /// without a responder's address.
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let at = dir.path();
        openssl(at, "ecparam -name prime256v1 -genkey -noout -out ca.key")?;
        openssl(at, "req -x509 -new -key ca.key -subj /CN=authority -days 2 -out ca.pem")?;
        for (serial, name) in (1..).zip(NAMES) {
            let mut lines = "subjectAltName=DNS:localhost,IP:127.0.0.1\n".to_owned();
            if name != "addressless" {
                lines += &format!("authorityInfoAccess=OCSP;URI:http://127.0.0.1:{port}/\n");
            }
            std::fs::write(at.join("lines"), lines)?;
            openssl(at, &format!("ecparam -name prime256v1 -genkey -noout -out {name}.sec1"))?;
            openssl(at, &format!("pkcs8 -topk8 -nocrypt -in {name}.sec1 -out {name}.key"))?;
            openssl(at, &format!("req -new -key {name}.key -subj /CN={name} -out csr"))?;
            openssl(
                at,
                &format!(
                    "x509 -req -in csr -CA ca.pem -CAkey ca.key -set_serial {serial} -days 1 -extfile lines -out {name}.pem"
                ),
            )?;
            let both = [
                std::fs::read(at.join(format!("{name}.key")))?,
                std::fs::read(at.join(format!("{name}.pem")))?,
            ];
            std::fs::write(at.join(format!("{name}.store.pem")), both.concat())?;
        }
        let index = vec![('V', "good", 1), ('R', "revoked", 2)];
        let state = State { mode: Mode::Answers, asked: 0, index };
        let made = Self { state: Arc::new(Mutex::new(state)), dir };
        let (dir, state) = (made.dir.path().to_owned(), made.state.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                // The test itself shows a failed request.
                let _ = answer(socket, &dir, &state);
            }
        });
        Ok(made)
    }

    fn store(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.store.pem"))
    }

    fn trusted(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn asked(&self) -> u32 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).asked
    }
}

/// Answers one request, sent with POST or, as Java does, with GET.
fn answer(mut socket: TcpStream, dir: &Path, state: &Mutex<State>) -> Result<()> {
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break at;
        }
        let count = socket.read(&mut part)?;
        ensure!(count > 0, "no question");
        bytes.extend_from_slice(&part[..count]);
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let length: Option<usize> = text.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
    });
    let request = match length {
        Some(length) => {
            while bytes.len() < head + 4 + length {
                let count = socket.read(&mut part)?;
                ensure!(count > 0, "half a question");
                bytes.extend_from_slice(&part[..count]);
            }
            bytes[head + 4..head + 4 + length].to_vec()
        }
        None => {
            let path = text.split(' ').nth(1).context("a path")?.trim_start_matches('/');
            let path = path.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
            STANDARD.decode(path)?
        }
    };
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.asked += 1;
    let body = match state.mode {
        Mode::Silent => {
            drop(state);
            let _ = socket.read(&mut part); // Until the other side has had enough.
            return Ok(());
        }
        Mode::Fails => return Ok(socket.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")?),
        Mode::Garbage => b"a door and a half".to_vec(),
        Mode::Answers => {
            let line = |(status, name, serial): &(char, &str, u32)| {
                let revoked = if *status == 'R' { "260101000000Z" } else { "" };
                format!("{status}\t491231235959Z\t{revoked}\t{serial:02X}\tunknown\t/CN={name}\n")
            };
            std::fs::write(dir.join("index"), state.index.iter().map(line).collect::<String>())?;
            std::fs::write(dir.join("question"), request)?;
            openssl(
                dir,
                "ocsp -index index -CA ca.pem -rsigner ca.pem -rkey ca.key -reqin question -respout answer -ndays 1",
            )?;
            std::fs::read(dir.join("answer"))?
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes())?;
    Ok(socket.write_all(&body)?)
}

fn server(kind: Kind, authority: &Authority, secure: u16, own: &str, asks: bool) -> Result<Server> {
    let options = Options::default()
        .config("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
        .config("secureClientPort", secure)
        .config("secureClientPortAddress", "127.0.0.1")
        .config("ssl.keyStore.location", authority.store(own).display())
        .config("ssl.trustStore.location", authority.trusted().display())
        .config("ssl.clientAuth", "want")
        .config("ssl.ocsp", asks);
    Server::start(kind, &options)
}

fn tls(authority: &Authority) -> Tls {
    Tls::new().trust_store(authority.trusted())
}

/// Whether a client gets a session; if not, the reason.
async fn session(tls: Tls, servers: &str) -> Result<()> {
    let connector = Connector::new()
        .session_timeout(Duration::from_secs(10))
        .connection_wait(PATIENCE)
        .tls(tls);
    let client = connector.start(servers)?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Ok(Ok(_)) =
            tokio::time::timeout(Duration::from_millis(200), client.exists("/")).await
        {
            client.close().await?;
            return Ok(());
        }
        // The original opens this port later than the other one.
        let passes = ["Connection refused", "not finished yet"];
        let lasting = |it: &String| !passes.iter().any(|words| it.contains(words));
        if let Some(trouble) = client.trouble().filter(lasting) {
            anyhow::bail!("{trouble}");
        }
    }
    anyhow::bail!("neither a session nor a reason")
}

/// Both kinds of servers accept and refuse the same client certificates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs third-party programs: cargo xtask deps"]
async fn servers_ask_about_certificates_of_clients() -> Result<()> {
    for kind in [Java395, Zebu] {
        let authority = Authority::new()?;
        let secure = free_port();
        let server = server(kind, &authority, secure, "good", true)?;
        let servers = format!("localhost:{secure}");
        let shows = |name: &str| tls(&authority).key_store(authority.store(name));
        session(shows("good"), &servers).await.with_context(|| format!("{kind:?}"))?;
        assert!(authority.asked() > 0);
        for name in ["revoked", "unknown", "addressless"] {
            let refused = session(shows(name), &servers).await;
            assert!(refused.is_err(), "{kind:?} takes {name}");
        }
        // A client without a certificate has none that could be revoked.
        session(tls(&authority), &servers).await?;
        if kind == Java395 {
            continue;
        }
        let log = server.log();
        for why in [
            "the certificate of \"CN=revoked\" was revoked at 2026-01-01T00:00:00Z, according to its responder http://127.0.0.1:",
            "whether the certificate of \"CN=unknown\" is revoked is not known: the responder http://127.0.0.1:",
            " does not know the certificate",
            "whether the certificate of \"CN=addressless\" is revoked is not known: it names no responder",
        ] {
            assert!(log.contains(why), "{why}: {log}");
        }
        // A positive answer is cached for a while, whatever the responder answers meanwhile.
        for (mode, why) in [
            (Mode::Garbage, "sends no response that can be read"),
            (Mode::Fails, "answers with HTTP status 503"),
            (Mode::Silent, "does not answer within 5 s"),
        ] {
            authority.change(|state| state.mode = mode);
            let asked = authority.asked();
            session(shows("good"), &servers).await.with_context(|| format!("{mode:?}"))?;
            assert_eq!(authority.asked(), asked, "it is remembered");
            // The client may give up before this server does.
            let unknown = session(shows("unknown"), &servers);
            let unknown = tokio::time::timeout(Duration::from_secs(8), unknown).await;
            assert!(!matches!(unknown, Ok(Ok(()))));
            let end = Instant::now() + PATIENCE;
            while !server.log().contains(why) {
                assert!(Instant::now() < end, "{why}: {}", server.log());
                std::thread::sleep(Duration::from_millis(50));
            }
            // Other clients are served meanwhile.
            session(tls(&authority), &servers).await?;
        }
    }
    Ok(())
}

/// As in the original, certificates are refused while the responder does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs third-party programs: cargo xtask deps"]
async fn without_an_answer_no_certificate_is_good() -> Result<()> {
    for kind in [Java395, Zebu] {
        for mode in [Mode::Garbage, Mode::Fails] {
            let authority = Authority::new()?;
            authority.change(|state| state.mode = mode);
            let secure = free_port();
            let _server = server(kind, &authority, secure, "good", true)?;
            let good = tls(&authority).key_store(authority.store("good"));
            let refused = session(good, &format!("localhost:{secure}")).await;
            assert!(refused.is_err(), "{kind:?} takes a certificate with {mode:?}");
            assert!(authority.asked() > 0);
        }
    }
    Ok(())
}

/// Zebu's client, Zebu's shell and the original's shell check the certificate of a server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs third-party programs: cargo xtask deps"]
async fn clients_ask_about_certificates_of_servers() -> Result<()> {
    let authority = Authority::new()?;
    for name in ["good", "revoked", "unknown"] {
        let secure = free_port();
        let _server = server(Zebu, &authority, secure, name, false)?;
        let servers = format!("localhost:{secure}");
        let asked = session(tls(&authority).ocsp(true), &servers).await;
        match name {
            "good" => asked?,
            "revoked" => {
                let why = asked.unwrap_err().to_string();
                assert!(why.contains("the certificate of \"CN=revoked\" was revoked at"), "{why}");
            }
            _ => {
                let why = asked.unwrap_err().to_string();
                assert!(why.contains("does not know the certificate"), "{why}");
            }
        }
        session(tls(&authority), &servers).await?;
        let file = authority.dir.path().join("client.properties");
        let trusted = authority.trusted();
        std::fs::write(
            &file,
            format!(
                "zookeeper.client.secure=true\n\
                 zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n\
                 zookeeper.ssl.trustStore.location={}\nzookeeper.ssl.ocsp=true\n",
                trusted.display()
            ),
        )?;
        for shell in [Shell::Original, Shell::Ours] {
            let mut command = shell.command(&servers);
            command
                .args(["-timeout", "4000", "-client-configuration"])
                .arg(&file)
                .args(["ls", "/"]);
            let output = zebu_interop::run::run(&mut command, Duration::from_secs(60))?;
            let (shown, errors) = (output.text, output.errors);
            let is_served = shown.contains("[zookeeper]");
            assert_eq!(is_served, name == "good", "{shell:?} {name}: {shown}{errors}");
        }
    }
    Ok(())
}

/// Members of both kinds check each other's certificates.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_ask_about_each_other() -> Result<()> {
    let authority = Authority::new()?;
    let with = options()
        .config("sslQuorum", "true")
        .config("ssl.quorum.keyStore.location", authority.store("good").display())
        .config("ssl.quorum.trustStore.location", authority.trusted().display())
        .config("ssl.quorum.ocsp", "true");
    let kinds = [Zebu, Java395, Zebu];
    let mut ensemble =
        Ensemble::prepare_each(Network::loopback(kinds.len()), &kinds, 0, &|_| with.clone())?
            .started()?;
    ensemble.leader(None)?;
    assert!(authority.asked() > 0);
    authority.change(|state| state.index[0].0 = 'R');
    ensemble.member(0).stop()?;
    ensemble.member(0).spawn()?;
    let end = Instant::now() + PATIENCE;
    let why = "the certificate of \"CN=good\" was revoked at 2026-01-01T00:00:00Z, according to its responder";
    while !ensemble.members()[0].log().contains(why) {
        ensure!(Instant::now() < end, "{}", ensemble.members()[0].log());
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
