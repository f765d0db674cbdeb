//! A TLS proxy in front of a server without TLS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use zebu_auth::store::{Contents, Identity};
use zebu_auth::tls::{ClientAuth, Common, Protocol};

use crate::fixture;
use crate::made::Authority;

/// The TLS settings of a proxy.
pub struct Rules {
    key: Vec<u8>,
    common: Common,
    client_auth: ClientAuth,
}

impl Rules {
    /// Sends this certificate, and requests none.
    pub fn new(key: &Path) -> Self {
        let key = std::fs::read(key).unwrap();
        let common = Common::trusting(Vec::new());
        Self { key, common, client_auth: ClientAuth::None }
    }

    /// Requires client certificates of this authority.
    pub fn wanting(self, authority: &Authority) -> Self {
        self.wanting_of(authority.file())
    }

    fn wanting_of(mut self, trusted: PathBuf) -> Self {
        let trusted = std::fs::read(trusted).unwrap();
        self.common.trusted = Contents::read(&trusted, None).unwrap().trusted().unwrap();
        self.client_auth = ClientAuth::Need;
        self
    }

    /// Supports one version only.
    pub fn speaking(mut self, version: &str) -> Self {
        self.common.protocols = zebu_auth::tls::protocols(version).unwrap();
        self
    }

    /// Uses the files of the tests of `zebu-auth`: both sides have certificates of one authority.
    pub fn of_fixtures() -> Self {
        let mut rules = Self::new(&fixture("server.key"));
        rules.key.extend(std::fs::read(fixture("server.pem")).unwrap());
        rules.wanting_of(fixture("ca.pem"))
    }

    fn config(&self) -> Arc<ServerConfig> {
        // The server's own certificate is not checked here: it may have expired.
        let moment = if Contents::read(&self.key, None).unwrap().identity(now()).is_ok() {
            now()
        } else {
            "2020-01-15T00:00:00Z".parse().unwrap()
        };
        let identity: Identity = Contents::read(&self.key, None).unwrap().identity(moment).unwrap();
        Arc::new(zebu_auth::tls::server(&self.common, &identity, self.client_auth).unwrap())
    }
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Records of a proxy's connections.
#[derive(Default)]
struct Seen {
    versions: Vec<&'static str>,
    open: usize,
}

/// A port with TLS that forwards the decrypted bytes to a server.
pub struct Front {
    pub address: SocketAddr,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    cuts: Arc<watch::Sender<u64>>,
    seen: Arc<Mutex<Seen>>,
}

impl Front {
    pub async fn start(server: SocketAddr, rules: Rules) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = Self {
            address: listener.local_addr().unwrap(),
            config: Arc::new(Mutex::new(rules.config())),
            cuts: Arc::new(watch::Sender::new(0)),
            seen: Arc::default(),
        };
        let (config, cuts, seen) = (front.config.clone(), front.cuts.clone(), front.seen.clone());
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let acceptor = TlsAcceptor::from(config.lock().clone());
                let (mut cuts, seen) = (cuts.subscribe(), seen.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = relay(acceptor, tcp, server, &seen) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        front
    }

    /// The address as a connect string with a host name.
    pub fn by_name(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.seen.lock().open = 0;
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Uses other TLS settings for new connections.
    pub fn obey(&self, rules: Rules) {
        *self.config.lock() = rules.config();
    }

    /// The TLS versions used, each once.
    pub fn versions(&self) -> Vec<&'static str> {
        self.seen.lock().versions.clone()
    }

    /// Waits until each client has ended its connection with close_notify.
    pub async fn all_parted(&self) {
        while self.seen.lock().open > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn relay(
    acceptor: TlsAcceptor,
    tcp: TcpStream,
    server: SocketAddr,
    seen: &Mutex<Seen>,
) -> std::io::Result<()> {
    let tls = acceptor.accept(tcp).await?;
    let version = match tls.get_ref().1.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => Protocol::Tls12.name(),
        _ => Protocol::Tls13.name(),
    };
    {
        let mut seen = seen.lock();
        seen.open += 1;
        if !seen.versions.contains(&version) {
            seen.versions.push(version);
        }
    }
    let (mut from_server, mut to_server) = TcpStream::connect(server).await?.into_split();
    let (mut from_client, mut to_client) = tokio::io::split(tls);
    let upward = async {
        let mut piece = vec![0; 1 << 16];
        loop {
            // An end without close_notify is an error.
            let count = from_client.read(&mut piece).await?;
            if count == 0 {
                seen.lock().open -= 1;
                return std::io::Result::Ok(());
            }
            to_server.write_all(&piece[..count]).await?;
        }
    };
    let downward = async {
        tokio::io::copy(&mut from_server, &mut to_client).await?;
        to_client.shutdown().await
    };
    tokio::try_join!(upward, downward).map(drop)
}
