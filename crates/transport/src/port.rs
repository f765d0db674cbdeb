//! The certificates of a port, reloaded when their files change.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ServerConfig};
use tracing::{info, warn};
use zebu_auth::certificate::Facts;
use zebu_auth::tls::ocsp::{Ocsp, Side};
use zebu_auth::tls::{FileStates, PortError, PortFiles};

/// Interval of the checks for changed files.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval of the warnings about a certificate that expires soon or has expired.
const TELL_EVERY: SignedDuration = SignedDuration::from_hours(12);
/// The time before its end at which a certificate counts as expiring soon.
pub const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The TLS settings of a port.
#[derive(Debug)]
pub struct Port {
    /// The prefix of its log lines.
    name: &'static str,
    files: PortFiles,
    now: RwLock<Arc<Now>>,
}

/// The settings for new connections.
#[derive(Debug)]
struct Now {
    server: Arc<ServerConfig>,
    client: Option<Arc<ClientConfig>>,
    ocsp: Option<Arc<Ocsp>>,
    own: Facts,
    trusted: Vec<Facts>,
}

impl Now {
    fn read(files: &PortFiles) -> Result<Self, PortError> {
        let port = files.read(Timestamp::now())?;
        let (server, client) = (Arc::new(port.server), port.client.map(Arc::new));
        Ok(Self { server, client, ocsp: port.ocsp, own: port.own, trusted: port.trusted })
    }
}

impl Port {
    /// Reads the files and logs which certificate the port has. `name`: the prefix of its log
    /// lines.
    ///
    /// # Errors
    /// One sentence with the file, the error and the remedy.
    pub fn new(name: &'static str, files: PortFiles) -> Result<Self, PortError> {
        let now = Now::read(&files)?;
        let port = Self { name, files, now: RwLock::new(Arc::new(now)) };
        port.tell("");
        Ok(port)
    }

    /// The settings for the next incoming connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.now.read().server.clone()
    }

    /// Asks about the certificates that the other side of a connection has shown, if responders are
    /// asked.
    ///
    /// # Errors
    /// One of them is revoked, or nobody says that it is good.
    pub(crate) async fn check(
        &self,
        chain: Option<&[CertificateDer<'_>]>,
        side: Side,
    ) -> io::Result<()> {
        let ocsp = self.now.read().ocsp.clone();
        match ocsp {
            Some(ocsp) => zebu_ocsp::check(&ocsp, chain, side).await.map_err(zebu_ocsp::refused),
            None => Ok(()),
        }
    }

    /// The settings for the next outgoing connection.
    ///
    /// # Panics
    /// The port's files are not for outgoing connections.
    pub fn client(&self) -> Arc<ClientConfig> {
        self.now.read().client.clone().expect("files for both directions")
    }

    /// The earliest end of its own and its trusted certificates.
    pub fn expires(&self) -> Timestamp {
        let now = self.now.read().clone();
        let trusted = now.trusted.iter().map(|facts| facts.not_after);
        trusted.fold(now.own.not_after, Timestamp::min)
    }

    /// Seconds until the earliest end; negative if it has passed.
    pub fn seconds_left(&self) -> i64 {
        Timestamp::now().duration_until(self.expires()).as_secs()
    }

    fn tell(&self, what: &str) {
        let now = self.now.read().clone();
        let Facts { subject, not_after, .. } = &now.own;
        info!("{}: {what}certificate {subject}, valid until {not_after}", self.name);
    }

    /// Logs which certificates expire soon or have expired.
    fn tell_expiry(&self) {
        let now = self.now.read().clone();
        let at = Timestamp::now();
        for (what, facts) in std::iter::once(("certificate", &now.own))
            .chain(now.trusted.iter().map(|facts| ("trusted certificate", facts)))
        {
            let Facts { subject, not_after, .. } = facts;
            if *not_after < at {
                warn!("the {what} {subject} has expired at {not_after}; hint: replace it");
            } else if at.duration_until(*not_after) < EXPIRES_SOON {
                warn!("the {what} {subject} expires at {not_after}; hint: replace it before");
            }
        }
    }

    /// Warns about certificates that expire. If `reload` is set, also reloads the files when they
    /// have changed and then stay the same for a second. This never ends. Invalid files change
    /// nothing and are reported once.
    pub async fn watch(&self, reload: bool) {
        let mut read = self.files.state();
        let mut seen = read.clone();
        let mut told = None::<Timestamp>;
        loop {
            let at = Timestamp::now();
            if told.is_none_or(|told| told.duration_until(at) >= TELL_EVERY) {
                told = Some(at);
                self.tell_expiry();
            }
            tokio::time::sleep(LOOK_EVERY).await;
            if reload {
                self.look(&mut read, &mut seen);
            }
        }
    }

    fn look(&self, read: &mut FileStates, seen: &mut FileStates) {
        let state = self.files.state();
        // The files are still changing: an incomplete store must not be used.
        let settles = std::mem::replace(seen, state.clone()) == state;
        if !settles || state == *read {
            return;
        }
        *read = state;
        match Now::read(&self.files) {
            Ok(now) => {
                *self.now.write() = Arc::new(now);
                self.tell("read anew, ");
            }
            Err(error) => {
                warn!("{}: the certificates before the change stay in use: {error}", self.name);
            }
        }
    }
}
