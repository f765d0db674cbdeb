//! Znodes with null data, which differ from znodes with empty data.

use bytes::Bytes;
use zebu_jute::Encode;
use zebu_proto::request::PathWatch;
use zebu_proto::{OpCode, Stat};
use zebu_session::WatchKind;

use crate::{Acls, Client, CreateMode, Created, Pending, Watch, answer};

impl Client {
    /// Creates a znode whose data are null. Only [`Client::get_data_or_null`], and other clients
    /// that distinguish null data, show the difference from empty data.
    ///
    /// # Errors
    /// As [`Client::create`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// client.create_null("/a", CreateMode::Persistent, &Acls::creator()).await?;
    /// assert_eq!(client.get_data("/a").await?.0, "");
    /// # Ok(()) });
    /// ```
    pub fn create_null(&self, path: &str, mode: CreateMode, acl: &Acls) -> Pending<Created> {
        self.create_with(path, None, mode, acl)
    }

    /// Reads a znode's data, which may be null, and its stat.
    ///
    /// # Errors
    /// As [`Client::get_data`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode};
    ///
    /// client.create_null("/null", CreateMode::Persistent, &Acls::creator()).await?;
    /// client.create("/empty", "", CreateMode::Persistent, &Acls::creator()).await?;
    /// assert!(client.get_data_or_null("/null").await?.0.is_none());
    /// assert!(client.get_data_or_null("/empty").await?.0.is_some());
    /// # Ok(()) });
    /// ```
    pub fn get_data_or_null(&self, path: &str) -> Pending<(Option<Bytes>, Stat)> {
        self.path_request(OpCode::GET_DATA, path, answer::data_or_null, |path, out| {
            PathWatch { path, watch: false }.encode(out);
        })
    }

    /// As [`Client::get_data_or_null`], and leaves a watch as [`Client::watch_data`] does.
    ///
    /// # Errors
    /// As [`Client::get_data`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::{Acls, CreateMode, Version};
    ///
    /// client.create_null("/a", CreateMode::Persistent, &Acls::creator()).await?;
    /// let (data, _, changed) = client.watch_data_or_null("/a").await?;
    /// assert!(data.is_none());
    /// client.set_data("/a", "now", Version::ANY).await?;
    /// changed.await?;
    /// # Ok(()) });
    /// ```
    pub fn watch_data_or_null(&self, path: &str) -> Pending<(Option<Bytes>, Stat, Watch)> {
        let decode = answer::data_or_null_and_watch;
        self.watch_request(OpCode::GET_DATA, path, WatchKind::Data, decode)
    }
}
