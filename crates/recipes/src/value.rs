//! The data of a znode, and their changes.

use zebu_client::{Client, Stat, Zxid};

use crate::watched::Watched;
use crate::{Result, faults};

/// The data of a znode, read again after each change.
///
/// Several changes may happen between two reads.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, CreateMode, Version};
/// use zebu_recipes::Value;
///
/// let mut value = Value::of(&client, "/config");
/// assert_eq!(value.next().await?, None);
/// client.create("/config", "v1", CreateMode::Persistent, &Acls::creator()).await?;
/// assert_eq!(value.next().await?.expect("it is there").0, b"v1");
/// client.set_data("/config", "v2", Version::ANY).await?;
/// assert_eq!(value.next().await?.expect("it is there").0, b"v2");
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct Value {
    watched: Watched,
    /// The zxid of the last change that was seen; `None` inside if the znode did not exist.
    seen: Option<Option<Zxid>>,
}

impl Value {
    /// The data of this znode, which need not exist.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut value = zebu_recipes::Value::of(&client, "/");
    /// assert_eq!(value.next().await?.expect("it is there").0, b"");
    /// # Ok(()) });
    /// ```
    pub fn of(client: &Client, path: &str) -> Self {
        Self { watched: Watched::new(client, path), seen: None }
    }

    /// Waits until the znode is written, created or deleted; the first call does not wait. `None`
    /// while the znode does not exist.
    ///
    /// The future may be dropped and called again without missing a change.
    ///
    /// # Errors
    /// The errors of reading, if repeated attempts failed; the session has ended.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert_eq!(zebu_recipes::Value::of(&client, "/none").next().await?, None);
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Option<(Vec<u8>, Stat)>> {
        loop {
            let found = self.watched.next(Client::watch_data).await?;
            let seen = found.as_ref().map(|(_, stat)| match faults::knows_values_by_version() {
                true => Zxid(stat.version.into()),
                false => stat.mzxid,
            });
            if self.seen != Some(seen) {
                self.seen = Some(seen);
                return Ok(found.map(|(data, stat)| (data.to_vec(), stat)));
            }
        }
    }
}
