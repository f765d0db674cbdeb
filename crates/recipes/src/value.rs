//! The data of a znode, and how they change.

use zebu_client::{Client, ErrorKind, Retry, Stat, Watch};

use crate::Result;

/// The data of a znode, read again whenever they have changed.
///
/// Between two looks they may have changed several times.
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
    client: Client,
    path: String,
    /// The transaction that made it what it was; `None` while it did not exist.
    seen: Option<Option<zebu_client::Zxid>>,
    /// Fires when there is something else to see.
    watch: Option<Watch>,
}

impl Value {
    /// What this znode says, which need not exist.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let mut value = zebu_recipes::Value::of(&client, "/");
    /// assert_eq!(value.next().await?.expect("it is there").0, b"");
    /// # Ok(()) });
    /// ```
    pub fn of(client: &Client, path: &str) -> Self {
        Self { client: client.clone(), path: path.to_owned(), seen: None, watch: None }
    }

    /// Waits until the znode was written, created or deleted since the last time; the first time,
    /// it does not wait. `None` while it does not exist.
    ///
    /// May be dropped, and called again, without missing anything.
    ///
    /// # Errors
    /// Those of reading, when repeating it did not help; the session is over.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert_eq!(zebu_recipes::Value::of(&client, "/none").next().await?, None);
    /// # Ok(()) });
    /// ```
    pub async fn next(&mut self) -> Result<Option<(Vec<u8>, Stat)>> {
        loop {
            if let Some(watch) = &mut self.watch {
                let change = watch.await;
                self.watch = None;
                change?;
            }
            let found = self.look().await?;
            let seen = found.as_ref().map(|(_, stat)| stat.mzxid);
            if self.seen != Some(seen) {
                self.seen = Some(seen);
                return Ok(found);
            }
        }
    }

    async fn look(&mut self) -> Result<Option<(Vec<u8>, Stat)>> {
        loop {
            match Retry::default().reads(|| self.client.watch_data(&self.path)).await {
                Ok((data, stat, watch)) => {
                    self.watch = Some(watch);
                    return Ok(Some((data.to_vec(), stat)));
                }
                Err(error) if error.kind() == ErrorKind::Gone => {}
                Err(error) => return Err(error.into()),
            }
            let read = || self.client.watch_exists(&self.path);
            let (stat, watch) = Retry::default().reads(read).await?;
            if stat.is_none() {
                self.watch = Some(watch);
                return Ok(None);
            }
            // It was created in between.
        }
    }
}
