//! The tools against a server that requires TLS, a client certificate and a password. One file of
//! client properties configures all tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use zebu_testkit::ports;

/// How often something is tried that needs the server, and the time between.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// A server with TLS for clients and over HTTP, which wants a certificate and SASL.
struct Place {
    folder: TempDir,
    port: u16,
    admin_port: u16,
    child: Child,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../auth/tests/fixtures").join(name)
}

/// A key and its certificate in one file.
fn pair(name: &str, folder: &Path) -> PathBuf {
    let mut text = fs::read(fixture(&format!("{name}.key"))).unwrap();
    text.extend(fs::read(fixture(&format!("{name}.pem"))).unwrap());
    let path = folder.join(format!("{name}.pem"));
    fs::write(&path, text).unwrap();
    path
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let [port, admin_port] = ports::free();
        let (server, trust) = (pair("server", path), fixture("ca.pem"));
        let (server, trust) = (server.display(), trust.display());
        let jaas = path.join("server.jaas");
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
        fs::write(&jaas, format!("Server {{ {module} user_amy=\"secret\"; }};\n")).unwrap();
        let lines = format!(
            "dataDir={}\nsecureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
             ssl.keyStore.location={server}\nssl.trustStore.location={trust}\n\
             admin.serverPort={admin_port}\nadmin.forceHttps=true\nadmin.needClientAuth=true\n\
             ssl.quorum.keyStore.location={server}\nssl.quorum.trustStore.location={trust}\n\
             authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
             authProvider.2=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n\
             sessionRequireClientSASLAuth=true\n4lw.commands.whitelist=*\njava.security.auth.login.config={}\n",
            path.join("data").display(),
            jaas.display(),
        );
        fs::write(path.join("zoo.cfg"), lines).unwrap();
        let client = path.join("client.jaas");
        let user = "username=\"amy\" password=\"secret\"";
        fs::write(&client, format!("Client {{ {module} {user}; }};\n")).unwrap();
        let properties = format!(
            "zookeeper.client.secure=true\nzookeeper.ssl.keyStore.location={}\n\
             zookeeper.ssl.trustStore.location={trust}\njava.security.auth.login.config={}\n",
            pair("client", path).display(),
            client.display(),
        );
        fs::write(path.join("client.properties"), properties).unwrap();
        let log = fs::File::create(path.join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.arg("server").arg(path.join("zoo.cfg")).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        Self { folder, port, admin_port, child }
    }

    /// Runs a tool; `WITH` stands for the file of properties, `PORT` and `ADMIN` for the ports.
    fn run(&self, line: &str) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        let line = line
            .replace("WITH", "--client-configuration client.properties")
            .replace("PORT", &self.port.to_string())
            .replace("ADMIN", &self.admin_port.to_string());
        let output = command.args(line.split_whitespace()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    /// What `zkServer.sh status` says with these flags.
    fn status(&self, flags: &str) -> (Option<i32>, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin/zkServer.sh");
        let mut command = Command::new(script.canonicalize().unwrap());
        command.args(["--config".as_ref(), self.folder.path().as_os_str(), "status".as_ref()]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("ZEBU", env!("CARGO_BIN_EXE_zebu")).env("ZOO_LOG_DIR", self.folder.path());
        let output = command.env("CLIENT_JVMFLAGS", flags).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    fn wait_until_serving(&self) {
        for _ in 0..TRIES {
            if self.run("word WITH 127.0.0.1:PORT ruok").1 == "imok" {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!(
            "it does not serve: {}",
            fs::read_to_string(self.folder.path().join("log")).unwrap()
        );
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn one_file_says_to_every_tool_how_to_come_in() {
    let place = Place::new();
    place.wait_until_serving();

    let (code, said) = place.run("word WITH 127.0.0.1:PORT srvr");
    assert!(code == Some(0) && said.starts_with("Zookeeper version: "), "{said}");
    assert_ne!(place.run("word 127.0.0.1:PORT ruok").1, "imok");

    let (code, said) = place.run("shell -server 127.0.0.1:PORT WITH create /from-shell x");
    assert_eq!(code, Some(0), "{said}");

    // Reads and writes with several connections and requests in flight, large enough for many
    // records.
    let load = "--op mix --read-ratio 50 --connections 3 --threads 2 --depth 16 --seconds 0.3 --warmup 0.1 \
                --size 20000 --keys 20";
    let (code, said) = place.run(&format!("bench run WITH --server 127.0.0.1:PORT {load}"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("3 connections x depth 16 over TLS, with SASL"), "{said}");
    assert!(said.contains("errors: 0, lost with their connection: 0, never answered: 0"), "{said}");
    let (code, said) = place.run(&format!("bench run --server 127.0.0.1:PORT {load}"));
    assert_ne!(code, Some(0), "{said}");

    let (code, said) = place.run("doctor WITH --json --only roles,versions,acls zoo.cfg");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert!(!report.to_string().contains("TLS only"), "{said}");
    let (_, said) = place.run("doctor --only peers zoo.cfg");
    assert!(said.contains("TLS properties in the file of --client-configuration"), "{said}");

    fs::write(place.folder.path().join("auth"), "digest root:secret\n").unwrap();
    let backup = "backup create --server https://127.0.0.1:ADMIN --auth-file auth --to backup";
    let (code, said) = place.run(backup);
    assert!(code != Some(0) && said.contains("--client-configuration"), "{said}");
    let (code, said) = place.run(&format!("{backup} WITH"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(place.run("backup verify backup").0, Some(0));

    // The original's script has the properties in a variable.
    let store =
        |name: &str, path: PathBuf| format!("-Dzookeeper.ssl.{name}.location={}", path.display());
    let key = store("keyStore", place.folder.path().join("client.pem"));
    let flags = format!("{} {key}", store("trustStore", fixture("ca.pem")));
    let (code, said) = place.status(&flags);
    assert!(code == Some(0) && said.contains("Client SSL: true.\nMode: standalone\n"), "{said}");
    let (code, said) = place.status("");
    assert!(code == Some(1) && said.contains("-D words in CLIENT_JVMFLAGS"), "{said}");

    // A file that cannot be used ends every tool before it asks anybody.
    let bad = "zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location=/no/such/ca.pem\n";
    fs::write(place.folder.path().join("client.properties"), bad).unwrap();
    for (line, code) in [
        ("word WITH 127.0.0.1:PORT ruok", 1),
        ("bench run WITH --server 127.0.0.1:PORT", 1),
        ("doctor WITH zoo.cfg", 2),
        ("backup create WITH --server https://127.0.0.1:ADMIN --to other", 1),
    ] {
        let (found, said) = place.run(line);
        assert!(said.contains("/no/such/ca.pem: cannot be read"), "{line}: {said}");
        assert_eq!(found, Some(code), "{line}: {said}");
    }
}
