//! A whole server: recovers its data, starts its threads, and stops them again.

mod data;
mod options;
mod ports;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{error, info, warn};
use zebu_engine::Mode;
use zebu_replica::Replica;
use zebu_replica::auth::{AuthProvider, Schemes};
use zebu_store::{Damage, Snapshots, TxnLog};

use crate::audit::Audit;
use crate::clients::secure::Handshakes;
use crate::clients::workers::Workers;
use crate::config::Config;
use crate::disk::journal::{self, Journal};
use crate::disk::repairer;
use crate::disk::scrubber;
use crate::disk::snapshotter::Snapshotter;
use crate::driver::{self, Driver};
use crate::ensemble::peers::{self, Peers};
use crate::error::StartError;
use crate::metrics::Metrics;
use crate::retiring;
use crate::sasl_mechanisms;
use crate::shared::{Clock, Failure, ReadHistory, Shared};
use crate::supervised::Watchdog;
use crate::threads::{Starting, Threads, spawn};
use data::{Continued, Data};
use options::schemes;
use ports::{Numbers, Ports};

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    threads: Option<Threads>,
    ports: Numbers,
}

impl Server {
    /// Recovers the data, binds the client port and starts to serve.
    ///
    /// `providers` are authentication schemes beside the built-in ones.
    ///
    /// # Errors
    /// The reason why it cannot start, as a message for its operator.
    pub fn start(
        config: Config,
        providers: Vec<Box<dyn AuthProvider>>,
    ) -> Result<Self, StartError> {
        // Providers from other crates may take long, so the network workers do not wait for them.
        let takes_time = !providers.is_empty();
        let schemes = Arc::new(schemes(&config, providers)?);
        let audit = config.audit.as_ref();
        let audit = audit.map(|file| Audit::start(file, schemes.clone())).transpose()?;
        let audit = audit.map(Arc::new);
        let started = Self::begin(config, schemes, takes_time, audit.clone());
        if let Some(audit) = audit {
            audit.started(started.is_ok());
        }
        started
    }

    /// Starts in phases: the data are recovered, the ports bound, the replica made, and the threads
    /// started.
    fn begin(
        config: Config,
        schemes: Arc<Schemes>,
        takes_time: bool,
        audit: Option<Arc<Audit>>,
    ) -> Result<Self, StartError> {
        let clock = Clock::start();
        let metrics = Metrics::default();
        let access = (schemes, sasl_mechanisms::for_clients(&config.auth.sasl)?);
        let data = Data::recover(&config, clock, &metrics)?;
        let bound = Ports::bind(&config)?;
        let Continued {
            mut replica,
            tree,
            log,
            snapshots,
            files,
            identity,
            damage,
            is_first,
            renews,
        } = data.carry_on(&config, clock.now())?;
        let ports = bound.numbers();
        let shared =
            Shared::new(config, tree, access, metrics, clock, snapshots.clone(), ports.clients);
        let shared = Arc::new(shared);
        if let Some(audit) = audit {
            audit.belongs_to(&shared);
            let _ = shared.audit.set(audit);
        }
        shared.common.set_identity(identity);
        let mut starting = Starting::new(&shared);
        let snapshotter = Snapshotter::new(snapshots);
        starting.threads.snapshotter = Some(snapshotter.clone());
        if is_first {
            snapshotter.take(&shared).map_err(StartError::FirstSnapshot)?;
        } else if renews {
            // Clients need not wait for it, because the files of the last start still exist.
            replica.snapshot_begun();
            snapshotter.start(&shared);
        }
        let takes_turns = !takes_time;
        let (driver, peers) =
            start_core(&shared, &mut starting, (replica, log, files, snapshotter), takes_turns)?;
        start_serving(&shared, &mut starting, bound, &driver, takes_turns)?;
        start_upkeep(&shared, &mut starting, damage.zip(peers))?;
        let threads = Some(starting.complete());
        Ok(Self { shared, threads, ports })
    }

    /// The bound client port.
    pub fn port(&self) -> Option<u16> {
        self.ports.clients
    }

    /// The bound client port for TLS.
    pub fn secure_port(&self) -> Option<u16> {
        self.ports.secure
    }

    /// The port of the HTTP admin server, if there is one.
    pub fn admin_port(&self) -> Option<u16> {
        self.ports.admin
    }

    /// The port of the Prometheus page, if there is one.
    pub fn metrics_port(&self) -> Option<u16> {
        self.ports.metrics
    }

    /// The port of the Prometheus page over TLS, if there is one.
    pub fn metrics_tls_port(&self) -> Option<u16> {
        self.ports.metrics_tls
    }

    /// Lets the console show the history of a znode. Only the first reader is used.
    pub fn read_history_with(&self, read: ReadHistory) {
        // A second reader changes nothing.
        let _ = self.shared.http.history.set(read);
    }

    /// Asks the server to stop.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        // The returned value does not keep the server's directory locked.
        let shared = Arc::downgrade(&self.shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                shared.ending.retiring.ask();
            }
        }
    }

    /// Feeds the watchdog of the supervisor, if there is one, until the returned value is dropped.
    ///
    /// # Errors
    /// The system provides no further thread.
    pub(crate) fn watchdog(&self) -> std::io::Result<Option<Watchdog>> {
        Watchdog::start(&self.shared)
    }

    /// Waits until the server is asked to stop or fails. Then it ends the server: it finishes
    /// requests in progress, lets another server lead if this one is the leader, closes
    /// connections, and makes all logged transactions durable.
    ///
    /// # Errors
    /// The failure that stopped the server.
    pub fn wait(mut self) -> Result<(), Failure> {
        self.shared.ending.retiring.wait_asked();
        self.end()
    }

    /// Stops the server, as [`Server::wait`] does once it is asked to.
    ///
    /// # Errors
    /// The failure that stopped the server, or a failure at the end.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.end()
    }

    /// Finishes the requests in progress, while all threads still run.
    fn retire(&self) {
        let most = self.shared.config.throttle.shutdown_timeout.min(retiring::TIME_MAX);
        let by = self.shared.clock.monotonic() + most;
        self.shared.inbox().push(zebu_replica::Input::Retire { by });
        // A replica that makes no progress does not report its deadline.
        self.shared.ending.retiring.wait_over(most + most / 4);
    }

    /// Ends all threads, those first that pass work to others.
    fn end(&mut self) -> Result<(), Failure> {
        if self.threads.is_some() {
            if let Some(audit) = self.shared.audit.get() {
                audit.stops();
            }
            self.retire();
        }
        self.shared.stop(Ok(()));
        if let Some(threads) = self.threads.take() {
            threads.end(self.shared.inbox(), &self.shared.disk);
            if let Some(audit) = self.shared.audit.get() {
                audit.close();
            }
        }
        self.shared.ending.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.threads.is_some()
            && let Err(failure) = self.end()
        {
            error!("stopping: {failure}");
        }
    }
}

/// Starts what decides and logs: the log's thread, the network between servers, and the replica's
/// thread.
fn start_core(
    shared: &Arc<Shared>,
    starting: &mut Starting,
    (replica, log, files, snapshotter): (Replica, TxnLog, journal::Files, Snapshotter),
    takes_turns: bool,
) -> Result<(Arc<Mutex<Driver>>, Option<peers::Handle>), StartError> {
    let (to_log, from_replica) = channel();
    let journal = Arc::new(Mutex::new(Journal::new(log)));
    let kept = journal.clone();
    let log = move |shared: &Arc<Shared>| journal::run(&kept, &from_replica, files, shared);
    starting.threads.log = Some(spawn(shared, "zebu-log", log)?);
    let ensemble = shared.config.ensemble.clone();
    let is_member = ensemble.is_some();
    let binding = replica.peer().and_then(|peer| peer.quorums().proposed().cloned());
    starting.threads.peers = ensemble
        .map(|ensemble| Peers::start(shared, ensemble, binding, takes_turns))
        .transpose()?;
    let peers = starting.threads.peers.as_ref().map(Peers::handle);
    let driver = Driver::new(shared.clone(), replica, journal, to_log, snapshotter, peers.clone());
    let driver = Arc::new(Mutex::new(driver));
    if takes_turns && is_member {
        shared.turns.allow(&driver);
    }
    let driven = driver.clone();
    let drives = move |shared: &Arc<Shared>| driver::run(&driven, shared);
    starting.threads.replica = Some(spawn(shared, "zebu-replica", drives)?);
    Ok((driver, peers))
}

/// Starts what serves clients and operators, on the bound ports.
fn start_serving(
    shared: &Arc<Shared>,
    starting: &mut Starting,
    Ports { clients, secure, handshakes, http }: Ports,
    driver: &Arc<Mutex<Driver>>,
    takes_turns: bool,
) -> Result<(), StartError> {
    let workers = Workers::start(shared, driver, takes_turns)?;
    if shared.config.ensemble.is_none() {
        shared.restoring.allow(driver);
        shared.serve(Some(Mode::Standalone));
    }
    let gate = handshakes.as_ref().map(Handshakes::gate);
    if let (Some(gate), Some(listener)) = (&gate, secure) {
        gate.listen(listener);
    }
    let tls = shared.config.client_tls.clone();
    if let Some(listener) = clients {
        let sorts = tls.as_ref().is_some_and(|tls| tls.is_unified);
        workers.listen(listener, gate.filter(|_| sorts));
    }
    let arrivals = workers.arrivals();
    starting.threads.workers = Some(workers);
    starting.threads.handshakes = handshakes
        .zip(tls)
        .map(|(handshakes, tls)| {
            spawn(shared, "zebu-tls", move |shared| handshakes.run(shared, &tls, arrivals))
        })
        .transpose()?;
    starting.threads.http = http.serve(shared)?;
    Ok(())
}

/// Starts what nobody waits for: the scrub, the repair of damaged logs, and the removal of old
/// files.
fn start_upkeep(
    shared: &Arc<Shared>,
    starting: &mut Starting,
    damage: Option<(Damage, peers::Handle)>,
) -> Result<(), StartError> {
    let snapshots = shared.disk.snapshots.clone();
    let files = snapshots.logs();
    let scrubbed = snapshots.clone();
    let scrubs = move |shared: &Arc<Shared>| scrubber::run(shared, &scrubbed);
    starting.threads.scrubber = Some(spawn(shared, "zebu-scrub", scrubs)?);
    let repair = |(damage, peers)| {
        spawn(shared, "zebu-repair", move |shared| repairer::run(shared, &files, &damage, &peers))
    };
    starting.threads.repairer = damage.map(repair).transpose()?;
    let purges = move |shared: &Arc<Shared>| purge(shared, &snapshots);
    starting.threads.housekeeper = Some(spawn(shared, "zebu-purge", purges)?);
    Ok(())
}

/// Removes old files at the configured interval, for the first time at once.
fn purge(shared: &Shared, snapshots: &Snapshots) {
    let Some(interval) = shared.config.purge.interval else { return };
    crate::disk::step_back();
    let mut due = Instant::now();
    while !shared.ending.is_stopping() {
        if Instant::now() >= due {
            due = Instant::now() + interval;
            let pace =
                &mut scrubber::pace(&shared.ending, shared.clock, shared.config.scrub.as_ref());
            match snapshots.purge(shared.config.purge.snapshots_kept as usize, pace) {
                Ok(purged) => {
                    info!("purge task completed: {purged:?}");
                    for rotten in &purged.damaged {
                        warn!("purge task: {rotten}");
                    }
                }
                Err(failure) => error!("purge task failed: {failure}"),
            }
        }
        shared
            .ending
            .wait_for(due.saturating_duration_since(Instant::now()).min(Duration::from_secs(60)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use zebu_testkit::connection::{Connection, Hello, Reply};
    use zebu_testkit::wire::{Writer, framed_request, op};

    use super::*;

    /// A request that finds no znode.
    fn ask(xid: i32) -> Vec<u8> {
        let path = Writer::new().string("/none");
        match xid % 3 {
            0 => framed_request(xid, op::DELETE, path.int(-1).bytes()),
            _ => framed_request(xid, op::EXISTS, path.bool(false).bytes()),
        }
    }

    #[test]
    fn a_connection_changes_its_worker_and_nobody_notices() {
        const ROUNDS: i32 = 300;
        const IN_A_ROUND: i32 = 16;
        if crate::clients::workers::count() < 2 {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(Config::embedded(dir.path()), Vec::new()).unwrap();
        let mut client = Connection::local(server.port().unwrap()).unwrap();
        client.send(&Hello::default().bytes()).unwrap();
        client.frame().unwrap();
        let first = server.shared.conns().all()[0].side.worker.load(Ordering::Relaxed);
        for round in 0..ROUNDS {
            let xids = round * IN_A_ROUND..(round + 1) * IN_A_ROUND;
            let frames: Vec<u8> = xids.clone().flat_map(ask).collect();
            // The bytes end within the frame, so the next worker continues in its middle.
            let (now, later) = frames.split_at(frames.len() / 2 + 3);
            client.send_bytes(now).unwrap();
            let conn = server.shared.conns().all().remove(0);
            conn.side.worker.fetch_xor(1, Ordering::Relaxed);
            conn.wake();
            client.send_bytes(later).unwrap();
            for xid in xids {
                let reply = Reply::parse(&client.frame().unwrap()).unwrap();
                assert_eq!(reply.xid, xid, "round {round}");
            }
        }
        let conn = server.shared.conns().all().remove(0);
        assert_eq!(conn.side.worker.load(Ordering::Relaxed), first);
        assert_eq!(
            conn.side.stats.received.load(Ordering::Relaxed),
            1 + (ROUNDS * IN_A_ROUND) as u64
        );
        drop(client);
        while server.shared.conns().count() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
