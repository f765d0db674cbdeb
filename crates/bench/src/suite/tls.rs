//! TLS: full handshakes, and requests over TLS connections.
//!
//! The server presents a certificate from this file's folder, which is valid only for this
//! machine's own address.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use zebu_credentials::CredentialArgs;
use zebu_figures::number;

use super::pipeline::put;
use crate::board::{Better, Sheet};
use crate::compare::{Bout, progress};
use crate::ensemble::free_ports;
use crate::entry::Entry;
use crate::load::{LoadSpec, measure, prepare};
use crate::process::Process;
use crate::suite::{ANSWER_LIMIT, mixed_load};

/// The authority of the certificate.
const AUTHORITY: &str = include_str!("tls/ca.pem");
/// The server's key, of the curve prime256v1, and its certificate.
const SERVER: &str = include_str!("tls/server.pem");
/// The most handshakes at a time.
const HANDSHAKING: usize = 16;

pub(crate) fn run(bout: &Bout<'_>, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let args = bout.args;
    let port = free_ports(1)?[0];
    let (key_store, authority) = (bout.dir.join("server.pem"), bout.dir.join("authority.pem"));
    store(&key_store, SERVER)?;
    store(&authority, AUTHORITY)?;
    let lines = [
        // The original needs these settings for TLS.
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
        format!("secureClientPort={port}"),
        "secureClientPortAddress=127.0.0.1".to_owned(),
        format!("ssl.keyStore.location={}", key_store.display()),
        format!("ssl.trustStore.location={}", authority.display()),
        "ssl.clientAuth=none".to_owned(),
        "ssl.enabledProtocols=TLSv1.3".to_owned(),
        "ssl.ciphersuites=TLS_AES_128_GCM_SHA256".to_owned(),
    ];
    let (running, _) = bout.start_with("/", &lines)?;
    let server = SocketAddr::new(running.address.ip(), port);
    let process = running.process();

    let config = Arc::new(without_resumption()?);
    let shake = |seconds: f64| handshakes(&config, server, Duration::from_secs_f64(seconds));
    if args.server_warmup > 0.0 {
        shake(args.server_warmup)?;
    }
    let cpu = || process.and_then(Process::cpu);
    let before = cpu();
    let (count, took) = shake(args.seconds)?;
    let spent = cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
    let rate = count as f64 / took.as_secs_f64();
    progress(&format!("  {} handshakes/s", number(rate)));
    let name = format!("full handshake and srvr, {HANDSHAKING} at a time");
    sheet.put("handshakes/s", &name, Better::Higher, rate);
    let each = spent.map(|spent| spent.as_secs_f64() * 1e6 / count as f64);
    sheet.put("server CPU, us/request", &name, Better::Lower, each);

    let entry = entry(bout.dir, &authority)?;
    let base = LoadSpec { entry, ..mixed_load(bout) };
    prepare(server, &base)?;
    if args.server_warmup > 0.0 {
        let spec = LoadSpec { seconds: args.server_warmup, warmup: 0.0, ..base.clone() };
        measure(&[server], process.as_slice(), &spec)?;
    }
    for (op, read_percent) in [("get", 100), ("set", 0)] {
        for &depth in &args.depths {
            for &connections in &args.connections {
                let spec = LoadSpec { read_percent, connections, depth, ..base.clone() };
                let result = measure(&[server], process.as_slice(), &spec)?;
                put(sheet, &format!("TLS, {op}, depth {depth}, {connections} conn"), &result);
            }
        }
    }
    running.stop()?;
    Ok(())
}

fn store(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// The settings of the sessions, as a user gives them.
fn entry(dir: &Path, authority: &Path) -> anyhow::Result<Entry> {
    let file: PathBuf = dir.join("client.properties");
    let trust = authority.display();
    let text = format!(
        "zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location={trust}\n\
         zookeeper.ssl.enabledProtocols=TLSv1.3\n"
    );
    store(&file, &text)?;
    Entry::new(&CredentialArgs { client_configuration: Some(file) }, [].into())
}

/// A configuration in which every handshake is a full one.
fn without_resumption() -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY.as_bytes())?)?;
    let provider = Arc::new(zebu_auth::crypto::provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Opens connections for a while. Each sends a request, whose answer shows that both sides have
/// completed the handshake. Returns the number of connections and the exact time.
fn handshakes(
    config: &Arc<ClientConfig>,
    server: SocketAddr,
    time: Duration,
) -> anyhow::Result<(u64, Duration)> {
    let start = Instant::now();
    let count = thread::scope(|scope| {
        let each = || {
            let mut count = 0;
            while start.elapsed() < time {
                handshake(config, server)?;
                count += 1;
            }
            anyhow::Ok(count)
        };
        let threads: Vec<_> = (0..HANDSHAKING).map(|_| scope.spawn(each)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let count: anyhow::Result<u64> = count;
    Ok((count?, start.elapsed()))
}

fn handshake(config: &Arc<ClientConfig>, server: SocketAddr) -> anyhow::Result<()> {
    let mut socket = TcpStream::connect_timeout(&server, ANSWER_LIMIT)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(ANSWER_LIMIT))?;
    let mut tls = ClientConnection::new(config.clone(), ServerName::from(server.ip()))?;
    let mut stream = rustls::Stream::new(&mut tls, &mut socket);
    stream.write_all(b"srvr")?;
    let mut answer = Vec::new();
    // The original closes the connection without TLS's `close_notify`.
    if let Err(error) = stream.read_to_end(&mut answer)
        && answer.is_empty()
    {
        return Err(error).context("a handshake and its first answer");
    }
    ensure!(answer.starts_with(b"Zookeeper version"), "another answer to srvr over TLS");
    Ok(())
}
