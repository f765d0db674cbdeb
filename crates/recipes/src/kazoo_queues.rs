//! Queues with the znodes of the Python package kazoo.

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, Transaction, Version};

use crate::once::once;
use crate::order::{self, Order};
use crate::{Error, Item, Queue, Result, faults, path};

/// The largest priority, which comes last.
const PRIORITY_MAX: u16 = 999;

fn name(priority: u16) -> Result<String> {
    if priority > PRIORITY_MAX {
        let reason = "priorities of kazoo's queues are 0 to 999";
        return Err(Error::Name { name: priority.to_string(), reason });
    }
    Ok(order::of_entry(priority))
}

/// A queue that removes an item before the worker has it. It is compatible with `Queue` of the
/// Python package kazoo with the same path.
///
/// ```text
/// PATH/entry-PPP-NUMBER   an item: the name is its priority and its sequence number
/// PATH-__marks__/         ephemeral, for a moment: an item is being put in or removed
/// ```
///
/// No item is given out twice. An item is lost if its worker crashes. [`KazooLockingQueue`] keeps
/// an item until it is finished.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::KazooQueue;
///
/// let queue = KazooQueue::new(&client, "/jobs", &Acls::creator());
/// queue.put("later", 100).await?;
/// queue.put("sooner", 1).await?;
/// assert_eq!(queue.get().await?, Some(b"sooner".to_vec()));
/// assert_eq!(queue.get().await?, Some(b"later".to_vec()));
/// assert_eq!(queue.get().await?, None);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct KazooQueue {
    client: Client,
    path: String,
    marks: String,
    acl: Acls,
}

impl KazooQueue {
    /// The queue below this znode. Missing znodes are created with this ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooQueue::new(&client, "/jobs", &Acls::creator());
    /// assert!(queue.is_empty().await?);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        // kazoo takes every child of the queue's znode for an item.
        Self { client, path: path.to_owned(), marks: format!("{path}-__marks__"), acl }
    }

    /// Puts an item into the queue once, even if the connection is lost meanwhile. Priorities are 0
    /// to 999, and items with a lower one come first; kazoo's default is 100.
    ///
    /// # Errors
    /// [`Error::Name`] for a larger priority; those of [`Queue::put`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooQueue::new(&client, "/jobs", &Acls::creator());
    /// queue.put("job", 100).await?;
    /// assert_eq!(client.get_children("/jobs").await?.0, ["entry-100-0000000000"]);
    /// assert!(queue.put("job", 1000).await.is_err());
    /// # Ok(()) });
    /// ```
    pub async fn put(&self, data: impl AsRef<[u8]>, priority: u16) -> Result<()> {
        let path = path::join(&self.path, &name(priority)?);
        let data = data.as_ref();
        let mode = CreateMode::PersistentSequential;
        let add = |transaction: &mut Transaction| {
            transaction.create(&path, data, mode, &self.acl);
        };
        let put = || once(&self.client, &self.marks, &self.acl, add, faults::trusts_a_lost_put());
        match put().await {
            Err(Error::Client(error)) if error.kind() == ErrorKind::Gone => {
                Retry::default().reads(|| self.client.create_all(&self.path, &self.acl)).await?;
                put().await
            }
            done => done,
        }
    }

    /// Removes the first item and returns its data; `None` if there is no item. Does not wait.
    ///
    /// If the future is dropped, an item may be lost.
    ///
    /// # Errors
    /// The errors of reading and deleting. After [`ErrorKind::Unknown`] an item may be lost.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooQueue::new(&client, "/jobs", &Acls::creator());
    /// assert_eq!(queue.get().await?, None);
    /// # Ok(()) });
    /// ```
    pub async fn get(&self) -> Result<Option<Vec<u8>>> {
        loop {
            let names = match Retry::default().reads(|| self.client.get_children(&self.path)).await
            {
                Ok((names, _)) => names,
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            for name in Order::Kazoo.sort(&names) {
                let item = path::join(&self.path, name);
                let (data, stat) =
                    match Retry::default().reads(|| self.client.get_data(&item)).await {
                        Ok(found) => found,
                        // Another worker has it.
                        Err(error) if error.kind() == ErrorKind::Gone => continue,
                        Err(error) => return Err(error.into()),
                    };
                let add = |transaction: &mut Transaction| {
                    transaction.delete(&item, Version(stat.version));
                };
                let is_trusting = faults::trusts_a_lost_get();
                match once(&self.client, &self.marks, &self.acl, add, is_trusting).await {
                    Ok(()) => return Ok(Some(data.to_vec())),
                    Err(Error::Client(error)) if error.failed_operation() == Some(1) => {}
                    Err(error) => return Err(error),
                }
            }
            if Order::Kazoo.sort(&names).is_empty() {
                return Ok(None);
            }
        }
    }

    /// The number of items.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooQueue::new(&client, "/jobs", &Acls::creator());
    /// queue.put("job", 100).await?;
    /// assert_eq!(queue.len().await?, 1);
    /// # Ok(()) });
    /// ```
    pub async fn len(&self) -> Result<usize> {
        let stat = Retry::default().reads(|| self.client.exists(&self.path)).await?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    /// Whether the queue has no items.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooQueue::new(&client, "/jobs", &Acls::creator());
    /// assert!(queue.is_empty().await?);
    /// # Ok(()) });
    /// ```
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }
}

/// A queue that keeps an item until its worker has finished it. It is compatible with
/// `LockingQueue` of the Python package kazoo with the same path.
///
/// ```text
/// PATH/entries/entry-PPP-NUMBER   an item: the name is its priority and its sequence number
/// PATH/taken/ITEM                 ephemeral: a worker has taken the item
/// PATH/taken/line/                the workers with this crate that wait for an item, in order
/// PATH/taken/puts/                ephemeral, for a moment: an item is being put in
/// ```
///
/// Workers with kazoo do not stand in the line of the workers with this crate; each item still has
/// one worker at a time.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::KazooLockingQueue;
///
/// let queue = KazooLockingQueue::new(&client, "/jobs", &Acls::creator());
/// queue.put("later", 100).await?;
/// queue.put("sooner", 1).await?;
/// let item = queue.take().await?;
/// assert_eq!(item.data(), b"sooner");
/// item.finish().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct KazooLockingQueue {
    queue: Queue,
}

impl KazooLockingQueue {
    /// The queue below this znode. Missing znodes are created with this ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooLockingQueue::new(&client, "/jobs", &Acls::creator());
    /// assert!(queue.is_empty().await?);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        let (items, taken) = (path::join(path, "entries"), path::join(path, "taken"));
        Self { queue: Queue::ordered(client, &items, &taken, acl, Order::Kazoo) }
    }

    /// Puts an item into the queue once, even if the connection is lost meanwhile. Priorities are 0
    /// to 999, and items with a lower one come first; kazoo's default is 100.
    ///
    /// # Errors
    /// [`Error::Name`] for a larger priority; those of [`Queue::put`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooLockingQueue::new(&client, "/jobs", &Acls::creator());
    /// queue.put("job", 100).await?;
    /// assert_eq!(client.get_children("/jobs/entries").await?.0, ["entry-100-0000000000"]);
    /// # Ok(()) });
    /// ```
    pub async fn put(&self, data: impl AsRef<[u8]>, priority: u16) -> Result<()> {
        self.queue.put_as(&name(priority)?, data.as_ref()).await
    }

    /// Puts several items into the queue, all or none.
    ///
    /// # Errors
    /// As for [`KazooLockingQueue::put`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooLockingQueue::new(&client, "/jobs", &Acls::creator());
    /// queue.put_all(&["one", "two"], 100).await?;
    /// assert_eq!(queue.len().await?, 2);
    /// # Ok(()) });
    /// ```
    pub async fn put_all(&self, items: &[impl AsRef<[u8]>], priority: u16) -> Result<()> {
        let items: Vec<&[u8]> = items.iter().map(AsRef::as_ref).collect();
        self.queue.put_all_as(&name(priority)?, &items).await
    }

    /// Waits for an item that no worker has taken, and takes it, as [`Queue::take`].
    ///
    /// # Errors
    /// As for [`Queue::take`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooLockingQueue::new(&client, "/jobs", &Acls::creator());
    /// queue.put("job", 100).await?;
    /// drop(queue.take().await?); // not finished: the item is free again
    /// queue.take().await?.finish().await?;
    /// # Ok(()) });
    /// ```
    pub async fn take(&self) -> Result<Item> {
        self.queue.take().await
    }

    /// The number of items, including those that workers have taken.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooLockingQueue::new(&client, "/jobs", &Acls::creator());
    /// assert_eq!(queue.len().await?, 0);
    /// # Ok(()) });
    /// ```
    pub async fn len(&self) -> Result<usize> {
        self.queue.len().await
    }

    /// Whether the queue has no items, neither free nor taken ones.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let queue = zebu_recipes::KazooLockingQueue::new(&client, "/jobs", &Acls::creator());
    /// assert!(queue.is_empty().await?);
    /// # Ok(()) });
    /// ```
    pub async fn is_empty(&self) -> Result<bool> {
        self.queue.is_empty().await
    }
}
