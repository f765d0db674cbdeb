//! Queues with Curator's znodes: plain, by priority, with a delay, and with ids.

use std::time::SystemTime;

use zebu_client::{Acls, Client};

use crate::order::{self, Order};
use crate::{Item, Queue, Result};

/// The format of an item: how it begins, the opcode before each element, and the opcode at its end.
///
/// Source: `ItemSerializer`.
const FORMAT: [u8; 4] = [0, 1, 0, 1];
const ELEMENT: u8 = 1;
const END: u8 = 2;

/// Encodes an item of these elements in Curator's format.
fn written(elements: &[&[u8]]) -> Vec<u8> {
    let mut bytes = FORMAT.to_vec();
    for element in elements {
        bytes.push(ELEMENT);
        let length = u32::try_from(element.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(element);
    }
    bytes.push(END);
    bytes
}

/// The elements of an item; `None` if it is not in Curator's format. Bytes after the end are
/// ignored.
pub(crate) fn elements(item: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = item.strip_prefix(&FORMAT)?;
    let mut found = Vec::new();
    loop {
        match rest.split_first()? {
            (&END, _) => return Some(found),
            (&ELEMENT, after) => {
                let (length, after) = after.split_first_chunk()?;
                let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
                let (element, after) = after.split_at_checked(length)?;
                found.push(element);
                rest = after;
            }
            _ => return None,
        }
    }
}

macro_rules! queue {
    ($(#[$doc:meta])* $name:ident, $order:expr, $new:literal, $take:literal, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            queue: Queue,
        }

        impl $name {
            /// The queue whose items are below the first znode. The marks of taken items are below
            /// the second znode, which Curator calls the lock path. All consumers must use the same
            /// lock path. Missing znodes are created with this ACL.
            ///
            #[doc = $new]
            pub fn new(client: &Client, items: &str, marks: &str, acl: &Acls) -> Self {
                Self { queue: Queue::ordered(client, items, marks, acl, $order) }
            }

            /// Takes the next item, as [`Queue::take`]. The item stays in the queue until
            /// [`Item::finish`], and becomes free again when it is dropped. [`Item::elements`]
            /// decodes items of Curator's producers.
            ///
            /// Dropping the future takes nothing.
            ///
            /// # Errors
            /// As for [`Queue::take`].
            ///
            #[doc = $take]
            pub async fn take(&self) -> Result<Item> {
                self.queue.take().await
            }

            /// Number of items, including taken items and items whose time has not come.
            ///
            /// # Errors
            /// The errors of reading.
            ///
            #[doc = $len]
            pub async fn len(&self) -> Result<usize> {
                self.queue.len().await
            }

            /// Whether the queue has no item, neither free nor taken.
            ///
            /// # Errors
            /// The errors of reading.
            ///
            #[doc = $len]
            pub async fn is_empty(&self) -> Result<bool> {
                self.queue.is_empty().await
            }
        }
    };
}

macro_rules! example {
    ($($line:literal)*) => {
        concat!(
            "```\n",
            "# mod embedded { include!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../client/tests/support/embedded.in\")); }\n",
            "# embedded::run(async |client| {\n",
            "# use zebu_client::Acls;\n",
            "# use zebu_recipes::{DelayQueue, IdQueue, PlainQueue, PriorityQueue};\n",
            $($line, "\n",)*
            "# Ok(()) });\n",
            "```"
        )
    };
}

queue! {
    /// A queue in the order of insertion. Compatible with Curator's `DistributedQueue` with a lock
    /// path.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Acls;
    /// use zebu_recipes::PlainQueue;
    ///
    /// let queue = PlainQueue::new(&client, "/jobs", "/jobs-locks", &Acls::creator());
    /// queue.put(&[b"one", b"two"]).await?;
    /// let item = queue.take().await?;
    /// assert_eq!(item.elements()?, [b"one", b"two"]);
    /// item.finish().await?;
    /// # Ok(()) });
    /// ```
    PlainQueue,
    Order::Plain,
    "```no_run\n# use zebu_client::{Acls, Client};\n# fn example(client: &Client) {\nlet queue = zebu_recipes::PlainQueue::new(client, \"/jobs\", \"/locks\", &Acls::creator());\n# }\n```",
    "```no_run\n# async fn example(queue: zebu_recipes::PlainQueue) -> zebu_recipes::Result<()> {\nqueue.take().await?.finish().await?;\n# Ok(()) }\n```",
    "```no_run\n# async fn example(queue: zebu_recipes::PlainQueue) -> zebu_recipes::Result<()> {\nassert_eq!(queue.is_empty().await?, queue.len().await? == 0);\n# Ok(()) }\n```"
}

queue! {
    /// A queue in which items with lower priority numbers come first. Compatible with Curator's
    /// `DistributedPriorityQueue` with a lock path.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Acls;
    /// use zebu_recipes::PriorityQueue;
    ///
    /// let queue = PriorityQueue::new(&client, "/jobs", "/jobs-locks", &Acls::creator());
    /// queue.put(&[b"late"], 7).await?;
    /// queue.put(&[b"soon"], -7).await?;
    /// assert_eq!(queue.take().await?.elements()?, [b"soon"]);
    /// # Ok(()) });
    /// ```
    PriorityQueue,
    Order::Priority,
    "```no_run\n# use zebu_client::{Acls, Client};\n# fn example(client: &Client) {\nlet queue = zebu_recipes::PriorityQueue::new(client, \"/jobs\", \"/locks\", &Acls::creator());\n# }\n```",
    "```no_run\n# async fn example(queue: zebu_recipes::PriorityQueue) -> zebu_recipes::Result<()> {\nqueue.take().await?.finish().await?;\n# Ok(()) }\n```",
    "```no_run\n# async fn example(queue: zebu_recipes::PriorityQueue) -> zebu_recipes::Result<()> {\nassert_eq!(queue.is_empty().await?, queue.len().await? == 0);\n# Ok(()) }\n```"
}

queue! {
    /// A queue whose items may be taken when their time has come, by the clock of the consumer.
    /// Compatible with Curator's `DistributedDelayQueue` with a lock path.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use std::time::{Duration, SystemTime};
    /// use zebu_client::Acls;
    /// use zebu_recipes::DelayQueue;
    ///
    /// let queue = DelayQueue::new(&client, "/jobs", "/jobs-locks", &Acls::creator());
    /// let soon = SystemTime::now() + Duration::from_millis(50);
    /// queue.put(&[b"job"], soon).await?;
    /// queue.take().await?.finish().await?;
    /// assert!(SystemTime::now() >= soon - Duration::from_millis(1));
    /// # Ok(()) });
    /// ```
    DelayQueue,
    Order::Delay,
    "```no_run\n# use zebu_client::{Acls, Client};\n# fn example(client: &Client) {\nlet queue = zebu_recipes::DelayQueue::new(client, \"/jobs\", \"/locks\", &Acls::creator());\n# }\n```",
    "```no_run\n# async fn example(queue: zebu_recipes::DelayQueue) -> zebu_recipes::Result<()> {\nqueue.take().await?.finish().await?;\n# Ok(()) }\n```",
    "```no_run\n# async fn example(queue: zebu_recipes::DelayQueue) -> zebu_recipes::Result<()> {\nassert_eq!(queue.is_empty().await?, queue.len().await? == 0);\n# Ok(()) }\n```"
}

queue! {
    /// A queue whose items have ids, by which they can be removed again. Compatible with Curator's
    /// `DistributedIdQueue` with a lock path.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// use zebu_client::Acls;
    /// use zebu_recipes::IdQueue;
    ///
    /// let queue = IdQueue::new(&client, "/jobs", "/jobs-locks", &Acls::creator());
    /// queue.put(&[b"job"], "amy-7").await?;
    /// assert!(queue.contains("amy-7").await?);
    /// assert_eq!(queue.remove("amy-7").await?, 1);
    /// assert!(queue.is_empty().await?);
    /// # Ok(()) });
    /// ```
    IdQueue,
    Order::Id,
    "```no_run\n# use zebu_client::{Acls, Client};\n# fn example(client: &Client) {\nlet queue = zebu_recipes::IdQueue::new(client, \"/jobs\", \"/locks\", &Acls::creator());\n# }\n```",
    "```no_run\n# async fn example(queue: zebu_recipes::IdQueue) -> zebu_recipes::Result<()> {\nqueue.take().await?.finish().await?;\n# Ok(()) }\n```",
    "```no_run\n# async fn example(queue: zebu_recipes::IdQueue) -> zebu_recipes::Result<()> {\nassert_eq!(queue.is_empty().await?, queue.len().await? == 0);\n# Ok(()) }\n```"
}

impl PlainQueue {
    /// Puts in an item of these elements.
    ///
    /// # Errors
    /// As [`Queue::put`].
    ///
    #[doc = example!(
        "let queue = PlainQueue::new(&client, \"/jobs\", \"/locks\", &Acls::creator());"
        "queue.put(&[b\"job\"]).await?;"
        "assert_eq!(client.get_children(\"/jobs\").await?.0, [\"queue-0000000000\"]);"
    )]
    pub async fn put(&self, elements: &[&[u8]]) -> Result<()> {
        self.queue.put_as(order::ITEM, &written(elements)).await
    }
}

impl PriorityQueue {
    /// Puts in an item of these elements.
    ///
    /// # Errors
    /// As [`Queue::put`].
    ///
    #[doc = example!(
        "let queue = PriorityQueue::new(&client, \"/jobs\", \"/locks\", &Acls::creator());"
        "queue.put(&[b\"job\"], 5).await?;"
        "assert_eq!(client.get_children(\"/jobs\").await?.0, [\"queue-1000000050000000000\"]);"
    )]
    pub async fn put(&self, elements: &[&[u8]], priority: i32) -> Result<()> {
        self.queue.put_as(&order::of_priority(priority), &written(elements)).await
    }
}

impl DelayQueue {
    /// Puts in an item of these elements, which may be taken from this time on. The time is rounded
    /// down to whole milliseconds.
    ///
    /// # Errors
    /// As for [`Queue::put`].
    ///
    #[doc = example!(
        "let queue = DelayQueue::new(&client, \"/jobs\", \"/locks\", &Acls::creator());"
        "queue.put(&[b\"job\"], std::time::UNIX_EPOCH).await?;"
        "assert_eq!(client.get_children(\"/jobs\").await?.0, [\"queue-|00000000|0000000000\"]);"
    )]
    pub async fn put(&self, elements: &[&[u8]], ready: SystemTime) -> Result<()> {
        let ready_ms = order::since_epoch_ms(ready);
        self.queue.put_as(&order::of_time(ready_ms), &written(elements)).await
    }
}

impl IdQueue {
    /// Puts in an item of these elements. Several items may have the same id. A slash or `|` in the
    /// id counts as an underscore.
    ///
    /// # Errors
    /// As for [`Queue::put`].
    ///
    #[doc = example!(
        "let queue = IdQueue::new(&client, \"/jobs\", \"/locks\", &Acls::creator());"
        "queue.put(&[b\"job\"], \"amy\").await?;"
        "assert_eq!(client.get_children(\"/jobs\").await?.0, [\"queue-|amy|0000000000\"]);"
    )]
    pub async fn put(&self, elements: &[&[u8]], id: &str) -> Result<()> {
        self.queue.put_as(&order::of_id(id), &written(elements)).await
    }

    /// Whether there is an item with this id, free or taken.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    #[doc = example!(
        "let queue = IdQueue::new(&client, \"/jobs\", \"/locks\", &Acls::creator());"
        "assert!(!queue.contains(\"amy\").await?);"
    )]
    pub async fn contains(&self, id: &str) -> Result<bool> {
        Ok(!self.named(id).await?.is_empty())
    }

    /// Removes all free items with this id. Returns how many it removed. If an answer was lost, the
    /// number may be one too low.
    ///
    /// # Errors
    /// The errors of reading and writing. Some items may have been removed already.
    ///
    #[doc = example!(
        "let queue = IdQueue::new(&client, \"/jobs\", \"/locks\", &Acls::creator());"
        "assert_eq!(queue.remove(\"amy\").await?, 0);"
    )]
    pub async fn remove(&self, id: &str) -> Result<usize> {
        let mut removed = 0;
        for name in self.named(id).await? {
            removed += usize::from(self.queue.remove_free(&name).await?);
        }
        Ok(removed)
    }

    async fn named(&self, id: &str) -> Result<Vec<String>> {
        let fixed = order::fixed(id);
        let mut names = self.queue.names().await?;
        names.retain(|name| order::within(name) == Some(&fixed));
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_written_as_curator_writes_them() {
        let bytes = b"\0\x01\0\x01\x01\0\0\0\x03one\x01\0\0\0\0\x02";
        assert_eq!(written(&[b"one", b""]), bytes);
        assert_eq!(elements(bytes), Some(vec![&b"one"[..], b""]));
        assert_eq!(elements(&written(&[])), Some(vec![]));
        for cut in 0..bytes.len() {
            assert_eq!(elements(&bytes[..cut]), None);
        }
        for odd in
            [&b"\0\x01\0\x02\x02"[..], b"\0\x01\0\x01\x03", b"\0\x01\0\x01\x01\xff\xff\xff\xff\x02"]
        {
            assert_eq!(elements(odd), None);
        }
    }
}
