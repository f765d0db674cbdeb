//! A TTL znode, which outlives its session but is deleted soon after its program ends.

use std::time::Duration;

use zebu_client::{Acls, Client, CreateMode};

use crate::{Error, PersistentNode, Result};

/// How often the znode is touched within its time to live.
///
/// Source: `PersistentTtlNode.DEFAULT_TOUCH_SCHEDULE_FACTOR`.
const TOUCHES: u32 = 2;

/// A znode that is kept like a [`PersistentNode`] but does not belong to the session. It is deleted
/// some time after the last program stops keeping it. Compatible with Curator's
/// `PersistentTtlNode`.
///
/// The program writes a child `touch` twice in each time to live. When the writes stop, the servers
/// delete the child, and then the znode itself. So after dropping this value the znode stays for
/// its time to live. Within this time another program, or another session of this program, may
/// continue to keep it. The servers must allow TTL znodes (`extendedTypesEnabled`).
///
/// ```no_run
/// # async fn example(client: zebu_client::Client) -> zebu_recipes::Result<()> {
/// use std::time::Duration;
/// use zebu_client::Acls;
/// use zebu_recipes::TtlNode;
///
/// let ttl = Duration::from_secs(60);
/// let node = TtlNode::keep(&client, "/jobs/7", "half done", ttl, &Acls::creator()).await?;
/// node.set_data("done").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a node that is dropped goes when its time to live has passed"]
pub struct TtlNode {
    node: PersistentNode,
}

impl TtlNode {
    /// Creates the znode and its missing parents, and keeps it. Returns when the znode exists.
    /// `ttl` is the time to live of [`CreateMode::Ttl`].
    ///
    /// # Errors
    /// As for [`PersistentNode::keep`], and the errors of creating a TTL znode.
    ///
    /// ```no_run
    /// # async fn example(client: zebu_client::Client) -> zebu_recipes::Result<()> {
    /// # use zebu_client::Acls;
    /// let ttl = std::time::Duration::from_secs(60);
    /// let node = zebu_recipes::TtlNode::keep(&client, "/jobs/7", "", ttl, &Acls::creator()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn keep(
        client: &Client,
        path: &str,
        data: impl AsRef<[u8]>,
        ttl: Duration,
        acl: &Acls,
    ) -> Result<Self> {
        let (mode, touch) = (CreateMode::Ttl(ttl), Some(ttl / TOUCHES));
        let node = PersistentNode::start(client, path, data.as_ref(), mode, acl, touch).await?;
        Ok(Self { node })
    }

    /// Writes the data, as [`PersistentNode::set_data`].
    ///
    /// # Errors
    /// As [`PersistentNode::set_data`].
    ///
    /// ```no_run
    /// # async fn example(node: zebu_recipes::TtlNode) -> zebu_recipes::Result<()> {
    /// node.set_data("done").await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_data(&self, data: impl AsRef<[u8]>) -> Result<()> {
        self.node.set_data(data).await
    }

    /// Waits until the znode is no longer kept, as [`PersistentNode::lost`].
    ///
    /// ```no_run
    /// # async fn example(node: zebu_recipes::TtlNode) {
    /// println!("{}", node.lost().await);
    /// # }
    /// ```
    pub async fn lost(&self) -> Error {
        self.node.lost().await
    }

    /// Stops keeping the znode. The znode stays for its time to live.
    ///
    /// # Errors
    /// The reason why the znode was no longer kept before this call.
    ///
    /// ```no_run
    /// # async fn example(node: zebu_recipes::TtlNode) -> zebu_recipes::Result<()> {
    /// node.close().await?;
    /// # Ok(()) }
    /// ```
    pub async fn close(self) -> Result<()> {
        self.node.close().await
    }
}
