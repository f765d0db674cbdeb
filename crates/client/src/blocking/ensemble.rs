//! Watches, identities and the configuration of the ensemble, for blocking clients.

use bytes::Bytes;
use zebu_proto::{Stat, WatcherType};

use crate::blocking::Client;
use crate::{Identity, Reconfiguration, Result, Watch};

impl Client {
    /// Whether this client has a watch of this kind on a znode.
    ///
    /// # Errors
    /// As [`Client::check_watches`](crate::Client::check_watches).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (_, _, _watch) = client.watch_data("/")?;
    /// assert!(client.check_watches("/", WatcherType::Data)?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn check_watches(&self, path: &str, kind: WatcherType) -> Result<bool> {
        self.wait(self.client.check_watches(path, kind))
    }

    /// Removes all watches of a kind that this client has on a znode. Each watch gets an event.
    ///
    /// # Errors
    /// As [`Client::remove_watches`](crate::Client::remove_watches).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (_, _, watch) = client.watch_data("/")?;
    /// client.remove_watches("/", WatcherType::Data)?;
    /// assert_eq!(client.wait(watch)?.kind, EventKind::WatchRemoved);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn remove_watches(&self, path: &str, kind: WatcherType) -> Result<()> {
        self.wait(self.client.remove_watches(path, kind))
    }

    /// The identities of the connection.
    ///
    /// # Errors
    /// As [`Client::who_am_i`](crate::Client::who_am_i).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert!(client.who_am_i()?.iter().any(|identity| identity.user == "amy"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn who_am_i(&self) -> Result<Vec<Identity>> {
        self.wait(self.client.who_am_i())
    }

    /// The ensemble's configuration: its text, and the stat of the znode that holds it.
    ///
    /// # Errors
    /// As [`Client::get_config`](crate::Client::get_config).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// // A server that stands alone has none.
    /// assert!(client.get_config()?.0.is_empty());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_config(&self) -> Result<(Bytes, Stat)> {
        self.wait(self.client.get_config())
    }

    /// As [`Client::get_config`], and watches for a change.
    ///
    /// # Errors
    /// As [`Client::watch_config`](crate::Client::watch_config).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (_config, _stat, _changed) = client.watch_config()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn watch_config(&self) -> Result<(Bytes, Stat, Watch)> {
        self.wait(self.client.watch_config())
    }

    /// Changes the ensemble's membership; returns the new configuration.
    ///
    /// # Errors
    /// As [`Client::reconfigure`](crate::Client::reconfigure).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let change = Reconfiguration::Change { joining: &[], leaving: &["3"] };
    /// let error = client.reconfigure(change, None).unwrap_err();
    /// assert_eq!(error.code(), ErrorCode::RECONFIG_DISABLED);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reconfigure(
        &self,
        change: Reconfiguration<'_>,
        version: Option<i64>,
    ) -> Result<(Bytes, Stat)> {
        self.wait(self.client.reconfigure(change, version))
    }
}
