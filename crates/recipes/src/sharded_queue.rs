//! A queue divided over several: for more items than one znode should have as children, and more
//! workers than one line can serve.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use zebu_client::{Acls, Client};

use crate::{Item, Queue, Result, path};

/// So many queues as one. Items go in and come out in the order of one queue, not of all: those of
/// a lower priority in one may be taken before those of a higher in another.
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
    /// Where the next item is put, and looked for first.
    next: Arc<AtomicUsize>,
}

impl ShardedQueue {
    /// The queues below this znode; all have to use the same number of them. One at least.
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
        // Programs that start together do not begin with the same one.
        let first = usize::try_from(client.session_id().0.unsigned_abs() % 1024).unwrap_or(0);
        let shards = (0..shards.max(1)).map(shard).collect();
        Self { shards, next: Arc::new(AtomicUsize::new(first)) }
    }

    /// Puts an item into one of the queues, each in turn.
    ///
    /// # Errors
    /// As [`Queue::put`].
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

    /// Takes an item out of any of the queues, as [`Queue::take`].
    ///
    /// Dropping the future takes nothing.
    ///
    /// # Errors
    /// As [`Queue::take`].
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
        // What the others have taken at the same moment goes back with their futures.
        poll_fn(|cx| {
            let mut taken = taking.iter_mut().map(|taking| taking.as_mut().poll(cx));
            taken.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// How many items there are in all queues, also those that somebody works on.
    ///
    /// # Errors
    /// Those of reading.
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

    /// Whether there is no item in any of the queues.
    ///
    /// # Errors
    /// Those of reading.
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
