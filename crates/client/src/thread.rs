//! The threads on which sessions run. The application's computations cannot delay their heartbeats.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::thread::{self, ThreadId};

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A thread that keeps sessions alive: it connects them, sends their heartbeats and receives their
/// answers.
///
/// Each session starts a separate thread, so the work of the application never delays its
/// heartbeats, on any runtime. A program with very many sessions can share a few threads between
/// them:
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::with_server(async |server| {
/// # let address = server.address().to_string();
/// use zebu_client::{Connector, SessionThread};
///
/// let thread = SessionThread::start()?;
/// let connector = Connector::new().on_thread(&thread);
/// let mut clients = Vec::new();
/// for _ in 0..10 {
///     clients.push(connector.clone().connect(&address).await?);
/// }
/// # Ok(()) });
/// ```
///
/// The thread ends with the last of its sessions, after this value is dropped.
#[derive(Clone)]
pub struct SessionThread {
    runtime: Handle,
    id: ThreadId,
    /// The thread ends when the last clone is dropped. `None` for a thread of the application.
    _keep: Option<mpsc::Sender<Infallible>>,
}

impl fmt::Debug for SessionThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionThread").field(&self.id).finish()
    }
}

impl SessionThread {
    /// Starts a thread.
    ///
    /// # Errors
    /// The system has no thread or no file descriptors left.
    ///
    /// ```
    /// let thread = zebu_client::SessionThread::start()?;
    /// # drop(thread);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (keep, mut kept) = mpsc::channel(1);
        let thread = thread::Builder::new().name("zebu-client".to_owned()).spawn(move || {
            let nothing: Option<Infallible> = runtime.block_on(kept.recv());
            assert!(nothing.is_none());
            // A silent resolver must not delay the shutdown.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, id: thread.thread().id(), _keep: Some(keep) })
    }

    /// The calling thread, for sessions that run on its runtime. Computations of the application on
    /// this thread delay the heartbeats. For programs of a single thread, and for tests that
    /// control the time.
    ///
    /// # Errors
    /// The caller is not inside a single-threaded runtime.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::with_server(async |server| {
    /// # let address = server.address().to_string();
    /// use zebu_client::{Connector, SessionThread};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # std::thread::spawn(move || runtime.block_on(async {
    /// let here = SessionThread::current()?;
    /// let client = Connector::new().on_thread(&here).connect(&address).await?;
    /// client.close().await?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })).join().unwrap().unwrap();
    /// # Ok(()) });
    /// ```
    pub fn current() -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return Err(io::Error::other("the caller's runtime has several threads"));
        }
        Ok(Self { runtime, id: thread::current().id(), _keep: None })
    }

    /// Runs a future on this thread, beside its sessions. If the future blocks or computes for
    /// long, it delays the heartbeats of the sessions.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let root = client.unowned();
    /// let children = client.thread().spawn(async move { root.get_children("/").await });
    /// assert_eq!(children.await??.0, ["zookeeper"]);
    /// # Ok(()) });
    /// ```
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(future)
    }

    /// Runs `act` within the thread's runtime.
    pub(crate) fn inside<T>(&self, act: impl FnOnce() -> T) -> T {
        let _inside = self.runtime.enter();
        act()
    }

    /// Lets the calling thread wait for a future that this thread drives.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Whether the caller is this thread.
    pub(crate) fn is_current(&self) -> bool {
        thread::current().id() == self.id
    }
}
