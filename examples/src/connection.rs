//! The options that all programs have in common, and the session that they open.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use zebu_client::{Acls, Client, Connector, ErrorKind, Retry, blocking};

/// The ensemble, and the identity of the user.
#[derive(Clone, Debug, clap::Args)]
pub struct Connection {
    /// The servers, and optionally a root znode, which is created if it is missing:
    /// host:port,host:port/path
    #[arg(
        long,
        env = "ZK_SERVERS",
        value_name = "SERVERS",
        default_value = "127.0.0.1:2181",
        global = true
    )]
    pub servers: String,

    /// User and password, as NAME:PASSWORD; in the environment, other users do not see them
    #[arg(
        long,
        env = "ZK_AUTH",
        value_name = "NAME:PASSWORD",
        hide_env_values = true,
        global = true
    )]
    auth: Option<String>,

    /// Let every client read, change and delete the znodes that this program creates
    #[arg(long, conflicts_with = "auth", global = true)]
    open_to_all: bool,

    /// The session timeout in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000, global = true)]
    session_timeout_ms: u64,
}

impl Connection {
    /// Opens a session. Also returns the ACL of new znodes.
    ///
    /// # Errors
    /// No server could be reached in several attempts, or neither credentials nor open access were
    /// configured.
    pub async fn open(&self) -> Result<(Client, Acls)> {
        let (connector, acl) = self.connector()?;
        // The number of attempts is bounded, so the user learns if the program cannot work.
        let client = Retry::default()
            .writes(|| connector.clone().connect(&self.servers))
            .await
            .with_context(|| format!("no session with {}", self.servers))?;
        Ok((client, acl))
    }

    /// The same for a program without a runtime.
    ///
    /// # Errors
    /// As [`Connection::open`], at the first attempt.
    pub fn open_blocking(&self) -> Result<(blocking::Client, Acls)> {
        let (connector, acl) = self.connector()?;
        let client = blocking::Client::open(connector, &self.servers)
            .with_context(|| format!("no session with {}", self.servers))?;
        Ok((client, acl))
    }

    fn connector(&self) -> Result<(Connector, Acls)> {
        let timeout = Duration::from_millis(self.session_timeout_ms);
        let mut connector = Connector::new().session_timeout(timeout);
        let acl = match &self.auth {
            Some(auth) => {
                connector = connector.authenticate("digest", auth);
                // Only clients with this password have access to the znodes that the program
                // creates.
                Acls::creator()
            }
            None if self.open_to_all => Acls::open_to_all(),
            None => bail!(
                "who may use what is created here?\nhint: --auth, or ZK_AUTH in the environment, or --open-to-all"
            ),
        };
        Ok((connector.create_chroot(acl.clone()), acl))
    }
}

/// Whether an error means that the session is over, so that the program needs a new one.
pub fn is_session_over(error: &anyhow::Error) -> bool {
    let of_client = error.downcast_ref::<zebu_client::Error>();
    let of_recipe = error.downcast_ref::<zebu_recipes::Error>();
    of_client.is_some_and(|error| error.kind() == ErrorKind::SessionOver)
        || of_recipe.is_some_and(zebu_recipes::Error::is_session_over)
}

/// Shows warnings of the libraries on stderr; `RUST_LOG` shows more.
pub fn log() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
