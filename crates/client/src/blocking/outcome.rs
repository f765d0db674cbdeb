//! Finds out whether a write whose answer was lost was executed, for blocking clients.

use zebu_proto::{Stat, Version};

use crate::blocking::Client;
use crate::{CreateMode, Created, Outcome, Result};

impl Client {
    /// Finds out whether a create whose answer was lost was executed.
    ///
    /// # Errors
    /// As [`Client::after_lost_create`](crate::Client::after_lost_create).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create("/master", "me", CreateMode::Ephemeral, &Acls::creator())?;
    /// let outcome = client.after_lost_create("/master", "me", CreateMode::Ephemeral)?;
    /// assert!(matches!(outcome, Outcome::Happened(_)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn after_lost_create(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
    ) -> Result<Outcome<Created>> {
        self.wait(self.client.after_lost_create(path, data, mode))
    }

    /// Finds out whether a change of data whose answer was lost was executed.
    ///
    /// # Errors
    /// As [`Client::after_lost_set_data`](crate::Client::after_lost_set_data).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.set_data("/", "new", Version(0))?;
    /// let outcome = client.after_lost_set_data("/", "new", Version(0))?;
    /// assert!(matches!(outcome, Outcome::Happened(_)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn after_lost_set_data(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        version: Version,
    ) -> Result<Outcome<Stat>> {
        self.wait(self.client.after_lost_set_data(path, data, version))
    }

    /// Finds out whether a deletion whose answer was lost was executed.
    ///
    /// # Errors
    /// As [`Client::after_lost_delete`](crate::Client::after_lost_delete).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert_eq!(client.after_lost_delete("/none")?, Outcome::Happened(()));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn after_lost_delete(&self, path: &str) -> Result<Outcome<()>> {
        self.wait(self.client.after_lost_delete(path))
    }

    /// Whether this is a broken [series](Client::series): the client sends no further request of
    /// it.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// assert!(!client.series().is_broken());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn is_broken(&self) -> bool {
        self.client.is_broken()
    }
}
