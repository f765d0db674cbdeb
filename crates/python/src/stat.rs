//! The stat of a znode as a Python object.

use pyo3::prelude::*;

/// The stat of a znode. Times are milliseconds since 1970.
#[pyclass(frozen, eq, hash, get_all, module = "zebu._native")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stat {
    /// The transaction that created the znode.
    czxid: i64,
    /// The last transaction that set its data.
    mzxid: i64,
    /// The last transaction that changed its list of children.
    pzxid: i64,
    /// The time of its creation.
    ctime: i64,
    /// The time at which its data were last set.
    mtime: i64,
    /// The number of times that its data were set.
    version: i32,
    /// The number of times that its list of children changed.
    cversion: i32,
    /// The number of times that its ACL was set.
    aversion: i32,
    /// The session that owns the ephemeral, or 0.
    ephemeral_owner: i64,
    /// The length of its data.
    data_length: i32,
    /// The number of its children.
    num_children: i32,
}

impl From<zebu_client::Stat> for Stat {
    fn from(stat: zebu_client::Stat) -> Self {
        Self {
            czxid: stat.czxid.0,
            mzxid: stat.mzxid.0,
            pzxid: stat.pzxid.0,
            ctime: stat.ctime,
            mtime: stat.mtime,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            ephemeral_owner: stat.ephemeral_owner,
            data_length: stat.data_length,
            num_children: stat.num_children,
        }
    }
}

#[pymethods]
impl Stat {
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}
