//! Queues and counters.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use zebu_client::SessionThread;
use zebu_recipes::{Error, SharedValue};

use crate::call::Call;
use crate::recipe::LAYOUTS;
use crate::session::{Data, Entry, Session, acls};

/// A queue whose items survive a crash of the worker.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Queue {
    queue: Kind,
    thread: SessionThread,
}

/// The owner of a queue's znode format.
#[derive(Clone)]
enum Kind {
    Own(zebu_recipes::Queue),
    Kazoo(zebu_recipes::KazooLockingQueue),
}

/// An item that a worker has taken.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Item {
    item: Mutex<Option<zebu_recipes::Item>>,
    thread: SessionThread,
}

#[pymethods]
impl Queue {
    #[new]
    fn new(session: &Session, path: &str, acl: Vec<Entry>, layout: &str) -> PyResult<Self> {
        let (client, acl) = (&session.client, acls(acl));
        let queue = match layout {
            "zebu" => Kind::Own(zebu_recipes::Queue::new(client, path, &acl)),
            "kazoo" => Kind::Kazoo(zebu_recipes::KazooLockingQueue::new(client, path, &acl)),
            _ => return Err(PyValueError::new_err(LAYOUTS)),
        };
        Ok(Self { queue, thread: client.thread().clone() })
    }

    /// Several items are put in together, or none of them. Only kazoo's queue takes several.
    fn put(&self, items: Vec<Vec<u8>>, priority: u16) -> PyResult<Call> {
        match self.queue.clone() {
            Kind::Kazoo(queue) => {
                Ok(Call::new(&self.thread, async move { queue.put_all(&items, priority).await }))
            }
            Kind::Own(queue) => {
                let priority = u8::try_from(priority)
                    .map_err(|_| PyValueError::new_err("priorities are 0 to 255"))?;
                Ok(Call::new(&self.thread, async move {
                    for data in items {
                        queue.put(data, priority).await?;
                    }
                    Ok::<_, Error>(())
                }))
            }
        }
    }

    /// The data of the next item, and the item.
    fn take(&self) -> Call {
        let (queue, thread) = (self.queue.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            let item = match queue {
                Kind::Own(queue) => queue.take().await?,
                Kind::Kazoo(queue) => queue.take().await?,
            };
            let data = Data::from(item.data());
            Ok::<_, Error>((data, Item { item: Mutex::new(Some(item)), thread }))
        })
    }

    fn len(&self) -> Call {
        let queue = self.queue.clone();
        Call::new(&self.thread, async move {
            match queue {
                Kind::Own(queue) => queue.len().await,
                Kind::Kazoo(queue) => queue.len().await,
            }
        })
    }
}

/// A queue that removes an item before its worker has it, in the form of kazoo's `Queue`.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct KazooQueue {
    queue: zebu_recipes::KazooQueue,
    thread: SessionThread,
}

#[pymethods]
impl KazooQueue {
    #[new]
    fn new(session: &Session, path: &str, acl: Vec<Entry>) -> Self {
        let queue = zebu_recipes::KazooQueue::new(&session.client, path, &acls(acl));
        Self { queue, thread: session.client.thread().clone() }
    }

    fn put(&self, data: Vec<u8>, priority: u16) -> Call {
        let queue = self.queue.clone();
        Call::new(&self.thread, async move { queue.put(data, priority).await })
    }

    fn get(&self) -> Call {
        let queue = self.queue.clone();
        Call::new(&self.thread, async move { Ok::<_, Error>(queue.get().await?.map(Data::from)) })
    }

    fn len(&self) -> Call {
        let queue = self.queue.clone();
        Call::new(&self.thread, async move { queue.len().await })
    }
}

impl Item {
    fn taken(&self) -> Option<zebu_recipes::Item> {
        self.item.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Item {
    /// Deletes the item.
    fn finish(&self) -> PyResult<Call> {
        let error = || PyRuntimeError::new_err("the item was finished or given back");
        let item = self.taken().ok_or_else(error)?;
        Ok(Call::new(&self.thread, item.finish()))
    }

    /// Lets other workers take the item, in the background.
    fn give_back(&self) {
        drop(self.taken());
    }
}

/// The number of attempts while other programs are faster.
const CHANGES_MAX: usize = 64;

/// A number as text, in the form of kazoo's `Counter`.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Counter {
    value: SharedValue,
    path: String,
    default: i64,
    thread: SessionThread,
}

/// The number in the data.
fn number(data: &[u8], default: i64, path: &str) -> Result<i64, Error> {
    // kazoo creates a counter without data.
    if data.is_empty() {
        return Ok(default);
    }
    let number = std::str::from_utf8(data).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| Error::Foreign(path.to_owned()))
}

#[pymethods]
impl Counter {
    #[new]
    fn new(session: &Session, path: String, default: i64, acl: Vec<Entry>) -> Self {
        let value = SharedValue::new(&session.client, &path, "", &acls(acl));
        Self { value, path, default, thread: session.client.thread().clone() }
    }

    fn get(&self) -> Call {
        let (value, path, default) = (self.value.clone(), self.path.clone(), self.default);
        Call::new(&self.thread, async move { number(&value.get().await?.value, default, &path) })
    }

    /// Adds to the number, and returns the new number.
    fn add(&self, change: i64) -> Call {
        let (value, path, default) = (self.value.clone(), self.path.clone(), self.default);
        Call::new(&self.thread, async move {
            for _ in 0..CHANGES_MAX {
                let seen = value.get().await?;
                let next = number(&seen.value, default, &path)?.wrapping_add(change);
                if value.try_set(seen.version, next.to_string()).await?.is_some() {
                    return Ok(next);
                }
            }
            Err(Error::Contended(path))
        })
    }
}
