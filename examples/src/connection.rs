//! The options all programs have in common, and the session they open.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use zebu_client::{Acls, Client, Connector, ErrorKind, Retry, blocking};

/// Which ensemble, as whom.
#[derive(Clone, Debug, clap::Args)]
pub struct Connection {
    /// Servers, and perhaps a znode to live below, which is created: host:port,host:port/path
    #[arg(
        long,
        env = "ZK_SERVERS",
        value_name = "SERVERS",
        default_value = "127.0.0.1:2181",
        global = true
    )]
    pub servers: String,

    /// Who we are, as NAME:PASSWORD; better set in the environment, where others do not see it
    #[arg(
        long,
        env = "ZK_AUTH",
        value_name = "NAME:PASSWORD",
        hide_env_values = true,
        global = true
    )]
    auth: Option<String>,

    /// Let everybody who reaches the servers read, change and delete what this program creates
    #[arg(long, conflicts_with = "auth", global = true)]
    open_to_all: bool,

    /// After how many milliseconds of silence the servers may end our session
    #[arg(long, value_name = "MS", default_value_t = 10_000, global = true)]
    session_timeout_ms: u64,
}

impl Connection {
    /// Opens a session, and says what ACL new znodes shall have.
    ///
    /// # Errors
    /// No server could be reached in several attempts; nobody said who may do what.
    pub async fn open(&self) -> Result<(Client, Acls)> {
        let (connector, acl) = self.connector()?;
        // Bounded: who starts a program wants to know when it cannot work.
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
                // Only who knows the password may do anything with what we create.
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

/// Whether an error means that the session is over, so that only a new one helps.
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
