//! A barrier that one process closes and opens, while others wait.

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, Version};

use crate::counts::create_with_parents;
use crate::{Result, faults};

/// A barrier that is closed while its znode exists. It is compatible with Curator's
/// `DistributedBarrier` of the same znode.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Barrier;
///
/// let barrier = Barrier::new(&client, "/start", &Acls::creator());
/// barrier.set().await?;
/// let waiting = tokio::spawn({
///     let barrier = barrier.clone();
///     async move { barrier.wait().await }
/// });
/// barrier.remove().await?;
/// waiting.await??;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
    acl: Acls,
}

impl Barrier {
    /// The barrier in this znode. Closing the barrier creates the znode and its missing parents
    /// with this ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let barrier = zebu_recipes::Barrier::new(&client, "/start", &Acls::creator());
    /// # drop(barrier);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { client: client.clone(), path: path.to_owned(), acl: acl.clone() }
    }

    /// Closes the barrier. It may be closed already. It stays closed when this process ends.
    ///
    /// # Errors
    /// The errors of creating.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// zebu_recipes::Barrier::new(&client, "/start", &Acls::creator()).set().await?;
    /// assert!(client.exists("/start").await?.is_some());
    /// # Ok(()) });
    /// ```
    pub async fn set(&self) -> Result<()> {
        let mode = CreateMode::Persistent;
        let create = || self.client.create(&self.path, "", mode, &self.acl);
        create_with_parents(&self.client, &self.path, &self.acl, create).await.map(drop)
    }

    /// Opens the barrier. It may be open already.
    ///
    /// # Errors
    /// The errors of deleting.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let barrier = zebu_recipes::Barrier::new(&client, "/start", &Acls::creator());
    /// barrier.remove().await?;
    /// # Ok(()) });
    /// ```
    pub async fn remove(&self) -> Result<()> {
        match Retry::default().reads(|| self.client.delete(&self.path, Version::ANY)).await {
            Err(error) if error.kind() != ErrorKind::Gone => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until the barrier is open, as the leader knows it. Dropping the future removes its
    /// watch.
    ///
    /// # Errors
    /// The errors of reading; the session has ended.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let barrier = zebu_recipes::Barrier::new(&client, "/start", &Acls::creator());
    /// barrier.wait().await?;
    /// # Ok(()) });
    /// ```
    pub async fn wait(&self) -> Result<()> {
        // A stale server may not know yet that the barrier is closed.
        if !faults::trusts_old_news() {
            Retry::default().reads(|| self.client.sync(&self.path)).await?;
        }
        loop {
            let look = || self.client.watch_exists(&self.path);
            let (stat, changed) = Retry::default().reads(look).await?;
            if stat.is_none() {
                return Ok(());
            }
            changed.await?;
        }
    }
}
