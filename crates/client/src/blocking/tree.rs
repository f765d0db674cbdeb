//! Null data, whole subtrees, and several reads at once, for blocking clients.

use bytes::Bytes;
use zebu_proto::Stat;

use crate::blocking::Client;
use crate::{Acls, CreateMode, Created, ReadResults, Reads, Result, Watch};

impl Client {
    /// Creates a znode whose data are null, which is not the same as empty.
    ///
    /// # Errors
    /// As [`Client::create`](crate::Client::create).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create_null("/null", CreateMode::Persistent, &Acls::creator())?;
    /// assert_eq!(client.get_data_or_null("/null")?.0, None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn create_null(&self, path: &str, mode: CreateMode, acl: &Acls) -> Result<Created> {
        self.wait(self.client.create_null(path, mode, acl))
    }

    /// As [`Client::get_data`], and tells null data from empty data.
    ///
    /// # Errors
    /// As [`Client::get_data`](crate::Client::get_data).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (data, _stat) = client.get_data_or_null("/")?;
    /// assert_eq!(data.as_deref(), Some(&b""[..]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_data_or_null(&self, path: &str) -> Result<(Option<Bytes>, Stat)> {
        self.wait(self.client.get_data_or_null(path))
    }

    /// As [`Client::watch_data`], and tells null data from empty data.
    ///
    /// # Errors
    /// As [`Client::get_data`](crate::Client::get_data).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let (_data, _stat, changed) = client.watch_data_or_null("/")?;
    /// client.set_data("/", "new", Version::ANY)?;
    /// assert_eq!(client.wait(changed)?.kind, EventKind::DataChanged);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn watch_data_or_null(&self, path: &str) -> Result<(Option<Bytes>, Stat, Watch)> {
        self.wait(self.client.watch_data_or_null(path))
    }

    /// Creates a znode and all its parents that are missing.
    ///
    /// # Errors
    /// As [`Client::create_all`](crate::Client::create_all).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create_all("/a/b/c", &Acls::creator())?;
    /// assert!(client.exists("/a/b/c")?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn create_all(&self, path: &str, acl: &Acls) -> Result<()> {
        self.wait(self.client.create_all(path, acl))
    }

    /// Deletes a znode and everything below it. Returns the number of deleted znodes.
    ///
    /// # Errors
    /// As [`Client::delete_all`](crate::Client::delete_all).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create_all("/a/b", &Acls::creator())?;
    /// assert_eq!(client.delete_all("/a")?, 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn delete_all(&self, path: &str) -> Result<usize> {
        self.wait(self.client.delete_all(path))
    }

    /// A znode and everything below it, parents before their children.
    ///
    /// # Errors
    /// As [`Client::descendants`](crate::Client::descendants).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create_all("/a/b", &Acls::creator())?;
    /// assert_eq!(client.descendants("/a")?, ["/a", "/a/b"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn descendants(&self, path: &str) -> Result<Vec<String>> {
        self.wait(self.client.descendants(path))
    }

    /// The number of znodes below this one, on all levels.
    ///
    /// # Errors
    /// As [`Client::count_descendants`](crate::Client::count_descendants).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create_all("/a/b/c", &Acls::creator())?;
    /// assert_eq!(client.count_descendants("/a")?, 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn count_descendants(&self, path: &str) -> Result<usize> {
        self.wait(self.client.count_descendants(path))
    }

    /// The ephemeral znodes of this session whose paths begin with this prefix.
    ///
    /// # Errors
    /// As [`Client::ephemerals`](crate::Client::ephemerals).
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// client.create("/mine", "", CreateMode::Ephemeral, &Acls::creator())?;
    /// assert_eq!(client.ephemerals("/")?, ["/mine"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn ephemerals(&self, prefix: &str) -> Result<Vec<String>> {
        self.wait(self.client.ephemerals(prefix))
    }

    /// Begins several reads that are sent as one request, with [`Client::send`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let results = client.send(client.reads().data("/").children("/"))?;
    /// assert_eq!(results.as_slice().len(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reads(&self) -> Reads {
        self.client.reads()
    }

    /// Sends several reads, and waits for their results.
    ///
    /// # Errors
    /// As [`Reads::send`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # let server = embedded::Server::start(&[]);
    /// # let address = server.address().to_string();
    /// # use zebu_client::blocking::Client;
    /// # use zebu_client::*;
    /// # let connector = Connector::new().authenticate("digest", "amy:secret");
    /// # let client = Client::open(connector, &address)?;
    /// let results = client.send(client.reads().data("/").data("/none"))?;
    /// assert!(results.as_slice()[0].is_ok() && results.as_slice()[1].is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn send(&self, reads: Reads) -> Result<ReadResults> {
        self.wait(reads.send())
    }
}
