//! The configuration that a tool reads: a file and its overrides, from the same places as for `zebu
//! server`.

use std::path::PathBuf;

use zebu_config::{AdminConfig, Config, ConfigError, Loaded, ReadFile, Sources, Start};
use zebu_credentials::{CredentialArgs, Credentials, Dialer};

/// Arguments that name a server's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct ConfigArgs {
    /// The server's zoo.cfg
    #[arg(value_name = "CFG")]
    pub config: PathBuf,

    /// Set a Java system property, as for zebu server
    #[arg(short = 'D', value_name = "NAME=VALUE", num_args = 1, action = clap::ArgAction::Append)]
    pub define: Vec<String>,

    /// Set a key of zoo.cfg, as for zebu server
    #[arg(long, value_name = "KEY=VALUE", num_args = 1, action = clap::ArgAction::Append)]
    pub set: Vec<String>,
}

impl ConfigArgs {
    /// Loads the configuration, with the environment variables and the files of the caller.
    pub(crate) fn load(
        &self,
        variables: Vec<(&'static str, String)>,
        read: ReadFile<'_>,
    ) -> Result<Loaded, ConfigError> {
        zebu_config::load(&Sources {
            start: Start::File(self.config.clone()),
            variables,
            defines: self.define.clone(),
            sets: self.set.clone(),
            read,
        })
    }
}

/// The protocol and the identity with which a tool connects to servers.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Credentials of sessions.
    pub(crate) credentials: Credentials,
    /// Access for four-letter words and HTTP.
    pub(crate) dialer: Dialer,
}

impl Access {
    /// Reads the files that the arguments and variables name. Prints remarks on stderr.
    ///
    /// # Errors
    /// A file or a store cannot be used.
    pub(crate) fn of(args: &CredentialArgs) -> Result<Self, zebu_credentials::Failure> {
        let credentials = args.load(|remark| eprintln!("note: {remark}"))?;
        let dialer = credentials.dialer()?;
        Ok(Self { credentials, dialer })
    }

    /// The access to the members' admin servers, if they have the same settings as this server's
    /// and accept such requests.
    pub(crate) fn admin<'c>(&self, config: &'c Config) -> Option<(Dialer, &'c AdminConfig)> {
        let admin = config.admin.as_ref().filter(|admin| admin.port > 0)?;
        match &admin.tls {
            Some(tls) if !tls.accepts_plain => {
                self.dialer.is_secure().then(|| (self.dialer.clone(), admin))
            }
            _ => Some((Dialer::plain(), admin)),
        }
    }
}
