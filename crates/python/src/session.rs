//! A session: its requests, its watches, and its state.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{IntoPyObjectExt, exceptions::PyValueError};
use zebu_client::{
    Acl, Acls, Client, CreateMode, Id, OpResult, Perms, SessionState, Version, WatchMode,
};

use crate::call::{Call, duration};
use crate::error::Failure;
use crate::stat::Stat;
use crate::watch::{PersistentWatch, Watch};

/// An entry of an ACL: permissions, scheme, id.
pub(crate) type Entry = (i32, String, String);

pub(crate) fn acls(entries: Vec<Entry>) -> Acls {
    let entries: Vec<Acl> = entries
        .into_iter()
        .map(|(perms, scheme, id)| Acl { perms: Perms(perms), id: Id::new(scheme, id) })
        .collect();
    entries.into()
}

/// The kind of znode to create.
#[derive(FromPyObject)]
pub(crate) struct Mode {
    #[pyo3(item)]
    ephemeral: bool,
    #[pyo3(item)]
    sequence: bool,
    #[pyo3(item)]
    container: bool,
    #[pyo3(item)]
    ttl: Option<f64>,
}

impl Mode {
    fn mode(&self) -> PyResult<CreateMode> {
        match (self.ephemeral, self.sequence, self.container, self.ttl.map(duration)) {
            (false, false, false, None) => Ok(CreateMode::Persistent),
            (false, true, false, None) => Ok(CreateMode::PersistentSequential),
            (true, false, false, None) => Ok(CreateMode::Ephemeral),
            (true, true, false, None) => Ok(CreateMode::EphemeralSequential),
            (false, false, true, None) => Ok(CreateMode::Container),
            (false, false, false, Some(time)) => Ok(CreateMode::Ttl(time)),
            (false, true, false, Some(time)) => Ok(CreateMode::SequentialTtl(time)),
            _ => Err(PyValueError::new_err(
                "a znode is one of ephemeral, container and with a ttl, and a container has no sequence",
            )),
        }
    }
}

/// The data of a znode, which become `bytes`.
pub(crate) struct Data(Vec<u8>);

impl<'py> IntoPyObject<'py> for Data {
    type Target = PyBytes;
    type Output = Bound<'py, PyBytes>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(PyBytes::new(py, &self.0))
    }
}

impl<T: AsRef<[u8]>> From<T> for Data {
    fn from(data: T) -> Self {
        Self(data.as_ref().to_vec())
    }
}

/// One result of a transaction: a path, a stat, or `None`.
struct Outcome(OpResult);

impl<'py> IntoPyObject<'py> for Outcome {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        match self.0 {
            OpResult::Created(created) => created.path.into_bound_py_any(py),
            OpResult::Set(stat) => Stat::from(stat).into_bound_py_any(py),
            _ => Ok(py.None().into_bound(py)),
        }
    }
}

/// One write of a transaction; a create has a mode and an ACL, the others have a version.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Op {
    kind: String,
    path: String,
    data: Vec<u8>,
    version: i32,
    mode: Option<Mode>,
    acl: Vec<Entry>,
}

/// A session with an ensemble.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Session {
    pub(crate) client: Client,
}

impl Session {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    fn call<T, E>(&self, future: impl Future<Output = Result<T, E>> + Send + 'static) -> Call
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
        E: Into<Failure>,
    {
        Call::new(self.client.thread(), future)
    }
}

#[pymethods]
impl Session {
    fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: Mode,
        acl: Vec<Entry>,
        is_protected: bool,
    ) -> PyResult<Call> {
        let (mode, acl) = (mode.mode()?, acls(acl));
        if is_protected {
            let (client, path, data) = (self.client.clone(), path.to_owned(), data.to_vec());
            return Ok(self.call(async move {
                client
                    .unowned()
                    .create_protected(&path, data, mode, &acl)
                    .await
                    .map(|node| node.path)
            }));
        }
        let created = self.client.create(path, data, mode, &acl);
        Ok(self.call(async move { created.await.map(|node| node.path) }))
    }

    fn ensure_path(&self, path: String, acl: Vec<Entry>) -> Call {
        let (client, acl) = (self.client.unowned(), acls(acl));
        self.call(async move { client.create_all(&path, &acl).await })
    }

    fn delete(&self, path: &str, version: i32) -> Call {
        self.call(self.client.delete(path, Version(version)))
    }

    fn delete_all(&self, path: String) -> Call {
        let client = self.client.unowned();
        self.call(async move { client.delete_all(&path).await.map(|_| ()) })
    }

    fn exists(&self, path: &str) -> Call {
        let found = self.client.exists(path);
        self.call(async move { found.await.map(|stat| stat.map(Stat::from)) })
    }

    fn watch_exists(&self, path: &str) -> Call {
        let (found, thread) = (self.client.watch_exists(path), self.client.thread().clone());
        self.call(async move {
            found.await.map(|(stat, watch)| (stat.map(Stat::from), Watch::new(watch, &thread)))
        })
    }

    fn get(&self, path: &str) -> Call {
        let read = self.client.get_data(path);
        self.call(
            async move { read.await.map(|(data, stat)| (Data::from(data), Stat::from(stat))) },
        )
    }

    fn watch_data(&self, path: &str) -> Call {
        let (read, thread) = (self.client.watch_data(path), self.client.thread().clone());
        self.call(async move {
            read.await.map(|(data, stat, watch)| {
                (Data::from(data), Stat::from(stat), Watch::new(watch, &thread))
            })
        })
    }

    fn set(&self, path: &str, data: &[u8], version: i32) -> Call {
        let set = self.client.set_data(path, data, Version(version));
        self.call(async move { set.await.map(Stat::from) })
    }

    fn get_children(&self, path: &str) -> Call {
        let read = self.client.get_children(path);
        self.call(async move { read.await.map(|(names, _)| names) })
    }

    fn watch_children(&self, path: &str) -> Call {
        let (read, thread) = (self.client.watch_children(path), self.client.thread().clone());
        self.call(
            async move { read.await.map(|(names, _, watch)| (names, Watch::new(watch, &thread))) },
        )
    }

    fn get_acls(&self, path: &str) -> Call {
        let read = self.client.get_acl(path);
        self.call(async move {
            read.await.map(|(acl, stat)| {
                let entries = acl.into_iter().map(|acl| (acl.perms.0, acl.id.scheme, acl.id.id));
                (entries.collect::<Vec<_>>(), Stat::from(stat))
            })
        })
    }

    fn set_acls(&self, path: &str, acl: Vec<Entry>, version: i32) -> Call {
        let set = self.client.set_acl(path, &acls(acl), Version(version));
        self.call(async move { set.await.map(Stat::from) })
    }

    fn sync(&self, path: &str) -> Call {
        self.call(self.client.sync(path))
    }

    fn count_descendants(&self, path: &str) -> Call {
        self.call(self.client.count_descendants(path))
    }

    fn ephemerals(&self, prefix: &str) -> Call {
        self.call(self.client.ephemerals(prefix))
    }

    fn add_auth(&self, scheme: &str, auth: &[u8]) -> Call {
        self.call(self.client.authenticate(scheme, auth))
    }

    fn who_am_i(&self) -> Call {
        let known = self.client.who_am_i();
        self.call(async move {
            known.await.map(|known| {
                known.into_iter().map(|known| (known.scheme, known.user)).collect::<Vec<_>>()
            })
        })
    }

    fn get_config(&self) -> Call {
        let read = self.client.get_config();
        self.call(
            async move { read.await.map(|(data, stat)| (Data::from(data), Stat::from(stat))) },
        )
    }

    fn commit(&self, ops: Vec<Op>) -> PyResult<Call> {
        let mut transaction = self.client.transaction();
        for op in ops {
            let version = Version(op.version);
            match (op.kind.as_str(), op.mode) {
                ("create", Some(mode)) => {
                    transaction.create(&op.path, op.data, mode.mode()?, &acls(op.acl));
                }
                ("set", None) => {
                    transaction.set_data(&op.path, op.data, version);
                }
                ("delete", None) => {
                    transaction.delete(&op.path, version);
                }
                ("check", None) => {
                    transaction.check(&op.path, version);
                }
                _ => return Err(PyValueError::new_err("not a write of a transaction")),
            }
        }
        let results = transaction.commit();
        Ok(self.call(async move {
            results.await.map(|results| results.iter().cloned().map(Outcome).collect::<Vec<_>>())
        }))
    }

    fn watch(&self, path: &str, is_recursive: bool) -> Call {
        let mode = if is_recursive { WatchMode::Recursive } else { WatchMode::Persistent };
        let (watch, thread) = (self.client.watch(path, mode), self.client.thread().clone());
        self.call(async move { watch.await.map(|watch| PersistentWatch::new(watch, &thread)) })
    }

    /// The same session with another root.
    fn with_chroot(&self, py: Python<'_>, path: &str) -> PyResult<Self> {
        let client = self.client.with_chroot(path);
        client.map(Self::new).map_err(|error| Failure::from(error).raise(py))
    }

    fn chroot(&self) -> &str {
        self.client.chroot()
    }

    fn state(&self) -> &'static str {
        match self.client.state() {
            SessionState::Connecting => "connecting",
            SessionState::Connected => "connected",
            SessionState::ConnectedReadOnly => "connected_read_only",
            SessionState::Disconnected => "disconnected",
            SessionState::Expired => "expired",
            SessionState::AuthFailed => "auth_failed",
            SessionState::GivenUp => "given_up",
            SessionState::OtherEnsemble { .. } => "other_ensemble",
            _ => "closed",
        }
    }

    /// The number of seconds until the session may end.
    fn session_left(&self) -> f64 {
        self.client.session_left().as_secs_f64()
    }

    /// The id of the session and its password.
    fn ticket(&self) -> Option<(i64, Data)> {
        self.client.ticket().map(|ticket| (ticket.id.0, Data::from(ticket.password)))
    }

    /// Ends the connection, but not the session; a program with the ticket can continue the
    /// session.
    fn leave(&self) -> Option<(i64, Data)> {
        self.client.leave().map(|ticket| (ticket.id.0, Data::from(ticket.password)))
    }

    fn close(&self) -> Call {
        self.call(self.client.close())
    }
}
