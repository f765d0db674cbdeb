//! The native half of the Python package `zebu`: sessions, watches and recipes as objects that
//! Python code waits for.
//!
//! Every operation that takes time returns a `Call`. The other half, in `python/zebu`, turns it
//! into a blocking call or an awaitable of asyncio. A session lives on its own thread, which never
//! waits for the interpreter. So a computation in Python does not delay heartbeats.

mod call;
mod connect;
mod error;
mod follow;
mod meet;
mod recipe;
mod session;
mod stat;
mod watch;
mod work;

/// The module `zebu._native`.
#[pyo3::pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::call::Call;
    #[pymodule_export]
    use crate::connect::connect;
    #[pymodule_export]
    use crate::follow::{Cache, Changes, ChildrenWatch, DataWatch};
    #[pymodule_export]
    use crate::meet::{Barrier, DoubleBarrier, Inside, Member, Participant, Partitions, Party};
    #[pymodule_export]
    use crate::recipe::{Election, Held, Lock, Semaphore};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::stat::Stat;
    #[pymodule_export]
    use crate::watch::{PersistentWatch, Watch};
    #[pymodule_export]
    use crate::work::{Counter, Item, KazooQueue, Queue};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let end = pyo3::wrap_pyfunction!(crate::call::end_callbacks, module)?;
        module.py().import("atexit")?.call_method1("register", (end,)).map(drop)
    }
}
