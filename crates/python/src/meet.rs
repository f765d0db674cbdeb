//! Barriers, parties and partitions: where programs wait for each other, see each other, and share
//! work.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use zebu_client::SessionThread;
use zebu_recipes::{Error, PartyMember};

use crate::call::{Call, duration};
use crate::recipe::{Held, LAYOUTS};
use crate::session::{Entry, Session, acls};

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
    fn new(
        session: &Session,
        path: &str,
        size: usize,
        acl: Vec<Entry>,
        layout: &str,
    ) -> PyResult<Self> {
        let make = match layout {
            "zebu" => zebu_recipes::DoubleBarrier::new,
            "kazoo" => zebu_recipes::DoubleBarrier::of_kazoo,
            _ => return Err(PyValueError::new_err(LAYOUTS)),
        };
        let barrier = make(&session.client, path, size, &acls(acl));
        Ok(Self { barrier, thread: session.client.thread().clone() })
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
    /// Leaves together with the others. A second call does nothing.
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

/// Programs that see each other.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Party {
    party: zebu_recipes::Party,
    thread: SessionThread,
}

/// Membership in a party.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Member {
    member: Mutex<Option<PartyMember>>,
    thread: SessionThread,
}

#[pymethods]
impl Party {
    #[new]
    fn new(session: &Session, path: &str, acl: Vec<Entry>, is_shallow: bool) -> Self {
        let make = if is_shallow { zebu_recipes::Party::shallow } else { zebu_recipes::Party::new };
        let party = make(&session.client, path, &acls(acl));
        Self { party, thread: session.client.thread().clone() }
    }

    /// Joins, and returns when the others can see this program.
    fn join(&self, name: String) -> Call {
        let (party, thread) = (self.party.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            let member = Mutex::new(Some(party.join(&name).await?));
            Ok::<_, Error>(Member { member, thread })
        })
    }

    /// The names of the members.
    fn members(&self) -> Call {
        let party = self.party.clone();
        Call::new(&self.thread, async move { party.members().await })
    }
}

#[pymethods]
impl Member {
    /// Leaves. A second call does nothing.
    fn leave(&self) -> Call {
        let member = self.member.lock().unwrap_or_else(PoisonError::into_inner).take();
        Call::new(&self.thread, async move {
            match member {
                Some(member) => member.leave().await,
                None => Ok(()),
            }
        })
    }
}

/// The items of a set, divided among members.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Partitions {
    partitions: zebu_recipes::Partitions,
    thread: SessionThread,
}

/// A member that owns a part of the items of a set.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Participant {
    participant: Mutex<Option<Arc<zebu_recipes::Participant>>>,
    thread: SessionThread,
}

#[pymethods]
impl Partitions {
    #[new]
    fn new(session: &Session, path: &str, items: Vec<String>, quiet: f64, acl: Vec<Entry>) -> Self {
        let partitions = zebu_recipes::Partitions::new(&session.client, path, items, &acls(acl))
            .quiet(duration(quiet));
        Self { partitions, thread: session.client.thread().clone() }
    }

    fn join(&self, name: String) -> Call {
        let (partitions, thread) = (self.partitions.clone(), self.thread.clone());
        Call::new(&self.thread, async move {
            let participant = Arc::new(partitions.join(&name).await?);
            Ok::<_, Error>(Participant { participant: Mutex::new(Some(participant)), thread })
        })
    }
}

#[pymethods]
impl Participant {
    /// The items, their fencing tokens, and the object that holds them.
    fn acquire(&self) -> PyResult<Call> {
        let participant = self.participant.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let error = || PyRuntimeError::new_err("this member has left");
        let (participant, thread) = (participant.ok_or_else(error)?, self.thread.clone());
        Ok(Call::new(&self.thread, async move {
            let part = participant.acquire().await?;
            let items = part.items().to_vec();
            let tokens: Vec<i64> = part.tokens().iter().map(|token| token.0.0).collect();
            let newest = part.tokens().into_iter().max();
            Ok::<_, Error>((items, tokens, Held::new(part, newest, String::new(), &thread)))
        }))
    }

    /// Leaves. A second call does nothing.
    fn leave(&self) -> Call {
        let participant = self.participant.lock().unwrap_or_else(PoisonError::into_inner).take();
        Call::new(&self.thread, async move {
            // A call that waits for the items leaves when it ends.
            match participant.and_then(Arc::into_inner) {
                Some(participant) => participant.leave().await,
                None => Ok(()),
            }
        })
    }
}
