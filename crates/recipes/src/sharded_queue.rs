//! A queue divided into several shards, for more items than one znode should have as children and
//! more workers than one line can serve.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use zebu_client::{Acls, Client};

use crate::{Item, Queue, Result, path};

/// Several queues used as one. The order of priorities holds within each shard, not across shards:
/// an item with a higher priority number may be taken from one shard before an item with a lower
/// number from another.
///
/// ```text
/// PATH/shard-000    the first queue, and so on
/// ```
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::ShardedQueue;
///
/// let queue = ShardedQueue::new(&client, "/jobs", 4, &Acls::creator());
/// queue.put("job", 5).await?;
/// let item = queue.take().await?;
/// assert_eq!(item.data(), b"job");
/// item.finish().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct ShardedQueue {
    shards: Vec<Queue>,
    /// The shard that the next call begins with.
    next: Arc<AtomicUsize>,
}

impl ShardedQueue {
    /// The queues below this znode. All programs must use the same number of shards. Zero counts as
    /// one.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::ShardedQueue::new(&client, "/jobs", 4, &Acls::creator());
    /// # drop(queue);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, shards: usize, acl: &Acls) -> Self {
        let shard =
            |number| Queue::new(client, &path::join(path, &format!("shard-{number:03}")), acl);
        // Different sessions begin with different shards.
        let first = usize::try_from(client.session_id().0.unsigned_abs() % 1024).unwrap_or(0);
        let shards = (0..shards.max(1)).map(shard).collect();
        Self { shards, next: Arc::new(AtomicUsize::new(first)) }
    }

    /// Puts an item into one of the shards, each shard in turn.
    ///
    /// # Errors
    /// As for [`Queue::put`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::ShardedQueue::new(&client, "/jobs", 4, &Acls::creator());
    /// queue.put("job", 5).await?;
    /// assert_eq!(queue.len().await?, 1);
    /// # Ok(()) });
    /// ```
    pub async fn put(&self, data: impl AsRef<[u8]>, priority: u8) -> Result<()> {
        self.shards[self.turn()].put(data, priority).await
    }

    /// Takes an item from any shard, as [`Queue::take`].
    ///
    /// Dropping the future takes nothing.
    ///
    /// # Errors
    /// As for [`Queue::take`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::ShardedQueue::new(&client, "/jobs", 4, &Acls::creator());
    /// queue.put("job", 5).await?;
    /// queue.take().await?.finish().await?;
    /// # Ok(()) });
    /// ```
    pub async fn take(&self) -> Result<Item> {
        let mut taking: Vec<_> = self.shards.iter().map(|shard| Box::pin(shard.take())).collect();
        let first = self.turn();
        taking.rotate_left(first);
        // Items that other shards have granted at the same moment go back when their futures are
        // dropped.
        poll_fn(|cx| {
            let mut taken = taking.iter_mut().map(|taking| taking.as_mut().poll(cx));
            taken.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Number of items in all shards, including those that workers have taken.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::ShardedQueue::new(&client, "/jobs", 4, &Acls::creator());
    /// assert_eq!(queue.len().await?, 0);
    /// # Ok(()) });
    /// ```
    pub async fn len(&self) -> Result<usize> {
        let mut len = 0;
        for shard in &self.shards {
            len += shard.len().await?;
        }
        Ok(len)
    }

    /// Whether no shard has an item.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::ShardedQueue::new(&client, "/jobs", 4, &Acls::creator());
    /// assert!(queue.is_empty().await?);
    /// # Ok(()) });
    /// ```
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    fn turn(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.shards.len()
    }
}
