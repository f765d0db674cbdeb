//! Barriers and parties: where programs wait for each other, and where they see who is there.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, SessionThread};
use zebu_recipes::{Error, PersistentNode};

use crate::call::Call;
use crate::session::{Data, Entry, Session, acls};

/// A barrier that one program opens for all.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Barrier {
    barrier: zebu_recipes::Barrier,
    thread: SessionThread,
}

#[pymethods]
impl Barrier {
    #[new]
    fn new(session: &Session, path: &str, acl: Vec<Entry>) -> Self {
        let barrier = zebu_recipes::Barrier::new(&session.client, path, &acls(acl));
        Self { barrier, thread: session.client.thread().clone() }
    }

    fn create(&self) -> Call {
        let barrier = self.barrier.clone();
        Call::new(&self.thread, async move { barrier.set().await })
    }

    fn remove(&self) -> Call {
        let barrier = self.barrier.clone();
        Call::new(&self.thread, async move { barrier.remove().await })
    }

    fn passed(&self) -> Call {
        let barrier = self.barrier.clone();
        Call::new(&self.thread, async move { barrier.wait().await })
    }
}

/// A barrier that programs enter and leave together.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct DoubleBarrier {
    barrier: zebu_recipes::DoubleBarrier,
    thread: SessionThread,
}

/// A program that is inside a double barrier.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Inside {
    inside: Mutex<Option<zebu_recipes::Inside>>,
    thread: SessionThread,
}

#[pymethods]
impl DoubleBarrier {
    #[new]
    fn new(session: &Session, path: &str, size: usize, acl: Vec<Entry>) -> Self {
        let barrier = zebu_recipes::DoubleBarrier::new(&session.client, path, size, &acls(acl));
        Self { barrier, thread: session.client.thread().clone() }
    }

    fn enter(&self, name: String) -> Call {
        let (barrier, thread) = (self.barrier.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            let inside = barrier.enter(&name).await?;
            Ok::<_, Error>(Inside { inside: Mutex::new(Some(inside)), thread })
        })
    }
}

#[pymethods]
impl Inside {
    /// Leaves together with the others. A second time, there is nothing to do.
    fn leave(&self) -> Call {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner).take();
        Call::new(&self.thread, async move {
            match inside {
                Some(inside) => inside.leave().await,
                None => Ok(()),
            }
        })
    }
}

/// The part of a member's name behind its unique beginning.
///
/// Source: kazoo's `Party._NODE_NAME`.
const MEMBER: &str = "__party__";

/// Programs that see each other, in the form of kazoo's `Party`.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Party {
    client: Client,
    path: String,
    acl: Acls,
}

/// Membership in a party.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Member {
    node: Mutex<Option<PersistentNode>>,
    thread: SessionThread,
}

#[pymethods]
impl Party {
    #[new]
    fn new(session: &Session, path: String, acl: Vec<Entry>) -> Self {
        Self { client: session.client.clone(), path, acl: acls(acl) }
    }

    /// Joins, and returns when the others can see that.
    fn join(&self, data: Vec<u8>) -> Call {
        let (client, acl, thread) =
            (self.client.clone(), self.acl.clone(), self.client.thread().clone());
        let path = format!("{}/{}{MEMBER}", self.path, client.unique_name());
        Call::new(&thread.clone(), async move {
            let mode = CreateMode::Ephemeral;
            let node = PersistentNode::keep(&client, &path, data, mode, &acl).await?;
            Ok::<_, Error>(Member { node: Mutex::new(Some(node)), thread })
        })
    }

    /// The data of the members.
    fn members(&self) -> Call {
        let (client, path) = (self.client.unowned(), self.path.clone());
        Call::new(self.client.thread(), async move {
            let names = match Retry::default().reads(|| client.get_children(&path)).await {
                Ok((names, _)) => names,
                Err(error) if error.kind() == ErrorKind::Gone => Vec::new(),
                Err(error) => return Err(error),
            };
            let mut members = Vec::new();
            for name in names.iter().filter(|name| name.contains(MEMBER)) {
                let member = format!("{path}/{name}");
                match Retry::default().reads(|| client.get_data(&member)).await {
                    Ok((data, _)) => members.push(Data::from(data)),
                    // It has left meanwhile.
                    Err(error) if error.kind() == ErrorKind::Gone => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(members)
        })
    }
}

#[pymethods]
impl Member {
    /// Leaves. A second time, there is nothing to do.
    fn leave(&self) -> Call {
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner).take();
        Call::new(&self.thread, async move {
            match node {
                Some(node) => node.close().await,
                None => Ok(()),
            }
        })
    }
}
