//! The crate `zookeeper-client` over TLS and with SASL. Its program is built separately, with the
//! crate's own provider of cryptography.

use std::path::{Path, PathBuf};
use std::process::Command;

use zebu_interop::deps;
use zebu_interop::run::succeed;
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, PATIENCE, free_port};

/// A file from the tests of `zebu-auth`.
fn fixture(name: &str) -> PathBuf {
    deps::repository().join("crates/auth/tests/fixtures").join(name)
}

fn pem(folder: &Path) -> PathBuf {
    let mut text = std::fs::read(fixture("server.key")).expect("a key");
    text.extend(std::fs::read(fixture("server.pem")).expect("a certificate"));
    let path = folder.join("server-pair.pem");
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_crate_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let secure = free_port();
    let options = Options::default()
        .config("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
        .config("secureClientPort", secure)
        .config("secureClientPortAddress", "127.0.0.1")
        .config("ssl.keyStore.location", pem(folder.path()).display())
        .config("ssl.trustStore.location", fixture("ca.pem").display())
        .config("ssl.enabledProtocols", "TLSv1.2,TLSv1.3")
        .config("ssl.ciphersuites", "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
    same("rust-tls", &options, |_| {
        let mut command = Command::new(deps::installed("rust-tls").join("debug/rust-tls"));
        command.arg(format!("127.0.0.1:{secure}"));
        command.args(["ca.pem", "client.pem", "client.key"].map(fixture));
        succeed(&mut command, PATIENCE)
    });
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_crate_with_sasl() {
    let folder = tempfile::tempdir().expect("a folder");
    let jaas = folder.path().join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    std::fs::write(&jaas, format!("Server {{ {module} user_amy=\"one\"; }};\n")).expect("a file");
    let options = Options::default()
        .config("authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
        .property("zookeeper.fips-mode", "false")
        .property("java.security.auth.login.config", jaas.display());
    same("rust-sasl", &options, |server| {
        let mut command = Command::new(deps::installed("rust-tls").join("debug/rust-tls"));
        command.args([&server.address().to_string(), "amy", "one"]);
        let shown = succeed(&mut command, PATIENCE)?;
        anyhow::ensure!(shown.contains("who am i: [\"sasl:amy\"]"), "{shown}");
        Ok(shown)
    });
}
