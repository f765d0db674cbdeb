//! Objects that follow znodes: the data of one, its children, and whole subtrees in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tokio::sync::Mutex;
use zebu_client::SessionThread;
use zebu_recipes::{Children, Error, Value, Znode};

use crate::call::{Call, duration};
use crate::session::{Data, Session};
use crate::stat::Stat;

/// The data of a znode, one change after the other.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct DataWatch {
    value: Arc<Mutex<Value>>,
    thread: SessionThread,
}

#[pymethods]
impl DataWatch {
    #[new]
    fn new(session: &Session, path: &str) -> Self {
        let value = Arc::new(Mutex::new(Value::of(&session.client, path)));
        Self { value, thread: session.client.thread().clone() }
    }

    fn next(&self) -> Call {
        let value = self.value.clone();
        Call::new(&self.thread, async move {
            let found = value.lock().await.next().await?;
            Ok::<_, Error>(found.map(|(data, stat)| (Data::from(data), Stat::from(stat))))
        })
    }
}

/// The names of the children of a znode, one change after the other.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct ChildrenWatch {
    seen: Arc<Mutex<Seen>>,
    /// The time without a change after which the names are reported.
    quiet: Option<Duration>,
    thread: SessionThread,
}

struct Seen {
    children: Children,
    /// The last reported names.
    told: Option<Names>,
}

/// `None` while the znode does not exist.
type Names = Option<BTreeSet<String>>;

impl Seen {
    async fn next(&mut self, quiet: Option<Duration>) -> Result<Names, Error> {
        let Some(quiet) = quiet else { return self.children.next().await };
        loop {
            let names = self.children.settled(quiet).await?;
            if self.told.as_ref() != Some(&names) {
                self.told = Some(names.clone());
                return Ok(names);
            }
            self.children.next().await?;
        }
    }
}

#[pymethods]
impl ChildrenWatch {
    #[new]
    fn new(session: &Session, path: &str, quiet: Option<f64>) -> Self {
        let seen = Seen { children: Children::of(&session.client, path), told: None };
        let (seen, quiet) = (Arc::new(Mutex::new(seen)), quiet.map(duration));
        Self { seen, quiet, thread: session.client.thread().clone() }
    }

    fn next(&self) -> Call {
        let (seen, quiet) = (self.seen.clone(), self.quiet);
        Call::new(&self.thread, async move {
            let names = seen.lock().await.next(quiet).await?;
            Ok::<_, Error>(names.map(|names| names.into_iter().collect::<Vec<_>>()))
        })
    }
}

/// A znode of a cache: path, data, stat.
type Entry = (String, Data, Stat);

fn entry(znode: &Znode) -> Entry {
    (znode.path.clone(), Data::from(&znode.data), Stat::from(znode.stat))
}

/// A part of the tree in memory.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Cache {
    cache: zebu_recipes::Cache,
    thread: SessionThread,
}

/// The changes of a cache.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Changes {
    changes: Arc<Mutex<zebu_recipes::Changes>>,
    thread: SessionThread,
}

#[pymethods]
impl Cache {
    #[new]
    fn new(session: &Session, path: &str, depth: &str, keeps_data: bool) -> PyResult<Self> {
        let make = match depth {
            "tree" => zebu_recipes::Cache::tree,
            "children" => zebu_recipes::Cache::children,
            "znode" => zebu_recipes::Cache::node,
            _ => return Err(PyValueError::new_err("depth is 'tree', 'children' or 'znode'")),
        };
        let builder = make(&session.client, path);
        let builder = if keeps_data { builder } else { builder.without_data() };
        Ok(Self { cache: builder.start(), thread: session.client.thread().clone() })
    }

    /// Waits until the cache is complete.
    fn current(&self) -> Call {
        let cache = self.cache.clone();
        Call::new(&self.thread, async move { cache.current().await })
    }

    #[getter]
    fn is_current(&self) -> bool {
        self.cache.is_current()
    }

    fn get(&self, path: &str) -> Option<Entry> {
        self.cache.get(path).map(|znode| entry(&znode))
    }

    fn children_of(&self, path: &str) -> Vec<String> {
        let children = self.cache.children_of(path).into_iter();
        children.filter_map(|znode| znode.path.rsplit('/').next().map(str::to_owned)).collect()
    }

    fn len(&self) -> usize {
        self.cache.len()
    }

    fn changes(&self) -> Changes {
        let changes = Arc::new(Mutex::new(self.cache.changes()));
        Changes { changes, thread: self.thread.clone() }
    }
}

#[pymethods]
impl Changes {
    /// The kind of the next change, and the znode after it, or before its deletion.
    fn next(&self) -> Call {
        let changes = self.changes.clone();
        Call::new(&self.thread, async move {
            use zebu_recipes::Change;
            let change = changes.lock().await.next().await?;
            Ok::<_, Error>(match change {
                Change::Created(znode) => ("created", Some(entry(&znode))),
                Change::Written { now, .. } => ("data_changed", Some(entry(&now))),
                Change::Deleted(znode) => ("deleted", Some(entry(&znode))),
                Change::Current => ("current", None),
                Change::Suspended => ("suspended", None),
                // `Reset`, and kinds that a later version may add: the earlier reports are no
                // longer valid.
                _ => ("reset", None),
            })
        })
    }
}
