//! A TTL znode: outlives its session, but not the program for long.

use std::time::Duration;

use zebu_client::{Acls, Client, CreateMode};

use crate::{Error, PersistentNode, Result};

/// The znode is touched so often while its time to live passes.
///
/// Source: `PersistentTtlNode.DEFAULT_TOUCH_SCHEDULE_FACTOR`.
const TOUCHES: u32 = 2;

/// A znode that is kept as a [`PersistentNode`], does not belong to the session, and goes some time
/// after nobody keeps it any more: Curator's `PersistentTtlNode`.
///
/// A child `touch` is written twice in the time to live. When that stops, the servers delete the
/// child, and then the znode itself. So dropping this leaves the znode for its time to live, in
/// which another program, or this one with another session, may go on with it. The servers must be
/// configured for such znodes (`extendedTypesEnabled`).
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
    /// Creates the znode, and its parents, and keeps it; returns when it is there. `ttl` is what
    /// [`CreateMode::Ttl`] takes.
    ///
    /// # Errors
    /// As [`PersistentNode::keep`]; those of creating a znode with a time to live.
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

    /// Waits until the znode is kept no more, as [`PersistentNode::lost`].
    ///
    /// ```no_run
    /// # async fn example(node: zebu_recipes::TtlNode) {
    /// println!("{}", node.lost().await);
    /// # }
    /// ```
    pub async fn lost(&self) -> Error {
        self.node.lost().await
    }

    /// Keeps the znode no more, and leaves it for its time to live.
    ///
    /// # Errors
    /// Why the znode was not kept any more before.
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
