//! A key distribution centre of MIT Kerberos with its own realm, on a loopback port.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::run::succeed;
use crate::server::{Options, PATIENCE, free_port};

/// The name of the realm.
pub const REALM: &str = "ZEBU.TEST";

/// A running key distribution centre. Dropping it stops it.
pub struct Kdc {
    realm: &'static str,
    folder: TempDir,
    child: Child,
    port: u16,
}

impl Kdc {
    /// Creates a realm with these principals, each with a random key, and starts the centre.
    ///
    /// # Errors
    /// The programs are missing: `cargo xtask deps` installs them.
    pub fn start(principals: &[&str]) -> Result<Self> {
        Self::start_realm(REALM, principals)
    }

    /// Likewise, with another name of the realm.
    ///
    /// # Errors
    /// The programs are missing: `cargo xtask deps` installs them.
    pub fn start_realm(realm: &'static str, principals: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("zebu-kdc-").tempdir()?;
        let port = free_port();
        let (path, at) = (folder.path().display(), format!("127.0.0.1:{port}"));
        fs::write(
            folder.path().join("krb5.conf"),
            format!(
                "[libdefaults]\n default_realm = {realm}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n \
                 dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n\
                 [realms]\n {realm} = {{\n  kdc = {at}\n }}\n"
            ),
        )?;
        fs::write(
            folder.path().join("kdc.conf"),
            format!(
                "[kdcdefaults]\n kdc_listen = {at}\n kdc_tcp_listen = {at}\n[realms]\n {realm} = {{\n  \
                 database_name = {path}/principal\n  key_stash_file = {path}/stash\n  acl_file = {path}/acl\n }}\n\
                 [logging]\n kdc = FILE:{path}/kdc.log\n"
            ),
        )?;
        let command = |program: &str| {
            let mut command = Command::new(program);
            command.env("KRB5_CONFIG", folder.path().join("krb5.conf"));
            command.env("KRB5_KDC_PROFILE", folder.path().join("kdc.conf"));
            command
        };
        let mut make = command("kdb5_util");
        make.args(["create", "-s", "-r", realm, "-P", "of no account"]);
        succeed(&mut make, PATIENCE).context("a realm; hint: cargo xtask deps")?;
        let child =
            command("krb5kdc").arg("-n").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut kdc = Self { realm, folder, child, port };
        kdc.wait_until_listening()?;
        for principal in principals {
            kdc.admin(&format!("addprinc -randkey {principal}"))?;
            kdc.key_tab(principal)?;
        }
        Ok(kdc)
    }

    fn wait_until_listening(&mut self) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("krb5kdc: {status}");
            }
            ensure!(start.elapsed() < PATIENCE, "krb5kdc does not listen");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(())
    }

    /// Runs an administrator's command on the database.
    ///
    /// # Errors
    /// The program reports a failure.
    pub fn admin(&self, query: &str) -> Result<()> {
        let mut command = Command::new("kadmin.local");
        command.env("KRB5_CONFIG", self.config());
        command.env("KRB5_KDC_PROFILE", self.folder.path().join("kdc.conf"));
        let text = succeed(command.args(["-q", query]), PATIENCE)?;
        // The program's exit code is 0 even after a failure.
        ensure!(!text.contains(" while "), "{query}: {text}");
        Ok(())
    }

    /// Writes the key table of a principal. Every call gives the principal a new key.
    ///
    /// # Errors
    /// The principal does not exist.
    pub fn key_tab(&self, principal: &str) -> Result<PathBuf> {
        let path = self.key_tab_of(principal);
        self.admin(&format!("ktadd -q -k {} {principal}", path.display()))?;
        Ok(path)
    }

    /// The path of a principal's key table.
    pub fn key_tab_of(&self, principal: &str) -> PathBuf {
        self.folder.path().join(format!("{}.keytab", principal.replace('/', "_")))
    }

    /// A cache with a ticket of this principal.
    ///
    /// # Errors
    /// The centre does not issue a ticket.
    pub fn cache(&self, principal: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{}.cache", principal.replace('/', "_")));
        let mut command = Command::new("kinit");
        command.env("KRB5_CONFIG", self.config()).arg("-c").arg(&path);
        command.arg("-k").arg("-t").arg(self.key_tab_of(principal)).arg(principal);
        succeed(&mut command, PATIENCE)?;
        Ok(path)
    }

    /// The configuration file for clients and services.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("krb5.conf")
    }

    /// The number of tickets issued to a principal that asked with its key.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn logins(&self, principal: &str) -> Result<usize> {
        let log = fs::read_to_string(self.folder.path().join("kdc.log"))?;
        let wanted = format!(" {principal}@{} for krbtgt/", self.realm);
        let issued = |line: &&str| line.contains("AS_REQ") && line.contains(": ISSUE: ");
        Ok(log.lines().filter(issued).filter(|line| line.contains(&wanted)).count())
    }

    /// The folder with the key tables; tests put other files there, too.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A server of either kind in this realm.
    #[must_use]
    pub fn options(&self, options: Options) -> Options {
        let config = self.config();
        options
            .property("java.security.krb5.conf", config.display())
            .environment("KRB5_CONFIG", config.display())
    }

    /// Writes a JAAS file with one section for each entry: name, principal, and further options.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn jaas(&self, name: &str, sections: &[(&str, &str, &str)]) -> Result<PathBuf> {
        let mut text = String::new();
        for (section, principal, more) in sections {
            let (key_tab, realm) = (self.key_tab_of(principal), self.realm);
            text += &format!(
                "{section} {{\n  com.sun.security.auth.module.Krb5LoginModule required\n  useKeyTab=true\n  \
                 keyTab=\"{}\"\n  storeKey=true\n  useTicketCache=false\n  principal=\"{principal}@{realm}\"{more};\n}};\n",
                key_tab.display()
            );
        }
        let path = self.folder.path().join(name);
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
