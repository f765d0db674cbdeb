//! The configuration that a tool looks at: a file and what overrides it, found as `zebu server` finds it.

use std::path::PathBuf;

use zebu_config::{ConfigError, Loaded, ReadFile, Sources, Start};

/// A server's configuration, as arguments name it.
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
    /// Makes the configuration, with the variables and the files of the caller's.
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
