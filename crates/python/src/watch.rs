//! Watches. A program waits for the next event of a watch.

use std::sync::Arc;

use pyo3::prelude::*;
use tokio::sync::Mutex;
use zebu_client::{Event, EventKind, Notice, SessionThread};

use crate::call::Call;

/// Kind, path and zxid of an event.
type Told = (&'static str, String, Option<i64>);

fn told(event: Event) -> Told {
    let kind = match event.kind {
        EventKind::Created => "created",
        EventKind::Deleted => "deleted",
        EventKind::DataChanged => "data_changed",
        EventKind::ChildrenChanged => "children_changed",
        _ => "watch_removed",
    };
    (kind, event.path, event.zxid.map(|zxid| zxid.0))
}

/// A watch that a read has set: one event.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Watch {
    watch: Arc<Mutex<zebu_client::Watch>>,
    thread: SessionThread,
}

impl Watch {
    pub(crate) fn new(watch: zebu_client::Watch, thread: &SessionThread) -> Self {
        Self { watch: Arc::new(Mutex::new(watch)), thread: thread.clone() }
    }
}

#[pymethods]
impl Watch {
    /// The event.
    fn next(&self) -> Call {
        let watch = self.watch.clone();
        Call::new(&self.thread, async move { (&mut *watch.lock().await).await.map(told) })
    }
}

/// A watch that reports every change.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct PersistentWatch {
    watch: Arc<Mutex<zebu_client::PersistentWatch>>,
    thread: SessionThread,
}

impl PersistentWatch {
    pub(crate) fn new(watch: zebu_client::PersistentWatch, thread: &SessionThread) -> Self {
        Self { watch: Arc::new(Mutex::new(watch)), thread: thread.clone() }
    }
}

#[pymethods]
impl PersistentWatch {
    /// The next event, or the report that events may be missing.
    fn next(&self) -> Call {
        let watch = self.watch.clone();
        Call::new(&self.thread, async move {
            let notice = watch.lock().await.next().await;
            notice.map(|notice| match notice {
                Notice::Event(event) => told(event),
                Notice::Disconnected => ("disconnected", String::new(), None),
                Notice::Missed => ("missed", String::new(), None),
            })
        })
    }
}
