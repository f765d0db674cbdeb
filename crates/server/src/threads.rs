//! The threads of a server, and the order in which they end.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use zebu_admin::Running;
use zebu_engine::Inbox;

use crate::clients::workers::Workers;
use crate::disk::snapshotter::Snapshotter;
use crate::ensemble::peers::Peers;
use crate::error::StartError;
use crate::shared::{Disk, Shared, StopOnPanic};

/// The threads of a server that have started.
#[derive(Default)]
pub struct Threads {
    /// Serves commands and metrics over HTTP.
    pub http: Option<Running>,
    /// Carries out the TLS handshakes of clients.
    pub handshakes: Option<JoinHandle<()>>,
    /// Serve the connections of clients.
    pub workers: Option<Workers>,
    /// Asks other servers for damaged records of the log.
    pub repairer: Option<JoinHandle<()>>,
    /// The network between servers.
    pub peers: Option<Peers>,
    /// Drives the replica.
    pub replica: Option<JoinHandle<()>>,
    /// Writes the log.
    pub log: Option<JoinHandle<()>>,
    /// Removes old files.
    pub housekeeper: Option<JoinHandle<()>>,
    /// Reads the files again.
    pub scrubber: Option<JoinHandle<()>>,
    /// Takes snapshots.
    pub snapshotter: Option<Snapshotter>,
}

impl Threads {
    /// Ends the threads of a server that was asked to stop, those first that pass work to others.
    pub fn end(self, inbox: &Inbox, disk: &Disk) {
        drop(self.http);
        join(self.handshakes);
        if let Some(workers) = self.workers {
            workers.join();
        }
        // This thread waits for the network between servers, so it ends before that.
        join(self.repairer);
        if let Some(peers) = self.peers {
            peers.stop();
        }
        inbox.stop();
        join(self.replica);
        join(self.log);
        join(self.housekeeper);
        join(self.scrubber);
        if let Some(snapshotter) = self.snapshotter {
            snapshotter.join();
        }
        // A snapshot that a client has requested ends when the server stops.
        drop(disk.taking_snapshot.lock());
    }
}

/// Waits for a thread. A thread that panicked has reported it itself.
fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}

/// The threads of a server that is about to start. If the start fails, they end before it returns,
/// so the directory of the data is free again.
pub struct Starting {
    shared: Arc<Shared>,
    /// The threads that have started so far.
    pub threads: Threads,
    is_complete: bool,
}

impl Starting {
    /// No thread has started yet.
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), threads: Threads::default(), is_complete: false }
    }

    /// The start is complete.
    pub fn complete(mut self) -> Threads {
        self.is_complete = true;
        std::mem::take(&mut self.threads)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if !self.is_complete {
            self.shared.stop(Ok(()));
            std::mem::take(&mut self.threads).end(self.shared.inbox(), &self.shared.disk);
        }
    }
}

/// Starts a thread of the server. If it panics, the server stops.
///
/// # Errors
/// The system provides no further thread.
pub fn spawn(
    shared: &Arc<Shared>,
    name: &'static str,
    run: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    guarded(shared, name, name, run).map_err(|source| StartError::System { what: name, source })
}

/// Starts a thread called `name`. If it panics, the server stops, and `what` names the thread in
/// the message.
///
/// # Errors
/// The system provides no further thread.
pub fn guarded<T: Send + 'static>(
    shared: &Arc<Shared>,
    name: &str,
    what: &'static str,
    run: impl FnOnce(&Arc<Shared>) -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let shared = shared.clone();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = StopOnPanic::new(&shared, what);
        run(&shared)
    })
}
